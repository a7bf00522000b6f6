"""Work that was interrupted ends where work that was not does, to the last bit."""

import copy
import os
import signal
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds
from neucmds._backend import checkpoints
from neucmds._backend.arrays import row_blocks
from neucmds._backend.checkpoints import RowCheckpoint, fingerprint
from neucmds._input.pairs import make_pairs
from neucmds._methods.refined import listed_pairs
from neucmds._methods.refined.sparse_pairs import refine_pairs
from neucmds.errors import CheckpointWarning

ROWS = 70_000  # times 100 landmarks: four parts


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(ROWS, 3))


def landmarks(features, seed=0, **settings):
    settings = {"metric": "cityblock", "random_state": seed, "n_jobs": 1, **settings}
    return LandmarkNeucMDS(2, 100, method="neuc+", **settings).fit(features[:500])


def placed_parts(monkeypatch, stop_at=None):
    """Note the first row of every part that is placed; interrupt the work at one of them."""
    place, starts = LandmarkNeucMDS._place, []

    def noted(self, X, start=0, weights=None):
        starts.append(start)
        if len(starts) == stop_at:
            raise KeyboardInterrupt
        return place(self, X, start, weights)

    monkeypatch.setattr(LandmarkNeucMDS, "_place", noted)
    return starts


def interrupt(est, X, monkeypatch, **paths):
    with monkeypatch.context() as patch:
        placed_parts(patch, stop_at=3)
        with pytest.raises(KeyboardInterrupt):
            est.transform(X, **paths)


def test_placement_goes_on_where_it_was_interrupted(features, tmp_path, monkeypatch):
    est, out, kept = landmarks(features), tmp_path / "x.npy", tmp_path / "x.part"
    whole = est.transform(features)
    interrupt(est, features, monkeypatch, out=out, checkpoint=kept)
    assert kept.exists()
    starts = placed_parts(monkeypatch)
    found = est.transform(features, out, checkpoint=kept)
    assert len(starts) == 2
    np.testing.assert_array_equal(found, whole)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_killed_process_leaves_what_it_placed(features, tmp_path, monkeypatch):
    kept = tmp_path / "x.part"
    program = f"""
        import os, signal
        import numpy as np
        from neucmds import LandmarkNeucMDS
        from neucmds._backend import checkpoints

        checkpoints.INTERVAL = 0.0
        place = LandmarkNeucMDS._place
        def killed(self, X, start=0, weights=None):
            if start > {ROWS // 2}:
                os.kill(os.getpid(), signal.SIGKILL)
            return place(self, X, start, weights)

        X = np.random.default_rng(0).normal(size=({ROWS}, 3))
        est = LandmarkNeucMDS(2, 100, method="neuc+", metric="cityblock", random_state=0, n_jobs=1)
        est.fit(X[:500])
        LandmarkNeucMDS._place = killed
        est.transform(X, out={str(tmp_path / "x.npy")!r}, checkpoint={str(kept)!r})
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert kept.exists()
    est = landmarks(features)
    whole, starts = est.transform(features), placed_parts(monkeypatch)
    np.testing.assert_array_equal(est.transform(features, checkpoint=kept), whole)
    assert len(starts) == 2


def test_parts_of_another_model_or_other_input_are_placed_anew(features, tmp_path, monkeypatch):
    est, kept = landmarks(features), tmp_path / "x.part"
    changed = features.copy()
    changed[5] += 1e-9
    for model, X, anew in ((est, changed, 1), (landmarks(features, seed=1), features, 2)):
        interrupt(est, features, monkeypatch, checkpoint=kept)
        with pytest.warns(
            CheckpointWarning, match=f"{anew} of 4 parts were not complete or of another model"
        ):
            found = model.transform(X, checkpoint=kept)
        np.testing.assert_array_equal(found, model.transform(X))


def test_weights_are_part_of_the_input(features, tmp_path, monkeypatch):
    X, kept = features[:30_000], tmp_path / "x.part"
    est = LandmarkNeucMDS(2, 100, metric="cityblock", random_state=0).fit(features[:500])
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    w = np.ones((len(X), 100))
    with monkeypatch.context() as patch:
        placed_parts(patch, stop_at=2)
        with pytest.raises(KeyboardInterrupt):
            est.transform(X, weights=w, checkpoint=kept)
    with pytest.warns(CheckpointWarning, match="1 of 2 parts"):
        est.transform(X, checkpoint=kept)


def test_files_that_are_no_checkpoint_of_this_work_are_refused(features, tmp_path, monkeypatch):
    est, kept = landmarks(features), tmp_path / "x.part"
    kept.write_text("my thesis")
    with pytest.raises(InputError, match="is no checkpoint"):
        est.transform(features, checkpoint=kept)
    assert kept.read_text() == "my thesis"
    kept.unlink()
    interrupt(est, features, monkeypatch, checkpoint=kept)
    with pytest.raises(
        InputError, match=r"of 70000 × 2 coordinates \(<f8, 4 parts\), not of 50 × 2"
    ):
        est.transform(features[:50], checkpoint=kept)
    (tmp_path / "link").symlink_to(kept)
    with pytest.raises(InputError, match="is a link"):
        est.transform(features, checkpoint=tmp_path / "link")


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_two_at_once_are_refused(tmp_path):
    parts = [slice(0, 2), slice(2, 4)]
    first, second = (
        RowCheckpoint(tmp_path / "x", (4, 1), float, parts, b"model") for _ in range(2)
    )
    with first, pytest.raises(InputError, match="in use by another process"), second:
        pass


def test_fingerprints_tell_values_shapes_and_types_apart():
    a = np.arange(4.0)
    things = [a, a + 1, a.reshape(2, 2), a.astype(np.float32), [0.0], "0.0", 0.0, 0, None, {"a": a}]
    assert len({fingerprint(one) for one in things}) == len(things)
    assert fingerprint({"b": 1, "a": a}) == fingerprint({"a": a.copy(), "b": 1})


def test_the_result_is_not_its_own_checkpoint(features, tmp_path, monkeypatch):
    est, starts = landmarks(features), placed_parts(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for out, kept in (("x.npy", "x.npy"), ("x.npy", "./x.npy"), (tmp_path / "x.npy", "x.npy")):
        with pytest.raises(InputError, match="out and checkpoint are the same file"):
            est.transform(features, out, checkpoint=kept)
        with pytest.raises(InputError, match="out and checkpoint are the same file"):
            est.fit_transform(features[:500], out=out, checkpoint=kept)
    assert not starts
    assert not list(tmp_path.iterdir())


def zeroed(content, at):
    return content[:at] + bytes(8) + content[at + 8 :]


@pytest.mark.parametrize("damage", ["zeros", "one bit", "cut"])
def test_damaged_rows_are_placed_anew(features, tmp_path, monkeypatch, damage):
    est, kept = landmarks(features), tmp_path / "x.part"
    whole = est.transform(features)
    interrupt(est, features, monkeypatch, checkpoint=kept)
    content, at = kept.read_bytes(), 512 + 4 * 16 + 80
    bit = bytes([content[at] ^ 1])
    damaged = {
        "zeros": zeroed(content, at),
        "one bit": content[:at] + bit + content[at + 1 :],
        "cut": content[:-8],
    }
    kept.write_bytes(damaged[damage])
    starts = placed_parts(monkeypatch)
    with pytest.warns(CheckpointWarning, match="1 of 4 parts were not complete or of another"):
        found = est.transform(features, checkpoint=kept)
    assert len(starts) == 3
    np.testing.assert_array_equal(found, whole)


def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path):
    kept, parts = tmp_path / "x.part", [slice(0, 2), slice(2, 4)]

    def opened():
        return RowCheckpoint(kept, (4, 1), float, parts, b"model")

    with opened() as checkpoint:
        for part in parts:
            checkpoint.rows(part, np.ones((2, 3)), lambda: np.ones((2, 1)))
    content = kept.read_bytes()
    json_at = content.index(b"{")
    for damaged, why in (
        (content[: 512 + 20], "ends before its first row"),
        (content[:512], "ends before its first row"),
        (content[:300], "header is not whole"),
        (content[: json_at + 5], "header cannot be read"),
        (zeroed(content, json_at), "header cannot be read"),
        (content.replace(b'"rows"', b'"sowr"'), "header is not whole"),
        (content[:json_at] + b"[1]".ljust(512 - json_at) + content[512:], "header is not whole"),
    ):
        kept.write_bytes(damaged)
        with pytest.raises(InputError, match=f"is damaged: .*{why}; remove it, or pass another"):
            opened().__enter__()
        assert kept.read_bytes() == damaged
    kept.write_bytes(content[:5])
    with pytest.raises(InputError, match="is no checkpoint"):
        opened().__enter__()


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_the_file_is_removed_under_its_lock(features, tmp_path, monkeypatch):
    kept, unlink, heard = tmp_path / "x.part", checkpoints.Path.unlink, []

    def watched(path, missing_ok=False):
        if path == kept:
            with pytest.raises(InputError, match="in use by another process"):
                RowCheckpoint(kept, (len(features), 2), float, parts, b"m").__enter__()
            heard.append(path)
        unlink(path, missing_ok=missing_ok)

    est = landmarks(features)
    parts = list(row_blocks(len(features), 100))
    monkeypatch.setattr(checkpoints.Path, "unlink", watched)
    est.transform(features, checkpoint=kept)
    assert heard == [kept]
    assert not kept.exists()


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_a_file_removed_by_another_is_not_gone_on_with(tmp_path, monkeypatch):
    kept, flock = tmp_path / "x", checkpoints.fcntl.flock

    def late(*arguments):
        flock(*arguments)
        kept.unlink()

    monkeypatch.setattr(checkpoints.fcntl, "flock", late)
    with pytest.raises(InputError, match="in use by another process, which has just ended"):
        RowCheckpoint(kept, (2, 1), float, [slice(0, 2)], b"model").__enter__()


@pytest.mark.parametrize("value", [True, "", 3, b"x"])
def test_what_names_no_file_is_refused(features, value):
    est, message = landmarks(features), f"^checkpoint={value!r} must be the name of a file"
    pairs, x = some_pairs()
    with pytest.raises(InputError, match=message):
        est.transform(features, checkpoint=value)
    with pytest.raises(InputError, match=message):
        refine_pairs(pairs, x, [1, 1, -1], checkpoint=value)
    with pytest.raises(InputError, match=message):
        NeucMDS(2, metric="cityblock", n_pairs=20, checkpoint=value).fit(features[:50])


class Scaled:
    """A metric with a value of its own."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, a, b):
        return float(np.abs(a - b).sum() * self.scale)

    def method(self, a, b):
        return self(a, b)


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, a, b):
        return self.scale


def scaled(a, b, scale=1.0):
    return float(np.abs(a - b).sum() * scale)


def enclosing(scale):
    return lambda a, b: scaled(a, b, scale)


def recursive(last):
    def itself(n):
        return last if n == 0 else itself(n - 1)

    return itself


KINDS = [
    Scaled,
    Slotted,
    enclosing,
    recursive,
    lambda value: partial(scaled, scale=value),
    lambda value: partial(enclosing, value),
    lambda value: Scaled(value).method,
    lambda value: enclosing(np.array([value])),
    lambda value: enclosing(np.array([value, "a"], dtype=object)),
    lambda value: enclosing({value, "a", "b"}),
    lambda value: enclosing({"a": value, 1: 2}),
    lambda value: enclosing(Scaled(value)),
    lambda value: lambda a, b, scale=value: scale,
    lambda value: np.random.default_rng(int(value)),
]


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprints_of_callables_are_of_what_they_hold(kind):
    kept = [kind(2.0), kind(2.0), kind(3.0)]  # all at once: no two have one address
    first, same, other = map(fingerprint, kept)
    assert first == same != other


def test_functions_of_one_name_differ_by_their_code():
    functions = [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a + 1,
        lambda a, b: a + 2,
        lambda a, b: np.abs(a),
        lambda a, b: np.sign(a),
        lambda a, b: lambda: 1,
        lambda a, b: lambda: 2,
        np.add,
        np.subtract,
        np.linalg.norm,
        os.getcwd,
        "a".count,
        "b".count,
        os,
        Scaled,
    ]
    assert len({fingerprint(one) for one in functions}) == len(functions)


def test_a_metric_with_state_has_one_fingerprint_in_every_process():
    program = """
        from functools import partial
        from neucmds._backend.checkpoints import fingerprint

        class Metric:
            def __init__(self):
                self.names = {"a", "b", "c"}
            def __call__(self, a, b):
                return abs(a - b).sum() if a.size in {"x", "y", 3} else 0.0

        junk = [object() for _ in range(%d)]
        print(fingerprint(Metric(), partial(Metric(), p=2), lambda a, b: a in {"u", "v"}).hex())
    """
    ends = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program % size)],
            env={**os.environ, "PYTHONHASHSEED": str(size)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for size in (1, 10_000)
    ]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("metric", [partial(scaled, scale=2.0), Scaled(2.0)])
def test_placement_goes_on_with_a_metric_that_holds_state(metric, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    X, kept = np.random.default_rng(0).normal(size=(60, 3)), tmp_path / "x.part"

    def fitted(metric):
        return LandmarkNeucMDS(2, 12, metric=metric, random_state=0, n_jobs=1).fit(X)

    with monkeypatch.context() as patch:  # all is placed, and the end is not reached
        patch.setattr(RowCheckpoint, "remove", lambda self: None)
        whole = fitted(metric).transform(X, checkpoint=kept)
    starts = placed_parts(monkeypatch)
    found = fitted(copy.deepcopy(metric)).transform(X, checkpoint=kept)
    assert not starts
    np.testing.assert_array_equal(found, whole)


def some_pairs(seed=0):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(60, 1)
    listed = rng.random(i.size) < 0.6
    i, j = i[listed], j[listed]
    return make_pairs(60, i, j, rng.uniform(0.5, 3.0, i.size)), rng.standard_normal((60, 3))


def stop_after(iterations):
    def listen(iteration, value):
        if iteration == iterations:
            raise KeyboardInterrupt

    return listen


@pytest.mark.parametrize("small", [0, 2**17])
@pytest.mark.parametrize("loss", ["relative", "distance"])
def test_a_descent_on_pairs_ends_the_same(loss, small, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    monkeypatch.setattr(listed_pairs, "SMALL", small)
    pairs, x = some_pairs()
    settings = {"max_iter": 60, "tol": 1e-3, "gradient_tol": 1e-4}
    whole = refine_pairs(pairs, x, [1, 1, -1], loss, **settings)
    kept = tmp_path / "fit.npz"
    for stop in (2, 17, 44):  # before anything is kept, and twice on the way
        with pytest.raises(KeyboardInterrupt):
            refine_pairs(
                pairs, x, [1, 1, -1], loss, callback=stop_after(stop), checkpoint=kept, **settings
            )
    assert kept.exists()
    heard = []
    end = refine_pairs(
        pairs,
        x,
        [1, 1, -1],
        loss,
        callback=lambda iteration, _: heard.append(iteration),
        checkpoint=kept,
        **settings,
    )
    assert heard[0] > 20
    np.testing.assert_array_equal(end.coordinates, whole.coordinates)
    assert end.history == whole.history
    assert not kept.exists()


def test_the_checkpoint_of_another_fit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    pairs, x = some_pairs()
    kept = tmp_path / "fit.npz"
    with pytest.raises(KeyboardInterrupt):
        refine_pairs(pairs, x, [1, 1, -1], callback=stop_after(20), checkpoint=kept)
    for other in ((pairs, x + 1e-12, [1, 1, -1]), (*some_pairs(1), [1, 1, -1])):
        with pytest.raises(InputError, match="is the checkpoint of another fit"):
            refine_pairs(*other, checkpoint=kept)
    with np.load(kept) as saved:
        fields = dict(saved)
    del fields["direction"]
    np.savez(kept, **fields)
    with pytest.raises(InputError, match="is damaged: it lacks direction; remove it"):
        refine_pairs(pairs, x, [1, 1, -1], checkpoint=kept)
    np.savez(kept, a=1)
    with pytest.raises(InputError, match="is no checkpoint"):
        refine_pairs(pairs, x, [1, 1, -1], checkpoint=kept)


def test_checkpoints_of_sampled_pairs_and_none_of_a_matrix(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    X, kept = np.random.default_rng(0).normal(size=(400, 4)), tmp_path / "fit.npz"
    settings = {"metric": "cityblock", "loss": "relative", "n_pairs": 80, "max_iter": 30}
    whole = NeucMDS(3, random_state=0, **settings).fit(X)
    stopped = NeucMDS(3, random_state=0, callback=stop_after(12), checkpoint=kept, **settings)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X)
    assert kept.exists()
    end = NeucMDS(3, random_state=0, checkpoint=kept, **settings).fit(X)
    np.testing.assert_array_equal(end.embedding_, whole.embedding_)
    with pytest.raises(InputError, match="checkpoint is for fits of listed pairs"):
        neuc_mds(np.ones((5, 5)) - np.eye(5), checkpoint=kept)
