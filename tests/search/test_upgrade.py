"""Another encoder for an index: documents encoded again, or queries mapped to their vectors."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sentemb.errors import InputError
from sentemb.search import SearchIndex, shards
from sentemb.search.adapter import learn
from sentemb.search.encoders import AdaptedEncoder
from sentemb.search.manifest import Manifest
from sentemb.search.recall import share_found
from sentemb.search.vectors import normalised
from tests import processes
from tests.search.bag_of_words import BagOfWords, clustered
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
    assert index.manifest.kind == kind and index.manifest.asked and index.manifest.dimension == 40
    assert index.manifest.encoder.fingerprint == "turned" and index.manifest.adapter is None
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


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_queries_are_mapped_to_the_vectors_that_are_there(
    tmp_path: Path, corpus: list[str], metric: Any
) -> None:
    folder = tmp_path / "index"
    SearchIndex.build(corpus, BagOfWords(), metric=metric).save(folder)
    old = SearchIndex.load(folder, BagOfWords())
    before = Manifest.read(folder)
    index = SearchIndex.upgrade(folder, Turned(stretch=0), adapter=True, sample=900)
    facts = index.manifest.adapter
    assert facts is not None and (facts.dimension, facts.sample, facts.corpus) == (40, 900, 180)
    assert (facts.recall_new, facts.recall_old, facts.unadapted) == (1, 1, 1)
    assert facts.documents == before.encoder and facts.method == "procrustes"
    assert index.manifest.files["vectors"] == before.files["vectors"]
    assert index.manifest.calibration == before.calibration
    for hit, other in zip(index.search("w1 w2", 20), old.search("w1 w2", 20), strict=True):
        assert hit.id == other.id and hit.score == pytest.approx(other.score, rel=1e-4)
    with pytest.raises(InputError, match="built with bag-of-words"):
        SearchIndex.load(folder, BagOfWords())


def test_mapped_queries_survive_changes_and_move_along(folder: Path, tmp_path: Path) -> None:
    index = SearchIndex.upgrade(folder, Turned(), adapter=True)
    plain = index.search("w7 w8", 5)
    vectors = Turned().encode(["w7 w8"])
    assert index.search(["w7 w8"], 5, vectors=vectors) == [plain]
    with pytest.raises(InputError, match="the index has 40 dimensions"):
        index.search(["w7 w8"], 5, vectors=vectors[:, :32])
    index.delete([plain[0].id])
    index.add([("vector", "w7 w8 w9")], vectors=BagOfWords().encode(["w7 w8 w9"]))
    assert index.search("w7 w8", 5)[0].id == "vector"
    index.compact()
    index.save(tmp_path / "copy")
    for place in (folder, tmp_path / "copy"):
        opened = SearchIndex.load(place, Turned())
        assert opened.search("w7 w8", 5) == index.search("w7 w8", 5)
        assert names(opened, "w7 w8", 5)[1:] == [hit.id for hit in plain[1:]]
        assert len(list(place.glob("adapter-*.npy"))) == 1


def test_documents_that_are_added_get_vectors_of_the_old_encoder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = SearchIndex.upgrade(folder, Turned(), adapter=True)
    with pytest.raises(
        InputError, match=r"the location of the encoder bag-of-words of .* is not known.*without --adapter"
    ):
        index.add([("new", "w7 w8")])
    assert index.get(["new"]) == [None]
    encoder = index._encoder
    assert isinstance(encoder, AdaptedEncoder)
    encoder.documents = BagOfWords()  # as if it had been loaded
    index.add([("new", "w7 w8")])
    stored = index._current().vectors_of(["w7 w8"])
    assert stored == pytest.approx(normalised(BagOfWords().encode(["w7 w8"])), abs=1e-6)


def test_the_same_encoder_changes_nothing_and_the_old_one_takes_the_map_away(folder: Path) -> None:
    content = (folder / "manifest.json").read_bytes()
    for adapter in (True, False):
        words = BagOfWords()
        SearchIndex.upgrade(folder, words, adapter=adapter)
        assert (folder / "manifest.json").read_bytes() == content and not words.encoded
    SearchIndex.upgrade(folder, Turned(), adapter=True)
    adapted = (folder / "manifest.json").read_bytes()
    new = Turned()
    SearchIndex.upgrade(folder, new, adapter=True)
    assert (folder / "manifest.json").read_bytes() == adapted and not new.encoded
    index = SearchIndex.upgrade(folder, BagOfWords())
    assert index.manifest.adapter is None and not list(folder.glob("adapter-*"))
    assert index.search("w1", 5)[0].score == pytest.approx(index.search("w1", 5)[0].score)
    SearchIndex.upgrade(folder, Turned(), adapter=True)
    index = SearchIndex.upgrade(folder, Turned())
    assert index.manifest.adapter is None and index.manifest.dimension == 40


def test_readers_with_the_old_encoder_go_on_when_queries_are_mapped(folder: Path) -> None:
    reader = SearchIndex.load(folder, BagOfWords())
    before = reader.search("w1 w2", 5)
    index = SearchIndex.upgrade(folder, Turned(), adapter=True)
    index.delete([before[0].id])
    assert reader.search("w1 w2", 4) == before[1:]
    reader.add([("new", "w1 w2")])
    assert names(index, "w1 w2", 1) == ["new"]


def test_a_map_of_a_changed_index_is_learned_from_what_is_alive(folder: Path, corpus: list[str]) -> None:
    index = SearchIndex.load(folder, BagOfWords())
    index.delete([f"t{n}" for n in range(0, 900)])
    index.add([(f"n{n}", f"w{n} w{n + 1}") for n in range(200)])
    turned = Turned()
    upgraded = SearchIndex.upgrade(folder, turned, adapter=True)
    assert sorted(turned.encoded) == sorted([*corpus[900:], *(f"w{n} w{n + 1}" for n in range(200))])
    assert len(upgraded) == 800 and upgraded.manifest.adapter.sample == 800  # type: ignore[union-attr]
    assert "n7" in names(upgraded, "w7 w8", 3)
    assert upgraded.manifest.living is not None


@pytest.mark.parametrize(
    ("texts", "kind", "options", "message"),
    [
        (300, "flat", {}, "needs at least 500 texts, but .* has 300; run the command without --adapter"),
        (600, "flat", {"sample": 499}, "a sample of 499 texts is too small; choose at least 500"),
        (1_500, "ivfpq", {}, "does not store enough of the vectors to learn an adapter"),
    ],
)
def test_what_no_map_can_be_learned_from_is_refused(
    tmp_path: Path,
    corpus: list[str],
    texts: int,
    kind: Any,
    options: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        if kind == "ivfpq":  # as earlier versions made it for a small budget
            patched.setattr("sentemb.search.plan._variants", lambda *_: ["IVF16,PQ32x4fs"])
        index = SearchIndex.build(corpus[:texts], BagOfWords(64), kind=kind, memory_budget=10**6)
        index.save(tmp_path / "index")
    before = sorted(path.name for path in (tmp_path / "index").iterdir())
    with pytest.raises(InputError, match=message):
        SearchIndex.upgrade(tmp_path / "index", Turned(), adapter=True, **options)
    left = [path.name for path in (tmp_path / "index").iterdir() if path.name != ".lock"]
    assert sorted(left) == before
    assert SearchIndex.upgrade(tmp_path / "index", Turned()).manifest.dimension == 40


def test_a_damaged_map_is_noticed(folder: Path) -> None:
    SearchIndex.upgrade(folder, Turned(), adapter=True)
    (file,) = folder.glob("adapter-*.npy")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="does not match its checksum"):
        SearchIndex.load(folder, Turned())
    file.write_bytes(content[:-4])
    with pytest.raises(InputError, match="bytes instead of"):
        SearchIndex.load(folder, Turned(), verify=False)


@pytest.mark.parametrize(("stretch", "least"), [(0.0, 0.9), (0.6, 0.55)])
def test_what_a_map_costs_is_what_it_costs_on_other_texts(stretch: float, least: float) -> None:
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((24, 24)))[0] * rng.uniform(1 - stretch, 1 + stretch, 24)

    def pair(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        old = normalised(clustered(count, 24, clusters=200, seed=seed))
        noise = 0.01 * rng.standard_normal(old.shape)
        return normalised(((old + noise) @ turn).astype(np.float32)), old

    new, old = pair(2_000, 0)
    learned = learn(new, old)
    assert (learned.queries, learned.corpus) == (200, 400) and learned.recall_new > least
    fresh_new, fresh_old = pair(400, 9)
    nearest = [
        np.argsort(-scores, axis=1)[:, 1:11]
        for scores in (
            fresh_new @ fresh_new.T,
            learned.adapter(fresh_new) @ fresh_old.T,
            fresh_old @ fresh_old.T,
        )
    ]
    shared = [share_found(found, exact) for found, exact in zip(nearest[1:], (nearest[0],) * 2, strict=True)]
    assert shared == pytest.approx([learned.recall_new, learned.unadapted], abs=0.04)


def test_the_number_of_threads_does_not_change_a_map() -> None:
    old = normalised(clustered(2_000, 64))
    new = normalised(old[:, ::-1] ** 2)
    seen = set()
    for threads in (1, 2, 7):
        with threadpool_limits(threads, user_api="blas"):
            learned = learn(new, old)
        seen.add((learned.adapter.matrix.tobytes(), *learned[1:]))
    assert len(seen) == 1


def test_an_encoder_that_tells_nothing_apart_gets_a_map_that_finds_nothing() -> None:
    old = normalised(clustered(1_000, 24))
    learned = learn(np.ones((1_000, 8), dtype=np.float32), old)
    assert learned.recall_old < 0.2 and np.isfinite(learned.adapter(np.ones((1, 8), dtype=np.float32))).all()


def test_mapping_one_vector_or_many_gives_the_same_bits() -> None:
    old = normalised(clustered(600, 24))
    adapter = learn(old[:, ::-1].copy(), old).adapter
    together = adapter(old)
    assert all((adapter(old[row : row + 1])[0] == together[row]).all() for row in range(0, 600, 37))


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


def begin(folder: Path, adapter: bool, encoded: Any, stop: int = -1) -> None:
    shards.SHARD_TEXTS = 50
    encoder = Slow(stop)
    SearchIndex.upgrade(folder, encoder, adapter=adapter, work_dir=folder.with_suffix(".work"))
    encoded.value = len(encoder.encoded)


@pytest.mark.parametrize("adapter", [False, True])
def test_killed_at_random_moments_the_index_is_the_old_or_the_new(folder: Path, adapter: bool) -> None:
    rng = random.Random(6)
    log = folder.with_suffix(".log")
    processes.warm_up(log)
    expected = names(SearchIndex.load(folder, BagOfWords()), "w1 w2", 1_500)
    shutil.copytree(folder, folder.parent / "timing")
    started, encoded = time.perf_counter(), processes.number()
    processes.start(begin, folder.parent / "timing", adapter, encoded, log=log).join()
    seconds = time.perf_counter() - started
    for _ in range(6):
        process = processes.start(begin, folder, adapter, encoded, log=log)
        process.join(rng.uniform(0, seconds))
        process.kill()
        process.join()
        new = Manifest.read(folder).encoder.fingerprint == "turned"
        index = SearchIndex.load(folder, Turned() if new else BagOfWords())
        assert new or names(index, "w1 w2", 1_500) == expected
        assert {*names(index, "w1 w2", 1_500)} == {*expected}
        if new:
            break
    process = processes.start(begin, folder, adapter, encoded, log=log)
    process.join()
    assert process.exitcode == 0
    index = SearchIndex.load(folder, Turned())
    assert (index.manifest.adapter is not None) == adapter and len(index) == 1_500
    assert len([path for path in folder.iterdir() if path.name != ".lock"]) == 3 + adapter


def test_an_upgrade_resumes(folder: Path) -> None:
    work = folder.with_suffix(".work")
    encoded = processes.number()
    process = processes.start(begin, folder, False, encoded, 250, log=folder.with_suffix(".log"))
    wait_for(lambda: len(list(work.glob("shard-*.npy"))) == 5, alive=process.is_alive)
    process.kill()
    process.join()
    processes.start(begin, folder, False, encoded, log=folder.with_suffix(".log")).join()
    assert encoded.value == 1_500 - 250
