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
    """Make the text of the card."""
    base, data = public_name(config.base), record["data"]
    summary = (
        f"`{base}` adapted to documents with `sentemb adapt`, without labels: {outcome.verdict()}."
        if outcome.helped
        else f"`{base}` as it is. `sentemb adapt` was tried on documents: {outcome.verdict()}."
    )
    of = "" if outcome.helped else " of what was tried"
    whitened = outcome.helped and not outcome.share
    used = f"{data['trained_on']} of them {'fitted' if whitened else 'trained'} on"
    rows: dict[str, object] = {
        "Documents": f"{data['source']}: {data['documents']}, {used}",
        "Checksum of the documents": data["sha256"],
        **({} if whitened else _training(config)),
        "Soft whitening": f"ridge {outcome.ridge:g}" if outcome.helped and outcome.ridge else None,
        "Weights": f"step {outcome.step}, {outcome.share:g} of what was learned"
        if outcome.helped and outcome.share
        else None,
        "Seed": shown(config.seeds),
        **{
            f"NDCG@10{of}, {one.name}": f"{one.scores[0]:.1f} -> {one.scores[1]:.1f}"
            for one in outcome.comparison.sets
        },
        "Versions": ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
        or None,
    }
    name = run_name(config.output)
    citation = "" if whitened else citation_of(loss)
    return Card(
        name, summary, encoder_code(name, model), rows, citation, config.base, tags=ENCODER_TAGS
    ).text()


def _training(config: AdaptConfig) -> dict[str, object]:
    """How it was trained."""
    settings = training_rows(config)
    del settings["Epochs"], settings["Seed"]
    return {
        "Teacher": None if config.teacher is None else public_name(config.teacher),
        "Pairs": "title for body, sentence for the rest, crops, rare words; negatives within the batch",
        **settings,
        "Layers trained": config.layers or "all",
    }
