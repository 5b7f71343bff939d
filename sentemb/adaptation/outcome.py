"""The outcome of an adaptation, and the card that states it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb.adaptation.config import AdaptConfig
from sentemb.adaptation.gain import RECALL_LOSS, Gain, Reliability
from sentemb.adaptation.held_out import NDCG, RECALL, Scores
from sentemb.modules.cards import public_name
from sentemb.training.card import encoder_code, render_card, training_rows
from sentemb.training.objective import citation_of
from sentemb.training.settings import shown


class Kind(NamedTuple):
    """Mean scores on one kind of generated queries, of the base and of the adapted model."""

    name: str
    queries: int
    ndcg: tuple[float, float]  # NDCG@10 x 100, before and after
    recall: tuple[float, float]  # recall@100 x 100, before and after


def kinds_of(before: Scores, after: Scores) -> tuple[Kind, ...]:
    """Return the mean scores on each kind of queries."""
    names = dict.fromkeys(name for name, _ in before)

    def means(name: str, measure: str) -> tuple[float, float]:
        return float(before[name, measure].mean()), float(after[name, measure].mean())

    return tuple(
        Kind(name, len(before[name, NDCG]), means(name, NDCG), means(name, RECALL)) for name in names
    )


@dataclass(frozen=True)
class Adapted:
    """A finished adaptation.

    Attributes:
        output: The folder; it loads as a `SentenceTransformer`.
        base: The name of the base.
        helped: Whether the adapted model is returned; if not, the folder holds the base as it was.
        gain: The predicted change on real queries, of the best candidate where none is returned; None if it
            cannot be predicted for these documents.
        kinds: Scores on the generated queries, before and after.
        share: Share of the trained weights in the model: 1 is the trained weights, 0 the base.
        step: The last step of training.
        reliability: How such predictions held on other collections.
        general: Scores on tasks that are not about the documents, before and after, by task; None if they
            were not measured.
        forgetting: Points that the model was allowed to lose on those tasks; None without a limit.
        forgot: Whether candidates lost more.
    """

    output: Path
    base: str
    helped: bool
    gain: Gain | None
    kinds: Sequence[Kind]
    share: float
    step: int
    reliability: Reliability
    general: Mapping[str, tuple[float, float]] | None = None
    forgetting: float | None = None
    forgot: bool = False

    def verdict(self) -> str:
        """Return the outcome in a sentence or two."""
        if self.helped:
            assert self.gain is not None  # nothing is returned without a prediction
            text = f"better: {_expected(self.gain)}"
        else:
            text = f"{self._doubt()}; {self.base} is returned unchanged"
        if self.general is None:
            return text
        changes = (f"{name} {before:.1f} -> {after:.1f}" for name, (before, after) in self.general.items())
        return f"{text}; {', '.join(changes)}"

    def values(self) -> dict[str, Any]:
        """Return plain values for the record."""
        return {
            "helped": self.helped,
            "verdict": self.verdict(),
            "share": self.share,
            "gain": None
            if self.gain is None
            else {
                "ndcg@10": self.gain.ndcg.mean,
                "interval": self.gain.ndcg.interval(),
                "chance": self.gain.ndcg.chance,
                "recall@100": self.gain.recall,
            },
            "general": self.general,
            "generated": [
                {"kind": kind.name, "queries": kind.queries, NDCG: kind.ndcg, RECALL: kind.recall}
                for kind in self.kinds
            ],
        }

    def _doubt(self) -> str:
        """Return why no candidate is returned."""
        if self.gain is None:
            return "cannot tell: too few documents are related to each other to predict real queries"
        if self.forgot:
            limit = f"--max-forgetting {self.forgetting:g}"
            return f"does not help: every candidate loses more on general tasks than {limit} allows"
        if self.gain.recall < -RECALL_LOSS and self.gain.ndcg.mean > self.gain.smallest:
            return f"does not help: recall@100 is expected to change by {self.gain.recall:+.1f}"
        return (
            f"not clearly better: {_expected(self.gain)}, where a gain of {self.gain.smallest:.1f} or more "
            "would be clear"
        )


def _expected(gain: Gain) -> str:
    low, high = gain.ndcg.interval()
    return (
        f"NDCG@10 on real queries is expected to change by {gain.ndcg.mean:+.1f} (80 % interval {low:+.1f} "
        f"to {high:+.1f}) and recall@100 by {gain.recall:+.1f}"
    )


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
    settings = training_rows(config)
    del settings["Epochs"], settings["Seed"]
    summary = (
        f"`{base}` adapted to documents with `sentemb adapt`, without labels: {outcome.verdict()}."
        if outcome.helped
        else f"`{base}`, unchanged. `sentemb adapt` was tried on documents: {outcome.verdict()}."
    )
    rows: dict[str, object] = {
        "Documents": f"{data['source']}: {data['documents']}, {data['trained_on']} of them trained on",
        "Checksum of the documents": data["sha256"],
        "Teacher": None if config.teacher is None else public_name(config.teacher),
        "Pairs": "title and body, sentence and rest, crops, rare words; in-batch negatives",
        **settings,
        "Layers trained": config.layers or "all",
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
    return render_card(config, summary, encoder_code(model), rows, citation_of(loss))
