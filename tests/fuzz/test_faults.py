"""A handful of faults; `make fuzz` has 200 signals and a tenth as many of everything else."""

from __future__ import annotations

import os
import signal
import sys
import threading

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


def test_faults_of_the_commands(tmp_path):
    # In a process of its own: it forks, which threads of other tests do not bear.
    import subprocess
    from pathlib import Path

    root = Path(__file__).parents[2]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fuzz.faults",
            "--trials",
            "5",
            "--record",
            tmp_path / "r.json",
        ],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert " 0 findings" in done.stdout, done.stdout
