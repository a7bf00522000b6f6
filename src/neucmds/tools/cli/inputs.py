"""Parse the arguments and read the files of commands."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neucmds.ecology.metadata import read_metadata
from neucmds.embedding import Embedding
from neucmds.errors import InputError
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
    """Read a number, several values between commas, or a word; the library checks them."""
    if "," in text:
        return tuple(parse_value(part) for part in text.split(","))
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text.strip()


def parse_metric(text: str) -> tuple[str, dict[str, Any]]:
    """Read the name of a metric and its parameters, as in ``minkowski,p=3``."""
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
    """Read a graph, features or dissimilarities; return it with its names and the metric.

    The library reads dissimilarities itself, if need be in blocks, unless they are needed as a
    `whole` array or are `directed`, from the rows of a table to its columns; the names of such a
    table are in its index and columns.
    """
    name, params = parse_metric(metric)
    if name == SHORTEST_PATH:
        graph, names = named_graph(
            read_edge_table(file), None, params, directed
        )
        return graph, names, name
    if name != PRECOMPUTED:
        features, names = _read_features(file)
        return features, names, Metric.of(name, params)
    if directed:
        values, rows, columns = read_rectangle(file)
        rows = as_labels(rows, values.shape[0])
        columns = as_labels(columns, values.shape[1])
        return pd.DataFrame(values, rows, columns), None, name
    if not whole:
        return file, None, name
    return *read_square(file), name


def read_weights(file: Path | None) -> Any:
    """Read weights of pairs, which the library matches by name."""
    if file is None:
        return None
    values, names = read_square(file)
    if names is None:
        return values
    return pd.DataFrame(values, names, names)


def read_embedding(model: Path) -> Embedding:
    """Read an embedding that embed wrote, from its file or from the folder of the file."""
    if model.is_dir():
        model = model / "embedding.npz"
    return Embedding.load(model)


def read_problem(
    file: str,
    metric: str,
    n_components: NComponents,
    directed: bool = False,
    **reading: Any,
) -> Any:
    """Read and validate D, or the data that it is computed from; `reading` are other options."""
    data, names, measure = read_data(file, metric, directed=directed)
    reading["metric"] = measure
    if directed:
        return read_directed(data, Options(directed=True, **reading), names)
    return prepare(data, n_components, labels=names, **reading)


def _read_features(file: str) -> tuple[pd.DataFrame, Labels]:
    """Read a table of features, and the names of its rows."""
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
    as_real(table, f"columns of {file}")
    return table, names


def read_objects(
    metadata: Path | None, categories: str | None
) -> pd.DataFrame | None:
    """Read the table of the objects, if there is one."""
    if metadata is None:
        return None
    titles = []
    if categories is not None:
        titles = [title.strip() for title in categories.split(",")]
    table: pd.DataFrame = read_metadata(metadata, categories=titles)
    return table
