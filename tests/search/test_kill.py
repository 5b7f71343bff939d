"""A build that is killed leaves no index, the old one or the new one, and the next build resumes it."""

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
from sentemb.search import encoded as shards
from tests import processes
from tests.search.bag_of_words import BagOfWords
from tests.waiting import stay, wait_for


class Slow(BagOfWords):
    """An encoder that stops for good once so many texts are encoded."""

    def __init__(self, stop: int) -> None:
        super().__init__()
        self.stop = stop

    def encode(self, texts: list[str], *, progress: bool = False) -> object:
        if len(self.encoded) == self.stop:
            stay()
        time.sleep(0.01)  # so that there is something to kill
        return super().encode(texts)


def build(output: Path, version: str, stop: int, encoded: Any) -> None:
    shards.SHARD_TEXTS = 25
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


def kill_builds(folder: Path, times: int, *, seed: int) -> None:
    rng = random.Random(seed)
    output = folder / "index"
    processes.warm_up(folder / "log")
    started = time.perf_counter()
    process, _ = start(folder / "timing", "v0")
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
    assert process.exitcode == 0 and state(output) == "last"
    assert len([path for path in output.iterdir() if not path.name.endswith(("-wal", "-shm"))]) == 3


def test_killed_at_random_moments(tmp_path: Path) -> None:
    kill_builds(tmp_path, 8, seed=1)


@pytest.mark.slow
def test_killed_at_fifty_random_moments(tmp_path: Path) -> None:
    kill_builds(tmp_path, 50, seed=2)


def test_the_next_build_resumes(tmp_path: Path) -> None:
    output, work = tmp_path / "index", tmp_path / "index.work"
    process, _ = start(output, "v1", stop=125)
    wait_for(lambda: len(list(work.glob("shard-*.arrow"))) == 5, alive=process.is_alive)
    process.kill()
    process.join()
    assert state(output) == "none"
    process, encoded = start(output, "v1")
    process.join()
    assert encoded.value == 500 - 125
    assert state(output) == "v1"
