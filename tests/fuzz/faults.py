"""Signals, full disks, little memory and closed pipes: results are whole or absent, in one line.

``python -m tests.fuzz.faults --trials 200`` writes `benchmarks/records/faults.json`. Every trial is
a child forked past the imports, in a folder of its own. Half of the signals come at a random moment
of the command; the other half at a random call that changes the file system, before or after it,
for that is where they can do harm. Further commands: ``--command "report d.npy -o page.html"``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from neucmds import Embedding, LandmarkNeucMDS, neuc_mds
from neucmds._backend import files
from neucmds._backend.files import atomic_file
from neucmds.operators import BlockedGram

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "faults.json"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# Calls that change what is on the disk.
CHANGES = ("mkdir", "rename", "replace", "link", "unlink", "fsync", "rmdir", "posix_fallocate")
N = 24


def inputs(folder: Path) -> None:
    """Write the files that commands read."""
    X = np.random.default_rng(0).normal(size=(N, 4))
    D = np.abs(X[:, None] - X).sum(axis=2)
    np.save(folder / "d.npy", D)
    np.save(folder / "new.npy", np.tile(D, (30, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        neuc_mds(D, 2, "neuc+").save(folder / "model.npz")


def place_landmarks(checkpoint: str | None = None) -> int:
    """Fit landmarks and write the coordinates of all rows to a file."""
    X = np.random.default_rng(1).normal(size=(20_000, 4))
    est = LandmarkNeucMDS(2, 40, metric="euclidean", random_state=0).fit(X[:200])
    est.transform(X, out="placed.npy", checkpoint=checkpoint)
    return 0


def fit_in_blocks() -> int:
    """Fit a D that is made block by block, and write the coordinates to a file."""
    X = np.random.default_rng(2).normal(size=(640, 4))
    D = np.abs(X[:, None] - X).sum(axis=2)
    gram = BlockedGram(lambda start, stop: D[start:stop], n=len(D), max_memory="2MB")
    found = neuc_mds(gram, 3, checkpoint="half.fit")
    with atomic_file("placed.npy") as file:
        np.save(file, found.coordinates)
    return 0


@dataclass(frozen=True)
class Command:
    """What is run.

    Parameters
    ----------
    name : str
    words : tuple of str
        Of the command line.
    call : callable, optional
        Instead of a command line.
    checkpoint : str, optional
        The file that may be left, and from which the same command then goes on.
    """

    name: str
    words: tuple[str, ...] = ()
    call: Callable[[], int] | None = None
    checkpoint: str | None = None

    def run(self) -> int:
        """Run it in this process, and return its exit code."""
        if self.call is not None:
            return self.call()
        from neucmds.cli.app import app

        return int(app(list(self.words), standalone_mode=False) or 0)


COMMANDS = (
    Command("embed", ("embed", "d.npy", "-k", "3", "-o", "out", "--no-plots")),
    Command("embed --force", ("embed", "d.npy", "-k", "3", "-o", "old", "--no-plots", "--force")),
    Command("embed with plots", ("embed", "d.npy", "-k", "3", "-o", "out")),
    Command("project", ("project", "model.npz", "new.npy", "-o", "placed.csv")),
    Command("landmarks out=", call=place_landmarks),
    Command("checkpoint=", call=partial(place_landmarks, "half.rows"), checkpoint="half.rows"),
    Command("checkpoint= of a fit", call=fit_in_blocks, checkpoint="half.fit"),
)


@dataclass
class End:
    """How a child ended, and what it said."""

    code: int
    said: str
    seconds: float
    changes: int = 0


@dataclass
class Tally:
    """Trials by command and fault, and what went wrong in them."""

    trials: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    left_by_kill: int = 0
    resumed: int = 0
    too_late: int = 0

    def add(self, name: str, fault: str, end: End, problems: list[str]) -> None:
        """Count one trial."""
        self.trials[f"{name}: {fault}"] += 1
        self.ends["done" if end.code == 0 else "refused" if end.code == 2 else "ended"] += 1
        self.findings += [f"{name}, {fault}: {problem}" for problem in problems]


def child(folder: Path, command: Command, prepare: Callable[[], None]) -> tuple[int, Path]:
    """Fork a child that runs a command in a folder; return its number, and the file it talks to.

    The child is at the beginning of the command by then.
    """
    spoken = folder.parent / f"{folder.name}.said"
    sys.stdout.flush()
    sys.stderr.flush()
    ready, begins = os.pipe()
    number = os.fork()
    if number:
        os.close(begins)
        os.read(ready, 1)
        os.close(ready)
        return number, spoken
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        voice = os.open(spoken, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 0)
        os.dup2(quiet, 1)
        os.dup2(voice, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        prepare()
        os.close(ready)
        os.write(begins, b".")
        os.close(begins)
        code = command.run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        code = 130
    except BaseException as problem:
        with suppress(BaseException):
            print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        # Of a function, not a command: its caller handles these.
        code = 2 if isinstance(problem, (OSError, MemoryError, ValueError)) else 71
    finally:
        with suppress(BaseException):
            sys.stderr.flush()
            sys.stdout.flush()
        os._exit(code)


def wait(number: int, spoken: Path, begun: float) -> End:
    """Wait for a child, for a minute at most."""
    while True:
        pid, status = os.waitpid(number, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - begun > 60:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            return End(-99, "hangs", 60.0)
        time.sleep(0.002)
    said = spoken.read_text(errors="replace") if spoken.exists() else ""
    # A busy machine has time for lines of progress.
    said = "".join(line for line in said.splitlines(True) if not line.endswith(" s so far\n"))
    return End(os.waitstatus_to_exitcode(status), said, time.monotonic() - begun)


def wrap_changes(wrapped: Callable[..., object]) -> None:
    """Let every change of the file system go through a function of the real one."""
    for name in CHANGES:
        setattr(os, name, partial(wrapped, getattr(os, name)))
    files._exchange = partial(wrapped, files._exchange)


def count_changes(target: Path) -> None:
    """Append a dot to a file at every change of the file system."""

    def wrapped(real: Callable[..., object], *args: object, **options: object) -> object:
        with open(target, "ab") as file:
            file.write(b".")
        return real(*args, **options)

    wrap_changes(wrapped)


def signal_at(number: int, what: signal.Signals, *, after: bool) -> None:
    """Send this process a signal at its so-manieth change of the file system."""
    seen = [0]

    def wrapped(real: Callable[..., object], *args: object, **options: object) -> object:
        seen[0] += 1
        mine = seen[0] == number
        if mine and not after:
            os.kill(os.getpid(), what)
        try:
            return real(*args, **options)
        finally:
            if mine and after:
                os.kill(os.getpid(), what)

    wrap_changes(wrapped)


@contextmanager
def workplace(base: Path, source: Path) -> Iterator[Path]:
    """Give a fresh folder with the inputs and an older result."""
    folder = Path(tempfile.mkdtemp(dir=base))
    for file in source.iterdir():
        (shutil.copytree if file.is_dir() else shutil.copy)(file, folder / file.name)
    try:
        yield folder
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)


def contents(folder: Path) -> set[str]:
    """Name everything in a folder, hidden things too."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def allowed(folder: Path, command: Command, before: set[str]) -> set[str]:
    """Name what was there, and the checkpoint that may have been left."""
    name = command.checkpoint
    return {*before, name} if name is not None and (folder / name).exists() else before


def is_hidden(name: str) -> bool:
    """Tell whether a path goes through a hidden name."""
    return any(part.startswith(".") for part in name.split("/"))


def of_one_run(path: Path) -> bool:
    """Tell whether the files of a result belong together."""
    if not all((path / name).exists() for name in ("embedding.npz", "quality.json")):
        return False
    quality = json.loads((path / "quality.json").read_text())
    return bool(quality["k"] == Embedding.load(path / "embedding.npz").k)


def problems_of(folder: Path, before: set[str], whole: set[str], end: End, how: str) -> list[str]:
    """Say what is wrong after a fault: half of a result, something left, too many words."""
    found, there = [], contents(folder)
    new = there - before
    if end.code == -signal.SIGKILL:
        # Nobody can tidy up after that but the file system itself.
        new = {name for name in new if not is_hidden(name)}
    if new and new != whole - before:
        found.append(f"left {sorted(new)[:4]}")
    if not before <= there:
        found.append(f"lost {sorted(before - there)[:4]}")
    found += [
        f"{path.name} is not of one run"
        for path in (folder / "out", folder / "old")
        if path.exists() and not of_one_run(path)
    ]
    if (folder / "placed.npy").exists() and not np.isfinite(np.load(folder / "placed.npy")).all():
        found.append("placed.npy is not whole")
    lines = [line for line in end.said.splitlines() if line.strip()]
    if "Traceback" in end.said or "this is a bug" in end.said or len(lines) > 1:
        found.append(f"says {end.said[:300]!r}")
    if end.code in (1, 70, 71, -99) or (end.code == 2 and len(lines) != 1):
        found.append(f"ends with {end.code}, saying {end.said[:200]!r}")
    if end.code == 0 and new != whole - before:
        found.append("says it is done, and is not")
    return [f"{problem} [{how}]" for problem in found]


class Faults:
    """Everything that is tried, in one temporary folder."""

    def __init__(self, base: Path, seed: int) -> None:
        self.base, self.rng, self.tally = base, random.Random(seed), Tally()
        self.source = base / "source"
        self.source.mkdir()
        inputs(self.source)
        self.known: dict[str, tuple[set[str], float, int]] = {}
        self.placed: dict[str, bytes] = {}
        old = Command("", ("embed", "d.npy", "-k", "2", "-o", "old", "--no-plots"))
        end = wait(*child(self.source, old, lambda: None), time.monotonic())
        assert end.code == 0, end.said

    def usual(self, command: Command) -> tuple[set[str], float, int]:
        """Return what a command writes, how long it takes, and how often it changes the disk."""
        if command.name not in self.known:
            with workplace(self.base, self.source) as folder:
                changes = folder.parent / f"{folder.name}.changes"
                end = self._run(folder, command, lambda: count_changes(changes))
                assert end.code == 0, end.said
                count = changes.stat().st_size if changes.exists() else 0
                if command.checkpoint is not None:
                    self.placed[command.name] = (folder / "placed.npy").read_bytes()
                self.known[command.name] = (contents(folder), end.seconds, count)
        return self.known[command.name]

    def warm_up(self, commands: tuple[Command, ...]) -> None:
        """Run commands in this process, so that children are past all they import and compile."""
        here, out = os.getcwd(), os.dup(1)
        quiet = os.open(os.devnull, os.O_RDWR)
        for command in commands:
            with workplace(self.base, self.source) as folder:
                os.chdir(folder)
                sys.stdout.flush()
                os.dup2(quiet, 1)
                try:
                    command.run()
                finally:
                    sys.stdout.flush()
                    os.dup2(out, 1)
                    os.chdir(here)
        os.close(out)
        os.close(quiet)

    def _run(self, folder: Path, command: Command, prepare: Callable[[], None]) -> End:
        return wait(*child(folder, command, prepare), time.monotonic())

    def signals(self, command: Command, number: int) -> None:
        """Send a signal: at a random moment, or at a random change of the disk."""
        whole, seconds, changes = self.usual(command)
        what = SIGNALS[number % len(SIGNALS)]
        with workplace(self.base, self.source) as folder:
            before = contents(folder)
            if number % 2 and changes:
                at, after = self.rng.randint(1, changes), self.rng.random() < 0.5
                how = f"{'after' if after else 'at'} change {at} of {changes}"
                end = self._run(folder, command, partial(signal_at, at, what, after=after))
            else:
                delay = self.rng.uniform(0.002, 0.8 * seconds)
                how, begun = f"after {delay:.3f} s", time.monotonic()
                pid, spoken = child(folder, command, lambda: None)
                time.sleep(delay)
                with suppress(ProcessLookupError):
                    os.kill(pid, what)
                end = wait(pid, spoken, begun)
            problems = problems_of(folder, allowed(folder, command, before), whole, end, how)
            self.tally.left_by_kill += any(is_hidden(name) for name in contents(folder))
            self.tally.too_late += end.code == 0
            if command.checkpoint is not None and end.code:
                problems += self._went_on(folder, command, before)
            self.tally.add(command.name, what.name, end, problems)

    def _went_on(self, folder: Path, command: Command, before: set[str]) -> list[str]:
        """Run an interrupted command again: its result is to be that of one that was not."""
        self.tally.resumed += (folder / str(command.checkpoint)).exists()
        end = self._run(folder, command, lambda: None)
        if end.code:
            return [f"does not go on: {end.code}, {end.said[:200]!r}"]
        seen = {name for name in contents(folder) if not is_hidden(name)}
        found = [] if seen == before | {"placed.npy"} else [f"left {sorted(seen - before)}"]
        if (folder / "placed.npy").read_bytes() != self.placed[command.name]:
            found.append("goes on to another result")
        return found

    def limited(self, command: Command, fault: str, prepare: Callable[[], None]) -> None:
        """Run with some limit."""
        whole = self.usual(command)[0]
        with workplace(self.base, self.source) as folder:
            before = contents(folder)
            end = self._run(folder, command, prepare)
            before = allowed(folder, command, before)
            self.tally.add(command.name, fault, end, problems_of(folder, before, whole, end, fault))

    def full_disk(self, command: Command) -> str:
        """Run on a disk that ends somewhere in the results; return how that was made."""
        size = sum(file.stat().st_size for file in self.source.rglob("*") if file.is_file())
        room = self.rng.choice((4, 12, 40, 120)) * 1024
        with tempfile.TemporaryDirectory(dir=self.base) as place:
            options = f"size={size + 40_960 + room}"
            mounted = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True
            )
            if mounted.returncode:
                most = self.rng.choice((100, 2_000, 20_000))
                limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
                self.limited(command, "files of limited size", limit)
                return "RLIMIT_FSIZE"
            try:
                whole = self.usual(command)[0]
                with workplace(Path(place), self.source) as folder:
                    before = contents(folder)
                    # What it says goes elsewhere.
                    end = self._run(folder, command, lambda: None)
                    before = allowed(folder, command, before)
                    found = problems_of(folder, before, whole, end, options)
                    self.tally.add(command.name, "full disk", end, found)
            finally:
                subprocess.run(["umount", place], check=True)
        return "tmpfs"

    def read_only(self, command: Command) -> None:
        """Run in a folder that cannot be written to."""

        def nobody() -> None:
            os.chmod(".", 0o555)
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)

        self.base.chmod(0o755)
        self.limited(command, "read-only folder", nobody)

    def little_memory(self, command: Command) -> None:
        """Run with few addresses left."""
        extra = self.rng.choice((1, 4, 16, 64, 256)) * 2**20

        def limit() -> None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + extra
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

        self.limited(command, "little memory", limit)

    def closed_pipe(self, words: tuple[str, ...]) -> None:
        """Run with a reader of standard output that has gone."""

        def close() -> None:
            reader, writer = os.pipe()
            os.dup2(writer, 1)
            os.close(reader)
            sys.stdout = os.fdopen(1, "w", closefd=False)

        with workplace(self.base, self.source) as folder:
            end = self._run(folder, Command(" ".join(words), words), close)
            problems = [] if not end.said.strip() else [f"says {end.said[:200]!r}"]
            if end.code == 1:
                problems.append("ends as a bug")
            self.tally.add(words[0], "closed pipe", end, problems)


PIPED = (
    ("project", "model.npz", "new.npy"),
    ("inspect", "d.npy"),
    ("compare", "d.npy", "-k", "2", "--json"),
    ("embed", "d.npy", "-k", "2", "-o", "piped", "--no-plots", "--json"),
)


def run(trials: int, seed: int, commands: tuple[Command, ...] = COMMANDS) -> dict[str, object]:
    """Run so many trials of signals and a tenth as many of every other fault."""
    memory = Path("/dev/shm")
    begun, disk = time.monotonic(), ""
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as base:
        faults = Faults(Path(base), seed)
        faults.warm_up(commands)
        for number in range(trials):
            # Every command meets each of the three signals in both ways.
            faults.signals(commands[(number % 6 + number // 6) % len(commands)], number)
        for number in range(max(1, trials // 10)):
            command = commands[number % len(commands)]
            disk = faults.full_disk(command)
            faults.read_only(command)
            faults.little_memory(command)
            faults.closed_pipe(PIPED[number % len(PIPED)])
        tally = faults.tally
    return {
        "trials": dict(sorted(tally.trials.items())),
        "signals": trials,
        "signals_after_the_end": tally.too_late,
        "faults": sum(tally.trials.values()),
        "ends": dict(tally.ends),
        "hidden_left_by_SIGKILL": tally.left_by_kill,
        "resumed_from_a_checkpoint": tally.resumed,
        "full_disk_by": disk,
        "findings": tally.findings,
        "seconds": round(time.monotonic() - begun, 1),
    }


def merged(old: dict[str, object], new: dict[str, object]) -> dict[str, object]:
    """Add up two records."""
    found = dict(new)
    for key, value in old.items():
        if isinstance(value, dict):
            found[key] = dict(sorted((Counter(value) + Counter(new[key])).items()))
        elif isinstance(value, (int, float, list)):
            found[key] = value + new[key]
    return found


def main() -> None:
    """Run the trials, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", action="append", default=[], help="a further command line")
    parser.add_argument("--without", action="append", default=[], help="a command to leave out")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--add", action="store_true", help="add to what the record holds")
    args = parser.parse_args()
    more = tuple(Command(line, tuple(shlex.split(line))) for line in args.command)
    own = tuple(command for command in COMMANDS if command.name not in args.without)
    found = run(args.trials, args.seed, (*own, *more))
    if args.add and args.record.exists():
        found = merged(json.loads(args.record.read_text()), found)
    found["command"] = "python -m tests.fuzz.faults " + shlex.join(sys.argv[1:])
    found["date"] = str(date.today())
    with atomic_file(args.record) as file:
        file.write((json.dumps(found, indent=1) + "\n").encode())
    for finding in found["findings"]:
        print(finding)
    print(f"{found['faults']} faults, {len(found['findings'])} findings, {found['seconds']:g} s")


if __name__ == "__main__":
    main()
