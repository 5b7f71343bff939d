"""The random generators of one process: Python's, numpy's, torch's, and the accelerator's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """Take the state of every global random generator of this process."""
    kind, keys, position, has_gauss, cached_gaussian = np.random.get_state()  # noqa: NPY002 - the global generator
    return {
        "python": random.getstate(),
        "numpy": (kind, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached_gaussian)),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Put every global random generator back to a state that `random_state` took."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002 - the global generator
    torch.set_rng_state(state["torch"])
    for index, device_state in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(device_state, index)
