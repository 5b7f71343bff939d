"""The heads in the folder of a model that serves several tasks.

folder/                     loads as SentenceTransformer("folder")
└─ multitask/
   ├─ config.json           names of the sentiments, how the heads are built
   └─ heads.safetensors
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentemb.errors import InputError
from sentemb.modules.head_files import CONFIG_FILE, load_weights, read_config, save_weights, write_config
from sentemb.multitask.heads import TaskHeads

FOLDER = "multitask"
HEADS_FILE = "heads.safetensors"
VERSION = 1
HINT = "give the folder that save or fit_multitask wrote, and copy it whole"


def write_heads(heads: TaskHeads, options: dict[str, Any], folder: Path) -> None:
    """Write heads, with the options of their model, beside an encoder."""
    (folder / FOLDER).mkdir()
    save_weights(heads, folder / FOLDER / HEADS_FILE)
    write_config(folder / FOLDER / CONFIG_FILE, {**options, "heads": heads.config()}, version=VERSION)


def read_heads(folder: Path) -> tuple[TaskHeads, dict[str, Any]]:
    """Read what `write_heads` wrote."""
    path = folder / FOLDER / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no multi-task model: there is no {FOLDER}/{CONFIG_FILE}", HINT)
    config = read_config(path, version=VERSION, hint=HINT)
    complete = (
        isinstance(config.get("sentiments"), list)
        and all(isinstance(name, str) for name in config["sentiments"])
        and isinstance(config.get("shifted"), bool)
        and isinstance(config.get("heads"), dict)
        and config["heads"].keys() == {"width", "classes", "sharing", "dropout"}
    )
    if not complete:
        raise InputError(f"{path} does not describe a multi-task model", HINT)
    heads = TaskHeads(**config["heads"])
    load_weights(heads, folder / FOLDER / HEADS_FILE, hint=HINT)
    return heads, {name: config[name] for name in ("sentiments", "shifted")}
