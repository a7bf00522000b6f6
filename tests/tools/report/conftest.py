"""A small page with names that look like HTML, and a browser to open it in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from neucmds import Embedding, neuc_mds

pytest.importorskip("plotly", reason="the report needs plotly")

SCRIPT = "<script>alert(1)</script>"
IMAGE = '<img src=x onerror="alert(1)"> & <b>'
N, K = 24, 4
# No screen, no requests of its own, and WebGL without a graphics card.
FLAGS = (
    "--headless=new", "--no-sandbox", "--no-first-run", "--disable-quic", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--window-size=1280,900",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A page, and what it was made of."""

    path: Path
    D: np.ndarray
    embedding: Embedding
    metadata: dict[str, Any]


def squared_gaps(n: int = N) -> np.ndarray:
    """Squares of distances: no metric, far from Euclidean."""
    x = np.random.default_rng(0).uniform(size=(n, 3))
    return ((x[:, None] - x[None, :]) ** 2).sum(-1)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, few_starts: Any) -> Case:
    D = squared_gaps()
    labels = [f"site {i}" for i in range(N)]
    labels[7], labels[8] = SCRIPT, IMAGE
    embedding = neuc_mds(pd.DataFrame(D, labels, labels), (K - 1, 1))
    metadata = {
        "habitat": [("a", "b", SCRIPT)[i % 3] for i in range(N)],
        "depth": D[0] + 0.5,
    }
    path = tmp_path_factory.mktemp("page") / "sites.html"
    embedding.report(
        path, D, metadata=metadata, color_by="habitat", replicates=4
    )
    return Case(path, D, embedding, metadata)


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """Chromium without a screen; the tests are skipped where there is none."""
    pytest.importorskip("selenium", reason="selenium is not installed")
    from selenium import webdriver

    chromium, chromedriver = (
        shutil.which("chromium"),
        shutil.which("chromedriver"),
    )
    if chromium is None or chromedriver is None:
        pytest.skip(
            "no chromium or no chromedriver: apt install chromium chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(chromedriver)
    )
    browser.set_page_load_timeout(120)
    browser.set_script_timeout(60)
    yield browser
    browser.quit()
