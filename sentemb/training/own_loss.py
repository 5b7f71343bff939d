"""A loss of the user's own: a class in a Python file, named as `my_losses.py:MyLoss`."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from torch import nn

from sentemb.errors import InputError, unknown


def is_own(name: str) -> bool:
    """Whether a configuration names a class in a file."""
    return ":" in name


def own_loss_class(name: str) -> type[nn.Module]:
    """Import the class; its file runs as any module that is imported."""
    path, wanted = loss_file(name), name.rpartition(":")[2]
    module = _module(path)
    found = getattr(module, wanted, None)
    if found is None:
        losses = {key: value for key, value in vars(module).items() if _is_loss(value)}
        own = [key for key, value in losses.items() if value.__module__ == module.__name__]
        if own:
            raise unknown(f"loss in {path}", wanted, own)
        raise InputError(f"{path} does not define {wanted}", "define it as a subclass of torch.nn.Module")
    if not _is_loss(found):
        raise InputError(f"{wanted} in {path} is not a loss", "make it a subclass of torch.nn.Module")
    return found  # type: ignore[no-any-return]


def loss_file(name: str) -> Path:
    """The file of a loss of the user's own."""
    path = Path(name.rpartition(":")[0]).expanduser()
    if not path.is_file():
        raise InputError(f"no such file: {path}", "specify a loss as FILE.py:CLASS")
    return path


def _is_loss(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _module(path: Path) -> ModuleType:
    # Named by its place, so that two files of one name are two modules and one file is imported once.
    name = f"sentemb_own_loss_{path.resolve()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file", "specify a loss as FILE.py:CLASS")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        frames = traceback.extract_tb(error.__traceback__)
        lines = [1, *(frame.lineno or 1 for frame in frames if frame.filename == str(path))]
        line = getattr(error, "lineno", None) or lines[-1]
        raise InputError(f"{path}:{line}: {type(error).__name__}: {error}", "fix the file") from error
    return module
