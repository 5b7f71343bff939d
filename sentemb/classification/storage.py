"""A classifier's folder: a plain sentence-transformers model at its top, the head in `classifier/`.

folder/                     loads as SentenceTransformer("folder")
└─ classifier/
   ├─ config.json           labels, pairs or texts, length, how the head is built
   └─ head.safetensors
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sentemb._files import read_json, write_json
from sentemb.errors import InputError
from sentemb.modules import build_encoder, build_head
from sentemb.modules.heads import ClassificationHead

if TYPE_CHECKING:
    from sentemb.classification.classifier import Classifier

FOLDER = "classifier"
CONFIG_FILE = "config.json"
HEAD_FILE = "head.safetensors"
VERSION = 1
_HINT = "give the folder that Classifier.save or fit_classifier wrote, and copy it whole"


def write_classifier(classifier: Classifier, folder: Path) -> None:
    """Write a classifier into a folder.

    Args:
        classifier: The classifier.
        folder: The folder; made where it is absent.
    """
    classifier.encoder.save_pretrained(str(folder), create_model_card=False)
    (folder / FOLDER).mkdir()
    weights = {
        name: tensor.detach().cpu().contiguous() for name, tensor in classifier.head.state_dict().items()
    }
    save_file(weights, folder / FOLDER / HEAD_FILE)
    write_json(folder / FOLDER / CONFIG_FILE, {"version": VERSION, **classifier.config()})


def read_classifier(folder: Path, *, device: str | None) -> dict[str, Any]:
    """Read what `write_classifier` wrote.

    Args:
        folder: The folder.
        device: Where to put the encoder.

    Returns:
        The arguments of `Classifier`.

    Raises:
        InputError: There is no classifier, or it is damaged.
    """
    path = folder / FOLDER / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no classifier: there is no {FOLDER}/{CONFIG_FILE} in it", _HINT)
    config = _checked(read_json(path), path)
    head = build_head(config["head"])
    _load_weights(head, folder / FOLDER / HEAD_FILE)
    encoder = build_encoder(str(folder), device=device)
    return {
        "encoder": encoder,
        "head": head,
        "labels": tuple(config["labels"]),
        "pairs": config["pairs"],
        "max_length": config["max_length"],
    }


def _checked(config: Any, path: Path) -> dict[str, Any]:
    version = config.get("version") if isinstance(config, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{path} is of version {version}, this sentemb reads {VERSION}", "update sentemb")
    whole = (
        isinstance(config, dict)
        and version == VERSION
        and isinstance(config.get("labels"), list)
        and all(isinstance(label, str) for label in config["labels"])
        and isinstance(config.get("pairs"), bool)
        and isinstance(config.get("max_length", ""), int | None)
        and isinstance(config.get("head"), dict)
    )
    if not whole:
        raise InputError(f"{path} is no configuration of a classifier", _HINT)
    return dict(config)


def _load_weights(head: ClassificationHead, path: Path) -> None:
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read: {error}", _HINT) from error
    if _shapes(weights) != _shapes(head.state_dict()):
        raise InputError(f"{path} holds other weights than a head of kind {head.kind!r} has", _HINT)
    head.load_state_dict(weights)


def _shapes(weights: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}
