"""Description of a base model, read before anything is loaded, so that a user error is one line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from transformers.utils import logging as transformers_logging

from sentemb._compat import load_reports_through
from sentemb.errors import InputError
from sentemb.modules.bundled import bundled_folder, bundled_names
from sentemb.modules.folder_checks import (
    AGAIN,
    CONFIG,
    MODULES,
    OPTIONS,
    check_folder,
    damage_in,
    read_modules,
    read_object,
)
from sentemb.modules.weights import expected_differences

_ADAPTER = "adapter_config.json"
_ORGANISATION = "sentence-transformers"  # optional in the names of its models, as in upstream


@dataclass(frozen=True)
class ModelSource:
    """Address and configuration of a base model.

    Attributes:
        address: A folder or a hub id that upstream loaders accept.
        revision: Branch, tag or commit of a hub id.
        has_modules: Whether it is a sentence-transformers model with its own pooling.
        config: The transformer's `config.json`; empty if a sentence-transformers model keeps it elsewhere.
        options: Its `config_sentence_transformers.json`; empty if it is missing.
        modules: Classes of the modules in `modules.json`.
    """

    address: str
    revision: str | None
    has_modules: bool
    config: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    modules: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        """The first architecture that `config.json` names, or an empty string."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""


_MOST_LAYERS = 1_000  # far more than any encoder has; building them would take minutes or all memory


def find_source(base: str, *, revision: str | None = None) -> ModelSource:
    """Describe the model at a folder or a hub id without loading its weights."""
    path = Path(base).expanduser()
    if not path.exists() and (bundled := bundled_folder(base)) is not None:
        path = bundled
    if path.is_dir() and base.strip():
        _refuse_devices(path)
        source = _described(str(path), None, lambda name: path / name if (path / name).is_file() else None)
        if source is None and (path / _ADAPTER).is_file():
            raise InputError(
                f"{base} is an adapter (LoRA) for another model",
                "merge it into its base with peft (merge_and_unload), and save that model",
            )
        if source is None:
            raise InputError(
                f"{base} is not a model folder: it contains neither {CONFIG} nor {MODULES}",
                _models_inside(path) or "use the folder that save_pretrained wrote",
            )
        check_folder(path)
        layers = source.config.get("num_hidden_layers")
        if isinstance(layers, int) and layers > _MOST_LAYERS:
            raise InputError(
                f"{path / CONFIG}: num_hidden_layers is {layers:,}", "use a complete copy of the model"
            )
        return source
    if path.is_file():
        raise InputError(f"{base} is a file, not a model folder", "use the folder that contains it")
    if base.startswith((".", "/", "~")) or base.count("/") > 1 or not base.strip():
        raise InputError(f"no such model folder: {base!r}", "check the path, or use a hub id (owner/name)")
    return _find_on_hub(base, revision)


def _refuse_devices(folder: Path) -> None:
    """Raise InputError for pipes, devices and links to them, which could be read forever."""
    for entry in (*folder.iterdir(), *folder.glob("[0-9]*_*/*")):
        if entry.exists() and not entry.is_file() and not entry.is_dir():
            raise InputError(
                f"{entry} is a pipe or a device, not a regular file", "use a complete copy of the model"
            )


def local_object(base: str, name: str) -> dict[str, Any] | list[Any] | None:
    """Read a JSON file of a model that is on this machine; None where there is no such file."""
    folder = Path(base).expanduser()
    if not folder.is_dir():
        folder = bundled_folder(base) or folder
    path: Any = folder / name
    if not folder.exists():
        try:
            path = try_to_load_from_cache(base, name)
        except HFValidationError:
            return None
    try:
        found: dict[str, Any] | list[Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return found


@contextmanager
def loading(address: str, *, needs_pooler: bool = False) -> Iterator[None]:
    """Load an encoder's weights: `readable`, and none of them may be missing."""
    with readable(address), load_reports_through(expected_differences(address, needs_pooler=needs_pooler)):
        yield


@contextmanager
def readable(address: str) -> Iterator[None]:
    """Convert upstream's errors about an unreadable model to one line, and hide its progress bars.

    A damaged file can raise any exception. Wrap only the loading call, since other exceptions are bugs.
    """
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if Path(address).is_dir() and (damage := damage_in(Path(address), error)):
            raise InputError(damage, AGAIN) from error
        kind = type(error).__name__
        reason = " ".join(str(error).split()) or kind
        told = reason if isinstance(error, (OSError, ValueError, RuntimeError)) else f"{kind}: {reason}"
        raise InputError(f"cannot load {address}: {told[:300]}", _hint(error)) from error
    finally:
        if bars:
            transformers_logging.enable_progress_bar()


def _hint(error: Exception) -> str:
    """Return the next step after an upstream error."""
    if isinstance(error, ImportError):
        return "install the package named in the message, or use another model"
    if isinstance(error, OSError):
        return "check that the model was downloaded or saved completely"
    if "does not recognize this architecture" in str(error):
        return "a newer release of transformers may support it: pip install -U transformers"
    return "SentenceTransformer(...) in Python shows the full error; use another model if it fails as well"


def _described(address: str, revision: str | None, file: Callable[[str], Path | None]) -> ModelSource | None:
    """Read a model's small files; None where it has neither a configuration nor a list of modules."""
    config, modules = file(CONFIG), file(MODULES)
    if not config and not modules:
        return None
    options = file(OPTIONS)
    return ModelSource(
        address,
        revision,
        has_modules=modules is not None,
        config=read_object(config) if config else {},
        options=read_object(options) if options else {},
        modules=tuple(entry["type"] for entry in read_modules(modules.parent) or ()) if modules else (),
    )


def _find_on_hub(base: str, revision: str | None) -> ModelSource:
    names = [base] if "/" in base else [base, f"{_ORGANISATION}/{base}"]
    unreachable: _UnreachableError | None = None
    for name in names:
        try:
            online = unreachable is None  # do not ask an unreachable hub for the second name
            source = _described(name, revision, partial(_hub_file, name, revision=revision, online=online))
        except _UnknownRepositoryError:
            continue
        except _UnreachableError as error:
            unreachable = error
            continue
        if source is None:
            raise InputError(f"{name} on the hub contains neither {CONFIG} nor {MODULES}", "check the hub id")
        return source
    if unreachable is not None:
        raise InputError(
            f"{base!r} is neither a local folder nor in the hub's cache, and the hub is not reachable",
            f"use a local folder{_or_bundled(base)}, or download the model once while online",
        ) from unreachable
    raise InputError(
        f"model {base!r} not found: it is neither a local folder nor a repository on the hub that you "
        "can access",
        f"check the spelling{_or_bundled(base)}, or log in with `hf auth login` if it is private",
    )


def _models_inside(folder: Path) -> str:
    """Suggest the models one folder below, as in the output of a quickstart or of several seeds."""
    models = sorted(str(path.parent) for path in folder.glob(f"*/{MODULES}"))
    return f"use a model inside it: {', '.join(models)}" if models else ""


def _or_bundled(base: str) -> str:
    if "/" in base:
        return ""
    close = difflib.get_close_matches(base, bundled_names(), n=1)
    meant = f" (did you mean {close[0]}?)" if close else f" ({', '.join(bundled_names())})"
    return f" or use a bundled model{meant}"


class _UnknownRepositoryError(Exception):
    """The hub does not have the repository."""


class _UnreachableError(Exception):
    """The hub does not answer, and the file is not cached."""


def _hub_file(name: str, file: str, revision: str | None, *, online: bool = True) -> Path | None:
    try:
        return Path(hf_hub_download(name, file, revision=revision, local_files_only=not online))
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        # Offline, a cached repository without this file does not have it.
        if isinstance(try_to_load_from_cache(name, CONFIG, revision=revision), str):
            return None
        raise _UnreachableError from error
    except GatedRepoError as error:
        raise InputError(
            f"access to {name} is restricted", "request access on its hub page, then run `hf auth login`"
        ) from error
    except RevisionNotFoundError as error:
        raise InputError(
            f"{name} does not have a revision {revision!r}", "check the branch, tag or commit"
        ) from error
    except RepositoryNotFoundError as error:
        raise _UnknownRepositoryError from error
    except EntryNotFoundError:
        return None
    except HFValidationError as error:
        raise InputError(
            f"{name!r} is neither a local folder nor a valid hub id", f"check the path{_or_bundled(name)}"
        ) from error
    except HfHubHTTPError as error:
        raise InputError(
            f"the hub rejected the request for {name}: {error}", "try again later, or use a local folder"
        ) from error
