"""Workers on the machines of a Ray cluster; only this file and `serving/replicas.py` import Ray.

The pool is that of `workers.py`, not Ray Data's: a shard's file is its checkpoint, so the rows of a worker
that died are encoded again to the same file, and Ray Data would track what is done a second time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from importlib.metadata import version
from typing import Any

import ray

from sentemb._threads import share_cores
from sentemb.encoding.workers import Crash, Crew, Make, Pool, Task, Work
from sentemb.errors import InputError

LOCAL = "local"
"""The address of a cluster of this machine alone, which starts and ends with the command."""
_MOST_WORKERS = 256  # by default
_STORE = 512 << 20  # bytes; a local cluster's object store holds a shard for each worker
_ADDRESSES = "pass local, auto, host:6379 or ray://host:10001"
_DETAIL = re.compile(r"(?:Worker exit detail: |cause: )([^.\n]+)")


class _Actor:
    """Code that runs in a worker of the cluster."""

    _work: Work

    def load(self, make: Make, threads: int, versions: dict[str, str]) -> None:
        share_cores()
        # Vectors of a mixture of devices would differ in their last bits.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        for name, here in _versions().items():
            if here != versions[name]:
                message = f"{socket.gethostname()} has {name} {here}, but this machine has {versions[name]}"
                raise InputError(message, "install the same version on all machines")
        self._work = make(threads)

    def do(self, task: Task) -> Any:
        return self._work(task)


class _Worker:
    """An actor; see `Worker`. Ray neither restarts it nor retries, since it would not say why one died."""

    def __init__(self, make: Make, cpus: int) -> None:
        self._make, self._cpus = make, cpus
        options = {"num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0}
        self._actor = ray.remote(_Actor).options(**options).remote()

    def load(self) -> Future[None]:
        loaded: Future[None] = self._actor.load.remote(self._make, self._cpus, _versions()).future()
        return loaded

    def submit(self, task: Task) -> Future[Any]:
        result: Future[Any] = self._actor.do.remote(task).future()
        return result

    def crash(self, error: BaseException) -> Crash | None:
        if isinstance(error, ray.exceptions.RayTaskError):
            raise error.cause if isinstance(error.cause, InputError | OSError) else error
        if getattr(error, "actor_init_failed", False):
            message = f"a worker of the Ray cluster failed to start: {str(error).strip().splitlines()[-1]}"
            raise InputError(message, "install the same version of sentemb on every node")
        if not isinstance(error, ray.exceptions.RayError):
            return None
        # A node that dies takes its actors with it; until Ray knows, they are out of reach.
        if isinstance(error, ray.exceptions.ActorUnavailableError):
            return Crash("out of reach", node=True)
        if "node has died" in str(error):
            return Crash("it died", node=True)
        detail = _DETAIL.search(str(error))
        return Crash(detail[1] if detail else type(error).__name__)

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # it may be dead
            ray.kill(self._actor)


def ray_pool(address: str, count: int | None) -> Pool:
    """Return a pool of actors on a Ray cluster; one for each CPU, up to 256, if no number is given."""
    return functools.partial(ray_workers, address=address, count=count)


@contextlib.contextmanager
def ray_workers(make: Make, *, address: str, count: int | None, say: Callable[[str], None]) -> Iterator[Crew]:
    """Start actors of a Ray cluster; one takes the place of a dead one, as soon as there is room anywhere."""
    with connected(address, cpus=count or 0):
        nodes = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        count = count or min(sum(nodes), _MOST_WORKERS)
        if not count:
            hint = "set the number of workers with --workers"
            raise InputError(f"the Ray cluster {address} does not report CPUs", hint)
        cpus = cpus_each(nodes, count)
        waiting = f"waiting for workers to start; each needs {cpus} free CPUs on a node"
        crew = Crew(functools.partial(_Worker, make, cpus), count, say=say, waiting=waiting)
        try:
            yield crew
        finally:
            crew.stop()


@contextlib.contextmanager
def connected(address: str, *, cpus: int = 0) -> Iterator[None]:
    """Join a Ray cluster, or start one of this machine alone (`local`), with at least `cpus` CPUs."""
    if ray.is_initialized():  # a program that has joined a cluster stays in it
        yield
        return
    from sentemb._compat import quiet_ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to Ray's makers
    before = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        options |= {"num_cpus": max(os.cpu_count() or 1, cpus), "include_dashboard": False}
        options |= {"object_store_memory": _STORE}
    else:
        _check_head(address)
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        hint = f"check that it is running, and {_ADDRESSES}"
        raise InputError(f"cannot join the Ray cluster {address}: {reason}", hint) from None
    quiet_ray(ray)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # Ray's own aborts
    try:
        yield
    finally:
        ray.shutdown()


def cpus_each(nodes: Sequence[int], count: int) -> int:
    """Return the most CPUs that each of `count` workers can have on nodes with these CPUs; at least one."""
    most = max(nodes, default=1)
    return next((cpus for cpus in range(most, 1, -1) if sum(node // cpus for node in nodes) >= count), 1)


def _check_head(address: str) -> None:
    """Raise InputError if a head does not listen: Ray would wait for it, or abort the process."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"--ray {address} is not an address", _ADDRESSES)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = f"check that it is running, and {_ADDRESSES}"
        raise InputError(f"cannot reach a Ray cluster at {address}: {reason}", hint) from None


def _versions() -> dict[str, str]:
    """Return the versions that the bytes of vectors depend on."""
    return {name: version(name) for name in ("sentemb", "torch", "transformers", "tokenizers")}
