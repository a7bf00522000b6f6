"""Write an HTML report on D, its embedding, and its quality."""

from __future__ import annotations

import platform
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

import neucmds
from neucmds.backend.files import atomic_file, check_target
from neucmds.ecology.metadata import as_metadata, check_column, match_rows, read_metadata
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.options import Callback

__all__ = ["write_report"]


def write_report(
    path: str | PathLike[str],
    embedding: Embedding,
    D: Any = None,
    *,
    metadata: Any = None,
    metadata_missing: Literal["error", "grey"] = "error",
    color_by: str | None = None,
    title: str | None = None,
    squared: bool | None = None,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    replicates: int = 0,
    random_state: int = 0,
    overwrite: bool = False,
    command: str = "Embedding.report in Python",
    callback: Callback | None = None,
) -> Path:
    """Write an HTML report on an embedding and its D; it opens offline.

    Parameters
    ----------
    path : path
        File to write; it appears once it is complete.
    embedding : Embedding
    D : as for `neuc_mds`, Dense or None
        The embedded D. Without it the report is limited to the embedding itself.
    metadata : path, DataFrame or mapping, optional
        A table of the objects, matched by name; each column can colour the points.
    metadata_missing : {"error", "grey"}, default="error"
        Whether objects without a row are refused, or drawn in grey.
    color_by : str, optional
        Column that colours the points at first.
    title : str, optional
        Title of the report; the name of the file by default.
    squared : bool, optional
        Whether D holds squared dissimilarities; as in the fit by default.
    symmetrize, missing
        As for `neuc_mds`.
    weights : array of shape (n, n), optional
        Weights of the fit, as for `neucmds.evaluate`. Parts that need equal weights are left out.
    replicates : int, default=0
        Number of bootstrap replicates of `neucmds.bootstrap`, drawn as ellipses, and of
        permutations of `neucmds.explore.resampling.stress_test`; each takes a fit.
    random_state : int, default=0
        Seed of samples of pairs and objects, of replicates and permutations.
    overwrite : bool, default=False
        Whether an existing file is replaced.
    command : str
        Text that names on the page how it was made.
    callback : callable, optional
        Called before each longer piece of work, with 0, None and a few words.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from neucmds import neuc_mds
    >>> from neucmds.tools.report import write_report
    >>> D = [[0, 1, 1], [1, 0, 4], [1, 4, 0]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(f"{folder}/three.html", neuc_mds(D, 2), D)
    ...     page.stat().st_size < 8e6
    True
    """
    from neucmds.tools.report.findings import gather
    from neucmds.tools.report.page import plotly_script, render

    target = Path(path)
    check_target(target)
    taken = InputError(
        f"{target} exists already; pass {option('overwrite', True)}, or another name."
    )
    if target.exists() and not overwrite:
        raise taken
    plotly_script()  # fail before the work
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)):
        raise InputError(
            f"random_state={random_state!r} must be a whole number, which the page prints for "
            "reproduction."
        )
    table = None
    if metadata is not None:
        given = read_metadata(metadata) if isinstance(metadata, (str, PathLike)) else metadata
        labels, n = embedding.labels, embedding.n
        table = match_rows(as_metadata(given), labels, n, missing=metadata_missing)
    if color_by is not None:
        if table is None:
            raise InputError(f"{option('color_by', color_by)} needs {option('metadata')}.")
        check_column(table, color_by)
    found = gather(
        embedding,
        D,
        squared=squared,
        replicates=replicates,
        random_state=int(random_state),
        callback=callback,
        symmetrize=symmetrize,
        weights=weights,
        missing=missing,
    )
    packages = ("numpy", "scipy", "scikit-learn", "plotly")
    versions = [f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)]
    made = [
        ("command", command),
        ("seed", str(random_state)),
        ("neucmds", neucmds.__version__),
        ("with", ", ".join(versions)),
    ]
    page = render(found, title=title or target.stem, made=made, metadata=table, color_by=color_by)
    try:
        with atomic_file(target, overwrite=overwrite) as file:
            file.write(page.encode("utf-8", "replace"))
    except FileExistsError as problem:
        raise taken from problem
    return target
