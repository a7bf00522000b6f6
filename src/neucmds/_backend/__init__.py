"""Array libraries, threads, memory and files: what every other package is written on."""

from neucmds._backend.checkpoint import Checkpoint, checkpoint_path, npy_output

__all__ = ["Checkpoint", "checkpoint_path", "npy_output"]
