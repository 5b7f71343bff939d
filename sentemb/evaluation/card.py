"""The evaluation of a model card: what records say of one model, in the hub's metadata and in a section.

Whatever else stands in a card is left as it is, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, RepoCard
from huggingface_hub.repocard_data import CardData, eval_results_to_model_index

from sentemb._files import write_text
from sentemb.data import catalogue
from sentemb.errors import InputError
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import get_suite
from sentemb.evaluation.transfer.tasks import TASKS

_BEGIN, _END = "<!-- sentemb:evaluation -->", "<!-- /sentemb:evaluation -->"
_INDEX = "model-index"
_FRONT = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# From the key to the next one; items of a list may begin at the margin, blank lines may be between lines.
_INDEX_LINES = re.compile(rf"^{_INDEX}:.*\n(?:(?:[ \t]*\n)*[ \t-]+\S.*\n)*", re.MULTILINE)
_FRONT_OF_NONE = "library_name: sentence-transformers\npipeline_tag: sentence-similarity\n"


def eval_results(records: Sequence[Record]) -> list[EvalResult]:
    """What goes into the metadata of the card: correlations of cosines, accuracies, NDCG@10, as fractions.

    Names are those that sentence-transformers gives the scores of its own evaluators.
    """
    makers = {
        "sts": _correlations,
        "multilingual": _correlations,
        "transfer": _accuracies,
        "retrieval": _searches,
    }
    return [result for one in records if one.suite in makers for result in makers[one.suite](one)]


def _correlations(record: Record) -> Iterator[EvalResult]:
    suite = get_suite(record.suite)
    for dataset in record.datasets:
        score = record.find(dataset.name, suite.measure, suite.protocol)
        if score is None:
            continue
        entry = _entry(dataset.name)
        yield EvalResult(
            task_type="semantic-similarity",
            task_name="Semantic Similarity",
            dataset_type=(entry and entry.hub_id) or dataset.name,
            dataset_name=dataset.name,
            dataset_config=entry.config if entry else None,
            dataset_split=dataset.split,
            metric_type=f"{suite.measure}_cosine",
            metric_name=f"{suite.measure.capitalize()} correlation of cosine similarities, protocol "
            f"{suite.protocol}",
            metric_value=round(score.value / 100, 4),
        )


def _entry(name: str) -> catalogue.Entry | None:
    try:
        return catalogue.get(name)
    except InputError:  # a set of the user's own
        return None


def _accuracies(record: Record) -> Iterator[EvalResult]:
    for dataset in record.datasets:
        score, task = record.find(dataset.name, "accuracy"), TASKS.get(dataset.name)
        if score is None:
            continue
        name = task.data if task is not None else dataset.name
        yield EvalResult(
            task_type="text-classification",
            task_name="Text Classification",
            dataset_type=name,
            dataset_name=name if task is None else task.label,
            dataset_split=dataset.split,
            metric_type="accuracy",
            metric_name=f"Accuracy of SentEval's classifier, preset {record.protocol}, seed {record.seed}",
            metric_value=round(score.value / 100, 4),
        )


def _searches(record: Record) -> Iterator[EvalResult]:
    for dataset in record.datasets:
        score, entry = record.find(dataset.name), _entry(dataset.name)
        if score is None:
            continue
        yield EvalResult(
            task_type="information-retrieval",
            task_name="Information Retrieval",
            dataset_type=(entry and entry.hub_id) or dataset.name,
            dataset_name=dataset.name,
            dataset_split=dataset.split,
            metric_type="ndcg@10",
            metric_name="NDCG@10",
            metric_value=round(score.value / 100, 4),
        )


def evaluation_section(records: Sequence[Record], tables: Sequence[str]) -> str:
    """The section that a reader of the card sees: tables in markdown, and what made them."""
    versions = dict.fromkeys(one.environment.versions.get("sentemb", "") for one in records)
    day = max(one.environment.date[:10] for one in records)
    made = f"Measured with sentemb {', '.join(filter(None, versions))}, {day}"
    shown = "\n".join(tables)
    return f"## Evaluation\n\n{shown}\n{made}. The records contain every setting and prediction.\n"


def update_card(path: Path, name: str, results: Sequence[EvalResult], section: str) -> None:
    """Put an evaluation into a card: metadata under `model-index`, and a section between two marks.

    Results of the same set and measure are replaced, all others stay, as does every other line of the file.
    The section is appended where the card has no marks yet; a card that is absent is begun.
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
    """The entries of others, without the measures that are replaced, and the new ones."""
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
