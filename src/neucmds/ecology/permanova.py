"""Shares of the variation of D that variables explain (PERMANOVA)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from neucmds.backend.arrays import Floats, Indices
from neucmds.ecology.corrections import centered_gram, sq_values
from neucmds.ecology.metadata import (
    as_metadata,
    check_column,
    column_values,
    group_names,
    known_rows,
    match_rows,
)
from neucmds.ecology.permutation import (
    p_value,
    permutation_orders,
    seed_of,
    table_text,
)
from neucmds.errors import InputError, NeucmdsWarning, option


@dataclass(frozen=True, eq=False, repr=False)
class Permanova:
    """Sums of squares of the terms of a formula, and tests of their F.

    Parameters
    ----------
    table : pandas.DataFrame
        As vegan's: a row per term, then Residual and Total; columns Df, SumOfSqs, R2, F and Pr(>F).
    permuted : ndarray of shape (permutations, terms)
        F of each term in each permutation.
    by : {"terms", "margin"} or None
        As of `permanova`.
    n : int
        Number of objects with a value of every variable.
    """

    table: Any
    permuted: Floats
    by: str | None
    n: int

    def __repr__(self) -> str:
        tested = {
            "terms": "terms in their order",
            "margin": "each term after all others",
            None: "all terms together",
        }
        heading = (
            f"PERMANOVA of {self.n} objects, {tested[self.by]}, {len(self.permuted)} "
            "permutations"
        )
        return table_text(heading, self.table)


def permanova(
    D: Any,
    formula: str,
    metadata: Any,
    *,
    by: Literal["terms", "margin"] | None = "terms",
    strata: Any = None,
    squared: bool = False,
    permutations: Any = 999,
    random_state: Any = None,
) -> Permanova:
    """Test how much of D variables of the objects explain, as vegan's ``adonis2``.

    The sum of squares of a term is tr(HG). G is −½CDC, with squares in D and the centering matrix
    C; H projects on what the columns of the term add to those of other terms. Negative eigenvalues
    of G count as they are, so a sum of squares may be negative.

    Parameters
    ----------
    D : as for `neuc_mds`
        It must fit in memory.
    formula : str
        Variables, as in ``"~ A1 + Management"``, ``"~ A1 * Management"`` or ``"~ log(A1)"``; what
        stands before the tilde is not read. A variable of numbers has one column, texts and
        categories are factors. The package formulaic parses the formula.
    metadata : DataFrame or mapping of str to sequence
        The variables, matched with the objects as in `envfit`.
    by : {"terms", "margin"} or None, default="terms"
        "terms": what each term adds to those before it. "margin": what each term adds to all
        others; a term that is part of an interaction is not tested. None: all terms together.
    strata : str, sequence of length n or Series, optional
        Permutations stay within these groups: a column of `metadata`, or a group per object.
    squared : bool, default=False
        Whether D holds squared dissimilarities.
    permutations : int or array of shape (m, n), default=999
        Number of permutations, 0 for no test; or the permutations of the objects with all values.
    random_state : int, RandomState or None
        Draws the permutations.

    Returns
    -------
    Permanova

    Notes
    -----
    Objects without a value of a variable are left out, and a `NeucmdsWarning` counts them.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import permanova
    >>> x = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])
    >>> test = permanova(abs(x[:, None] - x), "~ g", {"g": list("aaabbb")}, random_state=0)
    >>> test.table["F"].round(6).to_list()[0], test.table["R2"].round(4).to_list()[0]
    (150.0, 0.974)
    """
    if by not in ("terms", "margin", None):
        raise InputError(
            f"{option('by', by)} must be 'terms', 'margin' or None."
        )
    if not isinstance(formula, str):
        raise InputError(
            f"{option('formula', formula)} must be a text, as in '~ A1 + Management'."
        )
    sq_d, labels = sq_values(D, squared)
    table = match_rows(as_metadata(metadata), labels, len(sq_d))
    if isinstance(strata, str):
        check_column(table, strata)
        strata = table[strata]
    blocks = group_names(strata, labels, len(sq_d))
    columns = {
        name: column_values(table, name) for name in variables_of(formula)
    }
    variables = type(table)(columns, index=range(len(table)), dtype=object)
    variables = variables.infer_objects()
    known = variables.notna().all(axis=1).to_numpy() & (blocks != "")
    rows = known_rows(known, "a value of some variable")
    terms, whole = _bases(formula, variables.iloc[rows], by)
    n = rows.size
    widths = [basis.shape[1] for basis in terms.values()]
    residual_df = n - 1 - whole.shape[1]
    if not widths or residual_df < 1:
        raise InputError(
            f"{option('formula', formula)} has {len(widths)} terms and leaves {residual_df} of "
            f"{n - 1} degrees of freedom; at least one of each is needed."
        )
    gram = centered_gram(sq_d[np.ix_(rows, rows)])
    total = float(np.trace(gram))
    orders = permutation_orders(
        permutations, n, seed_of(random_state), blocks[rows]
    )
    # The last column is the sum of squares of all terms together.
    bases = [*terms.values(), whole]
    sums = np.array([_sums_of_squares(gram, bases, order) for order in orders])
    residual = total - sums[:, -1]
    mean_squares = sums[:, :-1] / widths
    with np.errstate(divide="ignore", invalid="ignore"):
        f = mean_squares / (residual / residual_df)[:, None]
    p = [p_value(f_of_term) for f_of_term in f.T]
    sums_of_squares = np.array([*sums[0, :-1], residual[0], total])
    # Residual and Total have no F.
    no_test = [math.nan, math.nan]
    summary = type(table)(
        {
            "Df": [*widths, residual_df, n - 1],
            "SumOfSqs": sums_of_squares,
            "R2": sums_of_squares / total,
            "F": [*f[0], *no_test],
            "Pr(>F)": [*p, *no_test],
        },
        index=[*terms, "Residual", "Total"],
    )
    return Permanova(summary, f[1:], by, n)


def variables_of(formula: str) -> list[str]:
    """Return the columns that a formula needs, in its order."""
    names = _parse(formula).required_variables
    return sorted(map(str, names), key=formula.find)


def _parse(formula: str) -> Any:
    """Parse what stands after the tilde."""
    try:
        from formulaic import Formula
        from formulaic.errors import FormulaicError
    except ModuleNotFoundError as error:
        raise InputError(
            'formulas need formulaic; install it with: pip install "neucmds[formula]"'
        ) from error
    try:
        return Formula(f"~ {formula.rpartition('~')[2]}")
    except FormulaicError as error:
        raise InputError(
            f"{option('formula', formula)} is not understood; write it as in '~ A1 + Management'."
        ) from error


def _bases(
    formula: str, variables: Any, by: str | None
) -> tuple[dict[str, Floats], Floats]:
    """Return orthonormal bases: one of what each tested term adds to others, and one of all terms.

    The others are the terms before it or, with "margin", all other terms.
    """
    matrix = _parse(formula).get_model_matrix(variables)
    x = np.asarray(matrix, dtype=np.float64)
    if x.shape[0] != len(variables) or not np.isfinite(x).all():
        raise InputError(
            f"{option('formula', formula)} has no finite number for some objects that have all "
            "values; look at what it computes."
        )
    # A constant column becomes zero, which it is but for rounding.
    rounding = 1e-12 * np.linalg.norm(x, axis=0)
    x = x - x.mean(axis=0)
    x[:, np.linalg.norm(x, axis=0) <= rounding] = 0.0
    # The intercept is the term of degree 0.
    slices = {
        term: columns
        for term, columns in matrix.model_spec.term_slices.items()
        if term.degree
    }
    no_columns = np.empty((len(x), 0))
    whole = _basis_beside(no_columns, x)
    if by is None:
        return {"Model": whole}, whole
    bases = {}
    others = no_columns
    for term, columns in slices.items():
        if by == "margin":
            if any(set(term.factors) < set(other.factors) for other in slices):
                continue
            others = _basis_beside(no_columns, np.delete(x, columns, axis=1))
        basis = _basis_beside(others, x[:, columns])
        if by == "terms":
            others = np.hstack([others, basis])
        if basis.shape[1]:
            bases[str(term)] = basis
        else:
            message = (
                f"{term} adds nothing to the other terms and is not tested."
            )
            warnings.warn(NeucmdsWarning(message), stacklevel=3)
    return bases, whole


def _basis_beside(others: Floats, columns: Floats) -> Floats:
    """Return an orthonormal basis of the part of columns orthogonal to a basis of others."""
    lengths = np.linalg.norm(columns, axis=0)
    units = columns[:, lengths > 0] / lengths[lengths > 0]
    rest = units - others @ (others.T @ units)
    vectors, values, _ = np.linalg.svd(rest, full_matrices=False)
    # R's qr drops a column of which less than this share of its length is left.
    basis: Floats = vectors[:, values > 1e-7]
    return basis


def _sums_of_squares(
    gram: Floats, bases: Sequence[Floats], order: Indices
) -> list[float]:
    """Return the trace of a Gram matrix on each basis, with the objects of the matrix permuted."""
    # Permuting the objects of the matrix is permuting those of the bases by the inverse.
    inverse = np.argsort(order)
    permuted = [basis[inverse] for basis in bases]
    return [float(np.vdot(basis, gram @ basis)) for basis in permuted]
