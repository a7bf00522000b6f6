from __future__ import annotations

import itertools
from functools import partial

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds._input.components import Components
from neucmds._methods.selection import METHODS
from neucmds._operator import DenseGram
from neucmds._spectrum import Ends, full_spectrum, solve
from neucmds.api import Options, fit, prepare
from neucmds.errors import InputError

N = 480
krylov = partial(solve, solver="krylov")


def decaying(n_pairs: int = 60) -> np.ndarray:
    """Both signs, no two alike, a long flat tail."""
    lam = 100.0 / np.arange(1, n_pairs + 1) ** 0.7
    lam[1::3] *= -0.8
    return lam


def hypercube(dim: int, power: float) -> np.ndarray:
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=dim)))
    return np.abs(corners[:, None] - corners[None]).sum(axis=-1) ** power


def noise(n: int, seed: int = 0) -> np.ndarray:
    d = np.random.default_rng(seed).standard_normal((n, n))
    d = d + d.T
    np.fill_diagonal(d, 0.0)
    return d


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("library", [np, array_api_strict])
def test_kept_pairs_are_those_of_the_prescribed_spectrum(
    with_spectrum, rule, finds, method, single, library
):
    lam = decaying()
    gram = DenseGram(library.asarray(with_spectrum(lam, N)), working_copy=single)
    spectrum = krylov(gram, rule(method, 12), 12)
    assert spectrum.solver == "krylov"
    finds(spectrum, rule(method, 12), Ends.of(np.r_[lam, np.zeros(N - 1 - lam.size)]))


@pytest.mark.parametrize("single", [True, False])
def test_residuals_of_kept_pairs_are_true(with_spectrum, rule, single):
    gram, keep = DenseGram(with_spectrum(decaying(), N), working_copy=single), rule("neuc", 12)
    spectrum = krylov(gram, keep, 12)
    left = np.linalg.norm(
        gram.matmat(spectrum.vectors) - spectrum.vectors * spectrum.values, axis=0
    )
    kept = keep(spectrum.ends).kept
    scale = np.abs(spectrum.values[kept]).max()
    np.testing.assert_allclose(spectrum.residuals[kept], left[kept], rtol=0, atol=1e-12 * scale)
    assert left[kept].max() <= 1e-7 * scale
    assert left.max() <= 1e-3 * scale
    assert np.all(left <= 10 * spectrum.residuals + 1e-12 * scale)


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("spare", [True, False])
def test_pairs_taken_as_found_meet_a_looser_tolerance(rule, library, spare):
    D = noise(1500)
    gram, keep = DenseGram(library.asarray(D)), rule("neuc", 20)
    spectrum = krylov(gram, keep, 20, tol=1e-5, spare=spare)
    u, lam = np.asarray(spectrum.vectors), np.asarray(spectrum.values)
    left = np.linalg.norm(DenseGram(D).matmat(u) - u * lam, axis=0)
    kept = keep(spectrum.ends).kept
    assert spectrum.remainder is not None  # there was no float64 step
    assert spare or kept.size == lam.size
    scale = np.abs(lam[kept]).max()
    assert left[kept].max() <= 1e-5 * scale
    # 256 of 1500 rows tell a length to about 5 %: of 20 the worst is off by some 10 %.
    np.testing.assert_allclose(
        np.asarray(spectrum.residuals)[kept], left[kept], rtol=0.15, atol=1e-8 * scale
    )


@pytest.mark.parametrize("solver", ["full", "krylov"])
@pytest.mark.parametrize("library", [np, array_api_strict])
def test_images_are_products_with_the_matrix(rule, solver, library):
    D = noise(1200)
    gram = DenseGram(library.asarray(D))
    spectrum = solve(gram, rule("neuc", 20), 20, solver=solver, tol=1e-3)
    some = np.array([0, 3, 2])
    true = DenseGram(D).matmat(np.asarray(spectrum.vectors)[:, some])
    images = np.asarray(spectrum.images(some))
    scale = np.linalg.norm(true)
    np.testing.assert_allclose(images, true, rtol=0, atol=3e-7 * scale)
    known = np.asarray(spectrum.take(some)) * np.asarray(spectrum.values)[some]
    if solver == "krylov":  # the remainder is what makes them so
        assert np.linalg.norm(known - true) > 1e-5 * scale


def test_little_that_is_dropped_is_measured_in_float64():
    # An outlier holds all but 1e-12 of B: a loose tolerance must not make that little wrong.
    D = np.abs(noise(1100))
    D[0, 1:] *= 1e4
    D[1:, 0] = D[0, 1:]
    found = fit(prepare(D, 2), Options(2, "neuc", solver="krylov", tol=1e-3)).embedding
    x = found.coordinates
    d_hat = np.sum(found.signs * (x[:, None] - x[None]) ** 2, axis=-1)
    assert found.stress == pytest.approx(np.sum((d_hat - D**2) ** 2), rel=0.05)


def sentinel(n: int, entry: float = 1e10) -> np.ndarray:
    """Squared dissimilarities below 1, and one pair far beyond."""
    rng = np.random.default_rng(0)
    x, e = rng.random((n, 3)), 0.1 * np.abs(noise(n))
    D = (np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1)) / 2 + e) ** 2
    D[3, 7] = D[7, 3] = entry
    return D


@pytest.mark.parametrize("tol", [1e-7, 1e-3])
@pytest.mark.parametrize("method", ["neuc", "neuc+"])
@pytest.mark.parametrize(("n", "k"), [(800, 58), (1200, 20)])
def test_one_huge_entry_does_not_drown_the_other_pairs(rule, n, k, method, tol):
    # Relative to the pair of size 5e9 a residual of 500 was small enough: 5 of 58 were kept.
    gram, keep = DenseGram(sentinel(n)), rule(method, k)
    found, full = krylov(gram, keep, k, tol=tol), full_spectrum(gram)
    kept, wanted = keep(found.ends).kept, keep(full.ends).kept
    assert found.converged
    assert kept.size == k
    assert found.ends.dropped_sq(kept) <= 1.02 * full.ends.dropped_sq(wanted)
    left = np.linalg.norm(gram.matmat(found.vectors) - found.vectors * found.values, axis=0)
    assert np.all(left[kept] <= np.abs(found.values[kept]))


def test_what_is_dropped_beside_a_huge_pair_is_measured(rule):
    D, keep = sentinel(900), rule("neuc", 20)
    found = krylov(DenseGram(D), keep, 20)
    u, lam = found.vectors, found.values
    center = np.eye(900) - 1 / 900
    # In extended precision B is exact to 1e-9 next to 5e9.
    wide = D.astype(np.longdouble)
    b = -(wide - wide.mean(axis=0) - wide.mean(axis=1)[:, None] + wide.mean()) / 2
    left = np.sum((b - (u * lam) @ u.T.astype(np.longdouble)) ** 2)
    assert found.unknown_sq == pytest.approx(float(left), rel=1e-6)
    assert np.allclose(center @ u, u, atol=1e-9)


def test_what_the_search_cannot_tell_from_zero_is_finished_in_float64(with_spectrum, rule):
    # Three pairs where five are asked for: float32 noise must not stand in for the others.
    spectrum = krylov(
        DenseGram(with_spectrum([9.0, -5.0, 2.0], 1500)), rule("neuc", 5), 5, tol=1e-5
    )
    np.testing.assert_allclose(np.sort(spectrum.values)[[0, -2, -1]], [-5.0, 2.0, 9.0], atol=1e-6)
    assert spectrum.values.shape == (3,)


def test_ends_are_contiguous_and_honest(with_spectrum, rule):
    lam = decaying()
    spectrum = krylov(DenseGram(with_spectrum(lam, N)), rule("neuc", 12), 12)
    lam, ends = np.sort(lam)[::-1], spectrum.ends
    assert ends.n_top + ends.n_bottom == ends.size
    assert max(ends.n_top, ends.n_bottom) <= 24
    bottom = ends.size - ends.n_bottom
    np.testing.assert_allclose(ends.values[: ends.n_top], lam[: ends.n_top], rtol=1e-4)
    np.testing.assert_allclose(ends.values[bottom:], lam[lam.size - ends.n_bottom :], rtol=1e-4)
    assert np.all(np.diff(ends.values) <= 0)


def test_a_fixed_signature_is_met(with_spectrum, finds, rule):
    lam, keep = decaying(), rule("neuc", (3, 7))
    spectrum = krylov(DenseGram(with_spectrum(lam, N)), keep, 10)
    finds(spectrum, keep, Ends.of(lam))


DEGENERATE = {
    "all_equal": 1.0 - np.eye(N),
    "one_pair": np.eye(N)[::-1] * (np.arange(N) % (N - 1) == 0),
    "hypercube": hypercube(8, 1.0),
    "hypercube_squared": hypercube(9, 2.0),
    "hypercube_power": hypercube(9, 1.5),
    "noise": noise(N),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 20, 50])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_matrices_end_well(rule, finds, name, k, method):
    gram = DenseGram(DEGENERATE[name])
    spectrum = krylov(gram, rule(method, k), k)
    finds(spectrum, rule(method, k), full_spectrum(gram).ends)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (1, -1)])
@pytest.mark.parametrize("rank", [1, 7, 30])
def test_rank_below_k_gives_fewer_pairs(with_spectrum, rule, finds, rank, signs, method):
    lam = np.resize(signs, rank) * np.linspace(2, 1, rank)
    gram = DenseGram(with_spectrum(lam, N))
    spectrum = krylov(gram, rule(method, 40), 40)
    assert spectrum.values.size <= rank
    finds(spectrum, rule(method, 40), full_spectrum(gram).ends)


@pytest.mark.parametrize("copies", [2, 30, 64])
def test_copies_of_an_eigenvalue_are_all_found(with_spectrum, rule, finds, copies):
    lam = np.r_[np.full(copies, 5.0), np.linspace(4, 1, 100), np.linspace(-1, -3, 30)]
    spectrum = krylov(DenseGram(with_spectrum(lam, 700)), rule("neuc", 40), 40)
    finds(spectrum, rule("neuc", 40), Ends.of(lam))


def test_zero_dissimilarities_have_an_empty_spectrum(rule):
    spectrum = krylov(DenseGram(np.zeros((N, N))), rule("neuc", 5), 5)
    assert spectrum.values.shape == (0,)
    assert spectrum.vectors.shape == (N, 0)
    assert spectrum.converged


@pytest.mark.parametrize("scale", [1e-75, 1e75])
def test_scale_does_not_matter(with_spectrum, rule, finds, scale):
    lam = decaying()
    spectrum = krylov(DenseGram(with_spectrum(lam, N) * scale), rule("neuc+", 12), 12)
    finds(spectrum, rule("neuc+", 12), Ends.of(lam * scale))


def test_a_huge_trace_does_not_hide_the_rest(with_spectrum, rule, finds):
    d = with_spectrum(decaying(), N) + 1e6 * (1.0 - np.eye(N))
    for method in METHODS:
        spectrum = krylov(DenseGram(d), rule(method, 12), 12)
        finds(spectrum, rule(method, 12), full_spectrum(DenseGram(d)).ends)


def test_a_large_unwanted_eigenvalue_does_not_set_the_floor(with_spectrum, rule, finds):
    lam = np.r_[-1e4, np.linspace(1, 0.5, 60)]
    spectrum = krylov(DenseGram(with_spectrum(lam, N)), rule("classical", 12), 12)
    finds(spectrum, rule("classical", 12), Ends.of(lam))


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("method", ["neuc", "neuc+"])
def test_float32_input_is_solved_to_its_own_accuracy(with_spectrum, rule, library, method):
    d = with_spectrum(decaying(), N).astype(np.float32)
    spectrum = krylov(DenseGram(library.asarray(d)), rule(method, 12), 12)
    wanted = full_spectrum(DenseGram(d.astype(np.float64))).ends
    kept, reference = rule(method, 12)(spectrum.ends).kept, rule(method, 12)(wanted).kept
    assert spectrum.converged
    np.testing.assert_allclose(
        spectrum.ends.values[kept], wanted.values[reference], rtol=0, atol=1e-7 * 100
    )


@pytest.mark.parametrize("n", [2, 3, 5, 12, 20, 60, 150])
@pytest.mark.parametrize("method", METHODS)
def test_few_objects_and_k_near_n(rule, finds, n, method):
    d = noise(n, seed=n)
    for k in {1, max(1, n // 2), n - 1}:
        spectrum = krylov(DenseGram(d), rule(method, k), k)
        finds(spectrum, rule(method, k), full_spectrum(DenseGram(d)).ends)


def test_same_seed_same_result(with_spectrum, rule):
    gram = DenseGram(with_spectrum(decaying(), N))
    first, second = (krylov(gram, rule("neuc", 12), 12, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.vectors, second.vectors)


def test_tight_tolerance_is_met_in_float64(with_spectrum, rule, finds):
    lam = decaying()
    gram, keep = DenseGram(with_spectrum(lam, N)), rule("neuc", 12)
    spectrum = krylov(gram, keep, 12, tol=1e-11)
    finds(spectrum, keep, Ends.of(lam), tol=1e-11)
    kept = keep(spectrum.ends).kept
    u, values = spectrum.vectors[:, kept], spectrum.values[kept]
    left = np.linalg.norm(gram.matmat(u) - u * values, axis=0)
    assert max(left.max(), spectrum.residuals[kept].max()) <= 1e-11 * np.abs(values).max()


@pytest.mark.parametrize("fallback", [0, 5000])
def test_giving_up_is_said_or_lapack_takes_over(monkeypatch, rule, fallback):
    monkeypatch.setattr("neucmds._spectrum.krylov.FULL_FALLBACK", fallback)
    monkeypatch.setattr("neucmds._spectrum.search.PRODUCTS", 1)
    spectrum = krylov(DenseGram(noise(400)), rule("neuc", 12), 12)
    assert spectrum.converged == (fallback > 0)
    assert spectrum.solver == ("full" if fallback else "krylov")
    # What is handed over says how far it is from the tolerance of 1e-7.
    far = spectrum.residuals.max() > 1e-7 * np.abs(spectrum.values).max()
    assert far == (fallback == 0)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_top=st.integers(0, 60),
    n_bottom=st.integers(0, 60),
    decay=st.floats(0.2, 2.0),
    k=st.integers(1, 25),
    method=st.sampled_from(sorted(METHODS)),
)
def test_random_spectra_give_what_lapack_gives(
    with_spectrum, finds, seed, n_top, n_bottom, decay, k, method
):
    rng = np.random.default_rng(seed)
    ranks = np.r_[np.arange(1, n_top + 1), np.arange(1, n_bottom + 1)]
    signs = np.r_[np.ones(n_top), -np.ones(n_bottom)]
    gram = DenseGram(with_spectrum(signs * rng.uniform(1, 1.3, ranks.size) / ranks**decay, N, seed))

    def keep(ends):
        return METHODS[method](ends, Components(k))

    finds(krylov(gram, keep, k), keep, full_spectrum(gram).ends)


def test_auto_takes_lapack_for_few_objects_or_many_pairs(rule):
    keep = rule("neuc", 5)
    assert solve(DenseGram(noise(300)), keep, 5).solver == "full"
    assert solve(DenseGram(noise(300)), keep, 5, solver="krylov").solver == "krylov"
    assert solve(DenseGram(noise(640)), keep, 5).solver == "krylov"
    assert solve(DenseGram(noise(640)), rule("neuc", 80), 80).solver == "full"
    with pytest.raises(InputError, match="arpack"):
        solve(DenseGram(noise(10)), keep, 5, solver="arpack")
    for tol in (0, 1, -1e-3, float("nan"), "small"):
        with pytest.raises(InputError, match="between 0 and 1"):
            solve(DenseGram(noise(10)), keep, 5, tol=tol)


@pytest.mark.parametrize("method", METHODS)
def test_real_data_keep_what_lapack_keeps(data_home, rule, finds, method):
    for path in sorted((data_home / "dissimilarities").glob("*.npz")):
        d = np.load(path)["D"].astype(np.float64)
        d = np.square(0.5 * (d + d.T))
        np.fill_diagonal(d, 0.0)
        full = full_spectrum(DenseGram(d)).ends
        for k in (2, min(20, len(d) - 1)):
            spectrum = krylov(DenseGram(d), rule(method, k), k)
            finds(spectrum, rule(method, k), full)
