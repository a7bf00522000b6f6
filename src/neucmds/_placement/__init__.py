"""Where new objects go: placement rules, landmarks, and what is chosen on objects held out."""

from neucmds._placement.least_squares import SHRINKAGE as SHRINKAGE
from neucmds._placement.least_squares import LeastSquaresPlacement as LeastSquaresPlacement
from neucmds._placement.least_squares import LinearPlacement as LinearPlacement
from neucmds._placement.least_squares import Placement as Placement
from neucmds._placement.newton import LossPlacement as LossPlacement
