"""``neucmds paper``: the paper's tables and figures, the published number beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from neucmds.cli.console import print_json, print_table, say, steps
from neucmds.cli.options import Force, Json, NoPlots, Seed
from neucmds.cli.outputs import Outputs

if TYPE_CHECKING:
    from neucmds.paper import Experiment, Record

DEFAULT_FOLDER = Path("paper-neucmds")
DOCUMENT = "reproduction.md"
KINDS = ("json", "md", "csv", "png", "svg")


def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Tables and figures, by name or LaTeX label; all by default.",
            show_default=False,
        ),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the names and stop.")] = False,
    seed: Seed = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Folder with images and genomics; the environment's NEUCMDS_DATA by default.",
            show_default=False,
        ),
    ] = None,
    no_download: Annotated[
        bool, typer.Option("--no-download", help="Fetch no image sets from OpenML.")
    ] = False,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for the results."),
    ] = DEFAULT_FOLDER,
    as_json: Json = False,
    force: Force = False,
    no_plots: NoPlots = False,
) -> None:
    """Regenerate the paper's tables and figures, the published numbers beside ours."""
    from neucmds.paper import Settings, run_experiments, select
    from neucmds.paper.writing import stem

    chosen = select(names or [])
    if only_list:
        _list(chosen, as_json=as_json)
        return
    files = [f"{stem(one.name)}.{kind}" for one in chosen for kind in KINDS]
    outputs = Outputs(output, [*files, DOCUMENT], force=force)
    settings = Settings(seed, data, download=not no_download)
    records = []
    with steps() as progress:
        for record in run_experiments(chosen, settings, progress.now):
            records.append(record)
            _plan(outputs, record, plots=not no_plots)
    _plan_document(outputs, records)
    written = outputs.commit()
    if as_json:
        document = {"command": "paper", "records": [record.as_dict() for record in records]}
        print_json(document | {"files": [str(path) for path in written]})
        return
    _show(records)
    say(f"Written to {output}/: {len(written)} files, {DOCUMENT} among them.")


def _list(chosen: Sequence[Experiment], *, as_json: bool) -> None:
    if as_json:
        found = [{"name": e.name, "label": e.label, "about": e.about} for e in chosen]
        print_json({"command": "paper", "experiments": found})
        return
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("name", "label", "what"):
        table.add_column(column, no_wrap=True)
    for experiment in chosen:
        table.add_row(experiment.name, experiment.label or "ours", experiment.about)
    print_table(table)


def _plan(outputs: Outputs, record: Record, *, plots: bool) -> None:
    """Plan the files of one record."""
    from neucmds.paper.writing import CSV_HEADER, csv_rows, markdown, stem

    name = stem(record.name)
    outputs.add_json(f"{name}.json", record.as_dict())
    text = markdown(record)
    outputs.add_text(f"{name}.md", text)
    outputs.add_csv(f"{name}.csv", CSV_HEADER, csv_rows(record))
    if plots and record.panels:
        from neucmds.paper.drawing import draw

        figure = draw(record)
        for kind in ("png", "svg"):
            outputs.add_plot(f"{name}.{kind}", figure.axes[0])


def _plan_document(outputs: Outputs, records: Sequence[Record]) -> None:
    from neucmds.paper.document import reproduction

    text = reproduction(records)
    outputs.add_text(DOCUMENT, text)


def _show(records: Sequence[Record]) -> None:
    """Print every published number beside ours, then what is ours alone."""
    from neucmds.paper.writing import PRINTED_HEADER, own_table, printed_row, reasons

    for record in records:
        printed = [c for c in record.cells if c.printed is not None and c.ours is not None]
        title = f"{record.name}: {record.title} ({record.seconds:.1f} s)"
        if printed:
            _print_rows(title, PRINTED_HEADER, [printed_row(cell) for cell in printed])
        header, lines = own_table(record)
        if lines:
            _print_rows("ours alone" if printed else title, header, lines)
        for note in record.notes:
            say(note)
    for reason in reasons(records):
        say(f"Not run: {reason}" if "not run" not in reason else reason)
    totals = [sum(record.score[i] for record in records) for i in range(3)]
    if sum(totals):
        say(
            f"{sum(totals)} published numbers: {totals[0]} have the same digits, are within "
            f"tolerance or in range, {totals[1]} differ, "
            f"{totals[2]} not run. {sum(r.seconds for r in records):.0f} s."
        )


def _print_rows(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, column in enumerate(header):
        table.add_column(column, justify="left" if i < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    print_table(table)
