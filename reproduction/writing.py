"""Records as text: Markdown for reading, rows for a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduction.records import Cell, Record

CSV_HEADER = (
    "row",
    "column",
    "printed",
    "published",
    "ours",
    "low",
    "high",
    "difference",
    "verdict",
    "errata",
    "note",
)
PRINTED_HEADER = (
    "data",
    "what",
    "print",
    "meant",
    "ours",
    "range",
    "difference",
    "verdict",
    "why",
)


def stem(name: str) -> str:
    """Name of an experiment's files."""
    return name.replace(":", "-")


def number(value: float | int | str | None, digits: int = 5) -> str:
    """Write a number with a few significant digits, whole ones in full, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.{digits}g}"


def printed_row(cell: Cell) -> tuple[str, ...]:
    """One line on a published number: print, what it means on our scale, ours, and why."""
    assert cell.printed is not None
    spread = (
        ""
        if cell.low is None
        else f"{number(cell.low, 4)} … {number(cell.high, 4)}"
    )
    difference = (
        "" if cell.difference is None else f"{100 * cell.difference:+.2f} %"
    )
    note = "data not at hand" if cell.ours is None else cell.note
    return (
        cell.row,
        cell.column,
        cell.printed.text,
        number(cell.printed.value),
        number(cell.ours),
        spread,
        difference,
        cell.verdict,
        "; ".join(filter(None, (", ".join(cell.printed.errata), note))),
    )


def own_table(record: Record) -> tuple[list[str], list[list[str]]]:
    """Collect what print does not have: a line for each quantity, a column for each data set."""
    cells = {(c.row, c.column): c for c in record.cells if c.printed is None}
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    lines = [
        [column, *(_own(cells.get((row, column))) for row in rows)]
        for column in columns
    ]
    return ["", *rows], lines


def _own(cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = number(cell.ours, 4)
    return f"{text} ({cell.note})" if cell.note else text


def reasons(records: Sequence[Record]) -> list[str]:
    """Why rows were not run, each reason once."""
    return list(
        dict.fromkeys(
            skip.reason for record in records for skip in record.skipped
        )
    )


def csv_rows(record: Record) -> list[list[Any]]:
    """All cells of a record, one line each, in the order of `CSV_HEADER`."""
    rows = []
    for cell in record.cells:
        printed = cell.printed
        rows.append(
            [
                cell.row,
                cell.column,
                printed.text if printed else "",
                repr(printed.value) if printed else "",
                *(
                    "" if v is None else v
                    for v in (cell.ours, cell.low, cell.high)
                ),
                "" if cell.difference is None else repr(cell.difference),
                cell.verdict,
                " ".join(printed.errata) if printed else "",
                cell.note,
            ]
        )
    return rows


def markdown(record: Record) -> str:
    """Write one record: published numbers line by line, then what is ours alone."""
    label = f" (`{', '.join(record.labels)}`)" if record.labels else ""
    parts = [f"# {record.name}{label}", f"{record.title}."]
    parts += list(record.notes)
    printed = [
        printed_row(cell) for cell in record.cells if cell.printed is not None
    ]
    if printed:
        parts.append(markdown_table(PRINTED_HEADER, printed))
    header, lines = own_table(record)
    if lines:
        parts += [
            "Ours alone:" if printed else "",
            markdown_table(header, lines),
        ]
    if record.skipped:
        parts.append("\n".join(f"- {reason}" for reason in reasons([record])))
    settings = ", ".join(
        f"{name} {value}" for name, value in record.parameters.items()
    )
    parts.append(f"Settings: {settings}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """Write a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )
