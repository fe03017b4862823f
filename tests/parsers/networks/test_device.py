"""The number of threads follows from the sizes of the model and of the batch."""

import pytest

from parsers.networks.device import training_threads
from parsers.options import parse
from tests.threads import threads


@pytest.mark.parametrize(
    ("arguments", "with_unlabeled", "expected"),
    [
        ([], True, 1),
        (["--lstm-size=400", "--batch-size=32"], False, 2),
        (["--lstm-size=400"], False, 1),
        (["--lstm-size=400"], True, 2),  # batches of 32 unlabelled sentences
        (["--lstm-size=4000", "--batch-size=32"], False, 2),  # as many as there are
    ],
)
def test_more_threads_for_large_batches_alone(arguments, with_unlabeled, expected):
    options = parse(["--model=lap", *arguments])
    with threads(2):
        assert training_threads(options, with_unlabeled) == expected
    with threads(1):
        assert training_threads(options, with_unlabeled) == 1
