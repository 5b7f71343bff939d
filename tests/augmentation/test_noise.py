from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.augmentation import Decoding, Seq2SeqTranslator, noisy_copies
from sentemb.data import LabelledTexts, add_copies, read_copies
from sentemb.data.columns import write_table
from sentemb.errors import InputError

LEVEL = Decoding(temperature=0.9, max_new_tokens=5)


class Emptying:
    """Forgets what begins with "dog" in its second draw."""

    name = fingerprint = "emptying"

    def __call__(self, texts, *, draw=0):
        return ["" if draw == 1 and text.startswith("dog") else f"{text} {draw}" for text in texts]

    def describe(self):
        return {}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_copies_are_read_by_the_noise_experiment(tmp_path: Path, suffix: str) -> None:
    rows = {0: ("a cat sat", "the dog"), 3: ("two birds", "a red apple")}
    found = noisy_copies(rows, Emptying(), Emptying(), temperature=0.9, copies=2)
    assert found.columns["index"] == [0, 0, 3, 3]
    assert found.columns["augmented_pair"][1] == "the dog 1 1"
    path = tmp_path / f"copies{suffix}"
    write_table(path, found.columns, {})
    copies = read_copies(path, pair="augmented_pair", temperature="temperature")
    data = LabelledTexts(
        name="own",
        split="train",
        texts=["a cat sat", "x", "y", "two birds"],
        pairs=["the dog", "x", "y", "a red apple"],
        labels=np.array([0, 1, 0, 1]),
        label_names=("no", "yes"),
        source="own",
    )
    noisy = add_copies(data, np.array([0, 3]), copies, seed=0, temperature=0.9, ratio=2)
    assert len(noisy) == 6
    assert noisy.labels.tolist() == [0, 1, 0, 0, 1, 1]
    assert noisy.texts[2:] == found.columns["augmented"]


def test_copies_are_samples_of_their_own(tiny_t5: Path, tiny_marian: Path, texts, tmp_path: Path) -> None:
    there, back = (Seq2SeqTranslator(folder, decoding=LEVEL) for folder in (tiny_t5, tiny_marian))
    rows = {number: (text,) for number, text in enumerate(texts(6))}
    found = noisy_copies(rows, there, back, temperature=0.9, cache=tmp_path)
    assert "augmented_pair" not in found.columns
    assert len(set(found.columns["augmented"])) > 6
    assert found.counts.texts == 18
    assert noisy_copies(rows, there, back, temperature=0.9, cache=tmp_path) == found


def test_copies_that_came_back_empty_are_left_out_and_counted() -> None:
    rows = {5: ("dog ran",), 7: ("cat",)}
    found = noisy_copies(rows, Emptying(), Emptying(), temperature=0.5)
    assert found.columns["index"] == [5, 5, 7, 7, 7]
    assert found.columns["augmented"][:2] == ["dog ran 0 0", "dog ran 2 2"]
    assert (found.incomplete, found.counts.empty) == (1, 1)
    with pytest.raises(InputError, match="copies is 0"):
        noisy_copies(rows, Emptying(), Emptying(), temperature=0.5, copies=0)
