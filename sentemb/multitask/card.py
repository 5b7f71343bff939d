"""The model card of a model that serves several tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentemb.training.card import Card
from sentemb.training.config import MultiTaskConfig


def model_card(config: MultiTaskConfig, record: dict[str, Any], *, citation: str) -> str:
    """Make the text of a card."""
    name = Path(config.output).name
    sets = ", ".join(f"{one['set']} ({one['rows']} rows)" for one in record["data"]["train"].values())
    rows = {
        "Row": f"{config.recipe} ({config.preset})",
        "Base model": config.base,
        "Training data": sets,
        "Stages": ", then ".join(record["stages"]),
        "Tasks trained": ", ".join(config.tasks),
        "Heads": f"{config.sharing}, dropout {config.head_dropout:g}",
        "Batch size": config.batch_size,
        "Learning rate": f"{config.learning_rate:g}",
        "Seed": config.seeds[0],
        "Dev score": f"{100 * record['dev']['score']:.2f}, the mean of the three tasks",
    }
    code = [
        "from sentemb.multitask import MultiTaskModel",
        "",
        f'model = MultiTaskModel.load("{name}")',
        'model.predict_sentiment(["a text"])',
        'model.predict_paraphrase([("first text", "second text")])',
        'model.predict_similarity([("first text", "second text")])',
    ]
    return Card(
        name,
        f"One encoder for sentiment, paraphrase and similarity, trained with sentemb's `{config.recipe}`.",
        code,
        rows,
        citation,
        config.base,
        tags=("sentence-similarity", "text-classification"),
        after_code=f'Its encoder alone is `SentenceTransformer("{name}")`.',
    ).text()
