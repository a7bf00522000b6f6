"""The options of embed: metadata, pictures, weights, landmarks, features, and what is printed."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import Embedding, evaluate, neuc_mds
from neucmds.metrics import pair_errors
from neucmds.operators import DenseGram
from neucmds.ordination import envfit

from .conftest import squared_gaps


@pytest.fixture
def sites(here, named_csv):
    """Metadata of the 14 sites, in another order than theirs."""
    rng = np.random.default_rng(3)
    lines = ["id,habitat,depth,year"]
    lines += [f"site{i},{['bog', 'fen'][i % 2]},{i / 4},{2000 + i % 3}" for i in range(14)]
    lines[1:] = [lines[1 + i] for i in rng.permutation(14)]
    (here / "meta.csv").write_text("\n".join(lines) + "\n")
    return here / "meta.csv"


def _rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _refused(outcome, *words):
    assert outcome.code == 2, outcome.out
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("neucmds: error: ")
    for word in words:
        assert word in outcome.err


def _seen(monkeypatch):
    """Note what is drawn, and draw it."""
    from neucmds.cli import results

    draw, calls = results.plot_coordinates, []

    def noted(embedding, color, **options):
        calls.append({"color": color, **options})
        return draw(embedding, color, **options)

    monkeypatch.setattr(results, "plot_coordinates", noted)
    return calls


class TestMetadata:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("column", "expected"),
        [
            ("habitat", ["bog", "fen"] * 7),
            ("year", [2000 + i % 3 for i in range(14)]),
            ("depth", [i / 4 for i in range(14)]),
        ],
    )
    def test_rows_go_to_the_objects_they_name(
        self, run, named_csv, sites, monkeypatch, column, expected
    ):
        calls = _seen(monkeypatch)
        options = ["--metadata", sites, "--color-by", column]
        options += ["--ellipses"] if column == "habitat" else []
        outcome = run("embed", named_csv, "-k", 3, *options)
        assert outcome.code == 0, outcome.err
        assert [call["color"] for call in calls] == [expected] * len(calls)
        assert (calls[0]["title"], calls[0]["ellipses"]) == (column, column == "habitat")

    def test_rows_without_names_are_in_order(self, run, here, matrix, sites, monkeypatch):
        options = ["embed", matrix, "-k", 3, "--metadata", sites, "--color-by", "habitat"]
        _refused(run(*options), "names its rows")
        rows = [row["habitat"] for row in _rows(sites)]
        sites.write_text("\n".join(["habitat", *rows]) + "\n")
        calls = _seen(monkeypatch)
        outcome = run(*options)
        assert outcome.code == 0, outcome.err
        assert calls[0]["color"] == rows

    def test_numbers_can_be_categories(self, run, here, named_csv, sites):
        options = ["--metadata", sites, "--arrows", "--categories", "year,depth", "--plots", "none"]
        _refused(run("embed", named_csv, *options), "no column of numbers for --arrows")
        assert run("embed", named_csv, "-k", 2, *options[:4], "year", "--plots", "none").code == 0
        kinds = {r["variable"]: r["kind"] for r in _rows(here / "sites-neucmds" / "envfit.csv")}
        assert kinds == {"depth": "vector", "habitat": "factor", "year": "factor"}


class TestPictures:
    @pytest.mark.slow
    def test_a_negative_axis_is_shown_without_being_asked_for(self, run, here, monkeypatch):
        x = np.random.default_rng(0).normal(size=(20, 3)) * [3, 2, 1]
        d = ((x[:, None, :2] - x[None, :, :2]) ** 2).sum(-1)
        d = d - 0.3 * (x[:, None, 2] - x[None, :, 2]) ** 2
        np.save(here / "d.npy", d)
        calls = _seen(monkeypatch)
        outcome = run("embed", "d.npy", "-k", "2,1", "--squared")
        assert outcome.code == 0, outcome.err
        assert [call["axes"] for call in calls] == [(1, 2), (1, 3)]
        assert (here / "d-neucmds" / "coordinates_neg.png").exists()
        assert run("embed", "d.npy", "-k", "2,1", "--squared", "--axes", "2,3", "--force").code == 0
        assert calls[-1]["axes"] == (2, 3)
        assert not (here / "d-neucmds" / "coordinates_neg.png").exists()

    @pytest.mark.slow
    def test_pdf_is_the_same_in_every_run(self, run, here, matrix):
        contents = []
        for _ in range(2):
            assert run("embed", matrix, "-k", 2, "--plots", "pdf", "--force").code == 0
            contents.append((here / "gaps-neucmds" / "scree.pdf").read_bytes())
        assert contents[0].startswith(b"%PDF")
        assert contents[0] == contents[1]

    @pytest.mark.slow
    @pytest.mark.parametrize("k", [1, 2])
    def test_arrows_come_with_their_numbers(self, run, here, named_csv, sites, k):
        outcome = run("embed", named_csv, "-k", k, "--metadata", sites, "--arrows")
        assert outcome.code == 0, outcome.err
        folder = here / "sites-neucmds"
        rows = {row["variable"]: row for row in _rows(folder / "envfit.csv")}
        assert list(rows) == ["depth", "year", "habitat"]
        embedding = Embedding.load(folder / "embedding.npz")
        columns = {"depth": [i / 4 for i in range(14)], "habitat": ["bog", "fen"] * 7}
        expected = envfit(embedding.coordinates, columns, random_state=0)
        for name in columns:
            assert float(rows[name]["r2"]) == pytest.approx(expected[name].r2, rel=1e-12)
            assert 0 < float(rows[name]["p"]) <= 1
        assert rows["habitat"]["cos_x"] == ""
        assert float(rows["depth"]["cos_x"]) == pytest.approx(expected["depth"].direction[0])

    @pytest.mark.slow
    def test_other_losses_have_a_spectrum_and_gaps_have_none(self, run, here, matrix):
        assert run("embed", matrix, "-k", 2, "--loss", "distance").code == 0
        assert (here / "gaps-neucmds" / "spectrum.png").exists()
        d = squared_gaps()
        d[0, 1] = d[1, 0] = np.nan
        np.save(here / "gappy.npy", d)
        assert run("embed", "gappy.npy", "-k", 2, "--missing", "ignore").code == 0
        pictures = {path.name for path in (here / "gappy-neucmds").glob("*.png")}
        assert "shepard.png" in pictures
        assert "spectrum.png" not in pictures


class TestWeights:
    @staticmethod
    def _table(weights, names):
        lines = ["," + ",".join(names)]
        lines += [f"{n}," + ",".join(map(str, row)) for n, row in zip(names, weights, strict=True)]
        return "\n".join(lines) + "\n"

    def test_are_matched_by_name(self, run, here, named_csv):
        rng = np.random.default_rng(5)
        weights = rng.uniform(0.1, 2, size=(14, 14))
        weights += weights.T
        order = rng.permutation(14)
        text = self._table(weights[np.ix_(order, order)], [f"site{i}" for i in order])
        (here / "w.csv").write_text(text)
        outcome = run("embed", named_csv, "-k", 2, "--weights", "w.csv", "--plots", "none")
        assert outcome.code == 0, outcome.err
        expected = neuc_mds(squared_gaps(), 2, weights=weights, random_state=0)
        saved = Embedding.load(here / "sites-neucmds" / "embedding.npz")
        assert saved.stress == pytest.approx(expected.stress, rel=1e-6)


class TestLandmarks:
    @pytest.mark.slow
    def test_all_objects_are_placed_and_measured(self, run, here):
        d = squared_gaps(200)
        np.save(here / "d.npy", d)
        outcome = run("embed", "d.npy", "-k", 4, "--landmarks", 50)
        assert outcome.code == 0, outcome.err
        folder = here / "d-neucmds"
        quality = json.loads((folder / "quality.json").read_text())
        assert (quality["n"], quality["landmarks"], quality["measured_objects"]) == (200, 50, 200)
        rows = _rows(folder / "coordinates.csv")
        placed = np.array([[float(x) for x in list(row.values())[1:]] for row in rows])
        model = Embedding.load(folder / "embedding.npz")
        assert (placed.shape, len(model.landmarks)) == ((200, 4), 50)
        gap = placed[:, None] - placed[None, :]
        d_hat = (gap**2) @ model.signs
        assert quality["stress"] == pytest.approx(((d_hat - d**2) ** 2).sum(), rel=1e-6)
        assert "50 embedded, 150 others placed among them" in outcome.out
        assert {p.name for p in folder.glob("*.png")} >= {"coordinates.png", "shepard.png"}

    @pytest.mark.parametrize("loss", ["squared", "distance", "relative"])
    def test_every_loss_fits_and_places(self, run, here, loss):
        x = np.random.default_rng(0).standard_normal((120, 3))
        np.save(here / "d.npy", np.abs(x[:, None] - x[None, :]).sum(axis=2))
        options = ["-k", 4, "--landmarks", 40, "--loss", loss, "--plots", "none"]
        outcome = run("embed", "d.npy", *options)
        assert outcome.code == 0, outcome.err
        model = Embedding.load(here / "d-neucmds" / "embedding.npz")
        assert (len(model.landmarks), model.loss) == (40, loss)
        quality = json.loads((here / "d-neucmds" / "quality.json").read_text())
        assert quality["r2"] > 0.9

    @pytest.mark.slow
    def test_a_sample_is_called_one(self, run, here, monkeypatch):
        monkeypatch.setattr("neucmds.cli.results.MEASURED_OBJECTS", 60)
        np.save(here / "d.npy", squared_gaps(150))
        outcome = run("embed", "d.npy", "-k", 3, "--landmarks", 40)
        assert outcome.code == 0, outcome.err
        assert "pairs of 60 objects drawn at random" in " ".join(outcome.out.split())
        quality = json.loads((here / "d-neucmds" / "quality.json").read_text())
        assert (quality["n"], quality["measured_objects"]) == (150, 60)

    def test_names_lead_back_to_the_landmarks(self, run, here, named_csv):
        options = ["-k", 2, "--landmarks", 8, "--plots", "none", "-o", "model"]
        assert run("embed", named_csv, *options).code == 0
        model = Embedding.load(here / "model" / "embedding.npz")
        columns = list(model.landmarks)
        lines = [",".join(f"site{i}" for i in reversed(columns))]
        lines.append(",".join(str(x) for x in squared_gaps()[3, columns[::-1]]))
        (here / "new.csv").write_text("\n".join(lines) + "\n")
        placed = run("project", "model", "new.csv", "--json").document["coordinates"][0]
        row = _rows(here / "model" / "coordinates.csv")[3]
        np.testing.assert_allclose(placed, [float(x) for x in list(row.values())[1:]], atol=1e-9)


class TestFeatures:
    @pytest.fixture
    def abundances(self, here):
        counts = np.random.default_rng(0).poisson(2.0, size=(12, 6)) + np.eye(12, 6)
        lines = ['"",' + ",".join(f'"sp{j}"' for j in range(6))]
        lines += [f'"{i + 1}",' + ",".join(map(str, row)) for i, row in enumerate(counts)]
        (here / "counts.csv").write_text("\n".join(lines) + "\n")
        return counts

    @pytest.mark.slow
    def test_dissimilarities_are_made_here(self, run, here, abundances):
        options = ["counts.csv", "--metric", "braycurtis", "-k", 3]
        outcome = run("embed", *options)
        assert outcome.code == 0, outcome.err
        saved = Embedding.load(here / "counts-neucmds" / "embedding.npz")
        assert saved.labels == tuple(str(i) for i in range(1, 13))
        expected = neuc_mds(squareform(pdist(abundances, "braycurtis")), 3, random_state=0)
        assert saved.stress == pytest.approx(expected.stress, rel=1e-6)

    def test_a_table_without_names_and_npy(self, run, here, abundances):
        np.save(here / "x.npy", abundances)
        text = "\n".join(",".join(map(str, row)) for row in abundances)
        (here / "bare.csv").write_text("a,b,c,d,e,f\n" + text + "\n")
        for file in ("x.npy", "bare.csv"):
            options = ["--metric", "cityblock", "-k", 2, "--json", "--plots", "none"]
            document = run("embed", file, *options).document
            expected = neuc_mds(squareform(pdist(abundances, "cityblock")), 2, random_state=0)
            assert document["stress"] == pytest.approx(expected.stress, rel=1e-6)


class TestGraph:
    @pytest.mark.slow
    def test_shortest_paths_of_a_list_of_edges(self, run, here):
        names = [f"stop {c}" for c in "abcdefgh"]  # a ring of 8
        edges = [f"{a},{b},1.5" for a, b in zip(names, names[1:] + names[:1], strict=True)]
        (here / "edges.csv").write_text("from,to,length\n" + "\n".join(edges) + "\n")
        outcome = run("embed", "--metric", "shortest_path", "edges.csv", "-k", 3)
        assert outcome.code == 0, outcome.err
        saved = Embedding.load(here / "edges-neucmds" / "embedding.npz")
        gap = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
        expected = neuc_mds(1.5 * np.minimum(gap, 8 - gap), 3, random_state=0)
        assert saved.labels == tuple(names)
        assert saved.stress == pytest.approx(expected.stress, rel=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("options", [[], ["--landmarks", 60]], ids=["sampled", "landmarks"])
    def test_many_nodes_need_no_matrix(self, run, here, monkeypatch, options):
        monkeypatch.setattr("neucmds.api.options.MOST_PATHS", 100)
        monkeypatch.setattr("neucmds.cli.results.MEASURED_OBJECTS", 80)
        edges = [f"n{i},n{i + s},1" for i in range(400) for s in (1, 20) if i + s < 400]
        (here / "edges.csv").write_text("from,to,length\n" + "\n".join(edges) + "\n")
        found = run("embed", "edges.csv", "--metric", "shortest_path", "-k", 4, "--json", *options)
        assert found.code == 0, found.err
        assert (found.document["n"], found.document["measured_objects"]) == (400, 80)
        assert found.document["r2"] > 0.9
        rows = _rows(here / "edges-neucmds" / "coordinates.csv")
        assert {row["object"] for row in rows} == {f"n{i}" for i in range(400)}


class TestWhatIsPrinted:
    def test_numbers_are_those_of_the_library(self, run, here, named_csv):
        outcome = run("embed", named_csv, "-k", 3, "--method", "neuc+", "--plots", "none")
        assert outcome.code == 0, outcome.err
        assert len(outcome.out.splitlines()) <= 24
        text = " ".join(outcome.out.split())
        d = squared_gaps()
        embedding = neuc_mds(d, 3, "neuc+")
        d_hat = np.maximum(embedding.dissimilarities(), 0)
        i, j = np.triu_indices(14, 1)
        errors = np.abs(np.sqrt(d_hat[i, j]) / d[i, j] - 1)
        assert f"{(errors > 0.1).sum()} of 91 pairs" in text
        means = [errors[(i == a) | (j == a)].mean() for a in range(14)]
        worst = np.argsort(means)[::-1][:3]
        at = [text.index(f"site{a} ({100 * means[a]:.3g} %") for a in worst]
        assert at == sorted(at)
        assert f"R² {evaluate(embedding, d).r2:.4g}" in text

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--method", "neuc+"], "Try next: -k 2; --method refined."),
            ([], "Try next: -k 2; --loss relative, if near pairs matter."),
            (["--loss", "relative"], "Try next: -k 2."),
        ],
    )
    def test_what_to_try_next_is_named(self, run, named_csv, options, said):
        assert said in run("embed", named_csv, "-k", 1, *options, "--plots", "none").out

    def test_nothing_is_advised_for_a_perfect_fit(self, run, here):
        np.save(here / "line.npy", np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0))))
        outcome = run("embed", "line.npy", "-k", 1, "--plots", "none")
        assert outcome.code == 0, outcome.err
        assert "0 of 28 pairs" in outcome.out
        assert "Try next" not in outcome.out

    def test_shares_of_the_axes_are_in_the_file(self, run, here, matrix):
        document = run("embed", matrix, "-k", 3, "--plots", "none", "--json").document
        saved = Embedding.load(here / "gaps-neucmds" / "embedding.npz")
        assert document["explained"] == pytest.approx(list(saved.explained))
        assert document["axes"] == list(saved.axis_names)


def test_pair_errors_leave_out_what_has_no_weight():
    d = squared_gaps(6)
    x = np.zeros((6, 1))
    weights = np.ones((6, 6))
    weights[0, 1:] = weights[1:, 0] = 0
    found = pair_errors(DenseGram(d), x, np.ones(1), weights=weights)
    assert (found.pairs, found.pairs_off) == (10, 10)
    assert np.isnan(found.of_object[0])
    np.testing.assert_allclose(found.of_object[1:], 1.0)
    assert 0 not in found.worst(6)


def test_plots_of_an_embedding_are_one_call(tmp_path):
    d = squared_gaps(9)
    embedding = neuc_mds(d, 3)
    ax = embedding.plot(["a", "b", "c"] * 3, axes=(3, 1), title="third")
    assert ax.get_xlabel().startswith("axis 3")
    assert "36 pairs" in embedding.plot_shepard(d).get_title(loc="left")
