"""Settings of the documentation; `make docs` builds it. Nothing is fetched from the network."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path
from typing import Any

# Workers are told by the environment only: two cores build, and BLAS must not take both for each.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from public_names import write_reference  # noqa: E402

import neucmds  # noqa: E402

write_reference(HERE / "reference")

project = "neucmds"
author = "neucmds contributors"
copyright = "2026, neucmds contributors"
version = release = neucmds.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "gallery",
    "stories/**/*.ipynb",
    "stories/**/*.py",
    "_templates",
]
templates_path = ["_templates"]
default_role = "code"
highlight_language = "none"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "stories",
    "filename_pattern": r"/story_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 60,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "write_computation_times": False,
}


def mathjax_folder() -> Path:
    """Return where the package that ships MathJax keeps it."""
    files = importlib.metadata.files("sphinx-mathjax-offline") or []
    return next(
        Path(f.locate()) for f in files if f.name == "tex-svg.js"
    ).parent


# One file that draws its own glyphs, so that formulas need neither fonts nor a network.
html_static_path = ["_static"]
mathjax_path = "tex-svg.js"

html_theme = "pydata_sphinx_theme"
html_title = "neucmds"
html_css_files = ["neucmds.css"]
html_show_sourcelink = False
# Pages without a section have no navigation of one: their tables need the width.
html_sidebars = {"*": []}
toc_object_entries_show_parents = "hide"
html_theme_options: dict[str, Any] = {
    "logo": {"text": "neucmds"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_context = {"default_mode": "auto"}
# Published sites, which lie beside each other, offer the other versions (docs/versions.py).
SITE = os.environ.get("NEUCMDS_SITE")
if SITE:
    html_theme_options["switcher"] = {
        "json_url": f"{SITE}/switcher.json",
        "version_match": version,
    }
    html_theme_options["check_switcher"] = False
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]


def copy_mathjax(app: Any, error: Exception | None) -> None:
    """Copy MathJax beside the other static files, once the pages are written."""
    target = Path(app.outdir) / "_static" / mathjax_path
    if error is None and not target.exists():
        target.write_bytes((mathjax_folder() / mathjax_path).read_bytes())


def escape_bars(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep |λ| in a docstring from being read as a substitution, and recall@10 as an address."""
    in_code_or_bar = re.compile(r"(``.*?``|`.*?`)|[|@]")
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = in_code_or_bar.sub(
                lambda found: found[1] or "\\" + found[0], line
            )


def skip_inherited(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave methods of scikit-learn to its own reference."""
    routing = name.startswith("set_") and name.endswith("_request")
    return (
        True
        if routing or str(getattr(obj, "__module__", "")).startswith("sklearn")
        else None
    )


def setup(app: Any) -> None:
    """Register the functions above."""
    app.connect("build-finished", copy_mathjax)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
    app.connect("autodoc-skip-member", skip_inherited)
