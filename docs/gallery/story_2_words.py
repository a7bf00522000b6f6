"""
Your own distance in a vector index
===================================

A vector database searches by inner product, and edit distance is not even Euclidean. Signed
coordinates approximate it by a dissimilarity that *is* an inner product; the error is measured
below. Here a FAISS index of 7,776 words corrects misspelt words.

The words are the Electronic Frontier Foundation's long list (CC BY 3.0 US), shipped in xkcdpass.
"""

from importlib.resources import files

import faiss
import matplotlib.pyplot as plt
import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from neucmds import LandmarkNeucMDS


def edits(words, others):
    """Edit distances: letters to insert, delete or replace."""
    return cdist(
        words, others, scorer=Levenshtein.distance, dtype=np.uint8
    ).astype(float)


words = (
    (files("xkcdpass") / "static" / "eff-long")
    .read_text(encoding="utf-8")
    .split()
)

# %%
# A vector per word
# -----------------
# 400 words are landmarks, and every word is placed by its distances to them, so the matrix of all
# pairs is never computed. The loss ``"relative"`` counts near pairs as much as far ones, which is
# best for neighbours.

landmarks = np.sort(
    np.random.default_rng(0).choice(len(words), 400, replace=False)
)
known = [words[i] for i in landmarks]
est = LandmarkNeucMDS(
    32, metric="precomputed", landmarks=landmarks, loss="relative"
)
coordinates = est.fit_transform(edits(words, known))
print(f"{len(words)} words, signature {est.result_.signature}")

# %%
# Into the index
# --------------
# One further number per word makes inner products rank words as the dissimilarity does.

inner = est.result_.to_inner_product()
index = faiss.IndexFlatIP(33)
index.add(
    np.ascontiguousarray(inner.vectors_of(coordinates), dtype=np.float32)
)


def nearest(queries, m):
    """Return the m nearest words by inner product."""
    placed = est.transform(edits(queries, known))
    vectors = np.ascontiguousarray(inner.queries(placed), dtype=np.float32)
    return index.search(vectors, m)[1]


# %%
# Queries
# -------
# The index proposes 50 of 7,776 words, and the edit distance sorts these.


def corrected(query, m=50):
    """Return the best three of the words that the index proposes."""
    proposed = [words[i] for i in nearest([query], m)[0]]
    return sorted(
        proposed, key=lambda word: Levenshtein.distance(query, word)
    )[:3]


for query in ("ocupancy", "elefant", "kangoroo", "avalange", "unicicle"):
    print(f"{query:10} {', '.join(corrected(query))}")

# %%
# How often is it right?
# ----------------------
# Remove the middle letter of a thousand words. Does the index propose the original word? And how
# many of the ten words nearest to the misspelt one?

rng = np.random.default_rng(1)
meant = rng.choice(len(words), 1000, replace=False)
misspelt = [
    w[: len(w) // 2] + w[len(w) // 2 + 1 :] for w in (words[i] for i in meant)
]
true = edits(misspelt, words)
tenth = np.partition(true, 9, axis=1)[:, 9:10]
proposals = nearest(misspelt, 200)
sizes = np.array([1, 2, 5, 10, 20, 50, 100, 200])
found = [
    np.mean((proposals[:, :m] == meant[:, None]).any(axis=1)) for m in sizes
]
kept = []
for m in sizes[3:]:
    best = np.sort(np.take_along_axis(true, proposals[:, :m], axis=1), axis=1)[
        :, :10
    ]
    kept.append(np.mean(best <= tenth))
print(
    f"50 proposed: the word itself in {found[5]:.1%}, recall@10 {kept[2]:.1%}"
)

fig, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.plot(sizes, found, "o-", color="#0072b2", label="the word itself")
ax.plot(
    sizes[3:],
    kept,
    "s--",
    color="#d55e00",
    label="ten nearest to the misspelt one (recall@10)",
)
ax.set(
    xscale="log",
    xlabel="words proposed, of 7,776",
    ylabel="share found",
    ylim=(0, 1.02),
)
ax.set_xticks(sizes, [str(m) for m in sizes])
ax.minorticks_off()
ax.grid(color="#e6e6e6")
ax.legend(loc="lower right", frameon=False)
_ = ax.set_title(
    "Edit distance in FAISS: 400 landmarks, relative loss, k = 32", loc="left"
)
