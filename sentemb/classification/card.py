"""The model card of a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentemb.classification.config import ClassifierConfig
from sentemb.data.labelled import LabelledTexts
from sentemb.training.card import Card


def classifier_card(
    config: ClassifierConfig, train: LabelledTexts, record: dict[str, Any], *, citation: str
) -> str:
    """Make the text of a classifier's card."""
    name = Path(config.output).name
    example = '("first text", "second text")' if train.pairs else '"a text"'
    score = record["dev"]["score"]
    shown = (
        "none: the last weights"
        if score is None
        else f"{config.metric} {100 * score:.2f} of {record['dev']['set']}"
    )
    rows = {
        "Recipe": f"{config.recipe} ({config.preset})",
        "Base model": config.base,
        "Training data": f"{train.name} {train.split}, {len(train)} {'pairs' if train.pairs else 'texts'}",
        "Classes": ", ".join(train.label_names[:20]) + (", ..." if len(train.label_names) > 20 else ""),
        "Loss": f"{config.loss} {dict(config.loss_options)}",
        "Head": f"{config.head} {dict(config.head_options)}",
        "Batch size": config.batch_size,
        "Epochs": config.epochs,
        "Learning rate": f"{config.learning_rate:g}",
        "Seed": config.seeds[0],
        "Validation score": shown,
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
        citation,
        config.base,
        pipeline="text-classification",
        tags=("text-classification",),
        after_code=f'Its encoder alone is `SentenceTransformer("{name}")`.',
    ).text()
