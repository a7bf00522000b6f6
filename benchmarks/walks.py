"""What four calls walk through: functions, types that are made, and how deep the stack gets.

    python benchmarks/walks.py            functions in the order of their first call, and types
    python benchmarks/walks.py --counts   the numbers alone

Functions and methods that `def` names are counted once each, in files of the package `neucmds`, in
any thread. Comprehensions, lambdas, class bodies and imports of modules are not counted. A type is
counted if one of the package is instantiated; the stack counts functions of the package alone.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
import pandas as pd

import neucmds
from neucmds import LandmarkNeucMDS, neuc_mds
from neucmds.datasets import euclidean_ball

PACKAGE = Path(neucmds.__file__).parent
N, K = 700, 20
N_ROWS = 4000


@dataclass
class Walk:
    """What a call entered and made."""

    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    types: dict[str, None] = field(default_factory=dict)
    depth: int = 0

    def counts(self) -> str:
        """Return the numbers in one line."""
        modules = {module for module, _ in self.functions}
        return (
            f"{len(self.functions)} functions in {len(modules)} modules, {len(self.types)} types, "
            f"{self.depth} deep"
        )


def walk(call: Callable[[], object]) -> Walk:
    """Return the functions of the package that a call enters, and the types that it makes."""
    seen = Walk()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_name in ("__init__", "__new__"):
            made = made_by(frame)
            if made.startswith("neucmds."):
                seen.types.setdefault(made)
        named = (
            code.co_flags & inspect.CO_OPTIMIZED and "<" not in code.co_name
        )
        if named and is_ours(frame):
            module = (
                Path(code.co_filename).relative_to(PACKAGE).with_suffix("")
            )
            seen.functions.setdefault(
                (".".join(module.parts), code.co_qualname)
            )
            seen.depth = max(seen.depth, depth_of(frame))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def is_ours(frame: FrameType) -> bool:
    """Tell whether a frame is one of the package."""
    return frame.f_code.co_filename.startswith(str(PACKAGE))


def made_by(frame: FrameType) -> str:
    """Return the full name of the type that a constructor makes."""
    names = frame.f_code.co_varnames
    first = frame.f_locals[names[0]] if names else None
    kind = first if isinstance(first, type) else type(first)
    return f"{kind.__module__}.{kind.__qualname__}"


def depth_of(frame: FrameType | None) -> int:
    """Count functions of the package on the stack."""
    depth = 0
    while frame is not None:
        depth += is_ours(frame)
        frame = frame.f_back
    return depth


def command(folder: str) -> Callable[[], object]:
    """Return `neucmds embed file.csv -k 3` of 60 objects, to be run in this process."""
    names = [f"object {i}" for i in range(60)]
    D = np.sqrt(euclidean_ball(60, random_state=0))
    pd.DataFrame(D, names, names).to_csv(f"{folder}/file.csv")

    def run() -> None:
        from neucmds.tools.cli import main

        sys.argv = [
            "neucmds",
            "embed",
            f"{folder}/file.csv",
            "-k",
            "3",
            "-o",
            f"{folder}/out",
        ]
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            code = main()
        assert code == 0, code

    return run


def two_levels() -> object:
    """Place 4,000 rows of features among 400 landmarks in two levels."""
    rows = np.random.default_rng(0).normal(size=(N_ROWS, 8))
    model = LandmarkNeucMDS(
        4, 400, n_near=None, loss="relative", metric="euclidean"
    )
    return model.fit_transform(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--counts", action="store_true", help="no names, the numbers alone"
    )
    only_counts = parser.parse_args().counts
    warnings.simplefilter("ignore")
    D = np.sqrt(euclidean_ball(N, random_state=0))
    calls: dict[str, Callable[[], object]] = {
        f"neuc_mds(D, {K})": lambda: neuc_mds(D, K),
        f'neuc_mds(D, {K}, loss="relative", curvature="auto")': lambda: (
            neuc_mds(D, K, loss="relative", curvature="auto")
        ),
        "two levels of features": two_levels,
    }
    with tempfile.TemporaryDirectory() as folder:
        calls["neucmds embed file.csv -k 3"] = command(folder)
        walks = {title: walk(call) for title, call in calls.items()}
    for title, walked in walks.items():
        print(f"{title}: {walked.counts()}")
        if not only_counts:
            print(
                *(
                    f"  {module}: {function}"
                    for module, function in walked.functions
                ),
                sep="\n",
            )
            print(*(f"  {name}" for name in walked.types), sep="\n")


if __name__ == "__main__":
    main()
