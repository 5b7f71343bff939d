"""Texts and classes as points of one space, for maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentemb.classification.classifier import Classifier
from sentemb.classification.inputs import Input, check_inputs, compute
from sentemb.encoding.sentence import training_flags_kept
from sentemb.modules.labels import LabelHead

Vectors = NDArray[np.float32]


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
            labels = _unit(head.label_vectors.float().cpu().numpy())
    return _unit(vectors), labels


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit
