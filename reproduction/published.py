"""Every number the paper prints, as printed, with its label, its unit and its errata.

Rows and columns have this library's names. A column of a table with several measures is called
``measure: method``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reproduction.records import Printed


@dataclass(frozen=True)
class Correction:
    """How an erratum reads one entry: another number, another unit, or only a remark."""

    errata: tuple[str, ...]
    value: float | None = None
    unit: float | None = None


@dataclass(frozen=True)
class PublishedTable:
    """A printed table: rows of digits, what a unit is worth in each row, corrections by entry."""

    label: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    units: dict[str, float] = field(default_factory=dict)
    scaled: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()
    corrections: dict[tuple[str, str], Correction] = field(
        default_factory=dict
    )

    def get(self, row: str, column: str) -> Printed | None:
        """Look up one entry; None if the paper has no such row or column, or leaves it empty."""
        if row not in self.rows or column not in self.columns:
            return None
        text = self.rows[row][self.columns.index(column)]
        if text == "–":
            return None
        scaled = not self.scaled or column.partition(":")[0] in self.scaled
        unit = self.units.get(row, 1.0) if scaled else 1.0
        errata = self.errata if scaled and row in self.units else ()
        found = self.corrections.get((row, column))
        if found is None:
            return Printed(text, unit, errata)
        unit = unit if found.unit is None else found.unit
        return Printed(text, unit, (*errata, *found.errata), found.value)


def _parse(text: str) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Read ``row | a | b`` lines; the first line names the columns."""
    lines = [
        [part.strip() for part in line.split("|")]
        for line in text.strip().splitlines()
    ]
    return tuple(lines[0][1:]), {
        line[0]: tuple(line[1:]) for line in lines[1:]
    }


def _columns(measures: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(
        f"{measure}: {method}"
        for measure, ms in measures.items()
        for method in ms
    )


_FOUR = ("classical", "lower", "neuc", "neuc+")
_TWO = ("neuc", "neuc+")
_IMAGES = ("MNIST", "Fashion-MNIST", "CIFAR-10")

_columns_dataset, _rows_dataset = _parse("""
               | size | negative eigenvalues | classes
Random-simplex | 1000 | 900 | –
Euclidean-ball | 1000 | 887 | –
Brain          | 130  | 53  | 5
Breast         | 151  | 59  | 6
Colorectal     | 194  | 78  | 2
Leukemia       | 281  | 117 | 7
Renal          | 143  | 57  | 2
MNIST          | 1000 | 454 | 10
Fashion-MNIST  | 1000 | 429 | 10
CIFAR-10       | 1000 | 399 | 10
""")
DATASET = PublishedTable(
    "tab:dataset",
    _columns_dataset,
    _rows_dataset,
    corrections={
        (row, "negative eigenvalues"): Correction(("E19",))
        for row in ("Random-simplex", *_IMAGES)
    },
)
METRIC = {row: row in _IMAGES for row in _rows_dataset}

_columns_stress, _rows_stress = _parse("""
               | classical | lower  | neuc  | neuc+ | smacof
Random-simplex | 80.520    | 31.542 | 1.179 | 0.194 | 15.962
Euclidean-ball | 36.975    | 17.303 | 1.196 | 1.351 | 4e6
Brain          | 2.894     | 0.289  | 0.046 | 0.045 | 0.081
Breast         | 2.822     | 0.423  | 0.029 | 0.029 | 0.078
Colorectal     | 1.464     | 0.221  | 0.017 | 0.026 | 0.036
Leukemia       | 2.958     | 0.624  | 0.078 | 0.096 | 0.005
Renal          | 0.490     | 0.090  | 0.026 | 0.036 | 0.017
MNIST          | 65.107    | 37.896 | 9.935 | 9.885 | 2.35e5
Fashion-MNIST  | 35.235    | 1.955  | 0.613 | 0.612 | 2.80e5
CIFAR-10       | 26.598    | 1.276  | 0.858 | 0.850 | 1.63e5
""")
STRESS_ALL = PublishedTable(
    "tab:stress-all",
    _columns_stress,
    _rows_stress,
    units={
        "Random-simplex": 10.0,
        "Euclidean-ball": 1e11,
        "Brain": 0.1,
        "Breast": 0.01,
        "Colorectal": 0.01,
        "Leukemia": 0.01,
        "Renal": 0.01,
        "MNIST": 1e6,
        "Fashion-MNIST": 1e7,
        "CIFAR-10": 1e7,
    },
    errata=("E7",),
    corrections={
        ("Euclidean-ball", "neuc"): Correction(("E8",), value=1.120),
        ("MNIST", "classical"): Correction((), unit=1e7),
        ("Random-simplex", "smacof"): Correction(("E16",)),
        ("Euclidean-ball", "smacof"): Correction(("E16",), unit=1e6),
        **{
            (row, "smacof"): Correction(("E16",), unit=10.0) for row in _IMAGES
        },
    },
)

_columns_distortion, _rows_distortion = _parse("""
               | classical | lower  | neuc   | neuc+
Random-simplex | 1.049     | 1.049  | 1.010  | 1.004
Euclidean-ball | 1.046     | 1.041  | 1.013  | 1.017
Brain          | 8.160     | 42.705 | 5.809  | 6.941
Breast         | 6.988     | 31.081 | 6.205  | 6.295
Colorectal     | 23.938    | 34.587 | 20.234 | 22.475
Leukemia       | 6.551     | 32.214 | 7.032  | 6.749
Renal          | 21.709    | 38.282 | 19.680 | 21.223
MNIST          | 1.119     | 1.104  | 1.064  | 1.063
Fashion-MNIST  | 1.135     | 1.096  | 1.068  | 1.068
CIFAR-10       | 1.129     | 1.109  | 1.121  | 1.118
""")
_TWINS = {
    (row, method): Correction(("E14",)) for row in _IMAGES for method in _FOUR
}
DISTORTION_ALL = PublishedTable(
    "tab:distortion-all",
    _columns_distortion,
    _rows_distortion,
    corrections=_TWINS,
)

_, _rows_norm = _parse("""
               | classical | lower  | neuc  | neuc+
Random-simplex | 28.376    | 17.760 | 3.433 | 1.392
Euclidean-ball | 19.229    | 13.154 | 3.346 | 3.676
Brain          | 0.538     | 0.170  | 0.068 | 0.067
Breast         | 0.168     | 0.065  | 0.017 | 0.017
Colorectal     | 0.121     | 0.047  | 0.013 | 0.016
Leukemia       | 0.172     | 0.079  | 0.028 | 0.031
Renal          | 0.070     | 0.030  | 0.016 | 0.019
MNIST          | 25.516    | 6.156  | 3.152 | 3.144
Fashion-MNIST  | 18.771    | 4.422  | 2.475 | 2.473
CIFAR-10       | 16.309    | 3.572  | 2.930 | 2.916
""")
EVALUATION_1 = PublishedTable(
    "tab:evaluation-1-all",
    _columns({"norm": _FOUR, "distortion": _FOUR}),
    # The distortions are printed a second time, the same digits as in tab:distortion-all.
    {row: _rows_norm[row] + _rows_distortion[row] for row in _rows_norm},
    units={"Euclidean-ball": 1e5, **dict.fromkeys(_IMAGES, 1e3)},
    scaled=("norm",),
    errata=("E9",),
    corrections={
        (row, f"distortion: {method}"): fix
        for (row, method), fix in _TWINS.items()
    },
)

_, _rows_evaluation_2 = _parse("""
               | additive error ×4             | negative pairs ×2 | negative eigenvalues ×2
Random-simplex | 17758 | 17760 | 3415 | 1392   | 0     | 0    | 8  | 1
Euclidean-ball | 14909 | 13093 | 3132 | 3631   | 798   | 523  | 90 | 87
Brain          | 0.131 | 0.132 | 0.063 | 0.062 | 5539  | 1081 | 8  | 9
Breast         | 0.039 | 0.039 | 0.016 | 0.015 | 9024  | 136  | 8  | 9
Colorectal     | 0.027 | 0.027 | 0.012 | 0.014 | 12041 | 1940 | 6  | 8
Leukemia       | 0.031 | 0.031 | 0.021 | 0.023 | 32705 | 2102 | 8  | 10
Renal          | 0.018 | 0.018 | 0.013 | 0.014 | 6650  | 713  | 7  | 9
MNIST          | 7592  | 6126  | 3148  | 3.135 | 1006  | 68   | 42 | 43
Fashion-MNIST  | 6153  | 4421  | 2.472 | 2.470 | 526   | 8    | 41 | 41
CIFAR-10       | 3880  | 3564  | 2870  | 2.842 | 2968  | 201  | 43 | 44
""")
_DETAIL = {"negative pairs": _TWO, "negative eigenvalues": _TWO}
_IN_THOUSANDS = (
    ("MNIST", "neuc+"),
    ("Fashion-MNIST", "neuc"),
    ("Fashion-MNIST", "neuc+"),
    ("CIFAR-10", "neuc+"),
)
_E13 = {
    (row, "negative pairs: neuc+"): Correction(("E13",))
    for row in _rows_evaluation_2
}
EVALUATION_2 = PublishedTable(
    "tab:evaluation-2-all",
    _columns({"additive error": _FOUR, **_DETAIL}),
    _rows_evaluation_2,
    units={"Random-simplex": 1e-3, "Euclidean-ball": 100.0},
    scaled=("additive error",),
    errata=("E9",),
    corrections={
        **{
            (row, f"additive error: {method}"): Correction(("E10",), unit=1e3)
            for row, method in _IN_THOUSANDS
        },
        **_E13,
        **{
            (row, "negative pairs: neuc"): Correction(("E14",))
            for row in _IMAGES
        },
        **{
            (row, "negative pairs: neuc+"): Correction(("E13", "E14"))
            for row in _IMAGES
        },
    },
)

_, _rows_other = _parse("""
                        | norm ×4                                   | pairs      | eigenvalues
MNIST (k=10)            | 10080    | 1979    | 1827    | 1830       | 554  | 63  | 42 | 41
Fashion-MNIST (k=10)    | 10249    | 2112    | 1936    | 1915       | 403  | 84  | 38 | 40
CIFAR-10 (k=10)         | 9032     | 1881    | 2309    | 2329       | 3236 | 996 | 39 | 37
MNIST (noise)           | 1.497e9  | 1.499e9 | 1.497e9 | 1.140e9    | 0    | 0   | 0  | 7
Fashion-MNIST (noise)   | 4.815e9  | 4.130e9 | 3.382e9 | 3.327e9    | 0    | 0   | 2  | 14
CIFAR-10 (noise)        | 2.303e10 | 2.116e9 | 2.303e9 | 1.848e9    | 0    | 0   | 0  | 9
MNIST (missing)         | 3.281e8  | 1.010e8 | 3.281e8 | 1.010e8    | 0    | 0   | 0  | 0
Fashion-MNIST (missing) | 5.165e8  | 1.726e8 | 5.165e8 | 1.726e8    | 0    | 0   | 0  | 0
CIFAR-10 (missing)      | 2.132e9  | 5.756e8 | 2.132e9 | 5.756e8    | 0    | 0   | 0  | 0
""")
IMAGE_OTHER_METRIC = PublishedTable(
    "tab:image-other-metric",
    _columns({"norm": _FOUR, **_DETAIL}),
    _rows_other,
    corrections={
        **{
            (row, "negative pairs: neuc+"): Correction(("E13",))
            for row in _rows_other
        },
        **{
            ("MNIST (k=10)", f"norm: {method}"): Correction(("E15",))
            for method in ("lower", "neuc", "neuc+")
        },
        **{
            ("CIFAR-10 (noise)", f"norm: {method}"): Correction(
                ("E17",), unit=10.0
            )
            for method in ("lower", "neuc", "neuc+")
        },
        ("MNIST (noise)", "norm: lower"): Correction(("E17",), value=1.449e9),
    },
)

LANDMARKS = PublishedTable(
    "sec:experiments",
    ("factor",),
    {"25 % landmarks": ("1.0644",), "10 % landmarks": ("1.0898",)},
    corrections={
        (row, "factor"): Correction(("E18",))
        for row in ("25 % landmarks", "10 % landmarks")
    },
)

_columns_random, _rows_random_1 = _parse("""
     | e_C constant | e_C per n | e_N
0.05 | 0.8432 | 0.0078 | 0.8278
0.1  | 0.7322 | 0.0265 | 0.6864
0.15 | 0.6513 | 0.0512 | 0.5666
0.2  | 0.5933 | 0.0785 | 0.4644
0.25 | 0.5531 | 0.1055 | 0.3771
0.3  | 0.5269 | 0.1304 | 0.3027
0.35 | 0.5112 | 0.1512 | 0.2397
0.4  | 0.5033 | 0.1670 | 0.1866
0.45 | 0.5004 | 0.1768 | 0.1425
""")
RANDOM_MATRIX_1 = PublishedTable(
    "tab:randommatrixerrors1", _columns_random, _rows_random_1
)

_columns_random_2, _rows_random_2 = _parse("""
     | e_N
0.5  | 0.1063
0.55 | 0.0770
0.6  | 0.0537
0.65 | 0.0358
0.7  | 0.0225
0.75 | 0.0130
0.8  | 0.0066
0.85 | 0.0028
0.9  | 0.0008
0.95 | 0.0001
""")
RANDOM_MATRIX_2 = PublishedTable(
    "tab:randommatrixerrors2", _columns_random_2, _rows_random_2
)

TABLES = (
    DATASET,
    STRESS_ALL,
    DISTORTION_ALL,
    EVALUATION_1,
    EVALUATION_2,
    IMAGE_OTHER_METRIC,
    LANDMARKS,
    RANDOM_MATRIX_1,
    RANDOM_MATRIX_2,
)
