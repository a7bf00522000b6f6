"""Multidimensional scaling with signed coordinates.

Names are imported on first use, so that the command line starts at once.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neucmds.embedding import Embedding, procrustes
    from neucmds.errors import (
        ConvergenceWarning,
        FewerComponentsWarning,
        InputError,
        NonEuclideanWarning,
        OverfitWarning,
    )
    from neucmds.estimators import LandmarkNeucMDS, NeucIsomap, NeucMDS
    from neucmds.explore import (
        bootstrap,
        compare,
        diagnose,
        evaluate,
        stress_curve,
    )
    from neucmds.fit import neuc_mds
    from neucmds.index import MetricIndex
    from neucmds.versions import show_versions

__version__ = "0.4.0"

__all__ = [
    "NeucMDS",
    "LandmarkNeucMDS",
    "NeucIsomap",
    "MetricIndex",
    "neuc_mds",
    "compare",
    "diagnose",
    "stress_curve",
    "evaluate",
    "bootstrap",
    "Embedding",
    "procrustes",
    "InputError",
    "ConvergenceWarning",
    "FewerComponentsWarning",
    "NonEuclideanWarning",
    "OverfitWarning",
    "show_versions",
    "__version__",
]

# Each imports those before it.
_MODULES = (
    "errors",
    "embedding",
    "fit",
    "estimators",
    "index",
    "explore",
    "versions",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            defining = import_module(f"neucmds.{module}")
            if name in defining.__all__:
                return getattr(defining, name)
    if not name.startswith("_") and find_spec(f"neucmds.{name}") is not None:
        return import_module(f"neucmds.{name}")
    raise AttributeError(f"module 'neucmds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
