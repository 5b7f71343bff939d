"""The model card of a model that serves several tasks."""

from __future__ import annotations

from typing import Any

from sentemb.multitask.loss import MultiTaskLoss
from sentemb.training.card import Card, run_name, training_rows
from sentemb.training.config import MultiTaskConfig
from sentemb.training.objective import citation_of


def model_card(config: MultiTaskConfig, record: dict[str, Any], *, loss: MultiTaskLoss) -> str:
    """Make the text of a card."""
    name = run_name(config.output)
    sets = ", ".join(f"{one['set']} ({one['rows']} rows)" for one in record["data"]["train"].values())
    rows = {
        "Training data": sets,
        "Stages": ", then ".join(record["stages"]),
        "Tasks trained": ", ".join(config.tasks),
        "Heads": f"{config.sharing}, dropout {config.head_dropout:g}",
        **training_rows(config),
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
        citation_of(loss),
        config.base,
        tags=("sentence-similarity", "text-classification"),
        after_code=f'Its encoder alone is `SentenceTransformer("{name}")`.',
    ).text()
