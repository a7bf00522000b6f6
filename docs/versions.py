"""Adds the built site of this version to a folder that holds one site per version.

    python docs/versions.py docs/_build/html pages https://owner.github.io/neucmds

The switcher on every page reads `switcher.json`; the front page leads to the newest version.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import neucmds


def add(site: Path, pages: Path, address: str, version: str) -> None:
    """Copy a site into the folder of its version, and list all versions."""
    shutil.rmtree(pages / version, ignore_errors=True)
    shutil.copytree(site, pages / version)
    folders = [path.name for path in pages.iterdir() if path.name[0].isdigit()]
    folders.sort(key=lambda name: [int(part) for part in name.split(".")])
    switcher = [
        {"name": name, "version": name, "url": f"{address}/{name}/"}
        for name in reversed(folders)
    ]
    (pages / "switcher.json").write_text(json.dumps(switcher, indent=1))
    (pages / ".nojekyll").touch()
    newest = folders[-1]
    (pages / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={newest}/">'
        f'<a href="{newest}/">neucmds {newest}</a>\n'
    )


if __name__ == "__main__":
    add(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        sys.argv[3].rstrip("/"),
        neucmds.__version__,
    )
