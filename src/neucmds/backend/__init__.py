"""Arrays, threads, memory, files and kernels: the only place that tells libraries apart."""
