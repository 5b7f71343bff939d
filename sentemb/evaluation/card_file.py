"""The `README.md` of a model folder: its evaluation is made anew, everything else is left as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, RepoCard
from huggingface_hub.repocard_data import CardData, eval_results_to_model_index

from sentemb._files import write_text
from sentemb.errors import InputError

_BEGIN, _END = "<!-- sentemb:evaluation -->", "<!-- /sentemb:evaluation -->"
_INDEX = "model-index"
_FRONT = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# From the key to the next one; items of a list may begin at the margin, blank lines may be between lines.
_INDEX_LINES = re.compile(rf"^{_INDEX}:.*\n(?:(?:[ \t]*\n)*[ \t-]+\S.*\n)*", re.MULTILINE)
_FRONT_OF_NONE = "library_name: sentence-transformers\npipeline_tag: sentence-similarity\n"


def update_card(path: Path, name: str, results: Sequence[EvalResult], section: str) -> None:
    """Put an evaluation into a card: metadata under `model-index`, and a section between two marks.

    Results of the same set and measure are replaced, all others stay, as does every other line of the file.
    The section is appended where the card has no marks yet; a card that is absent is begun.
    """
    try:
        original = path.read_bytes().decode("utf-8") if path.exists() else ""
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8", "convert it, or move it away") from None
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
            f"{path}: {_BEGIN} and {_END} do not stand there once each, in this order", "mend or remove them"
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
            f"{path}: {_INDEX} is written in a way that cannot be changed without touching other metadata",
            f"write {_INDEX} as a block of indented lines",
        )
    return f"---\n{new}---\n{body}"


def _metadata(path: Path, yaml: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = RepoCard(f"---\n{yaml}---\n").data.to_dict()  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever the YAML parser raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path}: its metadata cannot be read: {first}", "mend the part between --- and ---"
        ) from error
    return values


def _merged(path: Path, index: Any, name: str, results: Sequence[EvalResult]) -> list[dict[str, Any]]:
    """The entries of others, without the measures that are given anew, and the given ones."""
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
            f"{path}: {_INDEX} is not as the hub writes it ({error!r})", "mend it, or remove it"
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
