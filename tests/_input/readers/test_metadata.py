from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neucmds._input.readers.metadata import Metadata, as_metadata, read_labels, read_metadata
from neucmds.errors import FileFormatError, InputError

FIXTURES = Path(__file__).parents[2] / "fixtures"
SITES = "site,depth,soil,year\nc,3.5,peat,2001\na,1,clay,2002\nb,NA,,2003\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="sites.csv"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


class TestColumns:
    def test_numbers_and_categories_are_told_apart_with_gaps_in_either(self, write):
        table = read_metadata(write(SITES))
        assert list(table.columns) == ["depth", "soil", "year"]
        np.testing.assert_array_equal(table["depth"], [3.5, 1.0, np.nan])
        assert table["soil"] == ("peat", "clay", None)

    def test_numbers_are_categories_where_that_is_said(self, write):
        table = read_metadata(write(SITES), categories=("year",))
        assert table["year"] == ("2001", "2002", "2003")

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
    def test_any_delimiter_reads_the_same(self, write, delimiter):
        text = "site,depth,soil\na,1.5,sandy clay\nb,2.5,peat\n"
        text = text.replace("sandy clay", '"sandy clay"')
        if delimiter == ";":
            text = text.replace("1.5", "1x5").replace("2.5", "2x5")
        table = read_metadata(write(text.replace(",", delimiter).replace("x", ",")))
        np.testing.assert_array_equal(table["depth"], [1.5, 2.5])
        assert table["soil"] == ("sandy clay", "peat")

    def test_r_s_two_ways_of_writing_row_names_are_one_table(self):
        of_csv, of_table = (
            read_metadata(FIXTURES / name) for name in ("dune_env.csv", "dune_env_table.txt")
        )
        assert of_csv.cells == of_table.cells
        assert list(of_csv.columns) == ["A1", "Moisture", "Management", "Use", "Manure"]

    def test_quoted_delimiters_and_line_breaks_stay_in_their_cell(self, write):
        table = read_metadata(write('site,note\na,"wet, cold\nwindy"\nb,x\n'))
        assert table["note"] == ("wet, cold\nwindy", "x")

    def test_a_mapping_file_of_qiime_is_read(self, write):
        table = read_metadata(write("#SampleID\tph\n#q2:types\tnumeric\ns1\t4.5\ns2\t5\n", "m.tsv"))
        assert table.matched(["s2", "s1"])["ph"].tolist() == [5.0, 4.5]

    def test_an_unknown_column_is_named_beside_the_known(self, write):
        with pytest.raises(
            InputError, match=r"sites.csv has no column 'ph'; it has 'site', 'depth'"
        ):
            read_metadata(write(SITES))["ph"]
        with pytest.raises(InputError, match="no column 'id'"):
            read_metadata(write(SITES), name_column="id")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty"),
            ("\n \n", "is empty"),
            (',,\n"",,\n', "is empty"),
            ("site,depth\n", "one line"),
            ("site,depth\na,1\nb,1,2\n", "line 3: 3 cells where the header has 2"),
            ("site,depth,depth\na,1,2\n", "two columns 'depth'"),
            (b"site,d\xe9pth\na,1\n", "UTF-8"),
            ("site,depth\na," + "x" * 200_000 + "\n", "line 2"),
        ],
        ids=["empty", "blank", "cells", "header", "ragged", "twice", "latin", "huge"],
    )
    def test_what_is_no_table_is_refused_in_one_line(self, write, text, message):
        with pytest.raises(FileFormatError, match=message) as error:
            read_metadata(write(text))
        assert "\n" not in str(error.value)

    def test_what_is_no_file_is_refused(self, tmp_path):
        for path in (tmp_path, tmp_path / "none.csv"):
            with pytest.raises(FileFormatError, match="not exist, or is not a file"):
                read_metadata(path)


class TestMatching:
    def test_rows_follow_the_objects_and_others_are_left_out(self, write):
        table = read_metadata(write(SITES)).matched(["a", "c"])
        assert table.names == ("a", "c")
        assert table["soil"] == ("clay", "peat")
        assert len(table) == 2

    def test_the_column_of_names_is_found_wherever_it_is(self, write):
        table = read_metadata(write("n,soil,plot\n1,peat,p9\n2,clay,p8\n")).matched(["p8", "p9"])
        assert table["soil"] == ("clay", "peat")
        assert list(table.columns) == ["n", "soil"]

    def test_names_that_are_numbers_match_by_name_not_by_order(self, write):
        table = read_metadata(write("id,soil\n2,peat\n1,clay\n")).matched(["1", "2"])
        assert table["soil"] == ("clay", "peat")

    def test_a_named_column_is_used_even_if_another_would_match(self, write):
        table = read_metadata(write("old,new\na,b\nb,a\n"), name_column="new")
        assert table.matched(["a", "b"])["old"] == ("b", "a")

    def test_a_mismatch_counts_both_sides_and_gives_examples(self, write):
        with pytest.raises(InputError) as error:
            read_metadata(write(SITES)).matched(["a", "b", "x", "y"])
        assert "2 of 4 objects have no row in column 'site' ('x', 'y')" in str(error.value)
        assert "1 rows name no object ('c')" in str(error.value)
        assert "name_column" in str(error.value)

    def test_names_that_r_changed_are_recognised_in_the_message(self, write):
        text = "site,soil\nPlot 1,peat\nPlot 2,clay\n"
        with pytest.raises(InputError, match="but for case, blanks and punctuation"):
            read_metadata(write(text)).matched(["plot.1", "plot.2"])

    def test_a_table_without_header_is_recognised_in_the_message(self, write):
        with pytest.raises(InputError, match="first line must hold the names of the columns"):
            read_metadata(write("a,1,peat\nb,2,clay\n")).matched(["a", "b"])

    def test_an_object_with_two_rows_is_refused(self, write):
        with pytest.raises(InputError, match=r"two rows for 'a' in column 'site' \(rows 1 and 3\)"):
            read_metadata(write("site,soil\na,peat\nb,clay\na,clay\n")).matched(["a", "b"])

    def test_numbers_in_another_order_are_names(self, write):
        table = read_metadata(write("site,soil\n2,peat\n0,clay\n1,sand\n"))
        assert table.matched(None, 3)["soil"] == ("clay", "sand", "peat")
        table = read_metadata(write("site,soil\n2,peat\n3,clay\n1,sand\n"))
        with pytest.raises(InputError, match="names its rows"):
            table.matched(None, 3)
        table = read_metadata(write("site,soil\n1,peat\n2,clay\n3,sand\n"))
        assert table.matched(None, 3)["soil"] == ("peat", "clay", "sand")

    def test_rows_with_names_are_not_matched_by_order_with_objects_without(self, write):
        table = read_metadata(write(SITES))
        with pytest.raises(InputError, match="objects have no names to match them with"):
            table.matched(None, 3)
        assert table.matched(None, 3, by_order=True)["soil"] == ("peat", "clay", None)

    def test_without_names_on_either_side_the_order_counts_and_that_is_said(self, write):
        table = read_metadata(write("depth,soil\n1.5,peat\n1.5,clay\n"))
        matched = table.matched(None, 2)
        assert matched["soil"] == ("peat", "clay")
        assert matched.note == "rows of sites.csv were matched by their order."
        with pytest.raises(InputError, match="2 rows for 5 objects"):
            table.matched(None, 5)

    def test_objects_without_names_go_by_their_number(self, write):
        table = read_metadata(write("object,soil\n1,peat\n0,clay\n"), name_column="object")
        assert table.matched(None, 2)["soil"] == ("clay", "peat")

    def test_running_numbers_of_r_and_pandas_are_no_names(self):
        for start in (0, 1):
            rows = tuple(str(i) for i in range(start, start + 2))
            table = Metadata({"name": rows, "soil": ("peat", "clay")})
            assert table.matched(None, 2)["soil"] == ("peat", "clay")
            assert list(table.columns) == ["soil"]

    def test_matching_twice_changes_nothing(self, write):
        once = read_metadata(write(SITES)).matched(["a", "c"])
        assert once.matched(["a", "c"]).cells == once.matched(None, 2).cells == once.cells


class TestPython:
    def test_a_frame_is_matched_by_its_index(self):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(
            {"depth": [1.5, None], "code": ["1", "2"], "kind": pd.Categorical([7, 8])}, ["b", "a"]
        )
        table = as_metadata(frame).matched(["a", "b"])
        np.testing.assert_array_equal(table["depth"], [np.nan, 1.5])
        assert table["code"] == ("2", "1")
        assert table["kind"] == ("8", "7")

    def test_a_mapping_keeps_every_digit(self):
        values = [0.1 + 0.2, 1e-300, np.float32(0.1)]
        np.testing.assert_array_equal(as_metadata({"x": values})["x"], values)

    def test_other_things_are_refused(self):
        with pytest.raises(InputError, match="metadata is a list"):
            as_metadata([1, 2])
        with pytest.raises(InputError, match="different lengths"):
            as_metadata({"a": [1], "b": [1, 2]})


class TestLabels:
    def test_one_column_is_taken_in_order_with_or_without_header(self, write):
        assert read_labels(write("x\ny\n"), 2) == ("x", "y")
        assert read_labels(write("group\nx\ny\n"), 2) == ("x", "y")
        assert read_labels(write("deep, blue\ngreen\n"), 2) == ("deep, blue", "green")
        assert read_labels(write("#ff0000\nred deer\n"), 2) == ("#ff0000", "red deer")

    def test_two_columns_are_matched_by_name_with_or_without_header(self, write):
        for header in ("", "site,soil\n"):
            file = write(f"{header}b,clay\na,peat\n")
            assert read_labels(file, 2, ["a", "b"]) == ("peat", "clay")

    def test_more_columns_are_metadata(self, write):
        with pytest.raises(InputError, match=r"has 4 columns, not one or two; pass it as metadata"):
            read_labels(write(SITES), 3, ["a", "b", "c"])

    def test_names_without_objects_to_match_are_refused(self, write):
        with pytest.raises(InputError, match="objects have no names"):
            read_labels(write("b,clay\na,peat\n"), 2)
        assert read_labels(write("1,clay\n0,peat\n"), 2) == ("peat", "clay")
        assert read_labels(write("object,soil\n0,clay\n1,peat\n"), 2) == ("clay", "peat")

    def test_a_wrong_number_is_refused(self, write):
        with pytest.raises(InputError, match="2 labels for 5 objects"):
            read_labels(write("x\ny\n"), 5)

    def test_npy_is_read_and_damage_is_refused(self, tmp_path):
        file = tmp_path / "labels.npy"
        np.save(file, np.array([3, 1]))
        assert read_labels(file, 2) == ("3", "1")
        content = file.read_bytes()
        for damaged in (b"", content[:20], content.replace(b"descr", b"d{scr"), b"x" * 100):
            file.write_bytes(damaged)
            with pytest.raises(FileFormatError, match="damaged, or not an npy file"):
                read_labels(file, 2)
