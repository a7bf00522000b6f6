"""Every command on small matrices: what it prints, what it writes, what it refuses to overwrite."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

from neucmds import Embedding, InputError, compare, neuc_mds
from neucmds.explore import COMPARED
from neucmds.tools.cli.outputs import Outputs, as_csv

from .conftest import squared_gaps

PICTURES = ("spectrum", "scree", "coordinates", "shepard")


class TestEmbed:
    @pytest.mark.slow
    def test_writes_the_library_s_result(self, run, here, named_csv):
        outcome = run("embed", named_csv, "-k", 5, "--method", "neuc+")
        assert outcome.code == 0, outcome.err
        folder = here / "sites-neucmds"
        expected = neuc_mds(squared_gaps(), 5, "neuc+")
        table = pd.read_csv(
            folder / "coordinates.csv", float_precision="round_trip"
        )
        assert list(table.columns) == ["object", *expected.axis_names]
        assert list(table.pop("object")) == [f"site{i}" for i in range(14)]
        np.testing.assert_allclose(table, expected.coordinates, atol=1e-10)
        axes = pd.read_csv(folder / "axes.csv")
        assert list(axes["sign"]) == list(expected.signs)
        np.testing.assert_allclose(
            axes["r2_lost"], expected.explained, rtol=1e-9
        )
        saved = Embedding.load(folder / "embedding.npz")
        assert saved.labels[0] == "site0"
        assert np.array_equal(saved.coordinates, table)
        quality = json.loads((folder / "quality.json").read_text())
        assert quality["signature"] == list(expected.signature)
        assert {p.stem for p in folder.glob("*.png")} == set(PICTURES)
        assert list(here.glob(".*")) == []

    @pytest.mark.slow
    def test_a_file_larger_than_the_free_memory_is_read_in_blocks(
        self, run, here, monkeypatch
    ):
        D = squared_gaps(700)
        np.save(here / "huge.npy", D)
        monkeypatch.setattr(
            "neucmds.backend.memory.available_memory", lambda: 3_500_000
        )
        outcome = run("embed", "huge.npy", "-k", 3, "--method", "neuc+")
        assert outcome.code == 0, outcome.err
        folder = here / "huge-neucmds"
        saved, expected = (
            Embedding.load(folder / "embedding.npz"),
            neuc_mds(D, 3, "neuc+"),
        )
        np.testing.assert_allclose(
            saved.info.eigenvalues, expected.info.eigenvalues, rtol=1e-8
        )
        assert (
            folder / "shepard.png"
        ).exists()  # of sampled rows; they used to be left out
        assert (folder / "coordinates.png").exists()

    @pytest.mark.slow
    def test_existing_results_need_force(self, run, here, matrix):
        run("embed", matrix, "-k", 3, "--plots", "none")
        before = (here / "gaps-neucmds" / "coordinates.csv").read_text()
        outcome = run("embed", matrix, "-k", 4)
        assert outcome.code == 2
        assert "--force" in outcome.err
        assert outcome.err.count("\n") == 1
        assert (
            here / "gaps-neucmds" / "coordinates.csv"
        ).read_text() == before
        (here / "gaps-neucmds" / "mine.txt").write_text("stays")
        assert (
            run("embed", matrix, "-k", 4, "--force", "--plots", "svg").code
            == 0
        )
        names = {p.name for p in (here / "gaps-neucmds").iterdir()}
        files = {
            "axes.csv",
            "coordinates.csv",
            "objects.csv",
            "embedding.npz",
            "quality.json",
            "methods.txt",
        }
        assert names == files | {"mine.txt"} | {
            f"{picture}.svg" for picture in PICTURES
        }

    def test_squared_and_symmetrize_reach_the_library(self, run, here):
        d = squared_gaps()
        d[0, 1] = d[1, 0] = -0.5
        d[2, 3] += 0.2
        np.save(here / "d.npy", d)
        words = "embed d.npy -k 3 --squared --symmetrize --plots none --json"
        outcome = run(*words.split())
        assert outcome.code == 0, outcome.err
        expected = neuc_mds(d, 3, squared=True, symmetrize=True)
        assert outcome.document["stress"] == pytest.approx(expected.stress)

    @pytest.mark.slow
    def test_names_are_text_not_markup(self, run, here):
        names = ["[bold]x[/bold]", "[/]", ":smile:", "a\x1b[31mb", "$x_{$"]
        pd.DataFrame(squared_gaps(5), names, names).to_csv(
            here / "[red]$d$.csv"
        )
        pd.DataFrame({"id": names, "[b]kind": names}).to_csv(
            here / "groups.csv", index=False
        )
        options = ["--metadata", "groups.csv", "--color-by", "[b]kind"]
        outcome = run(
            "embed", "[red]$d$.csv", "-k", 2, *options, "--method", "neuc"
        )
        assert outcome.code == 0, outcome.err
        assert outcome.out.startswith("[red]$d$.csv: 5 objects")
        compared = run("compare", "[red]$d$.csv", "-k", 2, "--methods", "neuc")
        assert compared.out.startswith("[red]$d$.csv")
        missing = run("diagnose", "[/]\x1b[31m.npy")
        assert missing.code == 2
        assert "[/]" in missing.err
        assert "\x1b" not in missing.err


@pytest.mark.slow
class TestInspect:
    def test_names_outlying_entries(self, run, here):
        d = squared_gaps(9)
        d[2, 5] = d[5, 2] = 9999.0
        np.save(here / "slip.npy", d)
        out = " ".join(run("diagnose", "slip.npy").out.split())
        assert (
            "9999 between object 2 and object 5 (objects are counted from 0)"
            in out
        )
        assert run("diagnose", "slip.npy", "--json").document["outliers"][
            "entries"
        ][0][:2] == [
            2,
            5,
        ]

    def test_says_what_is_estimated(self, run, here):
        np.save(here / "many.npy", squared_gaps(2100))
        out = " ".join(run("diagnose", "many.npy").out.split())
        for words in ("at least", "about", "Next: neucmds"):
            assert words in out
        outcome = run(
            "stress-curve", "many.npy", "--k-max", 8, "--plots", "none"
        )
        assert outcome.code == 0, outcome.err
        assert "at least up to k" in outcome.out


def test_progress_is_for_terminals(run, here, matrix, monkeypatch):
    command = ["diagnose", matrix]
    assert run(*command).err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "0:00:0" in run(*command).err


class TestCompare:
    @pytest.mark.slow
    def test_one_row_a_method_and_the_best_marked(self, run, here, matrix):
        outcome = run("compare", matrix, "-k", 4)
        assert outcome.code == 0, outcome.err
        assert all(f" {method} " in outcome.out for method in COMPARED)
        assert "*" in outcome.out
        table = outcome.out[: outcome.out.index("* best")]
        assert max(len(line.rstrip()) for line in table.splitlines()) <= 88
        assert list(here.iterdir()) == [matrix]
        auto = run(
            "compare", matrix, "-k", "auto", "--methods", "classical", "--json"
        )
        expected = compare(squared_gaps(), "auto", ["classical"]).requested
        assert auto.document["requested"] == expected < 13

    def test_what_does_not_apply_is_left_out_with_the_reason(self, run, here):
        np.save(here / "minus.npy", squared_gaps() - 0.05 * (1 - np.eye(14)))
        outcome = run("compare", "minus.npy", "--squared", "-k", 3)
        assert outcome.code == 0, outcome.err
        assert "Left out: smacof" in outcome.out
        assert "Left out: cailliez" in outcome.out
        assert " lingoes " in outcome.out

    def test_nothing_defined_is_null(self, run, here):
        np.save(here / "zero.npy", np.zeros((5, 5)))
        outcome = run("compare", "zero.npy", "-k", 2, "--json")
        assert outcome.code == 0, outcome.err
        assert outcome.document["methods"][0]["distortion"] is None


class TestCurve:
    def test_finds_where_classical_turns(self, run, here, matrix):
        outcome = run("stress-curve", matrix)
        assert outcome.code == 0, outcome.err
        assert "paradox" in outcome.out
        table = pd.read_csv(here / "gaps-neucmds" / "curve.csv", index_col="k")
        assert list(table.columns) == [
            "classical",
            "lower",
            "neuc",
            "neuc+",
            "exact",
        ]
        assert list(table.index) == list(range(1, 14))
        for (
            k,
            row,
        ) in table.iterrows():  # the file holds the numbers of the table
            line = next(
                line
                for line in outcome.out.splitlines()
                if line.split()[:1] == [str(k)]
            )
            shown = [float(cell.rstrip("*")) for cell in line.split()[1:]]
            assert shown == pytest.approx(list(row), rel=5e-3)
        assert (here / "gaps-neucmds" / "curve.png").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("x", [range(8), [0] * 8, [0] * 4 + [1] * 4])
    def test_perfect_fits_have_a_curve(self, run, here, x):
        np.save(here / "d.npy", np.abs(np.subtract.outer(x, x)).astype(float))
        outcome = run("stress-curve", "d.npy")
        assert outcome.code == 0, outcome.err
        assert (here / "d-neucmds" / "curve.png").exists()

    def test_shares_a_folder_with_embed(self, run, here, matrix):
        assert run("embed", matrix, "-k", 3, "--plots", "none").code == 0
        words = "--k-max 2 --methods classical,neuc --plots none --json"
        options = ["stress-curve", matrix, *words.split()]
        document = run(*options).document
        assert list(document["stress"]) == ["classical", "neuc"]
        classical = document["stress"]["classical"]
        assert document["classical"]["best_stress"] == pytest.approx(
            min(classical)
        )
        assert run(*options).code == 2
        assert (here / "gaps-neucmds" / "coordinates.csv").exists()


def placed_by(outcome):
    """Return the table that a command printed."""
    return pd.read_csv(io.StringIO(outcome.out))


class TestProject:
    @pytest.fixture
    def model(self, run, here, named_csv):
        run(
            "embed",
            named_csv,
            "-k",
            4,
            "--method",
            "neuc+",
            "-o",
            "model",
            "--plots",
            "none",
        )
        return here / "model"

    def test_training_rows_return_to_their_places(self, run, here, model):
        np.save(here / "new.npy", squared_gaps()[:3])
        placed = placed_by(run("project", model, "new.npy"))
        fitted = Embedding.load(model / "embedding.npz")
        np.testing.assert_allclose(
            placed[list(fitted.axis_names)],
            fitted.coordinates[:3],
            atol=1e-10,
        )
        assert placed["normalized_stress"].between(0, 1).all()

    @pytest.mark.parametrize(
        "options", [["--missing", "ignore"], ["--landmarks", 8]]
    )
    def test_gaps_and_landmarks_are_placed_by_name(
        self, run, here, named_csv, options
    ):
        run(
            "embed",
            named_csv,
            "-k",
            2,
            "-o",
            "model",
            "--plots",
            "none",
            *options,
        )
        model = Embedding.load(here / "model" / "embedding.npz")
        new = pd.DataFrame(squared_gaps()[:2], columns=model.labels)
        if model.landmarks is None:
            new.iloc[:, ::3] = np.nan
        else:
            new = new.iloc[:, model.landmarks]
        new.iloc[:, ::-1].to_csv(here / "new.csv", index=False)
        placed = placed_by(run("project", "model", "new.csv"))
        placed = placed[list(model.axis_names)]
        np.testing.assert_allclose(placed, model.transform(new), atol=1e-9)

    def test_prints_csv_or_writes_it(self, run, here, model):
        np.save(here / "new.npy", squared_gaps()[0])
        printed = run("project", model / "embedding.npz", "new.npy")
        assert printed.out.startswith("object,axis1")
        assert run("project", model, "new.npy", "-o", "placed.csv").code == 0
        assert (here / "placed.csv").read_text() == printed.out
        assert run("project", model, "new.npy", "-o", "placed.csv").code == 2
        assert (
            run(
                "project", model, "new.npy", "-o", "placed.csv", "--force"
            ).code
            == 0
        )
        np.save(here / "new.npy", -squared_gaps()[0])
        refused = run("project", model, "new.npy", "-o", "other.csv")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "negative" in refused.err
        assert not (here / "other.csv").exists()


def test_no_command_prints_the_help(run):
    outcome = run()
    assert outcome.code == 0
    assert "neucmds demo" in outcome.out


@pytest.mark.slow
def test_report_writes_a_page_that_says_its_command(run, here, named_csv):
    pytest.importorskip("plotly", reason="the report needs plotly")
    rows = "\n".join(f"site{i},{'ab'[i % 2]},{i / 2}" for i in range(14))
    (here / "info.csv").write_text(f"site,habitat,depth\n{rows}\n")
    words = (
        "report sites.csv -k 3 --metadata info.csv --color-by habitat --seed 5"
    )
    outcome = run(*words.split())
    assert outcome.code == 0, outcome.err
    page = (here / "sites-report.html").read_text(encoding="utf-8")
    assert all(
        part in page
        for part in (f"neucmds {words}", '"title": "habitat"', '"site13"')
    )
    assert "sites-report.html" in outcome.out
    again = run(*words.split())
    assert again.code == 2
    assert "--force" in again.err


def test_a_table_holds_no_cell_that_a_spreadsheet_runs():
    cells = [
        "=1+1",
        "+a",
        "-2+3",
        "@x",
        "\t=1",
        "=1",
        "@2",
        "a=1",
        "-0.5",
        "+1",
        "-1e-05",
        "-1E5",
        "",
        "-inf",
    ]
    header, *rows = csv.reader(
        io.StringIO(as_csv(pd.DataFrame({"=x": cells, "y": 0.1})))
    )
    assert header == ["'=x", "y"]
    assert [row[0] for row in rows] == [
        f"'{cell}" for cell in cells[:7]
    ] + cells[7:]


def test_digits_are_enough_to_read_the_same_numbers_back():
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(0).normal(size=50).astype(dtype)
        texts = as_csv(pd.DataFrame({"x": x})).split()[1:]
        assert np.array_equal(np.array(texts, dtype=dtype), x)
        assert max(map(len, texts)) < (14 if dtype is np.float32 else 24)


def test_of_two_commands_into_one_folder_one_wins(tmp_path):
    # Both used to end well, and one overwrote the other.
    first, second = (
        Outputs(tmp_path / "out", ["a"], force=False) for _ in range(2)
    )
    first.files["a"] = lambda file: file.write(b"first")
    second.files["a"] = lambda file: file.write(b"second")
    first.commit()
    with pytest.raises(InputError, match="exists already; pass"):
        second.commit()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]
    assert (tmp_path / "out" / "a").read_bytes() == b"first"
