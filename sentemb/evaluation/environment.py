"""What a number was measured with: library versions and hardware."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import Any

from sentemb._files import shareable
from sentemb._machine import cores, memory_gib, processor_name
from sentemb._uris import without_listed_secrets
from sentemb.evaluation.schema import Environment

LIBRARIES = (
    "sentemb",
    "sentence-transformers",
    "transformers",
    "tokenizers",
    "torch",
    "accelerate",
    "datasets",
    "numpy",
    "scipy",
)


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide weights and scores."""
    found = {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}}
    return {name: version for name, version in found.items() if version is not None}


def environment(seconds: Mapping[str, float], command: Sequence[str] | None = None) -> Environment:
    """This machine and this moment, for a record."""
    return Environment(
        versions=library_versions(),
        hardware=hardware(),
        date=now(),
        seconds=dict(seconds),
        command=None if command is None else tuple(command),
    )


def now() -> str:
    """This moment, as records write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def command_line() -> list[str]:
    """The words of the command that runs, for records."""
    words = map(without_listed_secrets, sys.argv)
    return [re.sub(r"[^,=]+", lambda part: shareable(part[0]), word) for word in words]


def hardware() -> dict[str, Any]:
    """The machine: processor, cores this process may use, memory, accelerators."""
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
