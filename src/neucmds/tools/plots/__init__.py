"""Plots of results: functions that return matplotlib Axes.

No pyplot: nothing global is set and no window opens. ``ax.figure.savefig(path)`` writes png, svg or
pdf.
"""

from neucmds.tools.plots.coordinates import plot_bootstrap, plot_coordinates
from neucmds.tools.plots.prose import caption, methods_text
from neucmds.tools.plots.shepard import plot_shepard
from neucmds.tools.plots.spectra import (
    plot_scree,
    plot_spectrum,
    plot_stress_curve,
)

__all__ = [
    "plot_coordinates",
    "plot_bootstrap",
    "plot_shepard",
    "plot_spectrum",
    "plot_scree",
    "plot_stress_curve",
    "caption",
    "methods_text",
]
