"""Exchange with pandas, scikit-bio, AnnData and networkx."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.problem.graph import all_paths, named_graph
from neucmds.problem.names import order_of

__all__ = [
    "from_anndata",
    "from_networkx",
    "to_anndata",
    "to_frame",
    "to_skbio",
]


def to_frame(embedding: Embedding) -> Any:
    """Coordinates as a pandas DataFrame.

    Parameters
    ----------
    embedding : Embedding

    Returns
    -------
    pandas.DataFrame
        One row for each object, named where the objects are; columns ``axis1``, ``axis2_neg``, …

    Examples
    --------
    >>> from neucmds import neuc_mds
    >>> emb = neuc_mds([[0, 1, 1], [1, 0, 4], [1, 4, 0]], 2)
    >>> list(emb.to_frame().columns)
    ['axis1', 'axis2_neg']
    """
    pandas = _require("pandas", "cli")
    coordinates = to_numpy(embedding.coordinates)
    return pandas.DataFrame(
        coordinates, embedding.labels, embedding.axis_names
    )


def to_skbio(embedding: Embedding) -> Any:
    """Coordinates as scikit-bio's `OrdinationResults`.

    Parameters
    ----------
    embedding : Embedding

    Returns
    -------
    skbio.OrdinationResults
        With the signed weights as eigenvalues; negative axes are named ``axis2_neg``. For
        "classical" and "neuc" `proportion_explained` is the share of the trace; for other methods,
        which do not project, it is None. For a fit by landmarks both are those of the landmarks,
        and `long_method_name` says so.

    Warns
    -----
    UserWarning
        If there are negative axes: Emperor and scikit-bio's plots draw them as ordinary ones,
        although distances along them count as *more* alike.

    Examples
    --------
    >>> from neucmds import neuc_mds
    >>> emb = neuc_mds([[0, 3, 4], [3, 0, 5], [4, 5, 0]], 2)
    >>> emb.to_skbio().samples.shape
    (3, 2)
    """
    skbio = _require("skbio", "skbio")
    pandas = _require("pandas", "cli")
    names = list(embedding.axis_names)
    negative = embedding.signature[1]
    if negative:
        warnings.warn(
            f"{negative} of {embedding.k} axes are negative (their names end in _neg): objects far "
            "apart along them are more alike. Emperor and scikit-bio draw them as ordinary axes.",
            UserWarning,
            stacklevel=3,
        )
    method = f"Non-Euclidean multidimensional scaling ({embedding.method})"
    if embedding._landmarks_alone:
        method += f", eigenvalues of {embedding._landmarks_alone}"
    share = embedding.shares.get("trace")
    if share is not None:
        share = pandas.Series(share, index=names)
    samples = to_frame(embedding).rename(index=str)
    return skbio.OrdinationResults(
        short_method_name="NeucMDS",
        long_method_name=method,
        eigvals=pandas.Series(to_numpy(embedding.weights), index=names),
        samples=samples,
        sample_ids=list(samples.index),
        proportion_explained=share,
    )


def from_anndata(adata: Any, key: str = "distances") -> Any:
    """Dissimilarities that an AnnData object holds in ``obsp``.

    Parameters
    ----------
    adata : anndata.AnnData
    key : str, default="distances"
        Name in ``adata.obsp``. Of a sparse matrix, the stored entries count as observed.

    Returns
    -------
    pandas.DataFrame or scipy.sparse array
        A table named by ``obs_names``, or the sparse matrix; `neuc_mds` takes either.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from neucmds.interop import from_anndata
    >>> adata = anndata.AnnData(np.zeros((2, 1)))
    >>> adata.obsp["distances"] = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> from_anndata(adata).shape
    (2, 2)
    """
    if key not in adata.obsp:
        keys = ", ".join(adata.obsp.keys()) or "nothing"
        raise InputError(f"adata.obsp has no {key!r}; it holds {keys}.")
    matrix = adata.obsp[key]
    if hasattr(matrix, "tocsr"):
        return matrix
    pandas = _require("pandas", "cli")
    names = list(adata.obs_names)
    return pandas.DataFrame(np.asarray(matrix), index=names, columns=names)


def to_anndata(
    embedding: Embedding, adata: Any, key: str = "X_neucmds"
) -> None:
    """Write coordinates to ``adata.obsm[key]`` and the signature to ``adata.uns[key]``.

    Parameters
    ----------
    embedding : Embedding
        Of as many objects as `adata` has; if both have names, rows are matched by name.
    adata : anndata.AnnData
    key : str, default="X_neucmds"

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.interop import to_anndata
    >>> adata = anndata.AnnData(np.zeros((3, 1)))
    >>> to_anndata(neuc_mds([[0, 3, 4], [3, 0, 5], [4, 5, 0]], 2), adata)
    >>> adata.obsm["X_neucmds"].shape
    (3, 2)
    """
    names = [str(name) for name in adata.obs_names]
    if len(names) != embedding.n:
        raise InputError(
            f"adata has {len(names)} observations, the embedding {embedding.n}."
        )
    order = order_of(
        embedding.labels or names, names, "objects of the embedding"
    )
    adata.obsm[key] = to_numpy(embedding.coordinates)[order]
    adata.uns[key] = {
        "signs": to_numpy(embedding.signs),
        "weights": to_numpy(embedding.weights),
        "r2_lost": embedding.explained,
        "method": embedding.method,
        "squared": bool(embedding.squared),
    }
    if embedding._landmarks_alone:
        adata.uns[key]["of"] = embedding._landmarks_alone


def from_networkx(
    graph: Any, weight: str | None = "weight", direction: str | None = None
) -> Any:
    """Shortest-path lengths between the nodes of a networkx graph, as a named table.

    Parameters
    ----------
    graph : networkx.Graph
        Connected.
    weight : str or None, default="weight"
        Edge attribute that holds lengths; an edge without it has its "length", else 1, with a
        warning if any edge has one of these, "cost" or "distance". None: 1 each. Of parallel edges
        the shortest counts.
    direction : {"mean", "min", "max", "out"}, optional
        For a directed graph: how the lengths there and back become one, as for `neuc_mds`.

    Returns
    -------
    pandas.DataFrame
        n × n, named by the nodes, for `neuc_mds`.

    Examples
    --------
    >>> import networkx
    >>> from neucmds.interop import from_networkx
    >>> float(from_networkx(networkx.path_graph(4)).loc["0", "3"])
    3.0
    """
    pandas = _require("pandas", "cli")
    matrix, _ = named_graph(
        graph, None, {"weight": weight, "direction": direction}
    )
    names = [str(node) for node in graph.nodes]
    return pandas.DataFrame(all_paths(matrix), index=names, columns=names)


def _require(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs {module}: pip install 'neucmds[{extra}]'."
        ) from error
