"""Search by your own distance: words by edit distance, with a fraction of the calls of a scan.

python examples/metric_index.py
"""

from __future__ import annotations

import numpy as np

from neucmds import MetricIndex


def edits(a: str, b: str) -> int:
    """Count the letters to insert, delete or replace."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above = row
        row = [i]
        for j, y in enumerate(b, 1):
            changed = above[j - 1] + (x != y)
            row.append(min(above[j] + 1, row[-1] + 1, changed))
    return row[-1]


def main() -> None:
    """Index 1,500 made-up words, and search for five others."""
    rng = np.random.default_rng(0)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = {
        "".join(rng.choice(syllables, size=size))
        for size in rng.integers(2, 6, size=1600)
    }
    ordered = sorted(words)
    rng.shuffle(ordered)
    queries = ordered[:5]
    index = MetricIndex(edits, n_components=16).fit(ordered[5:1505])
    print(index.summary_)
    ids, distances, calls = index.query(queries, k=3)
    for query, near, d, count in zip(
        queries, ids, distances, calls, strict=True
    ):
        names = [index.objects_[i] for i in near]
        print(query, names, d, f"{count} calls")


if __name__ == "__main__":
    main()
