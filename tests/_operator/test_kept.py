"""A fit of a D outside memory that was interrupted ends as if it had not been, to the last bit."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, NeucMDS, neuc_mds
from neucmds._backend.checkpoints import StepCheckpoint
from neucmds._operator import BlockedGram, FeatureGram, choose
from neucmds._operator.single_precision import RoundedGram
from neucmds._spectrum import orthogonal
from neucmds.errors import CheckpointWarning

N = 640


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr(choose, "available_memory", lambda: 3_000_000)  # D has 3.3 MB


def some_points(seed=0):
    return np.random.default_rng(seed).normal(size=(N, 6)) * np.linspace(3, 1, 6)


def some_distances(seed=0):
    return squareform(pdist(some_points(seed), "cityblock"))


@pytest.fixture(scope="module")
def distances():
    return some_distances()


def as_npy(D, folder):
    np.save(folder / "D.npy", D)
    return folder / "D.npy"


def as_single_npy(D, folder):
    return BlockedGram(as_npy(D.astype(np.float32), folder), max_memory="1MB")


def as_averaged(D, folder):
    return BlockedGram(as_npy(D, folder), symmetrize=True, max_memory="6MB")


def as_rounded_copy(D, folder):
    gram = BlockedGram(as_npy(D, folder), max_memory="3MB")
    gram.block_rows = 64
    assert isinstance(gram.rounded(), RoundedGram)
    return gram


def as_zarr(D, folder):
    zarr = pytest.importorskip("zarr")
    store = zarr.open(
        str(folder / "D.zarr"), mode="w", shape=D.shape, dtype=D.dtype, chunks=(160, N)
    )
    store[:] = D
    return BlockedGram(store, max_memory="4MB")


def as_function(D, folder):
    return BlockedGram(lambda start, stop: D[start:stop], n=N, max_memory="4MB")


def as_dask(D, folder):
    return pytest.importorskip("dask.array").from_array(D, chunks=(160, 160))


def as_features(D, folder):
    return FeatureGram(some_points(), "euclidean", params={"power": 1.5})


SOURCES = [
    as_npy,
    as_single_npy,
    as_averaged,
    as_rounded_copy,
    as_zarr,
    as_function,
    as_dask,
    as_features,
]


def made_steps(monkeypatch, stop_at=None):
    """Note every step that is made and not found; interrupt the work in one of them."""
    append, made = StepCheckpoint._append, []

    def noted(self, *record):
        if len(made) == stop_at:
            raise KeyboardInterrupt
        made.append(self.number)
        append(self, *record)

    monkeypatch.setattr(StepCheckpoint, "_append", noted)
    return made


def interrupt(monkeypatch, stop_at, D, *arguments, **settings):
    with monkeypatch.context() as patch:
        made_steps(patch, stop_at)
        with pytest.raises(KeyboardInterrupt):
            neuc_mds(D, *arguments, **settings)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.coordinates, expected.coordinates)
    np.testing.assert_array_equal(found.signs, expected.signs)
    np.testing.assert_array_equal(found.eigenvalues, expected.eigenvalues)
    assert found.stress_terms == expected.stress_terms
    assert found.history == expected.history


@pytest.mark.parametrize(
    ("source", "method"),
    [(as_npy, "neuc+"), (as_npy, "exact"), *((source, "refined") for source in SOURCES)],
)
def test_a_fit_goes_on_after_the_pass_it_was_interrupted_in(
    source, method, distances, tmp_path, monkeypatch
):
    kept, settings = tmp_path / "fit.part", {"random_state": 3}
    whole = neuc_mds(source(distances, tmp_path), 5, method, **settings)
    with monkeypatch.context() as patch:
        made = made_steps(patch)
        D = source(distances, tmp_path)
        assert_same(neuc_mds(D, 5, method, checkpoint=kept, **settings), whole)
        steps = len(made)
    assert steps > 8
    assert not kept.exists()
    for stop in (1, steps // 2, steps - 1):
        interrupt(monkeypatch, stop, D, 5, method, checkpoint=kept, **settings)
        with monkeypatch.context() as patch:
            made = made_steps(patch)
            assert_same(neuc_mds(D, 5, method, checkpoint=kept, **settings), whole)
            assert len(made) == steps - stop
        assert not kept.exists()


def test_what_is_in_the_file_takes_no_pass(distances, tmp_path, monkeypatch):
    path, kept = as_npy(distances, tmp_path), tmp_path / "fit.part"
    passes = []

    def fit(**more):
        passes.clear()
        return neuc_mds(
            path,
            5,
            callback=lambda *heard: passes.append(heard),
            **more,
        )

    whole = fit()
    total = len({what for _, total, what in passes if total == N})
    interrupt(monkeypatch, total - 2, path, 5, checkpoint=kept)
    assert_same(fit(checkpoint=kept), whole)
    assert len({what for _, total, what in passes if total == N}) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has neither fork nor SIGKILL")
def test_killed_at_random_moments_it_ends_the_same(distances, tmp_path):
    path = as_npy(distances, tmp_path)
    whole = neuc_mds(path, 5)
    program = f"""
        import os, random, signal, time
        import numpy as np
        from neucmds import neuc_mds
        from neucmds._operator import choose

        choose.available_memory = lambda: 3_000_000

        def fit():
            wait = lambda *where: time.sleep(0.001)
            kept = {str(tmp_path / "fit.part")!r}
            return neuc_mds({str(path)!r}, 5, checkpoint=kept, callback=wait)

        begin, moments = time.monotonic(), random.Random(0)
        whole, seconds, killed = fit(), time.monotonic() - begin, 0
        while killed < 12:
            child = os.fork()
            if not child:
                fit()
                os._exit(0)
            time.sleep(moments.uniform(0, 0.5 * seconds))
            os.kill(child, signal.SIGKILL)
            killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        found = fit()
        np.savez({str(tmp_path / "ends.npz")!r}, whole=whole.coordinates, found=found.coordinates)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    assert not (tmp_path / "fit.part").exists()
    with np.load(tmp_path / "ends.npz") as ends:
        np.testing.assert_array_equal(ends["whole"], whole.coordinates)
        np.testing.assert_array_equal(ends["found"], whole.coordinates)


def zeroed(content, part):
    return content[: part.start] + bytes(part.stop - part.start) + content[part.stop :]


def test_a_result_that_is_not_whole_is_made_again(distances, tmp_path, monkeypatch):
    path, kept = as_npy(distances, tmp_path), tmp_path / "fit.part"
    whole = neuc_mds(path, 5, "neuc+")
    interrupt(monkeypatch, 3, path, 5, "neuc+", checkpoint=kept)
    content = kept.read_bytes()
    first = StepCheckpoint.header_size + 33 + 8 * (N + 1)  # moments, and then a product
    for size, left in (
        (len(content) - 1, 2),
        (first + 40, 1),
        (first + 33, 1),
        (first + 20, 1),
        (first, 1),
        (slice(first, len(content)), 1),
        (first - 1, 0),
        (StepCheckpoint.header_size, 0),
    ):
        lost = isinstance(size, slice)  # the length of a file may be there before its content is
        kept.write_bytes(zeroed(content, size) if lost else content[:size])
        with monkeypatch.context() as patch:
            made = made_steps(patch)
            found = neuc_mds(path, 5, "neuc+", checkpoint=kept)
        assert made[0] == left + 1
        assert_same(found, whole)


@pytest.mark.parametrize("at", [-1, 20, 32, 40])
def test_a_damaged_result_is_made_again_with_a_warning(at, distances, tmp_path, monkeypatch):
    path, kept = as_npy(distances, tmp_path), tmp_path / "fit.part"
    whole = neuc_mds(path, 5, "neuc+")
    interrupt(monkeypatch, 4, path, 5, "neuc+", checkpoint=kept)
    content = bytearray(kept.read_bytes())
    first = StepCheckpoint.header_size + 33 + 8 * (N + 1)
    content[first + at] ^= 1
    kept.write_bytes(content)
    made = made_steps(monkeypatch)
    step = 1 if at < 0 else 2
    with pytest.warns(CheckpointWarning, match=f"kept from step {step} on was damaged"):
        found = neuc_mds(path, 5, "neuc+", checkpoint=kept)
    assert made[0] == step
    assert_same(found, whole)


def test_what_was_computed_otherwise_is_refused_and_left_as_it_is(distances, tmp_path, monkeypatch):
    path, kept = as_npy(distances, tmp_path), tmp_path / "fit.part"
    settings = {"checkpoint": kept}
    interrupt(monkeypatch, 6, path, 5, **settings)
    content = kept.read_bytes()
    normal = np.random.default_rng(1).normal
    with monkeypatch.context() as patch:  # as if another start had been drawn
        patch.setattr(orthogonal, "uniform_rows", lambda count, basis, _: normal(size=(count, N)))
        with pytest.raises(
            InputError,
            match="was computed otherwise from step 2 on",
        ):
            neuc_mds(path, 5, **settings)
    assert kept.read_bytes() == content
    assert_same(neuc_mds(path, 5, **settings), neuc_mds(path, 5))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("n_components", 6),
        ("n_components", (3, 2)),
        ("method", "exact"),
        ("tol", 1e-6),
        ("random_state", 1),
        ("random_state", np.random.default_rng(0)),
        ("max_iter", 7),
    ],
)
def test_other_settings_are_refused_by_name(name, other, distances, tmp_path, monkeypatch):
    path, kept = as_npy(distances, tmp_path), tmp_path / "fit.part"
    settings = {"n_components": 5, "method": "neuc+", "random_state": 0}
    interrupt(monkeypatch, 3, path, checkpoint=kept, **settings)
    content = kept.read_bytes()
    with pytest.raises(
        InputError, match=f"is the checkpoint of another fit, with another {name}; remove it, or"
    ):
        neuc_mds(path, checkpoint=kept, **{**settings, name: other})
    assert kept.read_bytes() == content


def with_one_entry(D):
    other = D.copy()
    other[300, 21] = other[21, 300] = 1.5
    return other


@pytest.mark.parametrize("source", [one for one in SOURCES if one != as_features])
def test_another_d_is_refused(source, distances, tmp_path, monkeypatch):
    kept = tmp_path / "fit.part"
    settings = {"checkpoint": kept}
    interrupt(monkeypatch, 3, source(distances, tmp_path), 5, **settings)
    for other in (with_one_entry(distances), some_distances(1), 2 * distances):
        with pytest.raises(InputError, match="is the checkpoint of another fit, with another D;"):
            neuc_mds(source(other, tmp_path), 5, **settings)
    assert kept.exists()


def test_a_file_with_the_same_time_is_known_by_its_rows(distances, tmp_path, monkeypatch):
    path, kept = as_npy(distances, tmp_path), tmp_path / "fit.part"
    os.utime(path, ns=(0, 0))
    interrupt(monkeypatch, 3, path, 5, checkpoint=kept)
    as_npy(some_distances(1), tmp_path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match="with another D;"):
        neuc_mds(path, 5, checkpoint=kept)
    as_npy(distances, tmp_path)
    os.utime(path, ns=(0, 0))
    path.rename(tmp_path / "moved.npy")
    made = made_steps(monkeypatch)
    neuc_mds(tmp_path / "moved.npy", 5, checkpoint=kept)
    assert made[0] == 4


def test_features_and_their_metric_are_told_apart(tmp_path, monkeypatch):
    points, kept = some_points(), tmp_path / "fit.part"

    def fit(X, metric="cosine", k=5, **more):
        est = NeucMDS(k, method="neuc+", metric=metric, checkpoint=kept, metric_params=more)
        return est.fit(X).result_

    whole = NeucMDS(5, method="neuc+", metric="cosine").fit(points).result_
    with monkeypatch.context() as patch:
        made_steps(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            fit(points)
    for other in (
        {"X": points + 1e-9},
        {"X": points, "metric": "angular"},
        {"X": points, "metric": "euclidean", "power": 1.5},
    ):
        with pytest.raises(InputError, match="with another D;"):
            fit(**other)
    with pytest.raises(InputError, match="with another n_components;"):
        fit(points, k=4)
    made = made_steps(monkeypatch)
    assert_same(fit(points), whole)
    assert made[0] == 5


def test_a_d_in_memory_has_no_checkpoint_and_is_left_as_it_was(distances, tmp_path, monkeypatch):
    monkeypatch.undo()
    D, kept = distances.copy(), tmp_path / "fit.part"
    for given in (D, as_npy(distances, tmp_path)):
        with pytest.raises(InputError, match="this D is: leave it out"):
            neuc_mds(given, 5, checkpoint=kept)
    with pytest.raises(InputError, match="this D is: leave it out"):
        NeucMDS(5, metric="cosine", checkpoint=kept).fit(some_points())
    np.testing.assert_array_equal(D, distances)
    assert not kept.exists()


def test_a_d_that_is_refused_leaves_no_checkpoint(distances, tmp_path):
    D, kept = distances.copy(), tmp_path / "fit.part"
    D[4, 5] = np.nan
    with pytest.raises(InputError, match="missing"):
        neuc_mds(as_npy(D, tmp_path), 5, checkpoint=kept)
    assert not kept.exists()


def test_a_checkpoint_of_rows_is_none_of_a_fit(distances, tmp_path):
    kept = tmp_path / "fit.part"
    kept.write_bytes(b"neucmds rows 1\n")
    with pytest.raises(InputError, match="is no checkpoint"):
        neuc_mds(as_npy(distances, tmp_path), 5, checkpoint=kept)
