"""Who imports whom in `src/ktae`, lazy imports included: arrows go down, and there is no circle."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src/ktae"

CORE = ("arrays", "backends", "batch", "credit", "errors", "estimators", "rollout_advantages",
        "statistics")  # fmt: skip
"""Rooms of the core: they know NumPy, and of ktae nothing but each other."""

TRAINERS = ("trl", "verl")


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(module: str) -> Iterator[str]:
    """The modules of ktae that one imports, at any depth of its code; not for types alone."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ktae":
            for name in node.names:
                full = f"{node.module}.{name.name}"
                yield full if full in MODULES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)


GRAPH = {module: set(imported(module)) - {module} for module in MODULES}


def room(module: str) -> str:
    """`ktae.backends.cpu` is in `backends`; `ktae.credit` is a room of its own."""
    return module.split(".")[1] if "." in module else module


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def test_no_circle_of_modules() -> None:
    assert circle(GRAPH) is None


def test_no_circle_of_rooms() -> None:
    rooms: dict[str, set[str]] = {}
    for module, others in GRAPH.items():
        own = rooms.setdefault(room(module), set())
        own |= {room(other) for other in others} - {room(module)}
    rooms.pop("ktae")  # the package's own names, above all of them
    assert circle({name: others - {"ktae"} for name, others in rooms.items()}) is None


@pytest.mark.parametrize("name", CORE)
def test_the_core_knows_nothing_else(name: str) -> None:
    own = [module for module in MODULES if room(module) == name]
    assert own
    for module in own:
        assert {room(other) for other in GRAPH[module]} <= set(CORE), module


@pytest.mark.parametrize("name", TRAINERS)
def test_trainers_do_not_import_each_other(name: str) -> None:
    others = [f"ktae.trainers.{other}" for other in TRAINERS if other != name]
    for module in MODULES:
        if module.startswith(f"ktae.trainers.{name}"):
            assert not [x for x in GRAPH[module] if x.startswith(tuple(others))], module


def test_nothing_private_is_imported_across_rooms() -> None:
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("ktae"):
                continue
            names = {f"{node.module}.{name.name}" for name in node.names} - {"ktae._version"}
            private = [x for x in names if "._" in x and not x.startswith("ktae._version")]
            foreign = [x for x in private if room(x) != room(module)]
            assert not foreign, f"{module} imports {foreign}"
