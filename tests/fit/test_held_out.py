"""Figures of sampled pairs, estimated from objects that are compared with others."""

import numpy as np
import pytest

from neucmds.embedding.build import from_pairs
from neucmds.form import Form
from neucmds.problem.pairs import make_pairs
from neucmds.refine.descent import Configuration
from neucmds.refine.losses import PairLoss

N = 30


@pytest.fixture
def fitted():
    """D, a third of its pairs, and coordinates that do not fit it."""
    rng = np.random.default_rng(0)
    x, sizes = rng.normal(size=(N, 3)), rng.uniform(1, 5, N)
    d = np.triu(np.outer(sizes, sizes) * rng.uniform(0.5, 1, (N, N)), 1)
    d = d + d.T
    i, j = np.nonzero(np.triu(rng.random((N, N)) < 0.3, 1))
    pairs = make_pairs(N, i, j, d[i, j], squared=True)
    form = Form(np.array([1.0, 1.0, -1.0]))
    end = Configuration(
        coordinates=x,
        form=form,
        loss=PairLoss("relative", 4.0),
        value=0.0,
        history=(1.0,),
        converged=True,
        relative_gradient=0.0,
    )
    return d, pairs, end


def measured(fitted, drawn):
    """Embed with figures from all dissimilarities of some objects."""
    d, pairs, end = fitted
    others = [np.delete(np.arange(N), i) for i in drawn]
    checks = [
        (i, rest, d[i, rest]) for i, rest in zip(drawn, others, strict=True)
    ]
    return from_pairs(pairs, end, 3, checks=checks)


def test_where_all_pairs_are_checked_the_figures_are_those_of_all_pairs(
    fitted,
):
    d, pairs, _ = fitted
    emb = measured(fitted, range(N))
    off = ~np.eye(N, dtype=bool)
    sq = (emb.coordinates[:, None] - emb.coordinates) ** 2 * emb.signs
    d_hat = sq.sum(axis=2)
    assert emb.stress == pytest.approx(np.sum((d_hat - d) ** 2))
    assert 2 * emb.loss_value == pytest.approx(
        np.sum(
            (
                (np.sqrt(np.maximum(d_hat, 0)) - np.sqrt(d))
                / np.maximum(np.sqrt(d), 2)
            )[off]
            ** 2
        )
    )
    assert emb.info.sq_norm == pytest.approx(np.sum(d**2))
    assert emb.info.total_sum_of_squares == pytest.approx(
        d[off].var() * off.sum()
    )
    assert emb.info.trace == pytest.approx(0.5 * (N - 1) * d[off].mean())
    assert emb.info.held_out_pairs == off.sum() - 2 * pairs.size
    without = [np.sum((d_hat - sq[..., a] - d) ** 2) for a in range(3)]
    rises = (np.array(without) - emb.stress) / emb.info.total_sum_of_squares
    np.testing.assert_allclose(emb.explained, rises)


def test_standard_errors_are_those_of_leaving_out_one_object(fitted):
    drawn = np.arange(4, N)
    emb = measured(fitted, drawn)
    parts = [measured(fitted, np.delete(drawn, i)) for i in range(drawn.size)]
    figures = np.array([(part.stress, part.r2) for part in parts])
    jackknife = np.sqrt((drawn.size - 1) ** 2 / drawn.size) * figures.std(
        axis=0, ddof=1
    )
    np.testing.assert_allclose(
        emb.info.stress_standard_error, jackknife[0], rtol=0.005
    )
    np.testing.assert_allclose(
        emb.info.r2_standard_error, jackknife[1], rtol=0.05
    )
