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


_ALL = (
    Experiment("table:dataset", "tab:dataset", "sizes, negative eigenvalues", tab_dataset.run),
    Experiment("table:stress-all", "tab:stress-all", "STRESS, all methods", tab_stress_all.run),
    Experiment(
        "table:distortion-all",
        "tab:distortion-all",
        "average geometric distortion",
        tab_distortion_all.run,
    ),
    Experiment(
        "table:evaluation-1-all",
        "tab:evaluation-1-all",
        "the norm and the distortion, original values",
        tab_evaluation_1.run,
    ),
    Experiment(
        "table:evaluation-2-all",
        "tab:evaluation-2-all",
        "additive error, negative pairs and eigenvalues",
        tab_evaluation_2.run,
    ),
    Experiment(
        "table:image-other-metric",
        "tab:image-other-metric",
        "images: 10-NN, noise, missing pixels",
        tab_image_other_metric.run,
    ),
    Experiment("table:landmarks", "sec:experiments", "landmarks, two factors", landmarks.run),
    Experiment(
        "table:randommatrixerrors1",
        "tab:randommatrixerrors1",
        "noise, c below one half",
        tab_random_matrix_errors.run_1,
    ),
    Experiment(
        "table:randommatrixerrors2",
        "tab:randommatrixerrors2",
        "noise, c from one half",
        tab_random_matrix_errors.run_2,
    ),
    Experiment(
        "table:genomics-stand-ins", None, "five expression sets in place", tab_stand_ins.run
    ),
    Experiment(
        "figure:eigen-dist-renal",
        "fig:eigen-dist-renal",
        "eigenvalues, positive and negative",
        fig_eigen_dist.run,
    ),
    Experiment(
        "figure:dim-paradox",
        "fig:dim-paradox",
        "STRESS against k, two sets",
        fig_dim_paradox.run_two,
    ),
    Experiment(
        "figure:dim-para-all",
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
    by_label = {experiment.label: experiment for experiment in _ALL if experiment.label}
    chosen = [EXPERIMENTS.get(name) or by_label.get(name) for name in wanted]
    unknown = [name for name, found in zip(wanted, chosen, strict=True) if found is None]
    if unknown:
        raise InputError(
            f"the paper has no {', '.join(unknown)}; choose from {', '.join(EXPERIMENTS)}."
        )
    return list(dict.fromkeys(found for found in chosen if found is not None))
