"""What `as_dissimilarity` promises: squares, labels, one line of refusal, no side effect."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import skbio
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import pdist, squareform
from threadpoolctl import threadpool_limits

from neucmds._backend import arrays
from neucmds._input import as_dissimilarity, tiles
from neucmds.errors import InputError

NAMES = ("ant", "bee", "cat", "dog")
SMALL = np.array([[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]], dtype=np.float64)
SMALL.flags.writeable = False


def distances(n: int, seed: int = 0) -> np.ndarray:
    return squareform(pdist(np.random.default_rng(seed).normal(size=(n, 3))))


def signed(n: int, seed: int = 0) -> np.ndarray:
    half = np.random.default_rng(seed).normal(size=(n, n))
    return np.triu(half, 1) + np.triu(half, 1).T


@pytest.fixture(params=[2, 3, 256], ids="tile{}".format)
def tile(request, monkeypatch):
    """Small tiles, so that small matrices have edges, corners and mirrored tiles."""
    monkeypatch.setattr(tiles, "NUMPY_TILE", request.param)
    monkeypatch.setattr(tiles, "DEVICE_TILE", request.param)
    return request.param


def refusal(data, **options) -> str:
    with pytest.raises(InputError) as caught:
        as_dissimilarity(data, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# What comes out


DTYPES = {
    "float64": "float64",
    ">f8": "float64",
    "longdouble": "float64",
    "float32": "float32",
    "float16": "float32",
    "int64": "float64",
    "uint8": "float64",
}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(DTYPES)), st.sampled_from("CF"), st.booleans(), st.integers(1, 5))
def test_every_dtype_is_squared_in_a_float_of_its_own(dtype, order, writeable, side):
    D = SMALL.astype(dtype, order=order)
    D.flags.writeable = writeable
    before = D.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "NUMPY_TILE", side)
        found = {squared: as_dissimilarity(D, squared=squared).values for squared in (True, False)}
    assert all(values.dtype == np.dtype(DTYPES[dtype]) for values in found.values())
    np.testing.assert_array_equal(found[False], SMALL**2)
    np.testing.assert_array_equal(found[True], SMALL)
    np.testing.assert_array_equal(D, before)


def test_booleans_count_as_zero_and_one():
    D = ~np.eye(3, dtype=bool)
    np.testing.assert_array_equal(as_dissimilarity(D).values, D.astype(float))


CONTAINERS = {
    "list": lambda: (SMALL.tolist(), None),
    "tuple of ints": lambda: (tuple(map(tuple, SMALL.astype(int).tolist())), None),
    "condensed": lambda: (squareform(SMALL), None),
    "condensed list": lambda: (squareform(SMALL).tolist(), None),
    "condensed ints": lambda: (squareform(SMALL).astype(int), None),
    "matrix": lambda: (scipy.sparse.csr_matrix(SMALL).todense(), None),
    "strided": lambda: (np.repeat(np.repeat(SMALL, 2, 0), 2, 1)[::2, ::2], None),
    "frame": lambda: (pd.DataFrame(SMALL, NAMES, NAMES), NAMES),
    "frame of ints": lambda: (pd.DataFrame(SMALL.astype(int), NAMES, NAMES), NAMES),
    "nullable frame": lambda: (pd.DataFrame(SMALL, NAMES, NAMES).convert_dtypes(), NAMES),
    "unlabelled frame": lambda: (pd.DataFrame(SMALL), None),
    "skbio": lambda: (skbio.DistanceMatrix(SMALL, NAMES), NAMES),
    "masked, nothing masked": lambda: (np.ma.masked_array(SMALL.copy()), None),
    "strict": lambda: (array_api_strict.asarray(SMALL.copy()), None),
    "strict condensed": lambda: (array_api_strict.asarray(squareform(SMALL)), None),
}


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_matrix(name, copy, tile):
    data, labels = CONTAINERS[name]()
    result = as_dissimilarity(data, copy=copy)
    np.testing.assert_array_equal(arrays.to_numpy(result.values), SMALL**2)
    assert result.labels == labels
    assert result.n == 4
    if copy or name not in ("strict", "masked, nothing masked", "matrix"):  # whole arrays
        again = as_dissimilarity(data, squared=True)
        np.testing.assert_array_equal(arrays.to_numpy(again.values), SMALL)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_other_libraries_keep_their_arrays(dtype, tile):
    D = array_api_strict.asarray(SMALL, dtype=getattr(array_api_strict, dtype))
    values = as_dissimilarity(D).values
    assert arrays.namespace(values) is array_api_strict
    assert str(values.dtype).endswith("float32" if dtype == "float32" else "float64")
    np.testing.assert_array_equal(np.asarray(D), SMALL)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64"])
def test_torch_tensors_stay_tensors(dtype, tile):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    D = torch.tensor(SMALL.tolist(), dtype=getattr(torch, dtype))
    values = as_dissimilarity(D).values
    assert values.dtype == (torch.float64 if dtype in ("float64", "int64") else torch.float32)
    np.testing.assert_array_equal(values.numpy(), SMALL**2)
    D[0, 2] += 1
    assert "largest gap 1 at (0, 2)" in refusal(D)


def test_a_checked_matrix_passes_through_and_can_be_renamed():
    first = as_dissimilarity(SMALL, labels=NAMES)
    assert as_dissimilarity(first) is first
    renamed = as_dissimilarity(first, labels="abcd")
    assert renamed.labels == tuple("abcd")
    assert renamed.values is first.values


@settings(max_examples=50, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.integers(1, 9).map(lambda n: n * (n + 1) // 2),
        elements=st.just(0.0) | st.floats(1e-44, 1e44),
    )
)
def test_condensed_and_square_agree_with_scipy(condensed):
    expected = squareform(condensed) ** 2
    np.testing.assert_array_equal(as_dissimilarity(condensed).values, expected)
    np.testing.assert_array_equal(as_dissimilarity(squareform(condensed)).values, expected)


# Memory


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_squares_are_written_in_place_only_when_allowed(dtype, order, tile):
    D = SMALL.astype(dtype, order=order)
    assert not np.shares_memory(as_dissimilarity(D).values, D)
    D.flags.writeable = False
    assert not np.shares_memory(as_dissimilarity(D, copy=False).values, D)
    np.testing.assert_array_equal(D, SMALL)
    D.flags.writeable = True
    assert as_dissimilarity(D, copy=False).values is D
    np.testing.assert_array_equal(D, SMALL**2)


@pytest.mark.parametrize("copy", [True, False])
def test_squared_floats_are_neither_copied_nor_changed(copy, tile):
    D = signed(7)
    D[1, 1] = 1e-12
    before = D.copy()
    result = as_dissimilarity(D, squared=True, copy=copy)
    assert np.shares_memory(result.values, D)
    np.testing.assert_array_equal(D, before)


def peak_memory(**options):
    """Temporaries are a few tiles a thread, 10 MB on two: small against the 72 MB of D."""
    with threadpool_limits(2):
        tracemalloc.start()
        as_dissimilarity(**options)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def test_a_copy_is_the_only_matrix_sized_array_made(tmp_path):
    D = distances(3000)
    np.save(tmp_path / "D.npy", D)
    mapped = np.load(tmp_path / "D.npy", mmap_mode="r")
    assert peak_memory(data=mapped, squared=True) < D.nbytes / 4
    assert peak_memory(data=D) < 1.25 * D.nbytes
    assert peak_memory(data=D, copy=False) < D.nbytes / 4


# Symmetry and diagonal


def spoiled(D, *changes):
    D = D.copy()
    for i, j, value in changes:
        D[i, j] = value
    return D


LOWEST = np.unravel_index(np.argmin(np.triu(signed(6))), (6, 6))
REFUSED = {
    "asymmetric": (
        spoiled(np.ones((9, 9)) - np.eye(9), (4, 7, 1.031), (7, 2, 1.01)),
        {"labels": "abcdefghi"},
        "D is not symmetric: largest gap 0.031 at (4, 7), 'e' and 'h'; pass symmetrize=True to",
    ),
    "diagonal": (spoiled(distances(5), (3, 3, -0.25)), {}, "-0.25 at (3, 3)"),
    "negative": (signed(6), {}, f"{signed(6).min():.4g} at ({LOWEST[0]}, {LOWEST[1]}); pass squ"),
    "negative below": (spoiled(np.abs(signed(6)), (5, 1, -3)), {"symmetrize": True}, "(5, 1)"),
    "infinite": (
        spoiled(signed(6), (1, 4, np.inf), (4, 1, -np.inf)),
        {"squared": True, "missing": "ignore"},
        "2 infinite entries, the first at (1, 4)",
    ),
    "missing": (
        spoiled(distances(6), (2, 5, np.nan), (5, 2, np.nan), (3, 4, np.nan), (4, 3, np.nan)),
        {},
        "4 missing (NaN) entries, the first at (2, 5); pass missing='ignore'",
    ),
    "one missing": (spoiled(distances(6), (5, 0, np.nan)), {}, "1 missing (NaN) entry, at (5, 0);"),
    "missing on one side": (
        spoiled(distances(6), (5, 2, np.nan)),
        {"missing": "ignore"},
        "(5, 2) but not at (2, 5)",
    ),
    "asymmetric beside a gap": (
        spoiled(distances(6), (5, 2, np.nan), (2, 5, np.nan), (0, 4, 9.0)),
        {"missing": "ignore"},
        "at (0, 4); pass symmetrize=True",
    ),
    "missing diagonal": (
        spoiled(distances(6), (3, 3, np.nan)), {"missing": "ignore"}, "diagonal, first at (3, 3)"
    ),
    "gap in a triangle": (
        spoiled(np.tril(distances(7)), (5, 2, np.nan)),
        {"symmetrize": True},
        "1 missing (NaN) entry, at (5, 2)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_a_bad_entry_is_counted_placed_and_left_as_it_was(case, xp, tile):
    D, options, said = REFUSED[case]
    given_array = xp.asarray(D.copy())
    assert said in refusal(given_array, copy=False, **options)
    np.testing.assert_array_equal(np.asarray(given_array), D)


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-5), ("float64", 1e-10)])
def test_rounding_is_no_asymmetry_but_more_is(dtype, rounding, tile):
    D = 1000 * distances(9)
    for factor, fine in ((1, True), (1000, False)):
        E = D.copy()
        E[7, 1] += factor * rounding * D.max()
        if fine:
            as_dissimilarity(E.astype(dtype))
        else:
            assert "not symmetric" in refusal(E.astype(dtype))


@pytest.mark.parametrize("xp", [np, array_api_strict])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("squared", [True, False])
def test_symmetrize_averages_on_the_scale_given(squared, copy, xp, tile):
    D = np.abs(np.random.default_rng(0).normal(size=(7, 7)))
    np.fill_diagonal(D, 0)
    mean = (D + D.T) / 2
    given_array = xp.asarray(D.copy())
    result = as_dissimilarity(given_array, symmetrize=True, squared=squared, copy=copy)
    np.testing.assert_allclose(np.asarray(result.values), mean if squared else mean**2, rtol=1e-15)
    if copy:
        np.testing.assert_array_equal(np.asarray(given_array), D)


def test_a_tiny_diagonal_becomes_zero_in_copies_only(tile):
    D = distances(5)
    D[3, 3] = 1e-10
    assert as_dissimilarity(D).values[3, 3] == 0
    assert D[3, 3] == 1e-10


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(2, 12))
def test_the_worst_gap_is_always_found(data, n):
    D = signed(n, seed=n)
    i, j = data.draw(st.permutations(range(n)).map(lambda p: p[:2]))
    D[i, j] += 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "NUMPY_TILE", data.draw(st.integers(1, 13)))
        message = refusal(D, squared=True)
    assert f"largest gap 10 at ({min(i, j)}, {max(i, j)});" in message


# Negative, infinite, missing


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_missing_pairs_are_kept_when_ignored(xp, tile):
    D = distances(6)
    D[2, 5] = D[5, 2] = np.nan
    values = np.asarray(as_dissimilarity(xp.asarray(D), missing="ignore").values)
    np.testing.assert_array_equal(values, D**2)


def test_masked_entries_are_missing_pairs():
    mask = np.zeros((4, 4), bool)
    mask[0, 1] = mask[1, 0] = True
    D = np.ma.masked_array(SMALL.astype(int), mask)
    assert "2 missing" in refusal(D)
    np.testing.assert_array_equal(
        as_dissimilarity(D, missing="ignore").values, np.where(mask, np.nan, SMALL**2)
    )


def test_a_pair_missing_on_one_side_is_filled(tile):
    D = distances(6)
    full = D.copy()
    D[5, 2] = np.nan
    D[1, 3] = D[3, 1] = np.nan
    full[1, 3] = full[3, 1] = np.nan
    for copy in (True, False):
        filled = as_dissimilarity(D.copy(), missing="ignore", symmetrize=True, copy=copy)
        np.testing.assert_allclose(filled.values, full**2)


@pytest.mark.parametrize("empty", [0.0, np.nan])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("xp", [np, array_api_strict])
@pytest.mark.parametrize("half", ["lower", "upper"])
def test_a_triangle_is_named_or_mirrored_but_never_halved(half, xp, copy, empty, tile):
    D = distances(7)
    dead = np.triu(np.ones((7, 7), bool), 1)
    dead = dead if half == "lower" else dead.T
    message = refusal(np.where(dead, empty, D))
    other = "above" if half == "lower" else "below"
    content = "zero" if empty == 0 else "missing (NaN)"
    assert f"D is a {half} triangle: all entries {other} the diagonal are {content};" in message
    assert "symmetrize=True" in message
    given_array = xp.asarray(np.where(dead, empty, D))
    mirrored = as_dissimilarity(given_array, symmetrize=True, copy=copy)
    np.testing.assert_array_equal(np.asarray(mirrored.values), D**2)


def test_a_gap_in_the_half_that_counts_is_missing(tile):
    D = np.tril(distances(7))
    D[5, 2] = np.nan
    filled = as_dissimilarity(D, symmetrize=True, missing="ignore").values
    expected = distances(7)
    expected[5, 2] = expected[2, 5] = np.nan
    np.testing.assert_array_equal(filled, expected**2)


@pytest.mark.parametrize(
    ("similarity", "conversion"),
    [
        (np.exp(-distances(6)), "pass 1 - S or sqrt(s_ii + s_jj - 2 s_ij)"),
        (100 * np.exp(-distances(6)), "pass 100 - S or sqrt(s_ii + s_jj - 2 s_ij)"),
        (np.corrcoef(signed(6)), "pass 1 - S or sqrt(s_ii + s_jj - 2 s_ij)"),
        (np.cov(signed(6)), "pass sqrt(s_ii + s_jj - 2 s_ij)"),
    ],
    ids=["kernel", "percent", "correlation", "covariance"],
)
def test_similarities_are_recognised_and_the_conversion_named(similarity, conversion, tile):
    message = refusal(similarity)
    assert conversion in message
    squared = np.add.outer(np.diag(similarity), np.diag(similarity)) - 2 * similarity
    as_dissimilarity(np.sqrt(np.abs(squared)))


@pytest.mark.parametrize(
    ("size", "squared", "said"),
    [
        (1e200, False, "too large: the largest entry is 1e+200 at (0, 1)"),
        (7e153, False, "too large"),
        (2e76, False, "sums of its powers overflow; divide by 1e76."),
        (1e152, True, "overflow; divide by 1e152"),
        (1e-80, False, "too small: the largest entry is 1e-80 at (0, 1)"),
        (1e-150, True, "underflow; divide by 1e-150"),
    ],
)
def test_what_leaves_the_range_of_stress_is_refused(size, squared, said):
    D = np.array([[0, size], [size, 0]])
    assert said in refusal(D, squared=squared)
    as_dissimilarity(D / size, squared=squared)


@pytest.mark.parametrize("size", [1e-25, 1e-22, 1e19, 1e30])
@pytest.mark.parametrize("symmetrize", [True, False])
@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_float32_is_squared_in_float64_where_its_own_squares_would_be_lost(xp, symmetrize, size):
    D = (distances(6) * size).astype(np.float32)
    values = as_dissimilarity(xp.asarray(D), symmetrize=symmetrize, copy=False).values
    assert values.dtype == xp.float64
    np.testing.assert_allclose(np.asarray(values), distances(6) ** 2 * size**2, rtol=1e-5)


def test_float32_stays_float32_over_thirty_powers_of_ten():
    for size in (1e-15, 1, 1e15):
        assert as_dissimilarity((distances(6) * size).astype(np.float32)).values.dtype == np.float32


# Shapes, dtypes, labels


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (np.zeros((3, 4)), "3 × 4"),
        (np.zeros((2, 2, 2)), "2 × 2 × 2"),
        (np.float64(3), "single number"),
        (np.zeros((1, 1)), "at least 2"),
        (np.zeros((0, 0)), "at least 2"),
        (np.zeros(0), "n(n-1)/2"),
        (np.zeros(7), "4 objects have 6, 5 have 10"),
        ([[0, 1], [1]], "equal length"),
        ([[0, "x"], ["x", 0]], "not a real number"),
        ([[0, None], [None, 0]], "None (NoneType)"),
        (SMALL.astype(complex), "complex"),
        (SMALL.astype(object) + 1j, "not a real number"),
        (SMALL.astype("datetime64[s]"), "datetime64"),
        (scipy.sparse.csr_array(SMALL), "square array"),
        (pd.DataFrame({"a": [0, "x"], "b": ["x", 0]}, ["a", "b"]), "not numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_matrix_is_refused(data, said):
    assert said in refusal(data)


def test_labels_go_with_the_objects():
    assert as_dissimilarity(SMALL, labels=[1, 2, "x", 4]).labels == ("1", "2", "x", "4")
    frame = pd.DataFrame(SMALL, NAMES, NAMES)
    assert as_dissimilarity(frame, labels="abcd").labels == tuple("abcd")
    assert "4 objects but 3 labels" in refusal(SMALL, labels="abc")
    assert "'b' names objects 1 and 3" in refusal(SMALL, labels="abcb")
    assert "'a' names objects 0 and 1" in refusal(pd.DataFrame(SMALL, list("aacd"), list("aacd")))


def test_a_frame_is_not_reordered_silently():
    frame = pd.DataFrame(SMALL, NAMES, NAMES)
    assert "another order" in refusal(frame[list(reversed(NAMES))])
    assert "column 1 'ant' and row 1 '0'" in refusal(frame.reset_index(drop=True))


def test_integer_index_and_text_columns_agree_as_text():
    numbers = [7, 8, 9, 10]
    frame = pd.DataFrame(SMALL, numbers, [str(i) for i in numbers])
    assert as_dissimilarity(frame).labels == ("7", "8", "9", "10")


def test_unknown_options_are_refused():
    assert "missing='drop'" in refusal(SMALL, missing="drop")


# Files


def test_a_path_is_read(tmp_path):
    np.savez(tmp_path / "D.npz", D=SMALL, names=np.array(NAMES))
    np.save(tmp_path / "D.npy", SMALL)
    for path in (tmp_path / "D.npz", str(tmp_path / "D.npz")):
        result = as_dissimilarity(path)
        np.testing.assert_array_equal(result.values, SMALL**2)
        assert result.labels == NAMES
    np.testing.assert_array_equal(as_dissimilarity(tmp_path / "D.npy", copy=False).values, SMALL**2)
    np.testing.assert_array_equal(np.load(tmp_path / "D.npy"), SMALL)


def test_real_files_are_read_or_refused_for_a_reason():
    data = Path(os.environ.get("NEUCMDS_DATA", Path(__file__).parents[3] / "shared" / "data"))
    files = sorted((data / "dissimilarities").glob("*.npz"))
    if not files:
        pytest.skip("no real dissimilarities: set NEUCMDS_DATA to the folder that holds them")
    for file in files:
        if "asym" in file.name:
            assert "not symmetric" in refusal(file)
        else:
            result = as_dissimilarity(file)
            with np.load(file) as held:
                np.testing.assert_array_equal(result.values, held["D"] ** 2)
                assert result.labels == (tuple(held["names"].tolist()) if "names" in held else None)
