"""Experiments on small data: what is there is run, what is not there is said in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reproduction.__main__ import main
from reproduction.bench import Bench
from reproduction.drawing import draw
from reproduction.published import TABLES
from reproduction.registry import EXPERIMENTS, select
from reproduction.runner import run_experiments
from reproduction.sources import CUMIDA, IMAGES, SYNTHETIC, Settings

SMALL = 80


@pytest.fixture
def small(tmp_path):
    """A bench of small synthetic sets, without any files."""
    return Bench(Settings(seed=5, data_home=tmp_path, download=False, n=SMALL), n_seeds=2)


@pytest.mark.parametrize(
    "name", ["table:stress-all", "table:distortion-all", "table:evaluation-2-all"]
)
def test_without_files_the_synthetic_rows_still_run(small, name):
    record = EXPERIMENTS[name].run(small)
    table = next(t for t in TABLES if t.label == record.labels[0])
    assert {skip.row for skip in record.skipped} == {*CUMIDA, *IMAGES}
    for row in SYNTHETIC:
        ran = [c for c in record.cells if c.row == row]
        assert ran
        assert all(np.isfinite(c.ours) for c in ran)
    published = [(c.row, c.column) for c in record.cells if c.printed is not None]
    expected = [(r, c) for r in table.rows for c in table.columns if table.get(r, c)]
    assert sorted(published) == sorted(expected)


def test_what_is_missing_is_named_with_the_place_to_put_it(small):
    record = EXPERIMENTS["figure:dim-paradox"].run(small)
    (renal,) = record.skipped
    assert renal.reason.startswith("Renal not run: Renal_GSE53757.csv not found, put it into")
    assert "\n" not in renal.reason
    _, reasons = small.split(["MNIST", "CIFAR-10 (noise)"])
    assert [reason.reason.split(":")[0] for reason in reasons] == [
        "mnist not found",
        "cifar10 not found",
    ]


def test_a_cumida_file_is_used_once_it_is_there(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["samples,type," + ",".join(f"g{i}" for i in range(6))]
    for i in range(60):
        values = rng.normal(size=6) + 3 * (i % 2)
        lines.append(f"s{i},{'tumour' if i % 2 else 'normal'}," + ",".join(map(str, values)))
    (tmp_path / "genomics").mkdir()
    (tmp_path / "genomics" / "Renal_GSE53757.csv").write_text("\n".join(lines) + "\n")
    bench = Bench(Settings(data_home=tmp_path, download=False, n=SMALL), n_seeds=1)
    record = EXPERIMENTS["table:dataset"].run(bench)
    assert record.cell("Renal", "size").ours == 60
    assert record.cell("Renal", "classes").verdict == "same digits"
    assert "Renal" not in {skip.row for skip in record.skipped}


def test_a_broken_file_stops_its_own_row_only(tmp_path):
    (tmp_path / "Brain_GSE50161.csv").write_text("not,a table\n")
    bench = Bench(Settings(data_home=tmp_path, download=False, n=SMALL))
    found, skipped = bench.split(["Random-simplex", "Brain"])
    assert found == ["Random-simplex"]
    assert "not with CuMiDa's" in skipped[0].reason


def test_spectra_are_computed_once_and_never_shared_between_benches(small, monkeypatch):
    calls = []
    from reproduction import bench as module

    real = module.whole_spectrum
    monkeypatch.setattr(module, "whole_spectrum", lambda gram: calls.append(1) or real(gram))
    for method in ("classical", "neuc", "neuc+", "exact"):
        small.quality("Random-simplex", method)
        small.quality("Random-simplex", method, 7)
    assert len(calls) == 1
    assert small.with_seed(6).problem("Random-simplex") is not small.problem("Random-simplex")


def test_the_same_seed_gives_the_same_record(tmp_path):
    settings = Settings(seed=2, data_home=tmp_path, download=False, n=SMALL)
    runs = [EXPERIMENTS["table:landmarks"].run(Bench(settings, n_seeds=2)) for _ in range(2)]
    assert runs[0].cells == runs[1].cells
    other = EXPERIMENTS["table:landmarks"].run(Bench(Settings(3, tmp_path, False, SMALL), None, 2))
    assert other.cells != runs[0].cells


def test_the_paradox_figure_has_a_curve_for_every_method_and_can_be_drawn(small):
    pytest.importorskip("matplotlib")
    record = EXPERIMENTS["figure:dim-para-all"].run(small)
    (panel,) = record.panels
    assert [s.name for s in panel.series] == [
        "classical",
        "lower",
        "neuc",
        "neuc+",
        "exact",
        "refined",
    ]
    assert record.cell("Euclidean-ball", "factor: classical").ours > 1
    for method in ("neuc", "neuc+", "exact", "refined"):
        assert record.cell("Euclidean-ball", f"factor: {method}").ours <= 1
    assert len(draw(record).axes) == 1


def test_progress_names_the_experiment_and_records_are_timed(tmp_path):
    told = []
    settings = Settings(data_home=tmp_path, download=False)
    (record,) = run_experiments(select(["figure:eigen-dist-renal"]), settings, told.append)
    assert record.seconds > 0
    assert all(words.startswith("[1/1] figure:eigen-dist-renal ") for words in told)
    assert told


KNN = [f"{name}{suffix}" for name in IMAGES for suffix in ("", " (k=10)")]


@pytest.fixture(scope="module")
def real(data_home):
    """The paper's own data, made once for all tests."""
    return Bench(Settings(data_home=data_home, download=False))


@pytest.mark.parametrize("row", KNN)
def test_neighbour_graphs_of_images_give_the_published_rows(real, row):
    name = "table:image-other-metric" if row.endswith("(k=10)") else "table:evaluation-1-all"
    label = name.replace("table:", "tab:")
    table = next(t for t in TABLES if t.label == label)
    for method in ("classical", "lower", "neuc", "neuc+"):
        printed = table.get(row, f"norm: {method}")
        quality = real.quality(row, method)
        norm = quality.stress**0.5
        ours = quality.scaled_additive_error if "E15" in printed.errata else norm
        assert ours == pytest.approx(printed.value, rel=0.002), method


# tab:image-other-metric: classical, neuc, neuc+; the printed CIFAR-10 exponents of noise differ.
@pytest.mark.parametrize(
    ("row", "published", "rel"),
    [
        ("MNIST (noise)", [1.497e9, 1.497e9, 1.140e9], 3e-3),
        ("Fashion-MNIST (noise)", [4.815e9, 3.382e9, 3.327e9], 3e-3),
        ("MNIST (missing)", [3.281e8, 3.281e8, 1.010e8], 0.04),
        ("Fashion-MNIST (missing)", [5.165e8, 5.165e8, 1.726e8], 0.04),
        ("CIFAR-10 (missing)", [2.132e9, 2.132e9, 5.756e8], 0.015),
    ],
)
def test_noise_and_missing_pixels_give_the_published_rows(real, row, published, rel):
    norms = [real.quality(row, method).stress ** 0.5 for method in ("classical", "neuc", "neuc+")]
    np.testing.assert_allclose(norms, published, rtol=rel)


@pytest.mark.parametrize(
    ("row", "neuc", "new", "kept"),
    [
        ("MNIST (k=10)", 554, 63, (42, 41)),
        ("Fashion-MNIST (k=10)", 403, 84, (38, 40)),
        ("CIFAR-10 (k=10)", 3236, 996, (39, 37)),
    ],
)
def test_negative_pairs_are_unordered_and_new_ones_only(real, row, neuc, new, kept):
    counts = real.counts(row)
    assert counts.twins == 0
    assert counts.negative_pairs["neuc"] == neuc
    assert counts.new_negative_pairs == new  # errata E13
    found = [real.quality(row, m).negative_coordinates for m in ("neuc", "neuc+")]
    assert tuple(found) == kept


def test_the_program_lists_names_writes_files_and_refuses_an_unknown_name(tmp_path, capsys):
    assert main(["--list"]) == 0
    assert "tab:evaluation-2-all" in capsys.readouterr().out
    assert main(["table:nothing"]) == 2
    assert "no table:nothing" in capsys.readouterr().err
    name = "figure:eigen-dist-renal"
    asked = ["--no-download", "--data", str(tmp_path), "-o", str(tmp_path / "out")]
    assert main([name, *asked]) == 0
    assert "Renal not run" in capsys.readouterr().out
    stem = name.replace(":", "-")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {f"{stem}.json", f"{stem}.md", f"{stem}.csv", "reproduction.md"}
    record = json.loads((tmp_path / "out" / f"{stem}.json").read_text(encoding="utf-8"))
    assert record["skipped"][0]["row"] == "Renal"
