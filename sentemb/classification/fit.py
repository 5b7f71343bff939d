"""From labelled texts to a classifier in a folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sentemb.classification.classifier import Classifier
from sentemb.classification.session import ClassifierSession
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.training.config import ClassifierConfig
from sentemb.training.folder import RunFolder
from sentemb.training.objective import check_loss_options, takes_head
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import on_all, on_main

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassifierRun:
    """A finished training.

    Args:
        classifier: The classifier, as `Classifier.load(run.output)` would give it.
        run: Where it lies and how it did; `dev_score` is the validation metric, `step` that of the encoder.
    """

    classifier: Classifier
    run: Run


def fit_classifier(
    config: ClassifierConfig,
    train: LabelledTexts,
    validation: LabelledTexts | None = None,
    *,
    resume: bool = False,
    in_memory: bool = False,
    progress: ConsoleProgress | None = None,
) -> ClassifierRun:
    """Train a classifier with one seed, and leave it in a folder that loads with and without sentemb.

    The same configuration and data on the same machine give the same weights, interrupted and resumed or not.

    Args:
        config: The configuration, with one seed.
        train: Texts, or pairs, with a class each.
        validation: The same kind of texts and the same classes, to choose the weights by; without it the last
            weights are kept.
        resume: Resume the interrupted run in the output folder, if there is one.
        in_memory: Write the run to a temporary folder, for a classifier that is used and forgotten.
        progress: Where to show progress.

    Returns:
        The classifier and its run.

    Raises:
        InputError: Something in the configuration, the data or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("lacon", overrides={"output": "cola-lacon"})  # doctest: +SKIP
        >>> cola = load_labelled("cola", split="train")  # doctest: +SKIP
        >>> fit_classifier(config, cola).classifier.predict(["Cat the sat."])  # doctest: +SKIP
    """
    if in_memory:
        with TemporaryDirectory() as folder:
            return fit_classifier(config.replace(output=folder), train, validation, progress=progress)
    config.check_single_seed("fit_classifier")
    check_options(config)
    _check_sets(train, validation)
    on_main(lambda: RunFolder(Path(config.output)).check(config, resume=resume))
    with without_upstream_bars():
        session = on_all(lambda: ClassifierSession(config, train, validation, progress=progress))
        run = session.run(resume=resume)
        return ClassifierRun(session.classifier, run)


def check_options(config: ClassifierConfig) -> None:
    """Raise InputError for an unknown option, one of the wrong type, or one that the loss does not use."""
    check_loss_options(config)
    if not takes_head(config.loss):
        if config.head != "linear":
            raise InputError(
                f"{config.loss} does not train a head, and a {config.head} head cannot be fitted to a "
                "frozen encoder",
                "use the head linear, or another loss",
            )
    elif config.probe_options:
        raise InputError(
            f"{config.loss} trains the head itself, so probe_options (of a second stage) are not used",
            "remove probe_options, or use the recipe supcl-seq",
        )
    elif config.self_supervised:
        raise InputError(f"{config.loss} needs labels, which self_supervised hides", "remove self_supervised")


def _check_sets(train: LabelledTexts, validation: LabelledTexts | None) -> None:
    """Raise InputError for labelled texts that no classifier can be trained on."""
    if not train.label_names:
        raise InputError(
            f"the labels of {train.name} are scores, but a classifier needs classes", "use a set with classes"
        )
    where = f"{train.name} {train.split}"
    absent = [name for name, count in train.class_counts.items() if not count]
    if len(absent) == len(train.label_names) - 1:
        (only,) = set(train.label_names) - set(absent)
        raise InputError(
            f"all rows of {where} have the label {only}", "add examples of at least one more class"
        )
    if absent:  # a few examples drawn from a whole set, as in few-shot learning, can miss a rare class
        logger.warning(
            "%s does not have examples of the class %s, so the classifier will hardly ever predict it",
            where,
            ", ".join(absent[:5]),
        )
    if validation is None:
        return
    other = f"{validation.name} {validation.split}"
    if (validation.pairs is None) != (train.pairs is None):
        raise InputError(
            f"{other} and {where} do not match: one has pairs, the other single texts",
            "use the same text columns for both",
        )
    if unseen := [name for name in validation.label_names if name not in train.label_names]:
        raise InputError(
            f"{other} has labels that do not occur in {where}: {', '.join(unseen[:5])}",
            "add examples of these labels to the training set",
        )
    if validation.label_names != train.label_names:
        raise InputError(
            f"{other} numbers its classes differently from {train.name}",
            "read it with label_names=train.label_names",
        )
