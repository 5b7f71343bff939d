"""Measurement of variants: size, speed, and quality drop with interval and p; and the card of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sentemb.compression.distillation import Progress, ignore_progress
from sentemb.compression.variants import WHOLE
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.sources import name_files
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.evaluation import Difference, Record, compare_all, evaluate_pairs, evaluate_retrieval, system_of
from sentemb.evaluation.systems import with_clusters
from sentemb.evaluation.timing import time_in_turns
from sentemb.modules.cards import front_matter, table
from sentemb.modules.rounding import RoundedVectors

NDCG = "ndcg@10"
_ROUNDS = 3
_FLOAT_BYTES = 4


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
        return {
            "name": self.name,
            "bytes": self.bytes,
            "bytes_of_a_vector": self.vector_bytes,
            "texts_per_second": self.speed,
            "sts": _numbers(self.sts),
            "ndcg@10": _numbers(self.ndcg),
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
    """

    rows: tuple[VariantReport, ...]
    pairs: tuple[str, ...]
    tasks: tuple[str, ...]
    texts: int

    def find(self, name: str) -> VariantReport:
        """Return the report of a variant."""
        return next(row for row in self.rows if row.name == name)


def measure_variants(
    variants: Mapping[str, tuple[Path, TextEncoder]],
    pairs: Sequence[ScoredPairs],
    tasks: Sequence[RetrievalSet],
    texts: Sequence[str],
    *,
    cache: Path,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> VariantReports:
    """Measure variants.

    Args:
        variants: Their folders and encoders by name; the first is the model itself.
        pairs: Scored pairs.
        tasks: Queries with qrels.
        texts: The user's texts, to measure speed on.
        cache: A temporary folder for vectors.
        seed: Seed of the statistics.
        progress: Called with a stage, the number done and the total.

    Returns:
        The reports.
    """
    encoders = {name: encoder for name, (_, encoder) in variants.items()}
    records: dict[str, tuple[Record | None, Record | None]] = {}
    for done, (name, encoder) in enumerate(encoders.items()):
        progress(f"measuring quality of {name}", done, len(encoders))
        kept = CachedEncoder(encoder, cache / name)
        records[name] = (
            evaluate_pairs(kept, pairs) if pairs else None,
            evaluate_retrieval(kept, tasks) if tasks else None,
        )
    progress("measuring speed", 0, 1)
    seconds = time_in_turns(
        {name: partial(encoder.encode, texts) for name, encoder in encoders.items()},
        rounds=_ROUNDS,
    )
    progress("comparing", 0, 1)
    sts = _differences({name: both[0] for name, both in records.items()}, None, (), seed)
    ndcg = _differences({name: both[1] for name, both in records.items()}, NDCG, tasks, seed)
    rows = [
        VariantReport(
            name,
            _size(folder),
            _vector_bytes(encoder),
            len(texts) / min(seconds[name]),
            sts.get(name),
            ndcg.get(name),
        )
        for name, (folder, encoder) in variants.items()
    ]
    return VariantReports(
        tuple(replace(row, best=not _is_beaten(row, rows)) for row in rows),
        tuple(one.name for one in pairs),
        tuple(one.name for one in tasks),
        len(texts),
    )


def _size(folder: Path) -> int:
    """Return the bytes of weights and graphs; only a student has another vocabulary or configuration."""
    kinds = (".safetensors", ".onnx", ".xml", ".bin")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.suffix in kinds)


def _vector_bytes(encoder: TextEncoder) -> int:
    last = list(encoder.model)[-1] if isinstance(encoder, SentenceEncoder) else None
    return last.bytes if isinstance(last, RoundedVectors) else _FLOAT_BYTES * encoder.dimension


def _differences(
    records: Mapping[str, Record | None], measure: str | None, tasks: Sequence[RetrievalSet], seed: int
) -> dict[str, Difference]:
    """Return the average difference of each variant from the model; tasks may share documents."""
    found = {name: record.model_copy(update={"model": name}) for name, record in records.items() if record}
    if not found:
        return {}
    systems = {
        name: with_clusters(system_of([record], name, measure=measure), tasks)
        for name, record in found.items()
    }
    others = [system for name, system in systems.items() if name != WHOLE]
    compared = compare_all(systems[WHOLE], others, seed=seed)
    return {one.second: one.headline for one in compared}


def _is_beaten(row: VariantReport, rows: Sequence[VariantReport]) -> bool:
    mine = _goods(row)
    return any(
        all(other >= own for other, own in zip(_goods(one), mine, strict=True)) and _goods(one) != mine
        for one in rows
    )


def _goods(row: VariantReport) -> tuple[float, ...]:
    """Return the values of which larger is better."""
    sizes = [0.0 if one is None else one.size for one in (row.sts, row.ndcg)]
    return -row.bytes, -row.vector_bytes, row.speed, *sizes


def _numbers(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "difference": found.size,
        "interval": None if found.interval is None else list(found.interval),
        "p": found.p,
        "score": found.scores[1],
        "items": found.items,
    }


def variant_card(
    name: str,
    meaning: str,
    reports: VariantReports,
    row: VariantReport,
    about: Mapping[str, Any],
    folder: Path,
) -> str:
    """Return the card of a variant.

    Args:
        name: Name of the model.
        meaning: Description of the variant.
        reports: Reports of all variants, the model itself first.
        row: The variant's report.
        about: `model`, `texts`, `command`, `seed`, `versions`, and the model's `terms`.
        folder: The variant's folder, whose files show how it is loaded.

    Returns:
        Markdown.
    """
    whole, terms = reports.rows[0], about.get("terms", {})
    rows = {
        "Compressed from": about.get("model", "a model"),
        "License of that model": terms.get("license", "not stated in its card"),
        "Texts": name_files(about["texts"]) if "texts" in about else None,
        "Size": f"{row.bytes / 1e6:.1f} MB of {whole.bytes / 1e6:.1f}",
        "Bytes per vector": f"{row.vector_bytes:,} of {whole.vector_bytes:,}",
        "Speed": f"{row.speed:,.0f} texts per second on the machine that made it; the original "
        f"{whole.speed:,.0f}",
        f"Spearman x 100 on {', '.join(reports.pairs)}": row.sts,
        f"NDCG@10 x 100 on queries generated from the texts ({', '.join(reports.tasks)})": row.ndcg,
        "Seed": about.get("seed"),
        "Versions": ", ".join(
            f"{library} {version}" for library, version in about.get("versions", {}).items()
        ),
    }
    shown = {title: _difference(value) for title, value in rows.items() if value not in (None, "")}
    parts = [
        front_matter(terms),
        f"# {name}",
        f"{about.get('model', 'A model')}, compressed by sentemb: {meaning}.",
        f"```python\n{_loading(name, folder)}\n```",
        table(shown),
        "Differences are this model minus the original, with 95% intervals.",
    ]
    if command := about.get("command"):
        parts.insert(4, f"Made with\n\n```bash\n{command}\n```")
    return "\n\n".join(parts) + "\n"


def _difference(value: Any) -> str:
    if getattr(value, "interval", None) is None:
        return str(value)
    low, high = value.interval
    return f"{value.size:+.2f} ({low:+.2f} to {high:+.2f})"


def _loading(name: str, folder: Path) -> str:
    """Return the code that loads the folder."""
    if "sentemb." in (folder / "modules.json").read_text(encoding="utf-8"):
        return f'import sentemb\n\nencoder = sentemb.load("{name}")'
    backend = next((f', backend="{one}"' for one in ("onnx", "openvino") if (folder / one).is_dir()), "")
    return (
        "from sentence_transformers import SentenceTransformer\n\n"
        f'encoder = SentenceTransformer("{name}"{backend})'
    )
