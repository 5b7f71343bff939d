"""Where a model can be put on this machine."""

from __future__ import annotations

import torch

from sentemb.errors import InputError


def check_device(device: str | None) -> None:
    """Refuse a device that this machine does not have; None is whatever sentence-transformers chooses."""
    if device is None:
        return
    try:
        torch.zeros(1, device=device).cpu()
    # torch raises an AssertionError where it was built without the device's library.
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise InputError(
            f"the device {device!r} is not available on this machine",
            f"choose among {', '.join(available_devices())}",
        ) from error


def available_devices() -> list[str]:
    """The devices of this machine by the names that torch gives them."""
    devices = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    return [*devices, "mps"] if torch.backends.mps.is_available() else devices
