"""The JSON of all requests and answers: FastAPI validates requests with it and publishes it as OpenAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from sentemb.errors import InputError
from sentemb.search import Where

MAX_INPUTS = 2048
"""Texts, documents or ids of one request, as in OpenAI's API."""
_MAX_DEPTH = 100  # levels of metadata

Role = Literal["query", "document"]
Truncate = Literal["error", "truncate"]
"""What happens to a text longer than the model's maximum length."""
Item = TypeVar("Item")


def _in_one_sentence(message: str) -> WrapValidator:
    """Replace the errors of a union, one for each of its members."""

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(value)
        except ValidationError:
            raise PydanticCustomError("not_valid", message) from None

    return WrapValidator(check)


# In JSON, 3.0 is the integer 3. This comes last, so that the schema has the bounds before it.
_INTEGRAL = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
_Positive = Annotated[StrictInt, Field(ge=1), _INTEGRAL]
_Number = StrictInt | Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Scalar = StrictBool | _Number | StrictStr
_Ordered = _Number | StrictStr
_Id = Annotated[
    Annotated[StrictInt, _INTEGRAL] | StrictStr, _in_one_sentence("an id is a string or an integer")
]
_PERCENT = r"^(100(\.0{1,9})?|[0-9]{1,2}(\.[0-9]{1,9})?)%$"
_Score = Annotated[
    _Number | Annotated[StrictStr, Field(pattern=_PERCENT)],
    _in_one_sentence("send a score such as 0.5, or a percentile such as 99%"),
]
_Inputs = Annotated[list[Item], Field(min_length=1, max_length=MAX_INPUTS)]
_TokenIds = Annotated[list[Annotated[StrictInt, Field(ge=0, lt=2**31), _INTEGRAL]], Field(min_length=1)]
_Pair = Annotated[list[StrictStr], Field(min_length=2, max_length=2)]


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class _Request(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, strict=True)


class _ModelRequest(_Request):
    model: str
    """Name of the model."""
    truncate: Truncate | None = None
    """Texts longer than the model's maximum length: answer with an error, or truncate and count them. The
    default is the setting of the server."""


class EmbeddingsRequest(_ModelRequest):
    """A request of OpenAI's API, with the fields of other APIs."""

    model_config = ConfigDict(
        json_schema_extra={
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
    )

    model: str
    """Name of the model. `MODEL:query` and `MODEL:document` also set the role."""
    input: StrictStr | _Inputs[StrictStr] | _TokenIds | _Inputs[_TokenIds]
    """A text, a list of texts, or token ids of the model's tokenizer (see `token_ids`)."""
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
    token_ids: Literal["model"] | None = None
    """`model`: the input is token ids of the model's own tokenizer, with special tokens."""
    user: str | None = None
    """Ignored."""


class Embedding(_Answer):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(_Answer):
    """Number of tokens that the model processed, with prompts and special tokens."""

    total_tokens: int
    prompt_tokens: int | None = None


class _ModelAnswer(_Answer):
    model: str
    usage: Usage
    truncated: int
    """Number of inputs that were truncated."""


class EmbeddingsAnswer(_ModelAnswer):
    object: Literal["list"]
    data: list[Embedding]


class ModelCard(_Answer):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    dimension: int
    max_tokens: int | None
    """Maximum length of a text in tokens."""
    fingerprint: str


class ModelList(_Answer):
    object: Literal["list"]
    data: list[ModelCard]


class RerankDocument(_Request):
    text: str


class RerankRequest(_ModelRequest):
    """A request of Jina's and Cohere's rerank APIs."""

    query: str
    documents: _Inputs[StrictStr | RerankDocument]
    top_n: _Positive | None = None
    """Number of documents to return. The default is all."""
    return_documents: bool = False


class RankedDocument(_Answer):
    index: int
    relevance_score: float
    document: RerankDocument | None = None


class RerankAnswer(_ModelAnswer):
    """The documents, best first. Documents with equal scores keep their order."""

    results: list[RankedDocument]


class ClassifyRequest(_ModelRequest):
    """Texts to classify, or pairs of texts for a classifier of pairs."""

    input: StrictStr | _Inputs[StrictStr] | _Inputs[_Pair]


class ClassifiedInput(_Answer):
    index: int
    label: str
    probabilities: dict[str, float]


class ClassifyAnswer(_ModelAnswer):
    data: list[ClassifiedInput]


def _check_conditions(where: Any) -> Any:
    """Raise the library's error for conditions that it cannot read."""
    try:
        Where(where)
    except InputError as error:
        reason = str(error).removeprefix("where, ").removeprefix("where: ")
        raise PydanticCustomError("conditions", "{reason}", {"reason": reason}) from None
    return where


def _check_not_blank(query: str) -> str:
    if not query.strip():
        raise PydanticCustomError("blank", "the query is blank")
    return query


def _check_depth(metadata: dict[str, Any]) -> dict[str, Any]:
    """Refuse metadata whose reading would exceed the recursion limit."""
    level: list[Any] = [metadata]
    for _ in range(_MAX_DEPTH):
        values = [one for outer in level for one in (outer.values() if isinstance(outer, dict) else outer)]
        level = [one for one in values if isinstance(one, dict | list)]
        if not level:
            return metadata
    raise PydanticCustomError("deep", "the metadata are nested too deeply")


_ABSENT: Any = None  # the default of what may be absent, but not null


class Operators(BaseModel):
    """Comparisons of one field, which must all hold."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1}, serialize_by_alias=True)

    equal: _Scalar = Field(default="", alias="=")
    not_equal: _Scalar = Field(default="", alias="!=")
    less: _Ordered = Field(default="", alias="<")
    less_or_equal: _Ordered = Field(default="", alias="<=")
    greater: _Ordered = Field(default="", alias=">")
    greater_or_equal: _Ordered = Field(default="", alias=">=")
    is_in: list[_Scalar] = Field(default=[], alias="in")
    is_not_in: list[_Scalar] = Field(default=[], alias="not in")
    exists: StrictBool = True


class Conditions(BaseModel):
    """Conditions that must all hold: a value or operators per field, and `$and`, `$or`, `$not`."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"minProperties": 1}, serialize_by_alias=True)
    __pydantic_extra__: dict[str, _Scalar | Operators]

    all_of: list[Conditions] = Field(default=[], alias="$and", min_length=1)
    any_of: list[Conditions] = Field(default=[], alias="$or", min_length=1)
    none_of: Conditions = Field(default_factory=lambda: _ABSENT, alias="$not")

    def to_dict(self) -> dict[str, Any]:
        """Return the conditions that `SearchIndex.search` takes."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class _IndexRequest(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid")


class _SearchOptions(_IndexRequest):
    k: Annotated[StrictInt, Field(ge=1, le=1000), _INTEGRAL] = 10
    """Number of hits."""
    where: Annotated[Conditions, BeforeValidator(_check_conditions)] | None = None
    """Conditions on the metadata of documents."""
    text: StrictBool = True
    """Whether to return the full text of each document."""


class SearchRequest(_SearchOptions):
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"mode": {"enum": ["keyword", "hybrid"]}}, "required": ["mode"]},
            "then": {"properties": {"min_score": {"type": ["number", "null"]}}},
        }
    )

    query: Annotated[StrictStr, AfterValidator(_check_not_blank)] = Field(
        min_length=1, max_length=32_768, json_schema_extra={"pattern": r"\S"}
    )
    mode: Literal["dense", "keyword", "hybrid"] = "dense"
    """Search by vectors (dense), by keywords (BM25) or by both (hybrid)."""
    min_score: _Score | None = None
    """Minimum score of a hit. In dense mode also a percentile such as `99.2%`."""


class SimilarRequest(_SearchOptions):
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


class Snippet(_Answer):
    """The part of a document with the most words of the query."""

    text: str
    start: int
    """Offset in the document's text, in Unicode characters."""
    spans: list[tuple[int, int]]
    """Offsets of the query's words in the snippet."""


class SearchHit(_Answer):
    id: int | str
    score: float
    """Cosine or dot product (dense), BM25 (keyword), or the fused score (hybrid)."""
    percentile: float | None
    """Percentage of random pairs of texts that are less similar."""
    length: int
    """Length of the document's text in Unicode characters."""
    text: str | None
    metadata: dict[str, Any]
    snippet: Snippet
    passage: dict[str, int] | None
    """`start` and `stop` of the chunk that matched, if the document was split into chunks."""


class SearchAnswer(_Answer):
    hits: list[SearchHit]
    documents: int
    """Number of documents in the index."""
    query_truncated: bool
    warnings: list[str]
    """Reasons why the conditions cannot match any document."""


class WriteAnswer(_Answer):
    """Numbers of documents; those that were skipped are blank."""

    added: int
    replaced: int
    skipped: int
    chunked: int
    truncated: int


class StoredDocument(_Answer):
    id: int | str
    text: str
    metadata: dict[str, Any]


class DocumentsAnswer(_Answer):
    """Documents in the order of the requested ids; null for an unknown id."""

    documents: list[StoredDocument | None]


class IndexSummary(_Answer):
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
    fields: list[dict[str, Any]]
    """Fields of the metadata; see `sentemb.search.Field`."""


class ErrorObject(_Answer):
    """The error in the format of OpenAI's API, because its clients show only this."""

    message: str
    type: str
    param: str | None
    code: str


class ProblemDocument(_Answer):
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
