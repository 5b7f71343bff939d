"""A run that trains a classifier on labelled texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import set_seed

from sentemb._compat import Dense
from sentemb._files import shareable
from sentemb.classification.classifier import Classifier
from sentemb.classification.evaluator import ClassifierEvaluator, inputs_of
from sentemb.classification.inputs import compute
from sentemb.classification.probe import fit_probe
from sentemb.data.columns import LABEL
from sentemb.data.labelled import LabelledTexts
from sentemb.modules.heads import ClassificationHead, build_head
from sentemb.training.card import classifier_card, write_card
from sentemb.training.config import ClassifierConfig
from sentemb.training.encoder_session import EncoderSession
from sentemb.training.length_bucketing import bucketed_by_length
from sentemb.training.objective import build_loss, takes_head
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress


class ClassifierSession(EncoderSession):
    """A run that trains an encoder and a head, and chooses their weights by a validation set.

    Raises:
        InputError: Something in the configuration cannot be used.
    """

    config: ClassifierConfig
    uses_prompts: ClassVar[bool] = False

    def __init__(
        self,
        config: ClassifierConfig,
        train: LabelledTexts,
        validation: LabelledTexts | None,
        *,
        progress: ConsoleProgress | None,
    ) -> None:
        self.train, self.validation = train, validation
        self.probe = config.probe
        self.two_stages = not takes_head(config.loss)
        super().__init__(config, rows=_rows(train, labels=not config.self_supervised), progress=progress)
        self.eval_steps = config.eval_steps or -(-len(train) // config.batch_size)
        start_from_pooler(self.model)
        self.head = self._build_head()
        parts = () if self.two_stages else (self.head,)
        self.loss = build_loss(config, bucketed_by_length(self.model), *parts)
        self.final_evaluator = self._evaluator()
        self.evaluator = None if self.two_stages else self.final_evaluator
        self.probe_scores: list[float] = []

    @property
    def classifier(self) -> Classifier:
        """The classifier with the weights that it has now."""
        return Classifier(
            self.model,
            self.head,
            self.train.label_names,
            pairs=self.train.pairs is not None,
            max_length=self.max_length,
        )

    def describe(self) -> dict[str, Any]:
        """Say for the record what the run is trained on."""
        sets = {"train": self.train, "validation": self.validation}
        data: dict[str, Any] = {name: None if one is None else one.describe() for name, one in sets.items()}
        data["source"] = shareable(self.train.source or self.train.name)
        return {"data": data, "head": self.head.config(), **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Fit the head on the frozen encoder, where the loss has not trained it."""
        if not self.two_stages:
            return kept
        self.announce(f"fitting the head on {len(self.train)} vectors of the frozen encoder")
        set_seed(self.seed)
        self.probe_scores = self._fit_probe()
        if not self.probe_scores:
            return kept
        best = self.probe_scores[-1] if self.config.use_last else max(self.probe_scores)
        return replace(kept, dev_score=best)

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Say for the record how the weights were chosen."""
        described: dict[str, Any] = {
            "set": None if self.validation is None else self.validation.name,
            "metric": self.config.metric,
        }
        return described | {"probe": self.probe_scores} if self.two_stages else described

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the classifier and its card."""
        self.classifier.save(folder)
        write_card(
            folder / "README.md",
            lambda: classifier_card(
                self.config,
                record,
                classes=self.train.label_names,
                pairs=self.train.pairs is not None,
                loss=self.loss,
            ),
        )

    def _build_head(self) -> ClassificationHead:
        width = self.model.get_embedding_dimension()
        arguments = {"width": width, "classes": len(self.train.label_names), **self.config.head_options}
        return build_head({"kind": self.config.head, **arguments}).to(self.model.device)

    def _evaluator(self) -> ClassifierEvaluator | None:
        if self.validation is None:
            return None
        return ClassifierEvaluator(
            self.head, self.validation, metric=self.config.metric, max_length=self.max_length
        )

    def _fit_probe(self) -> list[float]:
        return fit_probe(
            self.head,
            lambda: self._vectors(self.train, dropout=self.probe.encoder_dropout),
            torch.from_numpy(self.train.labels).to(self.model.device),
            options=self.probe,
            score=self._probe_score(),
            keep_best=not self.config.use_last,
        )

    def _probe_score(self) -> Callable[[], float] | None:
        evaluator = self.final_evaluator
        return None if evaluator is None else evaluator.scorer(self._vectors(evaluator.data))

    def _vectors(self, data: LabelledTexts, *, dropout: bool = False) -> Tensor:
        """Vectors of the frozen encoder, `(n, d)`."""
        vectors = compute(
            self.model,
            inputs_of(data),
            lambda output: output["sentence_embedding"],
            max_length=self.max_length,
            dropout=dropout,
        )
        return torch.from_numpy(vectors).to(self.model.device)


def start_from_pooler(model: SentenceTransformer) -> None:
    """Let Dense + tanh after CLS begin as the checkpoint's pooler, as BERT's fine-tuning does."""
    pooler = getattr(getattr(getattr(model[0], "model", None), "pooler", None), "dense", None)
    head = model[-1]
    # A Dense whose biases are zero is a new one; a pooler that the checkpoint lacks is loaded as zeros.
    new = isinstance(head, Dense) and head.linear.bias is not None and not head.linear.bias.any()
    if new and isinstance(pooler, nn.Linear) and bool(pooler.weight.any()):
        head.linear.load_state_dict(pooler.state_dict())


def _rows(data: LabelledTexts, *, labels: bool) -> Dataset:
    # Upstream's collator hands a pair over as it is, and the tokenizer joins its two texts.
    texts: list[Any] = [list(one) if isinstance(one, tuple) else one for one in inputs_of(data)]
    return Dataset.from_dict({"text": texts} | ({LABEL: data.labels.tolist()} if labels else {}))
