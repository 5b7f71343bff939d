"""Facts of an index other than its documents and vectors."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sentemb._fusion import Fit
from sentemb.data.keywords import RULES
from sentemb.encoding.encoder import EncoderSpec, Role, TextEncoder, for_role
from sentemb.errors import InputError
from sentemb.search.calibration import Calibration
from sentemb.search.documents import OVERLAP, Truncate
from sentemb.search.plan import Kind, Metric

# Fields by their names in the file.
_FIELDS = {"asked": "kind_requested", "asked_factory": "factory_requested"}


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall of an index, measured against exact search.

    Args:
        at_10: Share of the 10 exact neighbors of a held-out query that the index finds; 1.0 for an exact
            index; None if too few vectors could be held out.
        queries: Number of held-out queries that this share was measured on.
        tuning_queries: Number of other held-out queries that selected the search effort.
        queries_per_second: Searches per second in one batch on all threads, without encoding.

    Example:
        >>> SearchIndex.load("index").manifest.recall.at_10
        1.0
    """

    at_10: float | None
    queries: int
    tuning_queries: int
    queries_per_second: float | None


@dataclass(frozen=True, slots=True)
class HybridWeight(Fit):
    """The weight of dense search in hybrid search, and the quality of both sides on their own.

    Args:
        weight: Weight of the encoder: 1 is dense search alone, 0 keyword search alone, 0.5 equal weights.
        dense: Mean NDCG@10 of dense search alone, from 0 to 1.
        keyword: Mean NDCG@10 of keyword search alone.
        fused: Mean NDCG@10 of both with this weight.
        queries: Number of queries.
        judged: Whether the queries are a user's, with relevant documents; otherwise they were generated from
            documents, and each should retrieve the document that it comes from.

    Example:
        >>> weight = SearchIndex.load("index").fit(["order a dictionary"], [["py-1"]])
        >>> weight.weight
        0.5
    """

    judged: bool

    def reason(self, queries: str | None = None) -> str:
        """Return a sentence on which way hybrid search leans, and why."""
        some = queries or ("queries with qrels" if self.judged else "generated queries")
        return f"hybrid search {Fit.reason(self, some)}"


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
    role: Role | None = None

    @classmethod
    def of(cls, encoder: TextEncoder, given: Any, source: EncoderSpec | None) -> EncoderFacts:
        """Return what an index notes of an encoder that was given in some form, so that it finds it again."""
        if source is None and isinstance(given, (str, Path)):
            source = EncoderSpec(str(given))
        place = source.located() if source else None
        documents = for_role(encoder, "document")
        return cls(encoder.name, documents.fingerprint, place, documents.describe(), "document")

    def load(self, given: Any | None, place: Path | str) -> TextEncoder:
        """Return the encoder that an index was built with.

        Args:
            given: The encoder, or the new place of its model; by default the one that the index names.
            place: The index, for messages.

        Raises:
            InputError: It cannot be loaded, or it is another one.
        """
        if self.source is not None and (given is None or isinstance(given, (str, Path))):
            # The model may have moved; pooling and the other options of the build still apply.
            try:
                loaded = dataclasses.replace(self.source, model=str(given or self.source.model)).load()
            except InputError as error:
                if given is not None:
                    raise
                message = f"the encoder of {place}, {self.name}: {error.message}"
                raise InputError(message, error.hint) from error
        elif given is not None:
            loaded = resolve(given)
        else:
            raise InputError(
                f"the location of the encoder {self.name} of {place} is not known", "pass the encoder"
            )
        if for_role(loaded, "document").fingerprint != self.fingerprint:
            raise InputError(
                f"{place} was built with {self.name} ({self.fingerprint[:12]}), "
                f"not with {loaded.name} ({loaded.fingerprint[:12]})",
                "pass the encoder of the build, or change the encoder with `sentemb index upgrade`",
            )
        return loaded


def resolve(encoder: Any) -> TextEncoder:
    """Return the encoder that is given, or that is loaded from what is."""
    # On the class: an object's fingerprint may take a while. What is an encoder already needs no torch.
    if hasattr(type(encoder), "fingerprint"):
        ready: TextEncoder = encoder
        return ready

    from sentemb.encoding import load_encoder

    return load_encoder(encoder)


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
        kind_requested: Whether the kind was requested, so that compaction keeps it.
        factory_requested: The factory that was requested in place of a kind; empty if none was.
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
    kind_requested: bool = False
    factory_requested: str = ""
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
        """Return True if documents and queries follow the same rules for keywords."""
        return self.keyword_rules == RULES

    def check_keywords(self, place: Path | str) -> None:
        """Raise InputError if the keywords of the index in a folder or at an address follow other rules."""
        if not self.has_keywords:
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
        facts = self if folder is None else self._moved(lambda spec: spec.seen_from(folder))
        names = {field: name for name, field in _FIELDS.items()}
        values = {names.get(field, field): value for field, value in dataclasses.asdict(facts).items()}
        return json.dumps(values, ensure_ascii=True, allow_nan=False)

    @classmethod
    def parse(cls, text: str, place: Path | str, folder: Path | None = None) -> Manifest:
        """Read what `dump` wrote into a place and a folder, or raise InputError if it is damaged."""
        try:
            values = json.loads(text)
            facts = _CHECK.validate_python({_FIELDS.get(name, name): values[name] for name in values})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"{place}, {where}: {first['msg']}", "build the index again") from None
        except (ValueError, TypeError) as error:
            raise InputError(f"{place}: {error}", "build the index again") from None
        return facts if folder is None else facts._moved(lambda spec: spec.located(folder))

    def _moved(self, change: Callable[[EncoderSpec], EncoderSpec]) -> Manifest:
        encoder = self.encoder
        if encoder.source is None:
            return self
        moved = dataclasses.replace(encoder, source=change(encoder.source))
        return dataclasses.replace(self, encoder=moved)


_CHECK = TypeAdapter(Manifest)
