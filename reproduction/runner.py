"""Run experiments in order on one bench, and time them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from reproduction.bench import Bench, Progress
from reproduction.records import Record
from reproduction.registry import Experiment
from reproduction.sources import Settings


def run_experiments(
    experiments: Iterable[Experiment],
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Iterator[Record]:
    """Yield a record for each experiment as soon as it is there.

    Parameters
    ----------
    experiments : iterable of Experiment
    settings : Settings, optional
        Seed, and where the data are.
    progress : callable, optional
        Called with a few words before every longer piece of work.
    """
    chosen = list(experiments)
    current = ""

    def tell(words: str) -> None:
        if progress is not None:
            progress(f"{current} {words}")

    bench = Bench(settings or Settings(), tell)
    for number, experiment in enumerate(chosen, start=1):
        current = f"[{number}/{len(chosen)}] {experiment.name}"
        start = time.perf_counter()
        record = experiment.run(bench)
        yield replace(record, seconds=time.perf_counter() - start)
