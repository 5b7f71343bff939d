"""Training state as safetensors: tensors in the file's body, everything else as JSON in its header.

`torch.save` writes pickles, which run code when they are read; these files cannot. A nested state (an
optimizer's, a scheduler's, the random generators') comes back equal to the last bit, tuples and integer keys
included.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from sentemb.errors import InputError

_HEADER = "sentemb.state"


def save_state(path: Path, state: Any) -> None:
    """Write a nested state of dicts, lists, tuples, tensors and plain values."""
    tensors: dict[str, torch.Tensor] = {}
    header = json.dumps(_encode(state, tensors))
    save_file(tensors, path, metadata={_HEADER: header})


def load_state(path: Path) -> Any:
    """Read what `save_state` wrote; tensors are on the CPU."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = (file.metadata() or {})[_HEADER]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return _decode(json.loads(header), tensors)
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not a valid training state: {error}", "resume from another checkpoint"
        ) from error


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


def _encode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _encode(item, tensors)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, tensors) for item in value]}
    if isinstance(value, list):
        return [_encode(item, tensors) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a training state cannot contain a {type(value).__name__}")


def _decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        if kind == "tensor":
            return tensors[content]
        if kind == "tuple":
            return tuple(_decode(item, tensors) for item in content)
        return {key: _decode(item, tensors) for key, item in content}
    return value
