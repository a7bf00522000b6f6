"""One error for bad input, and one warning per surprise in a result.

A message marks a parameter by `option`, so that ``str(error)`` spells it in Python
(``symmetrize=True``) and the command line in its own way (``--symmetrize``), by `rendered`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = [
    "ConvergenceWarning",
    "FileFormatError",
    "FewerComponentsWarning",
    "FewPairsWarning",
    "InputError",
    "NeucmdsError",
    "NeucmdsWarning",
    "NonEuclideanWarning",
    "OverfitWarning",
    "PrecisionWarning",
    "option",
    "rendered",
]

# Private-use characters, which no file name or label holds by accident.
_OPEN, _BETWEEN, _CLOSE = "\ue000", "\ue001", "\ue002"
# Characters of a value inside a message.
LONGEST = 80
_OPTION = re.compile(f"{_OPEN}([a-z_]+)(?:{_BETWEEN}([^{_CLOSE}]*))?{_CLOSE}")


def option(name: str, *value: object) -> str:
    """Mark a parameter, and the value it has or should have, inside a message.

    Parameters
    ----------
    name : str
        As the parameter is called in Python.
    *value : object
        At most one, shown in one line; left out, the parameter is meant without a value.

    Examples
    --------
    >>> from neucmds.errors import InputError, option
    >>> str(InputError(f"pass {option('symmetrize', True)} to average."))
    'pass symmetrize=True to average.'
    """
    if not value:
        return f"{_OPEN}{name}{_CLOSE}"
    text = re.sub(r"\n\s*", " ", repr(value[0]))
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return f"{_OPEN}{name}{_BETWEEN}{text}{_CLOSE}"


def rendered(message: str, spell: Callable[[str, str | None], str] | None = None) -> str:
    """Write the marked parameters of a message out.

    Parameters
    ----------
    message : str
    spell : callable, optional
        ``spell(name, value)`` returns the text for a parameter; the value is its repr, or None. By
        default as in Python: ``name=value`` or ``name``.

    Examples
    --------
    >>> from neucmds.errors import option, rendered
    >>> rendered(f"pass {option('color_by')}.", lambda name, value: f"--{name.replace('_', '-')}")
    'pass --color-by.'
    """
    spell = _in_python if spell is None else spell
    return _OPTION.sub(lambda found: spell(found[1], found[2]), message)


def _in_python(name: str, value: str | None) -> str:
    if name == "direction":  # an argument of the metric "shortest_path"
        return f"metric_params={{'direction': {value}}}"
    return name if value is None else f"{name}={value}"


class _Marked(Exception):
    """A message that keeps its marked parameters in `marked`, beside their Python reading."""

    def __init__(self, message: str = "") -> None:
        super().__init__(rendered(message))
        self.marked = message

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.marked,)


class NeucmdsError(_Marked):
    """Base class of every error raised on purpose by this package."""


class InputError(NeucmdsError, ValueError):
    """The input cannot be used; the message says what, by how much, and what to do."""


class FileFormatError(InputError):
    """A file cannot be read as what it claims, or was asked, to be."""


class NeucmdsWarning(_Marked, UserWarning):
    """Base class of every warning issued by this package."""


class ConvergenceWarning(NeucmdsWarning):
    """An iterative solver stopped before its tolerance was met; the residuals are in the result."""


class FewerComponentsWarning(NeucmdsWarning):
    """Fewer coordinates than asked for carry any information, so fewer are returned."""


class FewPairsWarning(NeucmdsWarning):
    """There are hardly more observed pairs than coordinates to determine from them."""


class NonEuclideanWarning(FewerComponentsWarning):
    """The method keeps only positive eigenvalues, and the data do not have as many as asked for."""


class OverfitWarning(NeucmdsWarning):
    """A fit is much better on the fitted pairs or objects than on those held out."""


class PrecisionWarning(FewerComponentsWarning):
    """Coordinates are missing because a few huge entries of D leave the others below rounding."""
