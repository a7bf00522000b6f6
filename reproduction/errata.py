"""Misprints and unstated conventions of the paper, by number, in one line each."""

from __future__ import annotations

ERRATA: dict[str, str] = {
    "E1": "the lower bound in the remark after thm:general_lower_error lacks the factor 1/(1+k)",
    "E2": "alg:ev-selection-plus must take the most negative eigenvalue, not the argmax",
    "E3": "the constant null vector must never be selected in thm:general_lower_error",
    "E4": "⟨v_i,v_j⟩ is −b_ij/2 in the proof of prop:bilinear",
    "E5": "def:nedr applies the form to points, everything else to differences",
    "E6": "the objective of eqn:optimization and e_C, e_N are (C1+C2)/4",
    "E7": "rows of tab:stress-all are scaled differently, one entry of the MNIST row once more",
    "E8": "Euclidean-ball, Neuc-MDS: 1.196 in tab:stress-all should be 1.120",
    "E9": "STRESS in tab:evaluation-1-all is the norm, in units of 10³ (images) and 10⁵ (ball); "
    "the additive errors of tab:evaluation-2-all are in units of 10⁻³ (simplex) and 10² (ball)",
    "E10": "3.135, 2.472, 2.470, 2.842 in tab:evaluation-2-all are 3135, 2472, 2470, 2842",
    "E11": "the text on Random-simplex does not give the tables: its two scales are misprinted",
    "E12": "image k-NN and noise rows come from differences of bytes that wrap modulo 256",
    "E13": "negative distances of Neuc-MDS⁺ count only the pairs not negative under Neuc-MDS",
    "E14": "pairs whose D̂ is zero up to rounding (twins in the k-NN graph) were counted by the "
    "sign of the rounding, and enter the distortion with huge factors",
    "E15": "L, N and N⁺ of MNIST k=10 in tab:image-other-metric are scaled additive errors",
    "E16": "SMACOF in tab:stress-all is scikit-learn's own stress, half the sum over D handed in "
    "as if it were unsquared; its image entries are those of the 10-NN graphs, divided by 10",
    "E17": "CIFAR-10 (noise): L, N and N⁺ are e10, not e9; MNIST (noise), L-MDS: 1.449, not 1.499",
    "E18": "the landmark factors 1.0644 and 1.0898 belong to k = 9; at the tables' k = 100 plain "
    "triangulation is 7.6 times worse than the full fit with 25 %, 1043 times with 10 %",
    "E19": "# {λ < 0} in tab:dataset counts the constant vector's zero where rounding made it "
    "negative; all data sets are called non-metric in the text, the image graphs are metric",
    "E20": "U⊙U is about 1/n in the text after thm:stress-decomp, not 1/√n",
    "E21": "in lm:0eigenvec the constant vector is a null vector of B = UΛUᵀ, not of U",
    "E22": "the paradox is mitigated, not fully resolved: STRESS of both methods may rise with k, "
    "only C1 + C2 may not",
    "E23": "the images are the first 1000 of the training data, not a random sample of each class",
}
