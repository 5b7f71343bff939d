"""The JSON of all requests and answers: FastAPI validates requests with it and publishes it as OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_core import PydanticCustomError

MAX_INPUTS = 2048
"""Texts, documents or ids of one request, as in OpenAI's API."""

Role = Literal["query", "document"]
Truncate = Literal["error", "truncate"]
"""What happens to a text longer than the model's maximum length."""
Item = TypeVar("Item")


# In JSON, 3.0 is the integer 3. This comes last, so that the schema has the bounds before it.
_INTEGRAL = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
_Positive = Annotated[StrictInt, Field(ge=1), _INTEGRAL]
_Number = StrictInt | Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Id = Annotated[StrictInt, _INTEGRAL] | StrictStr
_Inputs = Annotated[list[Item], Field(min_length=1, max_length=MAX_INPUTS)]
_TokenIds = Annotated[list[Annotated[StrictInt, Field(ge=0, lt=2**31), _INTEGRAL]], Field(min_length=1)]
_Pair = Annotated[list[StrictStr], Field(min_length=2, max_length=2)]


class _Schema(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class _ModelRequest(_Schema):
    model_config = ConfigDict(strict=True)

    model: str
    """Name of the model."""
    truncate: Truncate | None = None
    """Texts longer than the model's maximum length: answer with an error, or truncate and count them. The
    default is the setting of the server."""


class EmbeddingsRequest(_ModelRequest):
    """A request of OpenAI's API, with the fields of other APIs."""

    model: str
    """Name of the model. `MODEL:query` and `MODEL:document` also set the role."""
    input: StrictStr | _Inputs[StrictStr] | _TokenIds | _Inputs[_TokenIds]
    """A text, or a list of texts. Token ids are refused, with the option of LangChain that turns them off."""
    encoding_format: Literal["float", "base64"] = "float"
    """`float`: numbers. `base64`: little-endian float32 values in base64."""
    dimensions: _Positive | None = None
    """Keep only the first dimensions, and normalize the vectors to length 1."""
    force_dimensions: bool = False
    """Allow `dimensions` for a model that was not trained for shorter vectors."""
    role: Role | None = None
    """Role of the texts, which selects the model's prompt: query or document."""
    input_type: Literal["query", "document", "passage", "search_query", "search_document"] | None = None
    """The role, as in Cohere's API."""
    prompt_name: Literal["query", "document", "passage", "corpus"] | None = None
    """The role, as in the API of text-embeddings-inference."""
    user: str | None = None
    """Ignored."""


class Embedding(_Schema):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(_Schema):
    """Number of tokens that the model processed, with prompts and special tokens."""

    total_tokens: int
    prompt_tokens: int | None = None


class _ModelAnswer(_Schema):
    model: str
    usage: Usage
    truncated: int
    """Number of inputs that were truncated."""


class EmbeddingsAnswer(_ModelAnswer):
    object: Literal["list"]
    data: list[Embedding]


class ModelCard(_Schema):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    dimension: int
    max_tokens: int | None
    """Maximum length of a text in tokens."""
    similarity: str
    """How a search compares the vectors: cosine or dot."""
    precision: str | None
    """How vectors are computed: float32, or bfloat16 linear layers with --precision reduced."""
    fingerprint: str


class ModelList(_Schema):
    object: Literal["list"]
    data: list[ModelCard]


class RerankDocument(BaseModel):
    text: StrictStr


class RerankRequest(_ModelRequest):
    """A request of Jina's and Cohere's rerank APIs."""

    query: str
    documents: _Inputs[StrictStr | RerankDocument]
    top_n: _Positive | None = None
    """Number of documents to return. The default is all."""
    return_documents: bool = False


class RankedDocument(_Schema):
    index: int
    relevance_score: float
    document: RerankDocument | None = None


class RerankAnswer(_ModelAnswer):
    """The documents, best first. Documents with equal scores keep their order."""

    results: list[RankedDocument]


class ClassifyRequest(_ModelRequest):
    """Texts to classify, or pairs of texts for a classifier of pairs."""

    input: StrictStr | _Inputs[StrictStr] | _Inputs[_Pair]


class ClassifiedInput(_Schema):
    index: int
    label: str
    probabilities: dict[str, float]


class ClassifyAnswer(_ModelAnswer):
    data: list[ClassifiedInput]


def _check_depth(metadata: dict[str, Any]) -> dict[str, Any]:
    """Reject metadata that are nested too deeply for other JSON parsers."""
    try:
        orjson.dumps(metadata)  # up to 254 levels
    except orjson.JSONEncodeError:
        raise PydanticCustomError("deep", "the metadata are nested too deeply") from None
    return metadata


class _IndexRequest(_Schema):
    model_config = ConfigDict(extra="forbid")


class SearchOptions(_IndexRequest):
    k: Annotated[StrictInt, Field(ge=1, le=1000), _INTEGRAL] = 10
    """Number of hits."""
    where: dict[str, Any] | None = None
    """Conditions on the metadata, which must all hold, such as `{"year": {">=": 2020}}`. Operators: `=`,
    `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `exists`. `$and`, `$or` and `$not` combine conditions."""
    text: StrictBool = True
    """Whether to return the full text of each document."""


class SearchRequest(SearchOptions):
    query: Annotated[StrictStr, Field(min_length=1, max_length=32_768)]
    mode: Literal["dense", "keyword", "hybrid"] = "dense"
    """Search by vectors (dense), by keywords (BM25) or by both (hybrid)."""
    min_score: _Number | StrictStr | None = None
    """Minimum score of a hit. In dense mode also a percentile such as `99.2%`."""
    abstain: StrictBool = False
    """Whether to return no hits, but a reason, if no document seems to answer the query. The index must be
    calibrated with `sentemb index calibrate`."""


class SimilarRequest(SearchOptions):
    id: _Id


class NewDocument(_IndexRequest):
    text: StrictStr
    """Text to encode. A blank document is skipped and counted."""
    id: _Id | None = None
    """Id: the integer 1 and the string `1` are different. POST assigns the next integer if it is missing."""
    metadata: Annotated[dict[str, Any], AfterValidator(_check_depth)] = Field(default_factory=dict)
    """Any JSON object. Searches can filter by its fields."""


class WriteRequest(_IndexRequest):
    documents: _Inputs[NewDocument]
    truncate: Literal["split", "warn", "error"] | None = None
    """Texts longer than the model's maximum length: split, truncate (warn) or reject (error). The default is
    the setting of the build."""


class DeleteRequest(_IndexRequest):
    ids: _Inputs[_Id]


class Snippet(_Schema):
    """The part of a document with the most words of the query."""

    text: str
    start: int
    """Offset in the document's text, in Unicode characters."""
    spans: list[tuple[int, int]]
    """Offsets of the query's words in the snippet."""


class SearchHit(_Schema):
    id: int | str
    score: float
    """Cosine or dot product (dense), BM25 (keyword), or the fused score (hybrid)."""
    percentile: float | None
    """Percentage of random pairs of texts that are less similar."""
    p_value: float | None
    """Share of unanswerable queries with as much evidence for a document, if the search may abstain."""
    length: int
    """Length of the document's text in Unicode characters."""
    text: str | None
    metadata: dict[str, Any]
    snippet: Snippet
    passage: dict[str, int] | None
    """`start` and `stop` of the chunk that matched, if the document was split into chunks."""


class SearchAnswer(_Schema):
    hits: list[SearchHit]
    documents: int
    query_truncated: bool
    warnings: list[str]
    """Reasons why the conditions cannot match any document."""
    reason: str
    """Why a search that may abstain does not return hits; otherwise empty."""


class WriteAnswer(_Schema):
    """Numbers of documents; those that were skipped are blank."""

    added: int
    replaced: int
    skipped: int
    chunked: int
    truncated: int


class StoredDocument(_Schema):
    id: int | str
    text: str
    metadata: dict[str, Any]


class DocumentsAnswer(_Schema):
    """Documents in the order of the requested ids; null for an unknown id."""

    documents: list[StoredDocument | None]


class IndexSummary(_Schema):
    name: str
    model: str
    """Name of the model that encodes its queries, as in /v1/models."""
    documents: int
    writable: bool


class StatsAnswer(IndexSummary):
    vectors: int
    """Number of different texts and chunks."""
    skipped: int
    chunked: int
    truncated: int
    dimension: int
    kind: str
    metric: str
    language: str | None
    """Language of the keywords."""
    created: str
    fingerprint: str
    """Fingerprint of the model that encoded the documents."""
    hybrid_weight: float | None
    """Dense weight in hybrid search, from 0 to 1, if fitted."""
    most_percentile: float | None
    """Highest percentile that min_score can use."""
    can_abstain: bool
    """Whether searches can abstain: the index was calibrated and has hardly changed since."""
    fields: list[dict[str, Any]]
    """Fields of the metadata; see `sentemb.search.Field`."""


class ErrorObject(_Schema):
    """The error in the format of OpenAI's API, because its clients show only this."""

    message: str
    type: str
    param: str | None
    code: str


class ProblemDocument(_Schema):
    """The body of every error response (RFC 9457)."""

    type: Literal["about:blank"]
    title: str
    """Name of the status."""
    status: int
    detail: str
    """What is wrong, and what to do next."""
    field: str | None = None
    """The invalid field, such as `input.3`."""
    request_id: str
    """Id of the request in the server log."""
    error: ErrorObject
