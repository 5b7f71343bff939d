"""A build or an upgrade that is killed has happened or not, and the next one resumes."""

from __future__ import annotations

import itertools
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from sentemb.search import SearchIndex
from sentemb.search import documents as sizes
from sentemb.search.folder import is_index, read_manifest
from tests import processes
from tests.search.bag_of_words import BagOfWords
from tests.waiting import stay, wait_for

TEXTS = [f"w{n} x{n % 7}" for n in range(500)]


class Slow(BagOfWords):
    """Encoder that blocks forever after a number of texts."""

    def __init__(self, version: str, stop: int) -> None:
        super().__init__(fingerprint=version)
        self.stop = stop

    def encode(self, texts: list[str], *, progress: bool = False) -> object:
        if len(self.encoded) == self.stop:
            stay()
        time.sleep(0.01)  # so that there is something to kill
        return super().encode(texts)


def run(how: str, output: Path, version: str, stop: int, encoded: Any) -> None:
    sizes.SHARD_TEXTS = 25
    encoder, work = Slow(version, stop), output.with_suffix(".work")
    if how == "upgrade":
        SearchIndex.upgrade(output, encoder, work_dir=work)
    else:
        SearchIndex.build(TEXTS, encoder, work_dir=work).save(output, overwrite=True)
    encoded.value = len(encoder.encoded)


def start(how: str, output: Path, version: str, *, stop: int = -1) -> tuple[BaseProcess, Any]:
    """A build or an upgrade, with the number of texts that it has encoded at its end."""
    encoded = processes.number()
    log = output.with_suffix(".log")
    return processes.start(run, how, output, version, stop, encoded, log=log), encoded


def files(folder: Path) -> list[str]:
    logs = ("-wal", "-shm", ".lock")
    return [path.name for path in folder.iterdir() if not path.name.endswith(logs)]


def state(output: Path) -> str:
    """`none` or the version of the index that is there; anything else fails."""
    if not output.exists() or not is_index(output):
        return "none"
    version = read_manifest(output).encoder.fingerprint
    hits = SearchIndex.load(output, BagOfWords(fingerprint=version)).search("w7", 500)
    assert [hit.text for hit in sorted(hits, key=lambda hit: hit.id)] == TEXTS
    return version


@pytest.mark.parametrize(
    ("how", "times", "seed"),
    [("build", 6, 1), ("upgrade", 4, 3), pytest.param("build", 50, 2, marks=pytest.mark.slow)],
)
def test_a_build_or_upgrade_is_killed_at_random_moments(
    tmp_path: Path, how: str, times: int, seed: int
) -> None:
    rng = random.Random(seed)
    output, timing = tmp_path / "index", tmp_path / "timing"
    processes.warm_up(tmp_path / "log")
    for folder in (output, timing) if how == "upgrade" else ():
        SearchIndex.build(TEXTS, BagOfWords(fingerprint="old")).save(folder)
    started = time.perf_counter()
    start(how, timing, "v0")[0].join()
    duration = time.perf_counter() - started
    before, kills, attempts = state(output), 0, itertools.count()
    while kills < times:
        version = f"v{next(attempts) // 2}"
        process, _ = start(how, output, version)
        process.join(rng.uniform(0, duration))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        after = state(output)
        assert after in {before, version}
        before = after
    process, _ = start(how, output, "last")
    process.join()
    assert process.exitcode == 0 and state(output) == "last" and len(files(output)) == 3


@pytest.mark.parametrize("how", ["build", "upgrade"])
def test_the_next_one_resumes(tmp_path: Path, how: str) -> None:
    output, work = tmp_path / "index", tmp_path / "index.work"
    if how == "upgrade":
        SearchIndex.build(TEXTS, BagOfWords(fingerprint="old")).save(output)
    before = state(output)
    process, _ = start(how, output, "v1", stop=125)
    wait_for(lambda: len(list(work.glob("shard-*.arrow"))) == 5, alive=process.is_alive)
    process.kill()
    process.join()
    assert state(output) == before
    process, encoded = start(how, output, "v1")
    process.join()
    assert encoded.value == 500 - 125 and state(output) == "v1"
