"""`manifest.json`: what an index folder holds, and the proof that it is unchanged.

Format 3 names two files that never change. Format 4 is a living index: its documents, and what was changed
since the vectors were indexed, are in a database whose transactions decide. Formats 5 and 6 are the same
with keywords of other rules, to which a reader of 3 and 4 would add wrong ones. Formats 1 and 2 are 3 and 4
without passages, which whoever reads only these would take for texts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from sentemb._files import write_text
from sentemb.data.keywords import RULES
from sentemb.encoding.encoder import Role as TextRole
from sentemb.errors import InputError
from sentemb.search.calibration import Calibration
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.plan import Kind, Metric
from sentemb.search.prepared import OVERLAP, Truncate
from sentemb.search.source import EncoderSource

FORMAT = 5
LIVING_FORMAT = 6
_READABLE = range(1, LIVING_FORMAT + 1)
NAME = "manifest.json"

Role = Literal["vectors", "documents", "living", "adapter"]


@dataclass(frozen=True, slots=True)
class Recall:
    """How well an index finds the exact neighbours.

    Args:
        at_10: Share of the 10 exact neighbours of a held-out query that are found; 1.0 for an exact index;
            None where too few vectors could be held out.
        queries: Number of held-out queries the share was measured on.
        tuning_queries: Number of other held-out queries on which the effort was chosen.
        queries_per_second: Searches in one batch, all threads, vectors given.

    Example:
        >>> SearchIndex.load("index").manifest.recall.at_10
        1.0
    """

    at_10: float | None
    queries: int
    tuning_queries: int
    queries_per_second: float | None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of an index folder."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """The encoder of an index.

    Args:
        name: What it is called.
        fingerprint: That of the encoder of documents.
        source: Where it can be loaded from.
        details: How vectors are made, with the prompts of queries and documents.
        role: What the vectors of the index are made for; None in indexes of earlier versions, which do not
            use prompts and routes of a role.
    """

    name: str
    fingerprint: str
    source: EncoderSource | None
    details: dict[str, Any]
    role: TextRole | None = None

    def moved(self, change: Callable[[EncoderSource], EncoderSource]) -> EncoderFacts:
        """The same with another place, where it has one."""
        return self if self.source is None else dataclasses.replace(self, source=change(self.source))


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """The map that takes queries of the index's encoder to vectors of another one; see `Learned`.

    Args:
        documents: The encoder of the documents.
        dimension: Length of the vectors of queries before they are mapped.
        sample: Number of texts that both encoders have encoded.
        method: The family of the map.
        recall_new: recall@10 of mapped queries against the new encoder's own search.
        recall_old: The same against the old encoder's search.
        unadapted: The same of the old encoder's search against the new one's.
        queries: Number of held-out texts these were measured with.
        corpus: Number of held-out texts these were searched among.
    """

    documents: EncoderFacts
    dimension: int
    sample: int
    method: str
    recall_new: float
    recall_old: float
    unadapted: float
    queries: int
    corpus: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything known of an index besides its vectors and documents.

    Args:
        created: Time of the build, ISO 8601, UTC.
        encoder: The encoder, which queries must be encoded with too.
        dimension: Length of a vector.
        metric: `cosine` or `dot`.
        kind: `flat`, `hnsw` or `ivfpq`.
        factory: faiss's description of the index.
        reason: Why this kind was chosen.
        effort: `efSearch` of HNSW, `nprobe` of IVF-PQ, 0 for flat.
        rescored: Number of texts that are encoded again for a search with 10 hits, whose candidates they
            rank; 0 where codes or vectors rank them.
        recall: The measured recall.
        documents: Number of documents.
        vectors: Number of unique texts and passages, each of which has one vector.
        left_out: Number of blank documents that were left out.
        versions: Versions of sentemb, faiss and numpy.
        files: `vectors`, `documents`, and `adapter` where there is one; empty until the index is saved. A
            living index has no `documents`.
        living: The database of a living index.
        lineage: The same for all states of one index, however often it was changed and compacted.
        asked: Whether the kind was asked for, so that compaction keeps it.
        truncate: What becomes of texts that are longer than the model reads.
        overlap: How much of a passage may be repeated in the next one, as a share of the model's length.
        split: Number of documents that are indexed in passages.
        cut: Number of documents of which the model reads no more than the beginning; not counted in folders
            of earlier versions.
        next_id: The id that the next document without one gets, where deleted documents had higher ones.
        calibration: What scores mean; None for few texts, and in folders of earlier versions.
        hybrid: How much hybrid search trusts vectors and words; None where that was not found out.
        language: The language whose rules cut texts to words for keyword search, `und` where it is not known;
            None for an index from before there was keyword search, which compaction makes.
        adapter: The map of queries to the vectors of documents, where another encoder made those.
        keyword_rules: The number of the rules by which texts became terms of keyword search.

    Example:
        >>> SearchIndex.load("index").manifest.documents
        65
    """

    created: str
    encoder: EncoderFacts
    dimension: int
    metric: Metric
    kind: Kind
    factory: str
    reason: str
    effort: int
    recall: Recall
    documents: int
    vectors: int
    left_out: int
    versions: dict[str, str]
    files: dict[Role, StoredFile]
    living: str | None = None
    lineage: str = ""
    asked: bool = False
    next_id: int = 0
    truncate: Truncate = "warn"
    overlap: float = OVERLAP
    split: int = 0
    cut: int = 0
    rescored: int = 0
    calibration: Calibration | None = None
    hybrid: HybridWeight | None = None
    language: str | None = None
    adapter: AdapterFacts | None = None
    keyword_rules: int = 1

    @property
    def has_keywords(self) -> bool:
        """Whether texts are cut to terms as queries are."""
        return self.language is not None and self.keyword_rules == RULES

    def keyword_language(self, place: Path | str | None) -> str:
        """Return the language of keyword search.

        Args:
            place: The folder or address of the index.

        Returns:
            The code of the language whose rules cut texts to words.

        Raises:
            InputError: The index has no keywords, or those of other rules.
        """
        if self.language is not None and self.has_keywords:
            return self.language
        made = "does not have keywords" if self.language is None else "has keywords of an older version"
        in_table = isinstance(place, str)
        hint = "build it again" if in_table else f"run `sentemb index compact {place}`, or build it again"
        raise InputError(f"{place} {made}", hint)

    @property
    def long(self) -> int:
        """Number of documents that are longer than the model reads."""
        return self.split + self.cut

    @property
    def documents_encoder(self) -> EncoderFacts:
        """The encoder of the documents."""
        return self.encoder if self.adapter is None else self.adapter.documents

    @property
    def line(self) -> str:
        """The lineage; that of a saved index that was never changed is its content."""
        return self.lineage or "-".join(stored.sha256[:16] for _, stored in sorted(self.files.items()))

    @property
    def names(self) -> list[str]:
        """The names of all files of a saved index."""
        return [*(stored.name for stored in self.files.values()), *([self.living] if self.living else [])]

    @property
    def kept(self) -> dict[Role, StoredFile]:
        """The files that stay when the documents change and the vectors are indexed anew."""
        return {role: stored for role, stored in self.files.items() if role == "adapter"}

    @property
    def bytes_per_vector(self) -> float:
        """Size of the saved faiss index for each vector; 0 before it is saved."""
        stored = self.files.get("vectors")
        return stored.bytes / max(1, self.vectors) if stored else 0.0

    def write(self, folder: Path) -> None:
        """Put the manifest in place, atomically: from this moment on the folder is this index."""
        seen = self._with_source(lambda source: source.seen_from(folder))
        number = LIVING_FORMAT if self.living else FORMAT
        write_text(folder / NAME, _sealed(dataclasses.asdict(seen), number))

    def _with_source(self, change: Callable[[EncoderSource], EncoderSource]) -> Manifest:
        adapter = self.adapter
        if adapter is not None:
            adapter = dataclasses.replace(adapter, documents=adapter.documents.moved(change))
        return dataclasses.replace(self, encoder=self.encoder.moved(change), adapter=adapter)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read and check the manifest of an index folder.

        Args:
            folder: The index folder.

        Returns:
            The manifest.

        Raises:
            InputError: There is none, it was changed, or it is of another format.
        """
        path = folder / NAME
        text = _read(path)
        try:
            value = json.loads(text)
            found = value.pop("format")
            checksum = value.pop("checksum", None)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(f"{path} is not the manifest of an index", "build the index again") from None
        if found not in _READABLE:
            raise InputError(
                f"{path} has the format {found!r}, but this version of sentemb reads formats 1 to "
                f"{_READABLE[-1]}",
                "update sentemb, or build the index again",
            )
        if checksum is None or not _is_sealed(value, found, text):
            raise InputError(f"{path} does not match its checksum", "build the index again")
        try:
            manifest = _CHECK.validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(f"{path}, {place}: {first['msg']}", "build the index again") from None
        wanted = {"vectors": True, "documents": not manifest.living, "adapter": manifest.adapter is not None}
        if {*manifest.files} != {role for role, there in wanted.items() if there}:
            raise InputError(f"{path} does not list its files", "build the index again")
        if any(Path(name).name != name for name in manifest.names):
            raise InputError(f"{path} lists a file outside its folder", "build the index again")
        return manifest._with_source(lambda source: source.located(folder))


_CHECK = TypeAdapter(Manifest)


def _sealed(content: dict[str, Any], number: int) -> str:
    """The file's text: the checksum covers everything before it, down to the spaces."""
    value = {"format": number, **content}
    checksum = hashlib.sha256(_dump(value).encode()).hexdigest()
    return _dump(value | {"checksum": checksum})


def _is_sealed(content: dict[str, Any], number: int, text: str) -> bool:
    try:
        return _sealed(content, number) == text
    except ValueError:  # infinities, which no manifest has
        return False


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _read(path: Path) -> str:
    try:
        # Bytes first: text mode would read a carriage return as a line feed.
        return path.read_bytes().decode("ascii")
    except FileNotFoundError:
        raise InputError(
            f"{path.parent} is not an index: {path.name} is missing", "build one with `sentemb index build`"
        ) from None
    except NotADirectoryError:
        raise InputError(f"{path.parent} is a file, not an index folder") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} does not match its checksum", "build the index again") from None
