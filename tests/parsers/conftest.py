import pytest

from parsers.data import synthetic
from tests.parsers.evaluation.calls import ODD
from tests.parsers.helpers import NO_LABELS, SMALL, small_trainer, tiny_options


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Three runs, the last one without labels, and test sentences of their language with an odd one behind them."""
    directory = tmp_path_factory.mktemp("evaluate")
    for name, arguments in (("first", ["--epochs=1"]), ("second", ["--epochs=4"]), ("bare", ["--epochs=1", NO_LABELS])):
        options = tiny_options("ntp", *SMALL, *arguments)
        small_trainer(options, directory / name, count=60).train()
    text = "".join(synthetic.conllu("test", count=30))
    (directory / "gold.conllu").write_text(text + ODD, encoding="utf-8", newline="")
    return directory
