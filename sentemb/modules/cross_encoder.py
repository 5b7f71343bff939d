"""Loading of cross-encoders, which score a query with a document."""

from __future__ import annotations

from pathlib import Path

from sentence_transformers import CrossEncoder

from sentemb.errors import InputError
from sentemb.modules.check import loading
from sentemb.modules.source import check_kind, find_source, naming_code


def load_cross_encoder(name: str, *, device: str | None = None) -> CrossEncoder:
    """Load a cross-encoder with one score for a pair, from a folder or by hub id.

    Raises:
        InputError: The model does not exist, cannot be read, or is of another kind.
    """
    source = find_source(name)
    if source.has_modules or source.architecture:  # otherwise the folder does not say what it is
        check_kind(source, "cross-encoder")
    with naming_code(source), loading(source.address):
        model = CrossEncoder(
            source.address,
            device=device,
            revision=source.revision,
            local_files_only=Path(source.address).is_dir(),
        )
    if model.num_labels != 1:
        raise InputError(
            f"{name} computes {model.num_labels} scores for a pair, not one",
            "use a cross-encoder for ranking",
        )
    return model
