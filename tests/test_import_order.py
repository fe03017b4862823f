"""Which file may import which: lower folders import nothing of higher ones. CONTRIBUTING.md has the order in words."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SYSTEMS = ("lap", "gap", "ntp", "nmp", "crfae", "dppp", "st", "edp")
PARSERS = [
    ("parsers.io",),
    ("parsers.data",),
    ("parsers.networks",),
    ("parsers.system",),
    tuple(f"parsers.{name}" for name in SYSTEMS),
    ("parsers", "parsers.options"),
    ("parsers.runs",),
    ("parsers.evaluation",),
    ("parsers.training",),
    ("parsers.commands",),
    ("parsers.reproduce",),
    ("train", "evaluate"),
]
# parsers.load, for those who import nothing but parsers
EXCEPTIONS = {("parsers", f"parsers.evaluation.api.{name}") for name in ("load_run", "Loaded")}
CPU = [
    ("tritree.cpu.simd",),
    ("tritree.cpu.chart",),
    ("tritree.cpu.passes",),
    ("tritree.cpu.order", "tritree.cpu.threads", "tritree.cpu.groups"),
    ("tritree.cpu.kernels",),
    ("tritree.cpu.backend",),
]


def level(module: str, order: list[tuple[str, ...]]) -> int | None:
    """The place of a module in the order: that of the longest name that it begins with."""
    rooms = {name: number for number, names in enumerate(order) for name in names}
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((rooms[name] for name in names if name in rooms), None)


def imports(path: Path) -> set[str]:
    """All of a file, those inside of functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_kernels_are_known_by_name_only():
    """backends.py has the names of the kernels' modules; no other file of tritree's root and compat/ needs one."""
    for path in [*(ROOT / "tritree").glob("*.py"), *(ROOT / "tritree/compat").glob("*.py")]:
        found = {name for name in imports(path) if name.startswith(("tritree.cpu", "tritree.gpu"))}
        assert not found, f"{path.name} imports {found}"


@pytest.mark.parametrize(("folder", "order"), [("parsers", PARSERS), ("tritree/cpu", CPU)])
def test_lower_never_imports_higher(folder, order):
    files = [*(ROOT / folder).rglob("*.py"), *(ROOT / f"{name}.py" for name in order[-1] if "." not in name)]
    for path in files:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        own = level(module, order)
        for name in imports(path):
            other = level(name, order)
            allowed = own is None or other is None or other <= own or (module, name) in EXCEPTIONS
            assert allowed, f"{module} imports {name}"
