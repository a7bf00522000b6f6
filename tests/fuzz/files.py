"""Mutated bytes for every reader: a file is read, or refused by one `InputError`."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from neucmds import Embedding, InputError, neuc_mds
from neucmds.ecology.metadata import match_rows, read_metadata
from neucmds.problem.containers import read_square
from neucmds.problem.dense import as_squares
from neucmds.problem.files import (
    read_edge_table,
    read_new_objects,
    read_table,
)

NAMES = ("ant", "bee", "cat", "dog")
D = np.array([[0, 1.5, 2, 3], [1.5, 0, 3, 4], [2, 3, 0, 5], [3, 4, 5, 0]])
FRAME = pd.DataFrame(D, NAMES, NAMES)
PAIRS = "from,to,d\nant,bee,1.5\nant,cat,2\nbee,cat,3\ncat,dog,5\nant,dog,3\n"
SITES = 'site\tdepth\tsoil\nant\t1.5\tpeat\nbee\tNA\tclay\ncat\t2\t"peat, wet"\ndog\t-1e3\t\n'

# What breaks parsers more often than random bytes do; in a JSON header; among numbers.
WORDS = (
    b"", b"\0", b"\n", b"\r", b",", b";", b"\t", b'"', b"'", b"#", b"-", b"(", b")", b"{", b"[[[[",
    b"1e999", b"1e-999", b"1e308", b"nan", b"NA", b"inf", b"1_0", b"9" * 25, b"-1", b"\xff",
    b"\xe9", "٣".encode(), "\u2028".encode(), b"PK", b"PAR1", b"\x93NUMPY", b"#q2:",
    b"\xef\xbb\xbf", b"null", b"true",
    b"\x00\x00\x00\x80", b"\xff\xff\xff\xff", b"1" * 5000,
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 2**70, 1e308, -1e-308, float("nan"), float("inf"), "", "neuc", [], {},
    [[]], "refined", "LinearPlacement", "LossPlacement", "NoneType", "relative", 0.5,
)  # fmt: skip
ENTRIES = (np.nan, np.inf, 0.0, -1.0, 1e300, 1e-300, 5.0)
DTYPES = ("<f4", ">f8", "<i8", "<c16", "<U3", "|b1", "<f2", "<f8")


@dataclass(frozen=True)
class Kind:
    """A file to start from, given as text or by its writer, and everything that reads it."""

    name: str
    source: str | Callable[[io.BytesIO], object]
    readers: tuple[Callable[[Path], object], ...]


def _used(path: Path) -> None:
    """Load an embedding and use everything that it holds."""
    embedding = Embedding.load(path)
    embedding.save(io.BytesIO())
    repr(embedding), embedding.dissimilarities(squared=True)
    if embedding.placement is not None:
        embedding.transform(np.ones((1, embedding.n)))


def _qza(file: io.BytesIO) -> None:
    """Write an artifact of QIIME 2."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("id/data/distance-matrix.tsv", FRAME.to_csv(sep="\t"))


TABLE = (
    read_table,
    lambda path: as_squares(path, symmetrize=True, missing="ignore"),
    lambda path: read_new_objects(str(path), 4),
    lambda path: read_new_objects(str(path), 2, NAMES[:2]),
)
MAPPED = (*TABLE, read_square)
METADATA = (
    lambda path: match_rows(read_metadata(path), NAMES, 4),
    lambda path: match_rows(
        read_metadata(path), (*NAMES, "elk"), 5, missing="grey"
    ),
    lambda path: match_rows(read_metadata(path), None, 4),
)
LISTED = (read_edge_table,)
PACKED = {"D": D, "names": np.array(NAMES)}

KINDS = (
    Kind("d.npy", lambda file: np.save(file, D), MAPPED),
    Kind(
        "single.npy", lambda file: np.save(file, D.astype(np.float32)), MAPPED
    ),
    Kind("d.npz", lambda file: np.savez(file, **PACKED), TABLE),
    Kind(
        "packed.npz", lambda file: np.savez_compressed(file, **PACKED), TABLE
    ),
    Kind("d.qza", _qza, TABLE),
    Kind("d.csv", FRAME.to_csv(), TABLE),
    Kind("quoted.csv", FRAME.to_csv(quoting=1, sep=";"), TABLE),
    Kind("d.lsmat", FRAME.to_csv(sep="\t"), TABLE),
    Kind("lower.tsv", "ant\nbee\t1.5\ncat\t2\t3\ndog\t3\t4\t5\n", TABLE),
    Kind("d.phy", "4\nant\nbee 1.5\ncat 2 3\ndog 3 4 5\n", TABLE),
    Kind("square.dist", "4\n" + FRAME.to_csv(sep=" ", header=False), TABLE),
    Kind("pairs.csv", PAIRS, LISTED),
    Kind("pairs.txt", "0 1 1.5\n0 2 2\n1 2 3\n2 3 5\n0 3 3\n", LISTED),
    Kind("sites.tsv", SITES, METADATA),
    Kind("sites.csv", SITES.replace("\t", ";"), METADATA),
    Kind("refined.npz", lambda file: neuc_mds(FRAME, 2).save(file), (_used,)),
    Kind(
        "linear.npz",
        lambda file: neuc_mds(FRAME, 2, "neuc+").save(file),
        (_used,),
    ),
    Kind(
        "loss.npz",
        lambda file: neuc_mds(FRAME, 2, loss="distance").save(file),
        (_used,),
    ),
)


@cache
def content(kind: Kind) -> bytes:
    """Return the bytes of a file as it should be."""
    if isinstance(kind.source, str):
        return kind.source.encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _written(kind.source)


def _written(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def mutated(original: bytes, seed: int) -> bytes:
    """Cut, flip, insert, overwrite, repeat and splice, one to four times."""
    rng, spoiled = random.Random(seed), bytearray(original)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        at, until = sorted(
            (rng.randint(0, len(spoiled)), rng.randint(0, len(spoiled)))
        )
        kind = rng.randrange(7)
        word = rng.choice(WORDS)
        if kind == 0:
            del spoiled[at : min(until, at + rng.choice((1, 4, 64, 10**6)))]
        elif kind == 1 and at < len(spoiled):
            spoiled[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            spoiled[at:at] = word
        elif kind == 3:
            spoiled[at : at + len(word)] = word
        elif kind == 4:
            spoiled[at:at] = spoiled[at : min(until, at + 200)]
        elif kind == 5 and len(original):
            start = rng.randrange(len(original))
            spoiled[at:until] = original[start : start + until - at]
        elif at < len(spoiled):
            spoiled[at] = rng.randrange(256)
    return bytes(spoiled)


def repacked(archive: bytes, seed: int) -> bytes:
    """Mutate one array inside an npz file: a checksum guards nearly all bytes of the file."""
    rng = random.Random(seed)
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    chosen, kind = rng.choice(sorted(members)), rng.randrange(5)
    if kind == 0 and "header.npy" in members:
        header = json.loads(
            np.load(io.BytesIO(members["header.npy"])).tobytes()
        )
        header[rng.choice(sorted(header))] = rng.choice(VALUES)
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        members["header.npy"] = _written(lambda file: np.save(file, text))
    elif kind == 1:
        array = _spoiled(np.load(io.BytesIO(members[chosen])), rng)
        members[chosen] = _written(lambda file: np.save(file, array))
    elif kind == 2:
        del members[chosen]
    elif kind == 3:
        members[chosen] = members[rng.choice(sorted(members))]
    else:
        members[chosen] = mutated(members[chosen], seed)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, held in members.items():
            packed.writestr(name, held)
    return buffer.getvalue()


def _spoiled(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Change the shape, the type or one entry of an array."""
    kind = rng.randrange(4)
    if kind == 0:
        return array[None]
    if kind == 1:
        return np.atleast_1d(array)[:-1]
    if kind == 2 or array.dtype.kind != "f" or not array.size:
        number = array.dtype.kind in "fib"
        return (
            array.astype(rng.choice(DTYPES))
            if number
            else np.stack([array, array])
        )
    array.flat[rng.randrange(array.size)] = rng.choice(ENTRIES)
    return array


def problems(kind: Kind, seed: int, folder: Path) -> tuple[int, list[str]]:
    """Count who refuses a mutated file; name other errors, and messages that are not one line."""
    spoil = repacked if kind.name.endswith(".npz") and seed % 4 else mutated
    path = folder / kind.name
    with np.errstate(all="ignore"):
        path.write_bytes(spoil(content(kind), seed))
    refused, findings = 0, []
    for number, read in enumerate(kind.readers):
        try:
            read(path)
        except Exception as error:
            refused += isinstance(error, InputError)
            if (
                not isinstance(error, InputError)
                or len(str(error).splitlines()) != 1
            ):
                what = f"{type(error).__name__}: {str(error)[:150]!r}"
                findings.append(
                    f"{kind.name} seed {seed} reader {number}: {what}"
                )
    return refused, findings
