"""The package as it is imported: cheap, and complete at its top."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import sentemb
from sentemb.cli.main import _EXTRAS

HEAVY = ("torch", "numpy", "transformers", "sentence_transformers", "faiss", "datasets", "matplotlib", "rich")
ROOT = Path(sentemb.__file__).parent
ROOMS = ["sentemb", *sorted(f"sentemb.{path.parent.name}" for path in ROOT.glob("*/__init__.py"))]


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_that_a_room_exports_is_there(room: str) -> None:
    module = import_module(room)
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name) is not None, name
        # Rooms that list their names in a stub offer them to completion.
        assert name in dir(module) or not Path(str(module.__file__)).with_suffix(".pyi").exists(), name


@pytest.mark.parametrize("room", ["sentemb", "sentemb.losses"])
def test_unknown_name_is_an_attribute_error_of_its_room(room: str) -> None:
    with pytest.raises(AttributeError, match=f"{room}.*nothing_like_it"):
        import_module(room).nothing_like_it  # noqa: B018


def test_rooms_and_the_command_import_nothing_heavy_before_they_run() -> None:
    code = f"import sys, sentemb.cli.main, {', '.join(ROOMS)}\n"
    code += f"print([name for name in {HEAVY!r} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_top_offers_every_loss_and_loads_only_what_one_needs() -> None:
    losses = [name for name in import_module("sentemb.losses").__all__ if name.endswith("Loss")]
    assert {*losses} <= {*dir(sentemb)}
    code = "import sys; from sentemb import SelfGuidedLoss\n"
    code += "print(*{name.split('.')[1] for name in sys.modules if name.startswith('sentemb.')})"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {*printed.split()} <= {"losses", "errors", "_compat", "_vectors", "limits"}


def _imported() -> set[str]:
    """Names of the packages that any module imports."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - {*sys.stdlib_module_names, "sentemb"}


def test_what_the_plain_installation_lacks_is_said_by_the_extra_that_brings_it() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plain = {re.split(r"[\[<>=]", requirement)[0] for requirement in project["dependencies"]}
    come_with_those = {
        "aiohttp",
        "annotated_types",
        "anyio",
        "h11",
        "markupsafe",
        "pydantic_core",
        "starlette",
    }
    integrations = {"haystack", "langchain_core"}  # rooms that only programs with these packages import
    distributions = packages_distributions()
    lacking = {
        name
        for name in _imported()
        if not plain & {one.lower().replace("_", "-") for one in distributions.get(name, [name])}
    }
    assert lacking - come_with_those - integrations - {*_EXTRAS} == set()
    assert {*_EXTRAS.values()} <= {*project["optional-dependencies"]}
