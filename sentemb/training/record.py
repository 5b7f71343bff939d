"""What a run's record says about the machine and the programs that made it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import torch

from sentemb.evaluation.environment import hardware, library_versions

# bert-mini, 60 steps of SimCSE: no weight differs by more, nor does the dev set's Spearman, a fraction.
_OTHER_THREADS = (
    "another thread count changes the rounding of sums: weights by up to about 2e-4, dev Spearman by up "
    "to 1e-6"
)


def describe_environment() -> dict[str, Any]:
    """Versions, commit, hardware and threads."""
    return {
        "versions": library_versions(),
        "commit": _commit(Path(__file__).parent),
        "hardware": hardware(),
        "threads": torch.get_num_threads(),
        "reproducible": f"bit for bit on this processor with the same number of threads; {_OTHER_THREADS}",
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
