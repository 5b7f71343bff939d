"""`/v1/embeddings` and `/v1/models`, as OpenAI's clients know them."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from sentemb.encoding.encoder import Role, Vectors, normalised
from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError
from sentemb.serving.answers import json_answer, json_list
from sentemb.serving.batcher import Encoded, ServedEncoder
from sentemb.serving.dimensions import check_dimensions
from sentemb.serving.guards import JsonRoute
from sentemb.serving.names import named
from sentemb.serving.problems import Problem
from sentemb.serving.settings import Truncate
from sentemb.serving.shapes import AS_INTEGER, MOST_INPUTS

_REMEDY = (
    "token ids of another tokenizer would give wrong vectors: send texts (in LangChain "
    'check_embedding_ctx_length=False), or send "token_ids": "model" with ids of the model\'s own tokenizer'
)
Tokens = Annotated[list[Annotated[StrictInt, Field(ge=0, lt=2**31), AS_INTEGER]], Field(min_length=1)]

# What the schema says of texts and of token ids.
_BY_KIND: dict[str, Any] = {
    "if": {"properties": {"input": {"type": "array", "items": {"type": ["integer", "array"]}}}},
    "then": {
        "properties": {
            "token_ids": {"const": "model"},
            **{name: {"type": "null"} for name in ("role", "input_type", "prompt_name")},
        },
        "required": ["token_ids"],
    },
    "else": {"properties": {"token_ids": {"type": "null"}}},
}


InputType = Literal["query", "document", "passage", "search_query", "search_document"]
PromptName = Literal["query", "document", "passage", "corpus"]
_ROLES: dict[str, Role] = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "search_document": "document",
    "passage": "document",
    "corpus": "document",
}


class EmbeddingsRequest(BaseModel):
    """A request of OpenAI's API, with the fields of other APIs."""

    model_config = ConfigDict(strict=True, extra="ignore", json_schema_extra=_BY_KIND)

    model: str = Field(description="Name of the model. `MODEL:query` and `MODEL:document` also set the role.")
    input: (
        StrictStr
        | Annotated[list[StrictStr], Field(min_length=1, max_length=MOST_INPUTS)]
        | Tokens
        | Annotated[list[Tokens], Field(min_length=1, max_length=MOST_INPUTS)]
    ) = Field(description="A text, a list of texts, or token ids of the model's tokenizer (see `token_ids`).")
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="`float`: numbers. `base64`: little-endian float32 values in base64."
    )
    dimensions: Annotated[StrictInt, Field(ge=1), AS_INTEGER] | None = Field(
        default=None, description="Keep only the first dimensions, and normalize the vectors to length 1."
    )
    force_dimensions: bool = Field(
        default=False,
        description="Allow `dimensions` for a model that was not trained for shortened vectors.",
    )
    role: Role | None = Field(
        default=None, description="Role of the texts, which selects the model's prompt: query or document."
    )
    input_type: InputType | None = Field(default=None, description="The role, as in Cohere's API.")
    prompt_name: PromptName | None = Field(
        default=None, description="The role, as in the API of text-embeddings-inference."
    )
    truncate: Truncate | None = Field(
        default=None,
        description="Texts longer than the model's maximum length: answer with an error, or "
        "truncate and count them.",
    )
    token_ids: Literal["model"] | None = Field(
        default=None,
        description="`model`: the input is token ids of the model's own tokenizer, with special tokens.",
    )
    user: str | None = Field(default=None, description="Ignored.")


class Embedding(BaseModel):
    """The embedding of a text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Number of tokens that the model processed, with prompts and special tokens."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """Embeddings, in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage
    truncated: int = Field(description="Number of texts that were truncated.")


class ModelCard(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    dimension: int
    max_tokens: int | None = Field(description="Maximum length of a text in tokens.")
    fingerprint: str


class ModelList(BaseModel):
    """The served models."""

    object: Literal["list"]
    data: list[ModelCard]


def embeddings_router() -> APIRouter:
    """The routes of embeddings."""
    router = APIRouter(route_class=JsonRoute, prefix="/v1", tags=["embeddings"])

    @router.post("/embeddings", response_model=EmbeddingsResponse, summary="Encode texts")
    async def embeddings(request: Request, wanted: EmbeddingsRequest) -> Response:
        served, role = resolve_model(request, wanted.model, _role_of(wanted))
        if wanted.dimensions is not None and not wanted.force_dimensions:
            await check_dimensions(served, wanted.dimensions)
        elif wanted.dimensions is not None and wanted.dimensions > served.dimension:
            raise Problem(409, f"{served.name} has {served.dimension} dimensions", field="dimensions")
        encoded = await _encode(served, wanted, role)
        vectors = encoded.vectors
        if wanted.dimensions is not None and wanted.dimensions < served.dimension:
            vectors = normalised(vectors[:, : wanted.dimensions])
        return await _response(vectors, encoded, wanted)

    @router.get("/models", response_model=ModelList, summary="List the models")
    async def models(request: Request) -> Response:
        cards = [_card(served) for served in request.app.state.encoders.values()]
        return json_answer({"object": "list", "data": cards})

    @router.get("/models/{model:path}", response_model=ModelCard, summary="Describe a model")
    async def model(request: Request, model: str) -> Response:
        return json_answer(_card(named(request.app.state.encoders, model, "model")))

    return router


def resolve_model(request: Request, model: str, role: Role | None) -> tuple[ServedEncoder, Role | None]:
    """The encoder and the role that a request names.

    Raises:
        Problem: There is no such model, or the suffix of its name and the role contradict each other.
    """
    encoders: dict[str, ServedEncoder] = request.app.state.encoders
    stem, _, suffix = model.rpartition(":")
    if model not in encoders and stem in encoders and suffix in ("query", "document"):
        if role is not None and role != suffix:
            raise Problem(
                409,
                f"the model name sets the role {suffix}, but the role is {role}; send one of them",
                field="role",
            )
        return encoders[stem], "query" if suffix == "query" else "document"
    found: ServedEncoder = named(encoders, model, "model")
    return found, role


def _role_of(wanted: EmbeddingsRequest) -> Role | None:
    """The role that a request names in any of its fields.

    Raises:
        Problem: Two fields contradict each other.
    """
    fields = {"role": wanted.role, "input_type": wanted.input_type, "prompt_name": wanted.prompt_name}
    named = {field: value for field, value in fields.items() if value is not None}
    if len({_ROLES[value] for value in named.values()}) > 1:
        said = " and ".join(f"{field} is {value}" for field, value in named.items())
        raise Problem(
            409, f"{said}, which are different roles; send one of them", field=next(reversed(named))
        )
    return next((_ROLES[value] for value in named.values()), None)


async def _encode(served: ServedEncoder, wanted: EmbeddingsRequest, role: Role | None) -> Encoded:
    given: list[Any] = [wanted.input] if isinstance(wanted.input, str) else list(wanted.input)
    if isinstance(given[0], int):
        given = [given]
    if isinstance(given[0], str):
        if wanted.token_ids is not None:
            raise Problem(
                422, "token_ids was sent, but the input is text; remove token_ids", field="token_ids"
            )
        return await served.encode(given, role=role, truncate=wanted.truncate)
    if wanted.token_ids is None:
        raise Problem(400, _REMEDY, field="input")
    if role is not None:
        raise Problem(
            422, "a role adds a prompt, which does not work with token ids; remove the role", field="role"
        )
    try:
        return await served.encode_ids(given)
    except InputError as error:
        raise Problem(409, str(error), field="input") from None


async def _response(vectors: Vectors, encoded: Encoded, wanted: EmbeddingsRequest) -> Response:
    rows: list[Any] = list(np.ascontiguousarray(vectors, dtype="<f4"))
    if wanted.encoding_format == "base64":
        rows = [base64.b64encode(row.tobytes()).decode() for row in rows]
    tokens = int(encoded.tokens.sum())
    items = ({"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows))
    return json_answer(
        {
            "object": "list",
            "data": await json_list(items),
            "model": wanted.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "truncated": encoded.cut,
        }
    )


def _card(served: ServedEncoder) -> dict[str, Any]:
    tokens = tokens_of(served.encoder)
    return {
        "id": served.name,
        "object": "model",
        "created": 0,
        "owned_by": "sentemb",
        "dimension": served.dimension,
        "max_tokens": tokens.room if tokens else None,
        "fingerprint": served.fingerprint,
    }
