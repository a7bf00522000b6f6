"""The paper, reproduced: one module a table or figure, the published number beside ours."""

from neucmds.paper.records import Cell, Panel, Printed, Record, Series, Skipped
from neucmds.paper.registry import EXPERIMENTS, Experiment, select
from neucmds.paper.runner import run_experiments
from neucmds.paper.sources import Settings

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Settings",
    "Record",
    "Cell",
    "Printed",
    "Panel",
    "Series",
    "Skipped",
    "run_experiments",
    "select",
]
