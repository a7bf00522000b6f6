"""Checks a tag before its release, takes its notes from the changelog, and readies README for PyPI.

python .github/release.py check v0.4.0 owner/repository
python .github/release.py notes v0.4.0 owner/repository
python .github/release.py readme v0.4.0 owner/repository
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read(name: str) -> str:
    """Return a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def notes(version: str) -> str:
    """Return what the changelog says about a version."""
    section = rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## \[|\Z)"
    match = re.search(section, read("CHANGELOG.md"), re.MULTILINE | re.DOTALL)
    if match is None:
        raise SystemExit(f"CHANGELOG.md has no section [{version}]")
    return match[1].strip()


def addressed(text: str, version: str, repository: str) -> str:
    """Give relative links their addresses, which PyPI and the notes of a release need."""
    tree = f"https://github.com/{repository}/blob/v{version}/"
    raw = f"https://raw.githubusercontent.com/{repository}/v{version}/"
    picture = r"(!\[[^]]*\]\()(?!https?:)"
    link = r"(\]\()(?!https?:)"
    text = re.sub(picture, rf"\1{raw}", text)
    return re.sub(link, rf"\1{tree}", text)


def problems(version: str, repository: str) -> list[str]:
    """Return one line per file that does not fit this release."""
    lines = []
    if f'__version__ = "{version}"' not in read("src/neucmds/__init__.py"):
        lines.append(f"src/neucmds/__init__.py: the version is not {version}")
    if f"\nversion: {version}\n" not in read("CITATION.cff"):
        lines.append(f"CITATION.cff: the version is not {version}")
    if f"## [{version}] - 2" not in read("CHANGELOG.md"):
        lines.append(f"CHANGELOG.md: [{version}] has no date")
    if "Once released" in read("README.md"):
        lines.append("README.md: it says 'Once released'")
    urls = tomllib.loads(read("pyproject.toml"))["project"]["urls"]
    address = f"https://github.com/{repository}"
    if urls.get("Repository") != address:
        lines.append(f"pyproject.toml: urls.Repository is not {address}")
    return lines


def main(command: str, tag: str, repository: str) -> None:
    """Run one of the commands."""
    version = tag.removeprefix("v")
    if command == "notes":
        print(addressed(notes(version), version, repository))
        return
    if command == "readme":
        text = addressed(read("README.md"), version, repository)
        (ROOT / "README.md").write_text(text, encoding="utf-8")
        return
    lines = problems(version, repository)
    if lines:
        raise SystemExit("\n".join(lines))
    print(f"{version} can be released")


if __name__ == "__main__":
    main(*sys.argv[1:])
