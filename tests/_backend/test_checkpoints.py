"""Work that was interrupted ends where work that was not does, to the last bit."""

import os
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest

from neucmds import InputError, NeucMDS, neuc_mds
from neucmds._backend import checkpoints
from neucmds._backend.checkpoints import fingerprint
from neucmds._input.pairs import make_pairs
from neucmds._methods.refined import listed_pairs
from neucmds._methods.refined.sparse_pairs import refine_pairs


def test_fingerprints_tell_values_shapes_and_types_apart():
    a = np.arange(4.0)
    things = [a, a + 1, a.reshape(2, 2), a.astype(np.float32), [0.0], "0.0", 0.0, 0, None, {"a": a}]
    assert len({fingerprint(one) for one in things}) == len(things)
    assert fingerprint({"b": 1, "a": a}) == fingerprint({"a": a.copy(), "b": 1})


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


def some_pairs(seed=0):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(60, 1)
    listed = rng.random(i.size) < 0.6
    i, j = i[listed], j[listed]
    return make_pairs(60, i, j, rng.uniform(0.5, 3.0, i.size)), rng.standard_normal((60, 3))


def stop_after(iterations):
    def listen(iteration, *rest):
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
