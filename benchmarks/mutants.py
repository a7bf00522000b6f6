"""Measure how many random faults in the numerical packages the tests notice.

A mutant changes one operator, comparison, number or truth value of one function. It is killed when
a test that reaches its line fails; the fastest run first, for `BUDGET` seconds of the clock in all:
on a busy machine fewer tests run, and fewer mutants are killed. Tests of the tools, of damaged
files and of the paper's tables are left out. Survivors that cannot alter an answer are found by
reading: `same_answer` of the record says why (a tie of floats, a division by ±1, speed alone).
Constants of a module (block sizes, tolerances), messages and annotations stay as
they are, and so do the keywords of `SAME_ANSWER`: a further copy, lengths left unchecked or a
warning that points to another line are no fault.

    pip install coverage
    python benchmarks/mutants.py --seed 47 --record benchmarks/records/mutants.json

With `--reached FILE`, which tests reach which line is written to a file by the first run, and read
from it by the others of the same code, on another machine as well.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("form.py", "large", "place", "problem", "refine", "spectrum")
IGNORED = (
    "tools",
    "fuzz",
    "reproduction",
    "test_docs.py",
    "test_guide.py",
    "test_examples.py",
)
FLAGS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
SECONDS = 60  # of one test; a mutant that loops for ever is killed as well
BUDGET = 60  # seconds of the tests of one mutant
SAME_ANSWER = {"copy=False", "deep=False", "strict=True", "stacklevel=2"}

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
    },
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Div,
        ast.Div: ast.Mult,
    },
    **{
        ast.Pow: ast.Mult,
        ast.FloorDiv: ast.Mult,
        ast.MatMult: ast.Mult,
        ast.BitAnd: ast.BitOr,
    },
    **{ast.BitOr: ast.BitAnd, ast.Mod: ast.Mult},
}


def sites(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield expressions of functions that can be changed; no messages, annotations, decorators."""
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, inside = todo.pop()
        if inside and isinstance(node, ast.expr) and changed(node) is not None:
            yield node
        skipped: list[object] = []
        if isinstance(node, ast.FunctionDef):
            inside = True
            skipped += [node.args, node.returns, *node.decorator_list]
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
            continue
        if isinstance(node, ast.keyword) and ast.unparse(node) in SAME_ANSWER:
            continue
        if isinstance(node, ast.AnnAssign):
            skipped.append(node.annotation)
        todo += [
            (child, inside)
            for child in ast.iter_child_nodes(node)
            if child not in skipped
        ]


def changed(node: ast.expr) -> ast.expr | None:
    """Return the expression with one fault, or None where none is known."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            return ast.Compare(
                node.left, [SWAPS[type(op)]()], node.comparators
            )  # type: ignore[list-item]
        case ast.BoolOp(op=op):
            return ast.BoolOp(SWAPS[type(op)](), node.values)  # type: ignore[arg-type]
        case ast.BinOp(op=op) if type(op) in SWAPS:
            return ast.BinOp(node.left, SWAPS[type(op)](), node.right)  # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return node.operand
        case ast.Constant(value=bool()):
            return ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            return ast.Constant(node.value + 1)
    return None


def mutate(source: str, node: ast.expr) -> str:
    """Replace one expression in the text of its module."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    fault = changed(node)
    assert fault is not None
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first = starts[node.lineno - 1] + node.col_offset
    last = starts[node.end_lineno - 1] + node.end_col_offset
    text = b"".join(lines)
    return (
        text[:first] + f"({ast.unparse(fault)})".encode() + text[last:]
    ).decode()


class Reached:
    """A plugin of pytest that notes which test reaches which line, and how long the test takes."""

    def __init__(self, home: Path) -> None:
        from coverage import Coverage

        self.coverage = Coverage(data_file=None, source=[str(home)])
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        """Begin to note lines."""
        self.coverage.start()

    def pytest_runtest_setup(self, item: Any) -> None:
        """Note lines under the name of the test."""
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how long a test takes, and whether it passes."""
        self.seconds[report.nodeid] = (
            self.seconds.get(report.nodeid, 0.0) + report.duration
        )
        if report.failed:
            self.failed.add(report.nodeid)

    def tests_of(self, path: Path) -> dict[int, list[str]]:
        """Return the passing tests that reach each line of a file."""
        lines = self.coverage.get_data().contexts_by_lineno(str(path))
        return {
            line: [
                test
                for test in tests
                if test in self.seconds and test not in self.failed
            ]
            for line, tests in lines.items()
        }


class Alarm:
    """A plugin of pytest that ends the process when a test takes too long."""

    def pytest_runtest_setup(self) -> None:
        """Start the clock anew."""
        signal.alarm(SECONDS)


def in_fork(root: Path, work: Callable[[], int]) -> int:
    """Do work in a process of its own, with what is imported here."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(root)
        os.environ["PYTHONPATH"] = str(root / "src")
        sys.path.insert(0, str(root / "src"))
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        os._exit(work())
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def modules(home: Path) -> list[Path]:
    """Return the modules that are mutated."""
    paths = [home / package for package in PACKAGES]
    files = [
        file
        for path in paths
        for file in ([path] if path.is_file() else path.rglob("*.py"))
    ]
    return sorted(files)


def reached(
    root: Path, notes_file: Path
) -> tuple[dict[str, dict[int, list[str]]], dict[str, float]]:
    """Return who reaches each line of each module, and how long tests take, from a run of all."""
    home = root / "src" / "neucmds"

    def work() -> int:
        import pytest

        notes = Reached(home)
        ignored = [f"--ignore=tests/{name}" for name in IGNORED]
        pytest.main([*FLAGS, "tests", *ignored], plugins=[notes])
        notes.coverage.stop()
        tests = {
            str(path.relative_to(home)): notes.tests_of(path)
            for path in modules(home)
        }
        notes_file.write_text(
            json.dumps({"tests": tests, "seconds": notes.seconds})
        )
        return 0

    if not notes_file.exists():
        in_fork(root, work)
    notes = json.loads(notes_file.read_text())
    tests = {
        module: {int(line): ids for line, ids in lines.items()}
        for module, lines in notes["tests"].items()
    }
    return tests, notes["seconds"]


def affordable(tests: set[str], seconds: dict[str, float]) -> list[str]:
    """Return the fastest tests, as many as take `BUDGET` seconds."""
    ordered = sorted(tests, key=lambda test: (seconds[test], test))
    elapsed = itertools.accumulate(seconds[test] for test in ordered)
    return [
        test
        for test, total in zip(ordered, elapsed, strict=True)
        if total <= BUDGET
    ]


def killed(root: Path, tests: list[str]) -> bool:
    """Tell whether one of the tests fails."""

    def work() -> int:
        import pytest

        return int(pytest.main(["-x", *FLAGS, *tests], plugins=[Alarm()]))

    return bool(tests) and in_fork(root, work) != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--part",
        default="1/1",
        help="the i-th of j parts, for several processes",
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument(
        "--record",
        type=Path,
        help="written after each; what it holds is not redone",
    )
    parser.add_argument(
        "--reached", type=Path, help="which test reaches which line"
    )
    parser.add_argument(
        "--again", action="store_true", help="only the survivors of the record"
    )
    given = parser.parse_args()
    # Imported once, and shared by all forks; the package itself is not.
    import hypothesis, numpy, pandas, pytest, scipy.spatial, sklearn.manifold  # noqa: E401, F401, I001

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("src", "tests", "benchmarks", "docs", "reproduction"):
            if (given.root / name).is_dir():
                shutil.copytree(given.root / name, root / name)
        shutil.copy(given.root / "pyproject.toml", root)
        home = root / "src" / "neucmds"
        every = [
            (path, node)
            for path in modules(home)
            for node in sites(ast.parse(path.read_text()))
        ]
        chosen = random.Random(given.seed).sample(
            every, min(given.count, len(every))
        )
        part, parts = map(int, given.part.split("/"))
        chosen = chosen[part - 1 :: parts]
        known: dict[str, Any] = {}
        if given.record and given.record.exists():
            known = json.loads(given.record.read_text())
        done: dict[str, bool] = known.get("killed", {})
        same = known.get("same_answer", {})
        notes_file = root / "reached.json"
        if given.reached is not None:
            notes_file = given.reached.resolve()
        tests, seconds = reached(root, notes_file)
        for path, node in chosen:
            module = str(path.relative_to(home))
            name = (
                f"{module}:{node.lineno}:{node.col_offset} {ast.unparse(node)}"
            )
            if name in done and not (given.again and not done[name]):
                continue
            source = path.read_text()
            path.write_text(mutate(source, node))
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            near = {
                test for line in lines for test in tests[module].get(line, ())
            }
            done[name] = killed(root, affordable(near, seconds))
            path.write_text(source)
            print("killed" if done[name] else "SURVIVED", name, flush=True)
            if given.record:
                share = {
                    "mutants": len(done),
                    "dead": sum(done.values()),
                    "sites": len(every),
                }
                given.record.write_text(
                    json.dumps({**known, **share, "killed": done}, indent=1)
                )
    for count, what in (
        (len(done), ""),
        (len(done) - len(same), " that can alter an answer"),
    ):
        print(
            f"{sum(done.values())} of {count}{what} killed: {sum(done.values()) / count:.1%}"
        )


if __name__ == "__main__":
    main()
