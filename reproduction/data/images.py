"""The paper's image sets, read from npz archives, else fetched from OpenML.

Paper: sec:experiments. The published rows are of the first 1000 training images in the official
order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neucmds.errors import InputError
from reproduction.data.home import (
    DataNotFoundError,
    PathLike,
    data_folders,
    find_file,
    read_npz,
)

_OPENML = {
    "mnist": "mnist_784",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR_10",
}
IMAGE_SETS = tuple(_OPENML)

Bytes = npt.NDArray[np.uint8]


class Images(NamedTuple):
    """Images (n, height, width[, channel]) and labels (n,), both unsigned bytes."""

    images: Bytes
    labels: Bytes


def load_images(
    name: str,
    *,
    data_home: PathLike | None = None,
    n: int = 1000,
    download: bool = True,
) -> Images:
    """Load the first n training images of MNIST, Fashion-MNIST or CIFAR-10.

    Parameters
    ----------
    name : {"mnist", "fashion_mnist", "cifar10"}
        Which set.
    data_home : path, optional
        Folder to look in, and in its subfolder ``images``, for ``NAME.npz`` with keys x and y;
        default ``$NEUCMDS_DATA``.
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
        raise InputError(
            f"no image set {name!r}; there are {', '.join(IMAGE_SETS)}."
        )
    archive = find_file(data_folders(data_home, "images"), [f"{name}.npz"])
    if archive is not None:
        content = read_npz(archive, ("x", "y"))
        found: Images | None = Images(content["x"], content["y"])
    else:
        found = _from_openml(name) if download else None
    if found is None:
        raise DataNotFoundError(
            f"{name} not found: put {name}.npz (keys x, y) into a folder and pass it as data_home "
            "or set NEUCMDS_DATA; without a network there is no download."
        )
    if not 1 <= n <= len(found.images):
        raise InputError(
            f"n is {n}; {name} holds {len(found.images)} images here."
        )
    return Images(found.images[:n], found.labels[:n])


def _from_openml(name: str) -> Images | None:
    """Fetch from OpenML; None if it cannot be reached."""
    from sklearn.datasets import fetch_openml

    try:
        x, y = fetch_openml(
            _OPENML[name],
            version=1,
            return_X_y=True,
            as_frame=False,
            n_retries=0,
        )
    except (
        OSError
    ):  # no network, no such host, a server error: urllib's are all OSErrors
        return None
    labels = np.asarray(y).astype(np.uint8)
    pixels: npt.NDArray[Any] = np.asarray(x).astype(np.uint8)
    if name == "cifar10":  # stored by channel
        planes = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return Images(np.ascontiguousarray(planes), labels)
    return Images(pixels.reshape(-1, 28, 28), labels)
