"""A model that is there already, written again as its own files are."""

from __future__ import annotations

import shutil
from pathlib import Path

from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer

from sentemb.modules.exported import EXPORTED, exported_file
from sentemb.modules.source import find_source

_NOT_THE_MODEL = ("run", ".*", "pytorch_model*.bin")  # how it was trained, and weights that are never read


def write_copy(address: str | Path, model: SentenceTransformer, folder: Path) -> None:
    """Copy a model's files; those of a raw transformer are written anew, with the pooling it gets.

    Loaded and saved again, it would not be the same: an int8 table comes back as float32.

    Args:
        address: Folder, hub id or bundled model.
        model: What it loads as.
        folder: An existing folder.
    """
    source = find_source(str(address))
    if source.has_modules:
        _copy(_folder_of(source.address), folder)
    else:
        model.save_pretrained(str(folder), create_model_card=False)


def _folder_of(address: str) -> Path:
    """Where a model's files are; those of the hub are in its cache once the model was loaded."""
    place = Path(address)
    return place if place.is_dir() else Path(snapshot_download(address, local_files_only=True))


def _copy(source: Path, folder: Path) -> None:
    exported = exported_file(source)
    unread = [Path(file).parent.name for file in EXPORTED.values() if source / file != exported]
    ignored = shutil.ignore_patterns(*_NOT_THE_MODEL, *unread)
    shutil.copytree(source, folder, ignore=ignored, dirs_exist_ok=True)
