"""How a word is spelt: the characters that networks read."""

import unicodedata

FRONT, BACK = 8, 16  # characters of a long word that are read
EDGE = 1  # the number of what stands before and behind a word; 0 is an unknown character
WIDTH = 3  # of the encoder's convolution
RARE = 1  # characters that occur no more often in the trees are unknown, so that a parser learns what to do with these


def spelling(form: str) -> str:
    """A word's characters, in Unicode NFC and with capitals; of a long word, the beginning and the end."""
    form = unicodedata.normalize("NFC", form)
    return form if len(form) <= FRONT + BACK else form[:FRONT] + form[-BACK:]
