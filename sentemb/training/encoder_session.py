"""A run that trains an encoder on text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from sentemb.data import describe_source
from sentemb.data.columns import LABEL
from sentemb.losses import ViewCache
from sentemb.training.by_length import in_parts
from sentemb.training.card import model_card, write_card
from sentemb.training.config import TrainConfig
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.rows import dev_evaluator, load_rows
from sentemb.training.session import Session


class EncoderSession(Session):
    """A run that trains an encoder on text and chooses its weights by a similarity dev set.

    Args:
        config: The configuration, with one seed.
        progress: Where to show progress.
        view_cache: Cache of frozen views to share between runs.

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
        super().__init__(config, rows=rows, progress=progress)
        whole_pass = config.max_steps is None or config.max_steps * self.rows_per_step >= len(rows)
        self.loss = build_loss(config, in_parts(self.model), view_cache=view_cache, whole_pass=whole_pass)
        self.negatives = negatives_per_anchor(
            self.loss, batch_size=config.batch_size, columns=sum(name != LABEL for name in rows.column_names)
        )
        self.remarks = (f"negatives per anchor: {self.negatives}",)
        if getattr(self.loss, "view_cache", None) is not None:
            self.remarks += ("computing the views of the frozen encoder before the first step",)

    def describe(self) -> dict[str, Any]:
        """Say for the record what the run is trained on."""
        config = self.config
        return {
            "data": describe_source(config.data, data_dir=config.data_dir, rows=len(self.rows)),
            "negatives_per_anchor": self.negatives,
        }

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""
        return {
            "set": self.config.dev,
            "metric": "Spearman of cosines, protocol all",
            "initial": scores[0] if scores else None,
        }

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the encoder and its card."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        write_card(
            folder / "README.md",
            lambda: model_card(self.config, self.model, record, citation=str(self.loss.citation)),
        )
