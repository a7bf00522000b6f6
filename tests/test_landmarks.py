"""Landmarks: scikit-learn's contract first."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from neucmds import LandmarkNeucMDS


@parametrize_with_checks(
    [
        LandmarkNeucMDS(metric="cityblock"),
        LandmarkNeucMDS(n_landmarks=5, metric="euclidean", landmarks="maxmin"),
        LandmarkNeucMDS(),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
