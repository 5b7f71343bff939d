"""Facts of an index other than its documents and vectors, such as the percentiles of its scores."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sentemb._fusion import Fit
from sentemb.data.words import RULES
from sentemb.encoding.encoder import EncoderSpec, Role, TextEncoder, Vectors, for_role
from sentemb.errors import InputError
from sentemb.search.documents import OVERLAP, Truncate
from sentemb.search.plan import Kind, Metric

# Of 2,000 texts there are 2 million pairs, and their percentiles differ from seed to seed by .1 at 95.
_TEXTS, _FEWEST_TEXTS = 2_000, 50
# A share of pairs that fewer than this many of the sample make up is not known.
_FEWEST_PAIRS = 10
_DIGITS = 4
_FINENESS = 20  # bits of a number of a vector
_BLOCK = 256
# Fields by their names in the file.
_FIELDS = {"asked": "kind_requested", "asked_factory": "factory_requested"}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Similarities of random pairs of texts, which give the percentile of a score.

    Args:
        texts: Number of texts drawn; all of their pairs were compared.
        scores: The score that shares of the pairs exceed: 99.9 %, 99.8, 99.5, 99, 98, 95, 90, 80 ... 10, 5,
            2, 1, 0.5 and so on, down to the last share that 10 pairs make up.

    Example:
        >>> SearchIndex.load("index").manifest.calibration.texts
        65
    """

    texts: int
    scores: tuple[float, ...]

    @property
    def pairs(self) -> int:
        """Number of pairs that were compared."""
        return self.texts * (self.texts - 1) // 2

    @property
    def most(self) -> float:
        """The highest percentile that this number of pairs can resolve."""
        return round(100 * (1 - _shares(self.pairs)[-1]), _DIGITS)

    def percentile(self, score: float) -> float:
        """Return the percentage of random pairs with a lower score.

        It is 0 to `most`, which also stands for everything above, and never falls as the score rises.
        """
        return self.percentiles([score])[0]

    def percentiles(self, scores: Sequence[float]) -> list[float]:
        """Return the percentiles of several scores."""
        points, odds = np.array(self.scores), np.array(_odds(self.pairs))
        given = np.array(scores, dtype=np.float64)
        place = np.searchsorted(points, given)
        low, high = np.maximum(place - 1, 0), np.minimum(place, len(points) - 1)
        # Between two points the logarithm of the odds is a straight line, as in the tails it is.
        width = points[high] - points[low]
        part = np.where(width > 0, given - points[low], 0.0) / np.where(width > 0, width, 1.0)
        found = np.round(100 / (1 + np.exp(odds[low] + part * (odds[high] - odds[low]))), _DIGITS)
        return np.where(given < points[0], 0.0, found).tolist()  # type: ignore[no-any-return]

    def score(self, percentile: float) -> float:
        """Return the lowest score that has a percentile, 0 to `most`; minus infinity for 0.

        Raises:
            InputError: It is not a percentile, or higher than the sample of pairs can tell.
        """
        if not 0 <= percentile <= 100:
            raise InputError(f"min_score {percentile:g}% is not a percentile", "choose 0% to 100%")
        if percentile > self.most:
            raise InputError(
                f"min_score {percentile:g}% cannot be resolved with {self.pairs:,} random pairs",
                f"choose {self.most:g}% or less, or pass a score",
            )
        return _lowest(self, percentile)

    def show(self, percentile: float | None) -> str:
        """Write a percentile for people, with as many digits as tell it from 100."""
        if percentile is None:
            return ""
        if percentile >= self.most:
            return f"> {self.most:g}"
        digits = 1 if percentile < 99 else -math.floor(math.log10(100 - percentile))
        return f"{percentile:.{digits}f}"


def calibrate(count: int, rows: Callable[[NDArray[np.int64]], Vectors]) -> Calibration | None:
    """Compare all pairs of up to 2,000 of `count` vectors, which `rows` reads by place; None of too few."""
    if count < _FEWEST_TEXTS:
        return None
    chosen = np.sort(np.random.default_rng(2).choice(count, min(count, _TEXTS), replace=False))
    vectors = rows(chosen.astype(np.int64))
    # Whole numbers add up exactly in any order, so that the number of threads does not matter.
    scale = _FINENESS - math.frexp(float(np.abs(vectors).max()))[1]
    whole = np.rint(np.ldexp(vectors.astype(np.float64), scale))
    upper = []
    for start in range(0, len(whole), _BLOCK):
        scores = whole[start : start + _BLOCK] @ whole.T
        upper += [scores[row, start + row + 1 :] for row in range(len(scores))]
    pairs = np.ldexp(np.concatenate(upper), -2 * scale)
    pairs.sort()
    places = [min(round(len(pairs) * (1 - share)), len(pairs) - 1) for share in _shares(len(pairs))]
    return Calibration(len(vectors), tuple(float(f"{score:.6g}") for score in pairs[places]))


def lowest_score(min_score: float | str | None, calibration: Calibration | None, texts: int) -> float | None:
    """Return the score that `min_score` stands for, as it is or in percent, in an index of so many texts."""
    if min_score is None:
        return None
    written = str(min_score).strip()
    number = math.nan
    with contextlib.suppress(ValueError):
        number = math.nan if isinstance(min_score, bool) else float(written.removesuffix("%"))
    if math.isnan(number):
        raise InputError(f"min_score {min_score!r} is neither a score nor a percentile", "write 0.5 or 99%")
    if not written.endswith("%"):
        return number
    if calibration is not None:
        return calibration.score(number)
    if texts < _FEWEST_TEXTS:
        raise InputError(
            f"percentiles need at least {_FEWEST_TEXTS} texts, but the index has {texts:,}", "pass a score"
        )
    raise InputError(
        f"min_score {written} needs percentiles, which this index does not have",
        "add them with `sentemb index compact`, or pass a score",
    )


@functools.lru_cache
def _lowest(calibration: Calibration, percentile: float) -> float:
    if percentile == 0:
        return -math.inf
    low, high = math.nextafter(calibration.scores[0], -math.inf), calibration.scores[-1]
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if calibration.percentile(middle) >= percentile else (middle, high)
    # It is compared with scores of single precision, in which it must not become lower.
    single = np.float32(high)
    return float(single if float(single) >= high else np.nextafter(single, np.float32(np.inf)))


@functools.lru_cache
def _odds(pairs: int) -> list[float]:
    """Return the logarithm of the odds that a random pair exceeds each score of a calibration."""
    return [math.log(share / (1 - share)) for share in _shares(pairs)]


@functools.lru_cache
def _shares(pairs: int) -> list[float]:
    """Return the shares of pairs whose scores a calibration holds, falling."""
    body = [0.999, 0.998, 0.995, 0.99, 0.98, 0.95, *(tenths / 10 for tenths in range(9, 0, -1))]
    tail = [first / 10**power for power in range(2, 9) for first in (5, 2, 1)]
    return [share for share in (*body, *tail) if share * pairs >= _FEWEST_PAIRS]


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
class Abstention:
    """The evidence of the best hit of queries that no document answers, and what a threshold on it costs.

    Args:
        alpha: Share of unanswerable queries that may get an answer.
        scores: The highest evidence for each of these queries, rising; see `sentemb.search.abstention`.
        judged: Whether the queries are a user's; otherwise they were generated from documents.
        kept: Share of the answerable queries that get an answer; None of generated queries.
        documents: Number of documents at the time.
        last: Number of the last document at the time.
        rules: The number of the rules by which evidence was computed.
        evidence: `weighted`, or `similarity` where this alone tells answerable queries better.

    Example:
        >>> abstention = Abstention(0.1, (0.1, 0.2, 0.2, 0.3, 0.4, 0.4, 0.5, 0.6, 0.7), True, 0.8, 65, 64, 1)
        >>> abstention.p_value(0.9), abstention.p_value(0.6)
        (0.1, 0.3)
    """

    alpha: float
    scores: tuple[float, ...]
    judged: bool
    kept: float | None
    documents: int
    last: int
    rules: int
    evidence: str = "weighted"

    def p_value(self, evidence: float) -> float:
        """Return the share of unanswerable queries with as much evidence, this one counted among them."""
        return (1 + len(self.scores) - bisect.bisect_left(self.scores, evidence)) / (1 + len(self.scores))


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
        """Return the encoder of the index at a place, or raise InputError if it is another one.

        `given` is the encoder, or the new place of its model; by default the one that the index names.
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
        abstention: When a search has no answer; None without `SearchIndex.calibrate`.

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
    abstention: Abstention | None = None

    @property
    def bytes_per_vector(self) -> float:
        """Size of the faiss index for each vector; 0 before it is saved."""
        return self.cache_bytes / max(1, self.vectors)

    def dump(self, folder: Path | None = None) -> str:
        """Return the manifest as JSON; the place of the model is relative to the folder of the index."""
        names = {field: name for name, field in _FIELDS.items()}
        values = {names.get(field, field): value for field, value in dataclasses.asdict(self).items()}
        if folder is not None and self.encoder.source is not None:
            values["encoder"]["source"] = dataclasses.asdict(self.encoder.source.seen_from(folder))
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
        if facts.keyword_rules != RULES:
            raise InputError(f"{place} has keywords of another version", "build the index again")
        source = facts.encoder.source
        if folder is None or source is None:
            return facts
        encoder = dataclasses.replace(facts.encoder, source=source.located(folder))
        return dataclasses.replace(facts, encoder=encoder)


_CHECK = TypeAdapter(Manifest)
