"""Multidimensional scaling with signed coordinates.

Names are imported on first use, so that the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neucmds.api import compare, curve, evaluate, inspect, neuc_mds, stability
    from neucmds.embedding import Embedding, procrustes
    from neucmds.errors import (
        ConvergenceWarning,
        FewerComponentsWarning,
        InputError,
        NonEuclideanWarning,
        OverfitWarning,
        PrecisionWarning,
    )
    from neucmds.estimators import LandmarkNeucMDS, NeucIsomap, NeucMDS

__version__ = "0.3.0"

__all__ = [
    "NeucMDS",
    "LandmarkNeucMDS",
    "NeucIsomap",
    "neuc_mds",
    "compare",
    "inspect",
    "curve",
    "evaluate",
    "stability",
    "Embedding",
    "procrustes",
    "InputError",
    "ConvergenceWarning",
    "FewerComponentsWarning",
    "NonEuclideanWarning",
    "OverfitWarning",
    "PrecisionWarning",
    "__version__",
]

_MODULES = {
    "neucmds.api": ("compare", "curve", "evaluate", "inspect", "neuc_mds", "stability"),
    "neucmds.embedding": ("Embedding", "procrustes"),
    "neucmds.errors": (
        "ConvergenceWarning",
        "FewerComponentsWarning",
        "InputError",
        "NonEuclideanWarning",
        "OverfitWarning",
        "PrecisionWarning",
    ),
    "neucmds.estimators": ("LandmarkNeucMDS", "NeucIsomap", "NeucMDS"),
}
_SUBMODULES = (
    "api",
    "corrections",
    "datasets",
    "diagnostics",
    "embedding",
    "errors",
    "estimators",
    "interop",
    "metrics",
    "operators",
    "ordination",
    "plots",
    "report",
    "theory",
)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"neucmds.{name}")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'neucmds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
