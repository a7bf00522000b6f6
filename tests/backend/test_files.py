"""Files and folders are there whole or not at all, whatever interrupts the writing."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from neucmds import InputError
from neucmds.backend.files import atomic_file, atomic_folder

SRC = Path(__file__).resolve().parents[2] / "src"


def text(content):
    return lambda file: file.write(content)


def test_a_file_appears_when_it_is_complete_in_the_place_of_a_link(tmp_path):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "a").symlink_to("precious")
    with (
        pytest.raises(InputError, match="exists already"),
        atomic_file(tmp_path / "a", overwrite=False),
    ):
        pass
    with atomic_file(tmp_path / "a") as file:
        file.write(b"all of it")
        assert (tmp_path / "a").read_bytes() == b"precious"
    assert (tmp_path / "a").read_bytes() == b"all of it"
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["a", "precious"]


@pytest.mark.skipif(
    os.name != "posix", reason="there are no modes of files there"
)
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_folder_is_made_with_all_its_files_by_the_umask(tmp_path, umask):
    folder = tmp_path / "deep" / "f"
    before = os.umask(umask)
    try:
        written = atomic_folder(
            folder, {"a": text(b"1"), "b": text(b"2")}, overwrite=False
        )
    finally:
        os.umask(before)
    assert written == [folder / "a", folder / "b"]
    assert [path.read_bytes() for path in written] == [b"1", b"2"]
    assert os.listdir(folder.parent) == ["f"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, *written)]
    assert modes == [0o777 & ~umask, 0o666 & ~umask, 0o666 & ~umask]


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_folder_that_another_process_finishes_first_is_not_torn(
    tmp_path, monkeypatch, overwrite
):
    folder = tmp_path / "f"
    rename = Path.rename

    def rename_after_another(self, target):
        monkeypatch.undo()
        first = {"a": text(b"first"), "b": text(b"first")}
        atomic_folder(folder, first, overwrite=overwrite)
        return rename(self, target)

    def later():
        return atomic_folder(
            folder, {"a": text(b"second")}, overwrite=overwrite, owned=["b"]
        )

    monkeypatch.setattr(Path, "rename", rename_after_another)
    if overwrite:
        assert later() == [folder / "a"]
        assert (folder / "a").read_bytes() == b"second"
        assert os.listdir(folder) == ["a"]
    else:
        with pytest.raises(InputError, match="exists already"):
            later()
        assert (folder / "a").read_bytes() == b"first"
        assert sorted(os.listdir(folder)) == ["a", "b"]
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize(
    "failure", [OSError("no"), KeyboardInterrupt(), SystemExit(1)]
)
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    (tmp_path / "a").write_bytes(b"old")

    def write_half():
        with atomic_file(tmp_path / "a") as file:
            file.write(b"new")
            raise failure

    def fail(file):
        raise failure

    with pytest.raises(type(failure)):
        write_half()
    with pytest.raises(type(failure)):
        atomic_folder(
            tmp_path / "f", {"a": text(b"1"), "b": fail}, overwrite=True
        )
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_cannot_be_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, message in [
        (tmp_path, "is a directory"),
        (Path(os.devnull), "device or a pipe"),
        (tmp_path / "pipe", "device or a pipe"),
        (tmp_path / "nowhere" / "a", "nowhere does not exist"),
    ]:
        with pytest.raises(InputError, match=message), atomic_file(path):
            pytest.fail("it was opened")


# Killed before each call that changes names in turn, while a file and a folder are replaced; prints
# how many kills it took until a child came to the end.
KILLED = """
import os, signal, sys
from pathlib import Path
from neucmds.backend.files import atomic_file, atomic_folder

calls = 0

def audit(event, arguments):
    global calls
    if event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "open", "shutil.rmtree"):
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)

write = lambda file: file.write(b"new")
for number in range(1, 40):
    place, child = Path(sys.argv[1], str(number)), os.fork()
    if child == 0:
        sys.addaudithook(audit)
        with atomic_file(place / "a") as file:
            write(file)
        atomic_folder(place / "f", {"a": write, "b": write}, overwrite=True, owned=["c"])
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(number)
        break
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL there")
def test_a_killed_process_leaves_every_file_whole(tmp_path):
    new = dict.fromkeys("ab", b"new")
    for number in range(1, 40):
        (tmp_path / str(number) / "f").mkdir(parents=True)
        for name in ("a", "f/a", "f/b", "f/c", "f/of others"):
            (tmp_path / str(number) / name).write_bytes(b"old")
    command = [sys.executable, "-c", KILLED, tmp_path]
    env = os.environ | {"PYTHONPATH": str(SRC)}
    last = int(subprocess.check_output(command, env=env, timeout=60))
    assert last > 8
    for number in range(1, last + 1):
        place = tmp_path / str(number)
        assert (place / "a").read_bytes() in (b"old", b"new")
        held = {path.name: path.read_bytes() for path in place.glob("f/?")}
        assert {"a", "b"} <= set(held)
        assert set(held.values()) <= {b"old", b"new"}
        assert (place / "f" / "of others").exists()
    assert held == new


def test_overwriting_removes_what_the_new_result_lacks_and_keeps_files_of_others(
    tmp_path,
):
    folder = tmp_path / "f"
    (folder / "of others").mkdir(parents=True)
    for name in "abc":
        (folder / name).write_bytes(b"old")
    with pytest.raises(InputError, match="exists already; pass"):
        atomic_folder(folder, {"a": text(b"new")}, overwrite=False)
    atomic_folder(folder, {"a": text(b"new")}, overwrite=True, owned=["b"])
    assert sorted(os.listdir(folder)) == ["a", "c", "of others"]
    assert (folder / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]
    with pytest.raises(InputError, match="is a directory; remove it"):
        atomic_folder(folder, {"of others": text(b"")}, overwrite=True)
