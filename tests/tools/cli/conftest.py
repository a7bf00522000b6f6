"""Small matrices in files, and a runner of commands in a folder of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from neucmds.tools.cli.app import app


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(
            self.out,
            parse_constant=lambda name: pytest.fail(f"{name} in JSON"),
        )


Run = Callable[..., Outcome]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(here: Path) -> Run:
    """Run a command in an empty folder."""

    def invoke(*args: object, stdin: bytes | None = None) -> Outcome:
        result = CliRunner().invoke(app, [str(a) for a in args], input=stdin)
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return invoke


def squared_gaps(n: int = 14, seed: int = 0) -> np.ndarray:
    """Dissimilarities of points on a line, squared: no metric, far from Euclidean."""
    x = np.random.default_rng(seed).uniform(size=(n, 2))
    return ((x[:, None] - x[None, :]) ** 2).sum(-1)


@pytest.fixture
def matrix(here: Path) -> Path:
    """A strongly non-Euclidean matrix in an npy file."""
    np.save(here / "gaps.npy", squared_gaps())
    return here / "gaps.npy"


@pytest.fixture
def named_csv(here: Path) -> Path:
    """The same with names, as pandas writes it."""
    names = [f"site{i}" for i in range(14)]
    pd.DataFrame(squared_gaps(), names, names).to_csv(here / "sites.csv")
    return here / "sites.csv"
