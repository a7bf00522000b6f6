"""What the page holds: all of it, safely, from the library's numbers, and the same each time."""

from __future__ import annotations

import base64
import html
import json
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from neucmds import (
    FewerComponentsWarning,
    InputError,
    __version__,
    neuc_mds,
)
from neucmds.ecology import envfit
from neucmds.explore import COMPARED, bootstrap, evaluate
from neucmds.prepared import prepare
from neucmds.tools.report.findings import nearest_of

from .conftest import IMAGE, SCRIPT, K, N, squared_gaps

SECTIONS = ("objects", "quality", "data", "spectrum", "curves")
SECTIONS += ("shepard", "errors", "worst", "methods", "made")


def document_of(page: str) -> dict:
    start = page.index(">", page.index('id="data-json"')) + 1
    return json.loads(page[start : page.index("</script>", start)])


def unpacked(packed):
    return np.frombuffer(
        base64.b64decode(packed["data"]), dtype=f"<{packed['kind']}"
    )


@pytest.fixture(scope="module")
def page(case):
    return case.path.read_text(encoding="utf-8")


@pytest.fixture
def written(tmp_path):
    """Write a page, and return its text."""

    def write(embedding, *args, **options):
        path = embedding.report(
            tmp_path / "a.html", *args, **options, overwrite=True
        )
        return path.read_text("utf-8")

    return write


def text_of(page: str) -> str:
    bare = re.sub(
        r"<(script|style)\b.*?</\1>|<[^>]*>", "", page, flags=re.DOTALL
    )
    return " ".join(html.unescape(bare).split())


def test_it_has_every_section_and_names_nothing_outside_itself(page):
    bare = re.sub(r"(<script)\b.*?</script>", r"\1>", page, flags=re.DOTALL)
    assert tuple(re.findall(r'<section id="(\w+)"', bare)) == SECTIONS
    assert re.findall(r'href="([^"]*)"', bare) == [
        "#objects",
        *(f"#{name}" for name in SECTIONS),
    ]
    assert not re.search(
        r"<(link|iframe|img|object|base)\b|<\w[^>]*\ssrc=", bare
    )
    assert "Content-Security-Policy\" content=\"default-src 'none'; " in bare


def test_text_from_outside_is_text(case, page, written):
    assert SCRIPT not in page
    assert IMAGE not in page
    assert page.count("</script>") == 3
    document = document_of(page)
    assert document["names"][7:9] == [SCRIPT, IMAGE]
    assert document["columns"][0]["order"] == [SCRIPT, "a", "b"]
    titled = written(
        case.embedding, title=SCRIPT, command=f"neucmds report '{SCRIPT}'"
    )
    assert SCRIPT not in titled
    assert text_of(titled).count(SCRIPT) == 3


def test_the_numbers_are_the_library_s(case, page):
    document, embedding = document_of(page), case.embedding
    for a in range(K):
        values = unpacked(document["axes"]["values"][a])
        assert np.array_equal(
            values, embedding.coordinates[:, a].astype(np.float32)
        )
    assert document["axes"]["signs"] == embedding.signs.tolist()
    near = document["nearest"]
    by_fitted, _ = embedding.neighbors(10)
    assert np.array_equal(unpacked(near["byFitted"]).reshape(N, 10), by_fitted)
    here = document["curves"]["here"]
    assert here["normalized_stress"] == pytest.approx(
        embedding.normalized_stress, rel=1e-5
    )
    quality = evaluate(embedding, case.D)
    for part in (*COMPARED, f"{100 * quality.normalized_stress:.3g} %"):
        assert part in text_of(page)


def test_the_nearest_by_d_are_found_with_ties_in_the_order_of_their_numbers():
    D = np.round(squared_gaps(30) * 4)
    embedding = neuc_mds(D, 3)
    near = nearest_of(embedding, prepare(D))
    for i in range(30):
        order = [j for j in np.argsort(D[i], kind="stable") if j != i][:10]
        assert near["byGiven"][i].tolist() == order


def test_pairs_that_are_not_known_are_nobody_s_nearest():
    D = squared_gaps(12)
    D[0, 1:] = D[1:, 0] = np.nan
    D[0, 3] = D[3, 0] = 1.0
    prepared = prepare(D, missing="ignore")
    embedding = neuc_mds(D, 1, missing="ignore")
    near = nearest_of(embedding, prepared)
    assert near["byGiven"][0].tolist() == [3] + [-1] * 9
    assert not (near["byGiven"][4] == 0).any()


def test_the_same_seed_gives_the_same_page(case, written):
    part = case.D[:9, :9]
    embedding = neuc_mds(part, 2)
    assert (
        len({written(embedding, part, random_state=3) for _ in range(2)}) == 1
    )


def test_it_speaks_of_no_negative_axis_and_of_nothing_kept_where_there_is_none(
    case, written
):
    D = case.D[:14, :14]
    page = written(neuc_mds(D, (3, 0)), D)
    text, document = text_of(page), document_of(page)
    for part in ("coordinates that subtract", "negative axes", "kept ones"):
        assert part not in text
    for part in (
        "no negative coordinate either",
        "tenth of the objects was held out",
        "1 − R² of squared dissimilarities",
    ):
        assert part in text
    assert document["spectrum"]["words"] == ["start of the fit", "other"]
    assert not any("%" in label for label in document["axes"]["labels"])


def test_without_d_it_shows_what_the_embedding_knows(case, written):
    page = written(
        case.embedding, command="neucmds report x.npy", random_state=7
    )
    text = text_of(page)
    for part in (
        "neucmds report x.npy",
        "seed7",
        __version__,
        "refined, squared loss",
    ):
        assert part in text
    assert "made without the dissimilarities" in text
    assert re.findall(r'<div class="plot[^>]*id="([\w-]+)"', page) == [
        "plot-objects",
        "plot-spectrum",
    ]


def test_with_gaps_in_d_it_shows_what_needs_no_other_pair(written):
    D = squared_gaps(20)
    D[2, 5] = D[5, 2] = np.nan
    embedding = neuc_mds(D, 2, missing="ignore")
    text = written(embedding, D, missing="ignore")
    assert "pairs are missing or weighted" in text
    assert 'id="plot-shepard"' in text
    assert "189 of 190 pairs: the others are missing." in text
    assert 'id="plot-stress"' not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "D",
    [
        [[0, 1], [1, 0]],
        [[0, 1, 1], [1, 0, 4], [1, 4, 0]],
        np.zeros((4, 4)),
        1 - np.eye(9),
    ],
)
def test_the_smallest_matrices_have_a_page(D, written):
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FewerComponentsWarning
        )  # objects that are all the same
        embedding = neuc_mds(D, 1)
    assert "How it was made" in written(embedding, D)


def test_a_file_is_replaced_only_if_told(case, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(
        InputError, match=r"exists already; pass overwrite=True"
    ):
        case.embedding.report(path)
    assert path.read_text() == "mine"
    assert case.embedding.report(path, overwrite=True) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("package", ["plotly.offline", "jinja2"])
def test_without_its_packages_the_extra_is_named(
    case, tmp_path, monkeypatch, package
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r'pip install "neucmds\[report\]"'):
        case.embedding.report(tmp_path / "page.html")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"color_by": "habitat"}, "metadata"),
        (
            {"color_by": "nowhere", "metadata": {"habitat": ["a"] * N}},
            "nowhere",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(
    case, tmp_path, options, said
):
    with pytest.raises(InputError, match=said):
        case.embedding.report(tmp_path / "page.html", **options)
    assert list(tmp_path.iterdir()) == []


def test_replicates_say_how_stable_the_embedding_is(case, page):
    moved = bootstrap(case.D, n_boot=4, embedding=case.embedding)
    data = document_of(page)["stability"]
    np.testing.assert_allclose(
        unpacked(data["covariances"]).reshape(N, K, K),
        moved.covariances,
        rtol=1e-4,
        atol=1e-9,
    )
    assert "4 bootstrap samples of the objects were embedded" in text_of(page)


def test_the_fit_of_the_page_is_listed_once(case, written):
    D = case.D[:12, :12]
    for loss, name in (
        ("squared", "refined"),
        ("distance", "refined/distance"),
    ):
        page = written(neuc_mds(D, 2, loss=loss), D)
        table = page[page.index('<section id="methods"') :]
        cells = re.findall(r"<tr><td[^>]*>([^<]*)</td>", table)
        assert cells[0] == name
        assert cells.count(name) == 1


def test_variables_have_r2_and_p_and_classes_their_centroids(case, page):
    fit = envfit(case.embedding, case.metadata, axes=(1, 2), random_state=0)
    text = text_of(page)
    depth = fit["depth"]
    assert f"{depth.r2:.3g}{depth.p:.3g}{N}" in text
    centroid = fit["habitat"].centroids[1][0]
    assert f"a{centroid:.3g}".replace("-", "−") in text


def test_numbers_of_few_values_are_numbers_and_types_are_obeyed(
    case, written, tmp_path
):
    rows = [f"site {i}\t{i % 3}\t{i % 2}" for i in range(12)]
    head = ["id\tyear\tplot", "#q2:types\tnumeric\tcategorical"]
    table = tmp_path / "sites.tsv"
    table.write_text("\n".join([*head, *rows]) + "\n")
    names = [f"site {i}" for i in range(12)]
    D = pd.DataFrame(case.D[:12, :12], names, names)
    page = written(neuc_mds(D, 2), D, metadata=table)
    year, plot, _ = document_of(page)["columns"]
    assert unpacked(year["numbers"]).tolist() == [i % 3 for i in range(12)]
    assert plot["order"] == ["0", "1"]
    text = text_of(page)
    assert "no column of numbers" not in text
    page = written(neuc_mds(D, 2), D, metadata={"habitat": ["a", "b"] * 6})
    assert "no column of numbers" in text_of(page)


def test_of_an_ordinal_fit_it_shows_stress1_the_steps_and_no_errors(written):
    x = np.random.default_rng(2).normal(size=(14, 5))
    D = cdist(x, x)
    embedding = neuc_mds(D, 2, loss="ordinal")
    page = written(embedding, D)
    text = text_of(page)
    assert f"{embedding.stress1:.4g}stress-1" in text
    assert "non-metric R²" in text
    assert 'id="plot-errors"' not in page
    document = document_of(page)
    assert document["axes"]["labels"] == ["NMDS1", "NMDS2"]
    assert len(document["steps"]["given"]) > 10
    assert document["curves"]["here"]["r2"] is None


def test_of_directed_fits_it_has_departures_and_arrivals(written):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, 2))
    D = cdist(x, x + 0.1)
    np.fill_diagonal(D, 0)
    both_ways = neuc_mds(D, (2, 0), directed=True)
    page = written(both_ways, D)
    axes = document_of(page)["axes"]
    assert not axes["twoSets"]
    for a in range(2):
        np.testing.assert_allclose(
            unpacked(axes["arrivals"][a]), both_ways.arrivals[:, a], rtol=1e-6
        )
    assert "an arrival (the tip of its arrow)" in text_of(page)
    assert "need dissimilarities without direction" in text_of(page)
    people = [f"person {i}" for i in range(6)]
    foods = ["toast", "bun", "roll", "cake"]
    D = pd.DataFrame(cdist(x[:6], x[6:]), people, foods)
    page = written(neuc_mds(D, (2, 0), directed=True), D)
    document = document_of(page)
    assert document["axes"]["twoSets"]
    assert document["names"] == [*people, *foods]
    assert unpacked(document["pairs"]["right"]).min() == 6


def test_a_paradox_too_small_to_see_is_not_announced(written):
    x = np.random.default_rng(4).normal(size=(15, 3))
    noise = np.random.default_rng(5).normal(size=(15, 15))
    D = cdist(x, x)
    slight = np.abs(D + 1e-4 * (noise + noise.T) * (D > 0))
    assert "Dimensionality paradox:" not in text_of(
        written(neuc_mds(slight, 2), slight)
    )
    strong = np.abs(D + 0.4 * (noise + noise.T) * (D > 0))
    assert "Dimensionality paradox:" in text_of(
        written(neuc_mds(strong, 2), strong)
    )
