"""A handful of faults; `make fuzz` has 200 signals and a tenth as many of everything else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from neucmds._backend.files import atomic_file, atomic_folder

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="faults are Linux's")
CHANGES = ("mkdir", "rename", "replace", "link", "unlink", "rmdir")


@pytest.fixture
def disturbed(monkeypatch):
    """Send a signal at the so-manieth change of the file system; say how many there were."""

    def install(number, what):
        seen = []

        def wrapped(real, *args, **options):
            seen.append(real)
            if len(seen) == number:
                os.kill(os.getpid(), what)
            return real(*args, **options)

        for name in CHANGES:
            real = getattr(os, name)
            monkeypatch.setattr(os, name, lambda *a, real=real, **o: wrapped(real, *a, **o))
        return seen

    # Jobs that a shell starts in the background ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield install
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", range(1, 24))
def test_an_interruption_while_a_folder_is_exchanged_leaves_all_or_nothing(
    number, disturbed, tmp_path
):
    folder = tmp_path / "out"
    names = ("a.txt", "b.txt", "c.txt")
    atomic_folder(folder, {n: lambda f: f.write(b"old") for n in names}, overwrite=False)
    seen = disturbed(number, signal.SIGINT)
    try:
        atomic_folder(folder, {n: lambda f: f.write(b"new") for n in names}, overwrite=True)
        assert len(seen) < number
    except KeyboardInterrupt:
        assert len(seen) >= number
    assert sorted(os.listdir(folder)) == list(names)
    assert os.listdir(tmp_path) == ["out"]
    assert len({(folder / name).read_bytes() for name in names}) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


KILLED = """
import os, signal, sys
from pathlib import Path
from neucmds._backend import files
from tests.fuzz.faults import signal_at

place, names = Path(sys.argv[1]), ("a", "b", "c")
for number in range(2, 100):
    folder = place / str(number) / "out"
    folder.mkdir(parents=True)
    for name in (*names, "mine"):
        (folder / name).write_text("old")
    if not (child := os.fork()):
        signal_at(number // 2, signal.SIGKILL, after=bool(number % 2))
        new = {name: lambda file: file.write(b"new") for name in names[:2]}
        files.atomic_folder(folder, new, overwrite=True, owned=names)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = {p.name: p.read_text() for p in folder.iterdir() if not p.name.startswith(".")}
    state = {name: found.get(name) for name in names}
    print(code, found["mine"], *state.values())
    if code == 0:
        break
"""


def test_a_kill_while_a_folder_is_exchanged_leaves_files_of_one_run(tmp_path):
    done = python("-c", KILLED, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    states = [tuple(line[2:]) for line in lines]
    assert set(states) == {("old", "old", "old"), ("new", "new", "None")}
    assert all(line[1] == "old" for line in lines)
    # Each of the changes, killed before and after it, and at last none.
    assert len(lines) > 20
    assert [line[0] for line in lines] == ["-9"] * (len(lines) - 1) + ["0"]


def test_termination_takes_effect_after_the_file_is_in_its_place(disturbed, tmp_path):
    came = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        disturbed(1, signal.SIGTERM)
        with atomic_file(tmp_path / "a.txt") as file:
            file.write(b"new")
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_files_are_written_from_other_threads_too(tmp_path):
    def write():
        with atomic_file(tmp_path / "a.txt") as file:
            file.write(b"new")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert os.listdir(tmp_path) == ["a.txt"]


def python(*arguments):
    """Run Python in a process of its own: children are forked, which threads do not bear."""
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": f"{root / 'src'}:{root}", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_faults_of_the_commands(tmp_path):
    # Pictures are more files, and take half of the time.
    options = "--trials", 6, "--without", "embed with plots", "--record", tmp_path / "r.json"
    done = python("-m", "tests.fuzz.faults", *options)
    assert done.returncode == 0, done.stderr
    assert " 0 findings" in done.stdout, done.stdout
