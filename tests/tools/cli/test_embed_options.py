"""The options of embed: metadata, pictures, weights, landmarks, features, and what is printed."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist, squareform

from neucmds import Embedding, evaluate, neuc_mds
from neucmds.ecology import envfit

from .conftest import squared_gaps


@pytest.fixture
def sites(here, named_csv):
    """Metadata of the 14 sites, in another order than theirs."""
    i = np.random.default_rng(3).permutation(14)
    table = pd.DataFrame(
        {"habitat": np.array(["bog", "fen"])[i % 2], "depth": i / 4}
    )
    table.assign(year=2000 + i % 3).set_axis([f"site{j}" for j in i]).to_csv(
        here / "meta.csv"
    )
    return here / "meta.csv"


def _rows(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict(
        "records"
    )


def _refused(outcome, *words):
    assert outcome.code == 2, outcome.out
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("neucmds: error: ")
    for word in words:
        assert word in outcome.err


class TestMetadata:
    @pytest.mark.slow
    def test_groups_are_drawn_whether_rows_have_names_or_not(
        self, run, here, matrix, sites
    ):
        options = [
            "--color-by",
            "habitat",
            "--ellipses",
            "sd",
            "--size",
            "89mm",
            "--plots",
            "svg",
            "--force",
        ]
        command = ["embed", matrix, "-k", 3, "--metadata", sites, *options]
        _refused(run(*command), "names its rows")
        sites.write_text(
            "\n".join(["habitat", *(row["habitat"] for row in _rows(sites))])
            + "\n"
        )
        outcome = run(*command)
        assert outcome.code == 0, outcome.err
        drawn = (here / "gaps-neucmds" / "coordinates.svg").read_text()
        assert all(
            f"<!-- {text} -->" in drawn for text in ("habitat", "bog", "fen")
        )
        written = (here / "gaps-neucmds" / "methods.txt").read_text()
        assert "Takane Y" in written
        assert "coordinates: Multidimensional scaling" in written
        assert "Colours: habitat. Lines: ellipses that hold 95 %" in written

    def test_numbers_can_be_categories(self, run, here, named_csv, sites):
        words = "--arrows --categories year --plots none"
        options = ["--metadata", sites, *words.split()]
        assert run("embed", named_csv, "-k", 2, *options).code == 0
        kinds = {
            r["variable"]: r["kind"]
            for r in _rows(here / "sites-neucmds" / "envfit.csv")
        }
        assert kinds == {
            "depth": "vector",
            "habitat": "factor",
            "year": "factor",
        }
        classes = [
            r["class"] for r in _rows(here / "sites-neucmds" / "centroids.csv")
        ]
        assert classes == ["bog", "fen", "2000", "2001", "2002"]

    @pytest.mark.slow
    def test_objects_without_a_row_are_refused_or_grey(
        self, run, here, named_csv, sites
    ):
        lines = sites.read_text().splitlines(keepends=True)
        sites.write_text("# made by hand\n" + "".join(lines[:11]))
        command = [
            "embed",
            named_csv,
            "-k",
            2,
            "--metadata",
            sites,
            "--color-by",
            "habitat",
        ]
        _refused(run(*command), "4 of 14 objects", "--metadata-missing grey")
        outcome = run(*command, "--metadata-missing", "grey", "--plots", "svg")
        assert outcome.code == 0, outcome.err
        assert len(_rows(here / "sites-neucmds" / "coordinates.csv")) == 14
        drawn = (here / "sites-neucmds" / "coordinates.svg").read_text()
        assert "4 objects without a value in grey" in drawn


class TestPictures:
    @pytest.mark.slow
    def test_a_negative_axis_is_shown_without_being_asked_for(self, run, here):
        x = np.random.default_rng(0).normal(size=(20, 3)) * [3, 2, 1]
        d = ((x[:, None, :2] - x[None, :, :2]) ** 2).sum(-1)
        d = d - 0.3 * (x[:, None, 2] - x[None, :, 2]) ** 2
        np.save(here / "d.npy", d)
        options = [
            "embed",
            "d.npy",
            "-k",
            "2,1",
            "--squared",
            "--plots",
            "svg",
        ]
        assert run(*options, "--method", "neuc").code == 0
        picture = here / "d-neucmds" / "coordinates_neg.svg"
        assert "axis 3, negative" in picture.read_text()
        assert run(*options, "--axes", "2,3", "--force").code == 0
        assert not picture.exists()
        assert (
            "axis 3, negative"
            in picture.with_name("coordinates.svg").read_text()
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(("k", "plots"), [(3, "svg"), (2, "none")])
    def test_arrows_come_with_their_numbers(
        self, run, here, named_csv, sites, k, plots
    ):
        options = ["--metadata", sites, "--arrows", "--plots", plots]
        outcome = run("embed", named_csv, "-k", k, *options)
        assert outcome.code == 0, outcome.err
        folder = here / "sites-neucmds"
        rows = {row["variable"]: row for row in _rows(folder / "envfit.csv")}
        assert list(rows) == ["depth", "year", "habitat"]
        embedding = Embedding.load(folder / "embedding.npz")
        columns = {
            "depth": [i / 4 for i in range(14)],
            "habitat": ["bog", "fen"] * 7,
        }
        expected = envfit(embedding.coordinates, columns, random_state=0)
        for name in columns:
            assert float(rows[name]["r2"]) == pytest.approx(
                expected[name].r2, rel=1e-12
            )
            assert 0 < float(rows[name]["p"]) <= 1
        assert rows["habitat"]["cos_x"] == ""
        assert float(rows["depth"]["cos_x"]) == pytest.approx(
            expected["depth"].direction[0]
        )

    def test_arrows_of_one_coordinate_are_refused(
        self, run, here, named_csv, sites
    ):
        options = ["--metadata", sites, "--arrows"]
        outcome = run("embed", named_csv, "-k", 1, *options)
        _refused(outcome, "--arrows need two coordinates", "envfit")
        t = np.arange(14.0)
        np.save(here / "line.npy", abs(t[:, None] - t))
        table = pd.DataFrame({"depth": t % 3, "habitat": ["bog", "fen"] * 7})
        table.to_csv(here / "visits.csv", index=False)
        options = ["-k", 2, "--method", "classical"]
        options += ["--metadata", "visits.csv", "--arrows"]
        outcome = run("embed", "line.npy", *options)
        assert outcome.code == 2
        assert "--arrows need two coordinates" in outcome.err

    def test_every_axis_of_a_rectangle_can_be_drawn(self, run, here):
        np.save(
            here / "r.npy",
            np.random.default_rng(0).uniform(1, 2, size=(4, 9)),
        )
        options = ["--directed", "-k", 4, "--axes", "3,4"]
        outcome = run("embed", "r.npy", *options)
        assert outcome.code == 0, outcome.err

    def test_every_axis_of_a_start_can_be_drawn(self, run, here):
        x = np.random.default_rng(0).normal(size=(14, 3))
        np.save(here / "d.npy", cdist(x, x))
        neuc_mds(cdist(x, x), 3).save(here / "start.npz")
        options = ["--init", "start.npz", "--axes", "2,3"]
        outcome = run("embed", "d.npy", *options)
        assert outcome.code == 0, outcome.err

    @pytest.mark.slow
    def test_other_losses_have_a_spectrum_and_gaps_have_none(
        self, run, here, matrix
    ):
        assert run("embed", matrix, "-k", 2, "--loss", "distance").code == 0
        assert (here / "gaps-neucmds" / "spectrum.png").exists()
        d = squared_gaps()
        d[0, 1] = d[1, 0] = np.nan
        np.save(here / "gappy.npy", d)
        assert (
            run("embed", "gappy.npy", "-k", 2, "--missing", "ignore").code == 0
        )
        pictures = {
            path.name for path in (here / "gappy-neucmds").glob("*.png")
        }
        assert "shepard.png" in pictures
        assert "spectrum.png" not in pictures


def test_weights_are_matched_by_name(run, here, named_csv):
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.1, 2, size=(14, 14))
    weights += weights.T
    names, order = [f"site{i}" for i in range(14)], rng.permutation(14)
    pd.DataFrame(weights, names, names).iloc[order, order].to_csv(
        here / "w.csv"
    )
    outcome = run(
        "embed", named_csv, "-k", 2, "--weights", "w.csv", "--plots", "none"
    )
    assert outcome.code == 0, outcome.err
    expected = neuc_mds(squared_gaps(), 2, weights=weights, random_state=0)
    saved = Embedding.load(here / "sites-neucmds" / "embedding.npz")
    assert saved.stress == pytest.approx(expected.stress, rel=1e-6)
    methods = ["neuc+", "refined"]
    command = [
        "compare",
        named_csv,
        "-k",
        2,
        "--weights",
        "w.csv",
        "--methods",
        ",".join(methods),
    ]
    stress = {
        row["method"]: row["stress"]
        for row in run(*command, "--json").document["methods"]
    }
    assert stress["refined"] == pytest.approx(expected.stress, rel=1e-6)
    plain = neuc_mds(squared_gaps(), 2, "neuc+")
    assert stress["neuc+"] == pytest.approx(
        evaluate(plain, squared_gaps(), weights=weights).stress
    )
    assert (
        run(
            "report",
            named_csv,
            "-k",
            2,
            "--weights",
            "w.csv",
            "-o",
            "page.html",
        ).code
        == 0
    )
    assert "pairs are missing or weighted" in (here / "page.html").read_text()
    weights[0, 1] = weights[1, 0] = 0
    pd.DataFrame(weights, names, names).to_csv(here / "w.csv")
    document = run(*command, "--json").document
    assert [row["method"] for row in document["methods"]] == ["refined"]
    assert "needs every pair" in document["left_out"]["neuc+"]


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_many_euclidean_objects_need_no_correction(run, here, scale):
    x = np.random.default_rng(0).normal(size=(300, 4))
    np.save(here / "d.npy", scale * cdist(x, x))
    options = ["-k", 2, "--method", "classical", "--plots", "none"]
    for folder, more in (
        ("plain", []),
        ("corrected", ["--correction", "cailliez"]),
    ):
        outcome = run("embed", "d.npy", *options, *more, "-o", folder)
        assert outcome.code == 0, outcome.err
    plain, corrected = (
        Embedding.load(here / folder / "embedding.npz").dissimilarities()
        for folder in ("plain", "corrected")
    )
    np.testing.assert_allclose(corrected, plain, atol=1e-6 * plain.max())


class TestLandmarks:
    @pytest.mark.slow
    def test_all_objects_are_placed_and_measured(self, run, here):
        d = squared_gaps(200)
        np.save(here / "d.npy", d)
        outcome = run("embed", "d.npy", "-k", 4, "--landmarks", 50)
        assert outcome.code == 0, outcome.err
        folder = here / "d-neucmds"
        quality = json.loads((folder / "quality.json").read_text())
        assert (
            quality["n"],
            quality["landmarks"],
            quality["measured_objects"],
        ) == (200, 50, 200)
        placed = pd.read_csv(
            folder / "coordinates.csv", index_col=0
        ).to_numpy()
        model = Embedding.load(folder / "embedding.npz")
        assert (placed.shape, len(model.landmarks)) == ((200, 4), 50)
        stress = np.sum(
            (model.between(placed, placed, squared=True) - d**2) ** 2
        )
        assert quality["stress"] == pytest.approx(stress, rel=1e-6)
        assert "50 embedded, 150 others placed among them" in outcome.out
        assert {row["of"] for row in _rows(folder / "axes.csv")} == {
            quality["axes_of"]
        }
        assert {p.name for p in folder.glob("*.png")} >= {
            "coordinates.png",
            "shepard.png",
        }


def test_dissimilarities_of_features_are_made_here(run, here):
    counts = np.random.default_rng(0).poisson(2.0, size=(12, 6)) + np.eye(
        12, 6
    )
    table = pd.DataFrame(counts, range(1, 13), list("abcdef"))
    table.to_csv(here / "named.csv", quoting=csv.QUOTE_NONNUMERIC)
    table.to_csv(here / "bare.csv", index=False)
    np.save(here / "x.npy", counts)
    names, text = (
        tuple(map(str, table.index)),
        (here / "named.csv").read_bytes(),
    )
    options = ["-k", 2, "--plots", "none"]
    for file, metric, labels in (
        ("-", "cityblock", names),
        ("named.csv", "braycurtis", names),
        ("bare.csv", "cityblock", None),
        ("x.npy", "minkowski, p=1", None),
    ):
        outcome = run(
            "embed",
            file,
            "--metric",
            metric,
            *options,
            "-o",
            file[:3],
            stdin=text,
        )
        assert outcome.code == 0, outcome.err
        saved = Embedding.load(here / file[:3] / "embedding.npz")
        metric = "cityblock" if metric == "minkowski, p=1" else metric
        expected = neuc_mds(
            squareform(pdist(counts, metric)), 2, random_state=0
        )
        assert saved.labels == labels
        assert saved.stress == pytest.approx(expected.stress, rel=1e-6)
    options += ["--metric", "cityblock", "--squared", "--json"]
    whole = run("embed", "x.npy", *options).document
    placed = run(
        "embed", "x.npy", *options, "--landmarks", 12, "--force"
    ).document
    assert placed["stress"] == pytest.approx(whole["stress"], rel=1e-6)


class TestGraph:
    def test_parallel_edges_count_by_the_shortest(self, run, here):
        lines = ["from,to,length", "a,b,5", "a,b,7", "b,c,1", "c,d,2"]
        (here / "edges.csv").write_text("\n".join(lines) + "\n")
        found = run(
            "embed",
            "edges.csv",
            "--metric",
            "shortest_path",
            "-k",
            1,
            "--plots",
            "none",
        )
        assert found.code == 0
        saved = Embedding.load(here / "edges-neucmds" / "embedding.npz")
        assert saved.distance("a", "d") == pytest.approx(8)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "options", [[], ["--landmarks", 60]], ids=["paths", "landmarks"]
    )
    def test_many_nodes_are_measured_on_a_sample(self, run, here, options):
        n = 2100
        edges = [
            f"n{i},n{i + s},1" for i in range(n) for s in (1, 40) if i + s < n
        ]
        (here / "edges.csv").write_text(
            "from,to,length\n" + "\n".join(edges) + "\n"
        )
        found = run(
            "embed",
            "edges.csv",
            "--metric",
            "shortest_path",
            "-k",
            4,
            "--json",
            *options,
        )
        assert found.code == 0, found.err
        assert (found.document["n"], found.document["measured_objects"]) == (
            n,
            2000,
        )
        assert found.document["r2"] > 0.9
        rows = _rows(here / "edges-neucmds" / "coordinates.csv")
        assert {row["object"] for row in rows} == {f"n{i}" for i in range(n)}


class TestWhatIsPrinted:
    def test_numbers_are_those_of_the_library(self, run, here, named_csv):
        outcome = run(
            "embed", named_csv, "-k", 3, "--method", "neuc+", "--plots", "none"
        )
        assert outcome.code == 0, outcome.err
        assert len(outcome.out.splitlines()) <= 24
        text = " ".join(outcome.out.split())
        d = squared_gaps()
        embedding = neuc_mds(d, 3, "neuc+")
        d_hat = np.maximum(embedding.dissimilarities(squared=True), 0)
        i, j = np.triu_indices(14, 1)
        errors = np.abs(np.sqrt(d_hat[i, j]) / d[i, j] - 1)
        assert f"{(errors > 0.1).sum()} of 91 pairs" in text
        means = [errors[(i == a) | (j == a)].mean() for a in range(14)]
        worst = np.argsort(means)[::-1][:3]
        at = [text.index(f"site{a} ({100 * means[a]:.3g} %") for a in worst]
        assert at == sorted(at)
        quality = evaluate(embedding, d)
        assert f"Shepard R² {quality.shepard_r2:.4g}," in text
        assert f"R² of the squares {quality.r2:.4g};" in text

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["1", "--method", "neuc+"], "Try next: -k 2; --method refined."),
            (["1"], "Try next: -k 2."),
            (
                ["0.5", "--method", "neuc+"],
                "Try next: --method refined.",
            ),  # k was left to it
            # docs/guide/choosing.md
            (["2"], "Try next: -k 4; -k 2,0 --loss distance, for a plot."),
            (["2,0", "--loss", "distance"], "Try next: -k 4."),
        ],
    )
    def test_what_to_try_next_is_named(self, run, named_csv, options, said):
        assert (
            said
            in run("embed", named_csv, "-k", *options, "--plots", "none").out
        )

    @pytest.mark.parametrize("method", ["classical", "refined"])
    def test_what_the_axes_explain_is_in_the_files_by_its_name(
        self, run, here, matrix, method
    ):
        run("embed", matrix, "-k", 3, "--plots", "none", "--method", method)
        saved = Embedding.load(here / "gaps-neucmds" / "embedding.npz")
        document = json.loads(
            (here / "gaps-neucmds" / "quality.json").read_text()
        )
        assert document["r2_lost"] == pytest.approx(list(saved.explained))
        assert document["axes"] == list(saved.axis_names)
        shares = {name: list(saved.shares[name]) for name in saved.shares}
        assert list(shares) == (
            ["trace", "positive"] if method == "classical" else []
        )
        header = (
            (here / "gaps-neucmds" / "axes.csv")
            .read_text()
            .splitlines()[0]
            .split(",")
        )
        assert header[3:] == [
            "r2_lost",
            *(f"share_of_{name}" for name in shares),
        ]
        for name, share in shares.items():
            assert document[f"share_of_{name}"] == pytest.approx(share)


def test_an_edge_file_with_named_columns_is_read_as_a_table_is(run, here):
    rows = [(1, 2, "Main", 3.5, 9), (2, 3, "High", 2, 1), (3, 1, "Low", 1, 1)]
    titles = ["from", "to", "road", "length", "time"]
    table = pd.DataFrame(rows, columns=titles)
    table.to_csv(here / "edges.csv", index=False)
    for column in ("length", "time"):
        outcome = run(
            *("embed", "edges.csv", "-k", 1, "--plots", "none", "--force"),
            *("--metric", f"shortest_path,weight={column}", "-o", column),
        )
        assert outcome.code == 0, outcome.err
        expected = neuc_mds(
            table,
            1,
            metric="shortest_path",
            metric_params={"weight": column},
        )
        found = Embedding.load(here / column / "embedding.npz")
        np.testing.assert_array_equal(found.coordinates, expected.coordinates)
        assert found.labels == expected.labels
    outcome = run(
        *("embed", "edges.csv", "-k", 1, "--metric", "shortest_path,weight=x")
    )
    _refused(outcome, "'x'", "'length'")


# Option → the command line that has it and the option, where its effect needs others.
HONOURED = {
    "-k": (["-k", "3"], []),
    "--method": (["--method", "classical"], []),
    "--loss": (["--loss", "distance"], []),
    "--curvature": (["--curvature", "-1"], ["--loss", "relative"]),
    "--missing": (["--missing", "ignore"], []),
    "--weights": (["--weights", "w.csv"], []),
    "--correction": (["--correction", "lingoes"], []),
    "--squared": (["--squared"], []),
    "--symmetrize": (["--symmetrize"], []),
    "--landmarks": (["--landmarks", "10"], []),
    "--seed": (["--seed", "3"], ["--landmarks", "8"]),
}
# A metric by name is symmetric and known for every pair.
WITHOUT_NEED = [("--missing", "features"), ("--symmetrize", "features")]


@pytest.mark.parametrize("kind", ["matrix", "features", "graph"])
@pytest.mark.parametrize("name", HONOURED)
def test_every_option_of_embed_changes_the_result_or_is_refused(
    name, kind, run, here
):
    x = np.random.default_rng(2).normal(size=(14, 3))
    d = squareform(pdist(x, "cityblock"))
    weights = 1 + np.add.outer(np.arange(14), np.arange(14)) % 3
    pd.DataFrame(weights).to_csv(here / "w.csv", header=False, index=False)
    others = []
    if kind == "matrix":
        if name == "--missing":
            d[0, 1] = d[1, 0] = np.nan
        if name == "--symmetrize":
            d[0, 1] *= 2
        pd.DataFrame(d).to_csv(here / "f.csv", header=False, index=False)
    elif kind == "features":
        names = [f"s{i}" for i in range(14)]
        pd.DataFrame(x, names, [*"abc"]).to_csv(here / "f.csv")
        others = ["--metric", "cityblock"]
    else:
        rows = [(i, j, d[i, j]) for i in range(14) for j in range(i)]
        near = [row for row in rows if row[2] < 3.5]
        pd.DataFrame(near).to_csv(here / "f.csv", header=False, index=False)
        others = ["--metric", "shortest_path"]
    option, companions = HONOURED[name]
    command = ["embed", "f.csv", "--plots", "none", *others, *companions]
    without = run(*command, "-o", "without")
    outcome = run(*command, *option, "-o", "with")
    if outcome.code:
        assert outcome.code == 2, outcome.err
        assert name in outcome.err
    elif without.code == 0 and (name, kind) not in WITHOUT_NEED:
        before = Embedding.load(here / "without" / "embedding.npz")
        after = Embedding.load(here / "with" / "embedding.npz")
        assert not np.array_equal(before.coordinates, after.coordinates)


def test_an_ordinal_fit_prints_stress_1_first(run, here, named_csv):
    options = ("-k", 2, "--loss", "ordinal", "--plots", "none")
    outcome = run("embed", named_csv, *options)
    assert outcome.code == 0, outcome.err
    words = outcome.out.split()
    names = [word for word in words if word in ("stress-1", "recall@10")]
    assert names == ["stress-1", "recall@10"]
    record = json.loads((here / "sites-neucmds" / "quality.json").read_text())
    emb = Embedding.load(here / "sites-neucmds" / "embedding.npz")
    assert record["stress1"] == pytest.approx(emb.stress1, abs=1e-12)
    assert record["times_found"] == emb.info.times_found
    _refused(
        run("embed", named_csv, "--force", "--ties", "secondary"),
        "--loss ordinal",
    )


def test_held_out_objects_are_printed_and_recorded(run, here):
    x = np.random.default_rng(0).normal(size=(30, 4))
    pd.DataFrame(x, columns=list("abcd")).to_csv(here / "x.csv", index=False)
    command = "embed x.csv --metric cityblock -k 2 --plots none --force"
    outcome = run(*command.split(), "--held-out", 6)
    assert outcome.code == 0, outcome.err
    embedding = neuc_mds(x, 2, metric="cityblock")
    quality = evaluate(embedding, x, metric="cityblock", held_out=6)
    assert "held-out objects" in outcome.out
    record = json.loads((here / "x-neucmds" / "quality.json").read_text())
    assert record["held_out"]["neighbors_kept"] == pytest.approx(
        quality.neighbors_kept
    )
    _refused(
        run(*command.split(), "--held-out", 6, "--landmarks", 12), "--held-out"
    )
