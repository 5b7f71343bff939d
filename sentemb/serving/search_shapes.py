"""What the search API takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

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
from sentemb.search.conditions import read_conditions
from sentemb.search.fields import FieldType
from sentemb.search.plan import Kind, Metric
from sentemb.search.prepared import Truncate
from sentemb.search.searching import Mode
from sentemb.serving.shapes import AS_INTEGER, MOST_INPUTS

MOST_HITS = 1000
_LONGEST_QUERY = 32_768

_DEEPEST = 100  # levels of metadata


def _saying(message: str) -> WrapValidator:
    """One sentence for a value that fits no member of a union, where pydantic has one for each member."""

    def check(value: Any, fits: Callable[[Any], Any]) -> Any:
        try:
            return fits(value)
        except ValidationError:
            raise PydanticCustomError("not_valid", message) from None

    return WrapValidator(check)


Number = StrictInt | Annotated[float, Field(strict=True, allow_inf_nan=False)]
Id = Annotated[Annotated[StrictInt, AS_INTEGER] | StrictStr, _saying("an id is a text or a whole number")]
Scalar = StrictBool | Number | StrictStr
Ordered = Number | StrictStr
_PERCENT = r"^(100(\.0{1,9})?|[0-9]{1,2}(\.[0-9]{1,9})?)%$"
Score = Annotated[
    Number | Annotated[StrictStr, Field(pattern=_PERCENT)],
    _saying("write a score such as 0.5, or a percentile such as 99%"),
]


def _asked(query: str) -> str:
    if not query.strip():
        raise PydanticCustomError("blank", "the query is blank")
    return query


def _readable(where: Any) -> Any:
    """Conditions that the library can read; what it says of others names the field and the next step."""
    try:
        read_conditions(where)
    except InputError as error:
        reason = str(error).removeprefix("where, ").removeprefix("where: ")
        raise PydanticCustomError("conditions", "{reason}", {"reason": reason}) from None
    return where


def _shallow(metadata: dict[str, Any]) -> dict[str, Any]:
    """Refuse what would end in errors wherever it is read again."""
    level: list[Any] = [metadata]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return metadata
    raise PydanticCustomError("deep", "the metadata are nested too deeply")


def fits(id: int | str) -> bool:
    """Whether an index can hold an id; the schema cannot say, since many readers of it have doubles only."""
    return isinstance(id, str) or -(2**63) <= id < 2**63


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _nothing() -> Any:
    """The default of what may be left out, but not be null."""
    return None


class Operators(_Request):
    """Comparisons of one field, which all hold."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1}, serialize_by_alias=True)

    equal: Scalar = Field(default="", alias="=")
    other: Scalar = Field(default="", alias="!=")
    below: Ordered = Field(default="", alias="<")
    at_most: Ordered = Field(default="", alias="<=")
    above: Ordered = Field(default="", alias=">")
    at_least: Ordered = Field(default="", alias=">=")
    among: list[Scalar] = Field(default=[], alias="in")
    not_among: list[Scalar] = Field(default=[], alias="not in")
    exists: StrictBool = True


class Conditions(BaseModel):
    """Conditions that all hold: by field a value or operators, `$and`, `$or` and `$not`."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"minProperties": 1}, serialize_by_alias=True)
    __pydantic_extra__: dict[str, Scalar | Operators]

    every: list[Conditions] = Field(default=[], alias="$and", min_length=1)
    some: list[Conditions] = Field(default=[], alias="$or", min_length=1)
    none_of: Conditions = Field(default_factory=_nothing, alias="$not")

    def plain(self) -> dict[str, Any]:
        """The same as `SearchIndex.search` takes."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class _Wanted(_Request):
    k: Annotated[StrictInt, Field(ge=1, le=MOST_HITS), AS_INTEGER] = Field(
        default=10, description="How many hits."
    )
    where: Annotated[Conditions, BeforeValidator(_readable)] | None = Field(
        default=None, description="Conditions on the metadata."
    )
    text: StrictBool = Field(default=True, description="Whether hits have the document's whole text.")


class SearchRequest(_Wanted):
    """A search."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"mode": {"enum": ["keyword", "hybrid"]}}, "required": ["mode"]},
            "then": {"properties": {"min_score": {"type": ["number", "null"]}}},
        }
    )

    query: Annotated[StrictStr, AfterValidator(_asked)] = Field(
        min_length=1,
        max_length=_LONGEST_QUERY,
        description="What is asked.",
        json_schema_extra={"pattern": r"\S"},
    )
    mode: Mode = Field(default="dense", description="By meaning, by words, or by both.")
    min_score: Score | None = Field(
        default=None, description="The lowest score, or percentile such as `99.2%` in dense search."
    )


class SimilarRequest(_Wanted):
    """A search for documents that are like one of the index."""

    id: Id = Field(description="The document's id.")


class NewDocument(_Request):
    """A document to be written."""

    text: StrictStr = Field(description="What is encoded; a blank document is left out and counted.")
    id: Id | None = Field(
        default=None,
        description="1 and `1` as a text differ. POST gives a document without one the next integer.",
    )
    metadata: Annotated[dict[str, Any], AfterValidator(_shallow)] = Field(
        default_factory=dict, description="Anything; fields are filtered by."
    )


class WriteRequest(_Request):
    """Documents to be written, all or none."""

    documents: list[NewDocument] = Field(min_length=1, max_length=MOST_INPUTS)
    truncate: Truncate | None = Field(
        default=None, description="Texts longer than the model reads; as the index was built."
    )


class DeleteRequest(_Request):
    """Documents to be deleted, all at once."""

    ids: list[Id] = Field(min_length=1, max_length=MOST_INPUTS)


class SpanOut(BaseModel):
    """A part of a text, in characters of Unicode."""

    start: int
    stop: int


class SnippetOut(BaseModel):
    """The place of a document that has the most words of the query."""

    text: str
    start: int = Field(description="Where it begins in the document's text, in characters of Unicode.")
    spans: list[tuple[int, int]] = Field(description="Where words of the query are in it.")


class HitOut(BaseModel):
    """A document that was found."""

    id: int | str
    score: float = Field(description="Cosine or inner product, BM25, or the sum of both in standard units.")
    percentile: float | None = Field(description="Percent of random pairs of texts that are less alike.")
    length: int = Field(description="Characters of the document's text.")
    text: str | None = Field(description="The document's text, where it was asked for.")
    metadata: dict[str, Any]
    snippet: SnippetOut | None
    passage: SpanOut | None = Field(description="The part that has the score, where it is not the whole.")


class SearchAnswer(BaseModel):
    """Hits, best first."""

    hits: list[HitOut]
    documents: int = Field(description="How many documents the index has.")
    query_cut: bool = Field(description="Whether the query is longer than the model reads.")
    warnings: list[str] = Field(description="Why the conditions cannot match any document.")


class ChangedAnswer(BaseModel):
    """What a change has done."""

    added: int
    replaced: int
    left_out: int = Field(description="Blank documents.")
    split: int = Field(description="Documents that are indexed in passages.")
    cut: int = Field(description="Documents of which the model reads no more than the beginning.")


class DeletedAnswer(BaseModel):
    """How many documents were deleted."""

    deleted: int


class StoredDocument(BaseModel):
    """A document of the index."""

    id: int | str
    text: str
    metadata: dict[str, Any]


class DocumentsAnswer(BaseModel):
    """Documents in the order of their ids in the request; null for one that is not there."""

    documents: list[StoredDocument | None]


class ValueOut(BaseModel):
    """A value of a field."""

    value: bool | int | float | str
    documents: int


class FieldOut(BaseModel):
    """A field of the metadata; see `sentemb.search.Field`."""

    name: str
    type: FieldType
    documents: int
    values: list[ValueOut]
    complete: bool = Field(description="Whether these are all values.")
    least: int | float | str | None
    most: int | float | str | None


class IndexAnswer(BaseModel):
    """An index in short."""

    name: str
    model: str = Field(description="The model that encodes its queries, as /v1/models has it.")
    documents: int
    writable: bool


class IndexesAnswer(BaseModel):
    """The indexes that are served."""

    indexes: list[IndexAnswer]


class StatsAnswer(IndexAnswer):
    """What is known of an index."""

    vectors: int = Field(description="Different texts and passages.")
    left_out: int
    split: int
    cut: int
    dimension: int
    kind: Kind
    metric: Metric
    language: str | None = Field(description="By whose rules texts are cut to words.")
    created: str
    fingerprint: str = Field(description="Of the model of its documents.")
    hybrid_weight: float | None = Field(
        description="The share of vectors in hybrid search, where it is known."
    )
    most_percentile: float | None = Field(description="The highest percentile that can be told.")
    fields: list[FieldOut]
