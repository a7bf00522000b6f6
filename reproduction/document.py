"""The document on the reproduction: every published number beside ours, from records alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reproduction.errata import ERRATA
from reproduction.records import Record
from reproduction.writing import markdown, reasons

_OPENING = """\
# The paper, reproduced

Made by `python -m reproduction -o DIR`, which writes `DIR/reproduction.md` (`make reproduction`
copies it here); no number is typed in by hand. **print** is what stands in the paper, **meant** the
same number on the scale of this library with misprints corrected, **ours** what this library
computes, **range** what other seeds (synthetic data, landmarks), or rounding, make of it. Errata
are listed at the end."""

_VERDICTS = """\
A number counts as reproduced in one of three ways, told apart below: the same digits; within the
tolerance of its kind of data (0.2 % for neighbour graphs of images, 2 % for noise and counts, 3 %
for synthetic sets and SMACOF, 0.5 % for distortions with twins); or print lies in the range, which
says less, the less the wider the range is. Every printed number is counted, although the
distortions are printed twice and tab:stress-all holds squares of tab:evaluation-1-all."""

_FITTED = """\
## What was chosen by looking at print

The paper leaves these open; each was settled by trying and keeping what comes nearest to the
published numbers, so agreement there is weaker evidence than elsewhere.

- Wrapped bytes (E12), the scales of Random-simplex (E11) and the units of the tables (E7, E9).
- How SMACOF was run (E16): the 10-NN graphs, D as input, half the sum and ÷10 were found among two
  graphs, two inputs and four dimensions. Three image entries then agree to three digits.
- The arithmetic behind negative pairs and distortions of the 2-NN rows: one of 33 variants, which
  differ by the rounding of twins only. Over all of them Neuc-MDS has 998 to 1022 negative pairs on
  MNIST (print 1006), 493 to 581 on Fashion-MNIST (526) and 2653 to 3137 on CIFAR-10 (2968). Rows
  without twins, all of k = 10 among them, do not depend on it.
- k = 9 of the landmark factors (E18), among 13 values of k.
- What is removed in the missing rows: one rule for CIFAR-10, another for the other two.
- The corrected digits of E8 and E17.
- The steps that show the dimensionality paradox are searched for in our own curves."""


def reproduction(records: Sequence[Record]) -> str:
    """Write the page."""
    parts = [_OPENING, _VERDICTS, _summary(records)]
    missing = reasons(records)
    if missing:
        parts.append("## Not run\n\n" + "\n".join(f"- {reason}" for reason in missing))
    parts += [_differences(records), _FITTED]
    parts += [markdown(record, level=2).rstrip() for record in records]
    parts.append(_errata())
    return "\n\n".join(parts) + "\n"


def _summary(records: Sequence[Record]) -> str:
    kinds = ("same digits", "within", "in range", "differs", "not run")
    lines = [
        "| | published numbers | same digits | within tolerance | in range | differ | not run |",
        "|---|---|---|---|---|---|---|",
    ]
    totals = dict.fromkeys(kinds, 0)
    for record in records:
        verdicts = [cell.verdict for cell in record.cells if cell.printed is not None]
        counts = {kind: sum(verdict.startswith(kind) for verdict in verdicts) for kind in kinds}
        totals = {kind: totals[kind] + counts[kind] for kind in kinds}
        if verdicts:
            lines.append(_line(record.name, counts))
    lines.append(_line("**all**", totals))
    versions = records[0].versions if records else {}
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join(lines) + f"\n\nMade with {software}."


def _line(name: str, counts: dict[str, int]) -> str:
    return f"| {name} | {sum(counts.values())} | {' | '.join(map(str, counts.values()))} |"


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
