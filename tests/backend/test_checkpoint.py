"""Interrupted work goes on from its checkpoint, and from no other."""

import os
from contextlib import suppress

import numpy as np
import pytest

from neucmds import InputError
from neucmds.backend import checkpoint
from neucmds.backend.checkpoint import Checkpoint, npy_output

VALUES = np.arange(40.0).reshape(10, 4)


@pytest.fixture(autouse=True)
def saved_at_once(monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)


def write(folder, interrupted_at=None):
    """Write VALUES two rows at a time, all or some; return the first that was missing."""
    kept = Checkpoint(folder / "kept", "a model")
    with npy_output(
        folder / "a.npy", VALUES.shape, np.float64, kept
    ) as target:
        first = len(VALUES) - target.shape[0]
        for start in range(first, 10, 2):
            if start == interrupted_at:
                raise KeyboardInterrupt
            target[start - first : start - first + 2] = VALUES[
                start : start + 2
            ]
    return first


def test_what_was_saved_comes_back_and_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 1e9)
    x = np.arange(6.0).reshape(3, 2)
    kept = Checkpoint(tmp_path / "a", x, {"loss": "squared"})
    assert kept.held == {}
    kept.save(x=x, iteration=7)
    assert os.listdir(tmp_path) == []
    kept.save(x=x, iteration=7, at_once=True)
    again = Checkpoint(tmp_path / "a", x.copy(), {"loss": "squared"})
    np.testing.assert_array_equal(again.held["x"], x)
    assert int(again.held["iteration"]) == 7
    again.remove()
    assert os.listdir(tmp_path) == []


def test_what_is_no_checkpoint_of_this_work_is_refused(tmp_path):
    Checkpoint(tmp_path / "other", VALUES, "squared").save(x=1)
    (tmp_path / "text").write_text("precious")
    np.savez(tmp_path / "arrays.npz", x=VALUES)
    for path, message in [
        (tmp_path / "other", "another D or other parameters"),
        (tmp_path / "text", "not a checkpoint"),
        (tmp_path / "arrays.npz", "is no checkpoint of this fit"),
        (tmp_path, "is a directory"),
        ("", "the name of a file"),
        (3, "the name of a file"),
    ]:
        with pytest.raises(InputError, match=message):
            Checkpoint(path, VALUES + 1, "squared")
    with pytest.raises(InputError, match="cannot identify this work"):
        Checkpoint(tmp_path / "new", lambda x: x)
    kept = Checkpoint(tmp_path / "a.npy", 1)
    for out, message in [(None, "pass it"), (tmp_path / "a.npy", "two names")]:
        with pytest.raises(InputError, match=message):
            npy_output(out, VALUES.shape, np.float64, kept).__enter__()
    assert (tmp_path / "text").read_text() == "precious"


@pytest.mark.parametrize(
    ("at", "lost"), [(0, False), (2, False), (8, False), (4, True)]
)
def test_rows_go_on_at_the_first_that_is_missing(tmp_path, at, lost):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, at)
    assert not (tmp_path / "a.npy").exists()
    if lost:
        (tmp_path / "a.npy.part").unlink()
    assert write(tmp_path) == (0 if lost else at)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), VALUES)
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("at", [2, None])
def test_the_same_call_may_run_twice_at_once(tmp_path, monkeypatch, at):
    monkeypatch.setattr(checkpoint, "INTERVAL", 1e9)
    kept = Checkpoint(tmp_path / "kept", "a model")
    with npy_output(
        tmp_path / "a.npy", VALUES.shape, np.float64, kept
    ) as target:
        target[:4] = VALUES[:4]
        with suppress(KeyboardInterrupt):
            write(tmp_path, at)
        target[4:10] = VALUES[4:]
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), VALUES)
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("shape", [(6, 2), (0, 3), (4, 0)])
def test_a_npy_file_is_written_row_by_row(tmp_path, shape):
    values = np.arange(float(np.prod(shape))).reshape(shape)
    with npy_output(tmp_path / "a.npy", shape, np.float32) as target:
        target[0:2] = values[:2]
        target[min(2, shape[0]) : shape[0]] = values[2:]
    found = np.load(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, values)
    assert found.dtype == np.float32
