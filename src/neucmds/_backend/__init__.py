"""What the mathematics stands on: arrays of any library, BLAS, threads, memory, files, progress."""
