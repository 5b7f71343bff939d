"""Three tasks that a tiny encoder can learn, in the words of the tiny BERT."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from sentemb.data.labelled import LabelledTexts
from sentemb.multitask import MultiTaskConfig, TaskSets
from sentemb.training import resolve
from tests.classification.toy import TOPICS, toy_set

NAMES = ("no", "yes")


def toy_sets(rows: int = 24, seed: int = 0, split: str = "train") -> TaskSets:
    """Sentiment is the topic; two texts are paraphrases, and similar, where their topics are the same."""
    generator = random.Random(seed)
    topics = list(TOPICS.values())

    def pairs(count: int) -> tuple[list[str], list[str], np.ndarray]:
        first = [generator.randrange(len(topics)) for _ in range(count)]
        same = np.array([index % 2 for index in range(count)])
        second = [one if alike else (one + 1) % 3 for one, alike in zip(first, same, strict=True)]
        texts = [[" ".join(generator.choices(topics[one], k=3)) for one in side] for side in (first, second)]
        return texts[0], texts[1], same

    first, second, same = pairs(2 * rows)
    paraphrase = LabelledTexts("pairs", split, first, second, same, NAMES)
    first, second, same = pairs(rows - 8)
    similarity = LabelledTexts("scores", split, first, second, same * 4.0 + 0.5, ())
    return TaskSets(toy_set(rows, seed=seed, split=split), paraphrase, similarity)


def toy_config(row: str, base: Path, output: Path, **overrides: Any) -> MultiTaskConfig:
    """A row, made short and fast for the tiny BERT."""
    values: dict[str, Any] = {
        "base": str(base),
        "output": str(output),
        "batch_size": 8,
        "epochs": 2,
        "contrast_epochs": 1,
        "nli_epochs": 1,
        "learning_rate": 5e-3,
        "contrast_learning_rate": 1e-3,
        "max_length": 16,
        "seeds": [1],
    }
    config: MultiTaskConfig = resolve(row, overrides=values | overrides)
    return config


NLI = [["cat sat", "dog ran", "man plays"], ["cat", "dog", "man"], ["house", "red", "fly"]]
