"""Who imports whom in `src/ktae`, lazy imports included: arrows go down, and there is no circle."""

import ast
import functools
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src/ktae"

CORE = ("arrays", "backends", "batch", "credit", "errors", "estimators", "outcomes",
        "rollout_advantages", "statistics")  # fmt: skip
"""Rooms of the core: they know NumPy, and of ktae nothing but each other."""

OUTSIDE = {"numpy"}
"""What the core may import that is not of Python's library."""
OF_BACKENDS = {"numba", "torch", "triton"}
"""And its room `backends`, besides."""

TRAINERS = ("trl", "verl", "tinker", "verifiers", "trinity", "slime")


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def names_imported(source: str, module: str, *, is_package: bool = False) -> Iterator[str]:
    """The dotted names that a module's source imports, at any depth; not for types alone."""
    tree = ast.parse(source)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    parents = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom):
            start = parents[: len(parents) + 1 - node.level] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            yield from (f"{base}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@functools.cache
def names_of(module: str) -> set[str]:
    path = MODULES[module]
    is_package = path.name == "__init__.py"
    return set(names_imported(path.read_text("utf-8"), module, is_package=is_package))


def imported(module: str) -> Iterator[str]:
    """The modules of ktae that one imports."""
    for name in names_of(module):
        if name.split(".")[0] == "ktae":
            yield name if name in MODULES else name.rpartition(".")[0]


@functools.cache
def graph() -> dict[str, set[str]]:
    return {module: set(imported(module)) - {module} for module in MODULES}


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
    assert circle(graph()) is None


def test_no_circle_of_rooms() -> None:
    rooms: dict[str, set[str]] = {}
    for module, others in graph().items():
        own = rooms.setdefault(room(module), set())
        own |= {room(other) for other in others} - {room(module)}
    rooms.pop("ktae")  # the package's own names, above all of them
    assert circle({name: others - {"ktae"} for name, others in rooms.items()}) is None


@pytest.mark.parametrize("name", CORE)
def test_the_core_knows_nothing_else(name: str) -> None:
    own = [module for module in MODULES if room(module) == name]
    assert own
    for module in own:
        assert {room(other) for other in graph()[module]} <= set(CORE), module


@pytest.mark.parametrize("name", CORE)
def test_the_core_brings_numpy_alone(name: str) -> None:
    """Lazily, too: what computes on other arrays is a backend."""
    allowed = OUTSIDE | OF_BACKENDS if name == "backends" else OUTSIDE
    for module in (module for module in MODULES if room(module) == name):
        roots = {name.split(".")[0] for name in names_of(module)}
        assert roots - sys.stdlib_module_names - {"ktae"} <= allowed, module


def test_every_way_to_import_is_seen() -> None:
    source = """
import a.b
from c import d
from . import e
from .f import g
from ..h import i
if TYPE_CHECKING:
    import j
def lazily():
    import k
"""
    found = names_imported(source, "ktae.room.module")
    of_package = names_imported("from . import e", "ktae.room", is_package=True)
    assert sorted(found) == ["a.b", "c.d", "k", "ktae.h.i", "ktae.room.e", "ktae.room.f.g"]
    assert list(of_package) == ["ktae.room.e"]


@pytest.mark.parametrize("name", TRAINERS)
def test_trainers_do_not_import_each_other(name: str) -> None:
    others = [f"ktae.trainers.{other}" for other in TRAINERS if other != name]
    for module in MODULES:
        if module.startswith(f"ktae.trainers.{name}"):
            assert not [x for x in graph()[module] if x.startswith(tuple(others))], module


def test_nothing_private_is_imported_across_rooms() -> None:
    for module in MODULES:
        names = names_of(module)
        own = {x for x in names if x.startswith("ktae.") and not x.startswith("ktae._version")}
        foreign = [x for x in own if "._" in x and room(x) != room(module)]
        assert not foreign, f"{module} imports {foreign}"
