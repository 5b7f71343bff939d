"""Another encoder for an index: its documents are encoded again."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search import documents as sizes
from sentemb.search.folder import read_manifest
from tests import processes
from tests.search.bag_of_words import BagOfWords
from tests.waiting import stay, wait_for


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


class Slow(Turned):
    """Takes its time, so that there is something to kill, and stops once so many texts are encoded."""

    def __init__(self, stop: int) -> None:
        super().__init__()
        self.stop = stop

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        if len(self.encoded) == self.stop:
            stay()
        time.sleep(0.01)
        return super().encode(texts)


def begin(folder: Path, encoded: Any, stop: int = -1) -> None:
    sizes.SHARD_TEXTS = 50
    encoder = Slow(stop)
    SearchIndex.upgrade(folder, encoder, work_dir=folder.with_suffix(".work"))
    encoded.value = len(encoder.encoded)


def test_killed_at_random_moments_the_index_is_the_old_or_the_new(folder: Path) -> None:
    rng = random.Random(6)
    log = folder.with_suffix(".log")
    processes.warm_up(log)
    expected = names(SearchIndex.load(folder, BagOfWords()), "w1 w2", 1_500)
    shutil.copytree(folder, folder.parent / "timing")
    started, encoded = time.perf_counter(), processes.number()
    processes.start(begin, folder.parent / "timing", encoded, log=log).join()
    seconds = time.perf_counter() - started
    for _ in range(6):
        process = processes.start(begin, folder, encoded, log=log)
        process.join(rng.uniform(0, seconds))
        process.kill()
        process.join()
        new = read_manifest(folder).encoder.fingerprint == "turned"
        index = SearchIndex.load(folder, Turned() if new else BagOfWords())
        assert new or names(index, "w1 w2", 1_500) == expected
        assert {*names(index, "w1 w2", 1_500)} == {*expected}
        if new:
            break
    process = processes.start(begin, folder, encoded, log=log)
    process.join()
    assert process.exitcode == 0
    index = SearchIndex.load(folder, Turned())
    assert len(index) == 1_500
    left = [path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm", ".lock"))]
    assert len(left) == 3


def test_an_upgrade_resumes(folder: Path) -> None:
    work = folder.with_suffix(".work")
    encoded = processes.number()
    process = processes.start(begin, folder, encoded, 250, log=folder.with_suffix(".log"))
    wait_for(lambda: len(list(work.glob("shard-*.arrow"))) == 5, alive=process.is_alive)
    process.kill()
    process.join()
    processes.start(begin, folder, encoded, log=folder.with_suffix(".log")).join()
    assert encoded.value == 1_500 - 250
