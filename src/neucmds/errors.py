"""One error for bad input, and one warning per surprise in a result.

A message marks a parameter by `option`, so that ``str(error)`` spells it in Python
(``symmetrize=True``) and the command line in its own way (``--symmetrize``), by `rendered`.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable

__all__ = [
    "ConvergenceWarning",
    "FewerComponentsWarning",
    "InputError",
    "NeucmdsWarning",
    "NonEuclideanWarning",
    "OverfitWarning",
    "option",
    "rendered",
]

# A marked parameter: its name and value, each after a private-use character, which no file name or
# label holds by accident.
_MARKED = re.compile("\ue000([a-z_]+)\ue001([^\ue002]*)\ue002")


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
    text = "".join(re.sub(r"\n\s*", " ", reprlib.repr(each)) for each in value)
    return f"\ue000{name}\ue001{text}\ue002"


def in_python(name: str, value: str | None) -> str:
    """Write a parameter as in a call."""
    if name in (
        "direction",
        "part",
    ):  # arguments of the metric "shortest_path"
        return f"metric_params={{{name!r}: {value}}}"
    if value is None:
        return name
    return f"{name}={value}"


def rendered(
    message: str, spell: Callable[[str, str | None], str] = in_python
) -> str:
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
    return _MARKED.sub(
        lambda match: spell(match[1], match[2] or None), message
    )


class _Marked(Exception):
    """A message as in Python, and in `marked` with its parameters marked."""

    def __init__(self, message: str = "") -> None:
        super().__init__(rendered(message))
        self.marked = message


class InputError(_Marked, ValueError):
    """The input cannot be used; the message says what, by how much, and what to do."""


class NeucmdsWarning(_Marked, UserWarning):
    """Base class of every warning issued by this package."""


class ConvergenceWarning(NeucmdsWarning):
    """An iterative solver stopped before its tolerance was met; the residuals are in the result."""


class FewerComponentsWarning(NeucmdsWarning):
    """Fewer coordinates than asked for carry any information, so fewer are returned."""


class NonEuclideanWarning(FewerComponentsWarning):
    """The method keeps only positive eigenvalues, and the data do not have as many as asked for."""


class OverfitWarning(NeucmdsWarning):
    """A fit is much better on the fitted pairs or objects than on others, or may well be.

    Held-out pairs say so, or there are hardly more pairs than coordinates to determine from them.
    """
