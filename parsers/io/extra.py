"""The packages that the parsers need beside those of tritree: the extra `parsers` in pyproject.toml."""

from importlib.util import find_spec

from parsers.io.errors import UserError

EXTRA = ("rich", "safetensors", "matplotlib", "conllu")


def check_extra() -> None:
    """A UserError if one of them is missing. Nothing is imported."""
    for name in EXTRA:
        try:
            found = find_spec(name) is not None
        except ValueError:  # something that is no module stands in its place
            found = False
        if not found:
            raise UserError(f"{name} is not installed: pip install 'tritree[parsers]'")
