"""Back-translation with its cache, which interrupts and kills do not harm, and noisy copies."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sentemb.augmentation import Decoding, Seq2SeqTranslator, back_translate
from sentemb.augmentation.back_translation import count_back_translations, noisy_copies, store_path
from sentemb.data import LabelledTexts
from sentemb.data.columns import write_table
from sentemb.data.sampling import add_copies, read_copies
from sentemb.errors import InputError
from tests.waiting import wait_for

SAMPLED = Decoding(temperature=0.9, max_new_tokens=6)
CATS = [f"cat {number}" for number in range(400)]


class Words:
    """Translates word by word, and keeps what it was asked."""

    def __init__(self, name: str, words: dict[str, str] | None = None) -> None:
        self.name, self.fingerprint = name, f"words {name}"
        self.asked: list[list[str]] = []
        self._words = words or {}

    def __call__(self, texts, *, draw=0):
        self.asked.append(list(texts))
        return [" ".join(self._words.get(word, word) for word in text.split()) for text in texts]

    def describe(self):
        return {"name": self.name}


class Emptying(Words):
    """Forgets what begins with "dog" in its second draw."""

    def __call__(self, texts, *, draw=0):
        return ["" if draw == 1 and text.startswith("dog") else f"{text} {draw}" for text in texts]


def rows_of(path: Path) -> list[tuple[int, str, str]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT * FROM translations").fetchall()


def test_every_unique_text_is_translated_once_and_counted() -> None:
    there, back = Words("there", {"cat": "katze", "dog": "katze", "red": ""}), Words("back", {"katze": "cat"})
    texts = ["a  cat", "", "a dog", "red", "a dog", "  "]
    translations = back_translate(texts, there, back)
    assert translations == ["a cat", "", "a cat", "", "a cat", ""]
    assert (there.asked, back.asked) == ([["red", "a dog", "a  cat"]], [["a katze"]])
    counts = count_back_translations(texts, translations)
    assert counts == (6, 5, 2, 1, 1)
    assert str(counts).endswith("unchanged by translation: 1; empty translations: 1; blank texts: 2")


def test_nothing_is_translated_again(tmp_path: Path) -> None:
    texts = ["a cat", "two birds", "a dog"]
    first = back_translate(texts, Words("there"), Words("back"), cache=tmp_path, batch_size=2)
    there, back = Words("there"), Words("back")
    assert back_translate([*texts, "a park"], there, back, cache=tmp_path) == [*first, "a park"]
    assert there.asked == back.asked == [["a park"]]
    for other, draw in ((Words("there"), 1), (Words("elsewhere"), 0)):
        back_translate(["a cat"], other, Words("back"), cache=tmp_path, draw=draw)
        assert other.asked == [["a cat"]]
    assert len(list(tmp_path.glob("*.sqlite"))) == 3


def test_samples_of_an_interrupted_call_are_those_of_an_uninterrupted_one(
    tiny_t5: Path, tiny_marian: Path, texts: Callable[[int], list[str]], tmp_path: Path
) -> None:
    there, back = (Seq2SeqTranslator(folder, decoding=SAMPLED) for folder in (tiny_t5, tiny_marian))
    some = texts(16)
    whole = back_translate(some, there, back, cache=tmp_path / "whole", batch_size=4)
    assert back_translate(some, there, back, batch_size=4) == whole

    class Stopping:
        name, fingerprint, describe = back.name, back.fingerprint, back.describe
        left = 2

        def __call__(self, texts, *, draw=0):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return back(texts, draw=draw)

    with pytest.raises(KeyboardInterrupt):
        back_translate(some, there, Stopping(), cache=tmp_path / "parts", batch_size=4)
    assert back_translate(some, there, back, cache=tmp_path / "parts", batch_size=4) == whole
    for file in (tmp_path / "whole").glob("*.sqlite"):
        assert rows_of(tmp_path / "parts" / file.name) == rows_of(file)


def test_a_killed_process_leaves_a_cache_that_can_be_used(tmp_path: Path) -> None:
    program = """
import signal, sys
from pathlib import Path
from sentemb.augmentation import back_translate
class Stays:
    name, fingerprint = "there", "words there"
    left = 20
    def __call__(self, texts, *, draw=0):
        self.left -= 1
        while self.left < 0:
            signal.pause()
        return [text for text in texts]
    def describe(self):
        return {"name": "there"}
back_translate([f"cat {n}" for n in range(400)], Stays(), Stays(), cache=Path(sys.argv[1]), batch_size=2)
"""
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    path = store_path(tmp_path, Words("there"))
    try:
        wait_for(
            lambda: path.exists() and path.stat().st_size and len(rows_of(path)) > 8,
            alive=lambda: process.poll() is None,
        )
    finally:
        process.kill()
        process.wait()
    kept = len(rows_of(path)) // 2
    there = Words("there")
    assert back_translate(CATS, there, Words("back"), cache=tmp_path, batch_size=2) == CATS
    assert 0 < len(there.asked) <= 200 - kept + 1


@pytest.mark.parametrize("damage", [lambda content: b"cat" * 4000, lambda content: content[:5000]])
def test_a_damaged_cache_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    there = Words("there")
    back_translate(CATS, there, Words("back"), cache=tmp_path)
    path = store_path(tmp_path, there)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"cannot be used: .*delete the file; its texts are then") as caught:
        back_translate(CATS, there, Words("back"), cache=tmp_path)
    assert str(path) in str(caught.value)


def test_progress_and_a_translator_that_does_not_answer(tmp_path: Path) -> None:
    seen = []
    there, back = Words("there"), Words("back")
    back_translate(["a", "b", "c"], there, back, batch_size=2, progress=lambda *step: seen.append(step))
    assert seen == [("there", 2, 3), ("there", 3, 3), ("back", 2, 3), ("back", 3, 3)]
    silent = Words("silent")
    silent.__class__ = type("Silent", (Words,), {"__call__": lambda self, texts, *, draw=0: []})
    with pytest.raises(InputError, match="silent did not return one translation per text"):
        back_translate(["a"], silent, back, cache=tmp_path)
    with pytest.raises(InputError, match="batch_size is 0"):
        back_translate(["a"], there, back, batch_size=0)


def test_copies_are_read_by_the_noise_experiment(tmp_path: Path) -> None:
    rows = {0: ("a cat sat", "the dog"), 3: ("two birds", "a red apple")}
    found = noisy_copies(rows, Emptying("a"), Emptying("b"), temperature=0.9, copies=2)
    assert found.columns["index"] == [0, 0, 3, 3]
    assert found.columns["augmented_pair"][1] == "the dog 1 1"
    path = tmp_path / "copies.jsonl"
    write_table(path, found.columns, {})
    copies = read_copies(path, pair="augmented_pair", temperature="temperature")
    texts, pairs = ["a cat sat", "x", "y", "two birds"], ["the dog", "x", "y", "a red apple"]
    data = LabelledTexts("own", "train", texts, pairs, np.array([0, 1, 0, 1]), ("no", "yes"), source="own")
    noisy = add_copies(data, np.array([0, 3]), copies, seed=0, temperature=0.9, ratio=2)
    assert noisy.labels.tolist() == [0, 1, 0, 0, 1, 1]
    assert noisy.texts[2:] == found.columns["augmented"]


def test_copies_are_separate_samples_and_empty_ones_are_counted(
    tiny_t5: Path, tiny_marian: Path, texts: Callable[[int], list[str]], tmp_path: Path
) -> None:
    there, back = (Seq2SeqTranslator(folder, decoding=SAMPLED) for folder in (tiny_t5, tiny_marian))
    rows = {number: (text,) for number, text in enumerate(texts(6))}
    found = noisy_copies(rows, there, back, temperature=0.9, cache=tmp_path)
    assert "augmented_pair" not in found.columns and len(set(found.columns["augmented"])) > 6
    assert found.counts.texts == 18
    assert noisy_copies(rows, there, back, temperature=0.9, cache=tmp_path) == found
    few = {5: ("dog ran",), 7: ("cat",)}
    found = noisy_copies(few, Emptying("a"), Emptying("b"), temperature=0.5)
    assert found.columns["index"] == [5, 5, 7, 7, 7]
    assert found.columns["augmented"][:2] == ["dog ran 0 0", "dog ran 2 2"]
    assert (found.incomplete, found.counts.empty) == (1, 1)
    with pytest.raises(InputError, match="copies is 0"):
        noisy_copies(few, Emptying("a"), Emptying("b"), temperature=0.5, copies=0)
