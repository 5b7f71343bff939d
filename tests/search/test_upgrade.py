"""Another encoder for an index: its documents are encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.folder import read_manifest
from tests.search.bag_of_words import BagOfWords


class Turned(BagOfWords):
    """Bags of words in another space: turned, stretched and with a few dimensions more."""

    def __init__(self, *, stretch: float = 0.2, fingerprint: str = "turned") -> None:
        super().__init__(fingerprint=fingerprint)
        rng = np.random.default_rng(5)
        axes = np.linalg.qr(rng.standard_normal((40, 40)))[0][:32]
        self._turn = (axes * rng.uniform(1 - stretch, 1 + stretch, 40)).astype(np.float32)

    @property
    def dimension(self) -> int:
        return 40

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        return super().encode(texts) @ self._turn  # type: ignore[no-any-return]


@pytest.fixture
def folder(tmp_path: Path, corpus: list[str], words: BagOfWords) -> Path:
    SearchIndex.build([(f"t{n}", text, {"n": n}) for n, text in enumerate(corpus)], words).save(
        tmp_path / "index"
    )
    return tmp_path / "index"


def names(index: SearchIndex, query: str, k: int = 10) -> list[str | int]:
    return [hit.id for hit in index.search(query, k)]


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivfpq"])
def test_documents_are_encoded_again(tmp_path: Path, corpus: list[str], kind: Any) -> None:
    SearchIndex.build(corpus, BagOfWords(), kind=kind).save(tmp_path / "index")
    reader = SearchIndex.load(tmp_path / "index", BagOfWords())
    reader.add([("more", "w1 w1", {"year": 2000})])
    reader.delete([3])
    before = reader.search("w1 w2", 5)
    index = SearchIndex.upgrade(tmp_path / "index", Turned())
    rebuilt = SearchIndex.build(
        [*((n, text) for n, text in enumerate(corpus) if n != 3), ("more", "w1 w1")], Turned(), kind=kind
    )
    assert index.manifest.kind == kind and index.manifest.kind_requested and index.manifest.dimension == 40
    assert index.manifest.encoder.fingerprint == "turned"
    assert index.manifest.calibration == rebuilt.manifest.calibration
    assert index.manifest.recall.at_10 == rebuilt.manifest.recall.at_10
    assert names(index, "w1 w2", 50) == names(rebuilt, "w1 w2", 50)
    assert index.get(["more"])[0].metadata == {"year": 2000}  # type: ignore[union-attr]
    assert reader.search("w1 w2", 5) == before
    with pytest.raises(InputError, match="another index"):
        reader.add(["w5"])
    index.add(["w299 w299 w299"])
    assert names(SearchIndex.load(tmp_path / "index", Turned()), "w299", 1) == [1500]
    with pytest.raises(InputError, match="sentemb index upgrade"):
        SearchIndex.load(tmp_path / "index", BagOfWords())


def test_the_same_encoder_changes_nothing(folder: Path) -> None:
    before = read_manifest(folder)
    words = BagOfWords()
    index = SearchIndex.upgrade(folder, words)
    assert read_manifest(folder) == before and not words.encoded and len(index) == 1_500
