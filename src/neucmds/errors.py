"""What can go wrong, named: one error for bad input, one warning for each surprise in a result."""

from __future__ import annotations

__all__ = [
    "ConvergenceWarning",
    "FileFormatError",
    "FewerComponentsWarning",
    "InputError",
    "NeucmdsError",
    "NonEuclideanWarning",
    "OverfitWarning",
]


class NeucmdsError(Exception):
    """Base class of every error raised on purpose by this package."""


class InputError(NeucmdsError, ValueError):
    """The input cannot be used; the message says what, by how much, and what to do."""


class FileFormatError(InputError):
    """A file cannot be read as what it claims, or was asked, to be."""


class ConvergenceWarning(UserWarning):
    """An iterative solver stopped before its tolerance was met; the residuals are in the result."""


class FewerComponentsWarning(UserWarning):
    """Fewer coordinates than asked for carry any information, so fewer are returned."""


class NonEuclideanWarning(FewerComponentsWarning):
    """The method keeps only positive eigenvalues, and the data do not have as many as asked for."""


class OverfitWarning(UserWarning):
    """A smaller model predicts held-out entries better than the one asked for, and is used."""
