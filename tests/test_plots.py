from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")


from neucmds import curve, neuc_mds, plots
from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum


@pytest.fixture(scope="module")
def data():
    x = np.random.default_rng(0).uniform(size=(40, 3))
    return ((x[:, None] - x[None, :]) ** 2).sum(-1)


@pytest.fixture(scope="module")
def embedding(data):
    return neuc_mds(data, 8, "neuc+")


def drawn(ax, tmp_path):
    """Save the figure, and make sure that something is in it."""
    ax.figure.savefig(tmp_path / "plot.png")
    pixels = ax.figure.canvas.buffer_rgba()
    assert np.asarray(pixels)[..., :3].std() > 1
    return ax


def texts(ax):
    return [text.get_text() for legend in ax.figure.legends for text in legend.get_texts()]


def test_spectrum_counts_kept_and_dropped_of_either_sign(data, embedding, tmp_path):
    lam = full_spectrum(DenseGram(data**2)).values
    ax = drawn(plots.plot_spectrum(lam, embedding.eigenvalues), tmp_path)
    positive, negative = embedding.signature
    assert f"positive, kept ({positive})" in texts(ax)
    assert f"negative, kept ({negative})" in texts(ax)
    kept = [c for c in ax.collections if "kept" in str(c.get_label())]
    assert len({tuple(c.get_facecolor()[0]) for c in kept}) == 2


def test_spectrum_of_ties_marks_as_many_as_are_kept(tmp_path):
    ax = drawn(plots.plot_spectrum([2.0, 2.0, 2.0, -1.0], [2.0, 2.0]), tmp_path)
    assert "positive, kept (2)" in texts(ax)
    assert "positive, dropped (1)" in texts(ax)


def test_spectrum_without_a_selection_or_without_anything(tmp_path):
    assert texts(drawn(plots.plot_spectrum([3.0, 1.0]), tmp_path)) == ["positive, eigenvalues (2)"]
    drawn(plots.plot_spectrum([0.0, 0.0]), tmp_path)


def test_curve_has_a_line_for_every_method_on_log_scales(data, tmp_path):
    curves = curve(data, range(1, 31))
    ax = drawn(plots.plot_curve(curves), tmp_path)
    assert texts(ax) == list(curves.stress)
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize(
    ("labels", "entries"),
    [
        (None, 0),
        (["a", "b"] * 20, 2),
        ([10, 9] * 20, 2),
        (list(range(40)), 0),
        ([f"g{i}" for i in range(40)], 20),
    ],
    ids=["none", "text", "few numbers", "many numbers", "many groups"],
)
def test_coordinates_carry_their_signs_and_labels(embedding, tmp_path, labels, entries):
    ax = drawn(plots.plot_coordinates(embedding, labels), tmp_path)
    names = plots.axis_names(embedding)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (names[0], names[1])
    assert names[0] == "axis1"
    assert any(name.endswith("_neg") for name in names)
    assert len(texts(ax)) == entries
    if labels == [10, 9] * 20:
        assert texts(ax) == ["9", "10"]


@pytest.mark.parametrize("name", ["$", "$x$", "$\\frac{$", "_hidden", "a\x1b[31mb", "100 $"])
def test_labels_are_drawn_as_they_are_written(embedding, tmp_path, name):
    ax = drawn(plots.plot_coordinates(embedding, [name, "b"] * 20, title=name), tmp_path)
    shown = [text.replace("\u200b", "").replace(r"\$", "$") for text in texts(ax)]
    assert sorted(shown) == sorted([name.replace("\x1b", r"\x1b"), "b"])


@pytest.mark.parametrize(
    "d", [np.zeros((6, 6)), np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))]
)
def test_a_curve_of_perfect_fits_is_drawn(d, tmp_path):
    drawn(plots.plot_curve(curve(d)), tmp_path)


def test_one_coordinate_is_drawn_on_a_line(data, tmp_path):
    ax = drawn(plots.plot_coordinates(neuc_mds(data, 1)), tmp_path)
    assert ax.get_ylabel() == ""


def test_shepard_draws_all_pairs_or_a_sample(data, embedding, tmp_path):
    ax = drawn(plots.plot_shepard(data**2, embedding), tmp_path)
    assert "(780 pairs)" in ax.get_title(loc="left")
    ax = drawn(plots.plot_shepard(data**2, embedding, max_pairs=100), tmp_path)
    assert "(100 of 780 pairs)" in ax.get_title(loc="left")
    assert sum(len(c.get_offsets()) for c in ax.collections) == 100


def test_a_caller_s_axes_are_used(embedding):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plots.plot_coordinates(embedding, ["a", "b"] * 20, ax=ax) is ax
    assert ax.get_legend() is not None


def test_pyplot_is_never_imported():
    import subprocess

    code = "import neucmds.plots as p, sys; p.plot_spectrum([1.0, -1.0]).figure.canvas.draw(); "
    code += "sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
