"""The site, README and the release files agree with the records, the code and each other."""

from __future__ import annotations

import importlib.util
import json
import pkgutil
import re
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

import neucmds

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
if not (ROOT / "docs" / "conf.py").exists():
    pytest.skip(
        "the documentation is not part of this installation",
        allow_module_level=True,
    )


def load(path):
    """Import a script of docs or benchmarks."""
    if not (ROOT / path).exists():
        pytest.skip(f"{path} is not part of this installation")
    spec = importlib.util.spec_from_file_location(
        (ROOT / path).stem, ROOT / path
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def pages():
    docs = (
        p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts
    )
    return sorted([*docs, *ROOT.glob("*.md")])


def anchors(page):
    """Return the anchors of a page, as GitHub and the site make them from its headings."""
    headings = re.findall(
        r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


def test_every_public_name_is_in_the_reference():
    listed = load("docs/public_names.py").exported()
    named = {name for names in listed.values() for name in names}
    assert set(neucmds.__all__) - {"__version__"} == set(listed["neucmds"])
    for module in (
        "neucmds.datasets",
        "neucmds.theory",
        "neucmds.tools.plots",
    ):
        assert set(import_module(module).__all__) <= named, module


def test_tables_of_the_guide_are_those_of_the_records():
    tables = load("docs/tables.py")
    if not tables.RECORDS.exists():
        pytest.skip("benchmarks are not part of this installation")
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- table: " in text
        assert tables.filled(text) == text, (
            f"run python docs/tables.py for {page.name}"
        )


@pytest.fixture
def losses(monkeypatch):
    """The benchmark of the losses, and its record."""
    kept = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setitem(
        sys.modules, "losses", sys
    )  # dataclasses look their module up
    module = load("benchmarks/losses.py")
    yield module, json.loads(module.RECORD.read_text(encoding="utf-8"))
    for name in set(sys.modules) - kept:
        if str(ROOT / "benchmarks") in str(
            getattr(sys.modules[name], "__file__", "")
        ):
            del sys.modules[name]


def test_tables_of_losses_are_those_of_the_record(losses):
    module, record = losses
    for page in module.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- losses: " in text
        assert module.filled(text, module.page_tables(record)) == text


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        # The stories become pages when the site is built.
        made = re.sub(
            r"^(\.\./)*stories/(story_\w+)\.rst$",
            r"docs/gallery/\2.py",
            target,
        )
        found = (
            (ROOT / made)
            if made != target
            else (page.parent / target if target else page)
        )
        if not (ROOT / "benchmarks").exists() and "benchmarks/" in target:
            continue
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


@pytest.mark.parametrize("page", ["paper_map.md", "errata.md"])
def test_functions_and_files_that_the_map_of_the_paper_names_exist(page):
    text = read(f"docs/{page}")
    packages = "|".join(m.name for m in pkgutil.iter_modules(neucmds.__path__))
    # `theory.neuc_error`, with any number of levels; not `eq:pqnorm`.
    named = set(
        re.findall(rf"`((?:reproduction|{packages})(?:\.\w+)+)`", text)
    )
    assert len(named) > (40 if page == "paper_map.md" else 0)
    for path in named:
        resolve_name(
            path if path.startswith("reproduction") else f"neucmds.{path}"
        )
    assert all(
        (ROOT / file).is_file()
        for file in re.findall(r"`((?:tests|docs)/[^`]+)`", text)
    )


def test_readme_is_one_screen():
    lines = read("README.md").splitlines()
    assert len(lines) <= 65
    assert any("docs/_static/paradox.svg" in line for line in lines)


def test_one_version_everywhere():
    version = neucmds.__version__
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    released = re.search(r"date-released: (\S+)", read("CITATION.cff"))[1]
    assert f"## [{version}] - {released}\n" in read("CHANGELOG.md")


def test_workflows_run_targets_that_make_has():
    folder = ROOT / ".github" / "workflows"
    if not folder.exists():
        pytest.skip("the workflows are not part of this installation")
    targets = set(
        re.findall(r"^([\w-]+):(?!=)", read("Makefile"), re.MULTILINE)
    )
    for workflow in folder.glob("*.yml"):
        ran = re.findall(
            r"run: make ([\w-]+)", workflow.read_text(encoding="utf-8")
        )
        assert ran
        assert set(ran) <= targets


def test_every_story_names_its_licence():
    stories = sorted((ROOT / "docs" / "gallery").glob("story_*.py"))
    assert stories
    for story in stories:
        head = story.read_text(encoding="utf-8").split('"""')[1]
        assert re.search(r"ODbL|CC BY|GPL", head), story.name
