"""The arrows of ARCHITECTURE.md, checked on every import; no cycles, small files, one name for one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "sentemb"
# What every room may import.
BASE = {
    "__version__",
    "_compat",
    "_files",
    "_fusion",
    "_http",
    "_machine",
    "_threads",
    "_uris",
    "_vectors",
    "errors",
    "limits",
}
# What a room may import besides, from the bottom of the house to its top.
TRAINING = {"losses", "modules", "data", "encoding", "evaluation"}
ABOVE_TRAINING = TRAINING | {"training"}
ROOMS: dict[str, set[str]] = {
    "losses": set(),
    "modules": set(),
    "data": set(),
    "augmentation": {"data", "modules"},
    "encoding": {"modules", "data"},
    "search": {"encoding", "modules", "data"},
    "evaluation": {"encoding", "data", "modules"},
    "training": TRAINING | {"augmentation"},
    "classification": ABOVE_TRAINING,
    "multitask": ABOVE_TRAINING,
    "pretraining": ABOVE_TRAINING,
    "transforms": ABOVE_TRAINING,
    "adaptation": ABOVE_TRAINING | {"pretraining", "transforms", "compression"},
    "experiments": ABOVE_TRAINING
    | {"augmentation", "classification", "multitask", "pretraining", "transforms", "report"},
    "report": {"evaluation", "training"},
    "compression": ABOVE_TRAINING | {"pretraining"},
    "integrations": {"search", "encoding"},
    "serving": {"data", "encoding", "modules", "search", "classification"},
}
TRAINING_PROGRAMS = sorted((PACKAGE.parent / "training").glob("*.py"))
UPSTREAM_PRIVATE = ("sentence_transformers.base", "sentence_transformers.util.distributed")


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_room_has_a_row() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms - {"cli"} <= {*ROOMS}


def test_the_tables_of_architecture_have_every_package_and_module() -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for room in {path.parent.name for path in PACKAGE.glob("*/__init__.py")}:
        assert f"`{room}/`" in text, room
    for path in PACKAGE.glob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            assert f"`{path.name}`" in text, path.name


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_what_its_row_allows(room: str) -> None:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for name in imported_names(path):
            parts = name.split(".")
            if parts[0] == "sentemb" and len(parts) > 1 and parts[1] != room:
                assert parts[1] in ROOMS[room] | BASE, f"{path.name} imports {name}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: {*imported_modules(path, modules)} - {name} for name, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def module_name(path: Path) -> str:
    parts = ["sentemb", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The modules of sentemb that importing a file imports at once."""
    for node in statements_run_on_import(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sentemb"):
            for alias in node.names:
                yield home_of(node.module, alias.name, modules)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("sentemb."))


def statements_run_on_import(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (child for child in node.orelse for child in [child, *statements_run_on_import(child)])
            continue
        if isinstance(node, ast.stmt):
            yield node
            yield from statements_run_on_import(node)


def home_of(package: str, name: str, modules: dict[str, Path]) -> str:
    """The module that a name comes from; a room's stub, or its lazy exports, say where its names are."""
    if f"{package}.{name}" in modules:
        return f"{package}.{name}"
    folder = modules[package].parent
    if modules[package].name != "__init__.py":
        return package
    stub = folder / "__init__.pyi"
    listing = stub if stub.exists() else modules[package]
    for node in ast.walk(ast.parse(listing.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            source = f"{package}.{node.module}" if node.level else str(node.module)
            return home_of(source, name, modules) if source in modules else source
    return package


def test_no_two_rooms_export_one_name() -> None:
    things = defaultdict(dict)
    for room in ROOMS:
        if (PACKAGE / room / "__init__.py").exists():
            module = import_module(f"sentemb.{room}")
            for name in module.__all__:
                things[name][room] = getattr(module, name)
    different = {
        name: sorted(where)
        for name, where in things.items()
        if any(thing is not next(iter(where.values())) for thing in where.values())
    }
    assert different == {}


def test_only_compat_touches_private_upstream_names() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "_compat.py":
            continue
        for name in imported_names(path):
            assert not name.startswith(UPSTREAM_PRIVATE), f"{path}: {name}; route it through _compat"


def test_one_file_imports_ray_one_ray_serve_and_none_imports_these_before_they_are_needed() -> None:
    homes = {"sentemb.encoding.cluster", "sentemb.serving.replicas"}
    modules = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    assert {
        module
        for module, path in modules.items()
        if any(name.split(".")[0] == "ray" for name in imported_names(path))
    } == homes
    for module in modules.keys() - homes:
        assert not homes & {*imported_modules(modules[module], modules)}, module


def test_the_list_of_long_tests_names_tests() -> None:
    for line in (PACKAGE.parent / "tests" / "long.txt").read_text().splitlines():
        path, *names = line.split("::")
        text = (PACKAGE.parent / path).read_text()
        assert all(name in text for name in names[:1]), line


def test_files_stay_small() -> None:
    for folder in (PACKAGE, PACKAGE.parent / "training", PACKAGE.parent / "eval"):
        for path in folder.rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 600, path


@pytest.mark.parametrize("path", TRAINING_PROGRAMS, ids=lambda path: path.stem)
def test_a_training_program_is_a_docstring_a_recipe_and_a_call(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 50


def test_only_encoding_calls_encode() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "encoding" in path.parts:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        code = "\n".join(
            line for line in lines if not line.lstrip().startswith((">>>", "..."))
        )  # no examples
        assert "model.encode(" not in code, f"{path} calls model.encode; go through sentemb.encoding"
