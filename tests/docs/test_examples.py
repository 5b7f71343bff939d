"""Every public class and function has an example in its docstring, and the examples run."""

from __future__ import annotations

import doctest
import inspect
import os
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.examples import names, public_objects, write_files

RETURNED = {
    "sentemb.adaptation.Adapted": "adapt",
    "sentemb.classification.ClassifierRun": "fit_classifier",
    "sentemb.compression.Agreement": "distill_static",
    "sentemb.compression.LayeredStudent": "distill_layers",
    "sentemb.compression.VariantReport": "compress",
    "sentemb.compression.VariantReports": "compress",
    "sentemb.compression.Speed": "distill_static",
    "sentemb.compression.StaticStudent": "distill_static",
    "sentemb.evaluation.choosing.Candidate": "choose",
    "sentemb.evaluation.choosing.Choice": "choose",
    "sentemb.evaluation.choosing.Leak": "find_leaks",
    "sentemb.search.MinedCounts": "mine_negatives",
    "sentemb.training.Run": "train",
    "sentemb.training.SeedSummary": "train_seeds",
}
"""Results without an example: that of what returns them shows them."""


def _needs_example(value: Any) -> bool:
    """Exceptions, type aliases and constants need no example."""
    if inspect.isclass(value):
        return not issubclass(value, BaseException)
    return callable(value) and typing.get_origin(value) is None


PUBLIC = {name: value for name, value in public_objects().items() if _needs_example(value)}
WITH_EXAMPLE = [name for name, value in PUBLIC.items() if "Example:" in (value.__doc__ or "")]


@pytest.mark.parametrize("name", [*PUBLIC])
def test_it_has_an_example(name: str) -> None:
    if name in RETURNED:
        assert name not in WITH_EXAMPLE
        assert any(other.endswith(f".{RETURNED[name]}") for other in WITH_EXAMPLE)
        return
    assert name in WITH_EXAMPLE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the examples run."""
    made = tmp_path_factory.mktemp("examples")
    before = Path.cwd()
    os.chdir(made)
    write_files(made)
    yield made
    os.chdir(before)


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_the_example_runs(name: str, folder: Path) -> None:
    example = doctest.DocTestParser().get_doctest(PUBLIC[name].__doc__, names(), name, None, None)
    assert example.examples
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
