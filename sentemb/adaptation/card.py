"""The model card of an adapted encoder."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb.adaptation.config import AdaptConfig
from sentemb.adaptation.outcome import Adapted
from sentemb.modules.cards import ENCODER_TAGS, public_name
from sentemb.training.card import Card, encoder_code, run_name, training_rows
from sentemb.training.objective import citation_of
from sentemb.training.settings import shown


def adapted_card(
    config: AdaptConfig,
    model: SentenceTransformer,
    record: dict[str, Any],
    outcome: Adapted,
    *,
    loss: nn.Module,
) -> str:
    """Return the text of the card."""
    base, data = public_name(config.base), record["data"]
    summary = (
        f"`{base}` adapted to documents with `sentemb adapt`, without labels: {outcome.verdict()}."
        if outcome.helped
        else f"`{base}`, unchanged. `sentemb adapt` was tried on documents: {outcome.verdict()}."
    )
    rows: dict[str, object] = {
        "Documents": f"{data['source']}: {data['documents']}, {data['trained_on']} of them trained on",
        "Checksum of the documents": data["sha256"],
        **_training(config),
        "Weights": f"step {outcome.step}, {outcome.share:g} of the trained weights"
        if outcome.helped
        else None,
        "Seed": shown(config.seeds),
        **{
            f"NDCG@10 on generated queries, {kind.name}": f"{kind.ndcg[0]:.1f} -> {kind.ndcg[1]:.1f}"
            for kind in outcome.kinds
        },
        "Versions": ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
        or None,
    }
    name = run_name(config.output)
    return Card(
        name, summary, encoder_code(name, model), rows, citation_of(loss), config.base, tags=ENCODER_TAGS
    ).text()


def _training(config: AdaptConfig) -> dict[str, object]:
    """Return the rows on training."""
    settings = training_rows(config)
    del settings["Epochs"], settings["Seed"]
    return {
        "Teacher": None if config.teacher is None else public_name(config.teacher),
        "Pairs": "title and body, sentence and rest, crops, rare words; in-batch negatives",
        **settings,
        "Layers trained": config.layers or "all",
    }
