"""A build or a change that is killed has happened or not, and the next build resumes."""

from __future__ import annotations

import itertools
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search import documents as sizes
from tests import processes
from tests.search.bag_of_words import BagOfWords, FewWords
from tests.search.forks import Forks
from tests.search.living_model import Model
from tests.waiting import stay, wait_for

DOCUMENTS = 1500


class Slow(BagOfWords):
    """Encoder that blocks forever after a number of texts."""

    def __init__(self, stop: int) -> None:
        super().__init__()
        self.stop = stop

    def encode(self, texts: list[str], *, progress: bool = False) -> object:
        if len(self.encoded) == self.stop:
            stay()
        time.sleep(0.01)  # so that there is something to kill
        return super().encode(texts)


def build(output: Path, version: str, stop: int, encoded: Any) -> None:
    sizes.SHARD_TEXTS = 25
    encoder = Slow(stop)
    texts = [f"w{n} {version}" for n in range(500)]
    index = SearchIndex.build(texts, encoder, work_dir=output.with_suffix(".work"))
    index.save(output, overwrite=True)
    encoded.value = len(encoder.encoded)


def start(output: Path, version: str, *, stop: int = -1) -> tuple[BaseProcess, Any]:
    """A build, with the number of texts that it has encoded at its end."""
    encoded = processes.number()
    log = output.with_suffix(".log")
    return processes.start(build, output, version, stop, encoded, log=log), encoded


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]


def state(output: Path) -> str:
    """`none` or the version of the index that is there; anything else fails."""
    try:
        index = SearchIndex.load(output, BagOfWords())
    except InputError as error:
        assert "manifest.json is missing" in str(error)
        return "none"
    hits = index.search("w7", 500)
    versions = {hit.text.split()[1] for hit in hits}
    assert len(hits) == 500 and len(versions) == 1
    return versions.pop()


@pytest.mark.parametrize(
    ("times", "seed"), [(8, 1), pytest.param(50, 2, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_a_build_is_killed_at_random_moments(tmp_path: Path, times: int, seed: int) -> None:
    rng = random.Random(seed)
    output = tmp_path / "index"
    processes.warm_up(tmp_path / "log")
    started = time.perf_counter()
    process, _ = start(tmp_path / "timing", "v0")
    process.join()
    duration = time.perf_counter() - started
    before, kills, attempts = "none", 0, itertools.count()
    while kills < times:
        version = f"v{next(attempts) // 2}"
        process, _ = start(output, version)
        process.join(rng.uniform(0, duration))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        after = state(output)
        assert after in {before, version}
        before = after
    process, _ = start(output, "last")
    process.join()
    assert process.exitcode == 0 and state(output) == "last" and len(files(output)) == 3


def test_the_next_build_resumes(tmp_path: Path) -> None:
    output, work = tmp_path / "index", tmp_path / "index.work"
    process, _ = start(output, "v1", stop=125)
    wait_for(lambda: len(list(work.glob("shard-*.arrow"))) == 5, alive=process.is_alive)
    process.kill()
    process.join()
    assert state(output) == "none"
    process, encoded = start(output, "v1")
    process.join()
    assert encoded.value == 500 - 125 and state(output) == "v1"


def rows_of(rng: random.Random, ids: list[int], mark: int) -> list[tuple[int, str, dict[str, Any]]]:
    """Return documents with new and known texts, and metadata that name the change."""
    texts = (f"w{rng.randrange(40)} w{rng.randrange(40)} t{rng.randrange(900)}" for _ in ids)
    return [(key, text, {"kill": mark, "year": 1999}) for key, text in zip(ids, texts, strict=True)]


def change_of(rng: random.Random, how: str, model: Model, mark: int) -> tuple[list[Any], Model]:
    """Return the arguments of a random change, and the state after it."""
    new, known = model.copy(), list(model.documents)
    if how == "delete":
        ids = rng.sample(known, len(known) // 8)
        new.drop(ids)
        return ids, new
    if how == "compact":
        return [], new
    fresh = [10_000 * mark + number for number in range(DOCUMENTS // 4)]
    ids = fresh if how == "add" else rng.sample(known, len(known) // 4) + fresh[: DOCUMENTS // 20]
    rows = rows_of(rng, ids, mark)
    new.put(rows)
    return rows, new


@pytest.mark.parametrize(
    ("times", "seed"), [(4, 1), pytest.param(50, 2, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_changes_are_killed_at_random_moments(tmp_path: Path, times: int, seed: int) -> None:
    """Documents, vectors, words and filters agree."""
    folder, rng, model, forks = tmp_path / "index", random.Random(seed), Model(), Forks()
    first = rows_of(rng, list(range(DOCUMENTS)), 0)
    model.put(first)
    SearchIndex.build(first, FewWords()).save(folder)
    reader = SearchIndex.load(folder, FewWords())
    number = kills = 0
    try:
        while kills < times:
            number += 1
            how = ("add", "update", "delete", "compact")[number % 4]
            what, new = change_of(rng, how, model, number)
            process = forks.begin(how, folder, what)
            time.sleep(rng.uniform(0, rng.choice([0.1, 0.6])))
            kills += forks.end(process)
            index = SearchIndex.load(folder, FewWords())
            model = next(one for one in (new, model) if one.is_that_of(index))
            for which, query in enumerate(("w1 w2", "w7 t5", "w30")):
                model.check(index, query, 20, which)
            model.check(reader, f"w{number % 40} w3", 9, number)
    finally:
        forks.close()
    reader.compact()  # a writer after all of them
    assert len(files(folder)) == 3 and model.is_that_of(SearchIndex.load(folder, FewWords()))
