"""`show_versions` prints what a report of a flaw needs."""

from __future__ import annotations

import getpass
import platform
import socket
import sys
from importlib import metadata
from types import SimpleNamespace

import numpy
import threadpoolctl

import neucmds


def printed(capsys):
    neucmds.show_versions()
    return capsys.readouterr().out.splitlines()


def value(lines, name):
    (line,) = [line for line in lines if line.split()[0] == name]
    return line.removeprefix(name).strip()


def test_versions_are_those_that_run(capsys):
    lines = printed(capsys)
    assert value(lines, "neucmds") == neucmds.__version__
    assert value(lines, "python").startswith(platform.python_version())
    assert value(lines, "numpy") == numpy.__version__
    assert value(lines, "scikit-learn") == metadata.version("scikit-learn")


def test_another_version_farther_down_the_path_does_not_run(
    capsys, monkeypatch, tmp_path
):
    folder = tmp_path / "numpy-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: numpy\nVersion: 0.1\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert value(printed(capsys), "numpy") == numpy.__version__


def test_optional_dependencies_count_and_tools_of_developers_do_not(capsys):
    names = {line.split()[0] for line in printed(capsys)}
    assert {"pandas", "plotly", "dask"} <= names
    assert not {"ruff", "sphinx"} & names


def test_blas_is_named_with_its_threads(capsys):
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        lines = printed(capsys)
        libraries = threadpoolctl.threadpool_info()
    for library in libraries:
        if library["user_api"] == "blas":
            row = f"{library['prefix']:<18}{library['version']}, 1 threads"
            assert row in lines


def test_a_gpu_is_named_by_torch(capsys, monkeypatch):
    cuda = SimpleNamespace(
        device_count=lambda: 2, get_device_name=lambda i: f"card {i}"
    )
    torch = SimpleNamespace(
        cuda=cuda, __spec__=SimpleNamespace(name="torch"), __path__=[]
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert value(printed(capsys), "GPU") == "card 0, card 1"


def test_neither_user_nor_host_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "secret-host")
    text = "\n".join(printed(capsys))
    assert "secret-host" not in text
    assert socket.gethostname() not in text
    assert f"/{getpass.getuser()}" not in text
