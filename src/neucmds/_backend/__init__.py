"""Array libraries, threads, memory and files."""

from neucmds._backend.checkpoint import Checkpoint as Checkpoint
from neucmds._backend.checkpoint import checkpoint_path as checkpoint_path
from neucmds._backend.checkpoint import npy_output as npy_output
