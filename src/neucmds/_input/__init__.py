"""What a user holds, read, validated and named: the rest of the package sees a `Dissimilarity`."""

from neucmds._input.containers import read_square as read_square
from neucmds._input.dissimilarity import Dissimilarity as Dissimilarity
from neucmds._input.dissimilarity import as_dissimilarity as as_dissimilarity
from neucmds._input.readers.table_files import read_table as read_table
from neucmds._input.weights import as_weighted as as_weighted
