"""The figures of the paper: Zhang & Goldwasser 2020, Semi-supervised Autoencoding Projective Dependency Parsing.

Test UAS with a tenth of the trees, Tables 2 (WSJ) and 3 (UD 2.3), by the names of rows in the grid. Where the
treebank of the paper is not free or not at hand, another one of its language stands beside it.
"""

TREEBANKS = {  # ours: the paper's
    "en_gum": "English-GUM",
    "fr_sequoia": "French-GSD",
    "it_partut": "Italian-ISDT",
    "ru_taiga": "Russian-GSD",
    "ja_gsd": "Japanese-GSD",
    "wsj_sample": "WSJ",
}
SAME = ("en_gum",)  # in the same release; ja_gsd is of a later one

_ORDER = tuple(TREEBANKS)
_UAS = {
    "DPPP (L)": (None, None, None, None, None, 88.79),
    "DPPP (L+U)": (None, None, None, None, None, 89.50),
    "CRFAE (L+U)": (68.52, 77.35, 76.37, 68.64, 87.26, 82.34),
    "NMP (L)": (75.51, 83.07, 82.85, 75.18, 93.46, 89.64),
    "NTP (L)": (75.57, 83.12, 82.99, 75.23, 93.54, 89.63),
    "ST (L+U)": (72.76, 81.38, 82.74, 72.57, 91.43, 87.81),
    "LAP (L)": (75.36, 83.09, 83.07, 74.84, 93.38, 89.37),
    "LAP (L+U)": (75.48, 83.23, 83.34, 75.22, 93.65, 89.49),
    "GAP (L)": (75.75, 83.11, 83.14, 75.17, 93.52, 89.65),
    "GAP (L+U)": (76.21, 83.26, 83.54, 75.69, 93.92, 89.96),
}


def paper_uas(row: str, treebank: str) -> float | None:
    """None where the paper has no such figure."""
    return _UAS[row][_ORDER.index(treebank)] if row in _UAS and treebank in _ORDER else None
