"""The document on the reproduction: every published number beside ours, from records alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from neucmds.paper.errata import ERRATA
from neucmds.paper.records import Record
from neucmds.paper.writing import markdown, reasons

__all__ = ["reproduction"]

_OPENING = """\
# The paper, reproduced

Made by `neucmds paper -o DIR`, which writes this page as `DIR/reproduction.md` (`make reproduction`
copies it here); no number is typed in by hand. **print** is what stands in the paper, **meant** the
same number on the scale of this library with misprints corrected, **ours** what this library
computes, **range** what other seeds (synthetic data, landmarks), or rounding, make of it. Errata
are listed at the end."""

_VERDICTS = """\
A number is reproduced if it has the same digits, if it is within the tolerance that its kind of
data allows (0.2 % for neighbour graphs of images, 2 % for noise and counts, 3 % for synthetic sets,
5 % for SMACOF), or if print lies in the range."""


def reproduction(records: Sequence[Record]) -> str:
    """Write the page."""
    parts = [_OPENING, _VERDICTS, _summary(records)]
    missing = reasons(records)
    if missing:
        parts.append("## Not run\n\n" + "\n".join(f"- {reason}" for reason in missing))
    parts.append(_differences(records))
    parts += [markdown(record, level=2).rstrip() for record in records]
    parts.append(_errata())
    return "\n\n".join(parts) + "\n"


def _summary(records: Sequence[Record]) -> str:
    lines = ["| | published numbers | reproduced | differ | not run |", "|---|---|---|---|---|"]
    scores = [record.score for record in records]
    for record, score in zip(records, scores, strict=True):
        if sum(score):
            lines.append(f"| {record.name} | {sum(score)} | {' | '.join(map(str, score))} |")
    totals = [sum(score[i] for score in scores) for i in range(3)]
    lines.append(f"| **all** | {sum(totals)} | {' | '.join(map(str, totals))} |")
    versions = records[0].versions if records else {}
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join(lines) + f"\n\nMade with {software}."


def _differences(records: Sequence[Record]) -> str:
    cells = [(r.name, c) for r in records for c in r.cells if c.agrees is False]
    if not cells:
        return "## What differs\n\nNothing that could be run."
    lines = [
        f"- {name}, {cell.row}, {cell.column}: {100 * (cell.difference or 0):+.2f} %; {cell.note}"
        for name, cell in cells
    ]
    return "## What differs\n\n" + "\n".join(lines)


def _errata() -> str:
    by_number = sorted(ERRATA, key=lambda name: int(re.sub(r"\D", "", name)))
    lines = [f"- **{name}** {ERRATA[name]}." for name in by_number]
    return "## Errata\n\n" + "\n".join(lines)
