"""`sentemb train flow` and `sentemb train whitening`: fit a transform and write the model folder, or nothing.

flow-bert-mini/         the model
├─ README.md            its card
└─ run/record.json      settings, versions, data, timings
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sentence_transformers import SentenceTransformer

from sentemb._files import new_folder, refuse_unusable_output, write_json
from sentemb.data import describe_source, load_columns
from sentemb.data.catalogue import get
from sentemb.data.sources import kind_of
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError
from sentemb.losses.base import bibtex
from sentemb.modules import load
from sentemb.modules.cards import public_name
from sentemb.training.card import encoder_code, render_card, write_card
from sentemb.training.config import FlowRunConfig, WhiteningRunConfig
from sentemb.training.folder import describe_environment
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import refuse_several
from sentemb.transforms.fit import OnStep, add_flow, add_whitening

_NAMES = {"flow": "BERT-flow", "whitening": "BERT-whitening"}
_CITATIONS = {"flow": "li-etal-2020-sentence", "whitening": "su-etal-2021-whitening"}
_STEPS_PER_LINE = 50


def fit_transform(
    config: FlowRunConfig | WhiteningRunConfig, *, progress: ConsoleProgress | None = None
) -> Path:
    """Fit a transform and write the model folder, all of it or nothing."""
    refuse_several("a transform")
    output = Path(config.output)
    refuse_unusable_output(output, [], cache=config.cache_dir)
    with new_folder(output) as partial:
        model = load(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        sentences = load_sentences(config.data, config.columns, data_dir=config.data_dir)
        began, curve = time.perf_counter(), list[dict[str, float]]()
        options: dict[str, Any] = {
            "max_length": config.max_length,
            "cache_dir": config.cache_dir,
            "progress": True,
        }
        if isinstance(config, FlowRunConfig):
            options |= {"config": config.flow, "on_step": _follow(curve, progress)}
            try:
                fitted = add_flow(model, *sentences, **options)
            finally:
                if progress is not None:
                    progress.close()
            settings = {"preset": config.preset, **config.flow.values()}
        else:
            texts = [*sentences.first, *(sentences.second or ())]
            fitted = add_whitening(model, texts, dimensions=config.dimensions, **options)
            settings = {"kept_dimensions": fitted.get_embedding_dimension()}
        data = describe_source(config.data, data_dir=config.data_dir, rows=len(sentences.first))
        record = {
            "method": _NAMES[config.recipe],
            "base": config.base,
            "pooling": config.pooling or "the model's own",
            "max_length": config.max_length,
            "modules": [type(module).__name__ for module in fitted],
            "dimension": fitted.get_embedding_dimension(),
            "data": data | {"pairs": sentences.second is not None},
            "settings": settings,
            "seconds": {"encode_and_fit": round(time.perf_counter() - began, 3)},
            "metrics": {"curve": curve} if curve else {},
            **describe_environment(),
        }
        fitted.save(str(partial), create_model_card=False)
        write_json(partial / "run" / "record.json", record)
        write_card(partial / "README.md", lambda: _card(config, fitted, record))
    return output


def _follow(curve: list[dict[str, float]], progress: ConsoleProgress | None) -> OnStep:
    """Return a function that notes and shows the bits per dimension of a flow."""

    def note(step: int, steps: int, bits: float) -> None:
        if step == 1 and progress is not None:
            progress.begin(steps)
        if step == 1 or step % _STEPS_PER_LINE == 0 or step == steps:
            curve.append({"step": step, "bits_per_dimension": round(bits, 5)})
            if progress is not None:
                progress.advance(step)
                progress.show({"bits_per_dimension": bits}, step)

    return note


def _card(
    config: FlowRunConfig | WhiteningRunConfig, model: SentenceTransformer, record: dict[str, Any]
) -> str:
    data = record["data"]
    kind = "pairs" if data["pairs"] else "sentences"
    rows = {
        "Pooling": record["pooling"],
        "Fitted on": f"{public_name(config.data)}, {data['rows']} {kind}",
        "Dimensions": record["dimension"],
        **{key.replace("_", " ").capitalize(): value for key, value in record["settings"].items()},
    }
    summary = (
        f"A sentence encoder with {record['method']} applied to its vectors; the encoder's weights are "
        "unchanged."
    )
    return render_card(config, summary, encoder_code(model), rows, bibtex(_CITATIONS[config.recipe]))


class Sentences(NamedTuple):
    """Sentences to fit on."""

    first: list[str]  # first sentences of pairs, or single sentences
    second: list[str] | None  # second sentences of the pairs


def load_sentences(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
) -> Sentences:
    """Load sentences or pairs."""
    base = get(source).derived_from if kind_of(source) == "entry" else None
    if base is not None and columns is None:
        parts = [load_scored_pairs(base, split=split, data_dir=data_dir) for split in get(base).splits]
        sides = ([text for part in parts for text in getattr(part, side)] for side in ("first", "second"))
        return Sentences(*sides)
    rows = load_columns(source, columns, data_dir=data_dir)
    names = rows.column_names
    if len(names) > 2:
        raise InputError(
            f"{source} has the text columns {', '.join(names)}", "select one or two of them with --columns"
        )
    return Sentences(list(rows[names[0]]), list(rows[names[1]]) if len(names) == 2 else None)
