"""The one way of the data: input → operator → spectrum → method → `Embedding`.

`neuc_mds` walks it from end to end; `compare`, `inspect`, `curve` and `evaluate` take any D that it
takes. Estimators and commands call these or their parts.
"""

from neucmds._spectrum import full_spectrum as full_spectrum
from neucmds.api.comparison import COMPARED, ComparedMethod, Comparison, compare
from neucmds.api.comparison import REFINED_LOSSES as REFINED_LOSSES
from neucmds.api.comparison import corrected as corrected
from neucmds.api.entry import embed as embed
from neucmds.api.entry import neuc_mds
from neucmds.api.exploration import CURVE_TO, StressCurves, curve, evaluate, inspect
from neucmds.api.fitting import Fit as Fit
from neucmds.api.fitting import embed_spectrum as embed_spectrum
from neucmds.api.fitting import fit as fit
from neucmds.api.fitting import solve_for as solve_for
from neucmds.api.fitting import warn_of_surprises as warn_of_surprises
from neucmds.api.landmarks import LandmarkFit as LandmarkFit
from neucmds.api.landmarks import fit_landmarks as fit_landmarks
from neucmds.api.options import ALL_METHODS, CLOSED_FORMS, DEFAULT_METHOD
from neucmds.api.options import Callback as Callback
from neucmds.api.options import Loss as Loss
from neucmds.api.options import Method as Method
from neucmds.api.options import Options as Options
from neucmds.api.options import notify as notify
from neucmds.api.prepared import Prepared, prepare
from neucmds.api.prepared import dense_gram as dense_gram
from neucmds.api.prepared import prepare_some as prepare_some
from neucmds.api.resampling import Stability, stability, stress_test
from neucmds.api.two_levels import TwoLevelFit as TwoLevelFit
from neucmds.api.two_levels import fit_two_levels as fit_two_levels

# The parts above that are named twice are for the package itself.
__all__ = [
    "ALL_METHODS",
    "CLOSED_FORMS",
    "COMPARED",
    "CURVE_TO",
    "DEFAULT_METHOD",
    "ComparedMethod",
    "Comparison",
    "Prepared",
    "Stability",
    "StressCurves",
    "compare",
    "curve",
    "evaluate",
    "inspect",
    "neuc_mds",
    "prepare",
    "stability",
    "stress_test",
]
