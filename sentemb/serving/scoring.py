"""`/v1/rerank`, compatible with Jina's and Cohere's API, and `/v1/classify`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from sentence_transformers import CrossEncoder

from sentemb._compat import Transformer
from sentemb.classification import Classifier
from sentemb.encoding.bert import flatten_networks
from sentemb.encoding.encoder import check_finite
from sentemb.encoding.linear import kernel_for, replace_linears
from sentemb.encoding.rows import ReadyTexts, Rows
from sentemb.encoding.tokens import tokenise
from sentemb.encoding.view import inference_view
from sentemb.errors import InputError
from sentemb.modules.cross_encoder import load_cross_encoder
from sentemb.serving.http import JsonRoute, Problem, find, json_response
from sentemb.serving.scheduler import Matrix
from sentemb.serving.schemas import ClassifyAnswer, ClassifyRequest, RerankAnswer, RerankRequest


class PairRows:
    """A cross-encoder as a row encoder of pairs, whose vectors are single scores."""

    by_length = True

    def __init__(self, folder: str, *, device: str | None) -> None:
        model = _load_reranker(folder, device=device)
        self._name = Path(folder).name
        self._tokenizer: Any = model.tokenizer
        # A tokenizer sets its limits in the first call, which must not run in parallel to another.
        self.prepare([("first", "second")])
        self._activation = model.activation_fn
        self._view = inference_view(model.model)
        with torch.inference_mode():
            kernel = kernel_for(self._view, precision="float32")
            flatten_networks(self._view, kernel, pooled=True)
            replace_linears(self._view, kernel)

    def prepare(self, texts: Sequence[Any]) -> ReadyTexts:
        """Tokenize pairs."""
        tokens = tokenise(self._tokenizer, texts)
        return ReadyTexts(texts, tokens.lengths, tokens.cut, tokens)

    @torch.inference_mode()
    def compute(self, rows: Rows) -> Matrix:
        """Score one batch."""
        batches = [ready.content.batch(places) for ready, places in rows]
        device = self._view.device
        features = {key: torch.cat([batch[key] for batch in batches]).to(device) for key in batches[0]}
        scores: Matrix = self._activation(self._view(**features).logits).float().cpu().numpy()
        pairs = [str(ready.texts[place]) for ready, places in rows for place in places]
        check_finite(scores, pairs, name=self._name)
        return scores


class ClassifierRows:
    """A classifier as a row encoder, whose vectors are the probabilities of all classes.

    Each input is computed alone, so that its probabilities do not depend on the batch.
    """

    by_length = False

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._encoder, self._head = classifier.encoder.eval(), classifier.head.eval()
        self._tokenizer: Any = classifier.encoder.tokenizer
        self._is_fast = bool(getattr(self._tokenizer, "is_fast", False))
        if self._is_fast:
            limit = classifier.max_length or classifier.encoder.max_seq_length
            self._tokenizer.model_max_length = limit or self._tokenizer.model_max_length
            self.prepare([("first", "second") if classifier.pairs else "first"])  # sets the limits, as above

    def prepare(self, texts: Sequence[Any]) -> ReadyTexts:
        """Tokenize texts or pairs, long ones no further than the model reads."""
        if self._is_fast:
            tokens = tokenise(self._tokenizer, texts)
            rows = [tokens.batch(np.array([row])) for row in range(len(texts))]
            return ReadyTexts(texts, tokens.lengths, tokens.cut, rows)
        limit = {"max_length": self._classifier.max_length} if self._classifier.max_length else {}
        rows = [dict(self._encoder.preprocess([text], **limit)) for text in texts]
        cut = [row for row, text in enumerate(texts) if self._classifier.count_cut([text])]
        return ReadyTexts(texts, np.array([row["input_ids"].numel() for row in rows]), cut, rows)

    @torch.inference_mode()
    def compute(self, rows: Rows) -> Matrix:
        """Classify one input."""
        ((ready, places),) = rows
        (place,) = places
        features = {
            name: value.to(self._encoder.device) if isinstance(value, torch.Tensor) else value
            for name, value in ready.content[place].items()
        }
        probabilities: Matrix = self._head(self._encoder(features)).float().softmax(dim=1).cpu().numpy()
        check_finite(probabilities, [str(ready.texts[place])], name="the classifier")
        return probabilities


def _load_reranker(folder: str, *, device: str | None) -> CrossEncoder:
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise InputError(f"no such folder: {folder}", "name the folder of a saved cross-encoder")
    model = load_cross_encoder(str(path), device=device)
    if [type(module) for module in model] != [Transformer] or model.default_prompt_name is not None:
        parts = ", ".join(type(module).__name__ for module in model)
        raise InputError(
            f"{folder} scores pairs with {parts} and its own prompt, which cannot be served",
            "choose a cross-encoder whose transformer computes the score",
        )
    return model


router = APIRouter(route_class=JsonRoute, prefix="/v1")


@router.post("/rerank", response_model=RerankAnswer, tags=["rerank"])
async def rerank(request: Request, body: RerankRequest) -> Response:
    """Score the query with each document."""
    model = find(request.app.state.registry.rerankers, body.model, "reranker")
    texts = [item if isinstance(item, str) else item.text for item in body.documents]
    pairs = [(body.query, text) for text in texts]
    scored = await model.compute(pairs, truncate=body.truncate, field="documents")
    scores = scored.vectors[:, 0]
    results = [
        {"index": int(row), "relevance_score": float(scores[row])}
        | ({"document": {"text": texts[row]}} if body.return_documents else {})
        for row in np.argsort(-scores, kind="stable")[: body.top_n]
    ]
    usage = {"total_tokens": scored.tokens}
    return json_response(
        {"model": body.model, "results": results, "usage": usage, "truncated": scored.truncated}
    )


@router.post("/classify", response_model=ClassifyAnswer, tags=["classify"])
async def classify(request: Request, body: ClassifyRequest) -> Response:
    """Classify texts or pairs of texts."""
    model, classifier = find(request.app.state.registry.classifiers, body.model, "classifier")
    inputs: list[Any] = [body.input] if isinstance(body.input, str) else list(body.input)
    if isinstance(inputs[0], list) != classifier.pairs:
        kind = "pairs of texts" if classifier.pairs else "texts"
        raise Problem(409, f"{body.model} classifies {kind}; send {kind}", field="input")
    inputs = list(map(tuple, inputs)) if classifier.pairs else inputs
    scored = await model.compute(inputs, truncate=body.truncate)
    data = [
        {
            "index": index,
            "label": classifier.labels[int(row.argmax())],
            "probabilities": dict(zip(classifier.labels, row.tolist(), strict=True)),
        }
        for index, row in enumerate(scored.vectors)
    ]
    usage = {"total_tokens": scored.tokens}
    return json_response({"model": body.model, "data": data, "usage": usage, "truncated": scored.truncated})
