"""A labelled set that any classifier can learn, in the words of the tiny BERT."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sentemb.data.labelled import LabelledTexts
from sentemb.training import ClassifierConfig, resolve

TOPICS = {
    "animal": "cat dog birds fly".split(),
    "person": "man woman plays guitar".split(),
    "thing": "mat house red apple".split(),
}


def toy_set(rows: int = 48, *, pairs: bool = False, seed: int = 0, split: str = "train") -> LabelledTexts:
    """Texts of three classes, each in words of its own; of a pair the second text decides."""
    generator = random.Random(seed)
    names = tuple(TOPICS)
    labels = [index % len(names) for index in range(rows)]
    texts = [_sentence(generator, TOPICS[names[label]]) for label in labels]
    if not pairs:
        return LabelledTexts("toy", split, texts, None, np.array(labels), names)
    first = [_sentence(generator, ("the", "children")) for _ in labels]
    return LabelledTexts("toy", split, first, texts, np.array(labels), names)


def toy_config(recipe: str, base: Path, output: Path, **overrides: Any) -> ClassifierConfig:
    """The recipe, made short and fast for the tiny BERT."""
    values: dict[str, Any] = {
        "base": str(base),
        "output": str(output),
        "batch_size": 16,
        "epochs": 12,
        "eval_steps": 12,
        "learning_rate": 1e-2,
        "max_length": 16,
    }
    if recipe.startswith("supcl-seq"):
        values["probe_options"] = {"learning_rate": 0.1, "warmup_steps": 0, "epochs": 10}
    config: ClassifierConfig = resolve(recipe, overrides=values | overrides)
    return config


def _sentence(generator: random.Random, words: Sequence[str]) -> str:
    return " ".join(generator.choices(words, k=generator.randint(2, 5)))
