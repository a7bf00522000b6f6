"""Every option of the commands beside `embed` changes what is printed or written, or is refused."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import typer

from neucmds import neuc_mds
from neucmds.tools.cli.app import app

from .conftest import squared_gaps

NAMES = [f"site{i}" for i in range(14)]
COMMANDS = typer.main.get_command(app).commands
# What a command needs beside its options.
GIVEN = {
    "diagnose": ["d.csv", "--json"],
    "compare": ["d.csv", "-k", "2", "--methods", "neuc", "--json"],
    "stress-curve": [
        "d.csv",
        "-k",
        "2",
        "--methods",
        "neuc",
        "--json",
        "--plots",
        "none",
    ],
    "project": ["model.npz", "new.csv"],
    "report": ["d.csv", "-k", "2"],
}
ONE_WAY = (["one_way.csv"], ["--symmetrize"])
GAPS = (["gaps.csv"], ["--missing", "ignore"])
FEATURES = (["x.csv"], ["--metric", "cityblock"])
# Option → what it is tried beside, instead of the usual file, and how it is given.
CASES = {
    "squared": ([], ["--squared"]),
    "symmetrize": ONE_WAY,
    "directed": (["one_way.csv"], ["--directed"]),
    "metric": FEATURES,
    "components": ([], ["-k", "3"]),
    "k_max": ([], ["-k", "3"]),
    "methods": ([], ["--methods", "neuc,classical"]),
    "method": ([], ["--method", "neuc"]),
    "loss": ([], ["--loss", "relative"]),
    "ties": (["tied.csv", "--loss", "ordinal"], ["--ties", "secondary"]),
    "curvature": (["--loss", "relative"], ["--curvature", "-1"]),
    "heights": (["--loss", "relative"], ["--heights", "yes"]),
    "missing": GAPS,
    "weights": ([], ["--weights", "w.csv"]),
    "metadata": ([], ["--metadata", "meta.csv"]),
    "metadata_missing": (
        ["--metadata", "few.csv", "--color-by", "habitat"],
        ["--metadata-missing", "grey"],
    ),
    "color_by": (["--metadata", "meta.csv"], ["--color-by", "habitat"]),
    "categories": (
        ["--metadata", "meta.csv", "--color-by", "year"],
        ["--categories", "year"],
    ),
    "bootstrap": ([], ["--bootstrap", "2"]),
    "seed": ([], ["--seed", "1"]),
    "plot": ([], ["--plot", "new.svg"]),
    "plots": ([], ["--plots", "svg"]),
    "arrivals": (["one_way.npz"], ["--arrivals"]),
    "output": ([], ["-o", "elsewhere"]),
    "as_json": ([], ["--json"]),
    # Of few objects the whole spectrum is computed, which takes no seed.
    ("compare", "seed"): (["--methods", "smacof"], ["--seed", "1"]),
}
OPTIONS = [
    (command, parameter.name)
    for command in GIVEN
    for parameter in COMMANDS[command].params
    if parameter.param_type_name == "option"
    and parameter.name not in ("help", "force")
]
# Outcomes without an option: several options share one.
WITHOUT = {}


@pytest.fixture
def files(here):
    """Files that the cases name."""
    d = squared_gaps()
    x = np.random.default_rng(0).uniform(size=(14, 4))
    tables = {"d": d, "one_way": d + np.triu(d), "w": 1 + (d > d.mean())}
    tables["gaps"] = np.where(d == d.max(), np.nan, d)
    tables["tied"] = np.ceil(4 * d)
    for name, table in tables.items():
        pd.DataFrame(table, NAMES, NAMES).to_csv(here / f"{name}.csv")
    pd.DataFrame(x, NAMES, list("abcd")).to_csv(here / "x.csv")
    pd.DataFrame(d[:2], ["new", "newer"], NAMES).to_csv(here / "new.csv")
    meta = pd.DataFrame(
        {"habitat": ["bog", "fen"] * 7, "year": np.arange(14) % 3}, NAMES
    )
    meta.to_csv(here / "meta.csv")
    meta[:10].to_csv(here / "few.csv")
    neuc_mds(pd.DataFrame(d, NAMES, NAMES), 2).save(here / "model.npz")
    uneven = pd.DataFrame(tables["one_way"], NAMES, NAMES)
    neuc_mds(uneven, 2, directed=True).save(here / "one_way.npz")
    return {path.name for path in here.iterdir()}


@pytest.fixture(autouse=True)
def no_page(monkeypatch):
    """Write what a page is made of, which is told apart sooner than the page."""

    def write(page, embedding, problem, **words):
        words |= {"callback": None, "command": None}
        data = getattr(problem, "gram", problem)
        lines = [
            embedding.coordinates.tobytes().hex(),
            embedding.signature,
            np.asarray(data.sq_dissimilarity).tobytes().hex(),
            words,
        ]
        page.write_text("\n".join(map(str, lines)))

    monkeypatch.setattr("neucmds.tools.cli.report.write_report", write)


def outcome(run, here, files, command, arguments):
    """Return the exit code of a command, and what it prints and writes, without times."""
    result = run(command, *arguments)
    texts = {"": result.out or result.err}
    for path in sorted(here.rglob("*")):
        name = str(path.relative_to(here))
        if path.is_file() and name not in files:
            texts[name] = path.read_bytes().decode("latin-1")
            path.unlink()
    for name, text in texts.items():
        texts[name] = re.sub(r'"?\w*seconds"?: [\d.e-]+', "", text)
    return result.code, texts


def words_of(command, name):
    """Return a command without an option, and the words that give the option."""
    given = GIVEN[command]
    beside, asked = CASES.get((command, name)) or CASES[name]
    if name == "as_json":
        given = [word for word in given if word != "--json"]
    if beside and not beside[0].startswith("-"):
        return [beside[0], *given[1:], *beside[1:]], asked
    return [*given, *beside], asked


@pytest.mark.parametrize(("command", "name"), OPTIONS)
def test_every_option_of_a_command_changes_what_it_gives(
    run, here, files, command, name
):
    arguments, asked = words_of(command, name)
    case = (command, *arguments)
    if case not in WITHOUT:
        WITHOUT[case] = outcome(run, here, files, *case[:1], arguments)
    code, texts = outcome(run, here, files, command, [*arguments, *asked])
    assert code == 0, texts
    assert WITHOUT[case] != (code, texts)


@pytest.mark.parametrize("command", GIVEN)
def test_a_command_that_is_repeated_gives_the_same(run, here, files, command):
    first = outcome(run, here, files, command, GIVEN[command])
    assert first[0] == 0
    assert outcome(run, here, files, command, GIVEN[command]) == first


@pytest.mark.parametrize("command", ["stress-curve", "project", "report"])
def test_results_are_replaced_by_force_alone(run, here, files, command):
    arguments = [command, *GIVEN[command], "-o", "there"]
    assert run(*arguments).code == 0
    assert run(*arguments).code == 2
    assert run(*arguments, "--force").code == 0
