"""Fixtures shared by all tests."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

# Files that take most of the time of the whole: processes of their own, clusters, thousands of
# random matrices, the paper's data. `make test-fast` leaves them out.
SLOW_FILES = (
    "backend/test_arrays.py",
    "backend/test_threads.py",
    "refine/test_completion.py",
    "refine/test_loss_starts.py",
    "refine/test_starts.py",
    "spectrum/test_stress.py",
    "spectrum/test_features.py",
    "problem/test_metric_registry.py",
    "place/test_dimension.py",
    "place/test_new_rows.py",
    "place/test_recipe.py",
    "large/test_landmark_fits.py",
    "large/test_partial_input.py",
    "explore/test_resampling.py",
    "fit/test_support.py",
    "large/test_two_levels.py",
    "tools/cli/test_processes.py",
    "datasets/test_synthetic.py",
    "estimators/test_contract.py",
    "estimators/test_landmark.py",
    "estimators/test_refit.py",
    "tools/report/test_browser.py",
    "test_curvature.py",
    "test_devices.py",
    "test_losses.py",
    "tools/test_plots.py",
    "refine/test_scale.py",
    "theorems/test_default_fit_is_not_above_others.py",
)
# A page with all its tables.
SLOW_FIXTURES = {"case"}
# Two seconds to import.
SLOW_PACKAGES = (
    "torch",
    "tensor",
    "skbio",
    "scikit_bio",
    "pynndescent",
    "Qdrant",
)

# Starts of a loss, of data with gaps, and signatures of the squared loss: 32, 12, 32 and 25 for a
# user, and few for a test that does not state how low a fit ends.
LITTLE = {
    "loss_starts.MORE_STARTS": 2,
    "loss_starts.STARTS": 2,
    "gaps.MORE_STARTS": 2,
    "starts.MOST_TRIED": 1,
}
# Files that state how low fits end, and those that run what a user runs.
FULL_SEARCH = (
    "explore/test_fitted_stress.py",
    "refine/test_completion.py",
    "refine/test_loss_starts.py",
    "refine/test_ordinal.py",
    "refine/test_pair_losses.py",
    "refine/test_starts.py",
    "tests/datasets/",
    "tests/ecology/",
    "tests/fuzz/",
    "tests/problem/",
    "tests/reproduction/",
    "tests/spectrum/",
    "tests/theorems/",
    "tests/fit/",
    "tests/test_alignment.py",
    "tests/test_form.py",
    "tests/test_interop.py",
    "tests/test_parity.py",
    "tests/test_refusals.py",
    "tests/test_theory.py",
    "test_examples.py",
    "test_free_threads.py",
    "test_golden.py",
    "test_guide.py",
    "test_promises.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files, of slow packages, and those that wait for a slow fixture."""
    for item in items:
        waits = SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        imports = any(name in item.name for name in SLOW_PACKAGES)
        if waits or imports or item.path.as_posix().endswith(SLOW_FILES):
            item.add_marker(pytest.mark.slow)


def limit_starts(patch: pytest.MonkeyPatch) -> None:
    for name, value in LITTLE.items():
        patch.setattr(f"neucmds.refine.{name}", value)


@pytest.fixture(scope="module", autouse=True)
def few_starts(
    request: pytest.FixtureRequest,
) -> Iterator[pytest.MonkeyPatch]:
    """Search little, but in files that state how low a fit ends."""
    with pytest.MonkeyPatch.context() as patch:
        if not any(part in request.path.as_posix() for part in FULL_SEARCH):
            limit_starts(patch)
        yield patch


@pytest.fixture
def all_starts(few_starts: pytest.MonkeyPatch) -> Iterator[None]:
    """Search as usual, for one test that states how low a fit ends."""
    few_starts.undo()
    yield
    limit_starts(few_starts)


@pytest.fixture
def search_little(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which fits search little, until the test ends."""
    return lambda: limit_starts(monkeypatch)


@pytest.fixture(scope="session")
def no_metric() -> Callable[..., np.ndarray]:
    """Return a function that makes squares of distances: symmetric and hollow, but no metric."""

    def squares(n: int = 60) -> np.ndarray:
        x = np.random.default_rng(0).uniform(size=(n, 3))
        return ((x[:, None] - x[None, :]) ** 2).sum(-1)

    return squares


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder of real data: $NEUCMDS_DATA, else shared/data beside the checkout, else skip."""
    root = Path(__file__).resolve().parents[1]
    named = os.environ.get("NEUCMDS_DATA")
    candidates = [Path(named)] if named else []
    candidates += [
        parent / "shared" / "data"
        for parent in (root.parent, root.parent.parent)
    ]
    for folder in candidates:
        if (folder / "images").is_dir():
            return folder
    pytest.skip(
        "no data: set NEUCMDS_DATA to a folder with images/, genomics/, dissimilarities/"
    )
