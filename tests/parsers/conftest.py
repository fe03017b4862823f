import pytest

from parsers.data import synthetic
from tests.parsers.evaluation.calls import ODD
from tests.parsers.helpers import SMALL, small_trainer, tiny_options


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Two runs, and test sentences of their language with an odd one behind them, to evaluate."""
    directory = tmp_path_factory.mktemp("evaluate")
    for name, epochs in (("first", 1), ("second", 4)):
        options = tiny_options("ntp", *SMALL, f"--epochs={epochs}")
        small_trainer(options, directory / name, count=60).train()
    text = "".join(synthetic.conllu("test", count=30))
    (directory / "gold.conllu").write_text(text + ODD, encoding="utf-8", newline="")
    return directory
