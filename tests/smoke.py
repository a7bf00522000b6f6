"""Installs a wheel and an sdist, each into an empty environment, and runs the demo there.

    python tests/smoke.py dist .venv-dist

`make dist` runs it. Nothing of the checkout is importable: it runs in an empty folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

CODE = """
import neucmds, numpy as np
x = np.random.default_rng(0).normal(size=(30, 3))
emb = neucmds.neuc_mds(np.abs(x[:, None] - x).sum(axis=2), 4)
assert emb.coordinates.shape == (30, 4) and emb.r2 > 0.9
print(neucmds.__version__, neucmds.__file__)
"""


def environment(folder: Path, package: Path) -> Path:
    """Make an environment with one package and its command line; return its programs."""
    venv.create(folder, with_pip=True, clear=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run(
        [programs / "python", *install, f"{package}[cli]"], check=True
    )
    return programs


def main(dist: Path, scratch: Path) -> None:
    """Try every package of a folder."""
    packages = sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")])
    if len(packages) != 2:
        raise SystemExit(
            f"{dist} should hold a wheel and an sdist, it has {packages}"
        )
    for package in packages:
        programs = environment(scratch.resolve(), package.resolve())
        with tempfile.TemporaryDirectory() as empty:
            for command in (
                [programs / "python", "-m", "pip", "check"],
                [programs / "python", "-c", CODE],
                [programs / "neucmds", "demo"],
            ):
                subprocess.run(command, check=True, cwd=empty)
        print(f"{package.name}: installs and runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
