"""What `as_squares` promises: squares, labels, one line of refusal, no side effect."""

import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from threadpoolctl import threadpool_limits

from neucmds import neuc_mds
from neucmds.backend import arrays
from neucmds.errors import InputError
from neucmds.problem.containers import as_objects, as_real, named_features
from neucmds.problem.dense import as_squares

NAMES = ("ant", "bee", "cat", "dog")
SMALL = np.array(
    [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]], dtype=np.float64
)
SMALL.flags.writeable = False


def distances(n: int, seed: int = 0) -> np.ndarray:
    return squareform(pdist(np.random.default_rng(seed).normal(size=(n, 3))))


def signed(n: int, seed: int = 0) -> np.ndarray:
    half = np.random.default_rng(seed).normal(size=(n, n))
    return np.triu(half, 1) + np.triu(half, 1).T


@pytest.fixture(autouse=True)
def small_tiles(request, monkeypatch):
    """Small matrices have edges, corners and mirrored tiles."""
    if "memory" not in request.node.name:
        monkeypatch.setattr(arrays, "CACHED_ELEMENTS", 4)
        monkeypatch.setattr(arrays, "DEVICE_ELEMENTS", 9)


LIBRARIES = st.sampled_from([np, array_api_strict])


@contextmanager
def drawn_tiles(data):
    """Tiles of any side, in every library."""
    side = data.draw(
        st.sampled_from([1, 2, 3, 5, 256]), label="side of a tile"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "CACHED_ELEMENTS", side**2)
        patch.setattr(arrays, "DEVICE_ELEMENTS", side**2)
        yield


def refusal(data, **options) -> str:
    with pytest.raises(InputError) as caught:
        as_squares(data, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# What comes out


DTYPES = {
    **dict.fromkeys(
        ("float64", ">f8", "longdouble", "int64", "uint8", "bool"), "float64"
    ),
    **dict.fromkeys(("float32", "float16"), "float32"),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_squared_in_a_float_of_its_own(dtype):
    D = SMALL.astype(
        dtype, order="F" if dtype in ("float64", "uint8") else "C"
    )
    D.flags.writeable = False
    for squared, expected in (
        (True, D.astype(np.float64)),
        (False, D.astype(np.float64) ** 2),
    ):
        found = as_squares(D, squared=squared)[0]
        assert found.dtype == np.dtype(DTYPES[dtype])
        np.testing.assert_array_equal(found, expected)


CONTAINERS = {
    "list": lambda: (SMALL.tolist(), None),
    "tuple of ints": lambda: (tuple(map(tuple, SMALL.astype(int).tolist())), None),
    "condensed": lambda: (squareform(SMALL), None),
    "condensed ints": lambda: (squareform(SMALL).astype(int).tolist(), None),
    "matrix": lambda: (scipy.sparse.csr_matrix(SMALL).todense(), None),
    "strided": lambda: (np.repeat(np.repeat(SMALL, 2, 0), 2, 1)[::2, ::2], None),
    "frame of ints": lambda: (pd.DataFrame(SMALL.astype(int), NAMES, NAMES), NAMES),
    "nullable frame": lambda: (pd.DataFrame(SMALL, NAMES, NAMES).convert_dtypes(), NAMES),
    "numbered frame": lambda: (pd.DataFrame(SMALL, [6, 7, 8, 9], [*"6789"]), tuple("6789")),
    "unlabelled frame": lambda: (pd.DataFrame(SMALL), None),
    "skbio": lambda: (pytest.importorskip("skbio").DistanceMatrix(SMALL, NAMES), NAMES),
    "masked, nothing masked": lambda: (np.ma.masked_array(SMALL.copy()), None),
    "strict": lambda: (array_api_strict.asarray(SMALL.copy()), None),
    "strict condensed": lambda: (array_api_strict.asarray(squareform(SMALL)), None),
}  # fmt: skip


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_matrix_in_its_library(name, copy):
    data, labels = CONTAINERS[name]()
    again, _ = as_squares(data, squared=True)
    np.testing.assert_array_equal(arrays.to_numpy(again), SMALL)
    result, found = as_squares(data, copy=copy)
    np.testing.assert_array_equal(arrays.to_numpy(result), SMALL**2)
    assert found == labels
    assert arrays.namespace(result) is arrays.namespace(again)
    assert (arrays.namespace(result) is array_api_strict) == name.startswith(
        "strict"
    )


# Memory


@settings(max_examples=40, deadline=None)
@given(
    st.data(),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from("CF"),
    st.booleans(),
)
def test_squares_are_written_in_place_only_when_allowed(
    data, dtype, order, copy
):
    D = signed(7).astype(dtype, order=order)
    before = D.copy()
    with drawn_tiles(data):
        kept = as_squares(D, squared=True, copy=copy)[0]
        assert np.shares_memory(kept, D)
        D = np.abs(D)
        D[1, 1] = 1e-9
        assert not np.shares_memory(as_squares(D)[0], D)
        D.flags.writeable = False
        squares = as_squares(D, copy=False)[0]
        assert not np.shares_memory(squares, D)
        assert squares[1, 1] == 0
        D.flags.writeable = True
        assert as_squares(D, copy=False)[0] is D
    np.testing.assert_array_equal(kept, before)
    np.testing.assert_array_equal(D, squares)


@pytest.mark.parametrize("squared", [False, True])
def test_a_diagonal_of_rounding_counts_as_zero(squared):
    D = distances(6).astype(np.float32)
    rounded = D + np.float32(1e-4) * np.eye(6, dtype=np.float32)
    before = rounded.copy()
    exact = neuc_mds(D, 2, method="neuc", squared=squared)
    result = neuc_mds(rounded, 2, method="neuc", squared=squared)
    assert result.stress == exact.stress
    np.testing.assert_array_equal(rounded, before)


def peak_memory(**options):
    """Temporaries are a few tiles a thread, 10 MB on two: small against the 72 MB of D."""
    with threadpool_limits(2):
        tracemalloc.start()
        as_squares(**options)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_a_copy_is_all_the_memory_that_is_taken(tmp_path):
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


REFUSED = {
    "negative below": (spoiled(np.abs(signed(6)), (5, 1, -3)), {"symmetrize": True}, "(5, 1)"),
    "infinite": (spoiled(signed(6), (1, 4, np.inf)), {"squared": True}, "1 infinite entries"),
    "missing on one side": (
        spoiled(distances(6), (5, 2, np.nan)), {"missing": "ignore"}, "missing (NaN) at (2, 5)"
    ),
    "asymmetric beside a gap": (
        spoiled(distances(6), (5, 2, np.nan), (2, 5, np.nan), (0, 4, 9.0)),
        {"missing": "ignore"},
        "at (0, 4); pass (D + D.T) / 2",
    ),
    "triangle": (np.tril(distances(7)), {"symmetrize": True}, "D is a triangle"),
}  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.data(), st.integers(2, 12), st.sampled_from([np.float32, np.float64])
)
def test_the_worst_gap_is_found_and_rounding_is_none(data, n, dtype):
    D = signed(n, seed=n)
    rounding = 0.01 * np.sqrt(np.finfo(dtype).eps) * np.abs(D).max()
    i, j = data.draw(st.permutations(range(n)).map(lambda p: p[:2]))
    with drawn_tiles(data):
        D[i, j] += rounding
        as_squares(D.astype(dtype), squared=True)
        plain = np.abs(D).astype(
            dtype
        )  # and what rounding left is kept to the last bit
        np.testing.assert_array_equal(as_squares(plain)[0], plain**2)
        D[i, j] += 10
        message = refusal(D.astype(dtype), squared=True)
    assert f"largest gap 10 at ({min(i, j)}, {max(i, j)});" in message


@settings(max_examples=60, deadline=None)
@given(st.data(), LIBRARIES, st.booleans(), st.booleans())
def test_symmetrize_averages_and_fills_on_the_scale_given(
    data, xp, squared, copy
):
    D = np.abs(np.random.default_rng(0).normal(size=(7, 7)))
    np.fill_diagonal(D, 0)
    expected = (D + D.T) / 2
    if data.draw(st.booleans(), label="gaps"):
        D[5, 2] = D[1, 3] = D[3, 1] = np.nan
        expected[1, 3] = expected[3, 1] = np.nan
        expected[5, 2] = expected[2, 5] = D[2, 5]
    array, options = (
        xp.asarray(D.copy()),
        {"symmetrize": True, "missing": "ignore"},
    )
    with drawn_tiles(data):
        result, _ = as_squares(array, squared=squared, copy=copy, **options)
    expected = expected if squared else expected**2
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-15)
    if copy:
        np.testing.assert_array_equal(np.asarray(array), D)


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_a_triangle_beside_missing_entries_is_mirrored(xp):
    D = distances(7)
    half = xp.asarray(np.where(np.tri(7, dtype=bool), D, np.nan))
    assert "one of two mirrored" in refusal(half)
    found = as_squares(half, symmetrize=True)[0]
    np.testing.assert_array_equal(np.asarray(found), D**2)


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_a_bad_entry_is_counted_placed_and_left_as_it_was(case, xp):
    D, options, said = REFUSED[case]
    given_array = xp.asarray(D.copy())
    assert said in refusal(given_array, copy=False, **options)
    np.testing.assert_array_equal(np.asarray(given_array), D)


# Missing pairs, similarities, range


def test_missing_and_masked_pairs_are_kept_when_ignored():
    mask = np.zeros((4, 4), bool)
    mask[0, 1] = mask[1, 0] = True
    gaps = np.where(mask, np.nan, SMALL)
    for D in (
        np.ma.masked_array(SMALL.astype(int), mask),
        gaps,
        array_api_strict.asarray(gaps),
    ):
        assert "2 missing" in refusal(D)
        found = np.asarray(as_squares(D, missing="ignore")[0])
        np.testing.assert_array_equal(found, gaps**2)


@pytest.mark.parametrize(
    "similarity",
    [
        np.exp(-distances(6)),
        np.corrcoef(signed(6)),
        np.cov(signed(6)),
    ],
    ids=["kernel", "correlation", "covariance"],
)
def test_similarities_are_recognised_and_the_conversion_named(similarity):
    assert "convert it: pass sqrt(s_ii + s_jj - 2 s_ij)." in refusal(
        similarity
    )


@settings(max_examples=30, deadline=None)
@given(
    LIBRARIES,
    st.booleans(),
    st.sampled_from([1e-25, 1e-22, 1e-15, 1, 1e15, 1e19, 1e30]),
)
def test_float32_is_squared_in_float64_where_its_own_squares_would_be_lost(
    xp, symmetrize, size
):
    D = (distances(6) * size).astype(np.float32)
    values = as_squares(xp.asarray(D), symmetrize=symmetrize, copy=False)[0]
    assert values.dtype == (
        xp.float32 if 1e-15 <= size <= 1e15 else xp.float64
    )
    np.testing.assert_allclose(
        np.asarray(values), distances(6) ** 2 * size**2, rtol=1e-5
    )


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
        (np.zeros(7), "for no n; pass all pairs once"),
        ([[0, 1], [1]], "inhomogeneous shape"),
        ([[0, "x"], ["x", 0]], "not a real number"),
        ([[0, None], [None, 0]], "2 missing (NaN) entries"),
        (SMALL.astype(complex), "complex"),
        (SMALL.astype(object) + 1j, "are not numbers"),
        (SMALL.astype("datetime64[s]"), "datetime64"),
        (scipy.sparse.csr_array(SMALL), "square array"),
        (
            pd.DataFrame({"a": [0, "x"], "b": ["x", 0]}, ["a", "b"]),
            "not numbers",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_matrix_is_refused(data, said):
    assert said in refusal(data)


def test_labels_go_with_the_objects():
    assert as_squares(SMALL, labels=[1, 2, "x", 4])[1] == ("1", "2", "x", "4")
    frame = pd.DataFrame(SMALL, NAMES, NAMES)
    assert as_squares(frame, labels="abcd")[1] == tuple("abcd")
    assert named_features(frame, None)[1] == NAMES
    assert named_features(frame, "abcd")[1] == "abcd"
    assert "4 objects but 3 labels" in refusal(SMALL, labels="abc")
    assert "'b' names objects 1 and 3" in refusal(SMALL, labels="abcb")
    assert "'a' names objects 0 and 1" in refusal(
        pd.DataFrame(SMALL, list("aacd"), list("aacd"))
    )
    assert "in the same order" in refusal(frame[list(reversed(NAMES))])
    assert "column 1 'ant' and row 1 '0'" in refusal(
        frame.reset_index(drop=True)
    )


def test_what_goes_along_with_d_is_real_and_stays_in_its_library():
    strict = array_api_strict.asarray(SMALL)
    assert as_real(strict, "weights") is strict
    masked = np.ma.masked_array(SMALL.astype(int), np.eye(4, dtype=bool))
    for data in (
        SMALL,
        SMALL.tolist(),
        pd.DataFrame(SMALL, dtype=object),
        masked,
    ):
        found = as_real(data, "weights")
        assert np.isnan(np.diag(found)).all() == (data is masked)
        np.testing.assert_array_equal(np.nan_to_num(found), SMALL)
    for bad, said in (
        (Path("f.npy"), "weights are given as a path"),
        ([["a"] * 4] * 4, "weights have dtype .*, not a real number"),
        ([[1.0], [1.0, 2.0]], "weights are not numbers"),
        (
            np.array([[{}] * 4] * 4, dtype=object),
            "dtype object|are not numbers",
        ),
        (1j * SMALL, "not a real number"),
        (scipy.sparse.csr_array(SMALL), "weights are a sparse array"),
        ({}, "weights are not numbers"),
    ):
        with pytest.raises(InputError, match=said):
            as_real(bad, "weights")


def test_objects_of_any_kind_are_listed_and_rows_of_numbers_are_not():
    rows = [[1, 2], [3, 4]]
    strict = array_api_strict.asarray(SMALL)
    for data in (
        rows,
        tuple(map(tuple, rows)),
        SMALL,
        pd.DataFrame(SMALL),
        strict,
    ):
        assert as_objects(data) is None
    ragged, names = [[1, 2], [3]], np.array(["ant", "bee"])
    for data in (
        ["ab", "c"],
        ragged,
        [{1}, {2}],
        names,
        np.zeros((2, 3, 4)),
        SMALL[0],
        [1.5, 2.0],
    ):
        assert len(as_objects(data)) == len(data)
        assert len(as_objects(pd.Series(list(data)))) == len(data)
    assert as_objects(ragged)[1] is ragged[1]
    with pytest.raises(
        InputError, match="X is of type int; pass a list of objects"
    ):
        as_objects(3)


def test_numbers_in_arrays_of_objects_and_in_pandas_types_are_numbers():
    D = np.abs(np.subtract.outer(range(6), range(6))) ** 1.5
    expected = neuc_mds(D, 2).coordinates
    for D_given in (D.astype(object), pd.DataFrame(D).astype("Float64")):
        np.testing.assert_array_equal(
            neuc_mds(D_given, 2).coordinates, expected
        )
    features = pd.DataFrame(D).astype("Float64").mask(D > 8)
    with pytest.raises(InputError, match="features hold NaN"):
        neuc_mds(features, 2, metric="cityblock")
    words = pd.Index(["a", "bb", "dddd"])
    lengths = neuc_mds(words, 1, metric=lambda a, b: abs(len(a) - len(b)))
    assert lengths.distance(0, 2) == pytest.approx(3)
