"""A student that is there already, as a form of the model like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentemb.compression.copies import write_copy
from sentemb.compression.variants import Variant
from sentemb.modules import load
from sentemb.modules.source import find_source

STUDENT = "student"
"""What the row of a student is called."""


def student_variant(student: str | Path) -> Variant:
    """The variant whose folder has a student's own files.

    Args:
        student: Folder, hub id or bundled model.

    Returns:
        The variant.

    Raises:
        InputError: There is no such model, or it cannot be read.
    """
    source, model = find_source(str(student)), load(student, device="cpu")

    def build(folder: Path) -> dict[str, Any]:
        write_copy(source, model, folder)
        return {}

    return Variant(STUDENT, "the student", build)
