"""Model cards: what was trained on what, with the values really used, and how it was scored."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._uris import is_remote
from sentemb.data.catalogue import get
from sentemb.data.sources import kind_of
from sentemb.modules.cards import ENCODER_TAGS, base_terms, front_matter, public_name, table
from sentemb.modules.loading import CUSTOM_MODULES
from sentemb.training.config import TrainConfig
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
_ENCODER_CODE = """from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("{name}")
vectors = encoder.encode(["A man is playing a guitar.", "Someone makes music."])"""
ENCODER_ONLY = 'To load only the encoder: `SentenceTransformer("{name}")`.'
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


def render_card(
    config: Any,
    summary: str,
    code: str,
    rows: Mapping[str, object],
    citation: str,
    *,
    after_code: str = "",
    **hub: Any,
) -> str:
    """Return a card: what a model is, Python that uses it, and a table of settings and scores without None.

    `{name}` stands for the model. `hub` is what `front_matter` takes.
    """
    path, base = Path(config.output).absolute(), config.base
    # The folder's name, with the one above where that says nothing.
    name = f"{path.parent.name}-{path.name}" if re.fullmatch(r"model|seed-\d+", path.name) else path.name
    terms = {} if base is None else base_terms(base)
    rows = {
        "Base model": "none (trained from scratch)" if base is None else public_name(base),
        **rows,
        "License of the base": terms.pop("license", None),
    }
    citation = citation.strip()
    return _TEMPLATE.format(
        front=front_matter(terms, base=base, **({"tags": ENCODER_TAGS} | hub)),
        name=name,
        summary=summary,
        code=code.replace("{name}", name),
        after_code=f"\n{after_code}\n".replace("{name}", name) if after_code else "",
        table=table(rows),
        citation=f"\n## Citation\n\n```bibtex\n{citation}\n```\n" if citation else "",
    )


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
        "Loss": with_options(config.loss.rpartition("/")[2], config.loss_options),
        "Batch size": config.batch_size,
        "Epochs": config.epochs,
        "Maximum steps": config.max_steps,
        "Learning rate": f"{config.learning_rate:g}",
        "Precision": config.precision,
        "Seed": shown(config.seeds),
    }


def with_options(name: str, options: Mapping[str, object]) -> str:
    """Return the name of a loss or a head with its options."""
    return f"{name} {', '.join(f'{key}={shown(value)}' for key, value in options.items())}".strip()


def encoder_code(model: SentenceTransformer) -> str:
    """Return Python that loads an encoder and encodes two sentences."""
    if not any(isinstance(module, CUSTOM_MODULES) for module in model):
        return _ENCODER_CODE
    first, second = "from sentence_transformers import SentenceTransformer", "SentenceTransformer("
    return _ENCODER_CODE.replace(first, "import sentemb").replace(second, "sentemb.load(")


def encoder_card(config: Any, model: SentenceTransformer, record: dict[str, Any], *, loss: nn.Module) -> str:
    """Return the card of an encoder that was trained on text or on pairs."""
    # A file system far away may be gone by the end of a run.
    entry = get(config.data) if not is_remote(config.data) and kind_of(config.data) == "entry" else None
    dev = record.get("dev") or {}
    score = "none (the weights of the last step, without a dev set)"
    if dev.get("score") is not None:
        measured = f"{dev['metric']} on {dev['set']}"
        if isinstance(config, TrainConfig):
            measured = f"Spearman correlation of cosine similarities on {public_name(config.dev)} dev, "
            measured += "protocol all"
        weights = "last weights" if config.use_last else f"best of {dev['evaluations']} evaluations"
        before = "" if dev.get("base") is None else f"; {100 * dev['base']:.2f} before training"
        score = f"{100 * dev['score']:.2f} {measured} ({weights}){before}"
    rows = {
        "Training data": f"{public_name(config.data)}, {record['data'].get('rows', '?')} rows",
        "License of the data": None if entry is None else entry.licence,
        **training_rows(config),
        "Dev score": score,
        "Verdict": dev.get("verdict") or None,
    }
    summary = f"A sentence encoder trained with sentemb's `{config.recipe}` recipe."
    if record["kept_step"] == 0:
        base = public_name(config.base)
        summary = f"The base model `{base}`, unchanged: no checkpoint scored higher on the dev set."
    return render_card(config, summary, encoder_code(model), rows, citation_of(loss))
