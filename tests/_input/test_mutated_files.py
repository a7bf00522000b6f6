"""Mutated bytes: whatever a file holds, the answer is a table or one `FileFormatError`."""

from __future__ import annotations

import io
import os
import warnings

import numpy as np
import pandas as pd
import pytest

from neucmds._input import read_table
from neucmds._input.readers.new_objects import read_new_objects
from neucmds.errors import FileFormatError

# Files mutated per format; `NEUCMDS_FUZZ=100000` for a long run.
EXAMPLES = int(os.environ.get("NEUCMDS_FUZZ", "60"))
NAMES = ("ant", "bee", "cat", "dog")
D = np.array([[0, 1.5, 2, 3], [1.5, 0, 3, 4], [2, 3, 0, 5], [3, 4, 5, 0]])
FRAME = pd.DataFrame(D, NAMES, NAMES)

# What breaks parsers more often than random bytes do.
WORDS = (
    b"", b"\0", b"\n", b"\r", b",", b";", b"\t", b'"', b"'", b"#", b"-", b"(", b")", b"{", b"[[[[",
    b"1e999", b"nan", b"NA", b"1_0", b"9" * 25, b"-1", b"\xff", b"\xe9", "٣".encode(), b"PK",
    b"PAR1",
)  # fmt: skip


def made(write) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def parquet(buffer):
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    FRAME.to_parquet(buffer)


FORMATS = {
    "d.npy": lambda buffer: np.save(buffer, D),
    "d.npz": lambda buffer: np.savez(buffer, D=D, names=np.array(NAMES)),
    "packed.npz": lambda buffer: np.savez_compressed(buffer, D=D, names=np.array(NAMES)),
    "d.parquet": parquet,
    "d.csv": lambda buffer: buffer.write(FRAME.to_csv().encode()),
    "quoted.csv": lambda buffer: buffer.write(FRAME.to_csv(quoting=1, sep=";").encode()),
    "lower.tsv": lambda buffer: buffer.write(b"ant\nbee\t1.5\ncat\t2\t3\ndog\t3\t4\t5\n"),
    "dist.txt": lambda buffer: buffer.write(b"  ant bee cat\nbee 1.5\ncat 2 3\ndog 3 4 5\n"),
    "d.phy": lambda buffer: buffer.write(b"4\nant\nbee 1.5\ncat 2 3\ndog 3 4 5\n"),
}


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flip, insert, repeat and splice, one to four times."""
    spoiled = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        at, until = sorted(int(i) for i in rng.integers(0, len(spoiled) + 1, 2))
        kind = rng.integers(6)
        if kind == 0:
            del spoiled[at:until]
        elif kind == 1 and at < len(spoiled):
            spoiled[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            spoiled[at:at] = WORDS[rng.integers(len(WORDS))]
        elif kind == 3:
            word = WORDS[rng.integers(len(WORDS))]
            spoiled[at : at + len(word)] = word
        elif kind == 4:
            spoiled[at:at] = spoiled[at : min(until, at + 200)]
        elif at < len(spoiled):
            spoiled[at] = int(rng.integers(256))
    return bytes(spoiled)


def refusal(read, what: str) -> str:
    """Return what is said of a file that cannot be read, or nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tokenizer, on headers of npy files
            read()
    except FileFormatError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}") from error
    return ""


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_is_a_table_or_one_clear_error(name, tmp_path):
    content, path = made(FORMATS[name]), tmp_path / name
    for seed in range(EXAMPLES):
        path.write_bytes(mutated(content, np.random.default_rng(seed)))
        for read in (
            lambda: read_table(path),
            lambda: read_table(path, mmap=True),
            lambda: read_new_objects(str(path), 4),
        ):
            assert "\n" not in refusal(read, f"{name}, seed {seed}")
