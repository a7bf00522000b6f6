"""``neucmds report``: the page of a file, its options and its refusals."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("plotly", reason="the report needs plotly")

from .conftest import squared_gaps


@pytest.mark.slow
def test_it_writes_a_page_that_says_its_command(run, here, named_csv):
    rows = "\n".join(f"site{i},{'ab'[i % 2]},{i / 2}" for i in range(14))
    (here / "info.csv").write_text(f"site,habitat,depth\n{rows}\n")
    words = "report sites.csv -k 3 --metadata info.csv --color-by habitat --seed 5"
    outcome = run(*words.split())
    assert outcome.code == 0, outcome.err
    page = (here / "sites-report.html").read_text(encoding="utf-8")
    assert all(part in page for part in (f"neucmds {words}", '"title":"habitat"', '"site13"'))
    assert "sites-report.html" in outcome.out
    again = run(*words.split())
    assert again.code == 2
    assert "--force" in again.err


@pytest.mark.slow
def test_a_file_larger_than_the_free_memory_gives_the_page_too(run, here, monkeypatch):
    np.save(here / "large.npy", squared_gaps(250))
    (here / "large-report.html").write_text("old")
    monkeypatch.setattr("neucmds._operator.choose.available_memory", lambda: 590_000)
    outcome = run("report", "large.npy", "-k", 2, "--method", "neuc+", "--force")
    assert outcome.code == 0, outcome.err
    page = (here / "large-report.html").read_text(encoding="utf-8")
    assert "20,000 of 31,125 pairs" in page
