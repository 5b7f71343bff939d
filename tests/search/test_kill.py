"""A build that is killed leaves no index, the old one or the new one, and the next build continues it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords

BUILD = """
import sys, time
from pathlib import Path
from tests.search.bag_of_words import BagOfWords
from sentemb.search import SearchIndex, shards
shards.SHARD_TEXTS = 25
class Slow(BagOfWords):
    def encode(self, texts, *, progress=False):
        time.sleep(600 if len(self.encoded) == stop else 0.01)
        return super().encode(texts)
output, version, stop = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
encoder = Slow()
texts = [f"w{n} {version}" for n in range(500)]
index = SearchIndex.build(texts, encoder, work_dir=output.with_suffix(".work"))
index.save(output, overwrite=True)
print(len(encoder.encoded), flush=True)
"""


def start(output: Path, version: str, *, stop: int = -1) -> subprocess.Popen[str]:
    """A build; with `stop` it waits once so many texts are encoded."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(output), version, str(stop)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def state(output: Path) -> str:
    """`none` or the version of the index that is there; anything else fails."""
    try:
        index = SearchIndex.load(output, BagOfWords())
    except InputError as error:
        assert "manifest.json is missing" in str(error)
        return "none"
    hits = index.search("w7", 500)[0]
    versions = {hit.text.split()[1] for hit in hits}
    assert len(hits) == 500 and len(versions) == 1
    return versions.pop()


def kill_builds(folder: Path, times: int, *, seed: int) -> None:
    rng = random.Random(seed)
    output = folder / "index"
    process = start(folder / "timing", "v0")
    started = time.perf_counter()
    process.communicate()
    duration = time.perf_counter() - started
    before, seen = "none", set()
    for attempt in range(times):
        version = f"v{attempt // 2}"
        process = start(output, version)
        time.sleep(rng.uniform(0, duration))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        after = state(output)
        assert after in {before, version}
        seen.add(after == before)
        before = after
    process = start(output, "last")
    process.communicate()
    assert process.returncode == 0 and state(output) == "last"
    assert len(list(output.iterdir())) == 3
    assert True in seen


def test_killed_at_random_moments(tmp_path: Path) -> None:
    kill_builds(tmp_path, 8, seed=1)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    kill_builds(tmp_path, 20, seed=2)


def test_the_next_build_continues(tmp_path: Path) -> None:
    output, work = tmp_path / "index", tmp_path / "index.work"
    process = start(output, "v1", stop=125)
    while len(list(work.glob("shard-*.npy"))) < 5:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert state(output) == "none"
    process = start(output, "v1")
    assert int(process.communicate()[0]) == 500 - 125
    assert state(output) == "v1"
