"""A run that trains an encoder on pairs of a question and its passage, and says whether that helped."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, ClassVar

from transformers import TrainerCallback

from sentemb.data import describe_source
from sentemb.data.positive_pairs import load_positive_pairs, pair_batches
from sentemb.encoding.encoder import Role
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.evaluator import RetrievalEvaluator
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.cards import public_name
from sentemb.training.card import encoder_card, write_card
from sentemb.training.config import PairsConfig
from sentemb.training.encoder_session import EncoderSession
from sentemb.training.held_out_pairs import HeldOutPairs, compare_on_questions, hold_out_pairs
from sentemb.training.length_bucketing import bucketed_by_length
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress

_EVALUATIONS = 10  # of a run


class PairsSession(EncoderSession):
    """Trains on pairs, with the encoder's prompts of queries and documents, and negatives within the batch.

    The baseline is the base as shipped, the state before the first step. It is the result where nothing beats
    it on the dev questions, and where the test questions find what does to be significantly worse.

    Raises:
        InputError: Something in the configuration or the data cannot be used.
    """

    config: PairsConfig
    eval_on_start: ClassVar[bool] = True

    def __init__(self, config: PairsConfig, *, progress: ConsoleProgress | None) -> None:
        (seed,) = config.seeds
        pairs = load_positive_pairs(config.data, config.columns, data_dir=config.data_dir)
        self.pairs = len(pairs.rows)
        self.held_out: HeldOutPairs | None = None
        rows = pairs.rows
        if config.held_out:
            self.held_out = hold_out_pairs(rows, share=config.held_out, seed=seed)
            self.evaluator = RetrievalEvaluator(
                [self.held_out.dev], name="dev", exclude_same_ids=True, write_csv=False
            )
            rows = self.held_out.train
        batches = len(pair_batches(rows, config.batch_size, drop_last=False))
        if len(rows.column_names) == 2 and batches == len(rows) and config.batch_size > 1:
            raise InputError(
                f"all pairs in {config.data} have the same passage, so no batch contains a negative",
                "provide pairs with different passages",
            )
        steps = min(config.max_steps or batches * config.epochs, batches * config.epochs)
        self.eval_steps = config.eval_steps or -(-steps // _EVALUATIONS)
        super().__init__(config, progress=progress, rows=rows)
        self.loss = build_loss(config, bucketed_by_length(self.model))
        negatives_per_anchor(self.loss, batch_size=config.batch_size, columns=self.text_columns)  # or refuses
        self.remarks = (self._remark(pairs.names, pairs.repeated),)

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool, in_memory: bool) -> Any:
        """Make the trainer; no batch has a known positive among the negatives."""
        trainer = super().make_trainer(callbacks, fresh=fresh, in_memory=in_memory)
        trainer.args.batch_sampler = pair_batches
        return trainer

    def role_of(self, column: str) -> Role | None:
        """Return what the texts of a column are in a search: questions come first."""
        return "query" if column == "anchor" else "document"

    def describe(self) -> dict[str, Any]:
        """Say for the record what is trained on what."""
        data = describe_source(self.config.data, data_dir=self.config.data_dir, rows=self.pairs)
        data["trained_on"] = len(self.rows or ())
        if self.held_out is not None:
            data["dev_questions"], data["test_questions"] = len(self.held_out.dev), len(self.held_out.test)
        return {"data": data, **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Compare with the base as shipped on the test questions."""
        if self.held_out is None:
            return kept
        kept = replace(kept, measure="NDCG@10", base_score=self.scores[0] if self.scores else None)
        finished = is_finished_encoder(self.config.base)
        if kept.step == 0 and (self.config.pooling is None or not finished):
            base = public_name(self.config.base)
            self.announce(
                f"no checkpoint beat the base on the dev questions, so {kept.output} is the base, {base}"
            )
            return kept
        # Another pooling than a finished encoder's own is a change, also before the first step.
        shipped = load(self.config.base, pooling=None if finished else self.config.pooling)  # type: ignore[arg-type]
        kept = replace(kept, test=compare_on_questions(shipped, self.model, self.held_out))
        if kept.is_worse and not self.config.use_last:
            self.model = shipped
            kept = replace(kept, step=0, dev_score=kept.base_score)
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen, and how good they are."""
        return {
            "set": "held-out questions",
            "metric": kept.measure,
            "initial": scores[0] if scores else None,
            "base": kept.base_score,
            "test": None if kept.test is None else asdict(kept.test),
            "verdict": kept.verdict(),
        }

    def write_model(self, folder: Any, record: dict[str, Any]) -> None:
        """Write the encoder and its card."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        write_card(
            folder / "README.md", lambda: encoder_card(self.config, self.model, record, loss=self.loss)
        )

    def _remark(self, names: tuple[str, ...], repeated: int) -> str:
        told = f"{self.pairs:,} pairs from the columns {', '.join(names)}"
        if repeated:
            told += f", after removing {repeated:,} duplicates"
        if self.held_out is None:
            return told
        dev, test = len(self.held_out.dev), len(self.held_out.test)
        told += f": {len(self.rows or ()):,} for training, {dev:,} questions to select the checkpoint"
        told += f" and {test:,} for the verdict"
        if replaced := self.held_out.replaced:
            told += f"; {replaced:,} hard negatives that are held-out passages were replaced"
        return told
