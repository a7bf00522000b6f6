"""Writes every story of the gallery as a notebook and runs it: python docs/notebooks.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import nbclient
import nbformat
from sphinx_gallery.notebook import python_to_jupyter_cli

STORIES = Path(__file__).parent / "gallery"


def main(folder: Path) -> None:
    """Convert and run; a cell that raises stops."""
    folder.mkdir(parents=True, exist_ok=True)
    for story in sorted(STORIES.glob("story_*.py")):
        copy = folder / story.name
        copy.write_bytes(story.read_bytes())
        python_to_jupyter_cli([str(copy)])
        copy.unlink()
        path = copy.with_suffix(".ipynb")
        notebook = nbformat.read(path, as_version=4)
        # Stories name files of the checkout from their own folder.
        where = {"metadata": {"path": str(STORIES)}}
        client = nbclient.NotebookClient(
            notebook, timeout=1200, resources=where
        )
        client.execute()
        nbformat.write(notebook, path)
        print(f"{path.name}: runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
