"""The versions and the machine, as a report of a flaw should state them."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
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
    print(f"{'neucmds':<18}{neucmds.__version__}")
    print(f"{'python':<18}{' '.join(sys.version.split())}")
    print(f"{'system':<18}{platform.platform()}")
    print(f"{'threads':<18}{thread_count(None)}")
    for name, version in package_versions():
        print(f"{name:<18}{version}")
    for library, threads in blas_libraries():
        print(f"{library:<18}{threads}")
    gpus = ", ".join(gpu_names())
    print(f"{'GPU':<18}{gpus or 'none that torch or cupy can use'}")


def package_versions() -> Iterator[tuple[str, str]]:
    """Yield every dependency that is installed, optional ones included."""
    requirements = metadata.requires("neucmds") or []
    names = [re.split(r"[^\w.-]", line)[0] for line in requirements]
    for name in dict.fromkeys([*names, *ARRAY_LIBRARIES]):
        for package in metadata.distributions(name=name):
            yield name, package.version
            break


def blas_libraries() -> Iterator[tuple[str, str]]:
    """Yield the libraries of this process that run threads of their own."""
    import_module("scipy.linalg")
    for library in threadpoolctl.threadpool_info():
        version = library["version"] or "unknown version"
        yield library["prefix"], f"{version}, {library['num_threads']} threads"


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
