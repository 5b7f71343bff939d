"""`compress`: build all variants of a model, measure them, and write the requested one with its card."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers.utils import logging as transformers_logging

from sentemb._files import check_new_folder, new_folder, write_json, write_text
from sentemb.compression.distillation import Progress, ignore_progress
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
from sentemb.data.sources import name_files
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.errors import InputError
from sentemb.evaluation import Record, compare_all, evaluate_pairs, evaluate_retrieval, system_of
from sentemb.evaluation.comparison import Difference
from sentemb.evaluation.environment import library_versions, time_in_turns
from sentemb.evaluation.systems import with_clusters
from sentemb.modules import load
from sentemb.modules.cards import base_terms, front_matter, public_name, table
from sentemb.modules.poolings import Poolings
from sentemb.modules.rounding import RoundedVectors
from sentemb.modules.source import find_source

logger = logging.getLogger(__name__)

TOLERANCE = 1.0
"""Default for the points of STS or NDCG@10 that a written variant may lose."""
EVALUATION_DOCUMENTS = 500
"""Documents that queries are generated from and that are searched."""
NDCG = "ndcg@10"
_SPEED_TEXTS = 256
_ROUNDS = 3
_FLOAT_BYTES = 4
_WEIGHTS = (".safetensors", ".onnx", ".xml", ".bin")
_RECORD = "compression.json"


class Division(NamedTuple):
    """Documents in two parts."""

    calibration: list[str]  # texts
    evaluation: list[Document]
    shared: int  # number of calibration texts that are also evaluation documents


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


@dataclass(frozen=True)
class VariantReport:
    """Size, speed and quality drop of one variant.

    Attributes:
        name: Name of the variant.
        bytes: Size of its weights and graphs.
        vector_bytes: Size of a vector.
        speed: Texts per second, interleaved with the other variants.
        sts: Difference of the correlations x 100, variant minus model; None without scored pairs.
        ndcg: Difference of NDCG@10 x 100; None without queries.
        best: Whether no other variant is as good or better in every respect.
    """

    name: str
    bytes: int
    vector_bytes: int
    speed: float
    sts: Difference | None
    ndcg: Difference | None
    best: bool = False

    @property
    def quality_drop(self) -> float:
        """The larger of both quality drops in points; 0 if there is none."""
        return max([0.0, *(-one.size for one in (self.sts, self.ndcg) if one is not None)])

    def to_json(self) -> dict[str, Any]:
        """Return all numbers, for a record."""
        quality = {
            name: one
            and {
                "difference": one.size,
                "interval": None if one.interval is None else list(one.interval),
                "p": one.p,
                "score": one.scores[1],
                "items": one.items,
            }
            for name, one in (("sts", self.sts), (NDCG, self.ndcg))
        }
        return {
            "name": self.name,
            "bytes": self.bytes,
            "bytes_of_a_vector": self.vector_bytes,
            "texts_per_second": self.speed,
            **quality,
            "pareto": self.best,
        }


@dataclass(frozen=True)
class VariantReports:
    """Reports of all variants, the model itself first.

    Attributes:
        rows: One report per variant.
        pairs: Names of the sets of scored pairs.
        tasks: Names of the sets of queries.
        texts: Number of texts that speed was measured on.
        meanings: Description of each variant, by name.
        missing: Why other variants are missing, by their names.
        about: What the record says besides: the model, the texts, the command, versions.
    """

    rows: tuple[VariantReport, ...]
    pairs: tuple[str, ...]
    tasks: tuple[str, ...]
    texts: int
    meanings: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def find(self, name: str) -> VariantReport:
        """Return the report of a variant."""
        return next(row for row in self.rows if row.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return all numbers, for a record."""
        variants = [row.to_json() for row in self.rows]
        return {**self.about, "sets": self.pairs, "tasks": self.tasks, "variants": variants}


class QualityDropError(InputError):
    """The requested variant loses more than the tolerance; nothing was written.

    Attributes:
        found: The reports of all variants.
    """

    def __init__(self, message: str, found: VariantReports) -> None:
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
) -> VariantReports:
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
        about: More for card and record, JSON values only, such as `texts` (see `describe_source`), `command`.
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
    known = {
        "model": public_name(str(model)),
        "seed": seed,
        "versions": library_versions(),
        "terms": base_terms(str(model)),
        **(about or {}),
    }
    with tempfile.TemporaryDirectory(prefix="sentemb-compress-") as place:
        made, details = _make(variants, Path(place), missing, wanted, progress)
        timed = original.texts[:_SPEED_TEXTS]
        cache = Path(place, "vectors")
        found = replace(
            measure_variants(made, pairs, tasks, timed, cache=cache, seed=seed, progress=progress),
            meanings={one.name: one.meaning for one in variants if one.name in made},
            missing=missing,
            about=known,
        )
        if wanted is not None and output is not None:
            row = found.find(wanted)
            losses = [
                f"{one.size:+.2f} {label}"
                for label, one in (("STS", row.sts), ("NDCG@10", row.ndcg))
                if one is not None and -one.size > tolerance
            ]
            if losses:
                points = f"{tolerance:g} point{'' if tolerance == 1 else 's'}"
                raise QualityDropError(f"{wanted} loses more than {points}: {', '.join(losses)}", found)
            _check_folder(output, overwrite=overwrite)  # another process may have written to it
            with new_folder(output, overwrite=overwrite) as target:
                shutil.copytree(made[wanted][0], target, dirs_exist_ok=True)
                record = {**known, **row.to_json(), "made": details[wanted], "tolerance": tolerance}
                write_json(target / _RECORD, record)
                write_text(target / "README.md", _card(output.name, found, row, target))
    return found


def _check_folder(output: Path, *, overwrite: bool) -> None:
    """Raise InputError if the folder cannot be written, or if its content may not be replaced."""
    check_new_folder(output, overwrite=overwrite and (output / _RECORD).is_file())


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


def _make(
    variants: Sequence[Variant],
    place: Path,
    missing: dict[str, str],
    wanted: str | None,
    progress: Progress,
) -> tuple[dict[str, tuple[Path, TextEncoder]], dict[str, Any]]:
    """Write and load variants. Return folders and encoders, and details for the record."""
    made, details = {}, {}
    for done, variant in enumerate(variants):
        progress(f"making {variant.name}", done, len(variants))
        folder = place / variant.name
        folder.mkdir()
        try:
            details[variant.name] = variant.build(folder)
            # Converted networks compute on the CPU, so the others do too.
            made[variant.name] = folder, load_encoder(folder, device="cpu")
        except Exception as error:  # each exporter has its own exceptions
            if variant.name in (WHOLE, STUDENT):
                raise
            told = error.message if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            reason = " ".join(told.replace(f"{place}/", "").split())[:160]
            if variant.name == wanted:
                why = f"the variant {wanted} of this model cannot be made: {reason}"
                raise InputError(why, "write another variant") from error
            logger.debug("%s cannot be made", variant.name, exc_info=True)
            missing[variant.name] = reason
    return made, details


def measure_variants(
    variants: Mapping[str, tuple[Path, TextEncoder]],
    pairs: Sequence[ScoredPairs],
    tasks: Sequence[RetrievalSet],
    texts: Sequence[str],
    *,
    cache: Path,
    seed: int,
    progress: Progress,
) -> VariantReports:
    """Measure variants, given by folder and encoder, of which the first is the model itself."""
    on_pairs: dict[str, Record] = {}
    on_tasks: dict[str, Record] = {}
    for done, (name, (_, encoder)) in enumerate(variants.items()):
        progress(f"measuring quality of {name}", done, len(variants))
        kept = CachedEncoder(encoder, cache / name)
        if pairs:
            on_pairs[name] = evaluate_pairs(kept, pairs)
        if tasks:
            on_tasks[name] = evaluate_retrieval(kept, tasks)
    progress("measuring speed", 0, 1)
    actions = {name: partial(encoder.encode, texts) for name, (_, encoder) in variants.items()}
    seconds = time_in_turns(actions, rounds=_ROUNDS)
    progress("comparing", 0, 1)
    sts, ndcg = _differences(on_pairs, None, (), seed), _differences(on_tasks, NDCG, tasks, seed)
    rows, merits = [], []
    for name, (folder, encoder) in variants.items():
        last = list(encoder.model)[-1] if isinstance(encoder, SentenceEncoder) else None
        row = VariantReport(
            name,
            # Only a student has another vocabulary or configuration.
            sum(file.stat().st_size for file in folder.rglob("*") if file.suffix in _WEIGHTS),
            last.bytes if isinstance(last, RoundedVectors) else _FLOAT_BYTES * encoder.dimension,
            len(texts) / min(seconds[name]),
            sts.get(name),
            ndcg.get(name),
        )
        sizes = (0.0 if one is None else one.size for one in (row.sts, row.ndcg))
        rows.append(row)
        merits.append(np.array([-row.bytes, -row.vector_bytes, row.speed, *sizes]))
    return VariantReports(
        tuple(
            replace(row, best=not any((one >= own).all() and (one != own).any() for one in merits))
            for row, own in zip(rows, merits, strict=True)
        ),
        tuple(one.name for one in pairs),
        tuple(one.name for one in tasks),
        len(texts),
    )


def _differences(
    records: Mapping[str, Record], measure: str | None, tasks: Sequence[RetrievalSet], seed: int
) -> dict[str, Difference]:
    """Return the average difference of each variant from the model; tasks may share documents."""
    if not records:
        return {}
    systems = {
        name: with_clusters(
            system_of([record.model_copy(update={"model": name})], name, measure=measure), tasks
        )
        for name, record in records.items()
    }
    whole = systems.pop(WHOLE)
    return {one.second: one.headline for one in compare_all(whole, [*systems.values()], seed=seed)}


def _card(name: str, found: VariantReports, row: VariantReport, folder: Path) -> str:
    """Return the card of a variant, whose folder shows how it is loaded."""
    whole, about = found.rows[0], found.about

    def shown(one: Difference | None) -> str | None:
        if one is None or one.interval is None:
            return None if one is None else str(one)
        return f"{one.size:+.2f} ({one.interval[0]:+.2f} to {one.interval[1]:+.2f})"

    rows = {
        "Compressed from": about["model"],
        "License of that model": about["terms"].get("license", "not stated in its card"),
        "Texts": name_files(about["texts"]) if "texts" in about else None,
        "Size": f"{row.bytes / 1e6:.1f} MB of {whole.bytes / 1e6:.1f}",
        "Bytes per vector": f"{row.vector_bytes:,} of {whole.vector_bytes:,}",
        "Speed": f"{row.speed:,.0f} texts per second on the machine that made it; the original "
        f"{whole.speed:,.0f}",
        f"Spearman x 100 on {', '.join(found.pairs)}": shown(row.sts),
        f"NDCG@10 x 100 on queries generated from the texts ({', '.join(found.tasks)})": shown(row.ndcg),
        "Seed": about["seed"],
        "Versions": ", ".join(f"{library} {version}" for library, version in about["versions"].items()),
    }
    if "sentemb." in (folder / "modules.json").read_text(encoding="utf-8"):
        code = f'import sentemb\n\nencoder = sentemb.load("{name}")'
    else:
        backends = (f', backend="{one}"' for one in ("onnx", "openvino") if (folder / one).is_dir())
        code = (
            "from sentence_transformers import SentenceTransformer\n\n"
            f'encoder = SentenceTransformer("{name}"{next(backends, "")})'
        )
    parts = [
        front_matter(about["terms"]),
        f"# {name}",
        f"{about['model']}, compressed by sentemb: {found.meanings[row.name]}.",
        f"```python\n{code}\n```",
        *([f"Made with\n\n```bash\n{about['command']}\n```"] if "command" in about else []),
        table(rows),
        "Differences are this model minus the original, with 95% intervals.",
    ]
    return "\n\n".join(parts) + "\n"
