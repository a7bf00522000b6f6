import pickle
import warnings

from neucmds.errors import ConvergenceWarning, FileFormatError, InputError, option, rendered


def test_a_marked_option_reads_as_python_and_can_be_spelled_otherwise():
    error = InputError(f"D is not symmetric; pass {option('symmetrize', True)} to average.")
    assert str(error) == "D is not symmetric; pass symmetrize=True to average."

    def spell(name, value):
        return f"--{name}" if value == "True" else f"--{name} {value}"

    assert rendered(error.marked, spell) == "D is not symmetric; pass --symmetrize to average."


def test_an_option_without_a_value_is_its_name():
    assert str(InputError(f"raise {option('max_iter')}.")) == "raise max_iter."


def test_text_of_a_user_is_left_alone():
    for text in ("{symmetrize}", "a=b", "%s", "\\1", "[bold]"):
        assert str(InputError(text)) == text


def test_errors_survive_a_process_border():
    error = FileFormatError(f"pass {option('squared', True)}.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is FileFormatError
    assert (str(again), again.marked) == (str(error), error.marked)


def test_a_warning_keeps_its_marks_too():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(f"raise {option('max_iter')}.", ConvergenceWarning, stacklevel=1)
    found = caught[0].message
    assert str(found) == "raise max_iter."
    assert rendered(found.marked, lambda name, _: f"--{name}") == "raise --max_iter."
