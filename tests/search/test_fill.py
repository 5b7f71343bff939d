"""LanceDB filled from what `sentemb encode` wrote: the same index as a folder, or none at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.stored import index_shards
from tests import processes
from tests.search.bag_of_words import BagOfWords
from tests.search.shard_folders import TEXTS, shards
from tests.waiting import stay, wait_for

pytest.importorskip("lancedb", reason="lancedb is not installed")

from sentemb.search import fill as module
from sentemb.search.fill import fill_lancedb
from sentemb.search.lancedb_table import LanceTable
from sentemb.search.source import EncoderSource


@pytest.fixture(autouse=True)
def _source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EncoderSource, "load", lambda self: BagOfWords(fingerprint=self.model))


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"lancedb:{tmp_path / 'lance'}"


def test_it_is_the_index_that_a_folder_would_be(tmp_path: Path, address: str) -> None:
    texts = [*TEXTS, *(f"text {n} of {n % 7}" for n in range(60))]
    given = shards(tmp_path / "vectors", texts, size=16)
    manifest = fill_lancedb(given, address)
    index_shards(given).save(tmp_path / "index")
    encoder = BagOfWords()
    ours, local = SearchIndex.open(address, encoder), SearchIndex.load(tmp_path / "index", encoder)
    assert manifest.documents == manifest.vectors == len(given) == 67
    assert ours.documents() == local.documents()
    ids = [one.id for one in local.documents()]
    assert np.array_equal(ours.vectors(ids), local.vectors(ids))
    assert ours.manifest.language == local.manifest.language == "en"
    assert ours.manifest.truncate == local.manifest.truncate
    assert (ours.manifest.calibration is None) == (local.manifest.calibration is None)
    for where in (None, {"n": {"<": 5}}):
        hits = [
            [hit.id for hit in index.search("dogs", 3, mode="keyword", where=where)]
            for index in (ours, local)
        ]
        assert hits[0] == hits[1] != []
        for mode in ("dense", "hybrid"):
            assert [index.search("cat", 1, mode=mode, where=where)[0].text for index in (ours, local)] == [
                "a cat"
            ] * 2
    ours.add([("new", "zebra")])
    assert ours.delete([0]) == 1
    assert [hit.id for hit in ours.search("zebra", 1)] == ["new"]


def test_processes_write_the_same(tmp_path: Path, address: str) -> None:
    given = shards(tmp_path / "vectors", size=2)
    assert fill_lancedb(given, address, workers=2).documents == len(TEXTS)
    assert [one.text for one in SearchIndex.open(address, BagOfWords()).documents()] == TEXTS


def test_what_ends_early_goes_on(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = shards(tmp_path / "vectors")
    plain = module.fill
    told: list[tuple[str, int, int]] = []

    seen: list[Any] = []

    def dies(place: str, facts: Any, batches: Iterator[Any]) -> None:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(facts)
        plain(place, facts, batches)

    with monkeypatch.context() as patch:
        patch.setattr(module, "fill", dies)
        with pytest.raises(KeyboardInterrupt):
            fill_lancedb(given, address)
    with pytest.raises(InputError, match=r"is not complete; run the command"):
        SearchIndex.open(address, BagOfWords())
    with pytest.raises(InputError, match="contains an incomplete index of other data"):
        fill_lancedb(given, address, metric="dot")
    # A worker that outlived its parent has written a shard of before once more.
    module._ShardFiller(given.path, address, seen[0])((0, 0))
    fill_lancedb(given, address, progress=lambda *stage: told.append(stage))
    assert ("resume", 3, 7) in told
    assert [one.text for one in SearchIndex.open(address, BagOfWords()).documents()] == TEXTS
    with pytest.raises(InputError, match="already contains an index"):
        fill_lancedb(given, address)


def fill_in_a_process(folder: Path, address: str) -> None:
    """Fill until a kill, in the middle of the fourth shard."""
    EncoderSource.load = lambda self: BagOfWords(fingerprint=self.model)  # type: ignore[method-assign]
    plain, number = module.fill, itertools.count()

    def stays(place: str, facts: Any, batches: Iterator[Any]) -> None:
        if next(number) == 3:
            batches = (stay() for _ in batches)
        plain(place, facts, batches)

    module.fill = stays
    fill_lancedb(ShardFolder(folder), address)


def test_a_fill_that_is_killed_is_no_index(tmp_path: Path, address: str) -> None:
    texts = [f"text {n} of {n % 7}" for n in range(300)]
    given = shards(tmp_path / "vectors", texts, size=10)
    lance = tmp_path / "lance"
    process = processes.start(fill_in_a_process, given.path, address, log=tmp_path / "log")
    wait_for(lambda: len(list(lance.glob("sentemb.lance/data/*"))) >= 3, alive=process.is_alive)
    process.kill()
    process.join()
    with pytest.raises(InputError, match="is not complete"):
        LanceTable(address)
    assert fill_lancedb(given, address).documents == 300
    assert [one.text for one in SearchIndex.open(address, BagOfWords()).documents()] == texts


def _damaged(folder: Path) -> ShardFolder:
    given = shards(folder)
    with given.files[1].open("r+b") as file:
        file.seek(200)
        file.write(b"\xff\xff")
    return given


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: shards(folder, ids=[1, 2, 3, "1", 5, 2, 7]), "the id 2 occurs twice"),
        (_damaged, "is missing or does not match its checksum"),
        (shards, "was encoded with bag-of-words"),
    ],
)
def test_what_is_refused_leaves_nothing(
    tmp_path: Path, address: str, spoil: Callable[[Path], ShardFolder], message: str
) -> None:
    given = spoil(tmp_path / "vectors")
    with pytest.raises(InputError, match=message):
        fill_lancedb(given, address, "other" if "encoded" in message else None)
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]
