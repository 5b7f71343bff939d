"""`/v1/rerank`, for Jina's and Cohere's clients: a cross-encoder reads the query with each document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from sentence_transformers import CrossEncoder

from sentemb._compat import Transformer
from sentemb.encoding.batching import tokenise
from sentemb.encoding.encoder import Vectors, check_finite
from sentemb.encoding.linear import kernel_for, replace_linears
from sentemb.encoding.rows import ReadyTexts, Rows
from sentemb.encoding.view import inference_view
from sentemb.errors import InputError
from sentemb.modules.kinds import check_kind, naming_code
from sentemb.modules.source import find_source, loading
from sentemb.serving.answers import json_answer
from sentemb.serving.guards import JsonRoute
from sentemb.serving.names import named
from sentemb.serving.scored import ScoredTexts
from sentemb.serving.settings import Truncate
from sentemb.serving.shapes import AS_INTEGER, MOST_INPUTS


class PairRows:
    """A cross-encoder as a row encoder of pairs, whose vectors are single scores."""

    by_length = True

    def __init__(self, model: CrossEncoder, *, name: str) -> None:
        self._name = name
        self._tokenizer: Any = model.tokenizer
        # A tokenizer sets its limits at the first call, which must not happen beside another.
        self.prepare([("first", "second")])
        self._activation = model.activation_fn
        self._view = inference_view(model.model)
        with torch.inference_mode():
            replace_linears(self._view, kernel_for(self._view, precision="float32"))

    def prepare(self, texts: Sequence[Any]) -> ReadyTexts:
        """Tokenise pairs."""
        tokens = tokenise(self._tokenizer, texts)
        return ReadyTexts(texts, tokens.lengths, tokens.cut, tokens)

    def prepare_ids(self, ids: Sequence[Sequence[int]]) -> ReadyTexts:
        """Refuse."""
        raise InputError(f"{self._name} does not accept token ids", "send texts")

    @torch.inference_mode()
    def compute(self, rows: Rows) -> Vectors:
        """One forward pass."""
        made = [ready.content.batch(some) for ready, some in rows]
        device = self._view.device
        features = {key: torch.cat([batch[key] for batch in made]).to(device) for key in made[0]}
        scores: Vectors = self._activation(self._view(**features).logits).float().cpu().numpy()
        check_finite(scores, [str(ready.texts[row]) for ready, some in rows for row in some], name=self._name)
        return scores


def load_reranker(folder: str, *, device: str | None) -> PairRows:
    """Read a cross-encoder that gives one score.

    Args:
        folder: Its folder; no code of it is run.
        device: Where to put it; None lets sentence-transformers choose.

    Returns:
        The cross-encoder.

    Raises:
        InputError: There is none, it is damaged, or it gives several scores.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise InputError(f"no such folder: {folder}", "name the folder of a saved cross-encoder")
    source = find_source(str(path))
    if source.has_modules or source.architecture:  # without either it can be anything
        check_kind(source, "cross-encoder")
    with naming_code(source), loading(str(path)):
        model = CrossEncoder(str(path), device=device, local_files_only=True)
    if [type(module) for module in model] != [Transformer] or model.default_prompt_name is not None:
        parts = ", ".join(type(module).__name__ for module in model)
        raise InputError(
            f"{folder} scores pairs with {parts} and its own prompt, which cannot be served",
            "choose a cross-encoder whose transformer computes the score",
        )
    if model.num_labels != 1 or model.model is None:
        raise InputError(
            f"{folder} computes {model.num_labels} scores for a pair, not one",
            "choose a cross-encoder for ranking",
        )
    return PairRows(model, name=path.name)


class RerankDocument(BaseModel):
    """A document as an object with a text."""

    model_config = ConfigDict(strict=True)

    text: str


class RerankRequest(BaseModel):
    """A request of Jina's and Cohere's rerank APIs."""

    model_config = ConfigDict(strict=True)

    model: str
    query: str
    documents: Annotated[list[StrictStr | RerankDocument], Field(min_length=1, max_length=MOST_INPUTS)]
    top_n: Annotated[StrictInt, Field(ge=1), AS_INTEGER] | None = Field(
        default=None, description="Number of documents to return. The default is all."
    )
    return_documents: bool = False
    truncate: Truncate | None = Field(
        default=None,
        description="Texts longer than the model's maximum "
        "length: answer with an error, or truncate and count them.",
    )


class Ranked(BaseModel):
    """A ranked document."""

    index: int
    relevance_score: float
    document: RerankDocument | None = None


class RerankUsage(BaseModel):
    """Number of tokens that the model processed."""

    total_tokens: int


class RerankResponse(BaseModel):
    """The documents, best first. Documents with equal scores keep their order."""

    model: str
    results: list[Ranked]
    usage: RerankUsage
    truncated: int


def rerank_router() -> APIRouter:
    """The route."""
    router = APIRouter(route_class=JsonRoute, prefix="/v1", tags=["rerank"])

    @router.post("/rerank", response_model=RerankResponse, summary="Rerank documents for a query")
    async def rerank(request: Request, wanted: RerankRequest) -> Response:
        rerankers: dict[str, ScoredTexts] = request.app.state.models.rerankers
        scorer: ScoredTexts = named(rerankers, wanted.model, "reranker")
        texts = [one if isinstance(one, str) else one.text for one in wanted.documents]
        scored = await scorer.score(
            [(wanted.query, text) for text in texts], truncate=wanted.truncate, field="documents"
        )
        scores = scored.vectors[:, 0]
        best = np.argsort(-scores, kind="stable")[: wanted.top_n]
        results = [
            {"index": int(row), "relevance_score": float(scores[row])}
            | ({"document": {"text": texts[row]}} if wanted.return_documents else {})
            for row in best
        ]
        usage = {"total_tokens": int(scored.tokens.sum())}
        return json_answer(
            {"model": wanted.model, "results": results, "usage": usage, "truncated": scored.cut}
        )

    return router
