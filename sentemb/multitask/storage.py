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

from sentemb._files import share_files
from sentemb.errors import InputError
from sentemb.modules import build_encoder
from sentemb.modules.head_files import CONFIG_FILE, load_weights, read_config, save_weights, write_config
from sentemb.multitask.heads import TaskHeads
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.tasks import TASKS, Task

FOLDER = "multitask"
HEADS_FILE = "heads.safetensors"
ENSEMBLE_FILE = "ensemble.json"
VERSION = 1
_HINT = "give the folder that save or fit_multitask wrote, and copy it whole"


def write_model(model: MultiTaskModel, folder: Path) -> None:
    """Write a model into a folder."""
    model.encoder.save_pretrained(str(folder), create_model_card=False)
    (folder / FOLDER).mkdir()
    save_weights(model.heads, folder / FOLDER / HEADS_FILE)
    config = {"sentiments": list(model.sentiments), "shifted": model.shifted, "heads": model.heads.config()}
    write_config(folder / FOLDER / CONFIG_FILE, config, version=VERSION)
    share_files(folder)


def read_model(folder: Path, *, device: str | None = None) -> MultiTaskModel:
    """Read what `write_model` wrote."""
    path = folder / FOLDER / CONFIG_FILE
    if not path.is_file():
        raise InputError(
            f"{folder} holds no model of several tasks: there is no {FOLDER}/{CONFIG_FILE}", _HINT
        )
    config = read_config(path, version=VERSION, hint=_HINT)
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
    load_weights(heads, folder / FOLDER / HEADS_FILE, hint=_HINT)
    encoder = build_encoder(str(folder), device=device)
    return MultiTaskModel(encoder, heads, config["sentiments"], shifted=config["shifted"])


def write_ensemble(models: Mapping[Task, MultiTaskModel], folder: Path) -> None:
    """Write models and which task each answers; one that answers several is written once."""
    places: dict[int, str] = {}
    for model in models.values():
        if id(model) not in places:
            places[id(model)] = f"models/{len(places)}"
            write_model(model, folder / places[id(model)])
    routes = {task: places[id(models[task])] for task in TASKS}
    write_config(folder / ENSEMBLE_FILE, {"routes": routes}, version=VERSION)


def read_ensemble(folder: Path, *, device: str | None = None) -> dict[Task, MultiTaskModel]:
    """Read what `write_ensemble` wrote."""
    path = folder / ENSEMBLE_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no ensemble: there is no {ENSEMBLE_FILE} in it", _HINT)
    routes = read_config(path, version=VERSION, hint=_HINT).get("routes")
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
