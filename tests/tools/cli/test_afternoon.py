"""The ecologist's afternoon of the docs, run block by block on files that R wrote."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neucmds import Embedding, InputError
from neucmds.ecology import species_scores

pytest.importorskip("typer")


from neucmds.tools.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
PAGE = (ROOT / "docs" / "guide" / "ecologists_afternoon.md").read_text(
    encoding="utf-8"
)


def _blocks(language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )


COMMANDS = [
    shlex.split(line)[1:]
    for block in _blocks("sh")
    for line in block.splitlines()
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the files that the first block of R writes."""
    folder = tmp_path_factory.mktemp("afternoon")
    files = {"braycurtis": "dune", "env": "env", "species": "species"}
    for fixture, name in files.items():
        shutil.copy(FIXTURES / f"dune_{fixture}.csv", folder / f"{name}.csv")
    table = pd.read_csv(folder / "dune.csv", index_col=0)
    table.iloc[:15, :15].to_csv(folder / "known.csv")
    return folder


@pytest.fixture(scope="module")
def afternoon(here):
    """Run the commands of the page; return what each printed."""
    printed = []
    with contextlib.chdir(here):
        for command in COMMANDS:
            out = io.StringIO()
            with (
                pytest.MonkeyPatch.context() as patch,
                contextlib.redirect_stdout(out),
            ):
                patch.setattr("sys.argv", ["neucmds", *command])
                assert main() == 0
            printed.append(out.getvalue())
    return printed


def test_every_step_runs_and_says_what_the_page_says(
    afternoon, here, monkeypatch
):
    said = ["diagnose", "compare", "embed", "test"]
    said += [*["embed"] * 3, "project", "embed"]
    assert [command[0] for command in COMMANDS] == said
    inspected, compared, embedded, *_ = afternoon
    assert "14 positive, 5 negative" in inspected
    assert "6.03 % of Σ|λ|" in inspected
    best = next(
        line for line in compared.splitlines() if line.startswith(" refined")
    )
    assert best.split()[1].endswith("*")
    (shown,) = _blocks("text")
    found = [" ".join(line.split()) for line in embedded.splitlines()]
    for line in shown.splitlines():
        assert " ".join(line.split()) in found
    assert afternoon[3].count("Management") >= 3
    names = {path.name for path in (here / "dune-neucmds").iterdir()}
    assert all(name in PAGE for name in names)

    # Abundances in: the dissimilarities of vegan, and the same coordinates.
    made, given = (
        Embedding.load(here / folder / "embedding.npz")
        for folder in ("from-species", "dune-neucmds")
    )
    assert made.labels == given.labels
    assert made.stress == pytest.approx(given.stress, rel=1e-6)
    scores, plants = (
        pd.read_csv(here / name, index_col=0)
        for name in ("from-species/species.csv", "species.csv")
    )
    np.testing.assert_allclose(
        scores, species_scores(made.coordinates, plants.reset_index(drop=True))
    )

    # On to Python.
    pytest.importorskip("skbio")
    scope: dict = {}
    (script,) = _blocks("python")
    monkeypatch.chdir(here)
    exec(script, scope)
    row = scope["ordination"].samples.loc["17"]
    np.testing.assert_allclose(
        row, given.coordinates[given.labels.index("17")]
    )


def test_envfit_has_the_numbers_of_vegan(afternoon, here):
    rows = pd.read_csv(here / "pcoa" / "envfit.csv", index_col="variable")
    vegan = json.loads((FIXTURES / "vegan_envfit.json").read_text())[
        "two_axes"
    ]
    expected = {
        vegan["vectors"]["names"]: (
            vegan["vectors"]["r2"],
            vegan["vectors"]["p"],
        )
    }
    factors = vegan["factors"]
    expected |= dict(
        zip(
            factors["names"],
            zip(factors["r2"], factors["p"], strict=True),
            strict=True,
        )
    )
    assert set(rows.index) == set(expected)
    table = re.search(r"^\| r² of vegan[^|]*\|(.*)\|$", PAGE, re.MULTILINE)[
        1
    ].split("|")
    for (name, (r2, p)), printed in zip(expected.items(), table, strict=True):
        assert rows["r2"][name] == pytest.approx(r2, abs=1e-6)
        # 999 permutations here, 9999 there: three standard errors.
        assert rows["p"][name] == pytest.approx(
            p, abs=3 * (p * (1 - p) / 999) ** 0.5 + 1e-3
        )
        assert float(printed) == pytest.approx(r2, abs=5e-5)
    axes = pd.read_csv(here / "pcoa" / "axes.csv")
    # vegan's wcmdscale and capscale.
    vegan_shares = {
        "share_of_trace": (0.39922, 0.23782),
        "share_of_positive": (0.37359, 0.22255),
    }
    for name, shares in vegan_shares.items():
        assert list(axes[name]) == pytest.approx(shares, abs=5e-6)
        assert (
            f"`{name}`) | "
            + " | ".join(f"{100 * share:.1f} %" for share in shares)
            in PAGE
        )
    arrow = vegan["vectors"]["arrows"][0]
    assert list(rows.loc["A1", ["cos_x", "cos_y"]]) == pytest.approx(
        arrow, abs=1e-6
    )


def test_centroids_and_corrected_coordinates_are_those_of_vegan_and_ape(
    afternoon, here
):
    vegan = json.loads((FIXTURES / "vegan_envfit.json").read_text())[
        "two_axes"
    ]["factors"]
    found = pd.read_csv(here / "pcoa" / "centroids.csv", dtype={"class": str})
    assert list(found["variable"] + found["class"]) == vegan["levels"]
    np.testing.assert_allclose(
        found[["centroid_x", "centroid_y"]], vegan["centroids"], atol=1e-8
    )
    ape = json.loads((FIXTURES / "vegan_tests.json").read_text())[
        "corrections"
    ]["lingoes"]
    axes = pd.read_csv(here / "corrected" / "axes.csv")
    np.testing.assert_allclose(axes["share_of_trace"], ape["share"], rtol=1e-8)
    x = pd.read_csv(here / "corrected" / "coordinates.csv", index_col=0)
    np.testing.assert_allclose(
        np.abs(x), np.abs(ape["points"]), rtol=1e-6, atol=1e-8
    )
    model = Embedding.load(here / "corrected" / "embedding.npz")
    with pytest.raises(InputError, match="or no rule for new ones"):
        model.transform(np.ones((1, 20)))


def test_later_sites_are_placed_by_name_and_drawn(afternoon, here):
    placed = pd.read_csv(here / "placed.csv", index_col=0).rename(index=str)
    table = pd.read_csv(here / "dune.csv", index_col=0).rename(index=str)
    model = Embedding.load(here / "model" / "embedding.npz")
    assert list(placed.index) == ["16", "17", "18", "19", "20"]
    new = table.loc[placed.index, list(model.labels)]
    np.testing.assert_allclose(
        placed[list(model.axis_names)], model.transform(new)
    )
    d_hat = model.between(
        model.transform(new), model.coordinates, squared=True
    )
    missed = np.sum((d_hat - new**2) ** 2, axis=1)
    spread = np.sum((new**2).sub((new**2).mean(axis=1), axis=0) ** 2, axis=1)
    np.testing.assert_allclose(placed["r2"], 1 - missed / spread)
    np.testing.assert_allclose(
        placed["normalized_stress"], missed / np.sum(new**4, axis=1)
    )
    assert (here / "placed.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.skipif(
    shutil.which("Rscript") is None, reason="R is not installed"
)
def test_r_reads_the_coordinates_back(afternoon, here):
    back = next(block for block in _blocks("r") if "read.csv" in block)
    code = (
        back
        + 'cat(nrow(x), ncol(x), colnames(x), rownames(x)[20], format(x["20", 2], digits=15))'
    )
    done = subprocess.run(
        ["Rscript", "-e", code],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    embedding = Embedding.load(here / "dune-neucmds" / "embedding.npz")
    *words, last = done.stdout.split()
    assert words == ["20", "4", *embedding.axis_names, "20"]
    assert float(last) == pytest.approx(
        embedding.coordinates[19, 1], rel=1e-12
    )
