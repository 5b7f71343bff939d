"""What a run's record says about the machine and the programs that made it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import torch

from sentemb.evaluation.environment import hardware, library_versions


def describe_environment() -> dict[str, Any]:
    """Versions, commit, hardware and threads."""
    return {
        "versions": library_versions(),
        "commit": _commit(Path(__file__).parent),
        "hardware": hardware(),
        "threads": torch.get_num_threads(),
    }


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
