import pickle
import warnings

from neucmds.errors import ConvergenceWarning, InputError, option, rendered


def test_text_of_a_user_is_left_alone():
    for text in ("{symmetrize}", "a=b", "%s", "\\1", "[bold]"):
        assert str(InputError(text)) == text


def test_errors_survive_a_process_border():
    error = InputError(f"pass {option('squared', True)}.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is InputError
    assert (str(again), again.marked) == (str(error), error.marked)


def test_a_warning_keeps_its_marks_too():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(
            f"raise {option('max_iter')}.", ConvergenceWarning, stacklevel=1
        )
    found = caught[0].message
    assert str(found) == "raise max_iter."
    assert (
        rendered(found.marked, lambda name, _: f"--{name}")
        == "raise --max_iter."
    )
