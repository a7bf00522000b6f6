"""Files of new objects: one row each, one column per fitted object."""

import io

import numpy as np
import pandas as pd
import pytest

from neucmds.errors import FileFormatError
from neucmds.problem.readers.new_objects import read_new_objects

NEW, OLD = ("x", "y"), ("ant", "bee", "cat")
VALUES = np.array([[1.5, 2, 3], [4, 5, 6]])
FRAME = pd.DataFrame(VALUES, NEW, OLD)


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.fixture
def read(write):
    return lambda name, content: read_new_objects(write(name, content), 3)


@pytest.mark.parametrize(
    ("name", "content", "names", "columns"),
    [
        ("n.csv", FRAME.to_csv(), NEW, OLD),
        ("n.csv", FRAME.to_csv(index=False), None, OLD),
        ("n.csv", FRAME.to_csv(header=False), NEW, None),
        ("n.tsv", FRAME.to_csv(header=False, index=False, sep="\t"), None, None),
        ("n.txt", "ant bee cat\nx 1.5 2 3\ny 4 5 6\n", NEW, OLD),
        ("n.npz", npz(D=VALUES, names=np.array(NEW)), NEW, None),
        ("n.npz", npz(D=VALUES), None, None),
    ],
)
def test_names_of_either_side_are_read_where_there_are_any(read, name, content, names, columns):
    found = read(name, content)
    np.testing.assert_array_equal(found.values, VALUES)
    assert (found.names, found.columns) == (names, columns)


def test_names_that_are_numbers_are_names_on_either_side(read):
    found = read("n.csv", "id,31,32,33\n7,1.5,2,3\n8,4,5,6\n")
    np.testing.assert_array_equal(found.values, VALUES)
    assert (found.names, found.columns) == (("7", "8"), ("31", "32", "33"))
    assert read("n.csv", "7,1.5,2,3\n8,4,5,6\n").names == ("7", "8")
    found = read("n.csv", ",31,32,33\n7,1.5,2,3\n")  # as pandas writes it
    assert (found.names, found.columns) == (("7",), ("31", "32", "33"))
    # The first line is no header where a name would be there twice.
    assert read("n.csv", "id,31,31,33\n7,1.5,2,3\n8,4,5,6\n").names == ("id", "7", "8")
    for text in ("7,1.5,2.5\n", "7,3,1.5\n8,5,4.5\n"):  # one row, or whole numbers elsewhere, too
        assert (read("n.csv", text).values[0, 0], read("n.csv", text).names) == (7, None)
    alone = read("n.csv", FRAME[:1].to_csv())
    assert (alone.values.tolist(), alone.names, alone.columns) == ([[1.5, 2, 3]], NEW[:1], OLD)


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_table_of_old_and_new_objects_gives_the_rows_of_the_new_ones(tmp_path, suffix):
    names, path = (*OLD, *NEW), tmp_path / f"n.{suffix}"
    frame = pd.DataFrame(np.arange(25.0).reshape(5, 5), names, names)
    if suffix == "npz":
        np.savez(path, D=frame, names=np.array(names))
    else:
        frame.to_csv(path)
    found = read_new_objects(path, 3, ("cat", "ant", "bee"))
    np.testing.assert_array_equal(found.values, frame.loc[list(NEW), ["cat", "ant", "bee"]])
    assert found.names == NEW


def test_a_single_vector_is_read(tmp_path):
    np.save(tmp_path / "n.npy", VALUES[0])
    np.testing.assert_array_equal(read_new_objects(tmp_path / "n.npy", 3).values, VALUES[:1])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("n.phy", "2\na 0 1\nb 1 0\n", "PHYLIP, which holds no new objects"),
        ("n.csv", "1,2\n3,4\n", "2 columns of dissimilarities; one is expected for each"),
        *(
            ("n.csv", head + "\n7,1.5,2\n8,4,5\n", "has 2 columns of dissimilarities")
            for head in ('"",1,2', "1,2")
        ),
        ("n.csv", "7,1.5,2\n8,4,5.5\n", "look like names .7, 8, ….* 2 columns .* are left for 3"),
        ("n.csv", "1,2,3\n4,5\n6,7,8\n", "line 2: 2 cells where others have 3"),
        ("n.npz", npz(D=VALUES[:, :2]), "is 2 × 2 of float64; one number is expected"),
        ("n.npz", npz(D=VALUES.astype(str)), "of <U"),
    ],
)
def test_what_is_no_table_of_new_objects_is_refused(read, name, content, said):
    with pytest.raises(FileFormatError, match=said):
        read(name, content)
