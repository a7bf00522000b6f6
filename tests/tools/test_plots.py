from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

pytest.importorskip("matplotlib")

from neucmds import __version__, bootstrap, neuc_mds, stress_curve
from neucmds.ecology import envfit
from neucmds.errors import InputError, NeucmdsWarning
from neucmds.tools import plots

VEGAN = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "vegan_envfit.json").read_text()
)


@pytest.fixture(scope="module")
def data():
    x = np.random.default_rng(0).uniform(size=(40, 3))
    return ((x[:, None] - x[None, :]) ** 2).sum(-1)


@pytest.fixture(scope="module")
def embedding(data):
    return neuc_mds(data, 8, "neuc+")


def drawn(ax, tmp_path, kind="png"):
    """Save the figure, and make sure that something is in it."""
    file = tmp_path / f"plot.{kind}"
    ax.figure.savefig(file)
    if kind == "png":
        assert np.asarray(ax.figure.canvas.buffer_rgba())[..., :3].std() > 1
    assert file.stat().st_size > 1000
    return ax


def texts(ax):
    return [
        text.get_text()
        for legend in ax.figure.legends
        for text in legend.get_texts()
    ]


def written(ax):
    """Boxes of the names in the picture, in pixels, by name."""
    ax.figure.canvas.draw()
    return {
        t.get_text(): t.get_window_extent() for t in ax.texts if t.get_text()
    }


class TestSpectrum:
    def test_as_many_are_marked_as_are_kept(self):
        simplex = 1 - np.eye(5)  # four eigenvalues of 1/2
        kept = neuc_mds(simplex, 2, "classical")
        assert texts(plots.plot_spectrum(simplex, kept)) == [
            "positive, kept (2)",
            "positive, dropped (2)",
        ]

    def test_points_are_the_eigenvalues_and_those_kept_are_marked(
        self, data, embedding, tmp_path
    ):
        ax = drawn(plots.plot_spectrum(data, embedding), tmp_path)
        points = np.concatenate(
            [c.get_offsets()[:, 1] for c in ax.collections]
        )
        lam = stress_curve(data).eigenvalues
        lam = lam[np.abs(lam) > 1e-9]
        np.testing.assert_allclose(np.sort(points), np.sort(lam), rtol=1e-8)
        for sign, number in zip(
            ("positive", "negative"), embedding.signature, strict=True
        ):
            assert f"{sign}, kept ({number})" in texts(ax)

    @pytest.mark.slow
    def test_of_many_objects_only_the_ends_are_computed(self):
        x = np.random.default_rng(2).normal(size=(2100, 4))
        ax = plots.plot_spectrum(cdist(x, x, "cityblock"))
        assert "only the largest" in ax.get_ylabel()

    def test_scree_bars_are_shares_of_the_trace_and_carry_their_percentages(
        self, data, tmp_path
    ):
        lam = stress_curve(data).eigenvalues
        ax = drawn(plots.plot_scree(data, first=5), tmp_path)
        heights = sorted((bar.get_x(), bar.get_height()) for bar in ax.patches)
        largest = lam[np.argsort(-np.abs(lam))][:5]
        np.testing.assert_allclose(
            [h for _, h in heights], 100 * largest / lam.sum()
        )
        assert (
            next(t.get_text() for t in ax.texts)
            == f"{100 * largest[0] / lam.sum():.1f} %"
        )


def test_curve_has_a_line_for_every_method_on_log_scales(data, tmp_path):
    curves = stress_curve(data, range(1, 31))
    ax = drawn(plots.plot_stress_curve(curves), tmp_path)
    assert texts(ax) == list(curves.stress)
    assert ax.get_yscale() == "log"


class TestCoordinates:
    @pytest.mark.parametrize(
        ("color", "entries"),
        [
            (None, 0),
            (["a", "b"] * 20, 2),
            ([10, 9] * 20, 2),
            (list(range(40)), 0),
            (np.linspace(0, 1, 40), 0),
            (np.repeat([0.5, 1.5], 20), 0),
            ([f"g{i}" for i in range(30)] + ["g0"] * 10, 30),
            ([f"g{i}" for i in range(40)], 30),
        ],
    )
    def test_numbers_get_a_bar_and_categories_a_legend(
        self, embedding, tmp_path, color, entries
    ):
        ax = drawn(plots.plot_coordinates(embedding, color), tmp_path)
        assert len(texts(ax)) == entries
        assert len(ax.figure.axes) == (1 if entries or color is None else 2)
        assert all(text.get_window_extent().x1 <= ax.figure.bbox.x1
                   for legend in ax.figure.legends for text in legend.get_texts())  # fmt: skip

    def test_thirty_groups_all_look_different(self, embedding):
        groups = [f"g{i % 30}" for i in range(40)]
        ax = plots.plot_coordinates(embedding, groups)
        looks = {
            (
                tuple(c.get_facecolor()[0][:3]),
                c.get_paths()[0].vertices.tobytes(),
            )
            for c in ax.collections
        }
        assert len(looks) == 30

    def test_groups_are_in_natural_order(self, embedding):
        ax = plots.plot_coordinates(
            embedding, ["plot 10", "plot 9", "10", "9"] * 10
        )
        assert texts(ax) == ["9", "10", "plot 9", "plot 10"]

    def test_names_are_text_not_formulas_and_underscores_hide_none(
        self, embedding, tmp_path
    ):
        names = ["$a_{", "_hidden", r"\frac$", "x^2$$", "a\x1b[31m"] * 8
        labelled = replace(
            embedding, labels=tuple(f"${i}_{{" for i in range(40))
        )
        ax = plots.plot_coordinates(
            labelled, names, title="$\\bad{", names=True
        )
        for kind in ("png", "svg", "pdf"):
            drawn(ax, tmp_path, kind)
        assert sorted(texts(ax)) == sorted(
            {name.replace("\x1b", r"\x1b") for name in names}
        )

    def test_axes_are_counted_from_one_and_say_their_sign(self, embedding):
        negative = int(np.argmin(embedding.signs)) + 1
        ax = plots.plot_coordinates(embedding, axes=(1, negative))
        assert ax.get_xlabel().startswith("axis 1")
        assert ax.get_ylabel().startswith(f"axis {negative}, negative")
        points = ax.collections[0].get_offsets()
        np.testing.assert_array_equal(
            points, embedding.coordinates[:, [0, negative - 1]]
        )

    def test_axes_have_plain_names_and_shares_of_projections(self, data):
        projected = neuc_mds(data, 4, "classical")
        share = f"{100 * projected.shares['trace'][0]:.1f} %"
        ax = plots.plot_coordinates(projected)
        assert ax.get_xlabel() == f"PCoA1 ({share})"
        assert (
            plots.plot_coordinates(neuc_mds(data, (4, 0))).get_ylabel()
            == "axis 2"
        )
        ranked = neuc_mds(data[:12, :12], 2, loss="ordinal", n_init=2)
        ax = plots.plot_coordinates(ranked)
        assert ax.get_xlabel() == "NMDS1"
        assert f"stress {ranked.stress1:.3f}" in written(ax)
        ax = plots.plot_coordinates(ranked, stress=False)
        assert not written(ax)

    def test_no_plot_has_a_title(self, data, embedding):
        for ax in (
            plots.plot_coordinates(embedding),
            plots.plot_shepard(data, embedding),
            plots.plot_spectrum(data),
            plots.plot_scree(data),
            plots.plot_stress_curve(stress_curve(data, [1, 2])),
        ):
            assert not ax.get_title(loc="left") + ax.get_title()

    @pytest.mark.parametrize("flat", [0.1, 0.15, 0.23, 0.31])
    def test_labels_of_a_flat_picture_are_in_the_first_file(
        self, flat, tmp_path
    ):
        t = np.linspace(-0.4, 0.5, 70)
        x = np.stack([t, flat * np.cos(7 * t)], axis=1)
        D = ((x[:, None] - x) ** 2) @ [1.0, -1.0]
        embedding = neuc_mds(D, (1, 1), squared=True)
        ax = plots.plot_coordinates(
            embedding, ["Blanket", "Hummock"] * 35, title="Topo"
        )
        ax.figure.savefig(tmp_path / "a.png")
        label = ax.yaxis.label.get_window_extent()
        assert min(label.x0, label.y0) >= 0
        assert label.y1 <= ax.figure.bbox.height

    def test_objects_without_a_value_are_grey_and_counted(
        self, embedding, tmp_path
    ):
        for color in (
            ["nan", None, "nan", ""] * 10,
            np.resize([0.5, np.nan, 2, np.nan], 40),
        ):
            ax = drawn(plots.plot_coordinates(embedding, color), tmp_path)
            assert "20 objects without a value" in ax.texts[-1].get_text()
            assert sum(len(c.get_offsets()) for c in ax.collections) == 40


class TestNames:
    def test_names_that_fit_are_written_and_overlap_nothing(self, data):
        d = data[:15, :15]
        names = [f"site {i}" for i in range(15)]
        ax = plots.plot_coordinates(neuc_mds(pd.DataFrame(d, names, names), 2))
        boxes = written(ax)
        assert sorted(boxes) == sorted(names)
        for a in boxes:
            assert ax.bbox.padded(1).containsx(boxes[a].x0)
            assert not any(
                boxes[a].overlaps(boxes[b]) for b in boxes if b != a
            )

    def test_without_labels_or_unwanted_there_are_none(self, embedding):
        assert not written(plots.plot_coordinates(embedding))
        named = replace(embedding, labels=tuple(map(str, range(40))))
        assert not written(plots.plot_coordinates(named, names=False))

    def test_as_many_are_written_as_fit(self, embedding):
        long = replace(
            embedding, labels=tuple(f"a long name {i}" for i in range(40))
        )
        boxes = written(plots.plot_coordinates(long))
        assert 5 < len(boxes) < 40


class TestEllipsesAndArrows:
    def test_ellipses_are_those_of_vegan(self, data):
        points = np.array(VEGAN["two_axes"]["points"])
        env = Path(__file__).parents[1] / "fixtures" / "dune_env.csv"
        management = pd.read_csv(env)["Management"]
        embedding = replace(
            neuc_mds(data[:20, :20], (2, 0)), coordinates=points
        )
        ax = plots.plot_coordinates(embedding, management, ellipses="sd")
        for patch, level in zip(
            ax.patches, sorted(VEGAN["ellipses"]), strict=True
        ):
            ellipse = VEGAN["ellipses"][level]
            angle = np.radians(patch.angle)
            turn = [
                [np.cos(angle), -np.sin(angle)],
                [np.sin(angle), np.cos(angle)],
            ]
            axes = np.array(turn) * [patch.width / 2, patch.height / 2]
            np.testing.assert_allclose(patch.center, ellipse["center"])
            np.testing.assert_allclose(
                axes @ axes.T,
                ellipse["scale"] ** 2 * np.array(ellipse["cov"]),
                rtol=1e-9,
            )

    def test_every_large_enough_group_has_one(self, embedding, tmp_path):
        groups = ["a"] * 20 + ["b"] * 18 + ["c"] * 2
        ax = drawn(
            plots.plot_coordinates(embedding, groups, ellipses="sd"), tmp_path
        )
        assert len(ax.patches) == 2

    def test_arrows_point_where_the_variable_grows(self, embedding, tmp_path):
        x = embedding.coordinates
        variables = {
            "up": x[:, 1],
            "diagonal": x[:, 0] + x[:, 1],
            "group": ["a", "b"] * 20,
        }
        fit = envfit(embedding, variables, random_state=0)
        ax = drawn(plots.plot_coordinates(embedding, arrows=fit), tmp_path)
        up, diagonal = (
            np.array(t.xy) for t in ax.texts if t.arrow_patch is not None
        )
        np.testing.assert_allclose(up / np.linalg.norm(up), [0, 1], atol=1e-9)
        np.testing.assert_allclose(diagonal[0], diagonal[1])
        assert {"up", "diagonal"} <= set(written(ax))

    def test_ellipses_of_the_mean_shrink_by_the_root_of_the_number(
        self, embedding
    ):
        groups = ["a"] * 25 + ["b"] * 15
        shapes = {
            kind: plots.plot_coordinates(
                embedding, groups, ellipses=kind, filled=True
            ).patches[0]
            for kind in ("sd", "se")
        }
        assert shapes["sd"].width == pytest.approx(5 * shapes["se"].width)
        one = plots.plot_coordinates(
            embedding, groups, ellipses="sd", conf=1 - np.exp(-0.5)
        ).patches[0]
        lam = np.linalg.eigvalsh(np.cov(embedding.coordinates[:25, :2].T))
        assert one.width == pytest.approx(2 * np.sqrt(lam[0]))
        assert one.get_facecolor()[3] == 0
        assert shapes["sd"].get_facecolor()[3] > 0

    def test_hulls_hold_their_group_and_spiders_meet_in_its_mean(
        self, embedding, tmp_path
    ):
        groups = np.array(["a"] * 20 + ["b"] * 18 + ["c"] * 2)
        ax = drawn(
            plots.plot_coordinates(
                embedding, groups, hulls=True, spiders=True
            ),
            tmp_path,
        )
        assert len(ax.patches) == 2
        points = embedding.coordinates[:, :2]
        corners = ax.patches[0].get_xy()
        np.testing.assert_allclose(
            corners.max(axis=0), points[groups == "a"].max(axis=0)
        )
        spiders = [c for c in ax.collections if hasattr(c, "get_segments")]
        assert [len(c.get_segments()) for c in spiders] == [20, 18, 2]
        for line in spiders[1].get_segments():
            np.testing.assert_allclose(
                line[0], points[groups == "b"].mean(axis=0)
            )

    def test_a_group_on_a_line_up_to_rounding_has_no_shape(self):
        groups = ["line"] * 4 + ["others"] * 8
        for seed in (8, 18, 34):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=(12, 2))
            steps = rng.normal(size=4)
            x[:4] = x[0] + np.outer(steps, rng.normal(size=2))
            embedding = neuc_mds(cdist(x, x), 2, "classical")
            ax = plots.plot_coordinates(
                embedding, groups, hulls=True, ellipses="sd"
            )
            assert len(ax.patches) == 2

    def test_variables_are_drawn_by_name_and_by_p_and_centroids_on_request(
        self, embedding
    ):
        x = embedding.coordinates
        table = {
            "up": x[:, 1],
            "noise": np.random.default_rng(0).normal(size=40),
            "side": np.where(x[:, 0] > 0, "right", "left"),
        }
        fit = envfit(embedding, table, random_state=0)
        assert fit["noise"].p > 0.05 > fit["up"].p
        for options, shown in (
            ({}, {"up", "noise"}),
            ({"p_max": 0.05}, {"up"}),
            ({"variables": ["noise"]}, {"noise"}),
            (
                {"p_max": 0.05, "centroids": True},
                {"up", "side left", "side right"},
            ),
        ):
            ax = plots.plot_coordinates(embedding, arrows=fit, **options)
            assert set(written(ax)) == shown


class TestFigures:
    def test_a_width_is_kept_and_the_legend_is_below(
        self, embedding, tmp_path
    ):
        groups = [f"habitat {i % 7}" for i in range(40)]
        for size, inches in (("89mm", 89 / 25.4), ("18 cm", 18 / 2.54)):
            ax = plots.plot_coordinates(embedding, groups, size=size)
            drawn(ax, tmp_path)
            figure = ax.figure
            assert figure.get_figwidth() == pytest.approx(inches)
            assert figure.dpi == 300
            legend = figure.legends[0].get_window_extent()
            assert legend.x0 >= 0
            assert legend.x1 <= figure.bbox.x1
            assert legend.y1 < ax.bbox.y0

    @pytest.mark.parametrize("size", ["89mm", "180mm"])
    def test_names_overlap_neither_names_nor_points_nor_arrows(self, size):
        rng = np.random.default_rng(3)
        x = rng.normal(size=(30, 2))
        names = [f"site {i}" for i in range(30)]
        D = pd.DataFrame(cdist(x, x), names, names)
        embedding = neuc_mds(D, (2, 0), loss="distance")
        points = embedding.coordinates
        table = pd.DataFrame(
            points @ rng.normal(size=(2, 5)), names, list("abcde")
        )
        fit = envfit(embedding, table, random_state=0)
        ax = plots.plot_coordinates(embedding, arrows=fit, size=size)
        boxes = written(ax)
        assert set("abcde") < set(boxes)
        assert len(boxes) > 25
        for a, box in boxes.items():
            assert not any(box.overlaps(boxes[b]) for b in boxes if b != a)
        tips = [
            np.array(t.xy)
            for t in ax.texts
            if t.arrow_patch is not None and t.arrowprops["color"] == "black"
        ]
        assert len(tips) == 5
        along = np.linspace(0, 1, 200)[:, None]
        lines = ax.transData.transform(np.vstack([along * t for t in tips]))
        marks = ax.transData.transform(points)
        for box in boxes.values():
            for x, y in (*marks, *lines):
                assert not (box.x0 < x < box.x1 and box.y0 < y < box.y1)

    def test_a_name_without_a_leader_is_nearest_to_its_own_point(self):
        x = np.random.default_rng(4).uniform(size=(40, 2))
        names = [f"site {i}" for i in range(40)]
        D = pd.DataFrame(cdist(x, x), names, names)
        embedding = neuc_mds(D, (2, 0), "classical")
        ax = plots.plot_coordinates(embedding, size="89mm")
        boxes = written(ax)
        points = ax.transData.transform(embedding.coordinates)
        led = [tuple(t.xy) for t in ax.texts if t.arrow_patch is not None]
        unled = [
            i
            for i, point in enumerate(embedding.coordinates)
            if names[i] in boxes and tuple(point) not in led
        ]
        assert len(unled) > 20
        for i in unled:
            box = boxes[names[i]]
            nearest = np.clip(points, box.min, box.max)
            gaps = np.linalg.norm(points - nearest, axis=1)
            assert gaps[i] < 1.1 * gaps.min()

    def test_names_without_space_are_counted_if_they_were_asked_for(
        self, embedding
    ):
        long = tuple(f"a rather long name {i}" for i in range(40))
        named = replace(embedding, labels=long)
        with pytest.warns(
            NeucmdsWarning, match=r"no space for \d+ of the names"
        ):
            ax = plots.plot_coordinates(named, names=True, size="60mm")
        assert len(written(ax)) < 40


class TestDirected:
    def test_an_arrow_leads_from_each_departure_to_its_arrival(self, tmp_path):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(12, 2))
        y = x + 0.2 * rng.normal(size=(12, 2))
        D = cdist(x, y)
        np.fill_diagonal(D, 0)
        embedding = neuc_mds(D, (2, 0), loss="distance", directed=True)
        ax = drawn(plots.plot_coordinates(embedding, size="89mm"), tmp_path)
        arrows = next(c for c in ax.collections if hasattr(c, "U"))
        steps = embedding.arrivals - embedding.coordinates
        np.testing.assert_allclose(
            np.column_stack([arrows.U, arrows.V]), steps
        )
        ends = ax.transData.transform(embedding.arrivals)
        assert (ends >= ax.bbox.min).all()
        assert (ends <= ax.bbox.max).all()
        assert "departures to arrivals" in plots.caption(embedding)
        pairs = plots.plot_shepard(D, embedding)
        assert pairs.texts[0].get_text().endswith("132 pairs")

    def test_rows_and_columns_of_two_sets_have_their_names(self):
        rng = np.random.default_rng(1)
        people = [f"person {i}" for i in range(6)]
        foods = ["toast", "bun", "roll", "cake"]
        D = cdist(rng.normal(size=(6, 2)), rng.normal(size=(4, 2)))
        embedding = neuc_mds(
            pd.DataFrame(D, people, foods), (2, 0), directed=True
        )
        assert set(written(plots.plot_coordinates(embedding))) == {
            *people,
            *foods,
        }

    def test_other_names_are_those_of_the_departures(self):
        rng = np.random.default_rng(1)
        people = [f"person {i}" for i in range(6)]
        for foods in (["toast", "bun", "roll", "cake"], list("abcdef")):
            D = rng.uniform(1, 2, size=(6, len(foods)))
            embedding = neuc_mds(
                pd.DataFrame(D, people, foods), (2, 0), directed=True
            )
            ax = plots.plot_coordinates(embedding, names=list("ABCDEF"))
            names = [t.get_text() for t in ax.texts if t.get_text()]
            assert sorted(names) == sorted([*"ABCDEF", *foods])


class TestBootstrap:
    @pytest.mark.parametrize(("k", "n_ellipses"), [(1, 0), (2, 12)])
    def test_each_object_of_a_plane_has_an_ellipse(
        self, data, k, n_ellipses, tmp_path
    ):
        replicates = bootstrap(data[:12, :12], k, 5, random_state=0)
        ax = drawn(plots.plot_bootstrap(replicates), tmp_path)
        assert len(ax.patches) == n_ellipses


class TestProse:
    def test_methods_name_the_method_the_fit_and_its_source(self, data):
        ranked = neuc_mds(data[:12, :12], 2, loss="ordinal", n_init=3)
        text = plots.methods_text(
            ranked, "Bray–Curtis dissimilarities", permutations=99
        )
        for part in (
            "Bray–Curtis dissimilarities between 12 objects",
            "non-metric multidimensional scaling",
            f"Stress-1 was {ranked.stress1:.4f}",
            f"{ranked.info.times_found} of {ranked.info.n_starts} starts",
            "99 permutations",
            "Kruskal JB (1964)",
            f"neucmds {__version__}",
        ):
            assert part in text

    def test_methods_name_negative_dimensions_and_shares(self, data):
        mixed = neuc_mds(data, (2, 1))
        text = plots.methods_text(mixed)
        assert "2 positive and 1 negative dimensions" in text
        assert "Deng C, Gao J, Lu K" in text
        share = neuc_mds(data, 2, "classical").shares["trace"][0]
        text = plots.methods_text(neuc_mds(data, 2, "classical"))
        assert f"{100 * share:.1f} %" in text

    def test_of_one_coordinate_or_none_there_are_sentences(self, data):
        one = plots.methods_text(neuc_mds(data, 1, "classical"))
        assert " in 1 dimension, with" in one
        share = neuc_mds(data, 1, "classical").shares["trace"][0]
        assert f"The axis has {100 * share:.1f} % of the sum" in one
        with pytest.warns(NeucmdsWarning, match="0 of 1 coordinates"):
            none = neuc_mds(np.zeros((4, 4)), 1)
        assert none.k == 0
        assert "S-STRESS was 0 % of" in plots.methods_text(none)
        assert "Stress-1" not in plots.methods_text(none)
        assert plots.caption(none) == "Multidimensional scaling of 4 objects."

    def test_the_caption_takes_the_options_of_the_figure(self, embedding):
        fit = envfit(
            embedding,
            {"up": embedding.coordinates[:, 1], "side": ["a", "b"] * 20},
            random_state=0,
        )
        text = plots.caption(
            embedding,
            title="habitat",
            ellipses="se",
            spiders=True,
            arrows=fit,
            p_max=0.05,
            centroids=True,
            size="89mm",
        )
        for part in (
            "Colours: habitat",
            "95 % confidence ellipses of the means",
            "mean of its group",
            "p ≤ 0.05 grow",
        ):
            assert part in text
        # `side` has no p below the limit.
        assert "Crosses" not in text


class TestPairs:
    def test_the_corner_of_a_shepard_plot_has_the_r2_of_stressplot(self):
        # vegan 2.6-4, stressplot(metaMDS(dune)): 0.9860007 and 0.926846.
        path = Path(__file__).parents[1] / "fixtures" / "dune_braycurtis.csv"
        D = pd.read_csv(path, index_col=0)
        embedding = neuc_mds(D, 2, loss="ordinal")
        ax = plots.plot_shepard(D, embedding)
        assert ax.texts[0].get_text().splitlines() == [
            "non-metric R² 0.986",
            "linear R² 0.927",
            "190 pairs",
        ]
        assert ax.lines[0].get_drawstyle() == "steps-post"
        metric = neuc_mds(D, 2, loss="distance")
        ax = plots.plot_shepard(D, metric)
        i, j = np.triu_indices(20, 1)
        d = D.to_numpy()[i, j]
        cor = np.corrcoef(d, metric.dissimilarities()[i, j])[0, 1]
        assert f"cor² {cor**2:.3f}" in ax.texts[0].get_text()

    def test_all_pairs_are_drawn_or_a_sample(self, data, embedding, tmp_path):
        ax = drawn(plots.plot_shepard(data, embedding), tmp_path)
        assert ax.texts[0].get_text().endswith("\n780 pairs")
        ax = drawn(
            plots.plot_shepard(data, embedding, max_pairs=100), tmp_path
        )
        assert ax.texts[0].get_text().endswith("\n100 of 780 pairs")
        assert sum(len(c.get_offsets()) for c in ax.collections) == 100

    def test_points_are_d_and_the_embedding_on_the_scale_of_the_input(
        self, data, embedding
    ):
        i, j = np.triu_indices(40, 1)
        fitted = embedding.dissimilarities(squared=True)[i, j]
        for D, squared in ((data, None), (data**2, True)):
            ax = plots.plot_shepard(D, embedding, squared=squared)
            points = np.vstack([c.get_offsets() for c in ax.collections])
            y = (
                fitted
                if squared
                else np.sign(fitted) * np.sqrt(np.abs(fitted))
            )
            np.testing.assert_allclose(np.sort(points[:, 0]), np.sort(D[i, j]))
            np.testing.assert_allclose(
                np.sort(points[:, 1]), np.sort(y), atol=1e-12
            )

    def test_of_a_d_outside_memory_rows_are_sampled(self, tmp_path):
        da = pytest.importorskip("dask.array")
        x = np.random.default_rng(0).uniform(size=(250, 3))
        D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
        ax = drawn(
            plots.plot_shepard(da.from_array(D, 100), neuc_mds(D, 3, "neuc+")),
            tmp_path,
        )
        given = np.concatenate([c.get_offsets()[:, 0] for c in ax.collections])
        assert np.isin(np.round(given, 9), np.round(D, 9)).all()

    def test_missing_pairs_are_left_out(self, data):
        holes = data.copy()
        holes[0, 1:4] = holes[1:4, 0] = np.nan
        ax = plots.plot_shepard(holes, neuc_mds(holes, 3, missing="ignore"))
        assert ax.texts[0].get_text().endswith("\n777 of 780 pairs")

    def test_negative_pairs_are_marked_and_counted(self, tmp_path):
        x = np.random.default_rng(1).normal(size=(30, 3))
        sq = ((x[:, None] - x[None, :]) ** 2) @ np.array([1.0, 1.0, -1.0])
        embedding = neuc_mds(sq, (2, 1), squared=True)
        ax = drawn(plots.plot_shepard(sq, embedding), tmp_path)
        fitted = embedding.dissimilarities(squared=True)[
            np.triu_indices(30, 1)
        ]
        count = int((fitted < 0).sum())
        assert count > 10
        assert f"D̂ < 0 ({count})" in texts(ax)


def test_what_cannot_be_drawn_is_refused(data, embedding):
    fit = envfit(
        embedding,
        {"a": embedding.coordinates[:, 0]},
        axes=(1, 3),
        permutations=9,
    )
    for options, said in (
        *(
            ({"axes": axes}, "axes")
            for axes in ((0, 1), (1, 1), (1, 9), (1, 2, 3))
        ),
        ({"color": ["a"] * 39}, "39 entries for 40 objects"),
        (
            {"color": np.linspace(0, 1, 40), "ellipses": "sd"},
            "need categories",
        ),
        ({"hulls": True}, "need categories"),
        ({"color": ["a", "b"] * 20, "ellipses": "95"}, "'sd' or 'se'"),
        *(
            (
                {"color": ["a", "b"] * 20, "ellipses": "sd", "conf": conf},
                f"conf={conf} must be between 0 and 1",
            )
            for conf in (0, 1, 95, np.nan)
        ),
        ({"size": "89"}, "no width"),
        ({"size": "1..5in"}, "no width"),
        ({"size": "3mm"}, "no width"),
        ({"arrows": fit, "variables": ["b"]}, "'b' was not fitted"),
        ({"names": ["a", "b", "c"]}, "names has 3 entries for 40"),
        ({"arrows": fit}, r"fitted to axes \(1, 3\), but axes \(1, 2\)"),
    ):
        with pytest.raises(InputError, match=said):
            plots.plot_coordinates(embedding, **options)
    line = neuc_mds(data, 1)
    fit = envfit(line, {"a": line.coordinates[:, 0]}, permutations=9)
    with pytest.raises(InputError, match="arrows need two coordinates"):
        plots.plot_coordinates(line, arrows=fit)
    with pytest.raises(InputError, match="positive trace"):
        plots.plot_scree([[0, -1.0], [-1.0, 0]], squared=True)
    with pytest.raises(
        InputError, match="39 objects, but the embedding has 40"
    ):
        plots.plot_shepard(data[:39, :39], embedding)


def test_a_caller_s_axes_are_used_and_their_figure_keeps_its_size(embedding):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3), layout="constrained")
    ax = figure.add_subplot()
    labelled = replace(embedding, labels=tuple(map(str, range(40))))
    assert (
        plots.plot_coordinates(labelled, ["a", "b"] * 20, ax=ax, names=True)
        is ax
    )
    assert ax.get_legend() is not None
    assert tuple(figure.get_size_inches()) == (4, 3)
    part = Figure(layout="constrained").subfigures(1, 2)[0].add_subplot()
    plots.plot_coordinates(labelled, ["a", "b"] * 20, ax=part, names=True)


def test_pyplot_is_never_imported():
    import subprocess

    code = "import neucmds.tools.plots as p, sys; "
    code += "p.plot_spectrum([[0, 1], [1, 0]]).figure.canvas.draw(); "
    code += "sys.exit('matplotlib.pyplot' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )
