"""The parameters of a fit: their allowed values, and which of them go with which input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import is_dask
from neucmds.backend.memory import available_memory
from neucmds.backend.progress import Callback as Callback
from neucmds.errors import InputError, option
from neucmds.problem.components import AUTO, GOALS, N_COMPONENTS, NComponents
from neucmds.problem.dense import Dense
from neucmds.problem.metrics import Metric
from neucmds.problem.pairs import Pairs
from neucmds.problem.validation import A_COUNT, is_count
from neucmds.refine.descent import (
    MAX_ITER,
    Configuration,
    Descent,
    descend,
)
from neucmds.refine.losses import RELATIVE
from neucmds.refine.ordinal import ALL_LOSSES, TIES
from neucmds.refine.starts import as_start
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import METHODS

ALL_METHODS = (*METHODS, "exact", "refined")
CLOSED_FORMS = (*METHODS, "exact")
Method = Literal["classical", "lower", "neuc", "neuc+", "exact", "refined"]
Loss = Literal["squared", "distance", "relative", "absolute", "ordinal"]
Ties = Literal["primary", "secondary"]
# It has the least STRESS of fitted and of placed objects (docs/quality.md).
DEFAULT_METHOD: Literal["refined"] = "refined"
# Number of nodes up to which all shortest paths are computed, if they fit in memory.
MOST_PATHS = 10_000
PRECOMPUTED = "precomputed"
SHORTEST_PATH = "shortest_path"


def _is_number(value: Any) -> bool:
    """Tell whether a value is a finite real number."""
    is_real = isinstance(value, (int, float, np.number))
    is_bool = isinstance(value, bool)
    # NaN, infinity, and integers that no float holds are not.
    return is_real and not is_bool and bool(abs(value) <= sys.float_info.max)


def _is_flag(value: Any) -> bool:
    """Tell whether a value is True or False, or 1 or 0."""
    return isinstance(value, (bool, np.bool_, int)) and value in (0, 1)


def _one_of(words: tuple[str, ...]) -> tuple[Callable[[Any], bool], str]:
    """Return an entry of `PARAMETERS` that allows some words."""
    return words.__contains__, f"is unknown; choose one of {', '.join(words)}"


# Parameter → a test of its value, and the words of the message on a value that fails the test. None
# passes where it is the default.
PARAMETERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "method": _one_of(ALL_METHODS),
    "loss": _one_of(ALL_LOSSES),
    "ties": _one_of(TIES),
    "missing": _one_of(("error", "ignore")),
    "floor": (
        lambda value: _is_number(value) and value > 0,
        "must be a positive number",
    ),
    "curvature": (
        lambda value: value == AUTO or _is_number(value),
        "must be a number or 'auto'",
    ),
    "heights": (
        lambda value: value == AUTO or _is_flag(value),
        "must be True, False or 'auto'",
    ),
    "metric": (
        lambda value: isinstance(value, (str, Metric)) or callable(value),
        "must be the name of a metric, or a function",
    ),
    "metric_params": (
        lambda value: isinstance(value, dict),
        "must be a dict, or None",
    ),
    **dict.fromkeys(
        ("squared", "symmetrize", "directed"),
        (_is_flag, "must be True or False"),
    ),
    "tol": (
        lambda value: _is_number(value) and 0 <= value < 1,
        "must be a number from 0 to 1",
    ),
    **dict.fromkeys(
        ("max_iter", "n_init", "n_pairs"),
        (is_count, A_COUNT),
    ),
    "callback": (callable, "must be a function, or None"),
}


def check_parameters(values: Mapping[str, Any]) -> None:
    """Refuse a value that a parameter of this name cannot have."""
    for name, (is_allowed, words) in PARAMETERS.items():
        if name not in values:
            continue
        value = values[name]
        if value is None and getattr(Options, name) is None:
            continue
        if getattr(value, "ndim", 0):
            raise InputError(
                f"{option(name, value)} is an array; pass a single value."
            )
        if not is_allowed(value):
            raise InputError(f"{option(name, value)} {words}.")


# Kinds of input, and below the options that some kinds refuse; docs/tables.py has words for each.
INPUTS = (
    "matrix",
    "dask",
    "operator",
    "pairs",
    "features",
    "sampled",
    "graph",
    "large graph",
    "landmarks",
)
FORM_OPTIONS = ("curvature", "heights")
OPTIONS = (
    "method",
    "loss",
    "ordinal",
    "floor",
    *FORM_OPTIONS,
    "n_components",
    "weights",
    "missing",
    "init",
    "n_init",
    "squared",
    "symmetrize",
    "directed",
    "n_pairs",
)
# Options of how D is read, which is over where an operator is given.
OF_D = ("weights", "missing", "squared", "symmetrize", "directed")

_REFINED = option("method", "refined")
_IN_MEMORY = (
    "needs all of D in memory, and this D is read or computed in blocks; use "
    f"{option('loss', 'squared')}, or LandmarkNeucMDS, which supports every loss."
)
_STORED = (
    "needs D in memory, and this D is not; load it, or use fewer objects."
)
_NO_GRAM = "needs D itself, not a Gram of it; pass D."
_FOR_SAMPLES = (
    "samples pairs of features and graphs; "
    "pass the known pairs of a D as a scipy.sparse array."
)
_EVERY_PAIR = "needs every pair of D, and only some are known; pass a number of coordinates."
_ONE_START = "needs every pair of D; a list of pairs is fitted from one start; leave it out."
_ALL_PATHS = (
    f"needs all shortest paths, which are computed for up to {MOST_PATHS:,} nodes, as far as they "
    f"fit in memory and {option('n_pairs')} is not given; leave it out."
)
_NOT_SAMPLED = f"does not work with {option('n_pairs')}, a sample of pairs; leave one out."
_NO_START = f"needs {_REFINED}: a closed form has no start."
_NO_LOSS = (
    f"needs {option('loss')} 'relative', 'absolute' or 'distance', which count errors of d; the "
    "STRESS of closed forms and of 'squared' is defined on d²."
)
_NO_UNIT = f"is for losses with a unit, and {option('loss', 'ordinal')} fits the order of d alone; "
_NO_OTHER_LOSS = f"needs {_REFINED}: closed forms minimise the squared loss, or a bound of it."
_NO_FLOOR = f"needs {option('loss', 'relative')}, which divides by it."
_NO_WEIGHTS = f"needs {_REFINED}: closed forms give every pair equal weight."
_NO_SQUARES = "is for dissimilarities, and lengths of paths are not squared; leave it out."
_PATHS = {
    "squared": _NO_SQUARES,
    "missing": "is for dissimilarities, and every path has a length; leave it out.",
    "symmetrize": "is for dissimilarities; for the two ways along edges pass "
    f"{option('direction', 'mean')}.",
}
_BLOCKS = {
    "loss": _IN_MEMORY,
    "ordinal": _STORED,
    **dict.fromkeys(FORM_OPTIONS, _IN_MEMORY),
    "weights": _STORED,
    "missing": _STORED,
    "n_init": _IN_MEMORY,
    "symmetrize": "needs D as an array in memory; pass or store (D + D.T) / 2 instead.",
    "directed": _STORED,
    "n_pairs": _FOR_SAMPLES,
}
# Kind of input or of fit → option → why it is refused. Options that are not listed are supported.
TABLE: dict[str, dict[str, str]] = {
    "matrix": {"n_pairs": _FOR_SAMPLES},
    "dask": _BLOCKS,
    "operator": _BLOCKS | dict.fromkeys(OF_D, _NO_GRAM),
    "pairs": {
        "method": f"needs every pair, and a sparse D is a list of pairs, which needs {_REFINED}; "
        "pass D.toarray() if pairs that are not stored are zero.",
        "n_components": _EVERY_PAIR,
        "weights": "cannot be given for a list of pairs; leave it out.",
        "n_init": _ONE_START,
        "n_pairs": _FOR_SAMPLES,
    },
    "features": {},
    "sampled": {
        "method": f"needs every pair, and {option('n_pairs')} needs {_REFINED}.",
        "n_components": _EVERY_PAIR,
        "n_init": _ONE_START,
        **dict.fromkeys(
            ("weights", "missing", "init", "squared", "directed"),
            _NOT_SAMPLED,
        ),
    },
    "graph": _PATHS,
    "large graph": {
        **_PATHS,
        "n_components": _EVERY_PAIR,
        "weights": _ALL_PATHS,
        "init": _ALL_PATHS,
        "n_init": _ONE_START,
    },
    "landmarks": {
        "missing": "does not work with landmarks: every dissimilarity to them is needed.",
        "weights": "count pairs, and landmarks leave most pairs out; leave one of them out.",
        "n_pairs": "samples pairs, but landmarks place objects; leave one out.",
        "directed": "works with landmarks of a graph alone; leave one out.",
        "ordinal": f"ranks pairs of all objects; use neuc_mds with {option('n_pairs')}.",
        "heights": "does not work with landmarks; leave one out.",
    },
    "closed form": {
        "loss": _NO_OTHER_LOSS,
        "ordinal": _NO_OTHER_LOSS,
        "floor": _NO_FLOOR,
        **dict.fromkeys(FORM_OPTIONS, _NO_LOSS),
        "init": _NO_START,
        "n_init": _NO_START,
        "weights": _NO_WEIGHTS,
        "missing": _NO_WEIGHTS,
    },
    "squared loss": {
        "floor": _NO_FLOOR,
        **dict.fromkeys(FORM_OPTIONS, _NO_LOSS),
        "n_init": f"is for other losses; {option('loss', 'squared')} starts once, from "
        "eigenvectors.",
    },
    "distance loss": {"floor": _NO_FLOOR},
    "ordinal loss": {
        "floor": _NO_FLOOR,
        **dict.fromkeys(FORM_OPTIONS, _NO_UNIT + "leave it out."),
        "n_components": _NO_UNIT + "pass a number.",
    },
    "linear placement": dict.fromkeys(
        FORM_OPTIONS,
        f"does not go with {option('placement', 'linear')}; use "
        f"{option('placement', 'least_squares')}.",
    ),
    "directed": {
        "method": f"needs a symmetric D, and {option('directed', True)} needs {_REFINED}.",
        "n_components": f"needs a symmetric D; with {option('directed', True)} pass a number.",
        "ordinal": f"ranks pairs without a direction; leave {option('directed', True)} out.",
        "symmetrize": f"averages the directions that {option('directed', True)} keeps; leave one "
        "out.",
    },
}


def kind_of(data: Any, options: Options) -> str:
    """Return which kind of input this is: a key of `INPUTS`."""
    is_sparse = isinstance(data, Pairs) or hasattr(data, "tocoo")
    if options.landmarks is not None:
        if is_sparse and options.metric == PRECOMPUTED:
            raise InputError(
                f"{option('landmarks')} need every dissimilarity to them, and a sparse D is a list "
                "of pairs; leave one out."
            )
        return "landmarks"
    if options.metric == SHORTEST_PATH:
        n = data.shape[0]
        free = available_memory()
        # D, a scaled copy and tiles of it, in float64.
        needed = 3 * 8 * n * n
        is_large = n > MOST_PATHS or (free is not None and needed > free)
        is_sampled = is_large or options.n_pairs is not None
        if is_sampled and options.method == "refined":
            return "large graph"
        return "graph"
    if options.metric != PRECOMPUTED:
        if options.n_pairs is None:
            return "features"
        return "sampled"
    if isinstance(data, Dense):
        data = data.gram
    if is_sparse:
        return "pairs"
    reads_as_usual = set(OF_D).isdisjoint(options.non_defaults())
    if isinstance(data, DenseGram) and reads_as_usual:
        return "matrix"
    if isinstance(data, Gram):
        return "operator"
    if is_dask(data):
        return "dask"
    return "matrix"


def check_support(options: Options, kind: str) -> None:
    """Refuse options that a kind of input (`INPUTS`), the method or the loss does not support."""
    # The rows of `TABLE` that apply.
    rows = []
    if options.method != "refined":
        rows.append("closed form")
    elif options.loss not in RELATIVE:
        rows.append(f"{options.loss} loss")
    if options.directed:
        rows.append("directed")
    rows.append(kind)
    values = options.non_defaults()
    if options.max_iter is not None and options.method != "refined":
        raise InputError(
            f"{option('max_iter', options.max_iter)} needs {_REFINED}: a closed form has no "
            "descent; leave it out."
        )
    if kind == "landmarks" and options.metric == SHORTEST_PATH:
        rows.append("graph")
        # Landmarks of a graph may be directed: paths from and to them are searched.
        values.pop("directed", None)
    for name, value in values.items():
        for row in rows:
            if name in TABLE[row]:
                if name == "ordinal":
                    shown = option("loss", value)
                elif isinstance(value, (str, int, float)):
                    shown = option(name, value)
                else:
                    shown = option(name)
                raise InputError(f"{shown} {TABLE[row][name]}")


@dataclass(frozen=True, eq=False)
class Options:
    """How an input is read and embedded: the parameters of `neuc_mds` but the input, checked.

    A start `init` becomes a `Configuration`, and its signature becomes `n_components`.
    """

    n_components: NComponents = N_COMPONENTS
    method: str = DEFAULT_METHOD
    loss: str = "squared"
    ties: str = "primary"
    floor: float | None = None
    curvature: float | Literal["auto"] = 0.0
    heights: bool | Literal["auto"] = False
    metric: Any = PRECOMPUTED
    metric_params: dict[str, Any] | None = None
    landmarks: Any = None
    n_pairs: int | None = None
    squared: bool = False
    symmetrize: bool = False
    directed: bool = False
    weights: Any = None
    missing: str = "error"
    random_state: Any = 0
    tol: float | None = None
    max_iter: int | None = None
    n_init: int | None = None
    init: Any = None
    callback: Callback | None = None

    def __post_init__(self) -> None:
        check_parameters(vars(self))
        if self.tol == 0 and self.method != "refined":
            raise InputError(
                f"{option('tol', self.tol)} must be above 0 for a closed form."
            )
        for name in ("squared", "symmetrize", "directed"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        if self.heights != AUTO:
            object.__setattr__(self, "heights", bool(self.heights))
        object.__setattr__(self, "random_state", as_seed(self.random_state))
        if self.init is not None:
            start = as_start(self.init)
            signature = start.form.signature
            n_components = self.n_components
            # `replace` makes options of such that were checked: their start is a Configuration.
            is_new = not isinstance(self.init, Configuration)
            if (
                is_new
                and isinstance(n_components, tuple)
                and n_components != signature
            ):
                raise InputError(
                    f"{option('init')} has the signature {signature}, not "
                    f"{option('n_components', n_components)}; leave one out."
                )
            object.__setattr__(self, "init", start)
            object.__setattr__(self, "n_components", signature)

        if self.loss != "ordinal":
            if self.ties != Options.ties:
                raise InputError(
                    f"{option('ties', self.ties)} needs {option('loss', 'ordinal')}."
                )
            return
        n_components = self.n_components
        if isinstance(n_components, tuple) and n_components[1]:
            raise InputError(
                f"{option('loss', 'ordinal')} has positive coordinates alone, and the signature "
                f"has {n_components[1]} negative ones; pass the number of coordinates."
            )

    def non_defaults(self) -> dict[str, Any]:
        """Return those of `OPTIONS` that differ from their defaults, with their values."""
        values = {}
        for name in OPTIONS:
            value = getattr(self, name, None)
            is_scalar = isinstance(value, (str, int, float, np.generic))
            is_default = is_scalar and value == getattr(Options, name)
            if value is not None and not is_default:
                values[name] = value
        if self.loss == "ordinal":
            values["ordinal"] = self.loss
        if not isinstance(self.n_components, GOALS):
            values.pop("n_components", None)
        # Every kind of input is fitted from at least one start.
        if self.n_init == 1:
            del values["n_init"]
        return values

    def descent(self) -> Descent:
        """Return the function that descends, with the limits and the callback of these options."""
        return partial(
            descend,
            max_iter=self.max_iter or MAX_ITER,
            tol=self.tol,
            callback=self.callback,
        )


def notify(callback: Callback | None, words: str) -> None:
    """Call a callback with a few words on the next step."""
    if callback is not None:
        callback(0, None, words)


def as_seed(random_state: Any) -> Any:
    """Return a user's `random_state` as `check_random_state` takes it, 0 for None, or refuse it."""
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
