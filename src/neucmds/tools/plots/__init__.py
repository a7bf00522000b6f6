"""Plots of results: functions that return matplotlib Axes.

No pyplot: nothing global is set and no window opens. ``ax.figure.savefig(path)`` writes png, svg or
pdf.
"""

from neucmds.tools.plots._figures import GUIDE, METHOD_STYLES, NEGATIVE, POSITIVE, printable
from neucmds.tools.plots._figures import bend as bend
from neucmds.tools.plots.coordinates import (
    GROUP_COLOURS,
    GROUP_MARKERS,
    Colours,
    as_colours,
    axis_label,
    default_axes,
    normal_ellipse,
    plot_bootstrap,
    plot_coordinates,
)
from neucmds.tools.plots.shepard import SampledPairs, plot_shepard, sampled_pairs, signed_root
from neucmds.tools.plots.spectra import (
    kept_words,
    mark_kept,
    plot_scree,
    plot_spectrum,
    plot_stress_curve,
)

__all__ = [
    "axis_label",
    "default_axes",
    "normal_ellipse",
    "plot_coordinates",
    "plot_stress_curve",
    "plot_scree",
    "plot_shepard",
    "plot_bootstrap",
    "plot_spectrum",
    "Colours",
    "SampledPairs",
    "as_colours",
    "kept_words",
    "mark_kept",
    "printable",
    "sampled_pairs",
    "signed_root",
    "GROUP_COLOURS",
    "GROUP_MARKERS",
    "GUIDE",
    "METHOD_STYLES",
    "NEGATIVE",
    "POSITIVE",
]
