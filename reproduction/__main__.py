"""`python -m reproduction [NAME…]`: the paper's tables and figures as files in one folder."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from neucmds.errors import InputError
from reproduction.document import RECORD, reproduction
from reproduction.records import Record
from reproduction.registry import select
from reproduction.runner import run_experiments
from reproduction.sources import Settings
from reproduction.writing import CSV_HEADER, csv_rows, markdown, reasons, stem

DOCUMENT = "reproduction.md"


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiments that are named, all by default, and write their records."""
    asked = parser().parse_args(words)
    try:
        chosen = select(asked.names)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    if asked.list:
        for one in chosen:
            print(f"{one.name:30} {one.label or 'ours':24} {one.about}")
        return 0
    settings = Settings(asked.seed, asked.data, download=not asked.no_download)
    asked.output.mkdir(parents=True, exist_ok=True)
    records = []
    for record in run_experiments(
        chosen, settings, lambda step: print(step, file=sys.stderr)
    ):
        records.append(record)
        write(asked.output, record, plots=not asked.no_plots)
    (asked.output / DOCUMENT).write_text(
        reproduction(records), encoding="utf-8"
    )
    (asked.output / Path(RECORD).name).write_text(
        as_json(records), encoding="utf-8"
    )
    show(records)
    print(f"Written to {asked.output}, {DOCUMENT} among the files.")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="python -m reproduction", description=__doc__
    )
    made.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a name or LaTeX label; default all",
    )
    made.add_argument(
        "--list", action="store_true", help="list the names and stop"
    )
    made.add_argument("--seed", type=int, default=0)
    made.add_argument(
        "--data", type=Path, help="folder of the data; default $NEUCMDS_DATA"
    )
    made.add_argument(
        "--no-download", action="store_true", help="fetch nothing from OpenML"
    )
    made.add_argument(
        "--no-plots", action="store_true", help="draw no figures"
    )
    made.add_argument(
        "-o", "--output", type=Path, default=Path("paper-neucmds")
    )
    return made


def write(folder: Path, record: Record, *, plots: bool) -> None:
    """Write one record as JSON, Markdown and CSV, and its figure as PNG and SVG."""
    name = stem(record.name)
    content = json.dumps(record.as_dict(), indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(content + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(markdown(record), encoding="utf-8")
    with (folder / f"{name}.csv").open(
        "w", newline="", encoding="utf-8"
    ) as stream:
        csv.writer(stream).writerows([CSV_HEADER, *csv_rows(record)])
    if plots and record.panels:
        from reproduction.drawing import draw

        figure = draw(record)
        for kind in ("png", "svg"):
            figure.savefig(folder / f"{name}.{kind}")


def as_json(records: Sequence[Record]) -> str:
    """Return the records as JSON, a line for each number, without the curves of figures."""
    content = [record.as_dict() | {"panels": []} for record in records]
    return (
        json.dumps(content, ensure_ascii=False).replace('{"row"', '\n{"row"')
        + "\n"
    )


def show(records: Sequence[Record]) -> None:
    """Print every record, what could not be run, and how many published numbers agree."""
    for record in records:
        print(markdown(record))
    for reason in reasons(records):
        print(f"Not run: {reason}" if "not run" not in reason else reason)
    agree, differ, absent = (
        sum(record.score[i] for record in records) for i in range(3)
    )
    print(
        f"{agree + differ + absent} published numbers: {agree} agree, {differ} differ, "
        f"{absent} not run. {sum(record.seconds for record in records):.0f} s."
    )


if __name__ == "__main__":
    sys.exit(main())
