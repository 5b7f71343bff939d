"""A Ray cluster of several nodes on this machine, of which nothing is left running."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for

_NODE: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20}
# Starting processes before anyone needs them takes seconds of the cores that the tests share.
_FASTER = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",  # the tests next to it are not nice either
}


class Nodes:
    """The nodes of a cluster: a head, and others that can be killed."""

    def __init__(self, cluster: Any, session: str) -> None:
        self._cluster, self._session = cluster, session
        self.address: str = cluster.address
        self.head: str = cluster.head_node.node_id

    def kill_a_worker(self) -> None:
        """Kill the process of an actor that encodes, if there is one."""
        if workers := _processes_of(self._session, "_Actor"):
            os.kill(random.choice(workers), signal.SIGKILL)

    def add(self) -> None:
        """Start one more node."""
        self._cluster.add_node(**_NODE)

    def kill(self, node_id: str | None = None) -> str:
        """Kill a node, any but the head where none is named; gives its id."""
        nodes = {node.node_id: node for node in self._cluster.worker_nodes}
        chosen = node_id or random.choice(sorted(nodes))
        self._cluster.remove_node(nodes[chosen], allow_graceful=False)
        return chosen


@contextlib.contextmanager
def nodes_of(count: int) -> Iterator[Nodes]:
    """Start a cluster of so many nodes with one CPU each."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _FASTER.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args=_NODE)
        session = Path(cluster.head_node.get_session_dir_path()).name
        try:
            nodes = Nodes(cluster, session)
            for _ in range(count - 1):
                nodes.add()
            cluster.wait_for_nodes(timeout=3600)
            yield nodes
        finally:
            cluster.shutdown()
            _end(session)


def _end(session: str) -> None:
    """Kill what a killed node left behind, and wait for it to be gone."""

    def is_gone() -> bool:
        left = _processes_of(session)
        for number in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return not left

    wait_for(is_gone)


def _processes_of(session: str, title: str = "") -> list[int]:
    """The processes of a cluster, or its workers of a title: these have their names overwritten."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().decode(errors="replace")
            worker = command.startswith(f"ray::{title}") and any(
                session in str(one.readlink()) for one in (place / "fd").iterdir()
            )
            if worker or (not title and session in command):
                found.append(int(place.name))
        except OSError:
            continue
    return found
