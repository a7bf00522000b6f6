"""Files and folders are there whole or not at all, whatever interrupts the writing."""

import os
import stat
from pathlib import Path

import pytest

from neucmds import InputError
from neucmds._backend.files import atomic_file, atomic_folder


def text(content):
    return lambda file: file.write(content)


def test_a_file_appears_when_it_is_complete_in_the_place_of_a_link(tmp_path):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "a").symlink_to("precious")
    with (
        pytest.raises(FileExistsError, match="exists"),
        atomic_file(tmp_path / "a", overwrite=False),
    ):
        pass
    with atomic_file(tmp_path / "a") as file:
        file.write(b"all of it")
        assert (tmp_path / "a").read_bytes() == b"precious"
    assert (tmp_path / "a").read_bytes() == b"all of it"
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["a", "precious"]


@pytest.mark.skipif(os.name != "posix", reason="there are no modes of files there")
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_folder_is_made_with_all_its_files_by_the_umask(tmp_path, umask):
    folder = tmp_path / "deep" / "f"
    before = os.umask(umask)
    try:
        written = atomic_folder(folder, {"a": text(b"1"), "b": text(b"2")}, overwrite=False)
    finally:
        os.umask(before)
    assert written == [folder / "a", folder / "b"]
    assert [path.read_bytes() for path in written] == [b"1", b"2"]
    assert os.listdir(folder.parent) == ["f"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, *written)]
    assert modes == [0o777 & ~umask, 0o666 & ~umask, 0o666 & ~umask]


@pytest.mark.parametrize("failure", [OSError("no"), KeyboardInterrupt(), SystemExit(1)])
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
        atomic_folder(tmp_path / "f", {"a": text(b"1"), "b": fail}, overwrite=True)
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


def test_overwriting_removes_what_the_new_result_lacks_and_keeps_files_of_others(tmp_path):
    folder = tmp_path / "f"
    (folder / "of others").mkdir(parents=True)
    for name in "abc":
        (folder / name).write_bytes(b"old")
    with pytest.raises(FileExistsError):
        atomic_folder(folder, {"a": text(b"new")}, overwrite=False)
    atomic_folder(folder, {"a": text(b"new")}, overwrite=True, owned=["b"])
    assert sorted(os.listdir(folder)) == ["a", "c", "of others"]
    assert (folder / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]
    with pytest.raises(InputError, match="is a directory; remove it"):
        atomic_folder(folder, {"of others": text(b"")}, overwrite=True)
