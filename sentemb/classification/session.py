"""A run that trains a classifier on labelled texts; SupCL-Seq's second stage fits its head afterwards."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup, set_seed

from sentemb._compat import Dense
from sentemb._files import shareable
from sentemb.classification.classifier import Classifier, compute
from sentemb.classification.evaluator import ClassifierEvaluator, inputs_of
from sentemb.data.columns import LABEL
from sentemb.data.labelled import LabelledTexts
from sentemb.modules.heads import build_head
from sentemb.training.card import classifier_card, write_card
from sentemb.training.config import ClassifierConfig, ProbeOptions
from sentemb.training.length_bucketing import bucketed_by_length
from sentemb.training.objective import build_loss, takes_head
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.session import Session
from sentemb.training.trainer import decay_groups

_LARGEST_WARMUP = 0.1  # share of the steps; BERT's, where the notebooks' fixed number is more than that


class ClassifierSession(Session):
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
        self.two_stages = not takes_head(config.loss)
        # Upstream's collator hands a pair over as it is, and the tokenizer joins its two texts.
        texts: list[Any] = [list(one) if isinstance(one, tuple) else one for one in inputs_of(train)]
        labels = {} if config.self_supervised else {LABEL: train.labels.tolist()}
        super().__init__(config, rows=Dataset.from_dict({"text": texts, **labels}), progress=progress)
        self.eval_steps = config.eval_steps or -(-len(train) // config.batch_size)
        start_from_pooler(self.model)
        size = {"width": self.model.get_embedding_dimension(), "classes": len(train.label_names)}
        head = build_head({"kind": config.head, **size, **config.head_options})
        self.head = head.to(self.model.device)
        parts = () if self.two_stages else (self.head,)
        self.loss = build_loss(config, bucketed_by_length(self.model), *parts)
        self.final_evaluator = None
        if validation is not None:
            self.final_evaluator = ClassifierEvaluator(
                self.head, validation, metric=config.metric, max_length=self.max_length
            )
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
        """Return for the record what the run is trained on."""
        sets = {"train": self.train, "validation": self.validation}
        data: dict[str, Any] = {name: None if one is None else one.describe() for name, one in sets.items()}
        data["source"] = shareable(self.train.source or self.train.name)
        return {"data": data, "head": self.head.config(), **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Fit the head on the frozen encoder, if the loss has not trained it."""
        if not self.two_stages:
            return kept
        self.announce(f"fitting the head on {len(self.train)} vectors of the frozen encoder")
        set_seed(self.seed)
        evaluator, options = self.final_evaluator, self.config.probe
        self.probe_scores = fit_probe(
            self.head,
            lambda: self._vectors(self.train, dropout=options.encoder_dropout),
            torch.from_numpy(self.train.labels).to(self.model.device),
            options=options,
            score=None if evaluator is None else evaluator.scorer(self._vectors(evaluator.data)),
            keep_best=not self.config.use_last,
        )
        if not self.probe_scores:
            return kept
        best = self.probe_scores[-1] if self.config.use_last else max(self.probe_scores)
        return replace(kept, dev_score=best)

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return for the record how the weights were chosen."""
        described: dict[str, Any] = {
            "set": None if self.validation is None else self.validation.name,
            "metric": self.config.metric,
        }
        return described | {"probe": self.probe_scores} if self.two_stages else described

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the classifier and its card."""
        classifier = self.classifier
        classifier.save(folder)

        def card() -> str:
            classes, pairs = classifier.labels, classifier.pairs
            return classifier_card(self.config, record, classes=classes, pairs=pairs, loss=self.loss)

        write_card(folder / "README.md", card)

    def _vectors(self, data: LabelledTexts, *, dropout: bool = False) -> Tensor:
        """Return vectors of the frozen encoder, `(n, d)`."""
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


def fit_probe(
    head: nn.Module,
    vectors: Callable[[], Tensor],
    labels: Tensor,
    *,
    options: ProbeOptions,
    score: Callable[[], float] | None,
    keep_best: bool = True,
) -> list[float]:
    """Train a head by cross-entropy on the vectors of a frozen encoder; return its score of each epoch."""
    passes = options.passes(len(labels))
    steps = options.epochs * passes * options.steps(len(labels))
    optimizer = torch.optim.AdamW(
        decay_groups(head.parameters(), options.weight_decay), lr=options.learning_rate
    )
    warmup = min(options.warmup_steps, int(_LARGEST_WARMUP * steps))
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, steps)
    scores: list[float] = []
    best = deepcopy(head.state_dict())
    current = vectors()
    for number in range(options.epochs * passes):
        if number and options.encoder_dropout:
            current = vectors()
        head.train()
        for rows in torch.split(torch.randperm(len(labels)), options.batch_size):
            logits = head({"sentence_embedding": current[rows]})  # (b, classes)
            nn.functional.cross_entropy(logits, labels[rows]).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(head.parameters(), options.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        head.eval()
        if score is not None and (number + 1) % passes == 0:
            scores.append(score())
            if scores[-1] > max(scores[:-1], default=float("-inf")):
                best = deepcopy(head.state_dict())
    if scores and keep_best:
        head.load_state_dict(best)
    return scores
