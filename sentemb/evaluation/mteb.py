"""Export to the result files of MTEB 2: `results/<org__model>/<revision>/<task>.json` and `model_meta.json`.

A number goes out under a task's name only if it was measured on the task's population: all STS sets but
`sickr`, whose 4,927 pairs are SentEval's test split; MTEB's SICK-R is `sickr-mteb` with 9,927. The tracks of
SemEval-2017 are languages of one task. Of retrieval it is SciFact, whose documents are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sentemb._files import write_json
from sentemb.data import catalogue
from sentemb.errors import InputError
from sentemb.evaluation.naming import slug
from sentemb.evaluation.retrieval.evaluate import ALL_DOCUMENTS, DEPTH
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import MULTILINGUAL, RETRIEVAL, STS

_ENGLISH = ("eng-Latn",)


class MtebTask(NamedTuple):
    """A task of MTEB, or one language of it."""

    name: str
    subset: str = "default"  # what MTEB calls the part
    languages: tuple[str, ...] = _ENGLISH  # the languages of the two sentences
    queries: int | None = None  # of retrieval


TASKS = {
    "sts12": MtebTask("STS12"),
    "sts13": MtebTask("STS13"),
    "sts14": MtebTask("STS14"),
    "sts15": MtebTask("STS15"),
    "sts16": MtebTask("STS16"),
    "stsb": MtebTask("STSBenchmark"),
    "sickr-mteb": MtebTask("SICK-R"),
    "sts17-ar-ar": MtebTask("STS17", "ar-ar", ("ara-Arab",)),
    "sts17-ar-en": MtebTask("STS17", "en-ar", (*_ENGLISH, "ara-Arab")),
    "sts17-es-es": MtebTask("STS17", "es-es", ("spa-Latn",)),
    "sts17-es-en": MtebTask("STS17", "es-en", ("spa-Latn", *_ENGLISH)),
    "sts17-en-en": MtebTask("STS17", "en-en"),
    "sts17-tr-en": MtebTask("STS17", "en-tr", (*_ENGLISH, "tur-Latn")),
    "scifact": MtebTask("SciFact", queries=300),
}
_SEARCH = {
    "ndcg@10": "ndcg_at_10",
    "mrr@10": "mrr_at_10",
    "map": f"map_at_{DEPTH}",
    "recall@10": "recall_at_10",
    "recall@100": "recall_at_100",
    "precision@10": "precision_at_10",
    "hit@10": "hit_rate_at_10",
}


@dataclass(frozen=True)
class MtebExport:
    """What was written and what was not."""

    files: tuple[Path, ...]  # task files, in the record's order
    skipped: dict[str, str]  # reason by set


def export_mteb(record: Record, folder: Path, *, model_name: str | None = None) -> MtebExport:
    """Write a record as MTEB result files.

    Correlations are fractions under the protocol `all`, which is MTEB's.
    `evaluation_time` is null, since the sentences of all sets are encoded together, and so is `mteb_version`,
    since MTEB did not run. The revision is the model's fingerprint.
    """
    name = model_name or (record.model if record.model.count("/") == 1 else f"local/{slug(record.model)}")
    organization, _, model = name.partition("/")
    if not organization or not model or "/" in model:
        raise InputError(f"{name!r} is not a valid model name for MTEB", "use the form organization/model")
    skipped = unexported((one.name, one.split, one.items) for one in record.datasets)
    exported = [one for one in record.datasets if one.name not in skipped]
    _check_documents(record, [one.name for one in exported])
    revision = slug(record.fingerprint)[:40]
    target = folder / "results" / f"{slug(organization)}__{slug(model)}" / revision
    files = []
    for task in dict.fromkeys(TASKS[one.name].name for one in exported):
        path = target / f"{task}.json"
        parts = [one.name for one in exported if TASKS[one.name].name == task]
        write_json(path, _task_result(record, task, parts))
        files.append(path)
    write_json(target / "model_meta.json", _model_meta(record, name, revision))
    return MtebExport(files=tuple(files), skipped=skipped)


def unexported(sets: Iterable[tuple[str, str, int]]) -> dict[str, str]:
    """Why MTEB has no place for some sets, given by name, split and number of pairs; refuse it of all."""
    reasons = {name: _reason_against(name, split, items) for name, split, items in sets}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    if len(skipped) == len(reasons):
        raise InputError(
            f"the records do not contain a set that can be exported to MTEB: {'; '.join(skipped.values())}"
        )
    return skipped


def _reason_against(name: str, split: str | None, items: int) -> str | None:
    if name == "sickr":
        return f"sickr has {items:,} pairs, but MTEB's SICK-R has 9,927: evaluate sickr-mteb instead"
    if name not in TASKS:
        return f"{name} does not have an equivalent task in MTEB"
    if split != "test":
        return f"{name} was scored on the split {split}, but MTEB's task uses the test split"
    task = TASKS[name]
    expected = task.queries or catalogue.get(name).rows["test"]
    if items != expected:
        return (
            f"{name} has {items:,} {'queries' if task.queries else 'pairs'}, but MTEB's {task.name} "
            f"has {expected:,}"
        )
    return None


def has_tasks(record: Record) -> bool:
    """Whether MTEB has tasks for the suite of a record.

    MTEB 2 has none of SentEval's tasks, and where it classifies English texts its classifiers see eight texts
    of a class: an accuracy of SentEval's would be another number under the name of one of its tasks.
    """
    return record.suite in (STS.name, MULTILINGUAL.name, RETRIEVAL.name)


def _check_documents(record: Record, names: Sequence[str]) -> None:
    """Refuse a search in other documents than MTEB's."""
    for name in names if record.suite == RETRIEVAL.name else ():
        if (
            record.protocol != ALL_DOCUMENTS
            or record.details["documents"][name] != catalogue.get(name).documents
        ):
            raise InputError(
                f"the documents of {name} are not all documents of MTEB's {TASKS[name].name}",
                "evaluate it on a complete copy, without --exclude-same-ids",
            )


def _task_result(record: Record, task: str, names: Sequence[str]) -> dict[str, Any]:
    return {
        # The catalogue pins the revisions that MTEB's task classes pin.
        "dataset_revision": catalogue.get(names[0]).revision,
        "task_name": task,
        "mteb_version": None,
        "scores": {"test": [_subset_result(record, name) for name in names]},
        "evaluation_time": None,
        "kg_co2_emissions": None,
    }


def _subset_result(record: Record, name: str) -> dict[str, Any]:
    task = TASKS[name]
    scores = _search_scores(record, name) if record.suite == RETRIEVAL.name else _pair_scores(record, name)
    return {**scores, "hf_subset": task.subset, "languages": list(task.languages)}


def _pair_scores(record: Record, name: str) -> dict[str, float]:
    spearman, pearson = (record.score(name, metric) / 100 for metric in ("spearman", "pearson"))
    return {
        "pearson": pearson,
        "spearman": spearman,
        "cosine_pearson": pearson,
        "cosine_spearman": spearman,
        "main_score": spearman,
    }


def _search_scores(record: Record, name: str) -> dict[str, float]:
    scores = {theirs: record.score(name, ours) / 100 for ours, theirs in _SEARCH.items()}
    return {**scores, "main_score": scores["ndcg_at_10"]}


def _model_meta(record: Record, name: str, revision: str) -> dict[str, Any]:
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
