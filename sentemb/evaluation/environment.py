"""Environment of a measurement: library versions, hardware, command line, and seconds of several actions."""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import Any

from sentemb._files import shareable
from sentemb._machine import cores, memory_gib, processor_name
from sentemb._uris import without_listed_secrets
from sentemb.errors import InputError
from sentemb.evaluation.schema import Environment, Record

LIBRARIES = (
    *("sentemb", "sentence-transformers", "transformers", "tokenizers"),
    *("torch", "accelerate", "datasets", "numpy", "scipy"),
)


def library_versions() -> dict[str, str]:
    """Return versions of Python and of the libraries that decide weights and scores."""
    found = {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}}
    return {name: version for name, version in found.items() if version is not None}


def environment(seconds: Mapping[str, float], command: Sequence[str] | None = None) -> Environment:
    """Return this machine and this moment, for a record."""
    return Environment(
        versions=library_versions(),
        hardware=hardware(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=dict(seconds),
        command=None if command is None else tuple(command),
    )


def new_record(
    suite: str,
    encoder: Any,
    seconds: Mapping[str, float],
    command: Sequence[str] | None = None,
    **fields: Any,
) -> Record:
    """Return the record of an encoder or searcher on a suite; `fields` are the other fields of `Record`."""
    return Record(
        suite=suite,
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        encoder=dict(encoder.describe()),
        environment=environment(seconds, command),
        **fields,
    )


def command_line() -> list[str]:
    """Return the words of the running command, for records."""
    words = map(without_listed_secrets, sys.argv)
    return [re.sub(r"[^,=]+", lambda part: shareable(part[0]), word) for word in words]


def hardware() -> dict[str, Any]:
    """Return the machine: processor, cores this process may use, memory, accelerators."""
    import torch

    accelerators = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processor": processor_name(),
        "cores": cores(),
        "memory_gib": memory_gib(),
        "accelerators": accelerators,
    }


@cache  # a record is made at every look at the dev queries, and each version is in a file
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def time_in_turns(
    actions: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int = 0
) -> dict[str, list[float]]:
    """Run every action once in each round and return the seconds of each.

    Other work of the machine falls on all of them. The order turns by one place from round to round, so that
    no action always follows the same other one.
    """
    if rounds < 1:
        raise InputError(f"rounds is {rounds}", "use 1 round or more")
    names = list(actions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(warm_up + rounds):
        first = number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            began = time.perf_counter()
            actions[name]()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return seconds
