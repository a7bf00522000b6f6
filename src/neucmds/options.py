"""The options of a fit, their defaults, and which of them go with which input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from os import PathLike
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import is_dask, to_numpy
from neucmds.backend.checkpoint import checkpoint_path
from neucmds.backend.memory import available_memory
from neucmds.errors import InputError, option
from neucmds.problem.components import AUTO, NComponents
from neucmds.problem.containers import as_real
from neucmds.problem.pairs import Pairs
from neucmds.problem.validation import exceeds_range, out_of_range, refuse_arrays
from neucmds.refine.descent import Limits, Start, check_count
from neucmds.refine.starts import as_start
from neucmds.spectrum.operators.choose import outside_memory
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import METHODS

ALL_METHODS = (*METHODS, "exact", "refined")
CLOSED_FORMS = tuple(method for method in ALL_METHODS if method != "refined")
# "refined" has the least STRESS of fitted and of placed objects (docs/quality.md).
Method = Literal["classical", "lower", "neuc", "neuc+", "exact", "refined"]
Loss = Literal["squared", "distance", "relative"] | tuple[Literal["relative"], float]
DEFAULT_METHOD: Literal["refined"] = "refined"
# Residual of eigenpairs, relative to the largest kept |λ|.
EIGENPAIR_TOL = 1e-7
# Up to here all shortest paths are computed if they fit in memory.
MOST_PATHS = 10_000
PRECOMPUTED, SHORTEST_PATH = "precomputed", "shortest_path"


@dataclass(frozen=True)
class Cell:
    """Verdict on an option for a kind of input, and the reason."""

    verdict: Literal["yes", "refused", "ignored"] = "yes"
    why: str = ""


def _no(why: str) -> Cell:
    return Cell("refused", "{asked} " + why)


# Kinds of input, as the documentation calls them.
INPUTS = {
    "matrix": "D in memory",
    "blocks": "D in a file or store that does not fit",
    "dask": "D as a dask array",
    "operator": "D computed in blocks",
    "pairs": "sparse D: known pairs",
    "features": "features and a metric",
    "sampled": "features with `n_pairs`",
    "graph": "graph of up to 10,000 nodes, or of any size by a closed form",
    "large graph": "larger graph, or with `n_pairs`, by `refined`",
    "landmarks": "D, features or a graph, with `landmarks`",
}
# Beside the input, the method and the loss decide too.
FITS = {
    "closed form": "any closed form",
    "squared loss": '`loss="squared"`',
    "checkpoint": "`checkpoint` of a D outside memory",
}
OPTIONS = {
    "method": "a closed form",
    "loss": '`loss="distance"`, `"relative"`',
    "curvature": "`curvature`",
    "n_components": '`n_components=0.9`, `"auto"`',
    "weights": "`weights`",
    "missing": '`missing="ignore"`',
    "init": "`init`",
    "n_init": "several starts: `init` = a number above 1",
    "checkpoint": "`checkpoint`",
    "squared": "`squared`",
    "symmetrize": "`symmetrize`",
    "n_pairs": "`n_pairs`",
}

_REFINED = option("method", "refined")
IN_MEMORY = _no(
    "needs all of D in memory, and this D is read or computed in blocks; use "
    f"{option('loss', 'squared')}, or LandmarkNeucMDS, which supports every loss."
)
_PAIRS_ALIKE = _no("needs D in memory, and this D is not; load it, or use fewer objects.")
_NO_GRAM = _no("needs D itself, not a Gram of it; pass D.")
_CHOSEN = _no(
    "samples pairs of features and graphs; pass the known pairs of a D as a scipy.sparse array."
)
_KEPT = _no(
    f"is for fits of listed pairs (a scipy.sparse D, {option('n_pairs')}, graphs of more than "
    "10,000 nodes), of a D that is not held in memory or of a function that is called, and for "
    "LandmarkNeucMDS.transform; this D is: leave it out."
)
_EVERY_PAIR = _no("needs every pair of D, and only some are known; pass a number of coordinates.")
_ONE_START = _no("needs every pair of D; a list of pairs is fitted from one start; leave it out.")
_ALL_PATHS = _no(
    f"needs all shortest paths, which are computed for up to {MOST_PATHS:,} nodes, as far as they "
    f"fit in memory and {option('n_pairs')} is not given; leave it out."
)
_NOT_SAMPLED = _no(f"does not work with {option('n_pairs')}, a sample of pairs; leave one out.")
_NO_START = _no(f"needs {_REFINED}: a closed form has no start.")
_NO_LOSS = _no(
    f"needs {option('loss', 'relative')} or {option('loss', 'distance')}, which count errors of d; "
    "the STRESS of all others is defined on d²."
)
_COUNTED_ALIKE = Cell(
    "refused",
    f"weights and missing entries need {_REFINED}: closed forms give every pair equal weight.",
)
_BLOCKS = {
    "loss": IN_MEMORY,
    "curvature": IN_MEMORY,
    "weights": _PAIRS_ALIKE,
    "missing": _PAIRS_ALIKE,
    "n_init": IN_MEMORY,
    "symmetrize": _no("needs D as an array in memory; pass or store (D + D.T) / 2 instead."),
    "n_pairs": _CHOSEN,
}
_PATHS = {
    "missing": Cell("ignored", "a graph has no missing pairs"),
    "squared": _no("is for dissimilarities, and lengths of paths are not squared; leave it out."),
    "symmetrize": Cell("ignored", "`metric_params={'direction': …}` decides"),
}
# Kind of input or of fit → option → verdict; options that are not listed are supported.
TABLE: dict[str, dict[str, Cell]] = {
    "matrix": {"checkpoint": _KEPT, "n_pairs": _CHOSEN},
    "blocks": _BLOCKS,
    "dask": _BLOCKS,
    "operator": _BLOCKS
    | dict.fromkeys(("weights", "missing", "symmetrize"), _NO_GRAM)
    | {"squared": Cell("ignored", "a Gram records whether its entries are squared")},
    "pairs": {
        "method": _no(
            f"needs every pair, and a sparse D is a list of pairs, which needs {_REFINED}; pass "
            "D.toarray() if what is not stored is zero."
        ),
        "n_components": _EVERY_PAIR,
        "weights": _no("cannot be given: a list of pairs has weights in a fourth column."),
        "n_init": _ONE_START,
        "n_pairs": _CHOSEN,
    },
    "features": {
        "loss": Cell("yes", "if their D fits in memory"),
        "n_init": Cell("yes", "if their D fits in memory"),
        "checkpoint": Cell("yes", "if their D does not fit in memory, or the metric is a function"),
    },
    "sampled": {
        "method": _no(f"needs every pair, and {option('n_pairs')} needs {_REFINED}."),
        "n_components": _EVERY_PAIR,
        "n_init": _ONE_START,
        **dict.fromkeys(("weights", "missing", "init", "squared"), _NOT_SAMPLED),
    },
    "graph": _PATHS
    | {
        "checkpoint": _KEPT,
        "n_pairs": Cell("yes", "then a sample of pairs is fitted; closed forms use all"),
    },
    "large graph": _PATHS
    | {
        "method": Cell("yes", "then the row above applies"),
        "n_components": _EVERY_PAIR,
        "weights": _ALL_PATHS,
        "init": _ALL_PATHS,
        "n_init": _ONE_START,
    },
    "landmarks": {
        "missing": _no("does not work with landmarks: every dissimilarity to them is needed."),
        "checkpoint": _no(
            "keeps the rows that LandmarkNeucMDS.transform writes to out=; leave it out, or use it."
        ),
        "n_pairs": _no("samples pairs, but landmarks place objects; leave one out."),
    },
    "closed form": {
        "loss": _no(f"needs {_REFINED}: closed forms minimise the squared loss, or a bound of it."),
        "curvature": _NO_LOSS,
        "init": _NO_START,
        "n_init": _NO_START,
        "checkpoint": _no(f"keeps the coordinates of {_REFINED}, and no eigenpairs; leave it out."),
        "weights": _COUNTED_ALIKE,
        "missing": _COUNTED_ALIKE,
    },
    "checkpoint": {
        "n_components": _no(
            f"takes many descents, and {option('checkpoint')} keeps the coordinates of one; pass "
            "a whole number, or leave one of them out."
        )
    },
    "squared loss": {
        "curvature": _NO_LOSS,
        "n_init": _no(
            f"is for other losses; {option('loss', 'squared')} starts once, from eigenvectors."
        ),
    },
}


def cell(kind: str, name: str) -> Cell:
    """Return the verdict on an option for a kind of input or of fit."""
    return TABLE[kind].get(name, Cell())


def refuse(kind: str, asked: Mapping[str, Any]) -> None:
    """Refuse options but None that a kind of input (`INPUTS`) or of fit (`FITS`) lacks."""
    for name, value in asked.items():
        found = TABLE[kind].get(name, Cell())
        if value is not None and found.verdict == "refused":
            plain = isinstance(value, (str, int, float, tuple)) and name != "checkpoint"
            name = "init" if name == "n_init" else name
            asked_for = option(name, value) if plain else option(name)
            raise InputError(found.why.format(asked=asked_for))


def kind_of(data: Any, metric: Any, n_pairs: int | None, method: str) -> str:
    """Return which kind of input this is: a key of `INPUTS`."""
    if metric == SHORTEST_PATH:
        n, free = int(data.shape[0]), available_memory()
        # A loss takes D three times.
        large = n_pairs is not None or n > MOST_PATHS or (free is not None and 24 * n * n > free)
        return "large graph" if large and method == "refined" else "graph"
    if metric != PRECOMPUTED:
        return "features" if n_pairs is None else "sampled"
    if isinstance(data, Pairs) or hasattr(data, "tocoo"):
        return "pairs"
    if isinstance(data, Gram):
        return "matrix" if isinstance(data, DenseGram) else "operator"
    if is_dask(data):
        return "dask"
    return "matrix" if outside_memory(data) is None else "blocks"


# Called with the number of a step, the number of all or None, and the loss or a few words.
Callback = Callable[[int, int | None, float | str], Any]

# Types of `n_components` that are a goal: a share of R², "auto".
GOALS = (float, np.floating, str)


@dataclass(frozen=True)
class Options:
    """How an input is embedded: the parameters of `neuc_mds` that do not describe the input.

    Parameters
    ----------
    n_components, method, loss, curvature, random_state, tol, max_iter, init, callback, checkpoint
        As for `neuc_mds`; a start of "refined", once checked, is a `Start`, and its signature the
        number of coordinates.
    floor, n_init
        The floor that was given with the loss, and the number of starts that was given as `init`.
    """

    n_components: NComponents = None
    method: str = DEFAULT_METHOD
    loss: Any = "squared"
    curvature: float | str = 0.0
    random_state: Any = None
    tol: float | None = None
    max_iter: int | None = None
    init: Any = None
    callback: Callback | None = None
    checkpoint: str | PathLike[str] | None = None
    floor: float | None = None
    n_init: int | None = None

    def __post_init__(self) -> None:
        refuse_arrays(method=self.method, loss=self.loss, curvature=self.curvature)
        check_methods((self.method,))
        of_eigenpairs = None if self.method == "refined" else self.tol
        if of_eigenpairs is not None and not (_is_number(of_eigenpairs) and 0 < of_eigenpairs < 1):
            raise InputError(f"{option('tol', self.tol)} must be a number between 0 and 1.")
        self._set(random_state=as_seed(self.random_state))
        if isinstance(self.loss, tuple):
            self._set(loss="relative", floor=_floor(self.loss))
        check_callback(self.callback)
        self.limits(2)
        if self.checkpoint is not None:
            checkpoint_path(self.checkpoint)
        if self.curvature != AUTO and not _is_number(self.curvature):
            raise InputError(f"{option('curvature', self.curvature)} must be a number or 'auto'.")
        if isinstance(self.init, Integral):
            check_count(init=self.init)
            self._set(n_init=self.init, init=None)
        elif self.init is not None:
            start = _start(self.init)
            self._set(n_components=_signature(start, self.n_components), init=start)
        if self.method != "refined":
            refuse("closed form", self.asked)
        elif self.loss == "squared":
            refuse("squared loss", self.asked)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def asked(self) -> dict[str, Any]:
        """Options that some kinds of input refuse; None where they have their defaults."""
        return {
            "method": None if self.method == "refined" else self.method,
            "loss": None if self.loss == "squared" else self.loss,
            "curvature": self.curvature or None,
            "n_components": self.n_components if isinstance(self.n_components, GOALS) else None,
            "init": self.init,
            "n_init": None if self.n_init == 1 else self.n_init,
            "checkpoint": self.checkpoint,
        }

    def limits(self, n: int) -> Limits:
        """How far "refined" goes for n objects: the defaults of every kind of input."""
        tol, callback = self.tol if self.method == "refined" else None, self.callback
        limits = Limits.of(self.loss, n, self.max_iter, tol)
        if callback is None:
            return limits
        most = limits.max_iter
        return replace(limits, callback=lambda step, loss: callback(step, most, loss))


def _floor(loss: tuple[Any, ...]) -> float:
    """Return the floor of ("relative", floor)."""
    if len(loss) == 2 and loss[0] == "relative" and _is_number(loss[1]) and loss[1] > 0:
        return float(loss[1])
    raise InputError(f"{option('loss', loss)} must be ('relative', floor) with a positive floor.")


def _is_number(value: Any) -> bool:
    plain = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return plain and bool(np.isfinite(value))


def check_callback(callback: Any) -> None:
    """Check that a callback can be called."""
    if not (callback is None or callable(callback)):
        raise InputError(f"{option('callback', callback)} must be a function, or None.")


def notify(callback: Callback | None, words: str) -> None:
    """Call a callback with a few words on the next step."""
    if callback is not None:
        callback(0, None, words)


def _signature(start: Start, n_components: NComponents) -> tuple[int, int]:
    """Return the signature of a start, which the number of coordinates must not contradict."""
    signature = start.signature
    # 2 is the default.
    if n_components not in (None, 2, signature, sum(signature)):
        raise InputError(
            f"{option('init')} has {signature[0]} positive and {signature[1]} negative "
            f"coordinates, not {option('n_components', n_components)}; leave the latter out."
        )
    return signature


def _start(init: Any) -> Start:
    """Take a warm start, of real numbers whose powers stay in the range of floats."""
    if isinstance(init, (tuple, list)) and len(init) == 2:
        init = tuple(as_real(part, f"coordinates or signs of {option('init')}") for part in init)
    start = as_start(init)
    size = float(np.max(np.abs(to_numpy(start.coordinates)), initial=0.0))
    if beyond := exceeds_range(size, squared=False):
        largest = f"the largest coordinate is {size:.2g}"
        raise out_of_range(f"{option('init')} is", largest, size, beyond > 0)
    return start


def as_seed(random_state: Any) -> Any:
    """Return what seeds a generator, or refuse it: None is 0, so that a second call is the same."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    try:
        check_random_state(random_state)
    except ValueError as problem:
        raise InputError(
            f"{option('random_state', random_state)} cannot seed a generator; pass a whole number, "
            "a RandomState, a Generator or None."
        ) from problem
    return random_state


def check_methods(names: Sequence[str]) -> None:
    """Refuse a method that does not exist."""
    for name in names:
        if name not in ALL_METHODS:
            raise InputError(
                f"{option('method', name)} is unknown; choose one of {', '.join(ALL_METHODS)}."
            )
