"""Fills the tables of the guide from the records of benchmarks and from the package.

    python docs/tables.py

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; a test compares the pages with
the records.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"
NAMES = (
    "choosing.md",
    "coordinates.md",
    "directed.md",
    "losses.md",
    "missing.md",
    "nmds.md",
    "objects.md",
    "scale.md",
    "statistics.md",
)
PAGES = [ROOT / "docs" / "guide" / name for name in NAMES]
PAGES += [
    ROOT / "docs" / name
    for name in (
        "maths.md",
        "performance.md",
        "quality.md",
        "reliability.md",
        "scaling.md",
        "scoreboard.md",
    )
]
PAGES += [ROOT / "README.md", ROOT / "paper" / "paper.md"]
SLOT = re.compile(
    r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL
)


def record(name: str) -> Any:
    """Return a record as it was measured."""
    return json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    """Return three digits, without an exponent."""
    return f"{value:.3g}" if value < 1e3 else f"{float(f'{value:.2g}'):,.0f}"


def of_quality() -> list[dict[str, Any]]:
    """Return the sets of docs/quality.md, each with its rows by method."""
    rows = record("losses")["rows"]
    shown = {
        (row["data"], row["k"]): {} for row in rows if row["method"] == "exact"
    }
    for row in rows:
        if (row["data"], row["k"]) in shown:
            shown[row["data"], row["k"]][row["method"]] = row
    return list(shown.values())


def methods() -> str:
    """Return STRESS of every method, divided by that of classical MDS on the same data and k."""
    sets = of_quality()
    sizes = {
        "fewer than 100 objects": [
            one for one in sets if one["exact"]["n"] < 100
        ],
        "100 to 1000 objects": [
            one for one in sets if one["exact"]["n"] >= 100
        ],
    }

    def cell(method: str, group: list[Any]) -> str:
        own = [one for one in group if method in one]
        ratios = [
            one[method]["stress"] / one["classical"]["stress"] for one in own
        ]
        return f"{number(median(ratios))} ({number(min(ratios))} to {number(max(ratios))})"

    names = {name: name for name in ("lower", "neuc", "neuc+", "exact")}
    names |= {"refined": "squared"} | {
        name: name for name in ("smacof", "lingoes", "cailliez")
    }
    head = [
        "S-STRESS divided by that of `classical`",
        *(f"{size}: {len(g)} sets" for size, g in sizes.items()),
    ]
    return table(
        head,
        (
            [f"`{m}`", *(cell(key, g) for g in sizes.values())]
            for m, key in names.items()
        ),
    )


CURVED = "relative, κ chosen"
QUALITY = {
    "classical": "classical MDS",
    "lower": "`lower`",
    "neuc": "`neuc`",
    "neuc+": "`neuc+`",
    "exact": "`exact`",
    "squared": "squared",
    "distance": "distance",
    "relative": "relative",
    CURVED: CURVED,
    "smacof": "SMACOF",
    "lingoes": "Lingoes",
    "cailliez": "Cailliez",
}


def of_sets(measure: str, form: str, names: Iterable[str]) -> str:
    """Return one measure of every set by method, the least in bold."""
    names = list(names)

    def cells(one: Any) -> list[str]:
        values = [
            one[name][measure] if name in one else None for name in names
        ]
        least = min(value for value in values if value is not None)
        bold = {value: "**" if value == least else "" for value in values}
        return [
            "" if v is None else f"{bold[v]}{v:{form}}{bold[v]}"
            for v in values
        ]

    head = ["data", "n", "k", *(QUALITY[name] for name in names)]
    facts = ((one, one["exact"]) for one in of_quality())
    return table(
        head,
        (
            [f["data"], f"{f['n']:,}", str(f["k"]), *cells(one)]
            for one, f in facts
        ),
    )


def quality_stress() -> str:
    """Return STRESS of every set by method."""
    return of_sets(
        "stress", ".4g", (name for name in QUALITY if "κ" not in name)
    )


LOSSES = (
    "classical",
    "exact",
    "squared",
    "distance",
    "relative",
    CURVED,
    "smacof",
)


def quality_distortion() -> str:
    """Return the distortion of every set by loss."""
    return of_sets("distortion", ".4f", LOSSES)


def quality_counts() -> str:
    """Return in how many sets the squared loss has the least STRESS, and losses beat SMACOF."""
    every = of_quality()
    flat = [
        [
            row
            for name, row in one.items()
            if name in QUALITY and name != CURVED
        ]
        for one in every
    ]
    least = sum(
        one["squared"]["stress"]
        <= min(row["stress"] for row in others) * (1 + 1e-6)
        for one, others in zip(every, flat, strict=True)
    )
    most = f"on {least} of {len(every)} sets"
    lines = [
        f"- `refined` (squared): the least STRESS of all fits without κ or heights {most}."
    ]
    groups = (
        ("squared",),
        ("distance",),
        ("relative",),
        ("distance", "relative"),
        (CURVED,),
    )
    for losses in groups:
        sets = [one for one in every if {"smacof", *losses} <= set(one)]
        # As printed: a loss and SMACOF often end in the same minimum.
        own = [
            round(min(one[loss]["distortion"] for loss in losses), 4)
            for one in sets
        ]
        theirs = [round(one["smacof"]["distortion"], 4) for one in sets]
        lower, same = (
            sum(map(how, own, theirs)) for how in (operator.lt, operator.eq)
        )
        name = (
            losses[0]
            if len(losses) == 1
            else f"the better of {' and '.join(losses)}"
        )
        counts = (
            f"on {lower} of {len(sets)} sets"
            + f", equal on {same}" * bool(same)
        )
        lines.append(
            f"- `refined` ({name}): distortion lower than SMACOF's {counts}."
        )
    return "\n".join(lines) + "\n"


def new_objects() -> str:
    """Return relative errors of fitted and of placed objects."""
    names = ("classical", "neuc+", "exact", "refined")
    rows = (
        [
            f"{data}, k = {r['k']}",
            *(
                f"{r['methods'][m]['fitted']:.3f} → {r['methods'][m]['new']:.3f}"
                for m in names
            ),
        ]
        for data, r in record("placement")["methods"].items()
    )
    return table(
        ["‖D̂ − D‖ / ‖D‖, fitted → new", *(f"`{m}`" for m in names)], rows
    )


def gaps() -> str:
    """Return errors on hidden entries, relative to predicting their mean."""
    rows = (
        [
            data,
            str(runs[0]["k"]),
            f"{mean(r['error'] for r in runs):.2f}",
            f"{mean(r['mean_then_exact'] for r in runs):.2f}",
            "yes" if any(r["warnings"] for r in runs) else "no",
        ]
        for data, runs in record("missing").items()
        if "mean_then_exact" in runs[0]
    )
    head = [
        "data, 30 % hidden",
        "k",
        '`missing="ignore"`',
        "mean filled in, then `exact`",
        "warned",
    ]
    return table(head, rows)


def isomap() -> str:
    """Return errors of geodesic distances, of Isomap and of `NeucIsomap`."""
    rows = (
        [
            f"{r['data']}, k = {r['k']}",
            r["method"],
            f"({r['signature'][0]}, {r['signature'][1]})",
            f"{100 * r['geodesic_error']:.1f} %",
            f"{100 * r['geodesic_error_held_out']:.1f} %",
            f"{100 * r['neighbors_kept']:.0f} %",
        ]
        for r in record("isomap")["rows"]
        if r["k"] != 20
    )
    return table(
        [
            "data",
            "method",
            "signature",
            "mean relative error",
            "held out",
            "recall@10",
        ],
        rows,
    )


TESTED = {
    "moving_pictures_unifrac": "moving pictures, UniFrac, body sites",
    "protein213": "213 proteins, families",
    "GlobalPatterns26_braycurtis": "Global Patterns, Bray–Curtis, kinds of sample",
    "dune, Moisture": "dune, Bray–Curtis, Moisture",
}


def of_groups() -> dict[str, dict[str, Any]]:
    """Return the statistics of groups by data and by the matrix that they are of."""
    found: dict[str, dict[str, Any]] = {data: {} for data in TESTED}
    for row in record("permanova")["rows"]:
        found[row["data"]][row["on"]] = row
    return found


def permanova() -> str:
    """Return pseudo-F and R² of groups on d and on √D̂."""
    on = ("D", "√D̂, k = 2", "√D̂, k = 6", "√D̂, k = 12")
    rows = (
        [
            TESTED[data],
            str(of["D"]["groups"]),
            *(f"{of[matrix]['pseudo_f']:.3g}" for matrix in on),
            *(f"{of[matrix]['r2']:.2f}" for matrix in (on[0], on[2])),
        ]
        for data, of in of_groups().items()
    )
    head = [
        "data",
        "groups",
        "pseudo-F on d",
        "on √D̂, k = 2",
        "k = 6",
        "k = 12",
    ]
    return table([*head, "R² of groups on d", "on √D̂, k = 6"], rows)


def permdisp() -> str:
    """Return F of PERMDISP on D by every convention, and vegan's on √D̂."""
    conventions = {
        "scikit-bio, ten axes": ("D", "permdisp_f_ten_axes"),
        "scikit-bio, all axes": ("D", "permdisp_f_all_axes"),
        "vegan, median": ("D", "betadisper_median_f"),
        "vegan, centroid": ("D", "betadisper_centroid_f"),
        "vegan, median, on √D̂": ("√D̂, k = 6", "betadisper_median_f"),
        "vegan, centroid, on √D̂": ("√D̂, k = 6", "betadisper_centroid_f"),
    }
    rows = (
        [
            TESTED[data],
            *(f"{of[on][key]:.3g}" for on, key in conventions.values()),
        ]
        for data, of in of_groups().items()
    )
    return table(["data, groups", *conventions], rows)


# What the guide calls the kinds of input, of fits and the options of `neucmds.options.TABLE`.
INPUT_WORDS = {
    "matrix": "d in memory",
    "dask": "d as a dask array, or in a file or store that does not fit",
    "operator": "d computed in blocks",
    "pairs": "sparse d: known pairs",
    "features": "features and a metric",
    "sampled": "features with `n_pairs`",
    "graph": "graph of up to 10,000 nodes, or of any size by a closed form",
    "large graph": "larger graph, or with `n_pairs`, by `refined`",
    "landmarks": "d, features or a graph, with `landmarks`",
}
FIT_WORDS = {
    "closed form": "any closed form",
    "squared loss": '`loss="squared"`',
    "distance loss": '`loss="distance"`',
    "ordinal loss": '`loss="ordinal"`',
    "directed": "`directed`",
}
OPTION_WORDS = {
    "method": "a closed form",
    "loss": '`loss="distance"`, `"relative"`, `"absolute"`',
    "ordinal": '`loss="ordinal"`',
    "floor": "`floor`",
    "curvature": "`curvature`",
    "heights": "`heights`",
    "n_components": '`n_components=0.9`, `"auto"`',
    "weights": "`weights`",
    "missing": '`missing="ignore"`',
    "init": "`init`",
    "n_init": "`n_init` above 1",
    "squared": "`squared`",
    "symmetrize": "`symmetrize`",
    "directed": "`directed`",
    "n_pairs": "`n_pairs`",
}


def goes_with() -> str:
    """Return which option goes with which kind of input, and the notes below."""
    from neucmds.options import INPUTS, OPTIONS, TABLE

    fits = "yes", "if their d fits in memory"
    remarks = {
        ("features", "loss"): fits,
        ("features", "ordinal"): fits,
        ("features", "n_init"): fits,
        ("graph", "n_pairs"): (
            "yes",
            "then a sample of pairs is fitted; closed forms use all",
        ),
        ("large graph", "method"): ("yes", "then the row above applies"),
    }
    notes: list[str] = []

    def mark(kind: str, name: str) -> str:
        if name in TABLE[kind]:
            return "–"
        word, why = remarks.get((kind, name), ("yes", ""))
        if not why:
            return word
        if why not in notes:
            notes.append(why)
        return f"{word} ({notes.index(why) + 1})"

    rows = [
        [INPUT_WORDS[kind], *(mark(kind, name) for name in OPTIONS)]
        for kind in INPUTS
    ]
    for kind, what in FIT_WORDS.items():
        marks = [mark(kind, name) for name in OPTIONS]
        rows.append([what, *("" if one == "yes" else one for one in marks)])
    below = "".join(
        f"({i}) {note}. " for i, note in enumerate(notes, 1)
    ).strip()
    return (
        table(["", *(OPTION_WORDS[name] for name in OPTIONS)], rows)
        + f"\n{below}\n"
    )


def defaults() -> str:
    """Return the limits of "refined" by loss, the same for every kind of input."""
    from neucmds.refine.descent import FEW_OBJECTS, MAX_ITER, usual_tol
    from neucmds.refine.losses import LOSSES

    rows = [
        [
            f'`"{loss}"`',
            str(MAX_ITER),
            f"{usual_tol(loss, FEW_OBJECTS + 1):g}",
            f"{usual_tol(loss, FEW_OBJECTS):g}",
        ]
        for loss in LOSSES
    ]
    return table(
        [
            "`loss`",
            "`max_iter`",
            "`tol`",
            f"`tol`, up to {FEW_OBJECTS} objects",
        ],
        rows,
    )


def directed_streets(*parts: str) -> str:
    """Return ways to keep driving distances in both directions."""
    rows = [
        [row["way"], f"{row['numbers']:,}", *directed_errors(row)]
        for part in parts or ("streets",)
        for row in record("directed")[part]
    ]
    return table(["", "numbers per node", *DIRECTED_ERRORS], rows)


DIRECTED_ERRORS = (
    "signature",
    "mean",
    "median",
    "p95",
    "near pairs",
    "recall@10",
)


def directed_errors(row: Any) -> list[str]:
    """Return the signature and the errors of a fit in both directions."""
    shares = [row[name] for name in ("mean", "median", "p95", "near")]
    return [
        str(tuple(row["signature"])) if "signature" in row else "",
        *(f"{100 * share:.1f} %" for share in shares),
        f"{row['recall']:.3f}",
    ]


def directed_towns() -> str:
    """Return the default call on towns that are drawn."""
    rows = [
        [
            f"{100 * row['one_way']:.0f} %",
            f"{row['kept']:,} of {row['nodes']:,}",
            f"{100 * row['directions_differ']:.0f} %",
            row["way"],
            str(row["numbers"]),
            *directed_errors(row),
        ]
        for row in record("directed")["towns"]
    ]
    header = ["one-way streets", "nodes kept", "directions differ by", ""]
    return table([*header, "numbers per node", *DIRECTED_ERRORS], rows)


def directed_listed() -> str:
    """Return fits of some ordered pairs."""
    rows = [
        [
            f"{100 * row['known']:.0f} %",
            f"{row['known'] * row['nodes']:.0f}",
            *directed_errors(row),
        ]
        for row in record("directed")["listed"]
    ]
    return table(["pairs known", "targets per node", *DIRECTED_ERRORS], rows)


def directed_breakfast() -> str:
    """Return the stress of unfolding beside that of smacof."""
    rows = [
        [row["case"], f"{row['stress']:.5f}", f"{row['smacof']:.5f}"]
        for row in record("directed")["breakfast"]
        if row["smacof"] is not None
    ]
    return table(["entries", "neucmds", "smacof::unfolding"], rows)


def directed_tuned() -> str:
    """Return the same figures with other parameters."""
    return directed_streets("curved", "tuned")


def directed_quadrangles() -> str:
    """Return how often one-way distances break what Euclidean points obey."""
    rows = [
        [
            row["network"],
            f"{100 * row['pairs_broken']:.0f} %",
            f"{100 * row['quadrangles_broken']:.2f} %",
        ]
        for row in record("directed")["quadrangles"]
    ]
    return table(
        ["", "ordered pairs (i, j), for some l and m", "random i, j, l, m"],
        rows,
    )


def directed_folds() -> str:
    """Return errors of fitted nodes and of nodes placed later."""
    rows = record("directed")["folds"]
    names = ("fitted", "new sources", "new targets", "between new")
    means = [mean(row[name] for row in rows) for name in names]
    return table(
        ["mean error", *names],
        [["five folds", *(f"{100 * value:.2f} %" for value in means)]],
    )


def directed_large() -> str:
    """Return errors, time and memory of a large directed graph."""
    measured = record("directed")
    rows = [
        [
            way,
            f"{row['n']:,}",
            str(row["k"]),
            str(tuple(row["signature"])),
            f"{100 * row['mean']:.2f} %",
            f"{100 * row['near']:.1f} %",
            f"{row['recall']:.3f}",
            f"{row['cpu_seconds']:.0f}",
            f"{row['cpu_seconds_beyond_searches']:.0f}",
            f"{row['peak_gb']:.1f} GB",
        ]
        for way, part in (
            ("256 pairs per node", "large"),
            ("200 landmarks", "landmarks"),
        )
        for row in measured[part]
    ]
    header = ["", "nodes", "k", "signature", "mean", "near pairs", "recall@10"]
    times = ["CPU seconds", "of them beyond the searches", "peak memory"]
    return table([*header, *times], rows)


def directed_morse() -> str:
    """Return how much of the asymmetry of confusions is explained."""
    rows = [
        [
            f"{row['way']}, k = {row['k']}",
            str(row["numbers"]),
            str(tuple(row["signature"])),
            f"{row['stress1']:.3f}",
            f"{100 * row['asymmetry_explained']:.0f} %",
        ]
        for row in record("directed")["morse"]
    ]
    header = ["", "numbers per signal", "signature", "stress-1"]
    return table([*header, "asymmetry explained"], rows)


def curvature() -> str:
    """Return the relative loss at κ = 0 and at the κ of "auto"."""
    rows = record("curvature")["rows"]

    def both(flat: Any, bent: Any, name: str) -> str:
        return f"{100 * flat[name]:.2f} % → {100 * bent[name]:.2f} %"

    def signs(row: Any) -> str:
        return f"({', '.join(map(str, row['signature']))})"

    pairs = zip(rows[::2], rows[1::2], strict=True)
    version = record("curvature")["versions"]["neucmds"]
    made_with = f"Recorded with neucmds {version}; `benchmarks/curvature.py`."
    lines = table(
        (
            "",
            "n",
            "k",
            "κ",
            "signature",
            "mean error, all pairs",
            "mean error, ten nearest",
            "recall@10",
        ),
        (
            (
                bent["set"],
                f"{bent['n']:,}",
                str(bent["k"]),
                f"{bent['curvature']:.1f}".replace("-", "−"),
                f"{signs(flat)} → {signs(bent)}",
                both(flat, bent, "mean_error"),
                both(flat, bent, "near_error"),
                f"{flat['recall_10']:.3f} → {bent['recall_10']:.3f}",
            )
            for flat, bent in pairs
        ),
    )
    return f"{lines}\n{made_with}\n"


def curved_spaces() -> str:
    """Return the error of signed coordinates beside hyperbolic and product spaces."""
    rows = record("curved_spaces")["rows"]
    sets = list(dict.fromkeys(row["set"] for row in rows))

    def cell(data: str, prefix: tuple[str, ...]) -> str:
        own = [
            row
            for row in rows
            if row["set"] == data and row["method"].startswith(prefix)
        ]
        best = min(own, key=lambda row: row["mean"])
        return f"{100 * best['mean']:.1f} %, {100 * best['p99']:.0f} %"

    kinds = {
        "signed coordinates, κ chosen": ("neucmds, κ chosen",),
        "signed coordinates, κ = 0": ("neucmds, κ = 0",),
        "Euclidean": ("E",),
        "hyperbolic (H)": tuple(f"H{row['numbers']}, " for row in rows),
        "H × H": tuple(f"H{row['numbers'] // 2} × H" for row in rows),
        "S × H": ("S",),
        "H × E": tuple(f"H{row['numbers'] // 2} × E" for row in rows),
        "hydra": ("hydra",),
    }
    sizes = {row["set"]: f"{row['set']}, k = {row['numbers']}" for row in rows}
    lines = (
        [name, *(cell(data, prefix) for data in sets)]
        for name, prefix in kinds.items()
    )
    return table(
        ["mean and p99 error of d", *(sizes[data] for data in sets)],
        lines,
    )


def published_graphs() -> str:
    """Return the mean error with ten numbers per node beside published values."""
    rows = record("published_graphs")["rows"]

    def value(figure: float | None) -> str:
        return "" if figure is None else f"{figure:.4f}"

    lines = []
    for row in rows:
        seconds = row["seconds"]
        if row["device"] == "cpu":
            seconds = row.get("cpu seconds", seconds)
        form = str(tuple(row["signature"]))
        if row["heights"]:
            form += " and heights"
        lines.append(
            [
                row["name"],
                f"{row['n']:,}",
                "H200" if row["device"] == "cuda" else "CPU",
                f"{seconds:.0f}",
                value(row["mean error"]),
                f"{form}, κ = {row['curvature']:.3g}",
                *(
                    value(row[source])
                    for source in (
                        "Gu et al.",
                        "metric spaces",
                        "mixed spaces",
                    )
                ),
            ]
        )
    return table(
        [
            "mean of \\|d̂/d − 1\\|",
            "n",
            "on",
            "seconds",
            "neucmds",
            "chosen",
            "Gu et al.",
            "metric spaces",
            "mixed, non-metric",
        ],
        lines,
    )


def published_folds() -> str:
    """Return errors of nodes placed later beside those of the fitted ones."""
    rows = [
        [
            row["name"],
            "H200" if row["device"] == "cuda" else "CPU",
            f"{row['curvature']:.3g}",
            f"{row['fitted']:.4f}",
            f"{row['placed']:.4f}",
            f"{row['placed'] / row['fitted']:.2f}",
        ]
        for row in record("published_graphs")["folds"]
    ]
    return table(["", "on", "κ", "fitted", "placed", "ratio"], rows)


def latency() -> str:
    """Return relative errors of round-trip times beside network coordinates."""
    return table(
        ["", "numbers per host", "form", "mean", "median", "p90"],
        (
            [
                row["method"],
                str(row["numbers"]),
                row["form"] or "",
                *(
                    f"{100 * row[figure]:.1f} %"
                    for figure in ("mean", "median", "p90")
                ),
            ]
            for row in record("latency")["rows"]
        ),
    )


def fuzz() -> str:
    """Return how many files and matrices the fuzz run has tried, and what it found."""
    kinds = {"files": ("files", "readings"), "matrices": ("matrices", "fits")}
    rows = []
    for kind, (trials, checks) in kinds.items():
        run = record("fuzz")[kind]
        sums = run["sums"]
        refused = f"{sums['refused'] / sums[checks]:.0%}"
        found = str(len(sums["findings"]))
        rows.append(
            [
                f"{sums[trials]:,} {trials}",
                f"{sums[checks]:,} {checks}",
                refused,
                found,
            ]
        )
    return table(
        ["trials", "checks", "refused with one line", "open findings"], rows
    )


PERCENT = "{:.2f} %"


def roads() -> str:
    """Return road distances: ours, landmarks, exact indexes, and the published models."""
    found = record("roads")
    newest = found["versions"]["neucmds"]
    edges = [f"≤ {edge / 1000:.1f} km" for edge in found["bucket_edges"][1:]]
    head = [
        "",
        "bytes per node",
        "mean error",
        "median",
        "p99",
        *edges,
        "mean error, m",
        "build, s",
        "queries/s",
    ]
    order = [
        f"neucmds, {kind}" for kind in ("all-pairs", "sampled", "landmarks")
    ]
    order += ["ALT, lower bound"]

    def place(row: Any) -> tuple[Any, ...]:
        group = (
            order.index(row["method"])
            if row["method"] in order
            else len(order)
        )
        return group, -row.get("numbers", 0), str(row.get("asked", ""))

    def name(row: Any) -> str:
        if "numbers" not in row:
            return f"{row['method']} (exact)"
        bent = row.get("curvature")
        kappa = "" if not bent else f", κ = {bent:.1f}".replace("-", "−")
        facts = ["H200"] if row.get("device") == "cuda" else []
        if row.get("neucmds", newest) != newest:
            facts.append(row["neucmds"])
        beside = f" ({', '.join(facts)})" if facts else ""
        return f"{row['method'].replace('-', ' ')}, k = {row['numbers']}{kappa}{beside}"

    def line(title: str, row: Any, speed: float) -> list[str]:
        keys = ("mean_error", "median_error", "p99_error")
        errors = [
            PERCENT.format(100 * row[key]) if key in row else ""
            for key in keys
        ]
        errors += [PERCENT.format(100 * value) for value in row["buckets"]]
        size, build = (
            f"{row['bytes_per_node']:,.0f}",
            number(row["build_seconds"]),
        )
        return [
            title,
            size,
            *errors,
            f"{row['metres']:.1f}",
            build,
            number(speed),
        ]

    rows = sorted(found["rows"], key=place)
    rows = [
        row for row in rows if row.get("asked") != "auto" or row["curvature"]
    ]
    lines = [line(name(row), row, row["queries_per_second"]) for row in rows]
    known = sorted(found["published"], key=lambda row: row["mean_error"])
    lines += [
        line(f"{row['method']} *", row, 1e6 / row["microseconds"])
        for row in known
        if row["mean_error"] <= SHOWN_ERROR
    ]
    others = [
        row["mean_error"]
        for row in found["published"]
        if row["mean_error"] > SHOWN_ERROR
    ]
    below = f"\\* published by the survey; the mean errors of its {len(others)} other models are "
    lines = [
        [title, *(cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in cells)]
        for title, *cells in lines
    ]
    return (
        table(head, lines)
        + f"\n{below}{100 * min(others):.0f} to {100 * max(others):.0f} %.\n"
    )


SHOWN_ERROR = 0.12


def five_tasks() -> list[list[str]]:
    """Return five tasks: our figure, the best of the others, and where to read on."""
    roads = record("roads")
    newest = roads["versions"]["neucmds"]
    roads_64 = [
        row
        for row in roads["rows"]
        if row.get("numbers") == 64 and row.get("neucmds", newest) == newest
    ]
    graph = next(
        row
        for row in record("published_graphs")["rows"]
        if row["name"] == "CS PhDs" and row["device"] == "cpu"
    )
    strings = [
        row
        for row in record("strings")["rows"]
        if row["data"] == "amplicons" and row["k"] == 64
    ]
    plots = [row for row in record("ordination")["rows"] if row["k"] == 2]
    speed = {
        row["system"]: row["seconds"]
        for row in record("speed")["rows"]
        if row["family"] == "8-NN hops"
    }

    def road_error(own: bool) -> str:
        least = min(
            row["mean_error"]
            for row in roads_64
            if row["method"].startswith("neucmds") is own
        )
        return PERCENT.format(100 * least)

    # Rows "in …" are the coordinates of neucmds in an index.
    ours = [row for row in strings if row["method"].startswith("neucmds")]
    others = [
        row
        for row in strings
        if not row["method"].startswith(("neucmds", "in "))
    ]
    best_string = max(ours, key=operator.itemgetter("recall_10"))
    best_other = max(others, key=operator.itemgetter("recall_10"))

    def stress(method: str) -> str:
        values = [r["raw_stress"] for r in plots if r["method"] == method]
        return f"{100 * median(values):.2f} %"

    return [
        [
            "road distances, Jinan, 64 numbers per node, mean error (all pairs, fitted on an H200)",
            road_error(True),
            f"{road_error(False)}, ALT landmarks (lower median)",
            "[roads](docs/scoreboard.md#road-distances)",
        ],
        [
            "graph distances, CS PhDs, 10 numbers per node, mean error",
            PERCENT.format(100 * graph["mean error"]),
            f"{PERCENT.format(100 * graph['mixed spaces'])}, overlapping spaces (published)",
            "[graphs](docs/scoreboard.md#graph-distances-in-curved-spaces)",
        ],
        [
            "edit distance of amplicons, 64 numbers, recall@10",
            f"{best_string['recall_10']:.3f}",
            f"{best_other['recall_10']:.3f}, {best_other['method']}",
            "[strings](docs/scoreboard.md#your-own-distance-in-a-vector-index)",
        ],
        [
            "ordination in the plane, ten tables, median raw stress",
            stress("neucmds, distance"),
            f"{stress('MDS')}, scikit-learn",
            "[ordination](docs/scoreboard.md#ordination)",
        ],
        [
            "100 eigenpairs of 8,000 objects (hops), seconds",
            f"{number(speed['neucmds'])}",
            f"{number(speed['eigsh'])}, SciPy's `eigsh`",
            "[speed](docs/performance.md#beside-other-solvers)",
        ],
    ]


def scoreboard_short() -> str:
    """Return the five tasks, with links."""
    return table(["task", "neucmds", "best of the others", ""], five_tasks())


def scoreboard_paper() -> str:
    """Return the five tasks without links, which a printed page has not."""
    rows = [row[:-1] for row in five_tasks()]
    return table(["task", "neucmds", "best of the others"], rows)


def kept(row: Any, counts: Iterable[int] = (10, 50, 100)) -> str:
    """Return recall raw and after re-ranking."""
    return " / ".join(f"{row[f'recall_{count}']:.3f}" for count in counts)


STRING_METHODS = (
    *(
        f"neucmds, {one}"
        for one in ("squared", "distance", "relative", "linear", "two levels")
    ),
    *(
        "landmark MDS",
        "LAESA, k numbers",
        "LAESA, L numbers",
        "ANNCUR",
        "Nyström",
    ),
)


def strings_of(data: str) -> str:
    """Return recall of every method by coordinates and landmarks."""
    rows = [
        row
        for row in record("strings")["rows"]
        if row["data"] == data and row["L"]
    ]
    cells = {(row["method"], row["k"], row["L"]): row for row in rows}
    columns = sorted({(row["L"], row["k"]) for row in rows})
    names = {
        row["method"] for row in rows if not row["method"].startswith("in ")
    }

    def line(method: str) -> list[str]:
        own = [cells.get((method, k, n)) for n, k in columns]
        return [method, *("" if row is None else kept(row) for row in own)]

    head = ["", *(f"L = {n}, k = {k}" for n, k in columns)]
    errors = [
        max(row[f"error_{one}"] for row in rows) for one in (10, 50, 100)
    ]
    below = f"\nStandard errors are at most {' / '.join(f'{one:.3f}' for one in errors)}.\n"
    return (
        table(head, map(line, sorted(names, key=STRING_METHODS.index))) + below
    )


def string_costs() -> str:
    """Return milliseconds of a query: its distances, placing and searching, re-ranking 50."""
    found = record("strings")
    each = {
        data: 1000 * seconds
        for data, seconds in found["distance_seconds"].items()
    }

    def line(row: Any) -> list[str]:
        one, asked = each[row["data"]], row["distances_per_query"]
        own = 1000 * row["seconds_per_query"]
        # Two levels ask while they place.
        placing = (
            max(0.0, own - asked * one)
            if row.get("seconds_include_distances")
            else own
        )
        facts = [
            f"{asked:.0f}",
            f"{row['numbers']}",
            f"{asked * one:.1f}",
            f"{placing:.1f}",
        ]
        total = (asked + 50) * one + placing
        return [
            row["data"],
            row["method"],
            *facts,
            f"{total:.1f}",
            kept(row, (50,)),
        ]

    rows = [
        row
        for row in found["rows"]
        if row["k"] == 32 and row["L"] in (None, 400)
    ]
    rows.sort(
        key=lambda row: (row["data"], STRING_METHODS.index(row["method"]))
    )
    lines = [line(row) for row in rows]
    for data, n in {row["data"]: row["n"] for row in rows}.items():
        paid = f"{n * each[data]:.1f}"
        lines.append(
            [data, "all distances", f"{n}", "", paid, "", paid, "1.000"]
        )
    head = [
        "",
        "method",
        "distances per query",
        "numbers per object",
        "distances, ms",
    ]
    head += ["place and search, ms", "all, 50 re-ranked, ms", "recall@10"]
    return table(head, lines)


def string_indexes() -> str:
    """Return recall in vector indexes, and how many of the ten nearest by D̂ each finds."""
    rows = [
        row
        for row in record("strings")["rows"]
        if row["method"].startswith("in ")
    ]
    cells = {(row["method"], row["data"], row["k"]): row for row in rows}
    columns = list(dict.fromkeys((row["data"], row["k"]) for row in rows))

    def line(method: str) -> list[str]:
        own = [cells.get((method, *column)) for column in columns]
        shown = (
            ""
            if r is None
            else f"{r['same_as_exact']:.3f}, {kept(r, (10, 50))}"
            for r in own
        )
        return [method.removeprefix("in "), *shown]

    head = [f"{data}, k = {k}" for data, k in columns]
    return table(
        ["", *head], map(line, dict.fromkeys(row["method"] for row in rows))
    )


def two_levels() -> str:
    """Return two levels of landmarks on strings."""
    rows = (
        row
        for row in record("strings")["rows"]
        if row["method"] == "neucmds, two levels"
    )
    head = (
        "",
        "k",
        "landmarks",
        "distances per object",
        "per query",
        "recall@10: raw / 50 / 100",
    )
    return table(
        head,
        (
            (
                f"{row['data']}, {row['n']:,} + {row['queries']:,}",
                str(row["k"]),
                f"{row['landmarks']:,}",
                f"{row['distances_per_object']:.0f}",
                f"{row['distances_per_query']:.0f}",
                kept(row),
            )
            for row in rows
        ),
    )


EDIT_SETS = {
    "amplicons": "18S amplicons",
    "synthetic": "NeuroSEED, closest strings",
    "pairs": "NeuroSEED, pairs",
}


def edit_vectors() -> str:
    """Return RMSE and closest strings of 128 numbers, and the published values."""
    found = record("edit_vectors")
    head = (
        "",
        "data",
        "references",
        "numbers",
        "edit distances per sequence",
        "RMSE, %",
        "top-1, %",
        "top-10, %",
    )

    def line(name: str, data: str, n: str, row: Any) -> list[str]:
        digits = {"rmse": 2, "top_1": 1, "top_10": 1}
        return [
            name,
            data,
            n,
            f"{row['numbers']:,}",
            f"{row['distances']:,}",
            *(
                f"{row[key]:.{count}f}" if key in row else ""
                for key, count in digits.items()
            ),
        ]

    def published(data: str, n: str, row: Any) -> list[str]:
        name, _, size = row["method"].replace(" numbers)", "").partition(" (")
        size, _, metric = size.partition(",")
        facts = {"numbers": int(size or 128), "distances": 0}
        title = f"{name}{',' if metric else ''}{metric} *"
        return line(title, data, n, row | facts)

    lines = []
    for data, name in EDIT_SETS.items():
        own = [row for row in found["rows"] if row["data"] == data]
        own.sort(key=lambda row: row["distances"] == 0)
        lines += [
            line(row["method"], name, f"{row['references']:,}", row)
            for row in own
        ]
        n = {"synthetic": "10,000", "pairs": "50"}.get(data, "")
        lines += [
            published(name, n, row)
            for row in found.get(f"published_{data}", [])
        ]
    for row in found["published"]:
        short = {
            key: row[f"qiita_{key}"] for key in ("rmse", "top_1", "top_10")
        }
        method = {"method": row["method"]}
        lines.append(published("Qiita, 16S", "1,000", method | short))
        short = {"rmse": row["rt988_rmse"]}
        lines.append(published("RT988, 16S", "", method | short))
    return table(head, lines) + "\n\\* published.\n"


# The nearest sought, and among how many, as `SOUGHT` in edit_vectors.py has them.
WORDS_SOUGHT = ((1, 1), (1, 16), (10, 16), (10, 128), (100, 128), (100, 1024))


def edit_words() -> str:
    """Return how many of the nearest words are among those of least d̂."""
    rows = [
        row for row in record("edit_vectors")["rows"] if row["data"] == "words"
    ]
    rows.sort(key=lambda row: row["distances"] == 0)
    head = ["", "numbers", "edit distances per word", "RMSE, %"]
    head += [f"nearest {k} in {among:,}" for k, among in WORDS_SOUGHT]
    return table(
        head,
        (
            [
                row["method"],
                f"{row['numbers']:,}" if row["numbers"] else "",
                f"{row['distances']:,}",
                f"{row['rmse']:.2f}",
                *(f"{share:.3f}" for share in row["recall"]),
            ]
            for row in rows
        ),
    )


def limits() -> str:
    """Return the passes of a closed fit beside their floor, and a relative fit beside a squared."""
    found = record("limits")
    closed, relative = found["closed"], found["relative"]
    seconds = closed["cpu_seconds"]
    lines = [
        ["products with d", str(closed["passes"])],
        ["columns in them", str(closed["columns"])],
        ["bytes of d read", f"{closed['bytes'] / 1e9:.1f} GB"],
        ["floor: these products alone", f"{seconds['floor']:.2f} s"],
        ["`neuc_mds`", f"{seconds['neucmds']:.2f} s"],
        ["`eigsh` on B", f"{seconds['eigsh']:.2f} s"],
    ]
    cost = (
        f'\nHops between {relative["n"]:,} digits, k = {relative["k"]}: `loss="relative"` takes '
        f"{relative['cpu_seconds']['relative']:.1f} s, "
        f"{relative['ratio']:.0f} times the squared fit, "
        f"with {relative['recall_at_10']:.3f} of the ten nearest kept. "
        f"{100 * relative['floors']:.0f} % of it are descents on floors that fall, and "
        f"{100 * relative['signature']:.0f} % the search for the signature, "
        "which has such descents too."
    )
    head = [f"n = {closed['n']:,}, k = {closed['k']}", "one thread, CPU time"]
    return table(head, lines) + cost + f"\n\n{where(found)}\n"


def large_tables() -> str:
    """Return the stress and the CPU seconds of programs that need no table of all pairs."""
    rows = record("large_tables")["rows"]
    cells = {(row["system"], row["set"], row["k"]): row for row in rows}
    columns = {(row["set"], row["k"]): row["n"] for row in rows}
    lowest = {
        column: min(
            row["stress"] for row in rows if (row["set"], row["k"]) == column
        )
        for column in columns
    }

    def cell(system: str, column: tuple[str, int]) -> str:
        row = cells.get((system, *column))
        if row is None:
            return "–"
        text = f"{row['stress']:.5f}, {number(row['cpu_seconds'])} s"
        return (
            f"**{text}**" if row["stress"] <= 1.001 * lowest[column] else text
        )

    head = [f"{name}, n = {n:,}, k = {k}" for (name, k), n in columns.items()]
    lines = [
        [system, *(cell(system, column) for column in columns)]
        for system in dict.fromkeys(row["system"] for row in rows)
    ]
    return table(["", *head], lines)


def stress_programs() -> str:
    """Return the lowest stress of every program, and its CPU seconds to 1 % of the best rival."""
    found = record("stress")
    systems = ("neucmds", "s_gd2", "pymde", "scikit-learn")
    head = ["set", "n", "k", "w", *systems]

    def cell(row: Any, system: str) -> str:
        if system not in row["final"]:
            return "–"
        seconds = row["to_1_percent"][system]
        time = "not reached" if seconds is None else f"{number(seconds)} s"
        text = f"{row['final'][system]:.5f}, {time}"
        lowest = min(row["final"].values())
        return (
            f"**{text}**" if row["final"][system] <= 1.001 * lowest else text
        )

    lines = [
        [
            row["set"],
            f"{row['n']:,}",
            str(row["k"]),
            row["weights"],
            *(cell(row, system) for system in systems),
        ]
        for row in found["cells"]
    ]
    own = len(found["cells"])
    below = (
        f"\nneucmds is lowest or within 0.1 % of the lowest in {found['lowest']} of {own} cells, "
        f"and fastest to within 1 % of the best other program in {found['fastest']}. "
    )
    return table(head, lines) + below + f"{where(found)}\n"


def gpu_layouts() -> str:
    """Return stress and seconds on a GPU, of pymde the lower stress of its seeds."""
    found = record("gpu_layouts")
    best: dict[tuple[str, int, str, int], dict[str, Any]] = {}
    for row in sorted(found["rows"], key=operator.itemgetter("stress")):
        cell = best.setdefault(
            (row["set"], row["n"], row["weights"], row["k"]), {}
        )
        cell.setdefault(row["program"], row)
    programs = ("neucmds", "pymde")
    lines = []
    for (name, n, weights, k), cell in best.items():
        lowest = min(row["stress"] for row in cell.values())
        texts = []
        for program in programs:
            row = cell[program]
            text = f"{row['stress']:.5f}, {number(row['seconds'])} s"
            is_lowest = row["stress"] <= 1.001 * lowest
            texts.append(f"**{text}**" if is_lowest else text)
        lines.append([name, f"{n:,}", str(k), weights, *texts])
    lines.sort()
    return table(["set", "n", "k", "w", *programs], lines) + (
        f"\n{where(found)}\n"
    )


def projections() -> str:
    """Return mean ranks, and medians in brackets, of projections by each measure."""
    found = record("projections")
    rows = found["rows"]
    sets = {row["set"] for row in rows}
    measures = ("stress", "shepard", "trustworthiness", "continuity")
    titles = ("stress-1", "Shepard", "trustworthiness", "continuity")

    def cell(method: str, measure: str) -> str:
        values = [row[measure] for row in rows if row["method"] == method]
        rank = found["ranks"][method][measure]
        best = min(ranks[measure] for ranks in found["ranks"].values())
        text = f"{rank:.1f} ({median(values):.3f})"
        return f"**{text}**" if rank == best else text

    lines = []
    for method in found["ranks"]:
        seconds = [r["cpu_seconds"] for r in rows if r["method"] == method]
        cells = [cell(method, measure) for measure in measures]
        lines.append([method, *cells, f"{median(seconds):.1f}"])
    head = [f"mean rank of {len(lines)} (median of {len(sets)} sets)"]
    head += [*titles, "CPU s"]
    return table(head, lines) + f"\n{where(found)}\n"


def ordination() -> str:
    """Return medians over the sets, and in how many a method is best."""
    rows = record("ordination")["rows"]
    cells = {(row["set"], row["k"], row["method"]): row for row in rows}
    sets, ks = (
        list(dict.fromkeys(row[name] for row in rows)) for name in ("set", "k")
    )
    names = dict.fromkeys(row["method"] for row in rows)
    measures = {
        "raw_stress": ("raw stress, %", 100.0, min),
        "spearman": ("Spearman", 1.0, max),
    }
    measures["kept"] = ("5 nearest kept", 1.0, max)

    def cell(method: str, k: int, measure: str) -> str:
        _, unit, good = measures[measure]
        own = [cells[one, k, method][measure] for one in sets]
        best = [
            good(cells[one, k, name][measure] for name in names)
            for one in sets
        ]
        first = sum(
            abs(a - b) <= 1e-4 * abs(b) for a, b in zip(own, best, strict=True)
        )
        return f"{unit * median(own):.3g} ({first})"

    columns = [(k, measure) for k in ks for measure in measures]
    head = [f"median of {len(sets)} sets (how often best, ties included)"]
    head += [f"k = {k}: {measures[measure][0]}" for k, measure in columns]
    return table(
        head, ([m, *(cell(m, *column) for column in columns)] for m in names)
    )


def ordination_versions() -> str:
    """Return the versions of the programs."""
    return f"{where(record('ordination'))}\n"


def speed() -> str:
    """Return seconds, memory and accuracy of every solver, and where they were measured."""
    found = record("speed")
    s, clipped = found["settings"], False

    def line(row: Any) -> list[str]:
        nonlocal clipped
        if "failed" in row:
            said = row["failed"].split(". ")[0].rpartition(": ")[2]
            return [
                row["family"],
                row["system"],
                f"refused: {said}",
                *[""] * 5,
            ]
        clipped, error = (
            clipped or row["clipped"],
            row.get("largest_relative_error"),
        )
        return [
            row["family"],
            row["system"] + " †" * row["clipped"],
            f"{row['seconds']:.3g}",
            f"{row.get('times_neucmds', float('nan')):.2g}",
            f"{row['peak_over_D']:.2f}",
            "–" if error is None else f"{error:.1e}",
            " / ".join(map(str, row["split"])),
            " / ".join(map(str, row["split_of_full_solve"])),
        ]

    head = (
        "data",
        "system",
        "seconds",
        "× neucmds",
        "memory beyond d (1 = its size)",
        "largest error",
    )
    shown = table((*head, "+ / − kept", "+ / − due"), map(line, found["rows"]))
    facts = f"n = {s['n']}, k = {s['k']}, tolerance {s['tol']:g}, medians of {s['repeats']} runs"
    note = "† This system accepts only distances: it was timed on d with negative entries as 0.\n"
    return f"{facts}; {where(found)}\n\n{shown}" + f"\n{note}" * clipped


def where(found: Any) -> str:
    """Name the machine and the versions in one line."""
    parts = []
    if "machine" in found:
        m = found["machine"]
        parts.append(
            f"{m['processor']}, {m['cores']} cores, {m['memory_gb']} GB"
        )
    if "device" in found:
        names = {"cuda": "a GPU", "cpu": "a CPU"}
        parts.append(names.get(found["device"], found["device"]))
    parts.append(
        ", ".join(
            f"{name} {number}" for name, number in found["versions"].items()
        )
    )
    return f"{'; '.join(parts)}."


def signed(shown: str, name: str) -> str:
    """Return a table with the machine and the versions of its record below."""
    return f"{shown}\n{where(record(name))}\n"


def from_disk() -> str:
    """Return a fit of a file in chunks beside one in memory."""
    found = record("out_of_core")
    s, apart = found["settings"], found["relative_difference"]
    names = {"from_disk": "in chunks from disk", "in_memory": "in memory"}
    rows = (
        [
            title,
            f"{r['seconds']:.0f}",
            str(r["passes"] or "–"),
            f"{r['peak_gb']:.2f} GB",
        ]
        for title, r in ((title, found[name]) for name, title in names.items())
    )
    facts = f"n = {s['n']}, k = {s['k']}, a file of {s['file_gb']:.1f} GB, `max_memory` "
    facts += f"{s['max_memory']}; between the two rows, kept eigenvalues differ by at most "
    facts += f"{apart['eigenvalues']:.1e} and STRESS by {apart['stress']:.1e} (both relative); "
    facts += where(found)
    return f"{facts}\n\n" + table(
        ["where d is", "seconds", "passes over d", "peak of the process"], rows
    )


GPU = {
    "gpu_dense": {
        **{
            "what": "{}",
            "n": "{}",
            "k": "{}",
            "dtype": "{}",
            "seconds": "{:.3g}",
        },
        **{
            "peak_over_D": "{:.2f}",
            "worst_residual": "{:.1e}",
            "ratio": "{:.0f}",
        },
        **{"largest_relative_error": "{:.1e}"},
    },
    "gpu_features": {
        **{
            "metric": "{}",
            "n": "{}",
            "d": "{}",
            "k": "{}",
            "dtype": "{}",
            "seconds": "{:.3g}",
        },
        **{"passes": "{}", "peak_gb": "{:.1f}", "worst_residual": "{:.1e}"},
        **{
            "rows_against_float64": "{:.1e}",
            "subsample_against_stored": "{:.1e}",
        },
    },
    "gpu_landmarks": {
        **{
            "metric": "{}",
            "loss": "{}",
            "n": "{}",
            "d": "{}",
            "n_landmarks": "{}",
            "k": "{}",
        },
        **{
            "fit_seconds": "{:.2f}",
            "place_seconds": "{:.2f}",
            "peak_gb": "{:.1f}",
        },
        **{"largest_gap_to_cpu": "{:.0e}"},
    },
}


GPU_HEADS = {
    "what": "task",
    "d": "features",
    "peak_over_D": "peak memory / size of d",
    "ratio": "eigh time / ours",
    "peak_gb": "peak GB",
    "rows_against_float64": "max. error of rows vs float64",
    "subsample_against_stored": "max. rel. error vs stored d (subsample)",
    "largest_gap_to_cpu": "largest coordinate difference from CPU",
}
GPU_TASKS = {
    "refined, fit included": "`refined`, including the `neuc+` fit it starts from"
}


def on_gpu(name: str) -> str:
    """Return the times of a record made on a GPU."""
    found, columns = record(name), GPU[name]
    timed = (
        row for row in found["rows"] if {"seconds", "fit_seconds"} & set(row)
    )

    def cell(value: Any, form: str) -> str:
        return (
            "" if value is None else form.format(GPU_TASKS.get(value, value))
        )

    rows = (
        [cell(row.get(c), form) for c, form in columns.items()]
        for row in timed
    )
    head = (
        GPU_HEADS.get(column, column.replace("_", " ")) for column in columns
    )
    return f"{found['device']}, torch {found['torch']}.\n\n" + table(
        head, rows
    )


def large() -> str:
    """Return two levels of a million nodes, and of up to ten million rows of features."""
    grid = [
        r
        for r in record("million_graph")["rows"]
        if r["what"].startswith("two levels")
    ]
    rows = [
        ("a grid of streets, two cores", record("million_graph")["nodes"], r)
        for r in grid
    ]
    names = {"graph": "a grid of streets, H200", "features": "features, H200"}
    rows += [
        (names[r["what"]], r["n"], r) for r in record("gpu_two_levels")["rows"]
    ]

    def line(title: str, n: int, r: Any) -> list[str]:
        if "searches_seconds" in r:
            time = f"{r['searches_seconds']:.0f} + {r['fit_and_place_seconds']:.0f} s"
            memory = f"{r['peak_with_processes_gb']:.1f} GB"
            near = f"{r['near_median']:.1%}, {r['near_p95']:.1%}"
            far = f"{r['random_median']:.2%}, {r['random_p95']:.1%}"
        else:
            time = f"{r['fit_seconds']:.0f} + {r['place_seconds']:.0f} s"
            time += f", {r['microseconds_per_object']:.0f} µs per object"
            memory, near, far = (
                f"{r['peak_gb']:.1f} GB",
                f"{r['near_median']:.1%}",
                f"{r['random_median']:.1%}",
            )
        return [
            title,
            f"{n:,}",
            f"{r['landmarks']:,}",
            near,
            far,
            time,
            memory,
        ]

    head = [
        "",
        "n",
        "landmarks",
        "near pairs: median, p95 error",
        "random pairs: median, p95",
    ]
    return table(
        [*head, "searches or fit + the rest", "peak"],
        (line(*one) for one in rows),
    )


def graph_ways() -> str:
    """Return errors, recall and time of every way of embedding a graph."""

    def line(r: Any) -> list[str]:
        far = f"{r['all_median']:.1%}, {r['all_p95']:.1%}"
        near = f"{r['near_median']:.1%}, {r['near_p95']:.1%}"
        return [
            r["graph"],
            f"{r['nodes']:,}",
            r["way"],
            far,
            near,
            f"{r['recall10']:.3f}",
        ]

    head = [
        "graph",
        "nodes",
        "fit",
        "all pairs: median, p95 error",
        "50 nearest: median, p95",
    ]
    return table(
        [*head, "recall@10"], map(line, record("graph_pairs")["rows"])
    )


def feature_ways() -> str:
    """Return recall and time of 100,000 rows of features."""
    places = {"feature_pairs": "two cores", "gpu_feature_pairs": "H200"}
    rows = (
        [title, r["what"], f"{r['recall10']:.3f}", f"{r['seconds']:.3g}"]
        for name, title in places.items()
        for r in record(name)["rows"]
    )
    return table(["", "fit", "recall@10", "seconds"], rows)


def growing() -> str:
    """Return recall, errors and time of every way at growing n."""
    rows = record("growing")["rows"]

    def cell(n: int, what: str) -> str:
        own = [row for row in rows if row["n"] == n and row["what"] == what]
        return "; ".join(
            f"{row['recall10']:.3f}, {100 * row['random_median']:.1f} %, {row['seconds']:.0f} s"
            for row in own
        )

    names = ("all pairs", "sampled pairs", "two levels")
    sizes = sorted({row["n"] for row in rows})
    return table(
        ["recall@10, median error of random pairs, time", *names],
        ([f"n = {n:,}", *(cell(n, what) for what in names)] for n in sizes),
    )


def nmds() -> str:
    """Return stress-1 and CPU time of non-metric scaling, ours beside others."""
    rows = []
    for row in record("nmds")["rows"]:
        vegan = row["metaMDS, 100 tries"]
        sklearn = row["scikit-learn"]
        stress = [fit["stress1"] for fit in row["ours"]]
        seconds = median(fit["cpu_seconds"] for fit in row["ours"])
        rows.append(
            [
                row["set"].split("_")[0],
                str(row["n"]),
                str(row["k"]),
                f"{stress[0]:.5f}",
                f"{max(stress) - vegan['stress1']:+.0e}",
                f"{vegan['stress1']:.5f}",
                f"{sklearn['stress1']:.5f}",
                number(seconds),
                number(vegan["cpu_seconds"]),
                number(sklearn["cpu_seconds"]),
            ]
        )
    head = ["table", "n", "k", "stress-1", "worst of five seeds − metaMDS"]
    head += ["metaMDS", "scikit-learn", "CPU s", "CPU s, metaMDS"]
    return table([*head, "CPU s, scikit-learn"], rows)


def nmds_large() -> str:
    """Return stress-1 of samples of pairs."""
    head = ["objects", "pairs per object", "stress-1, held-out pairs"]
    head += ["stress-1, all pairs of up to 3,000 objects", "CPU s", "peak, MB"]
    rows = (
        [
            f"{row['n']:,}",
            str(row["n_pairs"]),
            f"{row['held_out_stress1']:.4f}",
            f"{row['stress1']:.4f}",
            number(row["cpu_seconds"]),
            f"{row['peak_mb']:.0f}",
        ]
        for row in record("nmds_large")["rows"]
    )
    return table(head, rows)


def calls_for_recall(tried: list[Any]) -> list[str]:
    """Return calls to build, and the fewest for a recall or the most recall if none has it."""
    cells = [f"{tried[0]['distances_per_object']:.0f}"]
    for target in (0.99, 0.997):
        reached = [r for r in tried if r["recall_10"] >= target]
        if reached:
            fewest = min(r["distances_per_query"] for r in reached)
            cells.append(f"{fewest:.0f}")
            continue
        best = max(tried, key=lambda row: row["recall_10"])
        calls = best["distances_per_query"]
        cells.append(f"{best['recall_10']:.3f} at {calls:.0f}")
    return cells


CALLS = [
    "calls per object to build",
    "calls per query for recall@10 of .99",
    "of .997",
]


def metric_index() -> str:
    """Return the calls of every method."""
    rows = record("metric_index")["rows"]
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for method in sorted({r["method"] for r in rows if r["data"] == data}):
            tried = [
                row
                for row in rows
                if row["data"] == data and row["method"] == method
            ]
            lines.append([data, method, *calls_for_recall(tried)])
    return table(["objects", "method", *CALLS], lines)


OTHER_DISTANCES = {
    "warping": "dynamic time warping of series",
    "transport": "earth mover's, of pictures of digits",
    "sentences": "late interaction (MaxSim) of sentences",
    "sets": "Jaccard's, of sets of three-letter pieces",
    "outlines": "Hausdorff's, of outlines",
    "typing": "directed: letters cost 1 to insert, 3 to delete, of SMILES",
    "drives": "directed: drives in a city with one-way streets",
}


def metric_index_distances() -> str:
    """Return the calls of our index by distances of other kinds."""
    rows = record("metric_index_distances")["rows"]
    lines = []
    for data, words in OTHER_DISTANCES.items():
        tried = [row for row in rows if row["data"] == data]
        if tried:
            lines.append([words, *calls_for_recall(tried)])
    return table(["distance", *CALLS], lines)


def metric_index_promises() -> str:
    """Return the recall that held-out objects promised, and that of queries."""
    rows = record("metric_index")["rows"]
    rows = rows + record("metric_index_distances")["rows"]
    names = {
        "smiles": "edit distance of SMILES",
        "amplicons": "edit distance of amplicons",
        **OTHER_DISTANCES,
    }
    lines = []
    for data, words in names.items():
        cells = [words]
        for word in ("normal", "high"):
            chosen = [
                row
                for row in rows
                if row["data"] == data and word in row.get("chosen_by", ())
            ]
            for row in chosen:
                cells.append(f"{row['promised_recall_10']:.3f}")
                cells.append(f"{row['recall_10']:.3f}")
                cells.append(f"{row['distances_per_query']:.0f}")
        lines.append(cells)
    titles = ["distance"]
    for word in ("normal", "high"):
        titles += [f'`recall="{word}"`: promised', "of queries", "calls"]
    return table(titles, lines)


def metric_index_sizes() -> str:
    """Return what our index takes beyond the calls, by number of objects."""
    lines = [
        [
            f"{row['n']:,}",
            f"{row['distances_per_query']:.0f}",
            f"{row['milliseconds_per_query_beyond_calls']:.2f}",
            f"{row['fit_seconds_beyond_calls']:.0f}",
            f"{row['peak_megabytes'] / 1000:.1f}",
        ]
        for row in record("metric_index_distances")["rows"]
        if row["data"] == "sizes"
    ]
    titles = [
        "objects",
        "calls per query",
        "ms per query beyond calls",
        "s to fit beyond calls",
        "peak memory, GB",
    ]
    return table(titles, lines)


TABLES = {
    "metric-index": lambda: signed(metric_index(), "metric_index"),
    "metric-index-distances": lambda: signed(
        metric_index_distances(), "metric_index_distances"
    ),
    "metric-index-promises": lambda: signed(
        metric_index_promises(), "metric_index_distances"
    ),
    "metric-index-sizes": lambda: signed(
        metric_index_sizes(), "metric_index_distances"
    ),
    "growing": growing,
    "large": large,
    "graph-ways": graph_ways,
    "feature-ways": feature_ways,
    "speed": speed,
    "from-disk": from_disk,
    **{name.replace("_", "-"): partial(on_gpu, name) for name in GPU},
    "roads": lambda: signed(roads(), "roads"),
    "scoreboard-short": scoreboard_short,
    "scoreboard-paper": scoreboard_paper,
    "smiles": lambda: signed(strings_of("smiles"), "strings"),
    "amplicons": lambda: signed(strings_of("amplicons"), "strings"),
    "string-costs": lambda: signed(string_costs(), "strings"),
    "string-indexes": lambda: signed(string_indexes(), "strings"),
    "two-levels": lambda: signed(two_levels(), "strings"),
    "edit-vectors": lambda: signed(edit_vectors(), "edit_vectors"),
    "edit-words": lambda: signed(edit_words(), "edit_vectors"),
    "limits": limits,
    "stress-programs": stress_programs,
    "gpu-layouts": gpu_layouts,
    "large-tables": lambda: signed(large_tables(), "large_tables"),
    "projections": projections,
    "ordination": ordination,
    "ordination-versions": ordination_versions,
    "quality-counts": quality_counts,
    "stress": quality_stress,
    "distortion": quality_distortion,
    "fuzz": fuzz,
    "curvature": curvature,
    "directed-streets": lambda: signed(directed_streets(), "directed"),
    "directed-tuned": directed_tuned,
    "directed-quadrangles": directed_quadrangles,
    "directed-folds": directed_folds,
    "directed-large": directed_large,
    "directed-morse": directed_morse,
    "directed-towns": directed_towns,
    "directed-listed": directed_listed,
    "directed-breakfast": directed_breakfast,
    "curved-spaces": lambda: signed(curved_spaces(), "curved_spaces"),
    "published-graphs": lambda: signed(published_graphs(), "published_graphs"),
    "published-folds": published_folds,
    "latency": lambda: signed(latency(), "latency"),
    "methods": methods,
    "new-objects": new_objects,
    "gaps": gaps,
    "isomap": isomap,
    "nmds": nmds,
    "nmds-large": nmds_large,
    "permanova": permanova,
    "permdisp": permdisp,
    "goes-with": goes_with,
    "defaults": defaults,
}


def filled(text: str) -> str:
    """Return a page with its tables made anew."""
    return SLOT.sub(lambda slot: slot[1] + TABLES[slot[2]]() + slot[4], text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(
            filled(page.read_text(encoding="utf-8")), encoding="utf-8"
        )
