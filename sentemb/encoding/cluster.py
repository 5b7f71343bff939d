"""Workers on the machines of a Ray cluster; nothing else imports Ray, but for `serving/replicas.py`.

Plain actors, not Ray Data's pool of them. A shard's file is its checkpoint, and its name says what is in it,
so that whatever died, its rows are encoded again to the same file. Ray Data would keep a second book of what
is done, in memory and by blocks of its own cutting. Here a few shards are held, results come in the order of
the rows, and a shard that kills its worker has so many tries and then ends the run with the reason.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import ray

from sentemb._threads import share_cores
from sentemb.encoding.tasks import Answer, Make, Pool, Task, Tasks, Work, attempt
from sentemb.errors import InputError

LOCAL = "local"
"""The address of a cluster of this machine alone, which starts and ends with the command."""
MOST = 256
"""Workers, where nobody says how many."""
_STORE = 512 << 20  # bytes; a local cluster's object store holds a shard for each worker
_PATIENCE = 30.0  # seconds without news after which a command says what it waits for
_REACHED = 10.0  # seconds in which a cluster's head must answer
_UP = "check that it is running, and pass local, auto, host:6379 or ray://host:10001"
_DETAIL = re.compile(r"(?:Worker exit detail: |cause: )([^.\n]+)")


class _Actor:
    """What runs in a worker of the cluster."""

    _work: Work

    def start(self, make: Make, threads: int, versions: dict[str, str]) -> Answer:
        share_cores()
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            ""  # vectors of a mixture of devices would differ in their last bits
        )
        return attempt(functools.partial(self._start, make, threads, versions))

    def _start(self, make: Make, threads: int, versions: dict[str, str]) -> None:
        for name, here in _versions().items():
            if here != versions[name]:
                raise InputError(
                    f"{socket.gethostname()} has {name} {here}, but this machine has {versions[name]}",
                    "install the same version on all machines",
                )
        self._work = make(threads)

    def work(self, task: Task) -> Answer:
        return attempt(functools.partial(self._work, task))


@dataclass(eq=False)
class _Worker:
    actor: Any
    answer: Any  # the reference to what it says next; None while it is idle
    number: int | None = None  # of the task that it works on
    ready: bool = False


def ray_pool(address: str, count: int | None) -> Pool:
    """Workers on a Ray cluster; as many as it has CPUs, up to `MOST`, where no number is given."""
    return functools.partial(RayWorkers, address=address, count=count)


class RayWorkers:
    """Runs tasks in actors of a Ray cluster; see `Runner`.

    Args:
        make: Called once in every actor.
        address: As for `connected`.
        count: How many actors; None takes as many as there are CPUs, up to `MOST`. Those for which there is
            no room wait for it.
        say: Told of every task that is tried again, and why.

    Actors and whole nodes may die at any time. Another actor takes the place of a dead one, wherever there is
    room.
    """

    def __init__(self, make: Make, *, address: str, count: int | None, say: Callable[[str], None]) -> None:
        self._make, self._address, self._say = make, address, say
        self._count = count or 0
        self._cpus = 1
        self._workers: list[_Worker] = []
        self._connection = contextlib.ExitStack()

    def __enter__(self) -> RayWorkers:
        self._connection.enter_context(connected(self._address, cpus=self._count))
        nodes = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        self._count = self._count or min(sum(nodes), MOST)
        if not self._count:
            self._connection.close()
            raise InputError(
                f"the Ray cluster {self._address} does not report CPUs",
                "set the number of workers with --workers",
            )
        self._cpus = cpus_each(nodes, self._count)
        self._workers = [self._start() for _ in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            _end(worker)
        self._connection.close()

    def run(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Do tasks, of which no more than twice as many as there are workers are held at a time."""
        book = Tasks(tasks, held=2 * self._count, say=self._say)
        patient = False
        while book.left():
            self._hand_out(book)
            busy = {worker.answer: worker for worker in self._workers if worker.answer is not None}
            heard, _ = ray.wait(list(busy), timeout=_PATIENCE)
            if not heard and not patient and not any(worker.ready for worker in self._workers):
                self._say(f"waiting for workers to start; each needs {self._cpus} free CPUs on a node")
                patient = True
            for answer in heard:
                self._hear(busy[answer], book)
            yield from book.results()

    def _hand_out(self, book: Tasks) -> None:
        for worker in self._workers:
            if worker.answer is None and (one := book.take()) is not None:
                worker.number, task = one
                worker.answer = worker.actor.work.remote(task)

    def _hear(self, worker: _Worker, book: Tasks) -> None:
        """Take what a worker said, or that it died."""
        try:
            answer: Answer = ray.get(worker.answer)
        except ray.exceptions.RayError as error:
            self._replace(worker, error, book)
        else:
            book.hear(worker.number, answer)
            worker.answer, worker.number, worker.ready = None, None, True

    def _replace(self, worker: _Worker, error: Exception, book: Tasks) -> None:
        """Put another actor in the place of one that is dead, or out of reach."""
        if isinstance(error, ray.exceptions.RayTaskError) or getattr(error, "actor_init_failed", False):
            reason = str(error).strip().splitlines()[-1]
            raise InputError(
                f"a worker of the Ray cluster failed to start: {reason}",
                "install the same version of sentemb on every node",
            )
        _end(worker)  # one that is only out of reach shall not go on
        self._workers[self._workers.index(worker)] = self._start()
        # A node that dies takes its actors with it; until Ray knows, they are out of reach.
        unreachable = isinstance(error, ray.exceptions.ActorUnavailableError)
        if unreachable or "node has died" in str(error):
            book.lost(worker.number, "out of reach" if unreachable else "it died")
        else:
            detail = _DETAIL.search(str(error))
            book.died(worker.number, detail[1] if detail else type(error).__name__)

    def _start(self) -> _Worker:
        # No restarts and retries by Ray, which count neither what dies on a shard nor say why.
        actor = ray.remote(_Actor).options(num_cpus=self._cpus, max_restarts=0, max_task_retries=0).remote()
        return _Worker(actor, actor.start.remote(self._make, self._cpus, _versions()))


@contextlib.contextmanager
def connected(address: str, *, cpus: int = 0) -> Iterator[None]:
    """Join a Ray cluster, or start one; a program that has joined one stays in it.

    Args:
        address: `local` for one of this machine alone; `auto` for the one that this machine is part of; or
            `host:6379` or `ray://host:10001`.
        cpus: What a local cluster should have, if that is more than there are cores.

    Raises:
        InputError: There is no such cluster, or it has another version of Ray or Python.
    """
    if ray.is_initialized():
        yield
        return
    from sentemb._compat import quiet_ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to Ray's makers
    before = signal.getsignal(signal.SIGTERM)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address == LOCAL:
            ray.init(
                address=LOCAL,
                num_cpus=max(os.cpu_count() or 1, cpus),
                object_store_memory=_STORE,
                include_dashboard=False,
                **quiet,
            )
        else:
            _reach(address)
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(f"cannot join the Ray cluster {address}: {reason}", _UP) from None
    quiet_ray(ray)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # Ray's own aborts
    try:
        yield
    finally:
        ray.shutdown()


def cpus_each(nodes: list[int], count: int) -> int:
    """The CPUs of each of so many workers, as many as there is room for; at least one.

    Args:
        nodes: The CPUs of every node.
        count: The workers.
    """
    return max(
        (cpus for cpus in range(1, max(nodes, default=1) + 1) if _room(nodes, cpus) >= count), default=1
    )


def _room(nodes: list[int], cpus: int) -> int:
    return sum(node // cpus for node in nodes)


def _end(worker: _Worker) -> None:
    """End an actor, if it lives."""
    with contextlib.suppress(Exception):
        ray.kill(worker.actor)


def _reach(address: str) -> None:
    """Refuse a head that does not listen: Ray would wait for it, or abort the process."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(
            f"--ray {address} is not an address", "pass local, auto, host:6379 or ray://host:10001"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHED).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot reach a Ray cluster at {address}: {reason}", _UP) from None


def _versions() -> dict[str, str]:
    """What the bytes of vectors depend on."""
    return {name: version(name) for name in ("sentemb", "torch", "transformers", "tokenizers")}
