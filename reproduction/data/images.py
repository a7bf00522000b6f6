"""The paper's image sets, read from files a user has, else fetched from OpenML.

Paper: sec:experiments. The published rows are of the first 1000 training images in the official
order.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError, InputError
from reproduction.data.home import DataNotFoundError, PathLike, data_folders, find_file, read_npz

IMAGE_SETS = ("mnist", "fashion_mnist", "cifar10")

_OPENML = {"mnist": "mnist_784", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR_10"}
# where Debian's dataset-fashion-mnist puts the original files
_DEBIAN = Path("/usr/share/dataset-fashion-mnist")
_FIRST_LABELS = {"mnist": [5, 0, 4, 1, 9, 2, 1, 3], "fashion_mnist": [9, 0, 0, 3, 0, 2, 7, 2]}
_CIFAR_RECORD = 1 + 3 * 32 * 32
_IDX_MAGIC = 0x0800  # idx files of unsigned bytes; the last byte is the number of axes

Bytes = npt.NDArray[np.uint8]


class Images(NamedTuple):
    """Images (n, height, width[, channel]) and labels (n,), both unsigned bytes."""

    images: Bytes
    labels: Bytes


def load_images(
    name: str, *, data_home: PathLike | None = None, n: int = 1000, download: bool = True
) -> Images:
    """Load the first n training images of MNIST, Fashion-MNIST or CIFAR-10.

    Parameters
    ----------
    name : {"mnist", "fashion_mnist", "cifar10"}
        Which set.
    data_home : path, optional
        Folder to look in, and in its subfolders ``images`` and `name`; default ``$NEUCMDS_DATA``.
        Taken are ``NAME.npz`` with keys x and y, the original ``train-images-idx3-ubyte`` and
        ``train-labels-idx1-ubyte`` (plain or .gz), and CIFAR-10's binary version
        (``data_batch_1.bin`` …, also in ``cifar-10-batches-bin``). CIFAR-10's Python version is
        pickled and is not read.
    n : int
        How many images.
    download : bool
        Fetch from OpenML if no file is found; scikit-learn keeps what it fetched.

    Returns
    -------
    Images
        Images and labels as unsigned bytes, in the official order.
    """
    if name not in IMAGE_SETS:
        raise InputError(f"no image set {name!r}; there are {', '.join(IMAGE_SETS)}.")
    found = _from_files(name, data_home, n)
    if found is None and download:
        found = _from_openml(name)
    if found is None:
        raise _not_found(name)
    if not 1 <= n <= len(found.images):
        raise InputError(f"n is {n}; {name} holds {len(found.images)} images here.")
    return Images(found.images[:n], found.labels[:n])


def _not_found(name: str) -> DataNotFoundError:
    originals = "data_batch_1.bin" if name == "cifar10" else "train-images-idx3-ubyte.gz"
    return DataNotFoundError(
        f"{name} not found: put {name}.npz (keys x, y) or {originals} into a folder and pass it as "
        "data_home or set NEUCMDS_DATA; without a network there is no download."
    )


def _from_files(name: str, data_home: PathLike | None, n: int) -> Images | None:
    folders = data_folders(data_home, "images") + data_folders(data_home, name)[1:]
    archive = find_file(folders, [f"{name}.npz"])
    if archive is not None:
        content = read_npz(archive, ("x", "y"))
        return Images(content["x"], content["y"])
    if name == "cifar10":
        return _read_cifar(folders + [folder / "cifar-10-batches-bin" for folder in folders], n)
    if name == "fashion_mnist":
        folders.append(_DEBIAN)
    return _read_idx_pair(name, folders)


def _read_idx_pair(name: str, folders: list[Path]) -> Images | None:
    """Read images and labels; the two sets share their file names, their first labels differ."""
    stems = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    for folder in folders:
        paths = [find_file([folder], [stem, f"{stem}.gz"]) for stem in stems]
        if paths[0] is not None and paths[1] is not None:
            labels = _read_idx(paths[1])
            if labels[: len(_FIRST_LABELS[name])].tolist() == _FIRST_LABELS[name]:
                return Images(_read_idx(paths[0]), labels)
    return None


def _read_idx(path: Path) -> Bytes:
    """Read an idx file of unsigned bytes: magic number, one big-endian length an axis, bytes."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise FileFormatError(f"{path} cannot be unpacked: {error}.") from error
    magic = int.from_bytes(raw[:4], "big")
    if magic & ~0xFF != _IDX_MAGIC:
        raise FileFormatError(f"{path} is not an idx file of unsigned bytes (magic {magic:#010x}).")
    n_axes = magic & 0xFF
    shape = tuple(int(x) for x in np.frombuffer(raw, ">u4", count=n_axes, offset=4))
    data = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_axes)
    if data.size != int(np.prod(shape)):
        raise FileFormatError(f"{path} holds {data.size} bytes where its header says {shape}.")
    return data.reshape(shape)


def _read_cifar(folders: list[Path], n: int) -> Images | None:
    """Read as many of the five binary batches as n images need."""
    records: list[Bytes] = []
    for batch in range(1, 6):
        path = find_file(folders, [f"data_batch_{batch}.bin"])
        if path is None or sum(map(len, records)) >= n:
            break
        raw = np.fromfile(path, dtype=np.uint8)
        if raw.size == 0 or raw.size % _CIFAR_RECORD:
            raise FileFormatError(
                f"{path} holds {raw.size} bytes, not a multiple of {_CIFAR_RECORD}; it is not a "
                "batch of CIFAR-10's binary version."
            )
        records.append(raw.reshape(-1, _CIFAR_RECORD))
    if not records:
        return None
    table = np.concatenate(records)
    return Images(_channels_last(table[:, 1:]), table[:, 0].copy())


def _channels_last(rows: npt.NDArray[Any]) -> Bytes:
    planes = rows.reshape(-1, 3, 32, 32).astype(np.uint8)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _from_openml(name: str) -> Images | None:
    """Fetch from OpenML; None if it cannot be reached."""
    from sklearn.datasets import fetch_openml

    try:
        x, y = fetch_openml(_OPENML[name], version=1, return_X_y=True, as_frame=False, n_retries=0)
    except OSError:  # no network, no such host, a server error: urllib's are all OSErrors
        return None
    labels = np.asarray(y).astype(np.uint8)
    if name == "cifar10":
        return Images(_channels_last(np.asarray(x)), labels)
    return Images(np.asarray(x).astype(np.uint8).reshape(-1, 28, 28), labels)
