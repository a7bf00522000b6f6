"""Coordinates laid over others: all that the isometries of the form can undo is undone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.spatial import procrustes as scipy_procrustes

from neucmds import InputError, evaluate, neuc_mds, procrustes
from neucmds.errors import NeucmdsWarning
from neucmds.form import Form


def embedding_of(x, signs):
    other = neuc_mds(1 - np.eye(5), 2, "neuc")
    return replace(other, coordinates=x, form=Form(signs))


def align(x, y, signs, **options):
    return procrustes(
        embedding_of(x, signs), embedding_of(y, signs), **options
    )


def centered(n, k, rng):
    x = rng.normal(size=(n, k)) * np.linspace(2, 0.5, k)
    return x - x.mean(axis=0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_a_positive_signature_gives_scipys_disparity(seed):
    rng = np.random.default_rng(seed)
    x, y = centered(40, 3, rng), centered(40, 3, rng)
    ours = align(x, y + 0.5 * x, np.ones(3))
    assert ours.disparity == pytest.approx(
        scipy_procrustes(x, y + 0.5 * x)[2], rel=1e-10
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
@example(398)
def test_an_isometry_of_the_form_is_undone_and_noise_is_what_is_left(seed):
    rng = np.random.default_rng(seed)
    signs = np.array([1.0, 1, 1, -1, -1])
    x, k = centered(60, 5, rng), rng.normal(size=(5, 5))
    moved = 3.0 * x @ expm(0.3 * (k - k.T) * signs)
    found = align(x, moved, signs)
    assert found.disparity < 1e-18
    np.testing.assert_allclose(found.coordinates, x, atol=1e-7)
    assert found.scale == pytest.approx(1 / 3)
    moved += 0.1 * rng.normal(size=x.shape)
    moved -= moved.mean(axis=0)
    noisy = align(x, moved, signs, scaling=False)
    assert noisy.scale == 1.0
    t = noisy.isometry
    np.testing.assert_allclose(
        t @ np.diag(signs) @ t.T, np.diag(signs), atol=1e-8
    )
    left = np.sum((x - noisy.coordinates) ** 2) / np.sum(x**2)
    assert noisy.disparity == pytest.approx(left)
    # No other isometry near it is better.
    for size in (1e-3, -1e-3):
        turned = noisy.coordinates @ expm(size * (k - k.T) * signs)
        assert np.sum((x - turned) ** 2) >= np.sum(
            (x - noisy.coordinates) ** 2
        )
    pairs = (
        Form(signs).sq(y, y)
        for y in (noisy.coordinates, noisy.coordinates @ t)
    )
    np.testing.assert_allclose(*pairs, atol=1e-6 * np.sum(x**2))


def test_rotations_within_the_signs_are_a_start_and_zeros_are_alike():
    rng = np.random.default_rng(0)
    signs, x = np.array([1.0, -1, 1, -1, 1]), centered(30, 5, rng)
    turn = np.eye(5)
    for sign in (1, -1):
        own = np.flatnonzero(signs == sign)
        turn[np.ix_(own, own)] = np.linalg.qr(
            rng.normal(size=(own.size, own.size))
        )[0]
    np.testing.assert_allclose(
        align(x, x @ turn, signs).isometry, turn.T, atol=1e-7
    )
    assert align(0 * x, x, signs).disparity == 0
    for size in (0, 1e-170):
        assert align(0.1 * x, size * x, np.ones(5)).scale == 1


def test_zeros_stand_for_coordinates_that_one_of_both_lacks():
    dune = Path(__file__).parent / "fixtures" / "dune_braycurtis.csv"
    a, b = neuc_mds(dune, (3, 0)), neuc_mds(dune, (2, 1), "neuc")
    assert (a.signature, b.signature) == ((3, 0), (2, 1))
    found = procrustes(a, b)
    assert found.coordinates.shape == (20, 4)
    assert found.disparity < 0.5
    form, back = np.diag([1.0, 1, 1, -1]), np.diag([*b.signs, 1.0])
    np.testing.assert_allclose(
        found.isometry @ form @ found.isometry.T, back, atol=1e-8
    )


def test_objects_are_matched_by_common_names_or_all_by_number():
    table = pd.read_csv(
        Path(__file__).parent / "fixtures/dune_braycurtis.csv", index_col=0
    )
    table = table.rename(index=str)
    a, some = neuc_mds(table, 3), table.sample(12, random_state=0).index
    b = neuc_mds(table.loc[some, some], 3)
    with pytest.warns(
        NeucmdsWarning, match="of 20 and 12 objects, 12 are in both"
    ):
        found = procrustes(a, b)
    assert {a.labels[i] for i in found.objects} == set(some)
    assert found.disparity < 0.3
    for other in (
        replace(b, labels=None),
        replace(b, labels=tuple("abcdefghijkl")),
    ):
        with pytest.raises(
            InputError, match=r"(20 and 12 objects, and names|0 of 20 and 12)"
        ):
            procrustes(a, other)
    assert procrustes(a, a).disparity < 1e-20


def test_opposite_signatures_are_told_what_can_be_compared():
    points = np.random.default_rng(0).normal(size=(8, 1))
    D = (points - points.T) ** 2
    a, b = neuc_mds(D, 1, squared=True), neuc_mds(-D, 1, squared=True)
    with pytest.raises(
        InputError, match=r"evaluate\(a, b.dissimilarities\(squared=True\)"
    ):
        procrustes(a, b)
    assert evaluate(
        a, b.dissimilarities(squared=True), squared=True
    ).stress == pytest.approx(4 * np.sum(D**2))
