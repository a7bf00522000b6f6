"""Placement of new objects: rules, landmarks, and choices on held-out objects."""

from neucmds._placement.dimension import LEAST_OBJECTS as LEAST_OBJECTS
from neucmds._placement.dimension import DimensionScan as DimensionScan
from neucmds._placement.dimension import among as among
from neucmds._placement.dimension import fewest as fewest
from neucmds._placement.dimension import scan_dimensions as scan_dimensions
from neucmds._placement.least_squares import SHRINKAGE as SHRINKAGE
from neucmds._placement.least_squares import LeastSquaresPlacement as LeastSquaresPlacement
from neucmds._placement.least_squares import LinearPlacement as LinearPlacement
from neucmds._placement.least_squares import Placement as Placement
from neucmds._placement.new_rows import check_gaps as check_gaps
from neucmds._placement.new_rows import check_shape as check_shape
from neucmds._placement.new_rows import checked_weights as checked_weights
from neucmds._placement.new_rows import sq_rows as sq_rows
from neucmds._placement.newton import LossPlacement as LossPlacement
from neucmds._placement.recipe import PLACEMENTS as PLACEMENTS
from neucmds._placement.recipe import Recipe as Recipe
from neucmds._placement.recipe import cross_validated as cross_validated
from neucmds._placement.recipe import least_squares_rule as least_squares_rule
from neucmds._placement.recipe import linear_rule as linear_rule
