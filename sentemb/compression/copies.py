"""A model that is there already, written again as its own files are."""

from __future__ import annotations

import shutil
from pathlib import Path

from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer

from sentemb.modules.exported import exported_file
from sentemb.modules.folder_checks import module_folders
from sentemb.modules.source import ModelSource

# How files begin that no model here is made of: weights of other formats and libraries, and a training's own.
_UNREAD = ("pytorch_model", "tf_model", "flax_model", "rust_model", "training_args", "optimizer")


def write_copy(source: ModelSource, model: SentenceTransformer, folder: Path) -> None:
    """Copy a model's files; those of a raw transformer are written anew, with the pooling it gets.

    Loaded and saved again, it would not be the same: an int8 table comes back as float32.

    Args:
        source: Where the model was loaded from.
        model: The model.
        folder: An existing folder.
    """
    if not source.has_modules:
        model.save_pretrained(str(folder), create_model_card=False)
        return
    place = _folder_of(source.address)
    for file in sorted(place.iterdir()):
        if file.is_file() and not file.name.startswith((".", *_UNREAD)):
            shutil.copy(file, folder / file.name)
    # What else a folder holds, such as checkpoints, is not the model.
    for part in module_folders(place):
        shutil.copytree(part, folder / part.relative_to(place), dirs_exist_ok=True)
    if (network := exported_file(place)) is not None:
        shutil.copytree(network.parent, folder / network.parent.name, dirs_exist_ok=True)


def _folder_of(address: str) -> Path:
    """Where a model's files are; those of the hub are in its cache once the model was loaded."""
    place = Path(address)
    return place if place.is_dir() else Path(snapshot_download(address, local_files_only=True))
