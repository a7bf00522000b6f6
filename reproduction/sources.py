"""The data sets of the paper by name, each a function from settings to D on the squared scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

import numpy as np
import numpy.typing as npt

from neucmds.datasets import euclidean_ball, random_simplex
from reproduction.data import (
    DataNotFoundError,
    add_noise,
    entropic_affinities,
    load_genomics,
    load_images,
    missing_pixels,
    wrapped_hops,
)

Floats = npt.NDArray[np.float64]

# n and k of sec:experiments; perplexity is not stated there, 30 is the usual one.
N_OBJECTS = 1000
K_LARGE, K_GENOMICS = 100, 20
PERPLEXITY = 30.0


@dataclass(frozen=True)
class Settings:
    """What the data of a run depend on."""

    seed: int = 0
    data_home: str | PathLike[str] | None = None
    download: bool = True
    n: int = N_OBJECTS


@dataclass(frozen=True)
class Problem:
    """A data set ready to embed: D on the squared scale, and the k of the paper."""

    name: str
    sq_dissimilarity: Floats
    k: int
    classes: int | None = None


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and how near to print it should come.

    Parameters
    ----------
    name : str
    kind : {"synthetic", "images", "cumida", "stand-in"}
    make : callable
        From `Settings` to a `Problem`; raises `DataNotFoundError` with one clear line.
    tolerance : float, optional
        Relative difference from print that is to be met; None if the paper leaves too much open.
    """

    name: str
    kind: str
    make: Callable[[Settings], Problem]
    tolerance: float | None = None


def _synthetic(name: str, draw: Callable[..., Floats]) -> Source:
    def make(settings: Settings) -> Problem:
        d = draw(settings.n, random_state=settings.seed)
        return Problem(name, d, min(K_LARGE, settings.n // 2))

    return Source(name, "synthetic", make, tolerance=0.03)


def _hops(
    n_neighbors: int,
) -> Callable[[npt.NDArray[np.uint8], Settings], Floats]:
    # errata E12: bytes that wrap, here and for the noise
    return lambda images, _: wrapped_hops(images, n_neighbors)


def _noise(images: npt.NDArray[np.uint8], settings: Settings) -> Floats:
    return add_noise(images, random_state=settings.seed)


def _missing(images: npt.NDArray[np.uint8], settings: Settings) -> Floats:
    # 50 entries per image of 3072, a twentieth of images of 784: no single rule comes near all
    # three published rows.
    fraction = 50 / images[0].size if images[0].size > 1000 else 0.05
    return missing_pixels(
        images, fraction=fraction, random_state=settings.seed
    )


def _image_source(
    title: str,
    file_name: str,
    suffix: str,
    perturb: Callable[[npt.NDArray[np.uint8], Settings], Floats],
    tolerance: float | None,
) -> Source:
    name = f"{title} ({suffix})" if suffix else title

    def make(settings: Settings) -> Problem:
        found = load_images(
            file_name,
            data_home=settings.data_home,
            n=settings.n,
            download=settings.download,
        )
        dissimilarity = perturb(found.images, settings)
        return Problem(
            name,
            dissimilarity**2,
            min(K_LARGE, settings.n // 2),
            len(np.unique(found.labels)),
        )

    return Source(name, "images", make, tolerance)


def _genomics_source(name: str, file_name: str, kind: str) -> Source:
    def make(settings: Settings) -> Problem:
        try:
            table = load_genomics(file_name, data_home=settings.data_home)
        except DataNotFoundError as error:
            raise DataNotFoundError(
                f"{name} not run: {file_name} not found, put it into the folder genomics of "
                "NEUCMDS_DATA."
            ) from error
        affinity = entropic_affinities(table.values, PERPLEXITY)
        return Problem(
            name, affinity**2, K_GENOMICS, len(np.unique(table.labels))
        )

    return Source(name, kind, make)


_IMAGE_FILES = {
    "MNIST": "mnist",
    "Fashion-MNIST": "fashion_mnist",
    "CIFAR-10": "cifar10",
}
_GSE = {
    "Brain": 50161,
    "Breast": 45827,
    "Colorectal": 44076,
    "Leukemia": 28497,
    "Renal": 53757,
}

SYNTHETIC = ("Random-simplex", "Euclidean-ball")
CUMIDA = tuple(_GSE)
IMAGES = tuple(_IMAGE_FILES)
PAPER_SETS = (*SYNTHETIC, *CUMIDA, *IMAGES)
# Real expression tables that can be had; they are not CuMiDa's, and never go by its names.
STAND_INS = (
    "leukemia_chiaretti",
    "sarcoma_nakayama",
    "breast_colon_chowdary",
    "lung_gordon",
    "tox_171",
)

_ALL = (
    _synthetic("Random-simplex", random_simplex),
    _synthetic("Euclidean-ball", euclidean_ball),
    *(
        _genomics_source(name, f"{name}_GSE{gse}.csv", "cumida")
        for name, gse in _GSE.items()
    ),
    *(_genomics_source(name, f"{name}.npz", "stand-in") for name in STAND_INS),
    *(
        _image_source(title, file_name, suffix, perturb, tolerance)
        for suffix, perturb, tolerance in (
            ("", _hops(2), 0.002),
            ("k=10", _hops(10), 0.002),
            ("noise", _noise, 0.02),
            ("missing", _missing, None),
        )
        for title, file_name in _IMAGE_FILES.items()
    ),
)
SOURCES = {source.name: source for source in _ALL}
