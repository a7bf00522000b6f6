"""Files and folders are there whole or not at all, whatever interrupts the writing."""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from neucmds import InputError
from neucmds._backend import files
from neucmds._backend.files import atomic_file, atomic_folder, npy_output, read_npz
from neucmds.errors import FileFormatError

SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(params=["nameless", "hidden"])
def either_way(request, monkeypatch):
    """Write as this file system allows it, and as it is done where files must have a name."""
    if request.param == "hidden":
        monkeypatch.setattr(files, "_open_nameless", lambda folder: None)
    return request.param


def python(code, *args, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        check=False,
        timeout=60,
        **options,
    )


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


# One file


def test_a_file_appears_when_it_is_complete(tmp_path, either_way):
    with atomic_file(tmp_path / "a") as file:
        file.write(b"all of it")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"all of it"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("failure", [OSError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, either_way, failure):
    (tmp_path / "a").write_bytes(b"old")

    def write_half():
        with atomic_file(tmp_path / "a") as file:
            file.write(b"new")
            raise failure

    with pytest.raises(type(failure)):
        write_half()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(os.name != "posix", reason="there are no modes of files there")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_mode_follows_the_umask(tmp_path, either_way, umask):
    before = os.umask(umask)
    try:
        with atomic_file(tmp_path / "a") as file:
            file.write(b"x")
        atomic_folder(tmp_path / "f", {"b": lambda file: file.write(b"x")}, overwrite=False)
        assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o777 & ~umask
        for path in (tmp_path / "a", tmp_path / "f" / "b"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    finally:
        os.umask(before)


def test_the_umask_is_not_touched(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("umask was called"))
    with atomic_file(tmp_path / "a") as file:
        file.write(b"x")
    atomic_folder(tmp_path / "f", {"b": lambda file: file.write(b"x")}, overwrite=False)


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
def test_a_link_is_replaced_and_not_followed(tmp_path, either_way):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "a").symlink_to("precious")
    with atomic_file(tmp_path / "a") as file:
        file.write(b"x")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "a").is_symlink()


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


def test_of_many_writers_that_do_not_overwrite_one_succeeds(tmp_path, either_way):
    start, won, lost = threading.Barrier(8), [], []

    def write(i):
        try:
            with atomic_file(tmp_path / "a", overwrite=False) as file:
                file.write(b"%d" % i)
                start.wait(10)
            won.append(i)
        except FileExistsError as problem:
            lost.append(problem.filename)

    writers = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(won) == 1
    assert lost == 7 * [str(tmp_path / "a")]
    assert (tmp_path / "a").read_bytes() == b"%d" % won[0]
    assert os.listdir(tmp_path) == ["a"]


def test_a_killed_process_leaves_nothing(tmp_path):
    if files._open_nameless(tmp_path) is None:
        pytest.skip("files must have a name on this file system")
    code = """
import os, signal, sys
from neucmds._backend.files import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(bytes(100_000))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert python(code, tmp_path / "a").returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_one_error_that_names_the_file(small_disk, either_way):
    full = pytest.raises(OSError, match=r"No space left.*a'")
    with full as caught, atomic_file(small_disk / "a") as file:
        file.write(bytes(3_000_000))
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match=r"No space left.*b'"):
        atomic_folder(
            small_disk / "f",
            {"a": lambda file: file.write(b"x"), "b": lambda file: file.write(bytes(3_000_000))},
            overwrite=False,
        )
    assert os.listdir(small_disk) == []


# A npy file


def test_rows_come_in_any_order(tmp_path):
    values = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    with npy_output(tmp_path / "a.npy", values.shape, values.dtype) as target:
        for rows in (slice(6, 10), slice(0, 2), slice(2, 6)):
            target[rows] = values[rows]
        with pytest.raises(ValueError, match="do not have shape"):
            target[0:2] = values
    found = np.load(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, values)
    assert found.dtype == np.float32


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_empty_arrays_are_files_too(tmp_path, shape):
    with npy_output(tmp_path / "a.npy", shape, np.float64) as target:
        target[0 : shape[0]] = np.empty(shape)
    assert np.load(tmp_path / "a.npy").shape == shape


def test_a_full_disk_is_known_before_the_work(small_disk):
    full = pytest.raises(OSError, match=r"No space left.*3 MB are needed.*a\.npy")
    with full as caught, npy_output(small_disk / "a.npy", (3000, 125), np.float64):
        pytest.fail("the work began")
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(small_disk) == []


def test_a_disk_that_cannot_reserve_is_full_when_written(small_disk, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    full = pytest.raises(OSError, match=r"No space left.*a\.npy")
    with full, npy_output(small_disk / "a.npy", (3000, 125), np.float64) as target:
        target[0:3000] = np.ones((3000, 125))
    assert os.listdir(small_disk) == []


@pytest.mark.slow
def test_landmarks_on_a_full_disk_raise_and_do_not_die(small_disk):
    # The process of a sparse map ended by SIGBUS.
    code = """
import sys
import numpy as np
from neucmds import LandmarkNeucMDS
rows = np.random.default_rng(0).normal(size=(60_000, 5))
est = LandmarkNeucMDS(4, 50, metric="euclidean", random_state=0).fit(rows[:1000])
try:
    est.transform(rows, out=sys.argv[1])
except OSError as problem:
    print(problem)
"""
    done = python(code, small_disk / "out.npy")
    assert done.returncode == 0, done.stderr
    assert "No space left on device (1.92 MB are needed)" in done.stdout
    assert os.listdir(small_disk) == []


@pytest.mark.skipif(os.name != "posix", reason="there is no RLIMIT_FSIZE there")
def test_a_limit_on_file_sizes_is_one_error(tmp_path):
    code = """
import resource, sys
import numpy as np
from neucmds._backend.files import atomic_file, npy_output
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for write in (
    lambda: npy_output(sys.argv[1] + "/a.npy", (1000, 100), float),
    lambda: atomic_file(sys.argv[1] + "/b"),
):
    try:
        with write() as file:
            file.write(bytes(800_000))
    except OSError as problem:
        print(problem.errno, problem.filename)
"""
    done = python(code, tmp_path)
    lines = [f"{errno.EFBIG} {tmp_path}/{name}" for name in ("a.npy", "b")]
    assert done.stdout.splitlines() == lines, done.stderr
    assert os.listdir(tmp_path) == []


# A folder


def text(content):
    return lambda file: file.write(content.encode())


def fail(file):
    file.write(b"half")
    raise RuntimeError("no")


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_folder_is_made_with_all_its_files(tmp_path, either_way):
    folder = tmp_path / "deep" / "out"
    found = atomic_folder(folder, {"b": text("2"), "a": text("1")}, overwrite=False)
    assert found == [folder / "b", folder / "a"]
    assert contents(folder) == {"a": "1", "b": "2"}
    assert os.listdir(folder.parent) == ["out"]


def test_if_one_file_fails_none_is_written_and_no_folder_made(tmp_path, either_way):
    with pytest.raises(RuntimeError, match="no"):
        atomic_folder(tmp_path / "deep" / "out", {"a": text("1"), "b": fail}, overwrite=False)
    assert os.listdir(tmp_path) == []


def test_files_of_others_stay_and_taken_names_are_refused(tmp_path, either_way):
    (tmp_path / "mine").write_text("mine")
    atomic_folder(tmp_path, {"a": text("1")}, overwrite=False, owned=("a", "b"))
    with pytest.raises(FileExistsError) as caught:
        atomic_folder(tmp_path, {"b": text("2")}, overwrite=False, owned=("a", "b"))
    assert caught.value.filename == str(tmp_path / "a")
    assert contents(tmp_path) == {"mine": "mine", "a": "1"}


def test_overwriting_removes_what_the_new_result_lacks(tmp_path, either_way):
    for name in ("a", "b", "mine"):
        (tmp_path / name).write_text("old")
    atomic_folder(tmp_path, {"a": text("new")}, overwrite=True, owned=("a", "b", "c"))
    assert contents(tmp_path) == {"a": "new", "mine": "old"}


def test_a_folder_in_the_place_of_a_file_is_not_removed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "precious").write_text("precious")
    with pytest.raises(InputError, match="is a directory"):
        atomic_folder(tmp_path, {"a": text("new")}, overwrite=True)
    assert (tmp_path / "a" / "precious").read_text() == "precious"
    assert os.listdir(tmp_path) == ["a"]


ONE_BY_ONE = {
    "not supported": lambda folder, patch: patch.setattr(files, "_exchange", _unsupported),
    "beside a folder": lambda folder, patch: (folder / "theirs").mkdir(),
    "in the working directory": lambda folder, patch: patch.chdir(folder),
}


def _unsupported(one, other):
    raise OSError(errno.EINVAL, "no such thing here")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there in one step")
def test_a_folder_is_exchanged_in_one_step(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir(mode=0o750)
    for name in ("a", "b", "mine"):
        (folder / name).write_text("old")
    (folder / "link").symlink_to("nowhere")
    monkeypatch.setattr(files, "_swap_each", fail)
    theirs, before = (folder / "mine").stat(), folder.stat()
    exchange = files._exchange

    def late(one, other):
        (folder / "late").write_text("late")
        (folder / "changed").write_text("changed")
        exchange(one, other)

    monkeypatch.setattr(files, "_exchange", late)
    atomic_folder(folder, {"a": text("new")}, overwrite=True, owned=("b",))
    assert os.path.samestat((folder / "mine").stat(), theirs)
    assert os.readlink(folder / "link") == "nowhere"
    (folder / "link").unlink()
    assert contents(folder) == {"a": "new", "mine": "old", "late": "late", "changed": "changed"}
    assert folder.stat().st_mode == before.st_mode
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("why", ONE_BY_ONE)
def test_elsewhere_files_are_exchanged_one_by_one(tmp_path, monkeypatch, why):
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("a", "b", "mine"):
        (folder / name).write_text("old")
    ONE_BY_ONE[why](folder, monkeypatch)
    before = folder.stat()
    atomic_folder(folder, {"a": text("new")}, overwrite=True, owned=("b",))
    if (folder / "theirs").is_dir():
        (folder / "theirs").rmdir()
    assert contents(folder) == {"a": "new", "mine": "old"}
    assert os.path.samestat(folder.stat(), before)
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("broken", range(1, 6))
def test_an_exchange_that_breaks_off_is_undone(tmp_path, monkeypatch, broken):
    monkeypatch.setattr(files, "_exchange", _unsupported)
    old = {"a": "old", "b": "old", "d": "old"}
    for name, content in old.items():
        (tmp_path / name).write_text(content)
    rename, calls = os.rename, []

    def interrupted(source, target):
        calls.append(source)
        if len(calls) == broken:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    new = {"a": text("new"), "b": text("new"), "c": text("new")}
    with pytest.raises(KeyboardInterrupt):
        atomic_folder(tmp_path, new, overwrite=True, owned=("d",))
    assert contents(tmp_path) == old


WRITERS = """
import sys, time
from pathlib import Path
from neucmds._backend.files import atomic_folder
folder, start, mark = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3].encode()
time.sleep(max(0, start - time.time()))
writers = {name: lambda file: file.write(mark) for name in "abc"}
try:
    atomic_folder(folder, writers, overwrite=sys.argv[4] == "force")
    print("won")
except FileExistsError:
    print("lost")
"""


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("force", [False, True])
def test_of_many_processes_one_wins_and_nothing_is_mixed(tmp_path, there, force):
    folder = tmp_path / "out"
    if there:
        folder.mkdir()
    at = time.time() + 1.5
    command = [sys.executable, "-c", WRITERS, folder, at]
    processes = [
        subprocess.Popen(
            [*map(str, command), str(i), "force" if force else "no"],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(SRC)},
        )
        for i in range(4)
    ]
    outcomes = [process.communicate(timeout=60)[0].strip() for process in processes]
    found = contents(folder)
    assert set(found) == {"a", "b", "c"}
    assert len(set(found.values())) == 1
    if force:
        assert outcomes == ["won"] * 4
    else:
        assert sorted(outcomes) == ["lost", "lost", "lost", "won"]
        assert set(found.values()) == {str(outcomes.index("won"))}
    assert os.listdir(tmp_path) == ["out"]


# Reading npz


def packed(path, compression=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def npy(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def test_arrays_come_back(tmp_path):
    a, b = np.arange(6.0).reshape(2, 3), np.asarray("text")
    np.savez(tmp_path / "x.npz", a=a, b=b)
    found = read_npz(tmp_path / "x.npz")
    np.testing.assert_array_equal(found["a"], a)
    assert str(found["b"]) == "text"
    assert found["a"].flags.writeable


def test_what_unpacks_to_too_much_is_refused(tmp_path):
    bomb = packed(tmp_path / "x.npz", zipfile.ZIP_DEFLATED, a=npy(np.zeros(2_000_000)))
    with pytest.raises(FileFormatError, match="unpacks to 16 MB, more than 100 times its size"):
        read_npz(bomb)


def test_a_header_that_lies_takes_no_memory(tmp_path):
    data = npy(np.zeros(3)).replace(b"(3,), ", b"(9999999999999,), ", 1)
    with pytest.raises(FileFormatError, match="does not have the size it states"):
        read_npz(packed(tmp_path / "x.npz", a=data))


def test_devices_pipes_and_pickles_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe", tmp_path):
        with pytest.raises(FileFormatError, match="not a regular file"):
            read_npz(Path(path))
    np.savez(tmp_path / "x.npz", a=np.asarray([{}], dtype=object))
    with pytest.raises(FileFormatError, match=r"x\.npz"):
        read_npz(tmp_path / "x.npz")


@pytest.mark.slow
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_damaged_bytes_are_one_error(tmp_path, compression):
    rng = np.random.default_rng(0)
    path = packed(tmp_path / "x.npz", compression, a=npy(np.arange(20.0)), b=npy(np.arange(3)))
    good, said = path.read_bytes(), []
    for _ in range(400):
        data = bytearray(good)
        for at in rng.integers(len(good), size=rng.integers(1, 4)):
            data[at] = rng.integers(256)
        path.write_bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.3 else data)
        try:
            read_npz(path)
        except FileFormatError as problem:
            said.append(str(problem))
    assert len(said) > 200
    assert not any("\n" in message for message in said)
