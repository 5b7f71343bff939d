"""What the programs of whitening and BERT-flow share: their options, and the model folder that they write.

flow-bert-mini/         the model
├─ README.md            its card
└─ run/record.json      settings, versions, data, timings
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from sentence_transformers import SentenceTransformer

from sentemb._files import new_folder, write_json
from sentemb.data import describe_source
from sentemb.errors import unknown
from sentemb.modules import Poolings, load
from sentemb.modules.source import find_source
from sentemb.training.card import ENCODER_TAGS, Card, encoder_code, write_card
from sentemb.training.config.checks import checked
from sentemb.training.program import run_with_options
from sentemb.training.record import describe_environment
from sentemb.training.settings import split_settings
from sentemb.training.values import parsed
from sentemb.transforms.config import FlowConfig
from sentemb.transforms.sentences import Sentences, load_sentences


@dataclass(frozen=True)
class Fitted:
    """What a program has made.

    Attributes:
        model: The encoder with its transform.
        method: What tables call it.
        settings: Everything that decides the result beside base, data and pooling; plain values.
        seconds: Times by name.
        citation: BibTeX of the method.
        metrics: What happened on the way; plain values.
    """

    model: SentenceTransformer
    method: str
    settings: dict[str, Any]
    seconds: dict[str, float]
    citation: str
    metrics: dict[str, Any]


Fit = Callable[[argparse.Namespace, SentenceTransformer, Sentences], Fitted]


def program_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options of both programs."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="bert-base-uncased", help="encoder: folder, hub id, bundled name")
    parser.add_argument("--pooling", help="a model with a pooling keeps it where none is named")
    parser.add_argument(
        "--data",
        default="stsb-sentences",  # the papers' target setting: sentences of STS-B, without scores
        help="file, folder, hub id or catalogue name; sentences or pairs",
    )
    parser.add_argument("--columns", help="one text column, or both of pairs: a,b")
    parser.add_argument("--data-dir", help="folder of local data sets; SENTEMB_DATA by default")
    parser.add_argument("--output", required=True, help="folder for the model")
    parser.add_argument("--cache-dir", help="keep the encoder's vectors in this folder")
    parser.add_argument(
        "--max-length",
        type=int,
        default=64,  # BERT-flow's released code
        help="tokens of a sentence while fitting; the model keeps its own limit",
    )
    return parser


def run_program(
    parser: argparse.ArgumentParser, fit: Fit, *, pooling: Callable[[argparse.Namespace], str]
) -> Path:
    """Read the command line, fit, and write the model folder, all of it or nothing."""

    def run(options: argparse.Namespace) -> Path:
        output = Path(options.output)
        with new_folder(output) as partial:
            chosen = options.pooling or _default_pooling(options.base, pooling(options))
            model = load(options.base, pooling=chosen)
            columns = None if options.columns is None else options.columns.split(",")
            sentences = load_sentences(options.data, columns, data_dir=options.data_dir)
            fitted = fit(options, model, sentences)
            record = _record(options, chosen, sentences, fitted)
            fitted.model.save(str(partial), create_model_card=False)
            write_json(partial / "run" / "record.json", record)
            write_card(partial / "README.md", lambda: _card(output.name, fitted, record))
        return output

    try:
        return run_with_options(parser, run)
    except KeyboardInterrupt:
        parser.exit(130, "stopped; nothing was written\n")


def flow_settings(arguments: list[str]) -> dict[str, Any]:
    """Read `--set KEY=VALUE` for a flow."""
    kinds = get_type_hints(FlowConfig)
    values = {}
    for name, text in split_settings(arguments).items():
        if name not in kinds:
            raise unknown("setting of a flow", name, [field.name for field in fields(FlowConfig)])
        values[name] = checked(name, parsed(text, kinds[name]), kinds[name])
    return values


class Stopwatch:
    """Seconds since it was made, or since `lap` was last asked."""

    def __init__(self) -> None:
        self._mark = time.perf_counter()

    def lap(self) -> float:
        """Read and restart."""
        now = time.perf_counter()
        self._mark, before = now, self._mark
        return round(now - before, 3)


def _default_pooling(base: str, raw: str) -> Poolings | None:
    return None if find_source(base).has_modules else raw  # type: ignore[return-value]


def _record(
    options: argparse.Namespace, pooling: str | None, sentences: Sentences, fitted: Fitted
) -> dict[str, Any]:
    data = describe_source(options.data, data_dir=options.data_dir, rows=len(sentences.first))
    return {
        "method": fitted.method,
        "base": options.base,
        "pooling": pooling or "the model's own",
        "max_length": options.max_length,
        "modules": [type(module).__name__ for module in fitted.model],
        "dimension": fitted.model.get_embedding_dimension(),
        "settings": fitted.settings,
        "data": data | {"pairs": sentences.second is not None},
        "seconds": fitted.seconds,
        "metrics": fitted.metrics,
        **describe_environment(),
    }


def _card(name: str, fitted: Fitted, record: dict[str, Any]) -> str:
    data = record["data"]
    rows = {
        "Base model": record["base"],
        "Pooling": record["pooling"],
        "Fitted on": f"{data['source']}, {data['rows']} {'pairs' if data['pairs'] else 'sentences'}",
        "Dimensions": record["dimension"],
        **{key.replace("_", " ").capitalize(): value for key, value in fitted.settings.items()},
    }
    summary = f"{fitted.method} on a sentence encoder whose own weights are unchanged."
    code = encoder_code(name, fitted.model)
    return Card(name, summary, code, rows, fitted.citation, record["base"], tags=ENCODER_TAGS).text()
