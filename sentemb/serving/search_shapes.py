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
Id = Annotated[Annotated[StrictInt, AS_INTEGER] | StrictStr, _saying("an id is a string or an integer")]
Scalar = StrictBool | Number | StrictStr
Ordered = Number | StrictStr
_PERCENT = r"^(100(\.0{1,9})?|[0-9]{1,2}(\.[0-9]{1,9})?)%$"
Score = Annotated[
    Number | Annotated[StrictStr, Field(pattern=_PERCENT)],
    _saying("send a score such as 0.5, or a percentile such as 99%"),
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
    """Conditions that must all hold: a value or operators per field, and `$and`, `$or`, `$not`."""

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
        default=10, description="Number of hits."
    )
    where: Annotated[Conditions, BeforeValidator(_readable)] | None = Field(
        default=None, description="Conditions on the metadata of documents."
    )
    text: StrictBool = Field(default=True, description="Whether to return the full text of each document.")


class SearchRequest(_Wanted):
    """A search for a query."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"mode": {"enum": ["keyword", "hybrid"]}}, "required": ["mode"]},
            "then": {"properties": {"min_score": {"type": ["number", "null"]}}},
        }
    )

    query: Annotated[StrictStr, AfterValidator(_asked)] = Field(
        min_length=1,
        max_length=_LONGEST_QUERY,
        description="The query.",
        json_schema_extra={"pattern": r"\S"},
    )
    mode: Mode = Field(
        default="dense", description="Search by vectors (dense), by keywords (BM25) or by both (hybrid)."
    )
    min_score: Score | None = Field(
        default=None, description="Minimum score of a hit. In dense mode also a percentile such as `99.2%`."
    )


class SimilarRequest(_Wanted):
    """A search for documents similar to a document of the index."""

    id: Id = Field(description="Id of the document.")


class NewDocument(_Request):
    """A document to add or replace."""

    text: StrictStr = Field(description="Text to encode. A blank document is skipped and counted.")
    id: Id | None = Field(
        default=None,
        description="Id: the integer 1 and the string `1` are different. POST assigns the next integer if it "
        "is missing.",
    )
    metadata: Annotated[dict[str, Any], AfterValidator(_shallow)] = Field(
        default_factory=dict, description="Any JSON object. Searches can filter by its fields."
    )


class WriteRequest(_Request):
    """Documents to add or replace, all or none."""

    documents: list[NewDocument] = Field(min_length=1, max_length=MOST_INPUTS)
    truncate: Truncate | None = Field(
        default=None,
        description="Texts longer than the model's maximum length: split, truncate (warn) or "
        "reject (error). The default is the setting of the build.",
    )


class DeleteRequest(_Request):
    """Documents to delete, in one step."""

    ids: list[Id] = Field(min_length=1, max_length=MOST_INPUTS)


class SpanOut(BaseModel):
    """A part of a text, as offsets in Unicode characters."""

    start: int
    stop: int


class SnippetOut(BaseModel):
    """The part of a document with the most words of the query."""

    text: str
    start: int = Field(description="Offset in the document's text, in Unicode characters.")
    spans: list[tuple[int, int]] = Field(description="Offsets of the query's words in the snippet.")


class HitOut(BaseModel):
    """A hit."""

    id: int | str
    score: float = Field(
        description="Cosine or dot product (dense), BM25 (keyword), or the fused score (hybrid)."
    )
    percentile: float | None = Field(description="Percentage of random pairs of texts that are less similar.")
    length: int = Field(description="Length of the document's text in Unicode characters.")
    text: str | None = Field(description="Full text of the document, if requested.")
    metadata: dict[str, Any]
    snippet: SnippetOut | None
    passage: SpanOut | None = Field(
        description="The chunk that matched, if the document was split into chunks."
    )


class SearchAnswer(BaseModel):
    """Hits, best first."""

    hits: list[HitOut]
    documents: int = Field(description="Number of documents in the index.")
    query_cut: bool = Field(description="Whether the query was truncated.")
    warnings: list[str] = Field(description="Reasons why the conditions cannot match any document.")


class ChangedAnswer(BaseModel):
    """Result of a change."""

    added: int
    replaced: int
    left_out: int = Field(description="Blank documents that were skipped.")
    split: int = Field(description="Documents that were split into chunks.")
    cut: int = Field(description="Documents that were truncated.")


class DeletedAnswer(BaseModel):
    """Number of deleted documents."""

    deleted: int


class StoredDocument(BaseModel):
    """A document of the index."""

    id: int | str
    text: str
    metadata: dict[str, Any]


class DocumentsAnswer(BaseModel):
    """Documents in the order of the requested ids; null for an unknown id."""

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
    complete: bool = Field(description="Whether `values` lists all values of the field.")
    least: int | float | str | None
    most: int | float | str | None


class IndexAnswer(BaseModel):
    """Summary of an index."""

    name: str
    model: str = Field(description="Name of the model that encodes its queries, as in /v1/models.")
    documents: int
    writable: bool


class IndexesAnswer(BaseModel):
    """The served indexes."""

    indexes: list[IndexAnswer]


class StatsAnswer(IndexAnswer):
    """Contents and settings of an index."""

    vectors: int = Field(description="Number of different texts and chunks.")
    left_out: int
    split: int
    cut: int
    dimension: int
    kind: Kind
    metric: Metric
    language: str | None = Field(description="Language of the keywords.")
    created: str
    fingerprint: str = Field(description="Fingerprint of the model that encoded the documents.")
    hybrid_weight: float | None = Field(description="Dense weight in hybrid search, from 0 to 1, if fitted.")
    most_percentile: float | None = Field(description="Highest percentile that min_score can use.")
    fields: list[FieldOut]
