"""The versions and the machine, as a report of a flaw should state them."""

from __future__ import annotations

import platform
import re
import sys
from contextlib import suppress
from importlib import import_module, metadata
from importlib.util import find_spec

import threadpoolctl

import neucmds
from neucmds.backend.threads import thread_count

__all__ = ["show_versions"]

# Libraries whose arrays a fit accepts without depending on them.
ARRAY_LIBRARIES = ("torch", "cupy-cuda12x", "cupy-cuda13x")


def show_versions() -> None:
    """Print the versions of neucmds and its dependencies, BLAS, threads and GPUs.

    Paste the output into a report of a flaw. It names no file, user or host.

    Examples
    --------
    >>> import neucmds
    >>> neucmds.show_versions()  # doctest: +ELLIPSIS
    neucmds           ...
    """
    versions = {
        "neucmds": neucmds.__version__,
        "python": " ".join(sys.version.split()),
        "system": platform.platform(),
        "threads": thread_count(None),
    }
    requirements = metadata.requires("neucmds") or []
    # A requirement is a name, then limits, extras or markers.
    names = [re.split(r"[^\w.-]", line)[0] for line in requirements]
    for name in (*names, *ARRAY_LIBRARIES):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    for name, version in versions.items():
        print(f"{name:<18}{version}")
    # It loads the BLAS of SciPy, which is then among the libraries.
    import_module("scipy.linalg")
    for library in threadpoolctl.threadpool_info():
        version = library["version"] or "unknown version"
        threads = f"{library['num_threads']} threads"
        print(f"{library['prefix']:<18}{version}, {threads}")
    gpus = ", ".join(gpu_names())
    print(f"{'GPU':<18}{gpus or 'none that torch or cupy can use'}")


def gpu_names() -> list[str]:
    """Return the GPUs that torch, or else cupy, can use."""
    if find_spec("torch"):
        cuda = import_module("torch").cuda
        return [cuda.get_device_name(i) for i in range(cuda.device_count())]
    if find_spec("cupy"):
        runtime = import_module("cupy").cuda.runtime
        properties = map(
            runtime.getDeviceProperties, range(runtime.getDeviceCount())
        )
        return [gpu["name"].decode() for gpu in properties]
    return []
