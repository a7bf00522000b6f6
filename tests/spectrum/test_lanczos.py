"""Lanczos: the basis, the search for what a method keeps, and the pairs that it ends with."""

import itertools
import math
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds.problem.components import checked_size
from neucmds.spectrum import krylov as krylov_module
from neucmds.spectrum import lanczos
from neucmds.spectrum.krylov import (
    are_known,
    further_pairs,
    polish,
    solve,
)
from neucmds.spectrum.lanczos import KrylovBasis, orthonormal_rows
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.features import FeatureGram
from neucmds.spectrum.search import (
    KeptPairs,
    allowed_residuals,
    blocks_to_wait,
    has_moved,
    is_settled,
    null_level,
    split_of,
    worth_keeping,
)
from neucmds.spectrum.selection import METHODS
from neucmds.spectrum.spectrum import Spectrum, full_spectrum


@pytest.fixture(params=[True, False])
def on_cpu(request, monkeypatch):
    """Blocks are computed with care, or as on a GPU, which is not waited for."""
    monkeypatch.setattr(lanczos, "on_cpu", lambda array: request.param)
    return request.param


@pytest.fixture
def grown(with_spectrum, on_cpu):
    """A basis of 5 blocks of 4, with some eigenvalues repeated more often than a block is wide."""
    lam = np.r_[np.full(6, 3.0), np.linspace(2, -4, 40)]
    gram = DenseGram(with_spectrum(lam, 120))
    basis = KrylovBasis(
        np.empty((60, 120)), gram.matmat, np.random.default_rng(0), 1e-14
    )
    basis.inject(4)
    for _ in range(5):
        basis.expand()
    return gram, basis


@pytest.mark.parametrize(
    ("shape", "most"), [((10, 40), 10), ((60, 12), 11), ((5, 10), 5)]
)
def test_as_many_random_rows_are_injected_as_there_is_room_for(shape, most):
    basis = KrylovBasis(np.empty(shape), None, np.random.default_rng(0), 1e-14)
    for count, width in ((3, 3), (0, 3), (99, most), (1, most)):
        basis.inject(count)
        assert basis.width == width
    rows = basis.rows[:most]
    np.testing.assert_allclose(rows @ rows.T, np.eye(most), atol=1e-13)
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-12)


def test_images_of_zeros_are_refilled(on_cpu):
    basis = KrylovBasis(
        np.empty((20, 40)), np.zeros_like, np.random.default_rng(0), 1e-14
    )
    basis.inject(4)
    with np.errstate(invalid="ignore"):  # a GPU does not warn
        for _ in range(3):
            basis.expand()
        basis.solve()
    assert basis.width == 4
    np.testing.assert_array_equal(basis.values, np.zeros(12))
    np.testing.assert_array_equal(basis.residuals, np.zeros(12))


def check_pairs(gram, basis, size=1.0):
    basis.solve()
    rows = basis.rows[: basis.size + basis.width]
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-13)
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-12)
    u = basis.vectors(np.arange(basis.values.size)).T
    left = np.linalg.norm(gram.matmat(u) - u * basis.values, axis=0)
    np.testing.assert_allclose(basis.residuals, left, atol=1e-12 * size)


def test_the_recurrence_knows_the_residuals(grown):
    check_pairs(*grown)


def test_a_restart_forgets_no_residual(grown):
    gram, basis = grown
    basis.solve()
    basis.restart(np.r_[np.arange(5), np.arange(15, 20)])
    kept = np.r_[basis.values[:5], basis.values[15:]]
    np.testing.assert_allclose(np.diag(basis.projected)[:10], kept, atol=1e-12)
    for _ in range(2):
        basis.expand()
        check_pairs(gram, basis)


@pytest.mark.parametrize("rest", [0.0, 1e-6])
def test_a_block_that_breaks_down_is_filled_up(with_spectrum, rest, on_cpu):
    """Three blocks of 4 hold ten eigenvectors: the third image has two strong directions left."""
    lam = (
        1e8
        * np.r_[
            np.linspace(3, -2, 10), rest * np.linspace(1, 2, 60 if rest else 0)
        ]
    )
    gram = DenseGram(with_spectrum(lam, 90))
    basis = KrylovBasis(
        np.empty((50, 90)), gram.matmat, np.random.default_rng(0), 1e-14
    )
    basis.inject(4)
    with np.errstate(
        all="ignore"
    ):  # what comes after the block is not a number
        for _ in range(5):
            basis.expand()
        check_pairs(gram, basis, 1e8)
    # On a GPU the third block and those after it are repeated.
    assert basis.n_products == (20 if on_cpu else 20 + 3 * 4)
    ends = basis.values
    np.testing.assert_allclose(np.r_[ends[:6], ends[-4:]], lam[:10], atol=1e-3)


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e6])
def test_rows_become_orthonormal_and_the_factor_gives_them_back(
    library, condition
):
    rng = np.random.default_rng(0)
    block = rng.standard_normal((6, 80)) + condition * np.ones(
        (6, 1)
    ) * rng.standard_normal(80)
    rows, factor, weakest = orthonormal_rows(
        library.asarray(block.copy()), 0.0
    )
    rows = np.asarray(rows)
    np.testing.assert_allclose(rows @ rows.T, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(factor @ rows, block, atol=1e-12 * condition)
    least = np.linalg.svd(factor, compute_uv=False).min()
    assert 0.2 * least < weakest <= 1.001 * least


def test_dependent_and_negligible_rows_are_left_out():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 50))
    rows, factor, _ = orthonormal_rows(
        np.stack([a, b, a - b, 1e-9 * rng.standard_normal(50)]), 1e-7
    )
    assert rows.shape == (2, 50)
    assert factor.shape == (4, 2)


VALUES = np.array([5.0, 3.0, 1.0, 0.0, -4.0])
GRAM = DenseGram(1.0 - np.eye(100))


def solved(values, left) -> SimpleNamespace:
    """A basis of which these are the Ritz values and their residuals."""
    return SimpleNamespace(
        values=1.0 * values, residuals=left, precision=0.0, noise=0.0
    )


def test_kept_values_are_counted_from_both_ends():
    assert split_of(np.array([0, 1, 7])) == (2, 1)
    assert split_of(np.array([6, 7])) == (0, 2)
    assert split_of(np.arange(3)) == (3, 0)


@pytest.mark.parametrize(
    ("tol", "share"), [(1e-7, 1e-2), (1e-4, 0.1), (1e-2, 1.0)]
)
def test_small_pairs_beside_a_huge_one_are_allowed_a_share_of_what_counts(
    tol, share
):
    values = np.array([5e9, 30.0, 2.0, -1e-3])
    allowed = allowed_residuals(GRAM, values, np.array([0, 1, 3]), tol)
    np.testing.assert_allclose(
        allowed, [tol * 5e9, share * 30, share * 2, share * 2], rtol=1e-12
    )
    alike = allowed_residuals(GRAM, VALUES, np.array([0, 1, 4]), 1e-7)
    np.testing.assert_allclose(alike, 5e-7, rtol=1e-12)
    # Where nothing is kept, the largest value counts.
    none = allowed_residuals(GRAM, VALUES, np.arange(0), 1e-7)
    np.testing.assert_allclose(none, 5e-7, rtol=1e-12)


def test_rounding_grows_with_the_values_and_with_the_products():
    eps = np.finfo(np.float64).eps
    assert null_level(GRAM, np.array([1.0, -50.0])) == pytest.approx(
        eps * 100 * 50
    )
    # The norm of D: 9900 entries of 1.
    assert null_level(GRAM, np.zeros(0)) == pytest.approx(
        4 * eps * math.sqrt(100 * 9900)
    )


def test_a_value_that_moved_beyond_its_residual_is_a_copy_that_was_missing():
    earlier = KeptPairs(values=VALUES, reach=np.full(5, 1e-3))
    for by, moved in ((0.9e-3, False), (1.1e-3, True), (-1.1e-3, True)):
        for at in (0, 1, 4):
            values = VALUES.copy()
            values[at] += by
            assert has_moved(KeptPairs(values=values), earlier) == moved
    # Fewer are kept.
    assert has_moved(KeptPairs(values=VALUES[:4]), earlier)


@pytest.mark.parametrize(("off", "settled"), [(0.05, True), (0.5, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_split_is_settled_if_no_dropped_value_can_be_among_the_kept(
    sign, off, settled
):
    values = np.sort(sign * np.array([5.0, 3.0, 0.1, -2.9]))[::-1]
    left = np.where(values == -2.9 * sign, off, 1e-9)
    basis = solved(values, left)

    def largest(ends):
        return SimpleNamespace(kept=np.argsort(-np.abs(ends.values))[:2])

    split = (2, 0) if sign > 0 else (0, 2)
    kept = np.arange(2) + split[1]
    pairs = KeptPairs(kept=kept, split=split)
    assert is_settled(GRAM, basis, largest, pairs) == settled


@given(st.integers(0, 20), st.integers(0, 20), st.integers(45, 80))
def test_a_restart_keeps_what_is_kept_and_more_of_both_ends(
    top, bottom, capacity
):
    kept = np.r_[:top, 90 - bottom : 90]
    which = worth_keeping(kept, 90, capacity, 8)
    found = split_of(which)
    assert set(kept) <= set(which.tolist())
    assert np.unique(which).size == which.size <= capacity
    few = min(8, (capacity - top - bottom) // 2)
    more = np.subtract(found, (top, bottom)) - few
    space = (capacity - top - bottom - 2 * few) // 3
    assert space - 2 < more.sum() <= space
    if bottom:  # in proportion
        assert (
            abs(more[0] / max(1, more[1]) - top / bottom) <= 1 + top / bottom
        )


@given(
    st.floats(0.05, 0.8),
    st.integers(2, 20),
    st.integers(1, 5),
    st.floats(1e-10, 1e-3),
)
def test_geometric_convergence_is_predicted_to_the_block(
    rate, step, earlier, tol
):
    """After `step` blocks the residual is rate**step, and tol is wanted."""
    now = step + earlier
    missing = math.log(tol) / math.log(rate) - now
    for last in (0, step):
        check = KeptPairs(step=now, worst=rate**now)
        before = KeptPairs(step=last, worst=rate**last)
        least, most = (
            min(12, max(1, math.ceil(missing + rounding)))
            for rounding in (-1e-6, 1e-6)
        )
        assert least <= blocks_to_wait(check, before, tol) <= most


N = 480
krylov = partial(solve, solver="krylov")


def decaying(n_pairs: int = 60) -> np.ndarray:
    """Both signs, no two alike, a long flat tail."""
    lam = 100.0 / np.arange(1, n_pairs + 1) ** 0.7
    lam[1::3] *= -0.8
    return lam


def rule(method: str, k):
    """Return the selection rule of a method for k coordinates."""
    components = checked_size(k, 10**9)
    return lambda ends: METHODS[method](ends, components)


def lengths_left(D, spectrum) -> np.ndarray:
    """Return ‖Bu − λu‖ of every pair."""
    u, lam = np.asarray(spectrum.vectors), np.asarray(spectrum.values)
    return np.linalg.norm(DenseGram(D).matmat(u) - u * lam, axis=0)


def finds(spectrum, keep, reference: Spectrum, tol: float = 1e-7) -> None:
    """The rule keeps the same eigenvalues here as of the reference, and the pairs are pairs."""
    values = spectrum.values[keep(spectrum).kept]
    wanted = reference.values[keep(reference).kept]
    scale = np.max(np.abs(wanted), initial=0.0)
    assert spectrum.converged
    assert values.shape == wanted.shape
    np.testing.assert_allclose(values, wanted, rtol=0, atol=1.01 * tol * scale)
    u = np.asarray(spectrum.vectors)
    np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), rtol=0, atol=1e-10)
    np.testing.assert_allclose(u.sum(axis=0), 0, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("single", "tol", "size"),
    [(True, 1e-7, 1.0), (False, 1e-7, 1e-4), (True, 1e-11, 1.0)],
)
def test_residuals_are_true_and_ends_contiguous(
    with_spectrum, single, tol, size
):
    lam, keep = size * decaying(), rule("neuc", (3, 9))
    D = with_spectrum(lam, N)
    spectrum = krylov(DenseGram(D, working_copy=single), keep, 12, tol=tol)
    finds(spectrum, keep, Spectrum.of(lam), tol)
    kept, left = keep(spectrum).kept, lengths_left(D, spectrum)
    scale = np.abs(spectrum.values[kept]).max()
    np.testing.assert_allclose(
        spectrum.residuals[kept], left[kept], rtol=0, atol=1e-12 * scale
    )
    assert left[kept].max() <= tol * scale
    assert left.max() <= 1e-3 * scale
    assert np.all(left <= 10 * spectrum.residuals + 1e-12 * scale)
    lam, ends = np.sort(lam)[::-1], spectrum
    assert 3 + 9 == kept.size < ends.n_top + ends.n_bottom == ends.values.size
    assert min(ends.n_top - 3, ends.n_bottom - 9) > 0  # more of both ends
    assert max(ends.n_top, ends.n_bottom) <= 24
    known = np.r_[lam[: ends.n_top], lam[lam.size - ends.n_bottom :]]
    np.testing.assert_allclose(ends.values, known, rtol=1e-4)
    assert np.all(np.diff(ends.values) <= 0)
    true = np.sum(
        (spectrum.vectors * DenseGram(D).matmat(spectrum.vectors)), axis=0
    )
    assert np.all(
        np.abs(true - spectrum.values) <= spectrum.value_errors + 1e-14 * scale
    )


@pytest.mark.parametrize("library", [np, array_api_strict])
def test_residuals_at_a_looser_tolerance_are_measured(noise, library):
    D, keep = noise(1500), rule("neuc", 20)
    spectrum = krylov(DenseGram(library.asarray(D)), keep, 20, tol=1e-5)
    left, kept = lengths_left(D, spectrum), keep(spectrum).kept
    assert kept.size < left.size
    scale = np.abs(spectrum.values[kept]).max()
    assert left[kept].max() <= 1e-5 * scale
    np.testing.assert_allclose(
        spectrum.residuals[kept], left[kept], atol=1e-10 * scale
    )
    assert np.all(left <= spectrum.residuals + 1e-10 * scale)


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("shape", ["noise", "ball", "far", "entry"])
def test_residuals_are_bounded_by_rounding_measured_on_rows(
    noise, monkeypatch, shape, precise
):
    # As on a GPU; products are float32 or, where rounding is drawn, worse than float32 by far.
    monkeypatch.setattr(krylov_module, "on_cpu", lambda array: False)
    rng = np.random.default_rng(3)
    n = 1200
    x = rng.random((n, 6))
    D = (np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1)) - 0.3) ** 2
    if shape == "noise":
        D = noise(n)
    elif shape == "far":
        x[:3] *= 1e3
        D = ((x[:, None] - x[None]) ** 2).sum(axis=-1) + 0.1 * np.abs(noise(n))
    elif shape == "entry":
        D[3, 7] = D[7, 3] = 1e3
    np.fill_diagonal(D, 0.0)
    gram = DenseGram(D)
    if not precise:
        rounded = gram.matmat(np.eye(n))
        rounded += 1e-5 * rounded * rng.standard_normal((n, n))
        gram.single = lambda: nullcontext(lambda block: rounded @ block)
    keep = rule("neuc", 20)
    spectrum = krylov(gram, keep, 20, tol=1e-5)
    kept, left = keep(spectrum).kept, lengths_left(D, spectrum)
    scale = np.abs(spectrum.values[kept]).max()
    assert spectrum.converged
    assert left[kept].max() <= 1e-5 * scale
    assert np.all(left[kept] <= spectrum.residuals[kept] + 1e-12 * scale)


def test_convergence_is_not_claimed_on_the_word_of_inexact_products():
    # Angles of 0.01 between rows far from the origin: float32 knows them to 3e-4.
    X = np.random.default_rng(0).normal(size=(700, 8)) + 100
    gram = FeatureGram(X, "angular")
    spectrum = krylov(gram, rule("neuc", 5), 5, tol=1e-4)
    kept = rule("neuc", 5)(spectrum).kept
    scale = np.abs(spectrum.values[kept]).max()
    vectors = spectrum.take(kept)
    left = np.linalg.norm(
        gram.matmat(vectors) - spectrum.values[kept] * vectors, axis=0
    )
    assert spectrum.converged
    assert left.max() <= 1e-4 * scale
    np.testing.assert_allclose(
        spectrum.residuals[kept], left, atol=1e-10 * scale
    )


@pytest.fixture
def sentinel(noise):
    """Squared dissimilarities below 1, and one pair far beyond."""

    def build(n: int) -> np.ndarray:
        x, e = np.random.default_rng(0).random((n, 3)), 0.1 * np.abs(noise(n))
        D = (np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1)) / 2 + e) ** 2
        D[3, 7] = D[7, 3] = 1e10
        return D

    return build


@pytest.mark.parametrize(
    ("n", "k", "method", "tol"),
    [(800, 58, "neuc", 1e-3), (900, 20, "neuc+", 1e-7)],
)
def test_one_huge_entry_does_not_drown_the_other_pairs(
    sentinel, n, k, method, tol
):
    # Relative to the pair of size 5e9 a residual of 500 was small enough: 5 of 58 were kept.
    D, keep = sentinel(n), rule(method, k)
    found, full = (
        krylov(DenseGram(D), keep, k, tol=tol),
        full_spectrum(DenseGram(D)),
    )
    kept, wanted = keep(found).kept, keep(full).kept
    assert found.converged
    assert kept.size == k
    assert found.dropped_sq(kept) <= 1.02 * full.dropped_sq(wanted)
    assert np.all(lengths_left(D, found)[kept] <= np.abs(found.values[kept]))


def test_what_the_search_cannot_tell_from_zero_is_finished_in_float64(
    with_spectrum,
):
    # Three pairs where five are asked for: float32 noise must not stand in for the others.
    gram = DenseGram(with_spectrum([9.0, -5.0, 2.0], 1500))
    spectrum = krylov(gram, rule("neuc", 5), 5, tol=1e-5)
    np.testing.assert_allclose(spectrum.values, [9.0, 2.0, -5.0], atol=1e-6)


def test_a_small_part_that_is_dropped_has_digits(with_spectrum):
    lam, keep = (
        1e3 * np.r_[9.0, -5.0, 2.0, np.linspace(1, 2, 40) * 1e-4],
        rule("neuc", 3),
    )
    spectrum = krylov(DenseGram(with_spectrum(lam, 1500)), keep, 3, tol=1e-5)
    left = spectrum.dropped_sq(keep(spectrum).kept)
    assert left == pytest.approx(lam[3:] @ lam[3:], rel=1e-3)


@pytest.mark.parametrize(
    ("values", "unknown", "above", "below"),
    [
        (np.r_[9:0:-1, -1:-10:-1], [], [2, 3, 4, 5], [12, 13, 14, 15, 16]),
        (np.r_[9:0:-1, -1:-10:-1], [4, 13], [2, 3], [14, 15, 16]),
        (np.r_[18:0:-1], [], [2, 3, 4, 5], []),
        (-np.r_[1:19], [17], [], [12, 13, 14, 15, 16]),
        (np.r_[9:5:-1, 0, -1:-3:-1], [], [2], [5]),
    ],
)
def test_further_pairs_are_known_and_next_to_the_kept_ones(
    noise, values, unknown, above, below
):
    left = np.full(values.size, 2e-3)
    left[unknown] = 0.01
    kept = np.r_[0, 1, values.size - 1]
    found = further_pairs(DenseGram(noise(99)), solved(values, left), 3, kept)
    assert [one.tolist() for one in found] == [above, below]


def hypercube(dim: int, power: float) -> np.ndarray:
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=dim)))
    return np.abs(corners[:, None] - corners[None]).sum(axis=-1) ** power


HARD = {
    "all_equal": lambda build: 1.0 - np.eye(N),
    "one_pair": lambda build: np.eye(N)[::-1] * (np.arange(N) % (N - 1) == 0),
    "hypercube": lambda build: hypercube(8, 1.0),
    "hypercube_squared": lambda build: hypercube(9, 2.0),
    "hypercube_power": lambda build: hypercube(9, 1.5),
    "huge trace": lambda build: build(decaying(), N) + 1e6 * (1.0 - np.eye(N)),
    "large and of one sign": lambda build: build(
        np.r_[-1e4, np.linspace(1, 0.5, 60)], N
    ),
    "rank 1": lambda build: build([-2.0], N),
    "rank 7": lambda build: build(-np.linspace(2, 1, 7), N),
    "rank 30": lambda build: build(
        np.resize([1, -1], 30) * np.linspace(2, 1, 30), N
    ),
    "few": lambda build: build(np.linspace(-3, 4, 11), 12),
    "two": lambda build: np.array([[0.0, 3.0], [3.0, 0.0]]),
    "none": lambda build: np.zeros((N, N)),
    "64 copies": lambda build: build(
        np.r_[np.full(64, 5.0), np.linspace(4, -3, 100)], N
    ),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_matrices_end_well(with_spectrum, name):
    D = HARD[name](with_spectrum)
    full = full_spectrum(DenseGram(D))
    for method, k in (
        ("neuc", 1),
        ("neuc+", 20),
        ("classical", 20),
        ("neuc", 50),
    ):
        k = min(k, len(D) - 1)
        spectrum = krylov(DenseGram(D), rule(method, k), k)
        finds(spectrum, rule(method, k), full)
        assert spectrum.trace == pytest.approx(full.trace)
        assert spectrum.n_top + spectrum.n_bottom == spectrum.values.size * (
            1 + spectrum.complete
        )
        assert spectrum.solver == "krylov" or len(D) < 300 or not D.any()


@pytest.mark.parametrize("library", [np, array_api_strict])
def test_float32_input_is_solved_to_its_own_accuracy(with_spectrum, library):
    d, keep = (
        with_spectrum(decaying(), N).astype(np.float32),
        rule("neuc+", 12),
    )
    spectrum = krylov(DenseGram(library.asarray(d)), keep, 12)
    wanted = full_spectrum(DenseGram(d.astype(np.float64)))
    found = spectrum.values[keep(spectrum).kept]
    assert spectrum.converged
    np.testing.assert_allclose(
        found, wanted.values[keep(wanted).kept], rtol=0, atol=1e-5
    )


def test_where_the_tolerance_cannot_be_met_lapack_takes_over(noise):
    D, keep = noise(400), rule("neuc", 12)
    spectrum = krylov(DenseGram(D), keep, 12, tol=1e-17)
    assert spectrum.converged
    assert spectrum.solver == "full"


def test_a_basis_needs_room_for_twice_the_pairs_and_five_blocks(noise):
    # Six tenths of the objects are at most as many rows: 2 · 12 + 5 · 16 = 104.
    for n, solver in ((174, "krylov"), (173, "full")):
        gram = DenseGram(noise(n))
        assert krylov(gram, rule("neuc", 12), 12).solver == solver


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_top=st.integers(0, 60),
    n_bottom=st.integers(0, 60),
    decay=st.floats(0.2, 2.0),
    k=st.integers(1, 25),
    method=st.sampled_from(sorted(METHODS)),
    scale=st.sampled_from([1.0, 1e-75, 1e75]),
)
def test_random_spectra_give_what_lapack_gives(
    with_spectrum, seed, n_top, n_bottom, decay, k, method, scale
):
    rng = np.random.default_rng(seed)
    ranks = np.r_[np.arange(1, n_top + 1), np.arange(1, n_bottom + 1)]
    signs = scale * np.r_[np.ones(n_top), -np.ones(n_bottom)]
    gram = DenseGram(
        with_spectrum(
            signs * rng.uniform(1, 1.3, ranks.size) / ranks**decay, N, seed
        )
    )
    finds(
        krylov(gram, rule(method, k), k), rule(method, k), full_spectrum(gram)
    )


class Counted(DenseGram):
    """Counts the columns that are multiplied."""

    columns = 0

    def matmat(self, block):
        self.columns += block.shape[1]
        return super().matmat(block)


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (decaying(), {1: 172, 12: 172, 40: 204}),
        (
            np.r_[np.full(64, 5.0), np.linspace(4, -3, 100)],
            {1: 172, 12: 236, 40: 276},
        ),
        (None, {1: 548, 12: 676, 40: 624}),
    ],
)
def test_a_search_multiplies_few_columns(with_spectrum, noise, values, most):
    D = noise(700) if values is None else with_spectrum(values, N)
    for k, columns in most.items():
        gram = Counted(D, working_copy=False)
        assert krylov(gram, rule("neuc+", k), k).solver == "krylov"
        assert gram.columns <= columns + 16  # a block


def test_auto_takes_lapack_for_few_objects_or_many_pairs(noise):
    for n, k, solver in (
        (600, 5, "full"),
        (601, 75, "krylov"),
        (601, 76, "full"),
    ):
        assert solve(DenseGram(noise(n)), rule("neuc", k), k).solver == solver
    assert krylov(DenseGram(noise(300)), rule("neuc", 5), 5).solver == "krylov"


def test_noise_of_single_precision_is_taken_out(with_spectrum):
    lam = np.r_[
        np.linspace(9, 5, 5), np.linspace(1, 0.1, 40), np.linspace(-4, -8, 4)
    ]
    gram = DenseGram(with_spectrum(lam, 200))
    full = full_spectrum(gram)
    outer = np.r_[np.arange(5), np.arange(195, 199)]
    rng = np.random.default_rng(0)
    rough = full.vectors[:, outer] + 1e-7 * rng.standard_normal((200, 9))
    rows = np.linalg.qr(rough - rough.mean(axis=0))[0].T
    values, rows, residuals = polish(gram, rows, 5, np.full(9, 1e-8))
    left = np.linalg.norm(gram.matmat(rows.T) - rows.T * values, axis=0)
    assert left.max() <= 1e-8
    np.testing.assert_allclose(residuals, left, atol=1e-13)
    np.testing.assert_allclose(values, full.values[outer], atol=1e-12)


def test_a_pair_is_known_within_what_is_allowed(noise):
    pairs = (
        DenseGram(noise(20)),
        np.array([1, 1e-3, -2, 1e-20]),
        np.array([0.5, 1e-2, 2, 0]),
    )
    wide, narrow = (
        are_known(*pairs, np.full(4, limit)) for limit in (2.0, 0.4)
    )
    assert wide.tolist() == [True, False, True, True]
    assert narrow.tolist() == [False, False, False, True]
