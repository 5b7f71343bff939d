"""`compress`: build all variants of a model, measure them, and write the requested one."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers.utils import logging as transformers_logging

from sentemb._files import check_new_folder, new_folder, write_json, write_text
from sentemb.compression.distillation import Progress, ignore_progress
from sentemb.compression.report import VariantReports, measure_variants, variant_card
from sentemb.compression.variants import (
    CALIBRATION_TEXTS,
    STUDENT,
    WHOLE,
    Variant,
    draw_calibration_texts,
    original_of,
    student_variant,
    variants_of,
)
from sentemb.data.documents import Document
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.poolings import Poolings
from sentemb.modules.source import find_source

logger = logging.getLogger(__name__)

TOLERANCE = 1.0
"""Default for the points of STS or NDCG@10 that a written variant may lose."""
EVALUATION_DOCUMENTS = 500
"""Documents that queries are generated from and that are searched."""
_SPEED_TEXTS = 256
_LONGEST_REASON = 160
_RECORD = "compression.json"


class Division(NamedTuple):
    """Documents in two parts.

    Attributes:
        calibration: Texts to calibrate on.
        evaluation: Documents to evaluate on.
        shared: Number of calibration texts that are also evaluation documents.
    """

    calibration: list[str]
    evaluation: list[Document]
    shared: int


def divide_documents(documents: Sequence[Document], *, seed: int = 0) -> Division:
    """Divide documents into texts for calibration and documents for evaluation.

    A variant looks better than it is on the texts that it was calibrated on.

    Args:
        documents: The documents.
        seed: Seed of the draw.

    Returns:
        500 documents to evaluate on, and 600 texts of the others. If the others are fewer, evaluation
        documents make up for them.

    Example:
        >>> division = divide_documents(documents)  # doctest: +SKIP
    """
    order = np.random.default_rng(seed).permutation(len(documents)).tolist()
    evaluation, others = order[:EVALUATION_DOCUMENTS], order[EVALUATION_DOCUMENTS:]
    shared = evaluation[: max(0, CALIBRATION_TEXTS - len(others))]
    return Division(
        [documents[number].whole for number in [*others[:CALIBRATION_TEXTS], *shared]],
        [documents[number] for number in evaluation],
        len(shared),
    )


class Compressed(NamedTuple):
    """Result of `compress`.

    Attributes:
        reports: Reports of all variants.
        meanings: Description of each variant, by name.
        missing: Why other variants are missing, by their names.
    """

    reports: VariantReports
    meanings: dict[str, str]
    missing: dict[str, str]


class QualityDropError(InputError):
    """The requested variant loses more than the tolerance; nothing was written.

    Attributes:
        found: The reports of all variants.
    """

    def __init__(self, message: str, found: Compressed) -> None:
        super().__init__(message, "write another variant, or raise --tolerance")
        self.found = found


def compress(
    model: str | Path,
    texts: Sequence[str],
    *,
    pairs: Sequence[ScoredPairs] = (),
    tasks: Sequence[RetrievalSet] = (),
    student: str | Path | None = None,
    only: Sequence[str] = (),
    wanted: str | None = None,
    output: Path | None = None,
    overwrite: bool = False,
    tolerance: float = TOLERANCE,
    pooling: Poolings | None = None,
    max_length: int | None = None,
    seed: int = 0,
    about: Mapping[str, Any] | None = None,
    progress: Progress = ignore_progress,
) -> Compressed:
    """Measure smaller variants of a model, and write one.

    Args:
        model: Name, folder or hub id.
        texts: Your texts: variants are calibrated and timed on them.
        pairs: Scored pairs to evaluate on.
        tasks: Queries to evaluate on, generated from other documents than `texts` (see `divide_documents`).
        student: A model to compare with the variants, such as a student of `sentemb distill`.
        only: Names of variants. The default is all; the model itself and a student are always measured.
        wanted: The variant to write.
        output: Folder to write it to.
        overwrite: Replace a folder that this function wrote before.
        tolerance: Points of STS or NDCG@10 that it may lose.
        pooling: Pooling of a pretrained transformer that does not define one.
        max_length: Maximum input length in tokens. The default is the model's own.
        seed: Random seed.
        about: For card and record, JSON values only: `model`, `texts`, `command`, `versions`, `seed`, and
            `terms`, the license and language of the model.
        progress: Called with a stage, the number done and the total.

    Returns:
        The reports.

    Raises:
        InputError: The model or a variant does not exist, or the output cannot be written.
        QualityDropError: The requested variant loses more than the tolerance. It holds all reports.

    Example:
        >>> found = compress("static-mini", texts, pairs=[read_scored_pairs("pairs.csv")])  # doctest: +SKIP
    """
    if output is not None:
        _check_folder(output, overwrite=overwrite)
    if not texts:
        raise InputError("there are no documents to measure variants on", "pass documents, or scored pairs")
    if not (pairs or tasks):
        raise InputError(
            f"the {len(texts):,} documents are too few or too similar to measure variants on",
            "pass more documents, or add scored pairs with --sets",
        )
    transformers_logging.disable_progress_bar()  # it would show a bar for every written folder
    loaded = load(model, pooling=pooling, max_length=max_length, device="cpu")
    source = None if pooling or max_length else find_source(str(model))
    original = original_of(loaded, draw_calibration_texts(texts, seed=seed), source)
    variants, missing = variants_of(original)
    if student is not None:
        variants.append(student_variant(student))
    variants = _chosen(variants, missing, only, wanted)
    with tempfile.TemporaryDirectory(prefix="sentemb-compress-") as place:
        folders: dict[str, Path] = {}
        encoders: dict[str, TextEncoder] = {}
        told: dict[str, dict[str, Any]] = {}
        for done, variant in enumerate(variants):
            progress(f"making {variant.name}", done, len(variants))
            folders[variant.name] = Path(place, variant.name)
            folders[variant.name].mkdir()
            try:
                told[variant.name] = variant.build(folders[variant.name])
                # Converted networks compute on the CPU, so the others do too.
                encoders[variant.name] = load_encoder(folders[variant.name], device="cpu")
            except Exception as error:  # each exporter has its own exceptions
                if variant.name in (WHOLE, STUDENT):
                    raise
                reason = _reason(error, place)
                if variant.name == wanted:
                    raise InputError(
                        f"the variant {wanted} of this model cannot be made: {reason}",
                        "write another variant",
                    ) from error
                logger.debug("%s cannot be made", variant.name, exc_info=True)
                missing[variant.name] = reason
        reports = measure_variants(
            {name: (folders[name], encoder) for name, encoder in encoders.items()},
            pairs,
            tasks,
            original.texts[:_SPEED_TEXTS],
            cache=Path(place, "vectors"),
            seed=seed,
            progress=progress,
        )
        meanings = {one.name: one.meaning for one in variants if one.name in encoders}
        found = Compressed(reports, meanings, missing)
        if wanted is not None and output is not None:
            _check_quality(found, wanted, tolerance)
            row, known = reports.find(wanted), about or {}
            _check_folder(output, overwrite=overwrite)  # another process may have written to it
            with new_folder(output, overwrite=overwrite) as target:
                shutil.copytree(folders[wanted], target, dirs_exist_ok=True)
                record = {**known, **row.to_json(), "made": told[wanted], "tolerance": tolerance}
                write_json(target / _RECORD, record)
                text = variant_card(output.name, meanings[wanted], reports, row, known, target)
                write_text(target / "README.md", text)
    return found


def _check_folder(output: Path, *, overwrite: bool) -> None:
    """Raise InputError if the folder cannot be written, or if its content may not be replaced."""
    check_new_folder(output, overwrite=overwrite and (output / _RECORD).is_file())


def _check_quality(found: Compressed, wanted: str, tolerance: float) -> None:
    """Raise QualityDropError if a variant loses more than the tolerance."""
    row = found.reports.find(wanted)
    if row.quality_drop <= tolerance:
        return
    losses = [
        f"{one.size:+.2f} {label}"
        for label, one in (("STS", row.sts), ("NDCG@10", row.ndcg))
        if one is not None and -one.size > tolerance
    ]
    raise QualityDropError(
        f"{wanted} loses more than {tolerance:g} point{'' if tolerance == 1 else 's'}: {', '.join(losses)}",
        found,
    )


def _reason(error: Exception, place: str) -> str:
    """Return an error in one line, without the temporary folder."""
    told = error.message if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return " ".join(told.replace(f"{place}/", "").split())[:_LONGEST_REASON]


def _chosen(
    variants: list[Variant], missing: Mapping[str, str], only: Sequence[str], wanted: str | None
) -> list[Variant]:
    """Return the requested variants, including the one to write; all without `only`."""
    known = [one.name for one in variants]
    named = [*only, *([] if wanted is None else [wanted])]
    for name in named:
        if name not in known:
            reasons = (
                reason for names, reason in missing.items() if name.startswith(tuple(names.split(", ")))
            )
            raise InputError(
                f"this model does not have a variant {name!r}{''.join(f': {reason}' for reason in reasons)}",
                f"choose one of {', '.join(known)}",
            )
    return [one for one in variants if not only or one.name in (WHOLE, STUDENT, *named)]
