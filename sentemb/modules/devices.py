"""Devices of this machine on which a model can run."""

from __future__ import annotations

import torch

from sentemb.errors import InputError


def check_device(device: str | None) -> None:
    """Raise InputError if this machine does not have the device; None is the default of upstream."""
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
    """Return the devices of this machine by their names in torch."""
    devices = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    return [*devices, "mps"] if torch.backends.mps.is_available() else devices
