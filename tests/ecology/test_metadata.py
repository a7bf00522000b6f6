"""Metadata: what a file of columns means, and which of its rows belongs to which object."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neucmds import neuc_mds
from neucmds.ecology import envfit
from neucmds.ecology.metadata import (
    as_metadata,
    column_values,
    match_rows,
    read_metadata,
)
from neucmds.errors import InputError, NeucmdsWarning

FIXTURES = Path(__file__).parents[1] / "fixtures"
SITES = "site,depth,soil,year\nc,3.5,peat,2001\na,1,clay,2002\nb,NA,,2003\n"


@pytest.fixture
def matched(write):
    def matched(text, labels, n=None, *, name_column=None):
        table = read_metadata(write("sites.csv", text), name_column)
        return match_rows(table, labels, len(labels) if n is None else n)

    return matched


class TestColumns:
    def test_numbers_and_categories_are_told_apart_with_gaps_in_either(
        self, write
    ):
        table = read_metadata(write("sites.csv", SITES))
        assert list(table.columns) == ["depth", "soil", "year"]
        assert list(table.index) == ["c", "a", "b"]
        np.testing.assert_array_equal(
            column_values(table, "depth"), [3.5, 1.0, np.nan]
        )
        assert column_values(table, "soil") == ("peat", "clay", None)
        table = read_metadata(write("sites.csv", SITES), categories=("year",))
        assert column_values(table, "year") == ("2001", "2002", "2003")

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
    def test_any_delimiter_reads_the_same(self, write, delimiter):
        text = 'site,depth,soil\na,1.5,"sandy clay"\nb,2.5,peat\n'
        table = read_metadata(write("sites.csv", text.replace(",", delimiter)))
        np.testing.assert_array_equal(table["depth"], [1.5, 2.5])
        assert column_values(table, "soil") == ("sandy clay", "peat")

    def test_r_s_two_ways_of_writing_row_names_are_one_table(self):
        of_csv, of_table = (
            read_metadata(FIXTURES / name)
            for name in ("dune_env.csv", "dune_env_table.txt")
        )
        pd.testing.assert_frame_equal(of_csv, of_table)
        assert list(of_csv.columns) == [
            "A1",
            "Moisture",
            "Management",
            "Use",
            "Manure",
        ]

    def test_quoted_delimiters_stay_in_their_cell_and_only_blank_and_na_are_missing(
        self, write
    ):
        table = read_metadata(
            write("sites.csv", 'site,note\na,"wet, cold\nwindy"\nb,x\n')
        )
        assert column_values(table, "note") == ("wet, cold\nwindy", "x")
        table = read_metadata(
            write("sites.csv", '"a,b,c";"soil"\n"x,y,z";"peat"\n')
        )
        assert (list(table.index), column_values(table, "soil")) == (
            ["x,y,z"],
            ("peat",),
        )
        cells = ["None", "none", "?", "nan", "Few", "", "NA"]
        text = "".join(f"s{i},{i},{cell}\n" for i, cell in enumerate(cells))
        table = read_metadata(
            write("s.csv", f"site,depth,Shrub\n{text}"), categories=("depth",)
        )
        assert column_values(table, "Shrub") == (*cells[:5], None, None)

    def test_a_mapping_file_of_qiime_is_read_by_its_types(self, write):
        text = "#SampleID\tph\tplot\n#q2:types\tnumeric\tcategorical\ns1\t4.5\t2\ns2\t5\t1\n"
        table = match_rows(
            read_metadata(write("m.tsv", text)), ["s2", "s1"], 2
        )
        assert table["ph"].tolist() == [5.0, 4.5]
        assert column_values(table, "plot") == ("1", "2")
        blanks = read_metadata(write("m.txt", text.replace("\t", " ")))
        assert column_values(blanks, "plot") == ("2", "1")
        noted = f"# of\t2026\tin May\n#\n{text}#s3\tleft\tout\n".replace(
            "#SampleID", "sample-id"
        )
        for remarked in (noted, noted.replace("sample-id", "#SampleID")):
            table = read_metadata(write("m.tsv", remarked))
            assert list(table.index) == ["s1", "s2"]
            assert column_values(table, "plot") == ("2", "1")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty"),
            ("\n \n", "is empty"),
            (',,\n"",,\n', "one line"),
            ("site,depth\n", "one line"),
            ("site,depth\na,1\nb,1,2\n", "Expected 2 fields in line 3, saw 3"),
            ("site\na,1,2\nb,1,2\n", "fewer names of columns than columns"),
            (b"site,d\xe9pth\na,1\n", "utf-8"),
            ("site,ph,ph\na,1,2\n", "more than one column 'ph'; rename"),
            ("ph ph\na 1 2\n", "more than one column 'ph'; rename"),
            (
                "id\tph\n#q2:types\tnumeric\na\t4\nb\tlow\nc\t\n",
                "'ph' is numeric by #q2:types, but 1 of its cells are text .'low'",
            ),
        ],
        ids=[
            "empty",
            "blank",
            "cells",
            "header",
            "long",
            "few names",
            "latin",
            "repeated",
            "repeated in R",
            "text for numbers",
        ],
    )
    def test_what_is_no_table_is_refused_in_one_line(
        self, write, text, message
    ):
        with pytest.raises(InputError, match=message) as error:
            read_metadata(write("sites.csv", text))
        assert "\n" not in str(error.value)

    def test_tables_with_two_columns_of_a_name_are_refused(self):
        table = pd.DataFrame([[1, 2]], index=["a"], columns=["ph", "ph"])
        with pytest.raises(InputError, match="more than one column 'ph'"):
            envfit(np.zeros((1, 2)), table)

    def test_names_that_differ_in_case_are_said_to(self):
        D = pd.DataFrame(1 - np.eye(3), list("abC"), list("abC"))
        emb = neuc_mds(D, 2, "neuc+")
        table = pd.DataFrame({"ph": [1.0, 2.0, 3.0]}, index=["A", "b", "c"])
        with pytest.raises(
            InputError,
            match=r"2 differ only in upper and lower case \('a', 'C'\)",
        ):
            envfit(emb, table)

    def test_unknown_columns_and_files_are_refused(self, write, tmp_path):
        with pytest.raises(
            InputError, match=r"sites.csv has no column 'ph'; it has 'depth'"
        ):
            column_values(read_metadata(write("sites.csv", SITES)), "ph")
        with pytest.raises(InputError, match="no column 'id'"):
            read_metadata(write("sites.csv", SITES), name_column="id")
        untitled = write("r.csv", '"","depth"\n"a",1.5\n')
        with pytest.raises(InputError, match="'deep'; it has 'depth'"):
            read_metadata(untitled, categories=["deep"])
        for path in (tmp_path, tmp_path / "none.csv"):
            with pytest.raises(
                InputError, match="not exist, or is a directory"
            ):
                read_metadata(path)


class TestMatching:
    @pytest.mark.parametrize(
        ("text", "labels", "expected"),
        [
            (SITES, ["a", "c"], ("clay", "peat")),
            (
                "plot,soil,n\n10,peat,7\n20,clay,5\n",
                ["20", "10"],
                ("clay", "peat"),
            ),
            ("id,soil\n2,peat\n1,clay\n", ["1", "2"], ("clay", "peat")),
        ],
        ids=["others left out", "numbers", "shuffled"],
    )
    def test_rows_go_by_name(self, matched, text, labels, expected):
        table = matched(text, labels, len(expected))
        assert column_values(table, "soil") == expected
        pd.testing.assert_frame_equal(
            match_rows(table, labels, len(expected)), table
        )

    def test_the_column_of_names_is_no_variable_and_can_be_named(
        self, matched
    ):
        table = matched("old,new\na,b\nb,a\n", ["a", "b"], name_column="new")
        assert column_values(table, "old") == ("b", "a")

    def test_objects_without_a_row_may_have_no_values(self, write):
        table = match_rows(
            read_metadata(write("s.csv", SITES)),
            list("axc"),
            3,
            missing="grey",
        )
        assert column_values(table, "soil") == ("clay", None, "peat")
        np.testing.assert_array_equal(
            column_values(table, "depth"), [1, np.nan, 3.5]
        )
        with pytest.raises(
            InputError, match="2 of 2 objects are not among them"
        ):
            match_rows(
                read_metadata(write("s.csv", SITES)),
                list("xy"),
                2,
                missing="grey",
            )

    @pytest.mark.parametrize("start", [0, 1])
    def test_running_numbers_of_r_and_pandas_are_no_names(
        self, matched, start
    ):
        text = f"n,soil\n{start},peat\n{start + 1},clay\n"
        with pytest.warns(
            NeucmdsWarning,
            match=r"rows of sites.csv were matched by their order\.",
        ):
            table = matched(text, None, 2)
        assert column_values(table, "soil") == ("peat", "clay")
        assert list(table.columns) == ["soil"]

    @pytest.mark.filterwarnings("ignore:rows of sites.csv")
    @pytest.mark.parametrize(
        ("text", "labels", "n", "message"),
        [
            (
                SITES,
                list("abxy"),
                4,
                r"2 of 4 objects are not among them \('x', 'y'\), and 1 of",
            ),
            (
                SITES,
                list("abxy"),
                4,
                "rows of sites.csv .*name no object.*add rows for these",
            ),
            (SITES, list("wxyz"), 4, "correct the names, or .* name_column"),
            (
                "s,soil\nPlot 1,peat\n",
                ["plot.1"],
                1,
                r"different names: .* \('plot.1'\)",
            ),
            (
                "s,soil\na,x\nb,y\na,z\n",
                ["a", "b"],
                2,
                r"'a' twice \(numbers 1 and 3\)",
            ),
            ("s,soil\n2,x\n3,y\n1,z\n", None, 3, "names its rows"),
            (SITES, None, 3, "objects have no names to match them with"),
            (
                "depth,soil\n1.5,peat\n1.5,clay\n",
                None,
                5,
                "2 rows for 5 objects",
            ),
        ],
    )
    def test_what_does_not_match_is_refused(
        self, matched, text, labels, n, message
    ):
        with pytest.raises(InputError, match=message):
            matched(text, labels, n)


class TestPython:
    def test_a_frame_is_matched_by_its_index(self):
        frame = pd.DataFrame(
            {
                "depth": [1.5, None],
                "code": ["1", "2"],
                "kind": pd.Categorical([7, 8]),
            },
            ["b", "a"],
        )
        table = match_rows(as_metadata(frame), ["a", "b"], 2)
        np.testing.assert_array_equal(
            column_values(table, "depth"), [np.nan, 1.5]
        )
        assert column_values(table, "code") == ("2", "1")
        assert column_values(table, "kind") == ("8", "7")
        with pytest.raises(InputError, match="different names"):
            match_rows(as_metadata(frame), ["a", "c"], 2)

    def test_a_mapping_keeps_every_digit_and_other_things_are_refused(self):
        values = [0.1 + 0.2, 1e-300, np.float32(0.1)]
        np.testing.assert_array_equal(
            column_values(as_metadata({"x": values}), "x"), values
        )
        some = as_metadata(
            pd.DataFrame({"one": [5, None], "none": [None] * 2}, dtype=object)
        )
        np.testing.assert_array_equal(column_values(some, "one"), [5, np.nan])
        assert column_values(some, "none") == (None, None)
        with pytest.raises(InputError, match="the table is list"):
            as_metadata([1, 2])
        with pytest.raises(ValueError, match="same length"):
            as_metadata({"a": [1], "b": [1, 2]})
