"""The expensive work of a run, done once: data sets, spectra, embeddings, measures.

A `Bench` is made by the runner and handed to every experiment; nothing is kept beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from neucmds.dense_fit import embed_spectrum
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore import Quality, evaluate
from neucmds.problem.dense import Dense
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.selection import METHODS
from neucmds.spectrum.spectrum import Spectrum, full_spectrum
from reproduction.counting import PublishedCounts, count_as_published
from reproduction.random_matrices import random_spectrum
from reproduction.records import Skipped
from reproduction.smacof import Smacof, run_smacof
from reproduction.sources import SOURCES, Problem, Settings, Source

Progress = Callable[[str], None]

# Draws behind the range of SMACOF, which takes seconds each.
N_SMACOF_SEEDS = 5
# Draws of the synthetic sets: the paper's own draw is not known, only its range can be met.
N_SEEDS = 20


@dataclass(frozen=True)
class Draw:
    """One draw of a synthetic set: the measures of every method, and what print would count."""

    quality: dict[str, Quality]
    counts: PublishedCounts


def _silent(_: str) -> None:
    """Show no progress."""


class Bench:
    """Data sets, spectra and embeddings of one run, each made at the first call for it.

    Parameters
    ----------
    settings : Settings
    progress : callable, optional
        Called with a few words before every longer piece of work.
    n_seeds : int
        Draws of each synthetic set behind the ranges.
    """

    def __init__(
        self,
        settings: Settings,
        progress: Progress | None = None,
        n_seeds: int = N_SEEDS,
    ) -> None:
        self.settings = settings
        self.progress = progress or _silent
        self.n_seeds = n_seeds
        self._problems: dict[str, Problem | InputError] = {}
        self._spectra: dict[str, tuple[DenseGram, Spectrum]] = {}
        self._embeddings: dict[tuple[str, str, int], Embedding] = {}
        self._qualities: dict[tuple[str, str, int], Quality] = {}
        self._draws: dict[str, list[Draw]] = {}
        self._counts: dict[str, PublishedCounts] = {}
        self._smacof: dict[tuple[str, bool], Smacof] = {}
        self._noise: list[npt.NDArray[np.float64]] = []

    def with_seed(self, seed: int) -> Bench:
        """Return an empty bench for another draw, with the same settings otherwise."""
        return Bench(replace(self.settings, seed=seed), n_seeds=self.n_seeds)

    def source(self, name: str) -> Source:
        """Where a data set comes from."""
        return SOURCES[name]

    def split(self, names: Iterable[str]) -> tuple[list[str], list[Skipped]]:
        """Tell the data sets that can be had from those that cannot, with the reason."""
        found, skipped = [], []
        for name in names:
            try:
                self.problem(name)
                found.append(name)
            except InputError as error:
                skipped.append(Skipped(name, str(error)))
        return found, skipped

    def problem(self, name: str) -> Problem:
        """Return a data set; raise `InputError` if its files are not there or not readable."""
        if name not in self._problems:
            self.progress(f"{name}: data")
            try:
                self._problems[name] = SOURCES[name].make(self.settings)
            except InputError as error:
                self._problems[name] = error
        found = self._problems[name]
        if isinstance(found, InputError):
            raise found
        return found

    def spectrum(self, name: str) -> tuple[DenseGram, Spectrum]:
        """All eigenpairs of a data set: they serve every method and every k."""
        if name not in self._spectra:
            gram = DenseGram(self.problem(name).sq_dissimilarity)
            self.progress(f"{name}: spectrum")
            self._spectra[name] = gram, full_spectrum(gram)
        return self._spectra[name]

    def embedding(
        self, name: str, method: str, k: int | None = None
    ) -> Embedding:
        """Embed a data set, in the paper's number of dimensions unless another is given."""
        key = name, method, self.problem(name).k if k is None else k
        if key not in self._embeddings:
            if method not in METHODS:
                self.progress(f"{name}: {method}, k = {key[2]}")
            gram, spectrum = self.spectrum(name)
            prepared = Dense(gram, squared=True)
            self._embeddings[key] = embed_spectrum(
                prepared, spectrum, key[2], method
            )
        return self._embeddings[key]

    def quality(self, name: str, method: str, k: int | None = None) -> Quality:
        """Every measure of the paper's tables, for one embedding."""
        key = name, method, self.problem(name).k if k is None else k
        if key not in self._qualities:
            embedding = self.embedding(name, method, key[2])
            gram, _ = self.spectrum(name)
            self._qualities[key] = evaluate(
                embedding, Dense(gram, squared=True)
            )
        return self._qualities[key]

    def counts(self, name: str) -> PublishedCounts:
        """Count negative pairs and average distortions as the paper did, rounding included."""
        if name not in self._counts:
            self.progress(f"{name}: counts as published")
            problem = self.problem(name)
            self._counts[name] = count_as_published(
                problem.sq_dissimilarity, problem.k
            )
        return self._counts[name]

    def smacof(self, name: str, *, as_published: bool) -> Smacof:
        """SMACOF, one start: on D itself as published (errata E16), or on √D as it is meant."""
        key = name, as_published
        if key not in self._smacof:
            self.progress(f"{name}: SMACOF on {'D' if as_published else '√D'}")
            problem = self.problem(name)
            self._smacof[key] = run_smacof(
                problem.sq_dissimilarity,
                problem.k,
                on_squared=as_published,
                seed=self.settings.seed,
            )
        return self._smacof[key]

    def smacof_draws(self, name: str) -> list[Smacof]:
        """SMACOF as published on a few draws of a synthetic set, the run's own first."""
        first = self.settings.seed
        others = range(first + 1, first + min(N_SMACOF_SEEDS, self.n_seeds))
        found = [self.smacof(name, as_published=True)]
        for seed in others:
            self.progress(f"{name}: SMACOF with seed {seed}")
            found.append(self.with_seed(seed).smacof(name, as_published=True))
        return found

    def noise_spectra(
        self, n: int, count: int
    ) -> list[npt.NDArray[np.float64]]:
        """Eigenvalues of random symmetric matrices; they serve every share c."""
        for i in range(len(self._noise), count):
            self.progress(f"random matrix {i + 1} of {count}, n = {n}")
            self._noise.append(
                random_spectrum(n, random_state=self.settings.seed + i)
            )
        return self._noise[:count]

    def draws(self, name: str) -> list[Draw]:
        """Measure a synthetic set for many seeds, the run's own first."""
        if name not in self._draws:
            self._draws[name] = []
            for seed in range(
                self.settings.seed, self.settings.seed + self.n_seeds
            ):
                self.progress(f"{name}: draw with seed {seed}")
                one = (
                    self
                    if seed == self.settings.seed
                    else self.with_seed(seed)
                )
                quality = {
                    method: one.quality(name, method) for method in METHODS
                }
                self._draws[name].append(Draw(quality, one.counts(name)))
        return self._draws[name]
