"""The functions of the package that three calls walk through, in the order of their first call.

    python benchmarks/walks.py            the walks, and how many functions and modules each has
    python benchmarks/walks.py --counts   the numbers alone

Counted are functions and methods that `def` names, once each, in files of the package `neucmds`,
in any thread. Comprehensions, lambdas, class bodies and imports of modules are not counted.
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
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
import pandas as pd

import neucmds
from neucmds import neuc_mds
from neucmds.datasets import euclidean_ball

PACKAGE = Path(neucmds.__file__).parent
N, K = 700, 20


def walk(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Return (module, function) of every function of the package that a call enters."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        named = code.co_flags & inspect.CO_OPTIMIZED and "<" not in code.co_name
        if event == "call" and named and code.co_filename.startswith(str(PACKAGE)):
            module = Path(code.co_filename).relative_to(PACKAGE).with_suffix("")
            seen.setdefault((".".join(module.parts), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def command(folder: str) -> Callable[[], object]:
    """Return `neucmds embed file.csv -k 3` of 60 objects, to be run in this process."""
    names = [f"object {i}" for i in range(60)]
    D = np.sqrt(euclidean_ball(60, random_state=0))
    pd.DataFrame(D, names, names).to_csv(f"{folder}/file.csv")

    def run() -> None:
        from neucmds.tools.cli import main

        sys.argv = ["neucmds", "embed", f"{folder}/file.csv", "-k", "3", "-o", f"{folder}/out"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main()
        assert code == 0, code

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", action="store_true", help="no names, the numbers alone")
    only_counts = parser.parse_args().counts
    warnings.simplefilter("ignore")
    D = np.sqrt(euclidean_ball(N, random_state=0))
    calls: dict[str, Callable[[], object]] = {
        f"neuc_mds(D, {K})": lambda: neuc_mds(D, K),
        f'neuc_mds(D, {K}, loss="relative")': lambda: neuc_mds(D, K, loss="relative"),
    }
    with tempfile.TemporaryDirectory() as folder:
        calls["neucmds embed file.csv -k 3"] = command(folder)
        walks = {title: walk(call) for title, call in calls.items()}
    for title, walked in walks.items():
        modules = {module for module, _ in walked}
        print(f"{title}: {len(walked)} functions in {len(modules)} modules")
        if not only_counts:
            print(*(f"  {module}: {function}" for module, function in walked), sep="\n")


if __name__ == "__main__":
    main()
