"""Objects placed later: some of each data set are held back, then placed by `transform`.

    NEUCMDS_DATA=… python benchmarks/placement.py [parts] [names]   writes records/placement.json

A name, or the beginning of one, measures these sets and keeps what the record has of others.

Parts, all by default:

- `methods`: one fifth held back. Errors are ‖D̂ − D‖ / ‖D‖ between the new objects and the fitted
  ones, beside the same among the fitted ones; `moved` is how far `transform` puts fitted objects
  from where they were fitted.
- `pairs`: sets of at most 100 objects, five folds, every method and every signature of up to four
  coordinates, several `tol`. Root mean squared error between two new objects, divided by
  that between a new and a fitted one. Ratios above 1.6 are measured on more folds.
- `losses`: sets of at least 200 objects, five folds, k = 10, one start, every loss in its own
  measure: root mean squared error between new and fitted objects, divided by that among the fitted
  ones. Beside it `refit`, the same with the new objects fitted along with the others;
  what is left without the worst 1 % of the objects; and `least`: no place among the fitted objects
  has less, as the minimum is global, or with "distance" none that ten more starts find.
- `curved`: the same for the relative loss at the κ that `curvature="auto"` chooses for all objects,
  and `of_d`, by errors of d relative to d: the loss is linear in D̂, which grows as fast as g.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import losses as loss_data
import real_data
from measure import RECORDS, machine, versions, write_record
from neucmds import Embedding, datasets, neuc_mds
from neucmds.form import Form
from neucmds.place.least_squares import NewObjects
from neucmds.place.newton import descend
from neucmds.refine.losses import LOSSES, PairLoss, floor_of
from neucmds.refine.pairwise import moments

RECORD = RECORDS / "placement.json"
METHODS = ("classical", "neuc", "neuc+", "exact", "refined")
FOLDS = 5
Rows = Iterator[tuple[str, object]]
Names = tuple[str, ...]
CLOSED_FORMS = ("classical", "lower", "neuc", "neuc+", "exact")
TOLERANCES = (1e-1, 2e-3, 1e-5, 1e-8)
SIGNATURES = [(p, k - p) for k in range(1, 5) for p in range(k, -1, -1)]
# Of signatures that are asked for, each of which takes dozens of descents.
FEWER_TOLERANCES = (1e-1, 1e-8)
# Starts from which the least loss of a new object is looked for.
MORE_STARTS = 10
# Pairs of new objects that are measured, and those where the ratio is near the bar.
NEW_PAIRS, MORE_PAIRS, NEAR_BAR = 20, 200, 1.6


def folds(n: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    order = np.random.default_rng(seed).permutation(n)
    for fold in range(FOLDS):
        new = order[fold::FOLDS]
        yield new, np.setdiff1d(order, new)


# methods


def small_sets() -> dict[str, np.ndarray]:
    """Return every stored dissimilarity of at most 100 objects, squared."""
    found = {}
    for name in real_data.list_dissimilarities():
        D = real_data.load_dissimilarity(name).dissimilarity
        D = ((D + D.T) / 2) ** 2
        np.fill_diagonal(D, 0.0)
        if D.shape[0] <= 100:
            found[name] = D
    return found


def mixed_data() -> dict[str, tuple[np.ndarray, int]]:
    pixels = real_data.load_images("cifar10", n=1000).images
    stored = {
        name: (real_data.load_dissimilarity(name).dissimilarity ** 2, k)
        for name, k in (
            ("enterotype280_braycurtis", 20),
            ("protein213", 20),
            ("dune20_braycurtis", 2),
            ("eurodist21", 3),
        )
    }
    return {
        "euclidean-ball": (datasets.euclidean_ball(1000, random_state=0), 20),
        "random-simplex": (datasets.random_simplex(1000, random_state=0), 100),
        "cifar10 2-NN": (real_data.wrapped_hops(pixels, 2) ** 2.0, 100),
        **stored,
    }


def one_fifth(D: np.ndarray, k: int) -> dict[str, dict[str, float]]:
    order = np.random.default_rng(0).permutation(D.shape[0])
    new, old = np.split(order, [D.shape[0] // 5])
    among, between = D[np.ix_(old, old)], D[np.ix_(new, old)]
    rows = {}
    for method in METHODS:
        embedding = neuc_mds(among, k, method, squared=True, random_state=0)
        placed = embedding.transform(between)
        d_hat = Form(embedding.signs).sq(placed, embedding.coordinates)
        moved = np.linalg.norm(
            embedding.transform(among) - embedding.coordinates
        )
        rows[method] = {
            "fitted": float(np.sqrt(embedding.normalized_stress)),
            "new": float(
                np.linalg.norm(d_hat - between) / np.linalg.norm(between)
            ),
            "moved": float(moved / np.linalg.norm(embedding.coordinates)),
        }
    return rows


def methods(names: Names) -> Rows:
    for name, (D, k) in mixed_data().items():
        if not name.startswith(names):
            continue
        rows = one_fifth(D, k)
        for method, row in rows.items():
            print(
                name,
                method,
                {a: f"{b:.3g}" for a, b in row.items()},
                flush=True,
            )
        best = min(METHODS, key=lambda method, rows=rows: rows[method]["new"])
        print(f"{name}: lowest error on new objects: {best}", flush=True)
        yield name, {"n": D.shape[0], "k": k, "methods": rows}


# pairs


def new_to_new(
    D: np.ndarray, embed: Callable[[np.ndarray], Embedding]
) -> dict[str, float]:
    """Errors between two new objects over those between a new and a fitted one."""
    to_new, to_old, farthest, repeats = [], [], 0.0, 0

    def ratio() -> float:
        new, old = (
            np.sqrt(np.mean(np.concatenate(e) ** 2)) for e in (to_new, to_old)
        )
        return float(new / old)

    def pairs() -> int:
        return sum(errors.size for errors in to_new) // 2

    while pairs() < NEW_PAIRS or (pairs() < MORE_PAIRS and ratio() > NEAR_BAR):
        for new, old in folds(D.shape[0], repeats):
            model = embed(D[np.ix_(old, old)])
            placed = model.transform(D[np.ix_(new, old)])
            x, signs = model.coordinates, model.signs
            among = Form(signs).sq(placed, placed) - D[np.ix_(new, new)]
            to_new.append(among[~np.eye(new.size, dtype=bool)])
            to_old.append(
                (Form(signs).sq(placed, x) - D[np.ix_(new, old)]).ravel()
            )
            if model.k:
                spread = np.sqrt(np.mean(x**2, axis=0))
                farthest = max(
                    farthest, float(np.max(np.abs(placed) / spread))
                )
        repeats += 1
    return {"ratio": ratio(), "spreads": farthest, "pairs": pairs()}


def pairs(names: Names) -> Rows:
    for name, D in small_sets().items():
        if not name.startswith(names):
            continue
        rows = []
        for k in range(1, 5):
            for method in CLOSED_FORMS:
                found = new_to_new(
                    D, lambda d, k=k, m=method: neuc_mds(d, k, m, squared=True)
                )
                rows.append({"k": k, "method": method, **found})
        asked = [(k, TOLERANCES) for k in range(1, 5)]
        # A signature that comes back as a smaller one is measured as that.
        asked += [
            (one, FEWER_TOLERANCES)
            for one in SIGNATURES
            if neuc_mds(D, one, squared=True).signature == one
        ]
        for wanted, tolerances in asked:
            for tol in tolerances:
                found = new_to_new(
                    D,
                    lambda d, k=wanted, t=tol: neuc_mds(
                        d, k, squared=True, tol=t
                    ),
                )
                rows.append(
                    {"k": wanted, "method": "refined", "tol": tol, **found}
                )
        worst = max(rows, key=lambda row: row["ratio"])
        print(
            f"{name} (n = {D.shape[0]}): new to new at most {worst['ratio']:.2f} × new to fitted, "
            f"farthest {max(row['spreads'] for row in rows):.1f} spreads; worst {worst}",
            flush=True,
        )
        yield name, rows


# losses


def many_objects() -> dict[str, Callable[[], np.ndarray]]:
    """Dissimilarities, not squared, of at least 200 objects."""

    def hops(name: str, neighbors: int) -> np.ndarray:
        pixels = real_data.load_images(name, n=1000).images
        return real_data.wrapped_hops(pixels, neighbors).astype(float)

    found = {
        name: (lambda a=name: real_data.load_dissimilarity(a).dissimilarity)
        for name in ("protein213", "enterotype280_braycurtis")
    }
    found["planetlab490"] = loss_data._latency
    for name in ("mnist", "fashion_mnist", "cifar10"):
        for neighbors in (2, 10):
            found[f"{name} {neighbors}-NN"] = lambda a=name, m=neighbors: hops(
                a, m
            )
    found["digits 5-NN hops"] = loss_data._digits
    found["Helsinki streets"] = loss_data._streets
    return found


def held_out(
    D: np.ndarray, loss: str, k: int = 10, curvature: float | str = 0
) -> dict[str, object]:
    """Error of new objects to fitted ones, over that among fitted ones, by the loss itself."""
    n = D.shape[0]
    one_start = {} if loss == "squared" else {"n_init": 1}
    whole = neuc_mds(
        D, k, loss=loss, curvature=curvature, random_state=0, **one_start
    )
    form, kappa = whole.form, whole.kappa
    sq = form.to_sq(D**2)
    pair_loss = PairLoss(loss).floored(floor_of(form, sq), form)

    def errors(
        left: np.ndarray, right: np.ndarray, signs: np.ndarray, d: np.ndarray
    ) -> np.ndarray:
        d_hat = Form(signs).sq(left, right)
        if loss == "distance":
            return (np.sqrt(np.maximum(d_hat, 0)) - np.sqrt(d)) ** 2
        return pair_loss.terms(form, d, d_hat)[0] ** 2

    def of_d(
        left: np.ndarray, right: np.ndarray, signs: np.ndarray, d: np.ndarray
    ) -> np.ndarray:
        true = form.to_distance(d)
        fitted = Form(signs, kappa).d(left, right)
        return ((fitted - true) / np.maximum(true, whole.floor)) ** 2

    refit = errors(
        whole.coordinates, whole.coordinates, whole.signs, sq
    ).sum() / (n * (n - 1))
    trained, placed_errors, least, converged, errors_of_d = [], [], [], [], []
    for new, old in folds(n, 0):
        known = D[np.ix_(old, old)]
        bend = kappa * (known.sum() / (old.size * (old.size - 1))) ** 2
        model = neuc_mds(
            known, k, loss=loss, curvature=bend, random_state=0, **one_start
        )
        placed = model.transform(D[np.ix_(new, old)])
        x, signs = model.coordinates, model.signs
        among = errors(x, x, signs, sq[np.ix_(old, old)])
        trained.append(among.sum() / (old.size * (old.size - 1)))
        placed_errors.append(
            errors(placed, x, signs, sq[np.ix_(new, old)]).mean(axis=1)
        )
        converged.append(model.info.converged)
        if curvature:
            of_all = of_d(x, x, signs, sq[np.ix_(old, old)]).sum() / (
                old.size * (old.size - 1)
            )
            errors_of_d.append(
                (
                    of_all,
                    of_d(placed, x, signs, sq[np.ix_(new, old)]).mean(axis=1),
                )
            )
        best = least_possible(model, D[np.ix_(new, old)] ** 2)
        least.append(
            np.min(
                [
                    errors(y, x, signs, sq[np.ix_(new, old)]).mean(axis=1)
                    for y in best
                ],
                0,
            )
        )
    own = np.sort(np.concatenate(placed_errors))
    few = max(1, n // 100)
    fitted, new_to_old = np.sqrt(np.mean(trained)), np.sqrt(own.mean())
    return {
        "fitted": float(fitted),
        "new": float(new_to_old),
        "ratio": float(new_to_old / fitted),
        "least": float(np.sqrt(np.concatenate(least).mean()) / fitted),
        "refit": float(np.sqrt(refit) / fitted),
        "ratio_without_worst_1_percent": float(
            np.sqrt(own[:-few].mean()) / fitted
        ),
        "share_of_worst_1_percent": float(own[-few:].sum() / own.sum()),
        **_ratios_of_d(errors_of_d, few),
        "curvature": whole.curvature,
        "signature": list(model.signature),
        "converged": all(converged),
    }


def _ratios_of_d(
    errors: list[tuple[float, np.ndarray]], few: int
) -> dict[str, float]:
    """Return both ratios of relative errors of d, where these were measured."""
    if not errors:
        return {}
    fitted = np.mean([of_all for of_all, _ in errors])
    own = np.sort(np.concatenate([of_new for _, of_new in errors]))
    ratios = np.sqrt(own.mean() / fitted), np.sqrt(own[:-few].mean() / fitted)
    return dict(
        zip(
            ("of_d", "of_d_without_worst_1_percent"),
            map(float, ratios),
            strict=True,
        )
    )


def least_possible(model: Embedding, delta: np.ndarray) -> list[np.ndarray]:
    """Return places of new objects of which one is the lowest, as far as can be told.

    Of "squared" and "relative" it is the global minimum; of "distance" where descents from several
    fitted objects end.
    """
    rule, x = model.placement, model.coordinates
    if rule.loss.name == "squared":
        return [replace(rule, shrinkage=0.0).place(delta)]
    if rule.loss.name == "relative":
        return [rule.place(delta)]
    rng = np.random.default_rng(0)
    new = NewObjects(
        delta, None, rule.coordinates, rule.form, moments(rule.coordinates)
    )
    places = [rule.place(delta)]
    for _ in range(MORE_STARTS):
        begin = x[rng.integers(0, x.shape[0], delta.shape[0])]
        begin = begin + 0.3 * x.std(axis=0) * rng.normal(size=begin.shape)
        places.append(descend(new, rule.loss, begin))
    return places


def losses(names: Names) -> Rows:
    for name, D in loaded(names):
        yield (
            name,
            {loss: told(name, loss, held_out(D, loss)) for loss in LOSSES},
        )


def curved(names: Names) -> Rows:
    for name, D in loaded(names):
        yield (
            name,
            told(name, "curved", held_out(D, "relative", curvature="auto")),
        )


def loaded(names: Names) -> Iterator[tuple[str, np.ndarray]]:
    for name, load in many_objects().items():
        if name.startswith(names):
            D = load()
            D = (D + D.T) / 2
            np.fill_diagonal(D, 0.0)
            yield name, D


def told(name: str, what: str, row: dict[str, object]) -> dict[str, object]:
    print(
        f"{name}, {what}: κ {row['curvature']:.3g}, held-out {row['ratio']:.3f} × training, "
        f"fitted along with the others {row['refit']:.3f} ×, without the "
        f"worst 1 % of objects {row['ratio_without_worst_1_percent']:.3f} ×; "
        f"{'' if row['converged'] else 'not '}converged",
        {name: row[name] for name in row if name.startswith("of_d")},
        flush=True,
    )
    return row


PARTS = {
    "methods": methods,
    "pairs": pairs,
    "losses": losses,
    "curved": curved,
}


def main() -> None:
    warnings.simplefilter("ignore")
    words = sys.argv[1:]
    names = tuple(word for word in words if word not in PARTS) or ("",)
    for part in [part for part in PARTS if part in words] or PARTS:
        where = machine()
        for name, rows in PARTS[part](names):
            # Read anew: another part may be measured at the same time.
            record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
            record["machine"] = {**record.get("machine", {}), part: where}
            found = {**record.get(part, {}), name: rows}
            write_record(
                RECORD,
                {
                    **record,
                    part: found,
                    "versions": versions("numpy", "scipy"),
                },
            )


if __name__ == "__main__":
    main()
