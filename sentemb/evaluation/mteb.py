"""Export to the result files of MTEB 2: `results/<org__model>/<revision>/<task>.json` and `model_meta.json`.

A number goes out under a task's name only if it was measured on the task's population: all STS sets but
`sickr`, whose 4,927 pairs are SentEval's test split; MTEB's SICK-R is `sickr-mteb` with 9,927.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentemb._files import write_json
from sentemb.data import catalogue
from sentemb.errors import InputError
from sentemb.evaluation.record_files import slug
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.scoring import SetScore

TASKS = {
    "sts12": "STS12",
    "sts13": "STS13",
    "sts14": "STS14",
    "sts15": "STS15",
    "sts16": "STS16",
    "stsb": "STSBenchmark",
    "sickr-mteb": "SICK-R",
}


@dataclass(frozen=True)
class MtebExport:
    """What was written and what was not.

    Attributes:
        files: Task files, in the record's order.
        skipped: Reason by set.
    """

    files: tuple[Path, ...]
    skipped: dict[str, str]


def export_mteb(record: ResultRecord, folder: Path, *, model_name: str | None = None) -> MtebExport:
    """Write a record as MTEB result files.

    Correlations are fractions under the protocol `all`, which is MTEB's.
    `evaluation_time` is null, since the sentences of all sets are encoded together, and so is `mteb_version`,
    since MTEB did not run. The revision is the model's fingerprint.

    Args:
        record: The record.
        folder: Where `results/` is made or extended.
        model_name: `organization/model`, as MTEB demands; by default the record's name, under `local/` where
            it has no organization.

    Returns:
        The files written, and the sets left out with the reason.

    Raises:
        InputError: `model_name` has no organization, or no set of the record has MTEB's population.
        OSError: The folder cannot be written.
    """
    name = model_name or (record.model if record.model.count("/") == 1 else f"local/{slug(record.model)}")
    organization, _, model = name.partition("/")
    if not organization or not model or "/" in model:
        raise InputError(f"{name!r} is no name for MTEB", "give it as organization/model")
    reasons = {one.name: _reason_against(one) for one in record.sets}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    exported = [one for one in record.sets if one.name not in skipped]
    if not exported:
        raise InputError(f"no set of {record.model} can be exported to MTEB: {'; '.join(skipped.values())}")
    revision = slug(record.fingerprint)[:40]
    target = folder / "results" / f"{slug(organization)}__{slug(model)}" / revision
    files = []
    for one in exported:
        path = target / f"{TASKS[one.name]}.json"
        write_json(path, _task_result(one))
        files.append(path)
    write_json(target / "model_meta.json", _model_meta(record, name, revision))
    return MtebExport(files=tuple(files), skipped=skipped)


def _reason_against(score: SetScore) -> str | None:
    if score.name == "sickr":
        return f"sickr has {score.pairs:,} pairs, MTEB's SICK-R 9,927: evaluate sickr-mteb for it"
    if score.name not in TASKS:
        return f"{score.name} is no task of MTEB"
    if score.split != "test":
        return f"{score.name} was scored on the split {score.split}, MTEB's task is on test"
    expected = catalogue.get(score.name).rows["test"]
    if score.pairs != expected:
        return f"{score.name} has {score.pairs:,} pairs, MTEB's {TASKS[score.name]} {expected:,}"
    return None


def _task_result(score: SetScore) -> dict[str, Any]:
    correlations = score.scores["all"]
    spearman, pearson = correlations.spearman / 100, correlations.pearson / 100
    return {
        # The catalogue pins the revisions that MTEB's task classes pin.
        "dataset_revision": catalogue.get(score.name).revision,
        "task_name": TASKS[score.name],
        "mteb_version": None,
        "scores": {
            "test": [
                {
                    "pearson": pearson,
                    "spearman": spearman,
                    "cosine_pearson": pearson,
                    "cosine_spearman": spearman,
                    "main_score": spearman,
                    "hf_subset": "default",
                    "languages": ["eng-Latn"],
                }
            ]
        },
        "evaluation_time": None,
        "kg_co2_emissions": None,
    }


def _model_meta(record: ResultRecord, name: str, revision: str) -> dict[str, Any]:
    native = record.encoder.get("encoder") == "sentence-transformers"
    unknown = (
        "loader",
        "release_date",
        "languages",
        "n_parameters",
        "memory_usage_mb",
        "license",
        "open_weights",
        "public_training_code",
        "public_training_data",
        "reference",
        "use_instructions",
        "training_datasets",
        "adapted_from",
        "superseded_by",
    )
    return {
        "name": name,
        "revision": revision,
        "embed_dim": record.dimension,
        "max_tokens": record.encoder.get("max_length"),
        "framework": ["Sentence Transformers", "PyTorch"] if native else [],
        "similarity_fn_name": "cosine",
        **dict.fromkeys(unknown),
    }
