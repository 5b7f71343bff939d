"""`/v1/classify`: the class of texts or of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from sentemb.classification import Classifier
from sentemb.encoding.encoder import Vectors, check_finite
from sentemb.encoding.rows import ReadyTexts, Rows
from sentemb.errors import InputError
from sentemb.serving.answers import json_answer
from sentemb.serving.guards import JsonRoute
from sentemb.serving.names import named
from sentemb.serving.problems import Problem
from sentemb.serving.scored import ScoredTexts
from sentemb.serving.settings import Truncate
from sentemb.serving.shapes import MOST_INPUTS


class ClassifierRows:
    """A classifier as a row encoder, whose vectors are the probabilities of all classes.

    Each input is computed alone, so that its probabilities do not depend on what stands beside it.
    """

    by_length = False

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        classifier.encoder.eval()
        classifier.head.eval()
        self._tokenising = Lock()  # a tokenizer's limits are the last call's

    def prepare(self, texts: Sequence[Any]) -> ReadyTexts:
        """Tokenise."""
        classifier = self.classifier
        limit = {} if classifier.max_length is None else {"max_length": classifier.max_length}
        with self._tokenising:
            features = [dict(classifier.encoder.preprocess([text], **limit)) for text in texts]
            cut = [row for row, text in enumerate(texts) if classifier.count_cut([text])]
        lengths = np.array([one["input_ids"].numel() for one in features], dtype=np.int64)
        return ReadyTexts(texts, lengths, cut, features)

    def prepare_ids(self, ids: Sequence[Sequence[int]]) -> ReadyTexts:
        """Refuse."""
        raise InputError("a classifier does not accept token ids", "send texts")

    @torch.inference_mode()
    def compute(self, rows: Rows) -> Vectors:
        """Each input alone."""
        classifier = self.classifier
        device = classifier.encoder.device
        made: list[Vectors] = []
        for ready, some in rows:
            for row in some:
                features = {
                    name: value.to(device) if isinstance(value, torch.Tensor) else value
                    for name, value in ready.content[row].items()
                }
                logits = classifier.head(classifier.encoder(features)).float()
                made.append(logits.softmax(dim=1).cpu().numpy())
                check_finite(made[-1], [str(ready.texts[row])], name="the classifier")
        return np.concatenate(made)


_Pair = Annotated[list[StrictStr], Field(min_length=2, max_length=2)]


class ClassifyRequest(BaseModel):
    """Texts to classify, or pairs of texts for a classifier of pairs."""

    model_config = ConfigDict(strict=True)

    model: str
    input: (
        StrictStr
        | Annotated[list[StrictStr], Field(min_length=1, max_length=MOST_INPUTS)]
        | Annotated[list[_Pair], Field(min_length=1, max_length=MOST_INPUTS)]
    )
    truncate: Truncate | None = Field(
        default=None,
        description="Texts longer than the model's maximum "
        "length: answer with an error, or truncate and count them.",
    )


class Classified(BaseModel):
    """The predicted class of an input."""

    index: int
    label: str
    probabilities: dict[str, float]


class ClassifyUsage(BaseModel):
    """Number of tokens that the model processed."""

    total_tokens: int


class ClassifyResponse(BaseModel):
    """Predicted classes, in the order of the inputs."""

    model: str
    data: list[Classified]
    usage: ClassifyUsage
    truncated: int


def load_classifier(folder: Path, *, device: str | None) -> ClassifierRows:
    """Read a classifier; see `Classifier.load`."""
    return ClassifierRows(Classifier.load(folder, device=device))


def classification_router() -> APIRouter:
    """The route."""
    router = APIRouter(route_class=JsonRoute, prefix="/v1", tags=["classify"])

    @router.post("/classify", response_model=ClassifyResponse, summary="Classify texts")
    async def classify(request: Request, wanted: ClassifyRequest) -> Response:
        models = request.app.state.models
        scorer: ScoredTexts = named(models.classifiers, wanted.model, "classifier")
        labels, pairs = models.labels[wanted.model]
        inputs: list[Any] = [wanted.input] if isinstance(wanted.input, str) else list(wanted.input)
        if isinstance(inputs[0], list) != pairs:
            kind = "pairs of texts" if pairs else "texts"
            raise Problem(409, f"{wanted.model} classifies {kind}; send {kind}", field="input")
        scored = await scorer.score(
            [tuple(one) if pairs else one for one in inputs], truncate=wanted.truncate, field="input"
        )
        data = [
            {
                "index": index,
                "label": labels[int(row.argmax())],
                "probabilities": dict(zip(labels, row.tolist(), strict=True)),
            }
            for index, row in enumerate(scored.vectors)
        ]
        usage = {"total_tokens": int(scored.tokens.sum())}
        return json_answer({"model": wanted.model, "data": data, "usage": usage, "truncated": scored.cut})

    return router
