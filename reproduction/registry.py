"""Every table and figure by the name that the command line uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from neucmds.errors import InputError
from reproduction import (
    fig_dim_paradox,
    fig_eigen_dist,
    landmarks,
    tab_dataset,
    tab_distortion_all,
    tab_evaluation_1,
    tab_evaluation_2,
    tab_image_other_metric,
    tab_random_matrix_errors,
    tab_stand_ins,
    tab_stress_all,
)
from reproduction.bench import Bench
from reproduction.records import Record


@dataclass(frozen=True)
class Experiment:
    """A name, the LaTeX label it stands for (None: ours alone), what it shows, how it is run."""

    name: str
    label: str | None
    about: str
    run: Callable[[Bench], Record]


def _printed(
    label: str, about: str, run: Callable[[Bench], Record]
) -> Experiment:
    """Name an experiment after its LaTeX label."""
    kind, _, name = label.partition(":")
    return Experiment(
        f"{'table' if kind == 'tab' else 'figure'}:{name}", label, about, run
    )


_ALL = (
    _printed("tab:dataset", "sizes, negative eigenvalues", tab_dataset.run),
    _printed("tab:stress-all", "STRESS, all methods", tab_stress_all.run),
    _printed(
        "tab:distortion-all",
        "average geometric distortion",
        tab_distortion_all.run,
    ),
    _printed(
        "tab:evaluation-1-all",
        "norm and distortion, original values",
        tab_evaluation_1.run,
    ),
    _printed(
        "tab:evaluation-2-all",
        "additive error, negative pairs",
        tab_evaluation_2.run,
    ),
    _printed(
        "tab:image-other-metric",
        "10-NN, noise, missing pixels",
        tab_image_other_metric.run,
    ),
    Experiment(
        "table:landmarks",
        "sec:experiments",
        "landmarks, two factors",
        landmarks.run,
    ),
    _printed(
        "tab:randommatrixerrors1",
        "noise, c below 1/2",
        tab_random_matrix_errors.run_1,
    ),
    _printed(
        "tab:randommatrixerrors2",
        "noise, c from 1/2",
        tab_random_matrix_errors.run_2,
    ),
    Experiment(
        "table:genomics-stand-ins",
        None,
        "five expression sets",
        tab_stand_ins.run,
    ),
    _printed(
        "fig:eigen-dist-renal",
        "eigenvalues, positive and negative",
        fig_eigen_dist.run,
    ),
    _printed(
        "fig:dim-paradox",
        "STRESS against k, two sets",
        fig_dim_paradox.run_two,
    ),
    _printed(
        "fig:dim-para-all",
        "STRESS against k, eight sets",
        fig_dim_paradox.run_all,
    ),
    Experiment(
        "figure:dim-paradox-stand-ins",
        None,
        "STRESS against k, five expression sets",
        fig_dim_paradox.run_stand_ins,
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def select(names: Iterable[str]) -> list[Experiment]:
    """Find experiments by name, or by LaTeX label; none named means all."""
    wanted = list(names)
    if not wanted:
        return list(_ALL)
    by_label = {
        experiment.label: experiment for experiment in _ALL if experiment.label
    }
    chosen = [EXPERIMENTS.get(name) or by_label.get(name) for name in wanted]
    unknown = [
        name
        for name, found in zip(wanted, chosen, strict=True)
        if found is None
    ]
    if unknown:
        raise InputError(
            f"the paper has no {', '.join(unknown)}; choose from {', '.join(EXPERIMENTS)}."
        )
    return list(dict.fromkeys(found for found in chosen if found is not None))
