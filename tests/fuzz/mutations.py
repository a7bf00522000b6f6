"""Mutated bytes for every reader: what a file holds is read, or refused by one `InputError`."""

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
from neucmds._input import (
    as_dissimilarity,
    match_rows,
    read_metadata,
    read_new_objects,
    read_square,
    read_table,
)
from neucmds._input.pairs import as_pairs

NAMES = ("ant", "bee", "cat", "dog")
D = np.array([[0, 1.5, 2, 3], [1.5, 0, 3, 4], [2, 3, 0, 5], [3, 4, 5, 0]])
FRAME = pd.DataFrame(D, NAMES, NAMES)

# What breaks parsers more often than random bytes do.
WORDS = (
    b"", b"\0", b"\n", b"\r", b",", b";", b"\t", b'"', b"'", b"#", b"-", b"(", b")", b"{", b"[[[[",
    b"1e999", b"1e-999", b"1e308", b"nan", b"NA", b"inf", b"1_0", b"9" * 25, b"-1", b"\xff",
    b"\xe9", "٣".encode(), "\u2028".encode(), b"PK", b"PAR1", b"\x93NUMPY", b"#q2:",
    b"\xef\xbb\xbf", b"null", b"true",
    b"\x00\x00\x00\x80", b"\xff\xff\xff\xff", b"1" * 5000,
)  # fmt: skip


def _embedding(buffer: io.BytesIO, method: str = "refined", **options: object) -> None:
    neuc_mds(FRAME, 2, method, **options).save(buffer)


def _text(text: str) -> Callable[[io.BytesIO], object]:
    return lambda buffer: buffer.write(text.encode())


# What a JSON header may hold in the place of a value.
VALUES = (
    None, True, False, 0, -1, 2**70, 1e308, -1e-308, float("nan"), float("inf"), "", "neuc", [], {},
    [[]], "refined", "LinearPlacement", "LossPlacement", "NoneType", "relative", 0.5,
)  # fmt: skip
DTYPES = ("<f4", ">f8", "<i8", "<c16", "<U3", "|b1", "<f2", "<f8")

PAIRS = "from,to,d,w\nant,bee,1.5,1\nant,cat,2,1\nbee,cat,3,2\ncat,dog,5,1\nant,dog,3,0.5\n"
SITES = (
    "site\tdepth\tsoil\nant\t1.5\tpeat\nbee\tNA\tclay\n"
    'cat\t2\t"peat, wet"\ndog\t-1e3\t\n'
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A file to start from, and everything that reads such a file."""

    name: str
    write: Callable[[io.BytesIO], object]
    readers: tuple[Callable[[Path], object], ...]


def _transform(path: Path) -> object:
    """Load an embedding and use everything that it holds."""
    embedding = Embedding.load(path)
    again = io.BytesIO()
    embedding.save(again)
    repr(embedding), embedding.dissimilarities()
    if embedding.placement is not None:
        embedding.transform(np.ones((1, embedding.n)))
    return embedding


TABLE = (
    lambda path: read_table(path),
    lambda path: as_dissimilarity(path, symmetrize=True, missing="ignore"),
    lambda path: read_new_objects(str(path), 4),
)
MAPPED = (*TABLE, lambda path: read_square(path))
METADATA = (
    lambda path: match_rows(read_metadata(path), NAMES, 4),
    lambda path: match_rows(read_metadata(path), None, 4, by_order=True),
)
MODEL = (_transform,)
LISTED = (lambda path: as_pairs(str(path)),)

KINDS = tuple(
    Kind(*kind)
    for kind in (
        ("d.npy", lambda buffer: np.save(buffer, D), MAPPED),
        ("single.npy", lambda buffer: np.save(buffer, D.astype(np.float32)), MAPPED),
        ("d.npz", lambda buffer: np.savez(buffer, D=D, names=np.array(NAMES)), TABLE),
        (
            "packed.npz",
            lambda buffer: np.savez_compressed(buffer, D=D, names=np.array(NAMES)),
            TABLE,
        ),
        ("d.parquet", lambda buffer: FRAME.to_parquet(buffer), TABLE),
        ("d.csv", _text(FRAME.to_csv()), TABLE),
        ("quoted.csv", _text(FRAME.to_csv(quoting=1, sep=";")), TABLE),
        ("d.lsmat", _text(FRAME.to_csv(sep="\t")), TABLE),
        ("lower.tsv", _text("ant\nbee\t1.5\ncat\t2\t3\ndog\t3\t4\t5\n"), TABLE),
        ("dist.txt", _text("  ant bee cat\nbee 1.5\ncat 2 3\ndog 3 4 5\n"), TABLE),
        ("d.phy", _text("4\nant\nbee 1.5\ncat 2 3\ndog 3 4 5\n"), TABLE),
        ("square.dist", _text("4\n" + FRAME.to_csv(sep=" ", header=False)), TABLE),
        ("pairs.csv", _text(PAIRS), LISTED),
        ("pairs.txt", _text("0 1 1.5\n0 2 2\n1 2 3\n2 3 5\n0 3 3\n"), LISTED),
        ("sites.tsv", _text(SITES), METADATA),
        ("sites.csv", _text(SITES.replace("\t", ";")), METADATA),
        ("refined.npz", lambda buffer: _embedding(buffer), MODEL),
        ("linear.npz", lambda buffer: _embedding(buffer, "neuc+"), MODEL),
        ("loss.npz", lambda buffer: _embedding(buffer, loss="distance", n_init=1), MODEL),
    )
)


@cache
def content(kind: Kind) -> bytes:
    """Return the bytes of a file as it should be."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.write(buffer)
    return buffer.getvalue()


def mutated(original: bytes, seed: int) -> bytes:
    """Cut, flip, insert, overwrite, repeat and splice, one to four times.

    Parameters
    ----------
    original : bytes
    seed : int
        The same seed gives the same bytes.
    """
    rng, spoiled = random.Random(seed), bytearray(original)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        at, until = sorted((rng.randint(0, len(spoiled)), rng.randint(0, len(spoiled))))
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
    """Mutate one array inside a npz file, and pack it with the checksums that go with it.

    Nearly all bytes of a packed file are guarded by a checksum; only this reaches what is behind.
    """
    rng = random.Random(seed)
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    chosen, kind = rng.choice(sorted(members)), rng.randrange(5)
    if "header.npy" in members and kind == 0:
        chosen = "header.npy"
        header = json.loads(str(np.load(io.BytesIO(members[chosen]))))
        header[rng.choice(sorted(header))] = rng.choice(VALUES)
        members[chosen] = _saved(np.asarray(json.dumps(header)))
    elif kind == 1:
        members[chosen] = _saved(_spoiled(np.load(io.BytesIO(members[chosen])), rng))
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


def _saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _spoiled(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Change the shape, the type or one entry of an array."""
    kind = rng.randrange(5)
    if kind == 0:
        return array[..., None] if array.ndim == 0 else array[:-1]
    if kind == 1:
        return array[None]
    if kind == 2:
        try:
            return array.astype(rng.choice(DTYPES))
        except ValueError:
            return array.ravel()
    if array.dtype.kind == "f" and array.size:
        entries = (np.nan, np.inf, 0.0, -1.0, 1e300, 1e-300, 5.0)
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice(entries)
        return array
    return np.concatenate([np.atleast_1d(array)] * 2)


def spoiled_file(kind: Kind, seed: int) -> bytes:
    """Return the bytes of a file of this kind that are tried for a seed."""
    original = content(kind)
    if kind.name.endswith(".npz") and seed % 4:
        with np.errstate(all="ignore"):
            return repacked(original, seed)
    return mutated(original, seed)


def problems(kind: Kind, seed: int, folder: Path) -> tuple[int, list[str]]:
    """Read one mutated file in every way there is.

    Returns
    -------
    refused : int
        How many of the readers refused it.
    findings : list of str
        What was raised beside `InputError`, or said in more than one line.
    """
    path = folder / kind.name
    path.write_bytes(spoiled_file(kind, seed))
    refused, findings = 0, []
    for number, read in enumerate(kind.readers):
        try:
            read(path)
        except InputError as error:
            refused += 1
            if "\n" in str(error) or not str(error):
                findings.append(f"{kind.name} seed {seed} reader {number}: {str(error)[:200]!r}")
        except Exception as error:
            what = f"{type(error).__name__}: {str(error)[:150]}"
            findings.append(f"{kind.name} seed {seed} reader {number}: {what}")
    return refused, findings
