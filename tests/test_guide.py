"""Pages of the guide, run block by block: what they print is what they say they print."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest
from sklearn import manifold

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "guide"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(page, folder, search_little):
    """Run the Python of a page in one namespace; yield what each printed block should be.

    What follows the last printed block has but to run, and searches little.
    """
    names: dict[str, object] = {}
    printed = ""
    text = (GUIDE / page).read_text(encoding="utf-8")
    promised = text.count("```text\n")
    with contextlib.chdir(folder):
        for language, block in BLOCK.findall(text):
            if language == "text":
                yield printed, block
                printed = ""
                promised -= 1
                continue
            if promised == 0:
                search_little()
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block, page, "exec"), names)
            printed += out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        ("choosing.md", 0),
        ("coordinates.md", 0),
        ("directed.md", 2),
        ("graphs.md", 3),
        ("losses.md", 1),
        ("migration.md", 6),
        ("missing.md", 4),
        ("nmds.md", 4),
        ("objects.md", 7),
        ("scale.md", 0),
        ("statistics.md", 11),
    ],
)
@pytest.mark.filterwarnings("ignore::neucmds.errors.NeucmdsWarning")
def test_a_page_prints_what_it_says(page, blocks, tmp_path, search_little):
    pytest.importorskip("skbio", reason="the page needs scikit-bio")
    if page == "directed.md":
        pytest.importorskip("faiss", reason="the page needs FAISS")
    if page == "migration.md" and not hasattr(manifold, "ClassicalMDS"):
        pytest.skip("the page needs scikit-learn's ClassicalMDS")
    for fixture, name in (
        ("dune_braycurtis.csv", "dune.csv"),
        ("dune_env.csv", "env.csv"),
    ):
        shutil.copy(ROOT / "tests" / "fixtures" / fixture, tmp_path / name)
    found = list(run(page, tmp_path, search_little))
    assert len(found) == blocks
    for printed, promised in found:
        assert printed == promised
