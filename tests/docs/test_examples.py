"""Every public class and function has an example in its docstring, and the examples run."""

from __future__ import annotations

import copy
import doctest
import inspect
import os
import random
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainingArguments

import sentemb
from sentemb.data.bundled_text import bundled_sentences
from sentemb.modules import load
from tests.docs.inputs import INPUTS

_FOLDERS = sorted(Path(sentemb.__file__).parent.glob("*/__init__.pyi"))
PACKAGES = (
    "sentemb",
    *(f"sentemb.{path.parent.name}" for path in _FOLDERS),
    "sentemb.evaluation.choosing",
    "sentemb.integrations.langchain",
    "sentemb.integrations.haystack",
)
FILES = {
    "all-MiniLM-L6-v2": "a sentence encoder",
    "back.csv": "back-translations",
    "bert-base-uncased": "bert-mini",
    "docs.jsonl": "Python's documentation",
    "few.csv": "labelled texts",
    "index": "an index of documents",
    "my-set": "a collection",
    "nli.csv": "inference pairs",
    "labelled-pairs.csv": "labelled pairs",
    "pairs.jsonl": "pairs",
    "records": "records",
    "roberta-large": "bert-mini",
    "sentences.txt": "sentences",
}
"""The folder in which examples run: names, and what lies there. The records bring `pairs.csv`."""


@cache
def public_objects() -> dict[str, Any]:
    """Every name that a package exports, at the first package that does."""
    found: dict[str, Any] = {}
    known = set()
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType) and id(value) not in known:
                known.add(id(value))
                found[f"{package}.{name}"] = value
    return found


@cache
def _encoder() -> Any:
    return load("bert-base-uncased", pooling="cls")


def names() -> dict[str, Any]:
    """Names that an example can use without an import."""
    public = {name.rpartition(".")[2]: value for name, value in public_objects().items()}
    texts = bundled_sentences()[:64]
    labels = [number % 2 for number in range(len(texts))]
    modules = {"copy": copy, "np": np, "random": random, "sentemb": sentemb, "torch": torch}
    encoder = copy.deepcopy(_encoder())  # an example may train it
    return {
        **public,
        **modules,
        "Dataset": Dataset,
        "Path": Path,
        "SentenceTransformerTrainingArguments": SentenceTransformerTrainingArguments,
        "documents": texts[:32],
        "encoder": encoder,
        "labelled_sentences": Dataset.from_dict({"text": texts, "label": labels}),
        "queries": texts[32:],
        "sentences": Dataset.from_dict({"text": texts}),
        "student": encoder,
        "teacher": encoder,
        "texts": texts,
    }


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
    for name, kind in FILES.items():
        INPUTS[kind](made / name)
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
