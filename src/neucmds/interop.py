"""Coordinates for pandas and scikit-bio."""

from __future__ import annotations

import warnings
from typing import Any

from neucmds.backend.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.problem.files import require_pandas

__all__ = ["to_frame", "to_skbio"]


def to_frame(embedding: Embedding) -> Any:
    """Coordinates as a pandas DataFrame.

    Parameters
    ----------
    embedding : Embedding

    Returns
    -------
    pandas.DataFrame
        One row for each object, with its name if any; columns ``axis1``, ``axis2_neg``, …
        Of a directed embedding, if departures and arrivals are those of the same objects, further
        columns ``arrival1``, ``arrival2_neg``, …; if they are two sets, rows of the departures and
        then of the arrivals, which a first column ``side`` names.

    Examples
    --------
    >>> from neucmds import neuc_mds
    >>> emb = neuc_mds([[0, 1, 1], [1, 0, 4], [1, 4, 0]], 2)
    >>> list(emb.to_frame().columns)
    ['axis1', 'axis2_neg']
    """
    pandas = require_pandas("to_frame")
    frame = pandas.DataFrame(
        to_numpy(embedding.coordinates),
        embedding.labels,
        embedding.axis_names,
    )
    if embedding.arrivals is None:
        return frame
    arrivals = pandas.DataFrame(
        to_numpy(embedding.arrivals),
        embedding._targets.labels,
        embedding.axis_names,
    )
    if embedding.arrival_labels is None:
        arrivals.columns = [
            name.replace("axis", "arrival") for name in embedding.axis_names
        ]
        return pandas.concat([frame, arrivals], axis=1)
    frame.insert(0, "side", "departure")
    arrivals.insert(0, "side", "arrival")
    return pandas.concat([frame, arrivals])


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
        which do not project, it is None. Of a fit by landmarks, eigenvalues and shares are those of
        the landmarks, and `long_method_name` says so.

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
    try:
        import skbio
    except ImportError as error:
        raise ImportError(
            "this needs scikit-bio: pip install 'neucmds[skbio]'."
        ) from error
    pandas = require_pandas("to_skbio")
    if embedding.arrivals is not None:
        raise InputError(
            "scikit-bio has one point per object, and this embedding has departures and arrivals; "
            "use to_frame()."
        )
    names = list(embedding.axis_names)
    n_negative = embedding.signature[1]
    if n_negative:
        warnings.warn(
            f"{n_negative} of {embedding.k} axes are negative (their names end in _neg): objects "
            "far apart along them are more alike. Emperor and scikit-bio draw them as ordinary "
            "axes.",
            UserWarning,
            stacklevel=3,
        )
    method = f"Non-Euclidean multidimensional scaling ({embedding.method})"
    if embedding._landmarks_alone:
        method += f", eigenvalues of {embedding._landmarks_alone}"
    shares = embedding.shares.get("trace")
    if shares is not None:
        shares = pandas.Series(shares, index=names)
    # scikit-bio's names are texts.
    samples = to_frame(embedding).rename(index=str)
    return skbio.OrdinationResults(
        short_method_name="NeucMDS",
        long_method_name=method,
        eigvals=pandas.Series(to_numpy(embedding.weights), index=names),
        samples=samples,
        sample_ids=list(samples.index),
        proportion_explained=shares,
    )
