"""A run that trains an encoder on text and chooses its weights by a similarity dev set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from sentemb._uris import local_path
from sentemb.data import describe_source
from sentemb.losses import ViewCache
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.cards import public_name
from sentemb.training.card import encoder_card, write_card
from sentemb.training.config import TrainConfig
from sentemb.training.encoder_session import EncoderSession
from sentemb.training.length_bucketing import bucketed_by_length
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.rows import dev_evaluator, load_rows


class ContrastiveSession(EncoderSession):
    """A run that trains an encoder on text and chooses its weights by a similarity dev set.

    The baseline is the base as shipped. It is the state before the first step, but where a pooling is named
    for an encoder that has one: then it is evaluated beside. Where nothing beats it, it is the result.

    Raises:
        InputError: Something in the configuration or the data cannot be used.
    """

    config: TrainConfig
    eval_on_start: ClassVar[bool] = True

    def __init__(
        self, config: TrainConfig, *, progress: ConsoleProgress | None, view_cache: ViewCache | None
    ) -> None:
        rows = load_rows(config)
        self.evaluator = dev_evaluator(config)
        self.eval_steps = config.eval_steps
        super().__init__(config, progress=progress, rows=rows)
        whole_pass = config.max_steps is None or config.max_steps * config.batch_size >= len(rows)
        encoder = bucketed_by_length(self.model)
        self.loss = build_loss(config, encoder, view_cache=view_cache, whole_pass=whole_pass)
        self.negatives = negatives_per_anchor(
            self.loss, batch_size=config.batch_size, columns=self.text_columns
        )
        self.remarks = () if self.negatives is None else (f"negatives per anchor: {self.negatives}",)
        if getattr(self.loss, "view_cache", None) is not None:
            self.remarks += ("computing the views of the frozen encoder before the first step",)
        self.shipped: float | None = None

    def prepare(self) -> None:
        """Evaluate the base as shipped, where training does not start from it."""
        config = self.config
        if self.evaluator is None or config.pooling is None or not is_finished_encoder(config.base):
            return
        with torch.random.fork_rng():
            scores = self.evaluator(load(config.base))
        self.shipped = scores[self.evaluator.primary_metric]
        self.announce(f"the base {config.base} before training: dev Spearman {100 * self.shipped:.2f}")

    def describe(self) -> dict[str, Any]:
        """Say for the record what the run is trained on."""
        config = self.config
        data = describe_source(config.data, data_dir=config.data_dir, rows=len(self.rows or ()))
        return {"data": data, "negatives_per_anchor": self.negatives, **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Fall back to the base where nothing beat it."""
        base = self._base_score(self.scores)
        kept = replace(kept, base_score=base)
        if self.evaluator is not None:
            interval = self.evaluator.interval(0 if self.shipped is None else -1, kept.step)
            kept = replace(kept, interval=interval)
        if base is None or kept.dev_score is None or self.config.use_last:
            return kept
        if self.shipped is not None and kept.dev_score <= self.shipped:
            self.model = load(self.config.base)
            kept = replace(kept, step=0, dev_score=self.shipped, interval=None)
        if kept.step == 0:
            self.announce(
                f"no checkpoint beat the base model on the dev set, so {kept.output} is the base, "
                f"{public_name(self.config.base)}"
            )
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""
        return {
            "set": local_path(self.config.dev).name,
            "metric": "Spearman correlation of cosine similarities, protocol all",
            "initial": scores[0] if scores else None,
            "base": kept.base_score,
            "interval": kept.interval,
        }

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the encoder and its card."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        write_card(
            folder / "README.md", lambda: encoder_card(self.config, self.model, record, loss=self.loss)
        )

    def _base_score(self, scores: list[float]) -> float | None:
        return self.shipped if self.shipped is not None else scores[0] if scores else None
