"""Texts and classes as points of one space, for maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentemb.classification.classifier import Classifier
from sentemb.classification.evaluator import inputs_of
from sentemb.classification.inputs import Input, check_inputs, compute
from sentemb.data.labelled import LabelledTexts
from sentemb.encoding.encoder import normalised
from sentemb.encoding.sentence import training_flags_kept
from sentemb.errors import InputError
from sentemb.modules.labels import LabelHead

Vectors = NDArray[np.float32]


def map_classes(folders: Sequence[Path], texts: LabelledTexts) -> dict[str, tuple[Vectors, Vectors | None]]:
    """The vectors of texts, and of labels where it has any, of each classifier by the name of its folder."""
    found = {}
    for folder in folders:
        classifier = Classifier.load(folder)
        if classifier.labels != texts.label_names:
            raise InputError(
                f"{folder} has the classes {', '.join(classifier.labels[:5])}, but {texts.name} has "
                f"{', '.join(texts.label_names[:5])}",
                "use a set with the classifier's classes",
            )
        found[folder.name] = map_vectors(classifier, inputs_of(texts))
    if len(found) < len(folders):
        raise InputError(
            "two folders have the same name, which is the title of their panels", "rename one of them"
        )
    return found


def map_vectors(classifier: Classifier, texts: Sequence[Input]) -> tuple[Vectors, Vectors | None]:
    """The vectors by which a classifier tells texts apart, of length one."""
    head = classifier.head
    labels = None

    def of_batch(features: dict[str, Any]) -> Tensor:
        found: Tensor = features["sentence_embedding"]
        return head.embed(features) if isinstance(head, LabelHead) else found

    with training_flags_kept(head), torch.inference_mode():
        head.eval()
        inputs = check_inputs(texts, pairs=classifier.pairs)
        vectors = compute(classifier.encoder, inputs, of_batch, max_length=classifier.max_length)
        if isinstance(head, LabelHead):
            labels = normalised(head.label_vectors.float().cpu().numpy())
    return normalised(vectors), labels
