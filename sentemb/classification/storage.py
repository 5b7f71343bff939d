"""A classifier's folder: a plain sentence-transformers model at its top, the head in `classifier/`.

folder/                     loads as SentenceTransformer("folder")
└─ classifier/
   ├─ config.json           labels, pairs or texts, length, how the head is built
   └─ head.safetensors
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb.errors import InputError
from sentemb.modules import build_head, load
from sentemb.modules.head_files import CONFIG_FILE, load_weights, read_config, save_weights, write_config

if TYPE_CHECKING:
    from sentemb.classification.classifier import Classifier

FOLDER = "classifier"
HEAD_FILE = "head.safetensors"
VERSION = 1
_HINT = "give the folder that Classifier.save or fit_classifier wrote, and copy it whole"


def write_classifier(classifier: Classifier, folder: Path) -> None:
    """Write a classifier into a folder."""
    classifier.encoder.save_pretrained(str(folder), create_model_card=False)
    (folder / FOLDER).mkdir()
    save_weights(classifier.head, folder / FOLDER / HEAD_FILE)
    write_config(folder / FOLDER / CONFIG_FILE, classifier.config(), version=VERSION)


def read_classifier(folder: Path, *, device: str | None) -> dict[str, Any]:
    """Read what `write_classifier` wrote."""
    path = folder / FOLDER / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no classifier: there is no {FOLDER}/{CONFIG_FILE} in it", _HINT)
    config = _checked(read_config(path, version=VERSION, hint=_HINT), path)
    head = build_head(config["head"])
    load_weights(head, folder / FOLDER / HEAD_FILE, hint=_HINT)
    encoder = load(str(folder), device=device)
    return {
        "encoder": encoder,
        "head": head,
        "labels": tuple(config["labels"]),
        "pairs": config["pairs"],
        "max_length": config["max_length"],
    }


def _checked(config: dict[str, Any], path: Path) -> dict[str, Any]:
    whole = (
        isinstance(config.get("labels"), list)
        and all(isinstance(label, str) for label in config["labels"])
        and isinstance(config.get("pairs"), bool)
        and isinstance(config.get("max_length", ""), int | None)
        and isinstance(config.get("head"), dict)
    )
    if not whole:
        raise InputError(f"{path} is no configuration of a classifier", _HINT)
    return config
