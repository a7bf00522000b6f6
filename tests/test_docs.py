"""The site, README and the release files agree with the records, the code and each other."""

from __future__ import annotations

import importlib.util
import json
import pkgutil
import re
import sys
import tomllib
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
    # `theory.suggest_k`, with any number of levels; not `eq:pqnorm`.
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


def test_readme_is_two_screens_with_a_picture_on_the_first():
    lines = read("README.md").splitlines()
    assert len(lines) <= 80
    assert any("docs/_static/streets.svg" in line for line in lines[:20])


@pytest.mark.parametrize("phrase", ["is asked for", "none of"])
def test_pages_avoid_phrases_that_readers_stumble_over(phrase):
    for page in pages():
        text = " ".join(page.read_text(encoding="utf-8").lower().split())
        assert phrase not in text, page


def project():
    return tomllib.loads(read("pyproject.toml"))["project"]


def test_badges_are_true():
    badges = " ".join(re.findall(r"badge/(\S+)-blue", read("README.md")))
    versions = [
        line.rsplit(" ", 1)[1]
        for line in project()["classifiers"]
        if re.search(r"Python :: 3\.\d+$", line)
    ]
    assert badges.split()[0] == "python-" + "_%7C_".join(versions)
    assert project()["license"].replace("-", "--") in badges


def test_ci_runs_every_version_of_the_classifiers():
    if not (ROOT / ".github").exists():
        pytest.skip("the workflows are not part of this installation")
    for line in project()["classifiers"]:
        version = re.search(r"Python :: (3\.\d+)$", line)
        if version:
            assert f'"{version[1]}"' in read(".github/workflows/tests.yml")


def test_actions_are_pinned_by_hash():
    if not (ROOT / ".github").exists():
        pytest.skip("the workflows are not part of this installation")
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text(encoding="utf-8")
        for used in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), used


def test_lowest_versions_are_those_that_the_project_declares():
    declared = [*project()["dependencies"]]
    for extra in ("cli",):
        declared += project()["optional-dependencies"][extra]
    floors = dict(line.split(">=") for line in declared)
    pinned = dict(
        line.split("==")
        for line in read("requirements-lowest.txt").splitlines()
        if "==" in line
    )
    for name, floor in floors.items():
        assert pinned[name].startswith(floor), name


def test_the_sdist_holds_what_its_readme_and_tests_need():
    hatch = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]
    included = set(hatch["build"]["targets"]["sdist"]["include"])
    linked = {
        target.split("/")[0] for target, _ in LINK.findall(read("README.md"))
    }
    assert linked - {""} <= included
    assert "requirements-lowest.txt" in included


def test_a_release_shows_readme_and_notes_with_links_that_work_elsewhere():
    if not (ROOT / ".github").exists():
        pytest.skip("the workflows are not part of this installation")
    release = load(".github/release.py")
    version = neucmds.__version__
    notes = release.notes(version)
    assert LINK.findall(notes)
    assert not LINK.findall(release.addressed(notes, version, "owner/neucmds"))
    shown = release.addressed(read("README.md"), "0.4.0", "owner/neucmds")
    assert not LINK.findall(shown)
    raw = "https://raw.githubusercontent.com/owner/neucmds/v0.4.0/"
    assert f"]({raw}docs/_static/streets.svg)" in shown
    page = "https://github.com/owner/neucmds/blob/v0.4.0/docs/scoreboard.md"
    assert f"]({page}#road-distances)" in shown


def test_one_version_everywhere():
    version = neucmds.__version__
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    released = re.search(r"date-released: (\S+)", read("CITATION.cff"))[1]
    assert f"## [{version}] - {released}\n" in read("CHANGELOG.md")
    assert f"version = {{{version}}}" in read("docs/related.md")


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
