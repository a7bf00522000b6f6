"""What a user holds, read, checked and named: everything after this room sees a `Dissimilarity`."""

from neucmds.inputs.files import read_table
from neucmds.inputs.memory import Dissimilarity, as_dissimilarity

__all__ = ["Dissimilarity", "as_dissimilarity", "read_table"]
