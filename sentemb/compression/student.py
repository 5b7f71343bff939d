"""A student that is there already, as a form of the model like any other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download

from sentemb.compression.variants import Variant
from sentemb.modules import load
from sentemb.modules.exported import EXPORTED, exported_file
from sentemb.modules.source import find_source

STUDENT = "student"
"""What the row of a student is called."""
_NOT_THE_MODEL = ("run", ".*", "pytorch_model*.bin")  # how it was trained, and weights that are never read


def student_variant(student: str | Path) -> Variant:
    """The variant whose folder has a student's own files.

    Loaded and saved again, it would not be the same: an int8 table comes back as float32.

    Args:
        student: Folder, hub id or bundled model.

    Returns:
        The variant.

    Raises:
        InputError: There is no such model, or it cannot be read.
    """
    model = load(student, device="cpu")
    source = find_source(str(student))

    def build(folder: Path) -> dict[str, Any]:
        if source.has_modules:
            _copy(_folder_of(source.address), folder)
        else:  # a raw transformer, which has its pooling since it was loaded
            model.save_pretrained(str(folder), create_model_card=False)
        return {}

    return Variant(STUDENT, "the student", build)


def _folder_of(address: str) -> Path:
    """Where a model's files are; those of the hub are in its cache once the model was loaded."""
    place = Path(address)
    return place if place.is_dir() else Path(snapshot_download(address, local_files_only=True))


def _copy(source: Path, folder: Path) -> None:
    exported = exported_file(source)
    unread = [Path(file).parent.name for file in EXPORTED.values() if source / file != exported]
    ignored = shutil.ignore_patterns(*_NOT_THE_MODEL, *unread)
    shutil.copytree(source, folder, ignore=ignored, dirs_exist_ok=True)
