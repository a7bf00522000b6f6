"""One error for bad input, and a warning for each kind of surprise in a result.

Messages mark parameters by `option`. `rendered` spells them: ``str(error)`` as in Python
(``symmetrize=True``), and the command line in its own way (``--symmetrize``).
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

# A marked parameter: its name and its value between characters for private use, which file names
# and labels do not have.
_MARKED = re.compile("\ue000([a-z_]+)\ue001([^\ue002]*)\ue002")


def option(name: str, *value: object) -> str:
    """Mark a parameter, and the value it has or should have, inside a message.

    Parameters
    ----------
    name : str
        As the parameter is called in Python.
    *value : object
        The value, one or none, which is shown in one line.

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
    # Arguments of the metric "shortest_path".
    if name in ("direction", "part"):
        return f"metric_params={{{name!r}: {value}}}"
    if value is None:
        return name
    return f"{name}={value}"


def rendered(
    message: str, spell: Callable[[str, str | None], str] = in_python
) -> str:
    """Return a message with its marked parameters spelled.

    Parameters
    ----------
    message : str
    spell : callable, optional
        ``spell(name, value)`` returns the text for a parameter; the value is a repr, or None. By
        default it is ``name=value`` or ``name``, as in Python.

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
    """An error or warning whose text is spelled as in Python; `marked` has it with marks."""

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
    """A fit is much better on the fitted pairs than on others, or is likely to be.

    Held-out pairs say so, or there are hardly more pairs than numbers that they determine.
    """
