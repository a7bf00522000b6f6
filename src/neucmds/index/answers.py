"""Distances that a user's function was asked for: each pair once, kept in a file if wanted."""

from __future__ import annotations

import math
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Real
from pathlib import Path
from pickle import PicklingError
from typing import Any

import joblib
import numpy as np
from joblib.hashing import NumpyHasher  # type: ignore[import-untyped]

from neucmds.backend.arrays import Floats, Indices, Numbers, eps
from neucmds.backend.files import as_path, check_target, one_line
from neucmds.errors import InputError, option
from neucmds.problem.calls import call_pairs
from neucmds.problem.validation import RANGE, tolerance

# An entry of the file of calls, and of arrays of known pairs: objects i and j at the distance d.
PAIR = np.dtype([("i", "<i8"), ("j", "<i8"), ("d", "<f8")])
# Types that float() takes, though they are no real numbers.
NO_NUMBERS = (str, bytes, np.complexfloating)
# Squares of distances up to it can be summed.
LARGEST = math.sqrt(RANGE)
# The largest of so many distances tells what is rounding beside it.
SAMPLE = 100


def checked_call(
    function: Callable[..., Any], a: Any, b: Any, *, rounding: float
) -> float:
    """Return the distance of two objects, or less than 0 by rounding; refuse all else."""
    try:
        result = function(a, b)
    except Exception as error:
        problem = f"raises {type(error).__name__}: {one_line(error)}"
        raise refusal(problem, a, b) from error
    value = _as_float(result)
    if not -rounding <= value <= LARGEST:
        raise refusal(f"gives {_shown(result)}", a, b)
    return value


def _unchecked_call(function: Callable[..., Any], a: Any, b: Any) -> float:
    return _as_float(function(a, b))


def _as_float(result: Any) -> float:
    """Return a number, or NaN if it is none."""
    if isinstance(result, NO_NUMBERS):
        return math.nan
    try:
        return float(result)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _shown(result: Any) -> str:
    if not isinstance(result, Real):
        return _in_one_line(result)
    try:
        return f"{float(result):.4g}"
    except OverflowError:
        return "a number beyond the range of floats"


def _in_one_line(x: Any) -> str:
    return " ".join(reprlib.repr(x).split())


def refusal(
    problem: str,
    a: Any,
    b: Any,
    advice: str = f"it must return a number from 0 to {LARGEST:.0e}",
) -> InputError:
    """Return the error that names what the function does wrong, and for which two objects."""
    names = f"{_in_one_line(a)} and {_in_one_line(b)}"
    return InputError(f"the metric {problem}, for {names}; {advice}.")


def compare(
    function: Callable[..., Any],
    left: list[Any],
    right: list[Any],
    i: Indices,
    j: Indices,
    rounding: float,
    keep: Callable[[int, Floats], None] | None = None,
) -> Floats:
    """Return the distances, by calls, of listed pairs: of ``left[i]`` and ``right[j]``."""
    checked = partial(checked_call, function, rounding=rounding)
    return call_pairs(checked, left, right, i, j, "the metric", keep)


def known_nearest(
    pairs: Numbers, n: int, count: int, directed: bool = False
) -> tuple[Indices, Floats]:
    """Return the nearest (n, count) of each of n objects among the known pairs, and the distances.

    If these are directed, they are the nearest j by the distances from i. Where fewer are known, it
    is the object itself, at an infinite distance.
    """
    m = pairs.size
    order = np.argsort(pairs["d"], kind="stable")
    ranked = pairs[order]
    # Pairs by their object, either one if there is no direction, and then by the rank of d, in one
    # number: sorting these takes a tenth of the time of `np.lexsort`.
    ranks = np.arange(m)
    keys = ranked["i"] * m + ranks
    if not directed:
        keys = np.concatenate([keys, ranked["j"] * m + ranks])
    keys.sort()
    # Keys of object a begin at starts[a].
    starts = np.searchsorted(keys, np.arange(n + 1) * m)
    at = starts[:-1, None] + np.arange(count)
    is_known = at < starts[1:, None]
    nearest = ranked[keys[np.minimum(at, keys.size - 1)] % m]
    own = np.arange(n)[:, None]
    partners = nearest["i"] + nearest["j"] - own
    return (
        np.where(is_known, partners, own),
        np.where(is_known, nearest["d"], np.inf),
    )


def _found(keys: Indices, known: Indices) -> tuple[Indices, Numbers]:
    """Return where keys are, or belong, among ascending known ones, and whether they are there."""
    places = np.searchsorted(known, keys)
    # The largest number stands behind all.
    behind = np.append(known, np.iinfo(np.int64).max)
    return places, behind[places] == keys


def _changed(before: Floats, now: Floats) -> int | None:
    """Return which distance differs most from what it was, or None if all are the same."""
    changes = abs(before - now)
    if (changes <= rounding_of(before)).all():
        return None
    return int(changes.argmax())


def rounding_of(d: Floats) -> float:
    """Return what counts as rounding of distances by a function that computes in float32."""
    return tolerance(d.max(initial=0), eps(np.float32))


class _Hasher(NumpyHasher):  # type: ignore[misc]
    """joblib's, and sets of any kind are equal in every process, where their order differs."""

    dispatch = NumpyHasher.dispatch.copy()

    def save_set(self, items: Iterable[Any]) -> None:
        # Text alone has an order of its own; other parts, as sets, may have none or half of one.
        if {type(item) for item in items} != {str}:
            items = [_Hasher().hash(item) for item in items]
        self.save(sorted(items))

    dispatch[set] = save_set
    dispatch[frozenset] = save_set


def _digest(objects: list[Any]) -> int:
    """Return a number that tells objects from others, the same in every process."""
    try:
        # One by one, because joblib tells an object that is there twice from one equal to it.
        digest = joblib.hash([_Hasher().hash(x) for x in objects])
    except (PicklingError, TypeError, AttributeError) as error:
        raise InputError(
            f"{option('calls_file')} needs objects that can be pickled, which tells them from "
            f"others: {one_line(error)}; pass objects without such parts, or leave it out."
        ) from error
    # 15 hexadecimal digits fit into 64 bits.
    return int(digest[:15], 16)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Have errors of the file system name the file of calls."""
    try:
        yield
    except PermissionError as error:
        raise InputError(
            f"{path}: permission denied; pass another file as {option('calls_file')}."
        ) from error
    except OSError as error:
        error.filename = str(path)
        raise


class Answers:
    """Known distances of pairs of objects, and the function that gives the others.

    Parameters
    ----------
    function : callable
        The distance of two objects.
    objects : list
    directed : bool, default=False
        Whether the distance from i to j may differ from that from j to i.
    path : path, optional
        File of calls. What it holds of the same objects is not asked again; a process that is
        killed loses the calls of about a second.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        objects: list[Any],
        directed: bool = False,
        path: Any = None,
    ) -> None:
        self.function = function
        self.objects = objects
        self.directed = directed
        # The pairs that were asked for, i < j unless they are directed, as ascending numbers
        # i·n + j, and their distances.
        self.keys = np.empty(0, np.int64)
        self.d = np.empty(0)
        # The pairs of the file, which need no call.
        self.stored = np.empty(0, PAIR)
        # What counts as rounding: anything, until some distances are known.
        self._rounding = LARGEST
        self.n_calls = 0
        self.path = None
        if path is not None:
            self.path = as_path(path)
            check_target(self.path)
            self._read_file(self.path)

    def _read_file(self, path: Path) -> None:
        """Read the file of calls, or begin one: its first entry tells whose calls they are."""
        mark = np.zeros(1, PAIR)
        mark["i"] = len(self.objects)
        mark["j"] = _digest(self.objects)
        mark["d"] = self.directed
        beginning = mark.tobytes()
        with _named(path):
            content = path.read_bytes() if path.exists() else b""
            # No file, or the part of one that a process left which was killed at once.
            if beginning.startswith(content):
                path.write_bytes(beginning)
                content = beginning
        # A process that was killed may have left a part of an entry.
        whole = len(content) // PAIR.itemsize * PAIR.itemsize
        entries = np.frombuffer(content[:whole], PAIR)
        if not content.startswith(beginning):
            raise InputError(
                f"{path} holds calls of other objects, or of the other value of "
                f"{option('directed')}; pass another file as "
                f"{option('calls_file')}, or remove it."
            )
        with _named(path), path.open("r+b") as file:
            file.truncate(whole)
        self.stored = np.sort(entries[1:], order=["i", "j"])
        self._refuse_another_function(path)

    def _refuse_another_function(self, path: Path) -> None:
        """Call the function for some eight pairs of the file; refuse another value."""
        known = self.stored[:: 1 + self.stored.size // 8]
        now = self._called(known["i"], known["j"])
        worst = _changed(known["d"], now)
        if worst is not None:
            i, j, d = known[worst].item()
            raise refusal(
                f"gives {now[worst]:.4g} where {path} has {d:.4g}",
                self.objects[i],
                self.objects[j],
                f"pass another file as {option('calls_file')}, or remove it",
            )

    @property
    def pairs(self) -> Numbers:
        """The pairs that were asked for, ascending, as a new array."""
        return self._pairs_of(self.keys, self.d)

    def _pairs_of(self, keys: Indices, d: Floats | float) -> Numbers:
        pairs = np.empty(keys.size, PAIR)
        pairs["i"] = keys // len(self.objects)
        pairs["j"] = keys % len(self.objects)
        pairs["d"] = d
        return pairs

    def _keys(self, i: Indices, j: Indices) -> Indices:
        return i * len(self.objects) + j

    def ask(self, i: Indices, j: Indices) -> Floats:
        """Return the distances of pairs of different objects, by calls where they are unknown."""
        keys = self._keys(i, j)
        if not self.directed:
            keys = self._keys(np.minimum(i, j), np.maximum(i, j))
        # By sorting, which `np.unique` and others that hash take ten times as long for.
        new = np.sort(keys)
        new = new[np.diff(new, prepend=-1) > 0]
        if not self.keys.size:
            self._begin(new[:: 1 + new.size // SAMPLE])
        places, is_known = _found(new, self.keys)
        new = new[~is_known]
        places = places[~is_known]
        d = np.maximum(self._answered(new), 0)
        self.d = np.insert(self.d, places, d)
        self.keys = np.insert(self.keys, places, new)
        return np.asarray(self.d[np.searchsorted(self.keys, keys)])

    def _begin(self, keys: Indices) -> None:
        """Ask for the first pairs, which tell what counts as rounding."""
        d = self._answered(keys)
        self._rounding = rounding_of(d)
        worst = d.argmin()
        if d[worst] < -self._rounding:
            i, j = divmod(keys[worst].item(), len(self.objects))
            raise refusal(
                f"gives {d[worst]:.4g}", self.objects[i], self.objects[j]
            )
        self.keys = keys
        self.d = np.maximum(d, 0)

    def refuse_asymmetry(self) -> None:
        """Call the function for some eight known pairs in the other order; refuse another value."""
        known = self.pairs[:: 1 + self.keys.size // 8]
        back = self._answered(self._keys(known["j"], known["i"]))
        worst = _changed(known["d"], back)
        if worst is not None:
            i, j, d = known[worst].item()
            raise refusal(
                f"is not symmetric: it gives {d:.4g} and in the other order {back[worst]:.4g}",
                self.objects[i],
                self.objects[j],
                f"pass {option('directed', True)}, or the mean of both orders",
            )

    def refuse_similarity(self) -> None:
        """Call the function for some eight objects and themselves; refuse what is not 0."""
        known = self.pairs[:: 1 + self.keys.size // 8]
        i = known["i"]
        self.n_calls += i.size
        # Not by `compare`, because rounding may leave less than 0.
        call = partial(_unchecked_call, self.function)
        own = call_pairs(call, self.objects, self.objects, i, i, "the metric")
        worst = abs(own).argmax()
        if abs(own[worst]) > rounding_of(known["d"]):
            x = self.objects[i[worst]]
            raise refusal(
                f"gives {own[worst]:.4g}",
                x,
                x,
                "it must return 0 for an object and itself, which a similarity does not",
            )

    def seconds_per_call(self) -> float:
        """Call the function for some eight known pairs; return the median of their seconds."""
        seconds = []
        for i, j, _ in self.pairs[:: 1 + self.keys.size // 8].tolist():
            begin = time.perf_counter()
            self.function(self.objects[i], self.objects[j])
            seconds.append(time.perf_counter() - begin)
        self.n_calls += len(seconds)
        return float(np.median(seconds))

    def _answered(self, keys: Indices) -> Floats:
        """Return the distances of pairs: those of the file, the others by calls.

        These are written to the file every second.
        """
        stored = self._keys(self.stored["i"], self.stored["j"])
        entries, is_stored = _found(keys, stored)
        d = np.empty(keys.size)
        d[is_stored] = self.stored["d"][entries[is_stored]]
        pairs = self._pairs_of(keys[~is_stored], np.nan)

        def write(start: int, values: Floats) -> None:
            part = pairs[start : start + values.size]
            part["d"] = values
            if self.path is not None:
                with _named(self.path), self.path.open("ab") as file:
                    # What is below 0 may prove to be no rounding.
                    file.write(part[values >= 0].tobytes())

        d[~is_stored] = self._called(pairs["i"], pairs["j"], write)
        return d

    def _called(
        self,
        i: Indices,
        j: Indices,
        keep: Callable[[int, Floats], None] | None = None,
    ) -> Floats:
        """Call the function for pairs."""
        self.n_calls += i.size
        return compare(
            self.function,
            self.objects,
            self.objects,
            i,
            j,
            self._rounding,
            keep,
        )
