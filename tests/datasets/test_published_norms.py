"""Random-simplex and Euclidean-ball through the pipeline, beside recomputed values of print."""

import numpy as np
import pytest

from neucmds._input.components import Components
from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum
from neucmds.api import embed_spectrum
from neucmds.datasets import euclidean_ball, random_simplex

# ‖D̂ − D‖_F of classical, lower, neuc and neuc+, and negative eigenvalues kept by the last two
RECOMPUTED = [
    (random_simplex, (28.40, 17.72, 3.47, 1.44), (8, 1)),
    (euclidean_ball, (19.42e5, 13.31e5, 3.35e5, 3.69e5), (90, 87)),
]


@pytest.mark.parametrize(("generate", "norms", "negatives"), RECOMPUTED)
def test_norms_and_signatures_are_the_recomputed_ones(generate, norms, negatives):
    gram = DenseGram(generate(1000, random_state=0))
    spectrum = full_spectrum(gram)
    fits = [
        embed_spectrum(gram, spectrum, Components(100), method)
        for method in ("classical", "lower", "neuc", "neuc+")
    ]
    np.testing.assert_allclose([np.sqrt(fit.stress) for fit in fits], norms, rtol=0.03)
    for fit, expected in zip(fits[2:], negatives, strict=True):
        assert abs(fit.signature[1] - expected) <= 1
