"""The evaluation of a model card: scores of one model, in the hub's metadata and in a section.

Everything else in a card stays as it is, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, RepoCard
from huggingface_hub.repocard_data import CardData, eval_results_to_model_index

from sentemb._files import write_text
from sentemb.data import catalogue
from sentemb.errors import InputError
from sentemb.evaluation.schema import DataSet, Record, Score
from sentemb.evaluation.suites import get_suite
from sentemb.evaluation.transfer.tasks import TASKS

_BEGIN, _END = "<!-- sentemb:evaluation -->", "<!-- /sentemb:evaluation -->"
_INDEX = "model-index"
_FRONT = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# From the key to the next one; items of a list may begin at the margin, blank lines may be between lines.
_INDEX_LINES = re.compile(rf"^{_INDEX}:.*\n(?:(?:[ \t]*\n)*[ \t-]+\S.*\n)*", re.MULTILINE)
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
_FRONT_OF_NONE = "library_name: sentence-transformers\npipeline_tag: sentence-similarity\n"


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

    Results of the same set and measure are replaced, all others stay, as does every other line of the file.
    The section is appended to a card without marks; a missing card is created.
    """
    try:
        original = path.read_bytes().decode("utf-8") if path.exists() else ""
    except UnicodeDecodeError:
        raise InputError(f"{path} is not valid UTF-8", "convert it to UTF-8, or move it away") from None
    text = original.replace("\r\n", "\n") or f"# {name}\n"
    text = _with_section(path, _with_results(path, text, name, results), section)
    write_text(path, text.replace("\n", "\r\n") if "\r\n" in original else text)


def _with_section(path: Path, text: str, section: str) -> str:
    part = f"{_BEGIN}\n{section.strip()}\n{_END}"
    counts = (text.count(_BEGIN), text.count(_END))
    if counts == (0, 0):
        return f"{text.rstrip()}\n\n{part}\n"
    begin, end = text.find(_BEGIN), text.find(_END)
    if counts != (1, 1) or end < begin:
        raise InputError(
            f"{path}: {_BEGIN} and {_END} must each occur once, in this order",
            "fix the two marks, or remove them",
        )
    return text[:begin] + part + text[end + len(_END) :]


def _with_results(path: Path, text: str, name: str, results: Sequence[EvalResult]) -> str:
    if not results:
        return text
    front = _FRONT.match(text)
    yaml = front["yaml"] if front else _FRONT_OF_NONE
    body = text[front.end() :] if front else f"\n{text}"
    before = _metadata(path, yaml)
    index = _merged(path, before.get(_INDEX, []), name, results)
    data = CardData()
    data[_INDEX] = index
    block = f"{data.to_yaml()}\n"
    old = _INDEX_LINES.search(yaml)
    new = yaml + block if old is None else yaml[: old.start()] + block + yaml[old.end() :]
    after = _metadata(path, new)
    if after != {**before, _INDEX: index}:
        raise InputError(
            f"{path}: the format of {_INDEX} cannot be changed without changing other metadata",
            f"write {_INDEX} as a block of indented lines",
        )
    return f"---\n{new}---\n{body}"


def _metadata(path: Path, yaml: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = RepoCard(f"---\n{yaml}---\n").data.to_dict()  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever the YAML parser raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path}: the metadata is not valid YAML: {first}", "fix the part between --- and ---"
        ) from error
    return values


def _merged(path: Path, index: Any, name: str, results: Sequence[EvalResult]) -> list[dict[str, Any]]:
    """Return the entries of others, without the metrics that are replaced, and the new ones."""
    new: list[dict[str, Any]] = eval_results_to_model_index(name, list(results))[0]["results"]
    replaced = {_key(one, metric) for one in new for metric in one["metrics"]}
    merged = []
    try:
        for model in index or []:
            kept = []
            for one in model["results"]:
                metrics = [metric for metric in one["metrics"] if _key(one, metric) not in replaced]
                if metrics:
                    kept.append({**one, "metrics": metrics})
            merged.append({**model, "results": kept})
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path}: {_INDEX} does not have the format of the hub ({error!r})", "fix it, or remove it"
        ) from error
    for model in merged:
        if model.get("name") == name:
            model["results"] = [*model["results"], *new]
            return merged
    return [*(model for model in merged if model["results"]), {"name": name, "results": new}]


def _key(result: dict[str, Any], metric: dict[str, Any]) -> tuple[Any, ...]:
    data = result["dataset"]
    return (
        result["task"]["type"],
        *(data.get(field) for field in ("type", "name", "config", "split")),
        metric["type"],
        metric.get("name"),
    )
