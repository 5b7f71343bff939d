from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.encoded import EncodedTexts, encode_to_shards, encode_unique
from tests.search.bag_of_words import BagOfWords


def encode(
    folder: Path, texts: list[str], encoder: BagOfWords, stages: list[str] | None = None
) -> EncodedTexts:
    parts = (texts[start : start + 10] for start in range(0, len(texts), 10))
    return encode_to_shards(
        parts,
        len(texts),
        encoder,
        folder,
        lambda stage, done, total: None if stages is None else stages.append(f"{stage} {done}/{total}"),
    )


def test_vectors_are_the_encoder_s_in_order(tmp_path: Path, words: BagOfWords) -> None:
    texts = [f"w{number}" for number in range(25)]
    encoded = encode(tmp_path, texts, words)
    assert len(encoded) == 25
    assert np.array_equal(encoded.rows(np.arange(25)), words.encode(texts))
    assert np.array_equal(encoded.rows(np.array([24, 3, 17, 3])), words.encode(["w24", "w3", "w17", "w3"]))


def test_equal_texts_are_encoded_once(words: BagOfWords) -> None:
    index = SearchIndex.build(["a", "b"] * 30, words)
    assert words.encoded == ["a", "b"] and index.manifest.vectors == 60
    assert np.array_equal(encode_unique(words, ["b", "a", "b"]), words.encode(["b", "a", "b"]))


def test_an_interrupted_encode_continues_after_its_last_shard(tmp_path: Path, words: BagOfWords) -> None:
    texts = [f"w{number}" for number in range(45)]

    class Dies(BagOfWords):
        def encode(self, given, *, progress=False):  # type: ignore[no-untyped-def]
            if "w30" in given:
                raise KeyboardInterrupt
            return super().encode(given)

    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path, texts, Dies())
    stages: list[str] = []
    encoded = encode(tmp_path, texts, words, stages)
    assert words.encoded == texts[30:]
    assert stages == ["resume 10/45", "resume 20/45", "resume 30/45", "encode 40/45", "encode 45/45"]
    assert np.array_equal(encoded.rows(np.arange(45)), BagOfWords().encode(texts))


def test_shards_of_another_encoder_or_text_are_not_used(tmp_path: Path, words: BagOfWords) -> None:
    texts = [f"w{number}" for number in range(10)]
    encode(tmp_path, texts, BagOfWords(fingerprint="another"))
    encode(tmp_path, [*texts[:9], "w99"], BagOfWords())
    encode(tmp_path, texts, words)
    assert words.encoded == texts


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
