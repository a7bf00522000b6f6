"""What to write about an embedding: a paragraph of methods, and the caption of a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import neucmds
from neucmds.ecology import EnvFit
from neucmds.embedding import Embedding
from neucmds.tools.plots.coordinates import axis_label, drawn_fits, two_axes
from neucmds.tools.plots.figures import with_minus

REFERENCES = {
    "Deng et al. 2024": "Deng C, Gao J, Lu K, Luo F, Sun H, Xin C (2024) Neuc-MDS: non-Euclidean "
    "multidimensional scaling through bilinear forms. Advances in Neural Information Processing "
    "Systems.",
    "Gower 1966": "Gower JC (1966) Some distance properties of latent root and vector methods used "
    "in multivariate analysis. Biometrika 53:325–338.",
    "Kruskal 1964": "Kruskal JB (1964) Nonmetric multidimensional scaling: a numerical method. "
    "Psychometrika 29:115–129.",
    "Takane et al. 1977": "Takane Y, Young FW, de Leeuw J (1977) Nonmetric individual differences "
    "multidimensional scaling: an alternating least squares method with optimal scaling features. "
    "Psychometrika 42:7–67.",
}
# Loss of a refined fit → the words for its method, and the works to cite, keys of `REFERENCES`.
REFINED_METHODS = {
    "squared": (
        "multidimensional scaling that minimises S-STRESS, Σ(d̂² − d²)²",
        ("Takane et al. 1977", "Deng et al. 2024"),
    ),
    "distance": (
        "metric multidimensional scaling that minimises raw stress, Σ(d̂ − d)²",
        ("Kruskal 1964",),
    ),
    "relative": (
        "multidimensional scaling that minimises relative errors, Σ(d̂/d − 1)²",
        ("Deng et al. 2024",),
    ),
    "absolute": (
        "multidimensional scaling that minimises relative errors, Σ|d̂/d − 1|",
        ("Deng et al. 2024",),
    ),
    "ordinal": (
        "non-metric multidimensional scaling (NMDS)",
        ("Kruskal 1964",),
    ),
}


def methods_text(
    embedding: Embedding,
    dissimilarity: str = "Dissimilarities",
    *,
    permutations: int = 0,
) -> str:
    """Write a paragraph of methods, and the works that it cites.

    Parameters
    ----------
    embedding : Embedding
    dissimilarity : str, default="Dissimilarities"
        The start of the first sentence: "Bray–Curtis dissimilarities".
    permutations : int, default=0
        Permutations of `envfit`, if variables were fitted to the axes.

    Returns
    -------
    str

    Examples
    --------
    >>> from neucmds import neuc_mds
    >>> from neucmds.tools.plots import methods_text
    >>> emb = neuc_mds([[0, 3, 4], [3, 0, 5], [4, 5, 0]], 2, "classical")
    >>> print(methods_text(emb).partition(" (Gower")[0])
    Dissimilarities between 3 objects were ordinated by principal coordinates analysis (PCoA)
    """
    if embedding.method == "refined":
        method, works = REFINED_METHODS[embedding.loss]
    elif embedding.method == "classical":
        method = "principal coordinates analysis (PCoA)"
        works = ("Gower 1966",)
    else:
        method = f"Neuc-MDS, method “{embedding.method}”"
        works = ("Deng et al. 2024",)
    between = f"between {embedding.n:,} objects"
    if embedding.arrivals is not None:
        arrivals = f"{len(embedding.arrivals):,}"
        between = (
            f"from {embedding.n:,} to {arrivals} objects, in this direction,"
        )
    text = f"{dissimilarity} {between} were ordinated by {method} ({'; '.join(works)}) in "
    text += f"{_space_words(embedding)}, with neucmds {neucmds.__version__} (Python). "
    text += " ".join(_result_sentences(embedding))
    if permutations:
        text += (
            " Variables were fitted to the axes drawn, by regression on their scores or as "
            f"centroids of classes, and tested with {permutations} permutations."
        )
    references = [REFERENCES[work] for work in sorted(works)]
    return "\n".join([text.strip(), "", *references])


def _space_words(embedding: Embedding) -> str:
    """Say how many coordinates there are, and of which kinds."""
    positive, negative = embedding.signature
    ending = "" if positive == 1 else "s"
    text = f"{positive} dimension{ending}"
    if negative:
        text = (
            f"{positive} positive and {negative} negative dimensions, of which the negative ones "
            "subtract from squared dissimilarities"
        )
    if embedding.form_words:
        text += f"; their space is {with_minus(embedding.form_words)}"
    return text


def _result_sentences(embedding: Embedding) -> list[str]:
    """Return sentences on how well the fit went."""
    info = embedding.info
    sentences = []
    if embedding.landmarks is not None:
        count = f"{len(embedding.landmarks):,}"
        sentences.append(
            f"{count} landmarks were embedded, and the others placed among them."
        )
    # Of the losses "distance" and "ordinal".
    if math.isfinite(embedding.stress1):
        sentences.append(f"Stress-1 was {embedding.stress1:.4f}.")
    elif embedding.loss == "squared" and embedding.method == "refined":
        share = f"{100 * embedding.normalized_stress:.2g} %"
        sentences.append(f"S-STRESS was {share} of Σd⁴.")
    if embedding.loss == "ordinal":
        sentences.append(
            f"Ties were {info.ties}, and the best configuration was found by {info.times_found} of "
            f"{info.n_starts} starts."
        )
    if "trace" in embedding.shares:
        shares = embedding.shares["trace"][:2]
        percentages = [with_minus(f"{100 * share:.1f} %") for share in shares]
        subject = "The axis has" if embedding.k == 1 else "The first axes have"
        sentences.append(
            f"{subject} {' and '.join(percentages)} of the sum of all eigenvalues."
        )
    if not info.converged:
        sentences.append("The fit was stopped before it had converged.")
    return sentences


def caption(
    embedding: Embedding,
    *,
    axes: tuple[int, int] = (1, 2),
    title: str = "",
    ellipses: str = "none",
    conf: float = 0.95,
    hulls: bool = False,
    spiders: bool = False,
    arrows: EnvFit | None = None,
    variables: Sequence[str] | None = None,
    p_max: float = 1.0,
    centroids: bool = False,
    **_look: Any,
) -> str:
    """Write the caption of a figure by `plot_coordinates`, which takes the same options.

    Parameters
    ----------
    embedding : Embedding
    axes, title, ellipses, conf, hulls, spiders, arrows, variables, p_max, centroids
        As for `plot_coordinates`.
    **_look
        Options of `plot_coordinates` that need no words, so that all options of a figure can be
        passed on. Unknown names are not refused.

    Returns
    -------
    str

    Examples
    --------
    >>> from neucmds import neuc_mds
    >>> from neucmds.tools.plots import caption
    >>> emb = neuc_mds([[0, 3, 4], [3, 0, 5], [4, 5, 0]], (2, 0), loss="distance")
    >>> caption(emb, hulls=True)
    'Multidimensional scaling of 3 objects: axis 1 and axis 2. Lines: convex hulls.'
    """
    kind = "Multidimensional scaling"
    if embedding.loss == "ordinal":
        kind = "Non-metric multidimensional scaling"
    if embedding.method == "classical":
        kind = "Principal coordinates analysis"
    # With one coordinate, the second axis of the plot is empty.
    names = [
        axis_label(embedding, axis)
        for axis in two_axes(axes, embedding.k)
        if axis <= embedding.k
    ]
    subject = f"{kind} of {embedding.n:,} objects"
    # An embedding may have no coordinates.
    if names:
        subject += f": {' and '.join(names)}"
    sentences = [subject]
    if embedding.loss == "ordinal":
        sentences.append(f"Stress-1 is {embedding.stress1:.3f}")
    if title:
        sentences.append(f"Colours: {title}")
    if embedding.arrival_labels is not None:
        sentences.append("Diamonds: objects of the columns")
    elif embedding.arrivals is not None:
        sentences.append("Arrows lead from departures to arrivals")
    ellipse_words = {
        "sd": f"ellipses that hold {100 * conf:g} % of a normal distribution",
        "se": f"{100 * conf:g} % confidence ellipses of the means",
    }
    shapes = []
    if ellipses in ellipse_words:
        shapes.append(ellipse_words[ellipses])
    if hulls:
        shapes.append("convex hulls")
    if spiders:
        shapes.append("from each object to the mean of its group")
    if shapes:
        sentences.append(f"Lines: {'; '.join(shapes)}")
    if arrows is not None:
        limit = ""
        if p_max < 1:
            limit = f" with p ≤ {p_max:g}"
        fits = drawn_fits(arrows, variables, p_max)
        if any(fit.kind == "vector" for fit in fits):
            sentences.append(
                f"Black arrows: directions in which variables{limit} grow, of length "
                "proportional to √r²"
            )
        if centroids and any(fit.kind == "factor" for fit in fits):
            sentences.append(f"Crosses: centroids of classes{limit}")
    return ". ".join(sentences) + "."
