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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files, of slow packages, and those that wait for a slow fixture."""
    for item in items:
        waits = SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        imports = any(name in item.name for name in SLOW_PACKAGES)
        if waits or imports or item.path.as_posix().endswith(SLOW_FILES):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def few_starts() -> Iterator[None]:
    """Two starts of a loss instead of 32 or 12: for what does not depend on how low it ends."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MORE_STARTS", "STARTS"):
            patch.setattr(f"neucmds.refine.loss_starts.{name}", 2)
        yield


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
