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
from sentemb.modules.custom_modules import CUSTOM_MODULES
from sentemb.training.config import (
    ClassifierConfig,
    EncoderConfig,
    MultiTaskConfig,
    PairsConfig,
    RunConfig,
    TrainConfig,
)
from sentemb.training.objective import citation_of
from sentemb.training.recipes import RECIPES
from sentemb.training.settings import shown

logger = logging.getLogger(__name__)

# What a run is free to choose; other fields that differ from the recipe are named.
_FREE = frozenset(
    "recipe preset base output data columns label dev held_out data_dir seeds max_steps eval_steps "
    "precision".split()
)


def write_card(path: Path, make_text: Callable[[], str]) -> None:
    """Write a `README.md`. A card that cannot be made is a warning: it never costs the trained model."""
    try:
        path.write_text(make_text(), encoding="utf-8")
    except Exception as error:  # whatever it is, the model matters more
        logger.warning("the model card was not written: %s", error)


@dataclass(frozen=True)
class Card:
    """A card of a model, whatever kind of model it is.

    Attributes:
        name: The model's name.
        summary: What it is, in a sentence or two.
        code: Python that loads and uses it.
        rows: Settings and scores by title; rows of None are left out.
        citation: BibTeX of the method.
        base: What it was made of; None for a new model.
        library: What loads it.
        pipeline: The hub's name for what it does.
        tags: Of the hub, beside the library and `sentemb`.
        after_code: What there is to say on the code.
    """

    name: str
    summary: str
    code: Sequence[str]
    rows: Mapping[str, object]
    citation: str
    base: str | None
    library: str = "sentence-transformers"
    pipeline: str = "sentence-similarity"
    tags: Sequence[str] = ()
    after_code: str = ""

    def text(self) -> str:
        """The card."""
        terms = {} if self.base is None else base_terms(self.base)
        rows = {
            "Base model": "none (trained from scratch)" if self.base is None else public_name(self.base),
            **self.rows,
            "License of the base": terms.get("license"),
        }
        front = front_matter(
            {name: terms[name] for name in ("language",) if name in terms},
            base=self.base,
            library=self.library,
            pipeline=self.pipeline,
            tags=self.tags,
        )
        parts = [
            front,
            f"# {self.name}",
            self.summary,
            "\n".join(["```python", *self.code, "```"]),
            *([self.after_code] if self.after_code else []),
            table(rows),
            "The folder `run/` contains every setting, library versions and checksums of the data.",
            *(["## Citation", f"```bibtex\n{self.citation.strip()}\n```"] if self.citation else []),
        ]
        return "\n\n".join(parts) + "\n"


def run_name(output: str) -> str:
    """What a run is called: its folder's name, with the one above where that says nothing."""
    path = Path(output).absolute()
    return f"{path.parent.name}-{path.name}" if re.fullmatch(r"model|seed-\d+", path.name) else path.name


def training_rows(config: EncoderConfig) -> dict[str, object]:
    """The settings of every run that trains an encoder."""
    return {
        "Recipe": recipe_of(config),
        "Pooling": config.pooling or "the pooling of the base model",
        "Loss": f"{config.loss.rpartition('/')[2]} {_options(config.loss_options)}".strip(),
        "Batch size": config.batch_size,
        "Epochs": config.epochs,
        "Maximum steps": config.max_steps,
        "Learning rate": f"{config.learning_rate:g}",
        "Precision": config.precision,
        "Seed": shown(config.seeds),
    }


def encoder_code(name: str, model: SentenceTransformer) -> list[str]:
    """Python that loads an encoder and encodes two sentences."""
    if any(isinstance(module, CUSTOM_MODULES) for module in model):
        loading = ["import sentemb", "", f'encoder = sentemb.load("{name}")']
    else:
        plain = "from sentence_transformers import SentenceTransformer"
        loading = [plain, "", f'encoder = SentenceTransformer("{name}")']
    return [*loading, 'vectors = encoder.encode(["A man is playing a guitar.", "Someone makes music."])']


def encoder_card(
    config: TrainConfig | PairsConfig, model: SentenceTransformer, record: dict[str, Any], *, loss: nn.Module
) -> str:
    """Make the text of the card of a trained encoder."""
    name = run_name(config.output)
    # A file system far away may be gone by the end of a run.
    entry = get(config.data) if not is_remote(config.data) and kind_of(config.data) == "entry" else None
    rows = {
        "Training data": f"{public_name(config.data)}, {record['data'].get('rows', '?')} rows",
        "License of the data": None if entry is None else entry.licence,
        **training_rows(config),
        "Dev score": _dev_score(config, record),
        "Verdict": (record.get("dev") or {}).get("verdict") or None,
    }
    unchanged = record["kept_step"] == 0
    summary = f"A sentence encoder trained with sentemb's `{config.recipe}` recipe."
    if unchanged:
        summary = (
            f"The base model `{public_name(config.base)}`, unchanged: no checkpoint scored higher on the "
            "dev set."
        )
    code = encoder_code(name, model)
    return Card(name, summary, code, rows, citation_of(loss), config.base, tags=ENCODER_TAGS).text()


def classifier_card(
    config: ClassifierConfig, record: dict[str, Any], *, classes: Sequence[str], pairs: bool, loss: nn.Module
) -> str:
    """Make the text of a classifier's card."""
    name = run_name(config.output)
    train, score = record["data"]["train"], record["dev"]["score"]
    example = '("first text", "second text")' if pairs else '"a text"'
    chosen = f"{config.metric} {100 * (score or 0):.2f} of {record['dev']['set']}"
    rows = {
        "Training data": f"{train['set']} {train['split']}, {train['rows']} {'pairs' if pairs else 'texts'}",
        "Classes": ", ".join(classes[:20]) + (", ..." if len(classes) > 20 else ""),
        "Head": f"{config.head} {_options(config.head_options)}".strip(),
        **training_rows(config),
        "Validation score": "none (the weights of the last step)" if score is None else chosen,
    }
    code = [
        "from sentemb.classification import Classifier",
        "",
        f'Classifier.load("{name}").predict([{example}])',
    ]
    return Card(
        name,
        f"A classifier trained with sentemb's `{config.recipe}` recipe.",
        code,
        rows,
        citation_of(loss),
        config.base,
        pipeline="text-classification",
        tags=("text-classification",),
        after_code=f'To load only the encoder: `SentenceTransformer("{name}")`.',
    ).text()


def multitask_card(config: MultiTaskConfig, record: dict[str, Any], *, loss: nn.Module) -> str:
    """Make the text of the card of a model that serves several tasks."""
    name = run_name(config.output)
    sets = ", ".join(f"{one['set']} ({one['rows']} rows)" for one in record["data"]["train"].values())
    rows = {
        "Training data": sets,
        "Stages": ", then ".join(record["stages"]),
        "Tasks trained": ", ".join(config.tasks),
        "Heads": f"{config.sharing}, dropout {config.head_dropout:g}",
        **training_rows(config),
        "Dev score": f"{100 * record['dev']['score']:.2f}, the mean over the three tasks",
    }
    code = [
        "from sentemb.multitask import MultiTaskModel",
        "",
        f'model = MultiTaskModel.load("{name}")',
        'model.predict_sentiment(["a text"])',
        'model.predict_paraphrase([("first text", "second text")])',
        'model.predict_similarity([("first text", "second text")])',
    ]
    summary = (
        "A multi-task model for sentiment, paraphrase and similarity, trained with sentemb's "
        f"`{config.recipe}` recipe."
    )
    tags = ("sentence-similarity", "text-classification")
    after = f'To load only the encoder: `SentenceTransformer("{name}")`.'
    return Card(name, summary, code, rows, citation_of(loss), config.base, tags=tags, after_code=after).text()


def recipe_of(config: RunConfig) -> str:
    """The recipe, and the settings in which the run departs from it."""
    named = f"{config.recipe} ({config.preset})"
    if config.recipe not in RECIPES:
        return named
    told = RECIPES[config.recipe].values(config.preset)
    recipe = config.replace(**{name: value for name, value in told.items() if name != "recipe"})
    own = [
        name.replace("_", " ")
        for name, value in recipe.values().items()
        if name not in _FREE and value != config.values()[name]
    ]
    return f"{named}, with changed {', '.join(own)}" if own else named


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in options.items())


def _dev_score(config: TrainConfig | PairsConfig, record: dict[str, Any]) -> str:
    dev = record.get("dev")
    if not dev or dev.get("score") is None:
        return "none (the weights of the last step, without a dev set)"
    weights = "last weights" if config.use_last else f"best of {dev['evaluations']} evaluations"
    before = "" if dev.get("base") is None else f"; {100 * dev['base']:.2f} before training"
    told = f"{dev['metric']} on {dev['set']}"
    if isinstance(config, TrainConfig):
        told = f"Spearman correlation of cosine similarities on {public_name(config.dev)} dev, protocol all"
    return f"{100 * dev['score']:.2f} {told} ({weights}){before}"
