"""What a user holds, read, validated and named: the rest of the package sees a `Dissimilarity`."""

from neucmds._input.containers import read_square
from neucmds._input.dissimilarity import Dissimilarity, as_dissimilarity
from neucmds._input.readers.table_files import read_table
from neucmds._input.weights import as_weighted

__all__ = ["Dissimilarity", "as_dissimilarity", "as_weighted", "read_square", "read_table"]
