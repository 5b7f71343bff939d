"""Processes that save one thing while others read it: none is in the way of another.

Each of five does so thirty times, or `SENTEMB_KILLS` times as often.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.encoding.cache import VectorStore
from sentemb.evaluation.record import load_predictions, read_record
from sentemb.search import SearchIndex
from tests import processes
from tests.evaluation.test_record import sts_record, write
from tests.kills.test_kills import STOPS
from tests.search.bag_of_words import BagOfWords

TIMES = 30 * STOPS


def save_index(folder: Path, number: int) -> None:
    SearchIndex.build([f"w{n}" for n in range(number + 2)], BagOfWords()).save(
        folder / "index", overwrite=True
    )


def read_index(folder: Path) -> None:
    index = SearchIndex.load(folder / "index", BagOfWords())
    assert len(index.search("w1", 10)) == len(index) and len(index) in (2, 3, 4)


def save_record(folder: Path, number: int) -> None:
    write(sts_record(count=9000, noise=0.3 + number / 10), folder, overwrite=True)


def read_one_record(folder: Path) -> None:
    (path,) = folder.glob("*.json")
    assert len(load_predictions(read_record(path)).values) == 2


def save_vectors(folder: Path, number: int) -> None:
    words = BagOfWords()
    texts = [f"w{n}" for n in range(20 * number, 20 * number + 30)]
    VectorStore(folder, "words", dimension=words.dimension).put(texts, words.encode(texts))


def read_vectors(folder: Path) -> None:
    words = BagOfWords()
    texts = [f"w{n}" for n in range(70)]
    found = VectorStore(folder, "words", dimension=words.dimension).get(texts)
    assert len(found) >= 30 and all((found[n] == words.encode([texts[n]])[0]).all() for n in found)


def often(work: Callable[..., None], *arguments: object) -> None:
    for _ in range(TIMES):
        work(*arguments)


@pytest.mark.parametrize(
    ("save", "read", "left"),
    [(save_index, read_index, 3), (save_record, read_one_record, 4), (save_vectors, read_vectors, 1)],
)
def test_savers_and_readers_are_not_in_each_others_way(
    save: Callable[[Path, int], None], read: Callable[[Path], None], left: int, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    save(folder, 0)
    crowd = [(save, folder, number) for number in range(3)] + [(read, folder)] * 2
    started = [
        processes.start(often, *work, log=tmp_path / f"{number}.log") for number, work in enumerate(crowd)
    ]
    for number, process in enumerate(started):
        process.join()
        assert process.exitcode == 0, (tmp_path / f"{number}.log").read_text()
    assert len([path for path in folder.rglob("*") if path.is_file()]) == left
    read(folder)
