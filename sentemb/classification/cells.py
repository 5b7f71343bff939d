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
from sentemb.classification.recipes import resolve_classifier
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Method, Outcome


def fit_predict(
    recipe: str,
    train: LabelledTexts,
    validation: LabelledTexts,
    test: LabelledTexts,
    seed: int,
    options: Mapping[str, Any],
) -> Outcome:
    """Train a classifier, name the classes of the test rows and forget it.

    Args:
        recipe: A name in `CLASSIFIER_RECIPES`.
        train: Rows to train on.
        validation: Rows that choose the weights.
        test: Rows to predict; their labels are not looked at.
        seed: The seed.
        options: Fields of `ClassifierConfig`.

    Returns:
        The outcome.

    Raises:
        InputError: An option or the data cannot be used.
    """
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
    settings = {name: value for name, value in config.values().items() if name not in ("output", "seeds")}
    return Outcome(
        predictions=logits.argmax(dim=1).numpy(),
        probabilities=logits.softmax(dim=1).numpy(),
        validation_score=fitted.run.dev_score,
        seconds={"train": trained - started, "predict": predicted - trained},
        options=settings,
    )


def check_method(method: Method) -> None:
    """Refuse a method whose options are wrong, before anything is trained.

    Args:
        method: The method.

    Raises:
        InputError: There is no such recipe or option, or a value is out of range.
    """
    try:
        resolve_classifier(method.recipe, overrides={**method.options, "output": "unused"})
    except InputError as error:
        raise InputError(f"{method.name}: {error.message}", error.hint) from error
