"""What is known of an index besides its documents and vectors."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sentemb.data.keywords import RULES
from sentemb.encoding.encoder import EncoderSpec
from sentemb.encoding.encoder import Role as TextRole
from sentemb.errors import InputError
from sentemb.search.calibration import Calibration
from sentemb.search.chunks import OVERLAP, Truncate
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.plan import Kind, Metric

NAME = "manifest.json"
"""The file that makes a folder an index: it names the database."""


@dataclass(frozen=True, slots=True)
class Recall:
    """How well an index finds the exact neighbors.

    Args:
        at_10: Share of the 10 exact neighbors of a held-out query that are found; 1.0 for an exact index;
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
class EncoderFacts:
    """The encoder of an index.

    Args:
        name: What it is called.
        fingerprint: That of the encoder of documents.
        source: Where it can be loaded from.
        details: How vectors are made, with the prompts of queries and documents.
        role: What the vectors of the index are made for; None where they were made without a role.
    """

    name: str
    fingerprint: str
    source: EncoderSpec | None
    details: dict[str, Any]
    role: TextRole | None = None

    def moved(self, change: Callable[[EncoderSpec], EncoderSpec]) -> EncoderFacts:
        """Return the same with another place, where it has one."""
        return self if self.source is None else dataclasses.replace(self, source=change(self.source))


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything known of an index besides its documents and vectors.

    Args:
        created: Time of the build, ISO 8601, UTC.
        encoder: The encoder, which queries must be encoded with too.
        dimension: Length of a vector.
        metric: `cosine` or `dot`.
        kind: `flat`, `hnsw` or `ivfpq`.
        factory: faiss's description of the index.
        reason: Why this kind was chosen.
        effort: `efSearch` of HNSW, `nprobe` of IVF-PQ, 0 for flat.
        rescored: Number of candidates whose exact vectors are compared for a search with 10 hits, where
            codes find them; 0 where faiss has the vectors themselves.
        keeps_vectors: Whether the database has all vectors; if not, texts are encoded again where a vector is
            needed.
        recall: The measured recall.
        documents: Number of documents.
        vectors: Number of vectors, one for each document or chunk.
        skipped: Number of blank documents that were skipped.
        versions: Versions of sentemb, faiss and numpy.
        cache: The faiss file in the folder; empty where there is none.
        cache_bytes: Its size.
        cache_sha256: Its checksum.
        cached: Number of vectors in the faiss file, of deleted documents too.
        asked: Whether the kind was requested, so that compaction keeps it.
        asked_factory: The factory that was requested in place of a kind; empty if none was.
        truncate: What becomes of texts that are longer than the model reads.
        overlap: How much of a chunk may be repeated in the next one, as a share of the model's length.
        chunked: Number of documents that are indexed in chunks.
        truncated: Number of documents of which the model reads no more than the beginning.
        calibration: What scores mean; None for few texts.
        hybrid: The weights of hybrid search; None where they were not fitted.
        language: The language whose rules turn texts into words for keyword search, `und` where it is not
            known.
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
    skipped: int
    versions: dict[str, str]
    cache: str = ""
    cache_bytes: int = 0
    cache_sha256: str = ""
    cached: int = 0
    asked: bool = False
    asked_factory: str = ""
    truncate: Truncate = "warn"
    overlap: float = OVERLAP
    chunked: int = 0
    truncated: int = 0
    rescored: int = 0
    keeps_vectors: bool = True
    calibration: Calibration | None = None
    hybrid: HybridWeight | None = None
    language: str = "und"
    keyword_rules: int = RULES

    @property
    def has_keywords(self) -> bool:
        """Whether texts are turned into terms as queries are."""
        return self.keyword_rules == RULES

    def keyword_language(self, place: Path | str) -> str:
        """Return the language of keyword search.

        Args:
            place: The folder or address of the index.

        Returns:
            The code of the language whose rules turn texts into words.

        Raises:
            InputError: The terms of the index follow other rules.
        """
        if self.has_keywords:
            return self.language
        raise InputError(
            f"{place} has keywords of an older version",
            f"run `sentemb index compact {place}`, or build it again",
        )

    @property
    def bytes_per_vector(self) -> float:
        """Size of the faiss index for each vector; 0 before it is saved."""
        return self.cache_bytes / max(1, self.vectors)

    def dump(self, folder: Path | None = None) -> str:
        """Return the manifest as JSON; the place of the model is relative to the folder of the index."""
        facts = self
        if folder is not None:
            facts = dataclasses.replace(self, encoder=self.encoder.moved(lambda at: at.seen_from(folder)))
        return json.dumps(dataclasses.asdict(facts), ensure_ascii=True, allow_nan=False)

    @classmethod
    def parse(cls, text: str, place: Path | str, folder: Path | None = None) -> Manifest:
        """Read what `dump` wrote.

        Args:
            text: The JSON.
            place: Where it was read, for messages.
            folder: The folder of the index.

        Returns:
            The manifest.

        Raises:
            InputError: It is damaged.
        """
        try:
            facts = _CHECK.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"{place}, {where}: {first['msg']}", "build the index again") from None
        if folder is None:
            return facts
        return dataclasses.replace(facts, encoder=facts.encoder.moved(lambda at: at.located(folder)))


_CHECK = TypeAdapter(Manifest)
