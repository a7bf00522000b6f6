"""Compare methods, diagnose D, measure quality, resample."""

from neucmds.explore.comparison import (
    COMPARED,
    ComparedMethod,
    Comparison,
    compare,
)
from neucmds.explore.curves import StressCurves, stress_curve
from neucmds.explore.diagnosis import (
    Diagnosis,
    Triangles,
    diagnose,
)
from neucmds.explore.quality import PairErrors, Quality, evaluate, pair_errors
from neucmds.explore.resampling import Bootstrap, bootstrap, stress_test

__all__ = [
    "COMPARED",
    "Bootstrap",
    "ComparedMethod",
    "Comparison",
    "Diagnosis",
    "PairErrors",
    "Quality",
    "StressCurves",
    "Triangles",
    "bootstrap",
    "compare",
    "diagnose",
    "evaluate",
    "pair_errors",
    "stress_curve",
    "stress_test",
]
