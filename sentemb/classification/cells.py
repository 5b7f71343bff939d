"""A recipe as a function from labelled texts to predictions, as studies run it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sentemb.classification.evaluator import inputs_of
from sentemb.classification.fit import fit_classifier
from sentemb.classification.options import check_options, takes_head
from sentemb.classification.recipes import resolve_classifier
from sentemb.classification.session import start_from_pooler
from sentemb.data.labelled import LabelledTexts
from sentemb.encoding.fingerprint import fingerprint_of
from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Outcome
from sentemb.modules import build_encoder, build_head
from sentemb.training.objective import check_loss_options, loss_class


def fit_predict(
    recipe: str,
    train: LabelledTexts,
    validation: LabelledTexts,
    test: LabelledTexts,
    seed: int,
    options: Mapping[str, Any],
) -> Outcome:
    """Train a classifier, name the classes of the test rows and forget it."""
    with tempfile.TemporaryDirectory(prefix="sentemb-cell-") as folder:
        output = str(Path(folder) / "classifier")
        overrides = {**options, "seeds": (seed,), "output": output}
        config = resolve_classifier(recipe, overrides=overrides)
        started = time.perf_counter()
        fitted = fit_classifier(config, train, validation, in_memory=True)
        trained = time.perf_counter()
        logits = torch.from_numpy(fitted.classifier.logits(inputs_of(test)))
        predicted = time.perf_counter()
    if fitted.run.dev_score is None:
        raise InputError(f"{recipe} was not judged on {validation.name} {validation.split}")
    return Outcome(
        predictions=logits.argmax(dim=1).numpy(),
        probabilities=logits.softmax(dim=1).numpy(),
        validation_score=fitted.run.dev_score,
        seconds={"train": trained - started, "predict": predicted - trained},
    )


def describe(recipe: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a training, once everything about it but its data was tried.

    The base is loaded, and the head and the loss are made for it, so that what they refuse is refused before
    anything is trained.
    """
    config = resolve_classifier(recipe, overrides={**options, "output": "unused"})
    check_options(config)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # layers that the base lacks are the same at each call
        encoder = build_encoder(config.base, pooling=config.pooling)
        start_from_pooler(encoder)
        fingerprint = fingerprint_of(encoder)
        head = {"kind": config.head, "width": encoder.get_embedding_dimension(), "classes": 2}
        heads = [build_head({**head, **config.head_options})] if takes_head(config.loss) else []
        loss_class(config.loss)(encoder, *heads, **check_loss_options(config))
    settings = {name: value for name, value in config.values().items() if name not in ("output", "seeds")}
    return {**settings, "start_fingerprint": fingerprint}
