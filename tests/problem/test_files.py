"""What `read_table` promises: the numbers and names of every format, one line for what is wrong."""

import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import squareform

from neucmds.errors import InputError
from neucmds.problem.dense import as_squares
from neucmds.problem.files import read_new_objects, read_table

NAMES, NUMBERS = ("ant", "bee", "cat"), ("1", "2", "3")
D = np.array([[0, 1.5, 2], [1.5, 0, 3], [2, 3, 0]])
FRAME = pd.DataFrame(D, NAMES, NAMES)


def refusal(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def expect(table, labels=NAMES, values=D):
    found, names = table
    np.testing.assert_array_equal(found, values)
    assert names == labels


def npy_bytes(array, **options) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def qza_bytes(*members: str) -> bytes:
    """An artifact of QIIME 2: a zip archive with one folder, which holds other things, too."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in (
            "metadata.yaml",
            "provenance/data/distance-matrix.tsv",
            *members,
        ):
            text = FRAME.to_csv(sep="\t") if member in members else "not read"
            archive.writestr(f"0f1e2d3c/{member}", text)
    return buffer.getvalue()


def two_artifacts() -> bytes:
    """Two artifacts of QIIME 2 in one archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for root, text in (
            ("0f1e", FRAME.to_csv(sep="\t")),
            ("2d3c", (2 * FRAME).to_csv(sep="\t")),
        ):
            archive.writestr(f"{root}/data/distance-matrix.tsv", text)
    return buffer.getvalue()


def npz_bytes(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


# Text

PLAIN, BESIDE = (
    "0,1.5,2\n1.5,0,3\n2,3,0\n",
    "ant,0,1.5,2\nbee,1.5,0,3\ncat,2,3,0\n",
)
TEXTS = {
    "plain csv": ("d.csv", PLAIN, None),
    "mark, CRLF, blanks": ("d.csv", "\ufeff\r\n 0, 1.5 ,2\r\n\r\n1.5,0,3\r\n2,3,0", None),
    "header": ("d.csv", "ant,bee,cat\n" + PLAIN, NAMES),
    "header of numbers": ("d.csv", "7,8,9\n" + PLAIN, ("7", "8", "9")),
    "row labels": ("d.csv", BESIDE, NAMES),
    "both": ("d.csv", FRAME.to_csv(), NAMES),
    "both, corner named": ("d.tsv", FRAME.rename_axis("id").to_csv(sep="\t"), NAMES),
    "pandas counting": ("d.csv", pd.DataFrame(D).to_csv(), None),
    "quoted, comma inside": (
        "d.csv", '"","a,1","b","c"\n"a,1",0,1.5,2\n"b",1.5,0,3\n"c",2,3,0\n', ("a,1", "b", "c")),
    "R write.table": (
        "d.txt", '"ant" "bee" "cat"\n"ant" 0 1.5 2\n"bee" 1.5 0 3\n"cat" 2 3 0\n', NAMES),
    "R write.table, numbered": (
        "d.txt", '"1" "2" "3"\n"1" 0 1.5 2\n"2" 1.5 0 3\n"3" 2 3 0\n', NUMBERS),
    "lower, numbered": ("d.csv", ",1,2,3\n1\n2,1.5\n3,2,3\n", NUMBERS),
    "lower, numbered, corner": ("d.csv", "id,1,2,3\n1,,,\n2,1.5,,\n3,2,3,\n", NUMBERS),
    "lower, numbered, #": ("d.csv", "#,1,2,3\n1\n2,1.5\n3,2,3\n", NUMBERS),
    "lower with diagonal, numbered": ("d.csv", "1,0\n2,1.5,0\n3,2,3,0\n", NUMBERS),
    "lower with diagonal, header": ("d.csv", ",1,2,3\n1,0\n2,1.5,0\n3,2,3,0\n", NUMBERS),
    "R lower, blanks, no corner": (
        "d.tsv", '"ant"\t"bee"\t"cat"\n"ant"\t\t\t\n"bee"\t1.5\t\t\n"cat"\t2\t3\t\n', NAMES),
    "blank in label": ("d.tsv", "\ta b\tc\td\n" + "a b\t0\t1.5\t2\nc\t1.5\t0\t3\nd\t2\t3\t0\n",
                       ("a b", "c", "d")),
    "numpy savetxt": ("d.txt", "# made by hand\n  0   1.5 2\n  1.5 0   3\n  2   3   0\n", None),
    "lower with diagonal": ("d.csv", "0\n1.5,0\n2,3,0\n", None),
    "lower, labels": ("d.csv", "ant,0\nbee,1.5,0\ncat,2,3,0\n", NAMES),
    "lower, labels, no diagonal": ("d.csv", "ant\nbee,1.5\ncat,2,3\n", NAMES),
    "lower, upper blank": ("d.csv", ",ant,bee,cat\nant,0,,\nbee,1.5,0,\ncat,2,3,0\n", NAMES),
    "lower, upper NA": ("d.csv", "ant,0,NA,NA\nbee,1.5,0,NA\ncat,2,3,0\n", NAMES),
    "lower, upper zero": ("d.csv", "0,0,0\n1.5,0,0\n2,3,0\n", None),
    "lower, diagonal and upper NA": ("d.csv", "NA,NA,NA\n1.5,NA,NA\n2,3,NA\n", None),
    "upper, lower zero": ("d.tsv", "0\t1.5\t2\n0\t0\t3\n0\t0\t0\n", None),
    "lower, a comma after each": ("d.csv", "ant,\nbee,1.5,\ncat,2,3,\n", NAMES),
    "lower below names": ("d.csv", "ant,bee,cat\n0\n1.5,0\n2,3,0\n", NAMES),
    "square, a comma after each": ("d.csv", PLAIN.replace("\n", ",\n"), None),
    "phylip in txt": ("d.txt", "3\nant 0 1.5 2\nbee 1.5 0 3\ncat 2 3 0\n", NAMES),
    "phylip lower": ("d.phy", "3\nant\nbee 1.5\ncat 2 3\n", NAMES),
    "lower, header": ("d.csv", "id,ant,bee,cat\nant,0\nbee,1.5,0\ncat,2,3,0\n", NAMES),
    "upper, lower blank": ("d.csv", "0,1.5,2\n,0,3\n,,0\n", None),
    "square, names, commas": ("d.csv", BESIDE.replace("\n", ",\n"), NAMES),
    "phylip lower with diagonal": ("d.phy", "3\nant 0\nbee 1.5 0\ncat 2 3 0\n", NAMES),
    "lower, diagonal NA": ("d.csv", "ant,NA\nbee,1.5,NA\ncat,2,3,NA\n", NAMES),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_every_text_layout_gives_the_same_matrix(case, write):
    name, content, labels = TEXTS[case]
    expect(read_table(write(name, content)), labels)


def test_a_distance_matrix_of_qiime_2_is_read(write):
    path = write("d.qza", qza_bytes("data/distance-matrix.tsv"))
    expect(read_table(path))


def test_lsmat_of_scikit_bio_is_read(tmp_path):
    skbio = pytest.importorskip("skbio")
    skbio.DistanceMatrix(D, NAMES).write(tmp_path / "d.lsmat")
    expect(read_table(tmp_path / "d.lsmat"))


@pytest.mark.parametrize(
    "content", ["1.5\n2\n3\n", "1.5,2,3\n", "d\n1.5\n2\n3\n", "1.5 2 3"]
)
def test_a_single_row_or_column_is_condensed_and_no_phylip(content, write):
    path = write("d.csv", content)
    expect(read_table(path), None, squareform(D))
    np.testing.assert_array_equal(as_squares(path)[0], D**2)
    # Whole numbers, of which the first could announce as many objects.
    expect(
        read_table(write("d.txt", "3\n4\n5\n")), None, np.array([3.0, 4, 5])
    )
    # Both halves of two objects are given, and neither is mirrored.
    expect(
        read_table(write("d.phy", "2\nant 0 1\nbee 2 0\n")),
        NAMES[:2],
        [[0, 1], [2, 0]],
    )


@settings(max_examples=50, deadline=None)
@given(
    st.data(),
    st.integers(3, 6),
    st.sampled_from([",", "\t", ";"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["NA", "nan", "", "N/A", "NaN"]),
)
def test_what_pandas_writes_is_read_to_the_last_bit(
    tmp_path_factory, data, n, sep, header, index, gap
):
    numbers = st.floats(0, 1e300, exclude_min=True)
    m = n * (n - 1) // 2
    values = squareform(data.draw(st.lists(numbers, min_size=m, max_size=m)))
    if header and index:  # then a blank cell is no end of a line
        values[0, 1] = values[1, 0] = np.nan
    labels = [f"object {i}" for i in range(n)]
    frame = pd.DataFrame(values, labels, labels)
    text = frame.to_csv(sep=sep, header=header, index=index, na_rep=gap)
    path = tmp_path_factory.mktemp("d") / "d.csv"
    path.write_text(text)
    expect(
        read_table(path), tuple(labels) if header or index else None, values
    )


DAMAGED = "not a table that can be read, or damaged"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "d.csv",
            "0,1,2\n1,0,x\n2,3,0\n",
            "'x' is not a number, in cell 3 of the line '1,0,x'.",
        ),
        ("d.csv", "0,x,2\n1,0,3\n2,3,0\n", "in cell 2 of the line '0,x,2'"),
        ("d.csv", "0,1,2\n1,0,3\nx,3,0\n", "in cell 1 of the line 'x,3,0'"),
        ("d.csv", "\n,a,b\n\na,0,1\nb,1,?!\n", "cell 3 of the line 'b,1,?!'"),
        ("d.phy", "2\nant 0 x\nbee 1 0\n", "cell 3 of the line 'ant 0 x'"),
        ("d.tsv", "0\t1,5\n1,5\t0\n", "; write decimal points, as write.csv"),
        (
            "d.csv",
            '"";"a";"b"\n"a";0,0;1,5\n"b";1,5;0,0\n',
            """'0,0' is not a number, in cell 2 of the line '"a";0,0;1,5'; write""",
        ),
        # Without the last row, and without the last column.
        ("d.csv", ",a,b\na,0,1\n", "not a square matrix: 2 lines of 3 cells"),
        (
            "d.csv",
            ",a\na,0\nb,1\n",
            "not a square matrix: 3 lines of 2 cells, names included",
        ),
        ("d.csv", "0,1_0\n1_0,0\n", "cannot safely convert"),
        ("d.csv", ",ant,bee,cat\n", "'ant' is not a number, in cell 1"),
        (
            "d.csv",
            "0,1,2\n1,0\n2,3,0\n",
            "2 cells where others have 3, in '1,0'",
        ),
        (
            "d.csv",
            "0,1,2\n1,0,3\n2,3,0\n4,5,6\n5,6,7\n",
            "5 lines of 3 cells",
        ),
        ("d.csv", ",a,b\nb,0,1\na,1,0\n", "make them agree"),
        ("d.csv", ",a,b\na,0,1\nc,1,0\n", "column 2 'b' and row 2 'c'"),
        ("d.csv", "# only a remark\n", "empty"),
        ("d.csv", '"a,0,1\nb,1,0\n', "1 cells where others have 3"),
        ("d.csv", 'a,0,"1\nb,1,0\n', DAMAGED),
        ("d.csv", "", "empty"),
        ("d.csv", b"0,\xff\n\xff,0\n", "utf-8"),
        (
            "d.phy",
            "3\nant 0 1 2\nbee 1 0 3\n",
            "announces 3 objects and holds 2",
        ),
        (
            "d.phy",
            "2\nant 0 1\nbee 1 0\ncat 2 3\n",
            "announces 2 objects and holds 3",
        ),
        (
            "d.phy",
            "3\nant 0 1 2\nbee 1 0\ncat 2 3 0\n",
            "3 cells where others have 4",
        ),
        ("d.npy", b"", DAMAGED),
        ("d.npy", "no array", DAMAGED),
        ("d.npy", npy_bytes(D)[:-8], DAMAGED),
        ("d.npy", npy_bytes(np.array([None, {}]), allow_pickle=True), DAMAGED),
        ("d.npz", "no archive", DAMAGED),
        (
            "d.npz",
            npz_bytes(A=D, B=D),
            "2 others that could be it (it has: A, B)",
        ),
        (
            "d.npz",
            npz_bytes(D=D.astype(object)),
            "Object arrays cannot be loaded",
        ),
        ("d.qza", "no archive", DAMAGED),
        ("d.qza", two_artifacts(), "has 2 folders at its top"),
        ("d.qza", qza_bytes("data/ordination.txt"), "no data/distance-matrix"),
        ("d.xlsx", "x", "known are .csv, .tsv"),
        ("d", "x", "no suffix"),
    ],
)
def test_what_cannot_be_read_is_named(name, content, said, write):
    path = write(name, content)
    for mmap in (True, False):
        assert said in refusal(path, mmap=mmap)


# Arrays


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize(
    "values", [D, D.astype("float32"), np.asfortranarray(D), squareform(D)]
)
def test_npy_is_read_or_mapped(values, mmap, tmp_path):
    np.save(tmp_path / "d.NPY.npy", values)
    found, labels = read_table(tmp_path / "d.NPY.npy", mmap=mmap)
    np.testing.assert_array_equal(found, values)
    assert found.dtype == values.dtype
    assert labels is None
    assert isinstance(found, np.memmap) == mmap


@pytest.mark.parametrize(
    ("held", "labels"),
    [
        ({"D": D}, None),
        ({"anything": D, "note": np.array("text")}, None),
        ({"D": D, "raw": D + 1}, None),
        ({"D": D, "names": np.array(NAMES)}, NAMES),
        ({"D": D, "names": np.array(NAMES, dtype="S")}, NAMES),
        ({"D": D, "labels": np.array(["x", "x", "y"])}, None),
        ({"D": D, "names": np.array([4, 5, 6])}, ("4", "5", "6")),
        ({"D": squareform(D), "names": np.array(NAMES)}, NAMES),
        ({"m": D, "groups": np.array(["x", "y"])}, None),
    ],
    ids=lambda value: "+".join(value) if value else "none",
)
def test_npz_labels_are_names_and_not_classes(held, labels, write):
    values = held.get("D", D)
    expect(read_table(write("d.npz", npz_bytes(**held))), labels, values)


# Standard input


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (npy_bytes(D), None),
        (npz_bytes(D=D, names=np.array(NAMES)), NAMES),
        (FRAME.to_csv().encode(), NAMES),
        (FRAME.to_csv(sep="\t").encode(), NAMES),
        (b"3\nant\nbee 1.5\ncat 2 3\n", NAMES),
    ],
    ids=["npy", "npz", "csv", "tsv", "phylip"],
)
def test_standard_input_is_told_by_its_first_bytes(
    content, labels, monkeypatch
):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    expect(read_table("-"), labels)


def test_what_is_not_there_is_named(tmp_path, monkeypatch):
    assert "does not exist" in refusal(tmp_path / "gone.npy")
    (tmp_path / "folder.npy").mkdir()
    assert "directory" in refusal(tmp_path / "folder.npy")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" \n")))
    assert refusal("-") == "standard input is empty."


# New objects

NEW = ("x", "y")
VALUES = np.array([[1.5, 2, 3], [4, 5, 6]])
ROWS = pd.DataFrame(VALUES, NEW, NAMES)


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("n.csv", ROWS.to_csv(), NEW),
        ("n.csv", ROWS.to_csv(index=False), None),
        ("n.csv", ROWS.to_csv(header=False), NEW),
        ("n.tsv", ROWS.to_csv(header=False, index=False, sep="\t"), None),
        ("n.txt", "ant bee cat\nx 1.5 2 3\ny 4 5 6\n", NEW),
        ("n.csv", "id,31,32,33\n7,1.5,2,3\n8,4,5,6\n", ("7", "8")),
        ("n.csv", ",31,32,33\n7,1.5,2,3\n8,4,5,6\n", ("7", "8")),
        ("n.csv", "7,1.5,2,3\n8,4,5,6\n", ("7", "8")),
        ("n.npz", npz_bytes(D=VALUES, names=np.array(NEW)), NEW),
        ("n.npz", npz_bytes(D=VALUES), None),
        ("n.npy", npy_bytes(VALUES), None),
    ],
)
def test_new_objects_have_names_where_there_are_any(
    write, name, content, names
):
    values, found = read_new_objects(write(name, content), 3)
    np.testing.assert_array_equal(values, VALUES)
    assert found == names


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_table_of_old_and_new_objects_gives_the_rows_of_the_new_ones(
    tmp_path, suffix
):
    names, path = (*NAMES, *NEW), tmp_path / f"n.{suffix}"
    frame = pd.DataFrame(np.arange(25.0).reshape(5, 5), names, names)
    if suffix == "npz":
        np.savez(path, D=frame, names=np.array(names))
    else:
        frame.to_csv(path)
    values, found = read_new_objects(path, 3, ("cat", "ant", "bee"))
    np.testing.assert_array_equal(
        values, frame.loc[list(NEW), ["cat", "ant", "bee"]]
    )
    assert found == NEW


def test_a_vector_and_a_single_line_are_one_new_object(tmp_path, write):
    np.save(tmp_path / "v.npy", VALUES[0])
    np.testing.assert_array_equal(
        read_new_objects(tmp_path / "v.npy", 3)[0], VALUES[:1]
    )
    values, names = read_new_objects(write("n.csv", ROWS[:1].to_csv()), 3)
    assert (values.tolist(), names) == ([[1.5, 2, 3]], NEW[:1])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("n.csv", "1,2\n3,4\n", "is 2 × 2 of float64; one number is expected"),
        (
            "n.csv",
            '"",1,2\n7,1.5,2\n8,4,5\n',
            "is 2 × 2 of float64; one number is expected",
        ),
        ("n.csv", "1,2,3\n4,5\n6,7,8\n", "2 cells where others have 3"),
        (
            "n.npz",
            npz_bytes(D=VALUES[:, :2]),
            "is 2 × 2 of float64; one number is expected",
        ),
        ("n.npz", npz_bytes(D=VALUES.astype(str)), "of <U"),
    ],
)
def test_what_is_no_table_of_new_objects_is_refused(
    write, name, content, said
):
    with pytest.raises(InputError, match=said):
        read_new_objects(write(name, content), 3)
