"""What an ecologist types and reads: starts, tolerances, advice, and the R² of a plot."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import squareform

from neucmds import Embedding, InputError, evaluate, neuc_mds

FIXTURES = Path(__file__).parents[2] / "fixtures"
QUIET = ("--plots", "none")


@pytest.fixture
def dune(here):
    table = pd.read_csv(FIXTURES / "dune_braycurtis.csv", index_col=0)
    table.to_csv("dune.csv")
    return table.to_numpy()


def test_a_fit_goes_on_from_an_embedding(run, dune):
    distance = ("embed", "dune.csv", "--loss", "distance", *QUIET)
    first = run(*distance, "-k", "2,0", "--max-iter", 1, "-o", "first")
    assert first.code == 0
    for start in ("first", "first/embedding.npz"):
        run(*distance, "--init", start, "--tol", 1e-9, "-o", "on", "--force")
        found = Embedding.load("on/embedding.npz")
        before = Embedding.load("first/embedding.npz")
        expected = neuc_mds(dune, loss="distance", init=before, tol=1e-9)
        assert found.loss_value == pytest.approx(expected.loss_value)
        assert found.signature == (2, 0)
        assert found.loss_value < before.loss_value


def test_a_stress_found_once_is_searched_with_more_starts(run, here):
    noise = squareform(np.random.default_rng(0).random(435))
    pd.DataFrame(noise).to_csv("noise.csv", header=False, index=False)
    ordinal = ("embed", "noise.csv", "-k", 3, "--loss", "ordinal", *QUIET)
    few = run(*ordinal, "--n-init", 2, "-o", "few")
    assert "found once in 2 starts" in few.err
    assert "raise --n-init" in " ".join(few.err.split())
    run(*ordinal, "--n-init", 9, "-o", "more")
    more = Embedding.load("more/embedding.npz")
    assert more.info.n_starts == 9
    assert more.stress1 <= Embedding.load("few/embedding.npz").stress1


def test_the_correlation_of_a_shepard_diagram_comes_first(run, dune):
    outcome = run(
        "embed", "dune.csv", "-k", "2,0", "--loss", "distance", *QUIET
    )
    rows = [
        line.split()[0] for line in outcome.out.splitlines() if line.strip()
    ]
    assert rows.index("stress-1") < rows.index("Shepard")
    assert rows.index("Shepard") < rows.index("S-STRESS")
    fit = Embedding.load("dune-neucmds/embedding.npz")
    quality = evaluate(fit, dune)
    assert f"{quality.shepard_r2:.4g}, the squared corr" in outcome.out
    assert f"R² of the squares {quality.r2:.4g}" in outcome.out
    assert next(iter(quality.as_dict())) == "shepard_r2"


def test_both_numbers_of_coordinates_are_said(run, dune):
    words = " ".join(run("diagnose", "dune.csv").out.split())
    assert "-k 2,0 --loss distance for a plot, or -k" in words
    assert "for prediction" in words


def test_a_pair_of_zero_is_not_counted_among_all(run, here):
    x = np.random.default_rng(0).normal(size=(12, 5))
    x[1] = x[0]
    d = np.abs(x[:, None] - x).sum(axis=2)
    np.save("d.npy", d)
    assert "of 65 pairs with d > 0 (" in run("embed", "d.npy", *QUIET).out
    np.save("other.npy", d[1:, 1:])
    assert "of 55 pairs (" in run("embed", "other.npy", *QUIET).out


def test_species_and_printouts_of_r_are_answered_with_what_to_do(run, here):
    shutil.copy(FIXTURES / "dune_species.csv", "species.csv")
    outcome = run("embed", "species.csv")
    assert outcome.code == 2
    assert "pass --metric braycurtis" in outcome.err
    # R wraps a printed dist after as many columns as fit.
    Path("printed.txt").write_text(
        "   1   2\n2 0.4    \n3 0.4 0.3\n4 0.5 0.3\n   3\n4 0.2\n"
    )
    outcome = run("embed", "printed.txt")
    assert outcome.code == 2
    assert "write.csv(as.matrix(d), file)" in outcome.err
    # Few columns are not wrapped: the triangle lacks the first row.
    shutil.copy(FIXTURES / "dune_dist_printed.txt", "short.txt")
    outcome = run("embed", "short.txt")
    assert outcome.code == 2
    assert "write.csv(as.matrix(d), file)" in outcome.err


def test_species_in_python_are_answered_with_what_to_do():
    species = pd.read_csv(FIXTURES / "dune_species.csv", index_col=0)
    with pytest.raises(InputError, match=r"pass .*metric='braycurtis'.*abund"):
        neuc_mds(species, 2)
    neuc_mds(species, 2, metric="braycurtis")
