"""The evaluation of a model card: scores of one model, in the hub's metadata and in a section."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, RepoCard
from huggingface_hub.repocard_data import eval_results_to_model_index

from sentemb._files import write_text
from sentemb.data import catalogue
from sentemb.errors import InputError
from sentemb.evaluation.schema import DataSet, Record, Score
from sentemb.evaluation.suites import get_suite
from sentemb.evaluation.transfer.tasks import TASKS

_BEGIN, _END = "<!-- sentemb:evaluation -->", "<!-- /sentemb:evaluation -->"
_INDEX = "model-index"
_CORRELATION = "{measure} correlation of cosine similarities, protocol {protocol}"
_TASK_TYPES = {
    "sts": ("semantic-similarity", "{measure}_cosine", _CORRELATION),
    "multilingual": ("semantic-similarity", "{measure}_cosine", _CORRELATION),
    "transfer": (
        "text-classification",
        "accuracy",
        "Accuracy of SentEval's classifier, preset {protocol}, seed {seed}",
    ),
    "retrieval": ("information-retrieval", "ndcg@10", "NDCG@10"),
}
"""Task, metric and its name in the metadata of a card, by suite."""
_NEW = {"library_name": "sentence-transformers", "pipeline_tag": "sentence-similarity"}


def eval_results(records: Sequence[Record]) -> list[EvalResult]:
    """Return the results for a card's metadata: correlations of cosines, accuracies, NDCG@10, as fractions.

    Names are those that sentence-transformers gives the scores of its own evaluators.
    """
    return [
        _result(record, dataset, score)
        for record in records
        if record.suite in _TASK_TYPES
        for dataset in record.datasets
        if (score := record.find(dataset.name, protocol=get_suite(record.suite).protocol)) is not None
    ]


def _result(record: Record, dataset: DataSet, score: Score) -> EvalResult:
    task_type, metric_type, metric_name = _TASK_TYPES[record.suite]
    named = {"measure": score.metric, "protocol": record.protocol, "seed": record.seed}
    kind, name, config = dataset.name, dataset.name, None
    if record.suite == "transfer":
        kind, name = (task.data, task.label) if (task := TASKS.get(name)) else (name, name)
    else:
        with suppress(InputError):  # your own set
            entry = catalogue.get(name)
            kind, config = entry.hub_id or name, entry.config if record.suite != "retrieval" else None
    return EvalResult(
        task_type=task_type,
        task_name=task_type.replace("-", " ").title(),
        dataset_type=kind,
        dataset_name=name,
        dataset_config=config,
        dataset_split=dataset.split,
        metric_type=metric_type.format(**named),
        metric_name=metric_name.format(**named | {"measure": score.metric.capitalize()}),
        metric_value=round(score.value / 100, 4),
    )


def evaluation_section(records: Sequence[Record], tables: Sequence[str]) -> str:
    """Return the section that a reader of the card sees: tables in markdown, and what made them."""
    versions = dict.fromkeys(one.environment.versions.get("sentemb", "") for one in records)
    day = max(one.environment.date[:10] for one in records)
    made = f"Measured with sentemb {', '.join(filter(None, versions))}, {day}"
    shown = "\n".join(tables)
    return f"## Evaluation\n\n{shown}\n{made}. The records contain every setting and prediction.\n"


def update_card(path: Path, name: str, results: Sequence[EvalResult], section: str) -> None:
    """Put an evaluation into a card: metadata under `model-index`, and a section between two marks.

    Results of the same set and measure are replaced. All other metadata and text stays, comments in the
    metadata excepted. The section is appended to a card without marks; a missing card is created.
    """
    try:
        original = path.read_bytes().decode("utf-8") if path.exists() else ""
    except UnicodeDecodeError:
        raise InputError(f"{path} is not valid UTF-8", "convert it to UTF-8, or move it away") from None
    text = original.replace("\r\n", "\n") or f"# {name}\n"
    part, counts = f"{_BEGIN}\n{section.strip()}\n{_END}", (text.count(_BEGIN), text.count(_END))
    begin, end = text.find(_BEGIN), text.find(_END)
    if counts == (0, 0):
        text = f"{text.rstrip()}\n\n{part}\n"
    elif counts == (1, 1) and begin < end:
        text = text[:begin] + part + text[end + len(_END) :]
    else:
        raise InputError(
            f"{path}: {_BEGIN} and {_END} must each occur once, in this order",
            "fix the two marks, or remove them",
        )
    if results:
        try:
            card: Any = RepoCard(text)
        except Exception as error:  # whatever the YAML parser raises
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"{path}: the metadata is not valid YAML: {first}", "fix the part between --- and ---"
            ) from error
        values: dict[str, Any] = card.data.to_dict() or {**_NEW}
        new = eval_results_to_model_index(name, list(results))[0]["results"]
        try:
            index = _merged(values.get(_INDEX) or [], name, new)
        except (TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{path}: {_INDEX} does not have the format of the hub ({error!r})", "fix it, or remove it"
            ) from error
        for key, value in {**values, _INDEX: index}.items():
            card.data[key] = value
        text = str(card)
    write_text(path, text.replace("\n", "\r\n") if "\r\n" in original else text)


def _merged(index: list[dict[str, Any]], name: str, new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of others, without the metrics that are replaced, and the new ones."""

    def key(result: dict[str, Any], metric: dict[str, Any]) -> tuple[Any, ...]:
        data = (result["dataset"].get(field) for field in ("type", "name", "config", "split"))
        return (result["task"]["type"], *data, metric["type"], metric.get("name"))

    replaced = {key(one, metric) for one in new for metric in one["metrics"]}
    merged = []
    for model in index:
        kept = []
        for one in model["results"]:
            if metrics := [metric for metric in one["metrics"] if key(one, metric) not in replaced]:
                kept.append({**one, "metrics": metrics})
        merged.append({**model, "results": kept})
    for model in merged:
        if model.get("name") == name:
            model["results"] = [*model["results"], *new]
            return merged
    return [*(model for model in merged if model["results"]), {"name": name, "results": new}]
