"""``neucmds test``: PERMANOVA, PERMDISP, ANOSIM and Mantel on d."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from typer import Option

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import anosim, dispersion, mantel, permanova
from neucmds.ecology.metadata import (
    check_column,
    column_values,
    known_rows,
    match_rows,
)
from neucmds.ecology.permanova import variables_of
from neucmds.ecology.permutation import table_text
from neucmds.errors import InputError, NeucmdsWarning
from neucmds.prepared import dense_gram
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, progress, say
from neucmds.tools.cli.inputs import read_objects, read_problem


def run_tests(
    file: opt.File,
    metadata: opt.Metadata,
    formula: Annotated[
        str,
        Option(
            metavar="FORMULA",
            help="Columns of --metadata, as in '~ A1 + Management'; * adds interactions.",
        ),
    ],
    by: Annotated[
        Literal["terms", "margin", "none"],
        Option(
            help="PERMANOVA of each term beside those before it (terms), beside all others "
            "(margin), or of all together (none).",
        ),
    ] = "terms",
    strata: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Column of --metadata within whose classes objects are permuted.",
        ),
    ] = None,
    categories: opt.Categories = None,
    permutations: Annotated[int, Option(min=1, help="Of every test.")] = 999,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    metric: opt.Metric = opt.DEFAULTS["metric"],
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Test what variables of the objects explain of d, as vegan does."""
    table: Any = read_objects(metadata, categories)
    with progress(f"reading {file}"):
        problem = read_problem(
            file, metric, squared=squared, symmetrize=symmetrize
        )
        sq_d = to_numpy(dense_gram(problem, "test").sq_dissimilarity)
    variables = variables_of(formula)
    needed = [*variables]
    if strata is not None:
        needed.append(strata)
    for name in needed:
        check_column(table, name)
    table = match_rows(table, problem.labels, problem.n)
    # All tests are of the same objects, those with a value in each of these columns.
    is_complete = table[needed].notna().all(axis=1).to_numpy()
    rows = known_rows(is_complete, f"a value of {' or '.join(needed)}")
    table = table.iloc[rows].reset_index(drop=True)
    sq_d = sq_d[np.ix_(rows, rows)]
    settings: dict[str, Any] = {
        "squared": True,
        "permutations": permutations,
        "random_state": seed,
    }
    if strata is not None:
        settings["strata"] = table[strata].to_list()
    # As `permanova` takes it: None tests all terms together.
    tested_by = None
    if by != "none":
        tested_by = by
    with progress("testing by permutations"):
        of_formula = permanova(sq_d, formula, table, by=tested_by, **settings)
        of_variables, of_pairs = _tests_of_variables(
            sq_d, table[variables], settings
        )
    if as_json:
        document: dict[str, Any] = {
            "command": "test",
            "input": file,
            "formula": formula,
            "by": by,
            "strata": strata,
            "n": of_formula.n,
        }
        tables = {
            "permanova": of_formula.table,
            "tests": of_variables,
            "pairs": of_pairs,
        }
        for name, part in tables.items():
            document[name] = part.reset_index(names="name").to_dict("records")
        print_json(document)
        return
    say(f"{file}: {of_formula}")
    say(table_text("\nEach variable alone", of_variables))
    if len(of_pairs):
        say(table_text("\nPERMDISP of pairs of groups", of_pairs))


def _tests_of_variables(
    sq_d: Any, table: pd.DataFrame, settings: dict[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of tests of each variable alone, and one of pairs of classes.

    Variables of numbers have a Mantel test, those of classes ANOSIM and PERMDISP. `sq_d` holds the
    squared d between the objects of `table`.
    """
    # Tests with the names of the variable and of the statistic.
    results = []
    # An empty table, for variables without classes.
    pairs = [pd.DataFrame()]
    for name in table.columns:
        column = column_values(table, name)
        # Numbers come as an array, categories as a tuple.
        if isinstance(column, np.ndarray):
            squares = (column[:, None] - column) ** 2
            correlation = mantel(sq_d, squares, **settings)
            results.append((name, "Mantel r", correlation))
            continue
        try:
            separation = anosim(sq_d, column, **settings)
            results.append((name, "ANOSIM R", separation))
            spread = dispersion(sq_d, column, **settings)
        except InputError as error:
            warnings.warn(NeucmdsWarning(f"{name}: {error}"), stacklevel=2)
            continue
        results.append((name, "PERMDISP F", spread))
        pairs.append(spread.pairwise.add_prefix(f"{name}: ", axis=0))
    tests = pd.DataFrame(
        [(kind, test.statistic, test.p) for _, kind, test in results],
        index=[name for name, _, _ in results],
        columns=["test", "statistic", "p"],
    )
    return tests, pd.concat(pairs)
