"""From which k on the default fit of a community table has a negative axis.

    OPENBLAS_NUM_THREADS=1 python benchmarks/community_signs.py

Bray–Curtis dissimilarities of six tables of R's vegan; signatures up to k = 16.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "scoreboard"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import ordination

import measure
from neucmds import neuc_mds

RECORD = measure.RECORDS / "community_signs.json"
TABLES = ("dune", "varespec", "mite", "BCI", "sipoo", "pyrifos")
# Of pyrifos, which holds logarithms of abundances, these are taken.
ABUNDANCES = {"pyrifos": "exp(pyrifos) - 1"}
KS = range(2, 17)


def main() -> None:
    rows = {}
    for name in TABLES:
        table = ABUNDANCES.get(name, name)
        text = ordination.in_r(
            f"data({name});"
            + ordination.WRITE.format(f"as.matrix(vegdist({table}))")
        )
        D = ordination.from_csv(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            signatures = {k: neuc_mds(D, k).signature for k in KS}
        negative = [k for k, (_, q) in signatures.items() if q]
        first = min(negative, default=None)
        rows[name] = {"n": len(D), "first_k": first}
        rows[name]["signatures"] = {str(k): s for k, s in signatures.items()}
        print(f"{name}: {len(D)} sites, first negative axis at k = {first}")
    versions = measure.versions("neucmds", "numpy", "scipy")
    measure.write_record(RECORD, {"versions": versions, "tables": rows})


if __name__ == "__main__":
    main()
