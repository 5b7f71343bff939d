"""`/v1/classify`: the class of texts or of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from sentemb.classification import Classifier
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.rows import ReadyTexts, Rows
from sentemb.errors import InputError
from sentemb.serving.answers import json_answer
from sentemb.serving.auth import reader, settings_of
from sentemb.serving.guards import JsonRoute
from sentemb.serving.names import named
from sentemb.serving.problems import Problem
from sentemb.serving.scored import ScoredTexts
from sentemb.serving.settings import Truncate


class ClassifierRows:
    """A classifier as a row encoder, whose vectors are the probabilities of all classes.

    Each input is computed alone, so that its probabilities do not depend on what stands beside it.
    """

    by_length = False

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        # A tokenizer sets its limits at the first call, which must not happen beside another.
        classifier.predict([("first", "second") if classifier.pairs else "first"])

    def prepare(self, texts: Sequence[Any]) -> ReadyTexts:
        """Count tokens."""
        tokenizer: Any = self.classifier.encoder.tokenizer
        parts = [[text] if isinstance(text, str) else list(text) for text in texts]
        counts = np.array([len(tokenizer(*part)["input_ids"]) for part in parts], dtype=np.int64)
        cut = [row for row, text in enumerate(texts) if self.classifier.count_cut([text])]
        longest = self.classifier.max_length or self.classifier.encoder.max_seq_length
        return ReadyTexts(texts, counts if longest is None else np.minimum(counts, longest), cut)

    def prepare_ids(self, ids: Sequence[Sequence[int]]) -> ReadyTexts:
        """Refuse."""
        raise InputError("a classifier takes no token ids", "send texts")

    def compute(self, rows: Rows) -> Vectors:
        """Each input alone."""
        inputs = [ready.texts[row] for ready, some in rows for row in some]
        probabilities: list[Vectors] = [self.classifier.predict_proba([one]) for one in inputs]
        return np.concatenate(probabilities)


class ClassifyRequest(BaseModel):
    """Texts, or pairs of texts for a classifier of pairs."""

    model_config = ConfigDict(strict=True)

    model: str
    input: (
        StrictStr
        | Annotated[list[StrictStr], Field(min_length=1)]
        | Annotated[list[Annotated[list[StrictStr], Field(min_length=2, max_length=2)]], Field(min_length=1)]
    )
    truncate: Truncate | None = Field(default=None, description="As for embeddings.")


class Classified(BaseModel):
    """The class of one input."""

    index: int
    label: str
    probabilities: dict[str, float]


class ClassifyUsage(BaseModel):
    """Tokens that the model has read."""

    total_tokens: int


class ClassifyResponse(BaseModel):
    """The classes in the order of the inputs."""

    model: str
    data: list[Classified]
    usage: ClassifyUsage
    truncated: int


def load_classifier(folder: Path, *, device: str | None) -> ClassifierRows:
    """Read a classifier; see `Classifier.load`."""
    return ClassifierRows(Classifier.load(folder, device=device))


def classification_router() -> APIRouter:
    """The route."""
    router = APIRouter(route_class=JsonRoute, prefix="/v1", tags=["classify"], dependencies=[Depends(reader)])

    @router.post("/classify", response_model=ClassifyResponse, summary="Name the class of texts")
    async def classify(request: Request, wanted: ClassifyRequest) -> Response:
        models = request.app.state.models
        scorer: ScoredTexts = named(models.classifiers, wanted.model, "classifier")
        labels, pairs = models.labels[wanted.model]
        inputs: list[Any] = [wanted.input] if isinstance(wanted.input, str) else list(wanted.input)
        most = settings_of(request).max_inputs
        if len(inputs) > most:
            raise Problem(422, f"more than {most:,} inputs; send them in parts", field="input")
        if isinstance(inputs[0], list) != pairs:
            kind = "pairs of texts" if pairs else "texts"
            raise Problem(409, f"{wanted.model} classifies {kind}; send those", field="input")
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
