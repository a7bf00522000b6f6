"""Parse the arguments and read the files of commands."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neucmds.ecology.metadata import read_metadata
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.options import PRECOMPUTED, SHORTEST_PATH, Options
from neucmds.prepared import prepare, read_directed
from neucmds.problem.components import NComponents
from neucmds.problem.containers import as_real, read_square
from neucmds.problem.files import read_edge_table, read_rectangle, read_table
from neucmds.problem.graph import named_graph
from neucmds.problem.metrics import Metric, refuse_params
from neucmds.problem.names import Labels
from neucmds.problem.validation import as_labels


def parse_value(text: str) -> Any:
    """Return a text as an integer, a float, a tuple if it has commas, or else as it is."""
    if "," in text:
        return tuple(parse_value(part) for part in text.split(","))
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text.strip()


def parse_metric(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a metric and its parameters from a text as ``minkowski,p=3``."""
    name, *settings = text.split(",")
    params = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InputError(
                f"--metric {text} is not understood; pass parameters as in minkowski,p=3."
            )
        params[key.strip()] = parse_value(value)
    if params and name == PRECOMPUTED:
        refuse_params(name)
    return name, params


def read_data(
    file: str, metric: str, whole: bool = False, directed: bool = False
) -> tuple[Any, Labels, Any]:
    """Return the data of a file, the names of the objects if they are not in these, and a metric.

    The data are the lengths of the edges of a graph for the metric shortest_path, and a DataFrame
    of features for other metrics. Dissimilarities are left to the library, as the name of the
    file, unless they are needed as a `whole` array, or are `directed`: a DataFrame, with the names
    of both sides as its index and columns.
    """
    name, params = parse_metric(metric)
    if name == SHORTEST_PATH:
        if params.get("direction") == "both" and not directed:
            raise InputError(
                f"{option('direction', 'both')} keeps two lengths of a pair; pass "
                f"{option('directed', True)}, or {option('direction', 'mean')} for their mean."
            )
        graph, names = named_graph(
            read_edge_table(file), None, params, directed
        )
        return graph, names, name
    if name != PRECOMPUTED:
        bound = Metric.of(name, params)
        features, names = _read_features(file)
        return features, names, bound
    if directed:
        values, rows, columns = read_rectangle(file)
        rows = as_labels(rows, values.shape[0])
        columns = as_labels(columns, values.shape[1])
        return pd.DataFrame(values, rows, columns), None, name
    if not whole:
        return file, None, name
    square, names = read_square(file)
    return square, names, name


def read_weights(file: Path | None) -> Any:
    """Return the weights of pairs of a file, with their names if it has any; None without a file.

    The library matches the names.
    """
    if file is None:
        return None
    values, names = read_square(file)
    if names is None:
        return values
    return pd.DataFrame(values, names, names)


def read_embedding(model: Path) -> Embedding:
    """Return an embedding that ``neucmds embed`` wrote, from its file or the folder of that."""
    if model.is_dir():
        model = model / "embedding.npz"
    return Embedding.load(model)


def read_problem(
    file: str,
    metric: str,
    n_components: NComponents = 1,
    directed: bool = False,
    **reading: Any,
) -> Any:
    """Return the problem of a file, Directed or else Dense; `reading` are options of `prepare`."""
    data, names, measure = read_data(file, metric, directed=directed)
    reading["metric"] = measure
    if directed:
        return read_directed(data, Options(directed=True, **reading), names)
    return prepare(data, n_components, labels=names, **reading)


def _read_features(file: str) -> tuple[pd.DataFrame, Labels]:
    """Return a table of features, and the names of its rows if it has any."""
    if Path(file).suffix.lower() in (".npy", ".npz"):
        values, labels = read_table(file)
        table = pd.DataFrame(np.asarray(values, dtype=np.float64))
        names = as_labels(labels, len(table))
    else:
        table = read_metadata(file)
        names = None
        if not isinstance(table.index, pd.RangeIndex):
            names = as_labels(table.index, len(table))
    if table.empty:
        raise InputError(
            f"{file} has no columns of numbers; pass a table of features."
        )
    # Called for its refusal of columns of text: the table stays as it is.
    as_real(table, f"columns of {file}")
    return table, names


def read_objects(
    metadata: Path | None, categories: str | None
) -> pd.DataFrame | None:
    """Return the table of the objects; None without a file.

    `categories` are titles of columns, separated by commas, whose numbers are names of classes.
    """
    if metadata is None:
        return None
    titles = []
    if categories is not None:
        titles = [title.strip() for title in categories.split(",")]
    table: pd.DataFrame = read_metadata(metadata, categories=titles)
    return table
