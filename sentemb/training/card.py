"""Model cards: what was trained on what, with the values really used, and how it was scored."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._uris import is_remote
from sentemb.data.catalogue import get
from sentemb.data.sources import kind_of
from sentemb.modules.cards import ENCODER_TAGS, base_terms, front_matter, public_name, table
from sentemb.modules.loading import CUSTOM_MODULES
from sentemb.training.config import ClassifierConfig, MultiTaskConfig, TrainConfig
from sentemb.training.objective import citation_of
from sentemb.training.recipes import RECIPES
from sentemb.training.settings import shown

logger = logging.getLogger(__name__)

_TEMPLATE = """{front}

# {name}

{summary}

```python
{code}
```
{after_code}
{table}

The folder `run/` contains every setting, library versions and checksums of the data.
{citation}"""
# What a run is free to choose; other fields that differ from the recipe are named.
_FREE = frozenset(
    "recipe preset base output data columns label dev held_out data_dir seeds max_steps eval_steps "
    "precision".split()
)
_EXAMPLES = {
    "Classifier": ['Classifier.load("{name}").predict([{example}])'],
    "MultiTaskModel": [
        'model = MultiTaskModel.load("{name}")',
        'model.predict_sentiment(["a text"])',
        'model.predict_paraphrase([("first text", "second text")])',
        'model.predict_similarity([("first text", "second text")])',
    ],
}


def write_card(path: Path, make_text: Callable[[], str]) -> None:
    """Write a `README.md`. A card that cannot be made is a warning: it never costs the trained model."""
    try:
        path.write_text(make_text(), encoding="utf-8")
    except Exception as error:  # whatever it is, the model matters more
        logger.warning("the model card was not written: %s", error)


@dataclass(frozen=True)
class Card:
    """A card of a model, whatever kind of model it is."""

    name: str
    summary: str  # what it is, in a sentence or two
    code: Sequence[str]  # Python that loads and uses it
    rows: Mapping[str, object]  # settings and scores by title; rows of None are skipped
    citation: str  # BibTeX of the method
    base: str | None  # what it was made of; None for a new model
    library: str = "sentence-transformers"  # what loads it
    pipeline: str = "sentence-similarity"  # the hub's name for what it does
    tags: Sequence[str] = ()  # of the hub, next to the library and `sentemb`
    after_code: str = ""

    def text(self) -> str:
        """Return the card."""
        terms = {} if self.base is None else base_terms(self.base)
        rows = {
            "Base model": "none (trained from scratch)" if self.base is None else public_name(self.base),
            **self.rows,
            "License of the base": terms.pop("license", None),
        }
        hub = {"library": self.library, "pipeline": self.pipeline, "tags": self.tags}
        citation = self.citation.strip()
        return _TEMPLATE.format(
            front=front_matter(terms, base=self.base, **hub),  # type: ignore[arg-type]
            name=self.name,
            summary=self.summary,
            code="\n".join(self.code),
            after_code=f"\n{self.after_code}\n" if self.after_code else "",
            table=table(rows),
            citation=f"\n## Citation\n\n```bibtex\n{citation}\n```\n" if citation else "",
        )


def run_name(output: str) -> str:
    """Return what a run is called: its folder's name, with the one above where that says nothing."""
    path = Path(output).absolute()
    return f"{path.parent.name}-{path.name}" if re.fullmatch(r"model|seed-\d+", path.name) else path.name


def recipe_of(config: Any) -> str:
    """Return the recipe, and the settings in which the run departs from it."""
    named = f"{config.recipe} ({config.preset})"
    if config.recipe not in RECIPES:
        return named
    own, recipe = config.values(), config.replace(**RECIPES[config.recipe].values(config.preset)).values()
    changed = [name.replace("_", " ") for name in own if name not in _FREE and own[name] != recipe[name]]
    return f"{named}, with changed {', '.join(changed)}" if changed else named


def training_rows(config: Any) -> dict[str, object]:
    """Return the settings of every run that trains an encoder."""
    return {
        "Recipe": recipe_of(config),
        "Pooling": config.pooling or "the pooling of the base model",
        "Loss": _with_options(config.loss.rpartition("/")[2], config.loss_options),
        "Batch size": config.batch_size,
        "Epochs": config.epochs,
        "Maximum steps": config.max_steps,
        "Learning rate": f"{config.learning_rate:g}",
        "Precision": config.precision,
        "Seed": shown(config.seeds),
    }


def encoder_code(name: str, model: SentenceTransformer) -> list[str]:
    """Return Python that loads an encoder and encodes two sentences."""
    plain = "from sentence_transformers import SentenceTransformer"
    loading = [plain, "", f'encoder = SentenceTransformer("{name}")']
    if any(isinstance(module, CUSTOM_MODULES) for module in model):
        loading = ["import sentemb", "", f'encoder = sentemb.load("{name}")']
    return [*loading, 'vectors = encoder.encode(["A man is playing a guitar.", "Someone makes music."])']


def encoder_card(config: Any, model: SentenceTransformer, record: dict[str, Any], *, loss: nn.Module) -> str:
    """Return the card of an encoder that was trained on text or on pairs."""
    # A file system far away may be gone by the end of a run.
    entry = get(config.data) if not is_remote(config.data) and kind_of(config.data) == "entry" else None
    dev = record.get("dev") or {}
    rows = {
        "Training data": f"{public_name(config.data)}, {record['data'].get('rows', '?')} rows",
        "License of the data": None if entry is None else entry.licence,
        **training_rows(config),
        "Dev score": _dev_score(config, dev),
        "Verdict": dev.get("verdict") or None,
    }
    summary = f"A sentence encoder trained with sentemb's `{config.recipe}` recipe."
    if record["kept_step"] == 0:
        base = public_name(config.base)
        summary = f"The base model `{base}`, unchanged: no checkpoint scored higher on the dev set."
    name = run_name(config.output)
    code = encoder_code(name, model)
    return Card(name, summary, code, rows, citation_of(loss), config.base, tags=ENCODER_TAGS).text()


def classifier_card(
    config: ClassifierConfig, record: dict[str, Any], *, classes: Sequence[str], pairs: bool, loss: nn.Module
) -> str:
    """Return a classifier's card."""
    train, dev = record["data"]["train"], record["dev"]
    score = "none (the weights of the last step)"
    if dev["score"] is not None:
        score = f"{config.metric} {100 * dev['score']:.2f} of {dev['set']}"
    rows = {
        "Training data": f"{train['set']} {train['split']}, {train['rows']} {'pairs' if pairs else 'texts'}",
        "Classes": ", ".join(classes[:20]) + (", ..." if len(classes) > 20 else ""),
        "Head": _with_options(config.head, config.head_options),
        **training_rows(config),
        "Validation score": score,
    }
    example = '("first text", "second text")' if pairs else '"a text"'
    return _card_with_head(
        config, "A classifier", "Classifier", rows, loss, tags=("text-classification",), example=example
    )


def multitask_card(config: MultiTaskConfig, record: dict[str, Any], *, loss: nn.Module) -> str:
    """Return the card of a model that serves several tasks."""
    sets = [f"{one['set']} ({one['rows']} rows)" for one in record["data"]["train"].values()]
    rows = {
        "Training data": ", ".join(sets),
        "Stages": ", then ".join(record["stages"]),
        "Tasks trained": ", ".join(config.tasks),
        "Heads": f"{config.sharing}, dropout {config.head_dropout:g}",
        **training_rows(config),
        "Dev score": f"{100 * record['dev']['score']:.2f}, the mean over the three tasks",
    }
    what = "A multi-task model for sentiment, paraphrase and similarity,"
    tags = ("sentence-similarity", "text-classification")
    return _card_with_head(config, what, "MultiTaskModel", rows, loss, tags=tags)


def _card_with_head(
    config: Any,
    what: str,
    kind: str,
    rows: Mapping[str, object],
    loss: nn.Module,
    *,
    tags: Sequence[str],
    example: str = "",
) -> str:
    name = run_name(config.output)
    summary = f"{what} trained with sentemb's `{config.recipe}` recipe."
    room = "classification" if kind == "Classifier" else "multitask"
    code = [f"from sentemb.{room} import {kind}", ""]
    code += [line.format(name=name, example=example) for line in _EXAMPLES[kind]]
    only = f'To load only the encoder: `SentenceTransformer("{name}")`.'
    hub = {"pipeline": tags[0], "tags": tags, "after_code": only}
    return Card(name, summary, code, rows, citation_of(loss), config.base, **hub).text()  # type: ignore[arg-type]


def _with_options(name: str, options: Mapping[str, object]) -> str:
    return f"{name} {', '.join(f'{key}={shown(value)}' for key, value in options.items())}".strip()


def _dev_score(config: Any, dev: Mapping[str, Any]) -> str:
    if dev.get("score") is None:
        return "none (the weights of the last step, without a dev set)"
    weights = "last weights" if config.use_last else f"best of {dev['evaluations']} evaluations"
    before = "" if dev.get("base") is None else f"; {100 * dev['base']:.2f} before training"
    measured = f"{dev['metric']} on {dev['set']}"
    if isinstance(config, TrainConfig):
        dev_set = public_name(config.dev)
        measured = f"Spearman correlation of cosine similarities on {dev_set} dev, protocol all"
    return f"{100 * dev['score']:.2f} {measured} ({weights}){before}"
