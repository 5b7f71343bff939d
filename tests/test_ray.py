"""Actors and nodes of a Ray cluster that die: the same bytes, no shard lost, and the reasons told."""

from __future__ import annotations

import functools
import random
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from sentemb.encoding import load_encoder
from sentemb.encoding.cluster import connected, cpus_each, ray_pool, ray_workers
from sentemb.encoding.shards import encode_shards
from sentemb.errors import InputError
from tests.encoding.test_shards import MODEL, TEXTS, content, rows
from tests.encoding.test_workers import squares
from tests.ray_nodes import Nodes, nodes_of
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with nodes_of(2) as started:
        yield started


def _held(folder: Path, threads: int) -> Callable[[int], int]:
    """Squares numbers: 0 once 1 and 2 are under way, and these once they may, on nodes that they name."""
    import ray

    def work(number: int) -> int:
        if number in (1, 2):
            (folder / f"{number}.part").write_text(ray.get_runtime_context().get_node_id())
            (folder / f"{number}.part").rename(folder / str(number))
        wanted = {0: ["1", "2"], 1: ["go"], 2: ["go"]}.get(number, [])
        wait_for(lambda: all((folder / name).exists() for name in wanted))
        return number * number

    return work


@pytest.mark.slow  # Ray takes up to two minutes to see that a node is gone
def test_a_node_that_dies_counts_against_no_shard(nodes: Nodes, tmp_path: Path) -> None:
    said: list[str] = []
    nodes.add()

    def say(line: str) -> None:
        said.append(line)
        if "retrying shard" in line:
            (tmp_path / "go").touch()

    make = functools.partial(_held, tmp_path)
    with ray_workers(make, address=nodes.address, count=None, say=say) as workers:
        results = workers.run(iter(range(9)))
        found = [next(results)]
        number, node = next(
            (number, node)
            for number in (1, 2)
            if (node := (tmp_path / str(number)).read_text()) != nodes.head
        )
        nodes.kill(node)
        assert found + list(results) == [number * number for number in range(9)]
    (line,) = (line for line in said if "retrying shard" in line)
    assert line.startswith("a node was lost (")
    assert line.endswith(f"); retrying shard {number + 1}")


def test_the_bytes_are_those_of_one_process_whatever_dies(nodes: Nodes, tmp_path: Path) -> None:
    killed: list[str] = []

    def kill(done: int) -> None:
        if done >= 16 and not killed:
            killed.append(nodes.kill())

    encode_shards(rows(), tmp_path / "here", MODEL, source="docs.csv", shard_size=4)
    encode_shards(
        rows(),
        tmp_path / "ray",
        MODEL,
        source="docs.csv",
        shard_size=4,
        pool=ray_pool(nodes.address, 2),
        progress=kill,
        say=print,
    )
    assert killed
    assert content(tmp_path / "here") == content(tmp_path / "ray")


@pytest.mark.slow
def test_the_bytes_stay_whatever_dies_at_random(nodes: Nodes, tmp_path: Path) -> None:
    draw = random.Random(0)
    texts = [f"{text}, again {number}" for number in range(8) for text in TEXTS]
    said: list[str] = []
    nodes.add()
    deaths: Counter[str] = Counter()

    def kill(done: int) -> None:
        if draw.random() < 0.1:
            kind = draw.choice(["node", "worker"])
            deaths[kind] += 1
            if kind == "worker":
                nodes.kill_a_worker()
            else:
                nodes.add()
                nodes.kill()

    common: dict[str, Any] = {"source": "docs.csv", "shard_size": 4}
    encode_shards(rows(texts), tmp_path / "here", MODEL, **common)
    pool = ray_pool(nodes.address, 3)
    encode_shards(rows(texts), tmp_path / "ray", MODEL, **common, pool=pool, progress=kill, say=said.append)
    assert min(deaths["node"], deaths["worker"]) > 5, deaths
    assert {line.split("(")[0] for line in said} >= {"a node was lost ", "a worker stopped "}
    assert content(tmp_path / "here") == content(tmp_path / "ray")


@pytest.mark.slow
def test_a_command_that_died_is_resumed_by_the_same_command(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "docs.txt").write_text("".join(f"{text}, again\n" for text in TEXTS * 20))
    vectors = tmp_path / "ray"

    def command(output: Path, *more: str) -> list[str]:
        options = ["--output", str(output), "--model", "static-mini", "--shard-size", "16", *more]
        return [sys.executable, "-m", "sentemb", "encode", str(tmp_path / "docs.txt"), *options]

    with subprocess.Popen(command(vectors, "--ray", nodes.address)) as first:
        wait_for(lambda: len(list(vectors.glob("*.arrow"))) >= 5, alive=lambda: first.poll() is None)
        first.kill()
    done = {path.name: path.stat().st_mtime_ns for path in vectors.glob("*.arrow")}
    assert len(done) < 125
    subprocess.run(command(vectors, "--ray", nodes.address), check=True)
    subprocess.run(command(tmp_path / "here"), check=True)
    assert content(tmp_path / "here") == content(vectors)
    assert all((vectors / name).stat().st_mtime_ns == time for name, time in done.items())


def test_deaths_and_errors_are_told_as_those_of_processes(nodes: Nodes, tmp_path: Path) -> None:
    said: list[str] = []
    folders = [tmp_path / name for name in ("once", "always", "never")]
    for folder in folders:
        folder.mkdir()
    once, always, never = (
        functools.partial(squares, folder, deaths) for folder, deaths in zip(folders, (1, 9, 0), strict=True)
    )
    with connected(nodes.address):
        start = functools.partial(ray_workers, address="of this program", count=1, say=said.append)
        with start(once) as workers:
            assert list(workers.run(iter(range(6)))) == [number * number for number in range(6)]
        (line,) = (line for line in said if "retrying shard" in line)
        assert line.startswith("a worker stopped (Worker unexpectedly exits")
        assert line.endswith("; retrying shard 4")
        with pytest.raises(InputError, match=r"stopped 3 times on shard 4 "), start(always) as workers:
            list(workers.run(iter(range(6))))
        with pytest.raises(InputError, match="99 is too many; give fewer"), start(never) as workers:
            list(workers.run(iter([1, 99, 2])))


@pytest.mark.slow  # Ray Serve takes half a minute to start
def test_served_vectors_are_those_of_the_library_and_keys_are_asked_for(nodes: Nodes) -> None:
    from sentemb.serving.replicas import served
    from sentemb.serving.settings import Settings

    key = "k" * 20
    settings = Settings(models=("static-mini",), port=_free_port(), keys=frozenset({key}))
    body = {"model": "static-mini", "input": TEXTS[:20], "encoding_format": "float"}
    nodes.add()
    with (
        served(settings, address=nodes.address, replicas=2) as address,
        httpx.Client(base_url=address, timeout=None) as client,
    ):
        assert client.post("/v1/embeddings", json=body).status_code == 401
        client.headers["Authorization"] = f"Bearer {key}"
        assert client.post("/v1/embeddings", json=body, headers={"Host": "example.org"}).status_code == 400
        answer = client.post("/v1/embeddings", json=body).json()
    vectors = np.array([one["embedding"] for one in answer["data"]], dtype=np.float32)
    assert vectors.tobytes() == load_encoder("static-mini").encode(TEXTS[:20]).tobytes()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.mark.parametrize(
    ("nodes_cpus", "count", "each"),
    [([2], 1, 2), ([2], 2, 1), ([2], 5, 1), ([8, 8, 2], 3, 4), ([8, 8, 2], 2, 8), ([0, 4], 1, 4), ([], 3, 1)],
)
def test_workers_share_the_cpus_and_fit_on_the_nodes(nodes_cpus: list[int], count: int, each: int) -> None:
    assert cpus_each(nodes_cpus, count) == each
