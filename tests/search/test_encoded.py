from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.building import encode_to_shards
from sentemb.search.documents import encode_unique
from sentemb.search.vectors import Rows
from tests.search.bag_of_words import BagOfWords

TEXTS = [f"w{number}" for number in range(45)]


def encode(folder: Path, texts: list[str], encoder: BagOfWords, stages: list[str] | None = None) -> Rows:
    def note(stage: str, done: int, total: int) -> None:
        if stages is not None:
            stages.append(f"{stage} {done}/{total}")

    parts = (texts[start : start + 10] for start in range(0, len(texts), 10))
    return encode_to_shards(parts, len(texts), encoder, "cosine", folder, note)


def test_vectors_are_the_encoder_s_in_any_order_and_equal_texts_are_encoded_once(
    tmp_path: Path, words: BagOfWords
) -> None:
    rows = encode(tmp_path, TEXTS, words)
    assert np.array_equal(rows(np.arange(45)), normalised(words.encode(TEXTS)))
    assert np.array_equal(rows(np.array([44, 3, 17, 3])), rows(np.arange(45))[[44, 3, 17, 3]])
    words.encoded.clear()
    index = SearchIndex.build(["a", "b"] * 30, words)
    assert words.encoded == ["a", "b"] and index.manifest.vectors == 60
    assert np.array_equal(encode_unique(words, ["b", "a", "b"]), words.encode(["b", "a", "b"]))


def test_an_interrupted_encode_continues_after_its_last_shard(tmp_path: Path, words: BagOfWords) -> None:
    class Dies(BagOfWords):
        def encode(self, given, *, progress=False):  # type: ignore[no-untyped-def]
            if "w30" in given:
                raise KeyboardInterrupt
            return super().encode(given)

    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path, TEXTS, Dies())
    stages: list[str] = []
    rows = encode(tmp_path, TEXTS, words, stages)
    assert words.encoded == TEXTS[30:]
    assert stages == ["resume 10/45", "resume 20/45", "resume 30/45", "encode 40/45", "encode 45/45"]
    assert np.array_equal(rows(np.arange(45)), normalised(BagOfWords().encode(TEXTS)))


def test_shards_of_another_encoder_or_text_are_not_used(tmp_path: Path, words: BagOfWords) -> None:
    encode(tmp_path, TEXTS[:10], BagOfWords(fingerprint="another"))
    encode(tmp_path, [*TEXTS[:9], "w99"], BagOfWords())
    encode(tmp_path, TEXTS[:10], words)
    assert words.encoded == TEXTS[:10]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros((2, 5)), r"shape \(2, 5\) for 2 texts"),
        (np.zeros((1, 32)), r"shape \(1, 32\)"),
        (np.full((2, 32), np.nan), "NaN or infinity"),
    ],
)
def test_an_encoder_that_breaks_its_promise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: BagOfWords, result: np.ndarray, message: str
) -> None:
    monkeypatch.setattr(words, "encode", lambda texts: result)
    with pytest.raises(InputError, match=message):
        encode(tmp_path, ["a", "b"], words)
    assert not list(tmp_path.glob("shard-*"))
