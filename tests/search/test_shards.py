from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import shards
from sentemb.search.documents import as_documents
from sentemb.search.prepared import Prepared
from sentemb.search.shards import EncodedTexts, encode_texts
from sentemb.search.store import DocumentStore, write_store
from tests.search.bag_of_words import BagOfWords


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_TEXTS", 10)


def encode(
    folder: Path, texts: list[str], encoder: BagOfWords, stages: list[str] | None = None
) -> EncodedTexts:
    path = folder / "documents.sqlite"
    count = write_store(path, map(Prepared, as_documents(texts))).texts
    return encode_texts(
        DocumentStore(path),
        count,
        encoder,
        folder,
        fingerprint=encoder.fingerprint,
        metric="dot",
        progress=lambda stage, done, total: (
            None if stages is None else stages.append(f"{stage} {done}/{total}")
        ),
    )


def test_vectors_are_the_encoder_s_in_order(tmp_path: Path, words: BagOfWords) -> None:
    texts = [f"w{number}" for number in range(25)]
    encoded = encode(tmp_path, texts, words)
    numbers, vectors = zip(*encoded, strict=True)
    assert np.concatenate(numbers).tolist() == list(range(25))
    assert np.array_equal(np.concatenate(vectors), words.encode(texts))
    assert np.array_equal(encoded.rows(np.array([3, 17, 24])), words.encode(["w3", "w17", "w24"]))


def test_equal_texts_are_encoded_once(tmp_path: Path, words: BagOfWords) -> None:
    encode(tmp_path, ["a", "b"] * 30, words)
    assert words.encoded == ["a", "b"]


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


def test_vectors_of_half_precision_take_half_the_bytes(tmp_path: Path) -> None:
    class Short(BagOfWords):
        def encode(self, texts, *, progress=False):  # type: ignore[no-untyped-def]
            return super().encode(texts).astype(np.float16).astype(np.float32)

    texts = [f"w{number}" for number in range(10)]
    for name, encoder, each in (("long", BagOfWords(), 4), ("short", Short(), 2)):
        (tmp_path / name).mkdir()
        encoded = encode(tmp_path / name, texts, encoder)
        assert np.load(encoded.paths[0]).nbytes == each * 10 * encoder.dimension
        assert np.array_equal(encoded.rows(np.arange(10)), encoder.encode(texts))
        ((_, vectors),) = encoded
        assert vectors.dtype == np.float32
