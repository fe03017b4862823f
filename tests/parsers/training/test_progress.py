"""What is shown of a training: one line per epoch that fits, and what tritree logs."""

import logging
import sys

import pytest

from parsers.training.progress import Display, epoch_line

RECORD = {
    "epoch": 12,
    "loss": 5.5,
    "parse_loss": 0.43211,
    "unlabeled_loss": 2.12345,
    "dev_uas": 94.804,
    "dev_las": 92.104,
    "epoch_seconds": 12.34,
}
WHOLE = "epoch 12  parse loss 0.432  unlabelled 2.123  dev UAS 94.80 LAS 92.10 *  12.3 s"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (None, f"{WHOLE}  at most 1:05 left"),
        (120, WHOLE),
        (80, WHOLE),
        (79, "epoch 12  parse loss 0.432  unlabelled 2.123  dev UAS 94.80 LAS 92.10 *"),
        (60, "epoch 12  parse loss 0.432  dev UAS 94.80 LAS 92.10 *"),
    ],
)
def test_a_line_fits_the_terminal(width, line):
    assert epoch_line(RECORD, "parse_loss", True, 65, width) == line


def test_the_loss_on_text_stands_once_where_there_is_no_other():
    record = {"epoch": 3, "unlabeled_loss": 2.58612, "epoch_seconds": 4.5}
    assert epoch_line(record, "unlabeled_loss", False, 65, 80) == "epoch  3  unlabelled 2.586  4.5 s"


def test_what_tritree_logs_is_said_once(capfd):
    with Display().notices():
        logging.getLogger("tritree").warning("compiles")
    assert capfd.readouterr().out == "compiles\n" and not logging.getLogger("tritree").handlers


def test_warnings_are_broken_between_words_on_a_terminal_only(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = "train.py: the dev set: unlike the training data, which costs accuracy: 9 of 9 words are not known"
    Display().warn(text)
    assert capfd.readouterr().err == f"{text}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    Display().warn(text)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 40 and " ".join(lines) == text
