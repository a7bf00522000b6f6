"""Write an HTML report on D, its embedding, and its quality."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal

import neucmds
from neucmds.backend.files import atomic_file
from neucmds.embedding import Embedding
from neucmds.explore.quality import problem_of
from neucmds.options import Callback
from neucmds.tools.files import check_new, objects_table

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
        A table of the objects, matched by name; each column can colour the points, and is fitted
        to the axes by `envfit`. Numbers are a scale: make text of those that are classes.
    metadata_missing : {"error", "grey"}, default="error"
        Whether objects without a row in it are refused, or drawn in grey.
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
        Number of replicates of `neucmds.bootstrap`, drawn as ellipses, and of permutations of
        `neucmds.explore.stress_test`; each takes a fit.
    random_state : int, default=0
        Seed for samples of pairs and objects, replicates and permutations.
    overwrite : bool, default=False
        Whether an existing file is replaced.
    command : str
        Text on the page that says how it was made.
    callback : callable, optional
        Called as ``callback(0, None, what)`` before each longer piece of work.

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
    from neucmds.tools.report.page import load_template, render

    target = Path(path)
    check_new(target, overwrite)
    template = load_template()
    table = objects_table(
        metadata, embedding.labels, embedding.n, metadata_missing, color_by
    )
    problem = None
    if D is not None:
        problem = problem_of(
            embedding,
            D,
            squared,
            weights,
            symmetrize=symmetrize,
            missing=missing,
        )
    findings = gather(
        embedding, problem, table, replicates, random_state, callback
    )
    origin = [
        ("command", command),
        ("seed", str(random_state)),
        ("neucmds", neucmds.__version__),
    ]
    page = render(
        template, findings, title or target.stem, origin, table, color_by
    )
    with atomic_file(target, overwrite=overwrite) as file:
        file.write(page.encode("utf-8", "replace"))
    return target
