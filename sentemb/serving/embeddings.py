"""`/v1/embeddings` and `/v1/models`, compatible with OpenAI's API."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from sentemb.encoding.encoder import normalised
from sentemb.serving.http import JsonRoute, Problem, find, json_array, json_response
from sentemb.serving.models import ServedEncoder
from sentemb.serving.schemas import EmbeddingsAnswer, EmbeddingsRequest, ModelCard, ModelList, Role

_ROLES: dict[str, Role] = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "search_document": "document",
    "passage": "document",
    "corpus": "document",
}

router = APIRouter(route_class=JsonRoute, prefix="/v1", tags=["embeddings"])


@router.post("/embeddings", response_model=EmbeddingsAnswer)
async def embeddings(request: Request, body: EmbeddingsRequest) -> Response:
    """Encode texts."""
    served, role = _find_model(request, body)
    inputs = [body.input] if isinstance(body.input, str) else body.input
    texts = [text for text in inputs if isinstance(text, str)]
    if len(texts) < len(inputs):
        raise Problem(
            409,
            "token ids of another tokenizer would give wrong vectors: send texts (in LangChain "
            "check_embedding_ctx_length=False)",
            field="input",
        )
    dimensions = body.dimensions or served.dimension
    if dimensions > served.dimension:
        raise Problem(409, f"{served.name} has {served.dimension} dimensions", field="dimensions")
    if dimensions < served.dimension and not (served.is_matryoshka or body.force_dimensions):
        raise Problem(
            409,
            f"{served.name} was not trained to be shortened from {served.dimension} to {dimensions} "
            'dimensions, which lowers its quality; send "force_dimensions": true to accept this',
            field="dimensions",
        )
    encoded = await served.compute(texts, role=role, truncate=body.truncate)
    rows: Any = encoded.vectors
    if dimensions < served.dimension:
        rows = normalised(rows[:, :dimensions])
    rows = list(np.ascontiguousarray(rows, dtype="<f4"))
    if body.encoding_format == "base64":
        rows = [base64.b64encode(row).decode() for row in rows]
    items = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    return json_response(
        {
            "object": "list",
            "data": await json_array(items),
            "model": body.model,
            "usage": {"prompt_tokens": encoded.tokens, "total_tokens": encoded.tokens},
            "truncated": encoded.truncated,
        }
    )


@router.get("/models", response_model=ModelList)
async def list_models(request: Request) -> Response:
    """List the encoders."""
    encoders = request.app.state.registry.encoders
    return json_response({"object": "list", "data": [_card(served) for served in encoders.values()]})


@router.get("/models/{model:path}", response_model=ModelCard)
async def describe_model(request: Request, model: str) -> Response:
    """Describe an encoder."""
    return json_response(_card(find(request.app.state.registry.encoders, model, "model")))


def _card(served: ServedEncoder) -> dict[str, Any]:
    return {
        "id": served.name,
        "object": "model",
        "created": 0,
        "owned_by": "sentemb",
        "dimension": served.dimension,
        "max_tokens": served.max_tokens,
        "similarity": served.similarity,
        "precision": served.precision,
        "fingerprint": served.fingerprint,
    }


def _find_model(request: Request, body: EmbeddingsRequest) -> tuple[ServedEncoder, Role | None]:
    """Return the encoder and the role that a request names, or raise a `Problem`."""
    encoders: dict[str, ServedEncoder] = request.app.state.registry.encoders
    fields = {"role": body.role, "input_type": body.input_type, "prompt_name": body.prompt_name}
    named = {field: value for field, value in fields.items() if value is not None}
    roles = {_ROLES[value] for value in named.values()}
    if len(roles) > 1:
        listed = " and ".join(f"{field} is {value}" for field, value in named.items())
        reason = f"{listed}, which are different roles; send one of them"
        raise Problem(409, reason, field=next(reversed(named)))
    role = next(iter(roles), None)
    stem, _, suffix = body.model.rpartition(":")
    if body.model in encoders or stem not in encoders or suffix not in ("query", "document"):
        return find(encoders, body.model, "model"), role
    if role not in (None, suffix):
        reason = f"the model name sets the role {suffix}, but the role is {role}; send one of them"
        raise Problem(409, reason, field="role")
    return encoders[stem], _ROLES[suffix]
