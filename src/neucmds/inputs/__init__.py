"""What a user holds, read, checked and named: everything after this room sees a `Dissimilarity`."""

from neucmds.inputs.files import read_table
from neucmds.inputs.memory import Dissimilarity, as_dissimilarity
from neucmds.inputs.weights import as_weighted

__all__ = ["Dissimilarity", "as_dissimilarity", "as_weighted", "read_table"]
