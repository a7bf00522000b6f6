"""scikit-learn's own checks, on one configuration of each estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from neucmds import LandmarkNeucMDS, NeucIsomap, NeucMDS


@pytest.mark.filterwarnings("ignore:the graph of:neucmds.errors.NeucmdsWarning")
@parametrize_with_checks(
    [NeucMDS(), LandmarkNeucMDS(metric="cityblock", placement="least_squares"), NeucIsomap()]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
