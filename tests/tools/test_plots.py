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

from neucmds import neuc_mds, stress_curve
from neucmds.ecology import envfit
from neucmds.errors import InputError
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
        assert "the largest of all" in ax.get_title(loc="left")

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

    def test_axis_labels_name_the_share_or_else_the_r2_that_is_lost(
        self, data
    ):
        projected = neuc_mds(data, 4, "neuc")
        share = f"{100 * projected.shares['trace'][0]:.1f} %"
        ax = plots.plot_coordinates(projected)
        assert ax.get_xlabel() == f"axis 1 ({share} of the trace)"
        fitted = neuc_mds(data, 4)
        ax = plots.plot_coordinates(fitted)
        assert (
            ax.get_xlabel()
            == f"axis 1 (R² lost without it: {fitted.explained[0]:.3g})"
        )

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
        ax = plots.plot_coordinates(embedding, management, ellipses=True)
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
            plots.plot_coordinates(embedding, groups, ellipses=True), tmp_path
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


class TestPairs:
    def test_all_pairs_are_drawn_or_a_sample(self, data, embedding, tmp_path):
        ax = drawn(plots.plot_shepard(data, embedding), tmp_path)
        assert "(780 pairs)" in ax.get_title(loc="left")
        ax = drawn(
            plots.plot_shepard(data, embedding, max_pairs=100), tmp_path
        )
        assert "(100 of 780 pairs)" in ax.get_title(loc="left")
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
        assert "(777 of 780 pairs)" in ax.get_title(loc="left")

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
            {"color": np.linspace(0, 1, 40), "ellipses": True},
            "need categories",
        ),
        ({"names": ["a", "b", "c"]}, "names has 3 entries for 40"),
        ({"arrows": fit}, r"fitted to axes \(1, 3\), but axes \(1, 2\)"),
    ):
        with pytest.raises(InputError, match=said):
            plots.plot_coordinates(embedding, **options)
    with pytest.raises(InputError, match="positive trace"):
        plots.plot_scree([[0, -1.0], [-1.0, 0]], squared=True)
    with pytest.raises(InputError, match="39 objects, but the embedding 40"):
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
