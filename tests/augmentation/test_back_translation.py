from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sentemb.augmentation import Decoding, Seq2SeqTranslator, back_translate, count_back_translations
from sentemb.augmentation.back_translation import open_store, store_path
from sentemb.errors import InputError
from tests.waiting import wait_for

SAMPLED = Decoding(temperature=0.9, max_new_tokens=6)


class Words:
    """Translates word by word, keeps what it was asked, and may stop on the way."""

    def __init__(self, name: str, words: dict[str, str] | None = None, *, stop_after: int = 10**9) -> None:
        self.name = name
        self.fingerprint = f"words {name}"
        self.asked: list[list[str]] = []
        self._words = words or {}
        self._left = stop_after

    def __call__(self, texts, *, draw=0):
        if self._left < 1:
            raise KeyboardInterrupt
        self._left -= 1
        self.asked.append(list(texts))
        return [" ".join(self._words.get(word, word) for word in text.split()) for text in texts]

    def describe(self):
        return {"name": self.name}


def test_every_unique_text_is_translated_once() -> None:
    there, back = Words("there", {"cat": "katze", "dog": "katze"}), Words("back", {"katze": "cat"})
    texts = ["a cat", "", "a dog", "a cat", "  ", "a cat"]
    assert back_translate(texts, there, back) == ["a cat", "", "a cat", "a cat", "", "a cat"]
    assert there.asked == [["a cat", "a dog"]]
    assert back.asked == [["a katze"]]


def test_what_came_of_the_texts_is_counted() -> None:
    there, back = Words("there", {"dog": ""}), Words("back", {"red": "blue"})
    texts = ["a  cat", "dog", "dog", " ", "red"]
    translations = back_translate(texts, there, back)
    assert translations == ["a cat", "", "", "", "blue"]
    counts = count_back_translations(texts, translations)
    assert counts == (5, 4, 1, 2, 1)
    assert (
        str(counts) == "5 texts, 4 unique; unchanged by translation: 1; empty translations: 2; blank texts: 1"
    )


def test_nothing_is_translated_again(tmp_path: Path) -> None:
    texts = ["a cat", "two birds", "a dog"]
    first = back_translate(texts, Words("there"), Words("back"), cache=tmp_path, batch_size=2)
    there, back = Words("there"), Words("back")
    assert back_translate([*texts, "a park"], there, back, cache=tmp_path) == [*first, "a park"]
    assert there.asked == back.asked == [["a park"]]


def test_another_draw_and_another_setting_are_translated_anew(tmp_path: Path) -> None:
    back_translate(["a cat"], Words("there"), Words("back"), cache=tmp_path)
    for there, draw in ((Words("there"), 1), (Words("elsewhere"), 0)):
        back_translate(["a cat"], there, Words("back"), cache=tmp_path, draw=draw)
        assert there.asked == [["a cat"]]
    assert len(list(tmp_path.glob("*.sqlite"))) == 3


@pytest.mark.parametrize("stop_after", range(4))
def test_an_interrupted_call_goes_on_where_it_stopped(tmp_path: Path, stop_after: int) -> None:
    texts = [f"cat {number}" for number in range(10)]
    with pytest.raises(KeyboardInterrupt):
        back_translate(
            texts, Words("there", stop_after=stop_after), Words("back"), cache=tmp_path, batch_size=3
        )
    there = Words("there")
    assert back_translate(texts, there, Words("back"), cache=tmp_path, batch_size=3) == texts
    assert len(there.asked) == 4 - stop_after


def test_samples_of_an_interrupted_call_are_those_of_an_uninterrupted_one(
    tiny_t5: Path, tiny_marian: Path, texts, tmp_path: Path
) -> None:
    there, back = (Seq2SeqTranslator(folder, decoding=SAMPLED) for folder in (tiny_t5, tiny_marian))
    some = texts(30)
    whole = back_translate(some, there, back, cache=tmp_path / "whole", batch_size=4)
    assert back_translate(some, there, back, batch_size=4) == whole

    class Stopping:
        name, fingerprint, describe = back.name, back.fingerprint, back.describe
        left = 3

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


def rows_of(path: Path) -> list[tuple[int, str, str]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT * FROM translations").fetchall()


def test_a_killed_process_leaves_a_cache_that_goes_on(tmp_path: Path) -> None:
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
    wait_for(
        lambda: path.exists() and path.stat().st_size and len(rows_of(path)) > 8,
        alive=lambda: process.poll() is None,
    )
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(rows_of(path)) // 2
    there = Words("there")
    texts = [f"cat {number}" for number in range(400)]
    assert back_translate(texts, there, Words("back"), cache=tmp_path, batch_size=2) == texts
    assert 0 < len(there.asked) <= 200 - kept + 1


@pytest.mark.parametrize("damage", [lambda content: b"cat" * 4000, lambda content: content[:5000]])
def test_a_damaged_cache_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    texts = [f"cat {number}" for number in range(400)]
    there = Words("there")
    back_translate(texts, there, Words("back"), cache=tmp_path)
    path = store_path(tmp_path, there)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"cannot be used: .*delete the file; its texts are then") as caught:
        back_translate(texts, there, Words("back"), cache=tmp_path)
    assert str(path) in str(caught.value)


def test_a_cache_of_another_translator_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path, Words("there")):
        pass
    store_path(tmp_path, Words("there")).rename(store_path(tmp_path, Words("elsewhere")))
    with pytest.raises(InputError, match="does not contain translations by elsewhere"):
        back_translate(["cat"], Words("elsewhere"), Words("back"), cache=tmp_path)


def test_a_cache_describes_its_translator_and_is_held(tiny_t5: Path, tmp_path: Path) -> None:
    translator = Seq2SeqTranslator(tiny_t5, decoding=SAMPLED)
    path = store_path(tmp_path, translator)
    with open_store(tmp_path, translator) as store:
        store.execute("INSERT INTO translations VALUES (2, 'ä cat', 'eine Katze')")
        store.commit()
        with (
            pytest.raises(InputError, match="another process is translating"),
            open_store(tmp_path, translator),
        ):
            pass
    with closing(sqlite3.connect(path)) as database:
        ((fingerprint, described),) = database.execute("SELECT * FROM manifest")
    assert fingerprint == translator.fingerprint
    assert json.loads(described)["decoding"] == {"temperature": 0.9, "seed": 0, "max_new_tokens": 6}
    assert rows_of(path) == [(2, "ä cat", "eine Katze")]


def test_progress_and_a_translator_that_does_not_answer(tmp_path: Path) -> None:
    seen = []
    back_translate(
        ["a", "b", "c"], Words("there"), Words("back"), batch_size=2, progress=lambda *step: seen.append(step)
    )
    assert seen == [("there", 2, 3), ("there", 3, 3), ("back", 2, 3), ("back", 3, 3)]

    class Silent(Words):
        def __call__(self, texts, *, draw=0):
            return []

    with pytest.raises(InputError, match="silent did not return one translation per text"):
        back_translate(["a"], Silent("silent"), Words("back"), cache=tmp_path)
    with pytest.raises(InputError, match="batch_size is 0"):
        back_translate(["a"], Words("there"), Words("back"), batch_size=0)
