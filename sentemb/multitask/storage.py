"""Folders of models that serve several tasks.

folder/                     loads as SentenceTransformer("folder")
└─ multitask/
   ├─ config.json           names of the sentiments, how the heads are built
   └─ heads.safetensors

An ensemble's folder holds such models and says which of them answers which task:

folder/
├─ ensemble.json
└─ models/0/ ...
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sentemb._files import read_json, share_files, write_json
from sentemb.errors import InputError
from sentemb.modules import build_encoder
from sentemb.multitask.heads import TaskHeads
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.tasks import TASKS, Task

FOLDER = "multitask"
CONFIG_FILE = "config.json"
HEADS_FILE = "heads.safetensors"
ENSEMBLE_FILE = "ensemble.json"
VERSION = 1
_HINT = "give the folder that save or fit_multitask wrote, and copy it whole"


def write_model(model: MultiTaskModel, folder: Path) -> None:
    """Write a model into a folder.

    Args:
        model: The model.
        folder: The folder; made where it is absent.
    """
    model.encoder.save_pretrained(str(folder), create_model_card=False)
    (folder / FOLDER).mkdir()
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.heads.state_dict().items()}
    save_file(weights, folder / FOLDER / HEADS_FILE)
    config = {"sentiments": list(model.sentiments), "shifted": model.shifted, "heads": model.heads.config()}
    write_json(folder / FOLDER / CONFIG_FILE, {"version": VERSION, **config})
    share_files(folder)


def read_model(folder: Path, *, device: str | None = None) -> MultiTaskModel:
    """Read what `write_model` wrote.

    Args:
        folder: The folder.
        device: Where to put the model.

    Returns:
        The model.

    Raises:
        InputError: There is no such model, or it is damaged.
    """
    path = folder / FOLDER / CONFIG_FILE
    if not path.is_file():
        raise InputError(
            f"{folder} holds no model of several tasks: there is no {FOLDER}/{CONFIG_FILE}", _HINT
        )
    config = _versioned(path)
    whole = (
        isinstance(config.get("sentiments"), list)
        and all(isinstance(name, str) for name in config["sentiments"])
        and isinstance(config.get("shifted"), bool)
        and isinstance(config.get("heads"), dict)
        and config["heads"].keys() == {"width", "classes", "sharing", "dropout"}
    )
    if not whole:
        raise InputError(f"{path} is no configuration of a model of several tasks", _HINT)
    heads = TaskHeads(**config["heads"])
    _load_weights(heads, folder / FOLDER / HEADS_FILE)
    encoder = build_encoder(str(folder), device=device)
    return MultiTaskModel(encoder, heads, config["sentiments"], shifted=config["shifted"])


def write_ensemble(models: Mapping[Task, MultiTaskModel], folder: Path) -> None:
    """Write models and which task each answers; one that answers several is written once.

    Args:
        models: The model of each task.
        folder: An existing folder.
    """
    places: dict[int, str] = {}
    for model in models.values():
        if id(model) not in places:
            places[id(model)] = f"models/{len(places)}"
            write_model(model, folder / places[id(model)])
    routes = {task: places[id(models[task])] for task in TASKS}
    write_json(folder / ENSEMBLE_FILE, {"version": VERSION, "routes": routes})


def read_ensemble(folder: Path, *, device: str | None = None) -> dict[Task, MultiTaskModel]:
    """Read what `write_ensemble` wrote.

    Args:
        folder: The folder.
        device: Where to put the models.

    Returns:
        The model of each task.

    Raises:
        InputError: There is no ensemble, or it is damaged.
    """
    path = folder / ENSEMBLE_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no ensemble: there is no {ENSEMBLE_FILE} in it", _HINT)
    routes = _versioned(path).get("routes")
    if not isinstance(routes, dict) or set(routes) != set(TASKS):
        raise InputError(f"{path} does not name a model for each task", _HINT)
    loaded: dict[str, MultiTaskModel] = {}
    for place in routes.values():
        # A place outside the folder would make an ensemble depend on where it lies.
        if not isinstance(place, str) or not (folder / place).resolve().is_relative_to(folder.resolve()):
            raise InputError(f"{path} names a model outside its folder", _HINT)
        if place not in loaded:
            loaded[place] = read_model(folder / place, device=device)
    return {task: loaded[routes[task]] for task in TASKS}


def _versioned(path: Path) -> dict[str, Any]:
    config = read_json(path)
    version = config.get("version") if isinstance(config, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{path} is of version {version}, this sentemb reads {VERSION}", "update sentemb")
    if version != VERSION:
        raise InputError(f"{path} has no version", _HINT)
    return dict(config)


def _load_weights(heads: TaskHeads, path: Path) -> None:
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read: {error}", _HINT) from error
    if _shapes(weights) != _shapes(heads.state_dict()):
        raise InputError(f"{path} holds other weights than its {CONFIG_FILE} says", _HINT)
    heads.load_state_dict(weights)


def _shapes(weights: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}
