"""Build all variants of a model, price them, and write the one that is asked for."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers.utils import logging as transformers_logging

from sentemb._files import check_new_folder, new_folder, write_json, write_text
from sentemb.compression.card import card
from sentemb.compression.price import Prices, price
from sentemb.compression.student import STUDENT, student_variant
from sentemb.compression.variants import WHOLE, Variant, calibration_texts, original_of, variants_of
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.poolings import Poolings
from sentemb.modules.source import find_source

logger = logging.getLogger(__name__)

TOLERANCE = 1.0
"""Points of STS or NDCG@10 that a variant may lose to be written."""
_SPEED_TEXTS = 256
_LONGEST_REASON = 160
_RECORD = "compression.json"


class Compressed(NamedTuple):
    """What `compress` found.

    Attributes:
        prices: Of all variants.
        meanings: What each is, by name.
        missing: Why other variants are not there, by their names.
    """

    prices: Prices
    meanings: dict[str, str]
    missing: dict[str, str]


class LossError(InputError):
    """The wanted variant loses more than it may; nothing was written.

    Attributes:
        found: What all of them cost.
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
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Compressed:
    """Price the smaller forms of a model, and write one.

    Args:
        model: Name, folder or hub id.
        texts: The user's texts: variants are calibrated and timed on them.
        pairs: Scored pairs to price them on.
        tasks: Queries to price them on, cut from other documents than `texts` (see `divide_documents`).
        student: A model to price beside the variants, such as a static student of `sentemb distill`.
        only: Names of the variants, all by default; the model itself and a student are always priced.
        wanted: The variant to write.
        output: The folder to write it to.
        overwrite: Whether to replace a folder that this function wrote before.
        tolerance: Points of STS or NDCG@10 that it may lose.
        pooling: Of the model; its own by default.
        max_length: Longest input in tokens; the model's own by default.
        seed: Of every draw.
        about: For card and record, JSON values only: `model`, `texts`, `command`, `versions`, `seed`, and
            `terms`, the licence and the language of the model.
        progress: Takes a stage, and how much of how much of it is done.

    Returns:
        The prices.

    Raises:
        InputError: The model or a variant is not there, or the output cannot be written.
        LossError: The wanted variant loses more than it may. It holds all prices.

    Example:
        >>> prices = compress("static-mini", texts, pairs=[read_scored_pairs("pairs.csv")])  # doctest: +SKIP
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
    transformers_logging.disable_progress_bar()  # a bar for every folder that is written
    loaded = load(model, pooling=pooling, max_length=max_length, device="cpu")
    source = None if pooling or max_length else find_source(str(model))
    original = original_of(loaded, calibration_texts(texts, seed=seed), source)
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
                # Converted networks compute on the CPU: what is compared with them does as well.
                encoders[variant.name] = load_encoder(folders[variant.name], device="cpu")
            except Exception as error:  # each exporter has exceptions of its own
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
        prices = price(
            {name: (folders[name], encoder) for name, encoder in encoders.items()},
            pairs,
            tasks,
            original.texts[:_SPEED_TEXTS],
            cache=Path(place, "vectors"),
            seed=seed,
            progress=progress,
        )
        meanings = {one.name: one.meaning for one in variants if one.name in encoders}
        found = Compressed(prices, meanings, missing)
        if wanted is not None and output is not None:
            _refuse_losses(found, wanted, tolerance)
            row, known = prices.find(wanted), about or {}
            _check_folder(output, overwrite=overwrite)  # somebody may have put something there meanwhile
            with new_folder(output, overwrite=overwrite) as target:
                shutil.copytree(folders[wanted], target, dirs_exist_ok=True)
                record = {**known, **row.to_json(), "made": told[wanted], "tolerance": tolerance}
                write_json(target / _RECORD, record)
                text = card(output.name, found.meanings[wanted], prices, row, known, target)
                write_text(target / "README.md", text)
    return found


def _check_folder(output: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or whose content may not be replaced: before the work."""
    check_new_folder(output, overwrite=overwrite and (output / _RECORD).is_file())


def _refuse_losses(found: Compressed, wanted: str, tolerance: float) -> None:
    """Refuse a variant that loses more than it may."""
    row = found.prices.find(wanted)
    if row.loss <= tolerance:
        return
    losses = [
        f"{one.size:+.2f} {label}"
        for label, one in (("STS", row.sts), ("NDCG@10", row.ndcg))
        if one is not None and -one.size > tolerance
    ]
    raise LossError(
        f"{wanted} loses more than {tolerance:g} point{'' if tolerance == 1 else 's'}: {', '.join(losses)}",
        found,
    )


def _reason(error: Exception, place: str) -> str:
    """An error in one line, without the temporary folder in which it happened."""
    told = error.message if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return " ".join(told.replace(f"{place}/", "").split())[:_LONGEST_REASON]


def _chosen(
    variants: list[Variant], missing: Mapping[str, str], only: Sequence[str], wanted: str | None
) -> list[Variant]:
    """Those that are asked for, the wanted one among them; without `only` all."""
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
