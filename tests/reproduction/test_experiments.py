"""Every table and figure runs on small data, and gives published numbers on the paper's own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from neucmds import neuc_mds
from neucmds.datasets import euclidean_ball
from neucmds.explore import evaluate
from reproduction.__main__ import main
from reproduction.bench import Bench
from reproduction.counting import count_as_published, is_metric
from reproduction.curves import stress_curve
from reproduction.drawing import draw
from reproduction.paradox import steps_that_show_it
from reproduction.published import IMAGE_OTHER_METRIC, TABLES
from reproduction.registry import EXPERIMENTS, select
from reproduction.smacof import run_smacof
from reproduction.sources import SYNTHETIC, Settings

SMALL = 50
METHODS = ("classical", "lower", "neuc", "neuc+")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A bench of small synthetic sets, without any files."""
    empty = tmp_path_factory.mktemp("empty")
    return Bench(
        Settings(seed=5, data_home=empty, download=False, n=SMALL), n_seeds=2
    )


@pytest.mark.parametrize(
    "name", [name for name in EXPERIMENTS if "randommatrix" not in name]
)
def test_without_files_the_synthetic_rows_still_run(small, name):
    record = EXPERIMENTS[name].run(small)
    assert record.name == name
    skipped = {skip.row for skip in record.skipped}
    assert not skipped & {*SYNTHETIC}
    assert all("\n" not in skip.reason for skip in record.skipped)
    assert all(
        np.isfinite(c.ours) for c in record.cells if isinstance(c.ours, float)
    )
    printed = [cell for cell in record.cells if cell.printed is not None]
    assert all(
        (cell.ours is None) == (cell.row in skipped) for cell in printed
    )
    for table in TABLES:
        if table.label in record.labels:
            expected = {
                (r, c)
                for r in table.rows
                for c in table.columns
                if table.get(r, c)
            }
            assert {(cell.row, cell.column) for cell in printed} == expected
    assert len(draw(record).axes) >= len(record.panels)


def test_every_published_table_has_an_experiment_that_its_label_selects():
    for table in TABLES:
        (experiment,) = select([table.label])
        assert experiment.label == table.label
    assert [experiment.name for experiment in select([])] == list(EXPERIMENTS)
    assert len(select(["table:dataset", "tab:dataset"])) == 1


def test_the_paradox_is_that_of_classical_mds_alone(small):
    record = EXPERIMENTS["figure:dim-para-all"].run(small)
    assert [s.name for s in record.panels[0].series] == [
        *METHODS,
        "exact",
        "refined",
    ]
    factors = {
        m: record.cell("Euclidean-ball", f"factor: {m}").ours for m in METHODS
    }
    assert factors["classical"] > 1
    assert factors["neuc"] <= 1
    assert factors["neuc+"] <= 1
    curves = {
        "classical": np.array([3.0, 1.0, 2.0, 4.0]),
        "neuc": np.array([9.0, 5.0, 6.0, 5.5]),
        "neuc+": np.array([9.0, 8.0, 7.0, 6.0]),
    }
    # to k = 4: from 2 classical is worst but neuc rises; from 3 and 1 it falls
    assert list(steps_that_show_it(curves, 4)) == [(3, 4), (1, 4)]
    assert list(steps_that_show_it(curves, 2)) == []


@pytest.mark.filterwarnings("ignore::neucmds.FewerComponentsWarning")
@pytest.mark.parametrize("method", METHODS)
def test_curves_and_counts_are_those_of_embeddings(small, method):
    name, ks = "Euclidean-ball", range(1, SMALL)
    D = small.problem(name).sq_dissimilarity
    fits = {k: neuc_mds(D, k, method, squared=True) for k in ks}
    curve = stress_curve(*small.spectrum(name), method, ks)
    expected = [fit.stress for fit in fits.values()]
    np.testing.assert_allclose(
        curve, expected, rtol=1e-9, atol=1e-12 * np.sum(D**2)
    )
    counts = count_as_published(D, 20)
    quality = evaluate(fits[20], D)
    assert counts.twins == 0
    assert counts.negative_pairs[method] == quality.negative_dissimilarities
    assert counts.distortion[method] == pytest.approx(
        quality.distortion, rel=1e-9
    )


def test_twins_are_told_from_pairs_that_are_really_negative():
    # A star of six stars of four leaves: the leaves of one branch are twins, D̂ is zero for them.
    paths = [
        {0},
        *({0, b} for b in range(1, 7)),
        *({0, b, 10 * b + i} for b in range(1, 7) for i in range(4)),
    ]
    hops = np.array([[len(a ^ b) for b in paths] for a in paths], dtype=float)
    counts = count_as_published(hops**2, 5)
    assert counts.twins >= 6 * 6
    low, high = counts.range_of("neuc")
    assert low <= counts.negative_pairs["neuc"] <= high
    assert high - low == counts.twins
    assert is_metric(hops**2)
    assert not is_metric(euclidean_ball(60, random_state=1))
    assert not is_metric(np.array([[0.0, -1.0], [-1.0, 0.0]]))


def test_smacof_measures_what_it_says():
    x = np.random.default_rng(0).normal(size=(30, 2))
    d = np.square(x[:, None] - x[None]).sum(-1)
    fair = run_smacof(d, 4, on_squared=False, seed=0)
    assert fair.stress < 1e-2 * np.sum(
        d**2
    )  # √D is Euclidean, so SMACOF can fit it
    as_published = run_smacof(d, 4, on_squared=True, seed=0)
    assert as_published.own_stress == pytest.approx(
        as_published.stress / 2, rel=1e-3
    )


@pytest.fixture(scope="module")
def real(data_home):
    """The paper's own data, made once for all tests."""
    return Bench(Settings(data_home=data_home, download=False))


# One or two rows of each kind; `make reproduction` compares all of them.
@pytest.mark.parametrize(
    ("row", "rel"),
    [
        ("MNIST", 0.002),
        ("MNIST (k=10)", 0.002),
        ("CIFAR-10 (k=10)", 0.002),
        ("MNIST (noise)", 0.003),
        ("CIFAR-10 (missing)", 0.015),
    ],
)
def test_the_images_give_the_published_rows(real, row, rel):
    table = next(
        t for t in TABLES if "norm: neuc" in t.columns and row in t.rows
    )
    for method in METHODS:
        printed, quality = (
            table.get(row, f"norm: {method}"),
            real.quality(row, method),
        )
        ours = (
            quality.scaled_additive_error
            if "E15" in printed.errata
            else quality.stress**0.5
        )
        assert ours == pytest.approx(printed.value, rel=rel), method


@pytest.mark.parametrize("row", ["MNIST (k=10)", "CIFAR-10 (k=10)"])
def test_negative_pairs_are_unordered_and_new_ones_only(real, row):
    counts, printed = real.counts(row), IMAGE_OTHER_METRIC.get
    assert counts.twins == 0
    assert (
        counts.negative_pairs["neuc"]
        == printed(row, "negative pairs: neuc").value
    )
    # errata E13
    assert (
        counts.new_negative_pairs
        == printed(row, "negative pairs: neuc+").value
    )
    for method in ("neuc", "neuc+"):
        kept = real.quality(row, method).negative_coordinates
        assert kept == printed(row, f"negative eigenvalues: {method}").value


def test_the_program_lists_names_writes_files_and_refuses_an_unknown_name(
    tmp_path, capsys
):
    assert main(["--list"]) == 0
    assert "tab:evaluation-2-all" in capsys.readouterr().out
    assert main(["table:nothing"]) == 2
    assert (
        "no table:nothing; choose from table:dataset"
        in capsys.readouterr().err
    )
    asked = [
        "--no-download",
        "--data",
        str(tmp_path),
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(["figure:eigen-dist-renal", *asked]) == 0
    told = capsys.readouterr()
    assert "Renal not run" in told.out
    assert "[1/1] figure:eigen-dist-renal " in told.err
    written = {path.name for path in (tmp_path / "out").iterdir()}
    stem = "figure-eigen-dist-renal"
    names = {f"{stem}.{kind}" for kind in ("json", "md", "csv")}
    assert written == names | {"reproduction.md", "reproduction.json"}
    record = json.loads(
        (tmp_path / "out" / f"{stem}.json").read_text(encoding="utf-8")
    )
    assert record["skipped"][0]["row"] == "Renal"
    assert record["seconds"] > 0
