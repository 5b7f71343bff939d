"""What a run's record says about the machine and the programs that made it."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_PACKAGES = (
    "sentemb",
    "sentence-transformers",
    "transformers",
    "torch",
    "accelerate",
    "datasets",
    "tokenizers",
    "safetensors",
    "numpy",
)


def describe_environment() -> dict[str, Any]:
    """Versions, commit, hardware and threads.

    Returns:
        Plain values for JSON; a version or a commit that cannot be told is `None`.
    """
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
        "commit": _commit(Path(__file__).parent),
        "hardware": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "accelerators": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        },
        "threads": torch.get_num_threads(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit(folder: Path) -> str | None:
    """Commit of the checkout that this package runs from, with a mark where files differ from it."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
