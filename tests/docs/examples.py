"""The public names of the package, and what their examples find: names, files and models."""

from __future__ import annotations

import copy
import random
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
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


def write_files(folder: Path) -> None:
    """Fill the folder in which examples run."""
    for name, kind in FILES.items():
        INPUTS[kind](folder / name)
