"""Bad input: exit code 2, exactly one line on standard error, and nothing left behind."""

from __future__ import annotations

import os

import numpy as np
import pytest

from .conftest import squared_gaps


def _changed(i, j, value, *, symmetric=True):
    d = squared_gaps()
    d[i, j] = value
    if symmetric:
        d[j, i] = value
    return d


# tests/problem refuses the same and more in Python: here a few of each kind meet a command.
BAD_MATRICES = [
    ("embed", np.ones((4, 5)), "not square: 4 × 5"),
    (
        "diagnose",
        _changed(2, 3, 9.0, symmetric=False),
        "with --symmetrize to average",
    ),
    ("compare", _changed(2, 3, np.nan), "--missing ignore of neucmds embed"),
    ("stress-curve", _changed(2, 3, -1.0), "--squared"),
    ("embed", np.array([[0, "a"], [None, 0]], dtype=object), "Python objects"),
    ("diagnose", "\n\n", "is empty"),
    ("embed", None, "does not exist"),
]


@pytest.mark.parametrize(("words", "content", "expected"), BAD_MATRICES)
def test_bad_matrix_ends_in_one_line(run, here, words, content, expected):
    file = "bad.csv" if isinstance(content, str) else "bad.npy"
    if isinstance(content, str):
        (here / file).write_text(content)
    elif content is not None:
        np.save(here / file, content, allow_pickle=True)
    _assert_refused(run, here, [*words.split(), file], expected)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["embed", "gaps.npy", "-k", "0"], "-k 0"),
        (["embed", "gaps.npy", "-k", "14"], "from 1 to n − 1 = 13"),
        *(
            (
                ["embed", "gaps.npy", "-k", text],
                f"-k {text} must be a whole number",
            )
            for text in ("many", "1.5", "0.0", "1,2,3", "-0.5")
        ),
        (
            ["embed", "gaps.npy", "-k", "2,1", "--method", "classical"],
            "--method classical",
        ),
        (
            [
                "embed",
                "gaps.npy",
                "--metadata",
                "absent.csv",
                "--color-by",
                "a",
            ],
            "absent.csv",
        ),
        (
            ["embed", "gaps.npy", "-o", "gaps.npy"],
            "gaps.npy cannot hold results",
        ),
        (["embed", "gaps.npy", "--plots", "gif"], "gif"),
        (["report", "gaps.npy", "-o", "no/such/page.html"], "does not exist"),
        (["compare", "gaps.npy", "-k", "3,2"], "for -k 3,2 use"),
        (
            ["stress-curve", "gaps.npy", "--k-max", "14"],
            "-k 14 must be a whole number k from 1 to",
        ),
        (["report", "gaps.npy", "-o", os.devnull, "--force"], "device"),
        (["diagnose", "-"], "standard input is empty"),
        (["embed"], "FILE"),
        (["nonsense"], "nonsense"),
        (["project", "absent.npz", "gaps.npy"], "no such file"),
        (["project", "gaps.npy", "gaps.npy"], "not an embedding"),
        (
            ["embed", "gaps.npy", "--landmarks", "15"],
            "--landmarks 15 of 14 objects",
        ),
        (
            ["embed", "gaps.npy", "--landmarks", "5", "--weights", "gaps.npy"],
            "go without --landmarks",
        ),
        (
            ["embed", "gaps.npy", "--color-by", "habitat"],
            "--color-by habitat needs --metadata",
        ),
        (["embed", "gaps.npy", "--arrows"], "--arrows needs a table"),
        (
            ["embed", "gaps.npy", "--heights", "yes"],
            "--heights needs --loss 'relative', 'absolute' or 'distance'",
        ),
        (["embed", "gaps.npy", "--ellipses", "sd"], "--ellipses need categ"),
        (
            ["diagnose", "gaps.npy", "--metric", "precomputed,p=3"],
            "arguments of a metric",
        ),
        (["embed", "gaps.npy", "-o", "/"], "/ cannot hold results"),
        (
            [
                "report",
                "gaps.npy",
                "--weights",
                "gaps.npy",
                "--bootstrap",
                "9",
            ],
            "bootstrap needs every pair of D",
        ),
        (
            ["diagnose", "gaps.npy", "--metric", "minkowski,3"],
            "as in minkowski,p=3",
        ),
        *(
            (
                ["embed", "gaps.npy", "-k", "3", "--axes", axes],
                f"--axes {axes}{said}",
            )
            for axes, said in (
                ("1,9", ": axis 9"),
                ("2,2", ""),
                ("1", " must be two"),
                ("0,1", ""),
            )
        ),
    ],
)
def test_bad_arguments_end_in_one_line(run, here, matrix, args, expected):
    _assert_refused(run, here, args, expected)


@pytest.mark.parametrize(
    "words", ["--axes 1,9", "--axes 2,2", "--hulls", "--size 89"]
)
def test_what_cannot_be_drawn_is_refused_before_the_fit(
    run, here, matrix, monkeypatch, words
):
    monkeypatch.setattr("neucmds.tools.cli.embed.neuc_mds", pytest.fail)
    args = ["embed", "gaps.npy", "-k", "3", *words.split()]
    _assert_refused(run, here, args, words)


def _square(names, value):
    lines = [f"{name}," + ",".join([value] * len(names)) for name in names]
    return "\n".join(["," + ",".join(names), *lines]) + "\n"


SITES = [f"site{i}" for i in range(14)]
META = "\n".join(
    ["id,habitat,depth", *(f"{s},bog,{i / 4}" for i, s in enumerate(SITES))]
)
# The text of t.csv, options of embed with FILE, and what is said.
BAD_TABLES = [
    (META, "sites.csv --metadata t.csv --color-by soil", "no column 'soil'"),
    (
        META,
        "sites.csv --metadata t.csv --color-by depth --ellipses se",
        "ellipses need categories",
    ),
    (
        _square([f"plot{i}" for i in range(14)], "1"),
        "sites.csv --weights t.csv",
        "'site0'",
    ),
    (
        _square(SITES[1:], "1"),
        "sites.csv --weights t.csv",
        "1 of 14 objects are not among them",
    ),
    (
        _square(SITES[:9], "1"),
        "gaps.npy --weights t.csv",
        "weights have shape (9, 9)",
    ),
    (
        "s,a,b\nx,1,2\ny,3,4\n",
        "t.csv --metric magic",
        "--metric magic is unknown",
    ),
    (
        "s,a,b\nx,1,two\ny,3,4\n",
        "t.csv --metric cosine",
        "are not numbers",
    ),
    (
        "s,a,b\nx,1,NA\ny,3,4\n",
        "t.csv --metric cosine",
        "features hold NaN",
    ),
    (
        "s,a\nx,0\ny,0\nz,1\n",
        "t.csv --metric braycurtis",
        "gives NaN or infinity",
    ),
    ("s,a\nx,1\ny,2\n", "t.csv --metric minkowski,q=2", "cannot be used"),
    (
        "s,a\nx,1\ny,2\n",
        "t.csv --metric cosine --squared",
        "leave --squared out",
    ),
    (
        "s\nx\ny\n",
        "t.csv --metric euclidean",
        "t.csv has no columns of numbers",
    ),
    ("a,b,1\nc,d,1\n", "t.csv --metric shortest_path", "parts"),
    (
        "a,b,1\nb,c,1\n",
        "t.csv --metric shortest_path --squared",
        "not squared",
    ),
    (
        "s,a\nx,1\ny,2\n",
        "t.csv --metric minkowski,p=abc",
        "--metric minkowski cannot be used",
    ),
    (
        "a,b,1\nb,c,1\n",
        "t.csv --metric shortest_path,weight=minutes",
        "has no column 'minutes'",
    ),
    (
        "a,b,1\n",
        "t.csv --metric shortest_path,direction=up",
        "NAME,PARAMETER=VALUE of --metric",
    ),
    (
        "a,b,1\nb,a,2\n",
        "t.csv --metric shortest_path,direction=both",
        "pass --directed, or --metric shortest_path,direction=mean",
    ),
]


@pytest.mark.parametrize(("text", "words", "expected"), BAD_TABLES)
def test_bad_tables_end_in_one_line(
    run, here, matrix, named_csv, text, words, expected
):
    (here / "t.csv").write_text(text)
    _assert_refused(run, here, ["embed", "-k", 1, *words.split()], expected)


def test_bug_exits_1_and_asks_for_a_report(run, matrix, monkeypatch):
    monkeypatch.setattr(
        "neucmds.explore.diagnosis.full_spectrum", lambda gram: 1 / 0
    )
    outcome = run("diagnose", matrix)
    assert outcome.code == 1
    assert outcome.err.startswith("Traceback")
    assert "please report" in outcome.err.splitlines()[-1]


def test_interruption_while_writing_leaves_nothing(
    run, here, matrix, monkeypatch
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupt)
    outcome = run("embed", matrix, "-k", "3")
    assert outcome.code == 130
    _assert_one_line(outcome.err)
    assert list(here.iterdir()) == [matrix]


def test_warnings_name_options_of_the_command(run, matrix):
    again = run(
        "embed", matrix, "-k", 13, "--method", "classical", "--plots", "none"
    )
    assert again.code == 0
    assert again.err.startswith("neucmds: warning: ")
    assert again.err.count("\n") == 1
    assert "--method classical can use" in again.err


@pytest.mark.parametrize("word", ["--axes", "--nonsense"])
def test_usage_errors_are_sentences(run, matrix, word):
    err = run("compare", matrix, word).err
    assert word in err
    assert err.endswith(". See: neucmds compare --help\n")


def _assert_refused(run, here, args, expected):
    before = sorted(here.iterdir())
    outcome = run(*args)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.err
    _assert_one_line(outcome.err)
    assert sorted(here.iterdir()) == before


def _assert_one_line(err):
    assert err.count("\n") == 1, err
    assert err.startswith("neucmds: error: ")
    assert "Traceback" not in err
    assert "missing=" not in err.replace("missing='ignore' in Python", "")
    assert "=True" not in err
