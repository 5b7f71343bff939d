"""Candidates of small codes, ranked by their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.bundled_text import stdlib_documents
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.plan import plan_index
from tests.search.bag_of_words import Table, clustered

COUNT = 3_000


class Hooked(Table):
    """Counts what it encodes, and calls something once in between."""

    encoded = 0
    hook: Callable[[], object] | None = None

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        self.encoded += len(texts)
        if self.hook is not None and len(texts) > 1:
            hook, self.hook = self.hook, None
            hook()
        return super().encode(texts)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return clustered(COUNT + 100, 32)


@pytest.fixture
def index(vectors: np.ndarray) -> SearchIndex:
    return SearchIndex.build(map(str, range(COUNT)), Hooked(vectors), kind="ivfpq", rescore="texts")


def nearest(vectors: np.ndarray, query: int, alive: Sequence[int], k: int = 10) -> list[int]:
    scores = normalised(vectors)[list(alive)] @ normalised(vectors)[query]
    return [alive[place] for place in np.argsort(-scores, kind="stable")[:k]]


def recall(index: SearchIndex, vectors: np.ndarray, alive: Sequence[int], **options: object) -> float:
    queries = range(COUNT, COUNT + 100)
    found = index.search([str(query) for query in queries], 10, **options)  # type: ignore[call-overload]
    true = [nearest(vectors, query, alive) for query in queries]
    return float(np.mean([len({hit.id for hit in a} & {*b}) / 10 for a, b in zip(found, true, strict=True)]))


def test_real_sentences_are_found_with_few_bytes_and_exact_scores(tmp_path: Path) -> None:
    lines = (line.strip() for one in stdlib_documents() for line in one.text.splitlines())
    texts = list(islice(dict.fromkeys(line for line in lines if len(line) > 40), 4_000))
    encoder = load_encoder("static-mini")
    index = SearchIndex.build(texts, "static-mini", kind="ivfpq")
    facts = index.manifest
    assert facts.rescored and facts.recall.at_10 is not None and facts.recall.at_10 >= 0.95
    index.save(tmp_path / "index")
    queries = ["sort a dictionary by value", "read a file line by line"]
    vectors = normalised(encoder.encode(queries))
    found = index.search(queries, 20)
    for vector, hits in zip(vectors, found, strict=True):
        exact = normalised(encoder.encode([hit.text for hit in hits])) @ vector
        assert np.allclose([hit.score for hit in hits], exact, atol=1e-6)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert SearchIndex.load(tmp_path / "index").search(queries, 20) == found


def test_filters_deletes_and_additions_are_ranked_by_texts(index: SearchIndex, vectors: np.ndarray) -> None:
    assert np.array_equal(index.vectors([5, 3, 5]), normalised(vectors)[[5, 3, 5]])
    even = [number for number in range(COUNT) if number % 2 == 0]
    tagged = [(number, str(number), {"even": number % 2 == 0}) for number in range(COUNT)]
    marked = SearchIndex.build(tagged, Table(vectors), kind="ivfpq", rescore="texts")
    assert recall(marked, vectors, even, where={"even": True}) >= 0.97
    index.delete(even[:1000])
    index.update([(COUNT + 1, "7"), (COUNT + 2, str(COUNT + 99))])
    alive = [number for number in range(COUNT) if number not in {*even[:1000]}]
    assert recall(index, vectors, alive) >= 0.96
    assert index.search(str(COUNT + 99), 1)[0].id == COUNT + 2
    hits = index.search("7", 5)
    assert [hit.score for hit in hits] == pytest.approx(
        [float(normalised(vectors)[7] @ normalised(vectors)[int(hit.text)]) for hit in hits], abs=1e-6
    )


def test_compaction_encodes_the_texts_again(vectors: np.ndarray) -> None:
    encoder = Hooked(vectors)
    index = SearchIndex.build(map(str, range(COUNT)), encoder, kind="ivfpq", rescore="texts")
    assert not index.manifest.keeps_vectors
    index.delete(range(0, 300))
    index.add([("new", str(COUNT + 50))])
    encoder.encoded = 0
    index.compact()
    assert encoder.encoded >= COUNT - 300 and not index.manifest.keeps_vectors
    alive = range(300, COUNT)
    assert recall(index, vectors, [*alive, COUNT + 50]) >= 0.96
    assert index.search(str(COUNT + 50), 1)[0].id == "new"


def test_candidates_are_ranked_by_the_vectors_of_the_database(vectors: np.ndarray) -> None:
    encoder = Hooked(vectors)
    index = SearchIndex.build(map(str, range(COUNT)), encoder, kind="ivfpq", rescore="never")
    assert index.manifest.keeps_vectors and index.manifest.rescored
    encoder.encoded = 0
    hits = index.search(str(COUNT), 5, vectors=vectors[[COUNT]])
    assert encoder.encoded == 0
    assert [hit.score for hit in hits] == pytest.approx(
        [float(normalised(vectors)[COUNT] @ normalised(vectors)[int(hit.text)]) for hit in hits], abs=1e-6
    )


def test_a_change_while_candidates_are_encoded_is_seen(vectors: np.ndarray, tmp_path: Path) -> None:
    encoder = Hooked(vectors)
    SearchIndex.build(map(str, range(COUNT)), encoder, kind="ivfpq", rescore="texts").save(tmp_path / "index")
    index, writer = (SearchIndex.load(tmp_path / "index", one) for one in (encoder, Table(vectors)))
    writer.add(["3001"])
    first = index.search("3002", 2)
    encoder.hook = lambda: writer.delete([first[0].id])
    assert index.search("3002", 1)[0] == first[0]  # the state in which the search began
    assert encoder.hook is None
    assert index.search("3002", 1)[0] == first[1]


def test_without_being_asked_only_static_encoders_rank_by_texts(vectors: np.ndarray) -> None:
    assert SearchIndex.build(map(str, range(900)), Table(vectors), kind="ivfpq").manifest.keeps_vectors
    with pytest.raises(InputError, match="unknown rescore 'always'; choose auto, texts or never"):
        SearchIndex.build(["1"], Table(vectors), rescore="always")  # type: ignore[arg-type]


def test_codes_are_the_finest_that_fit() -> None:
    sizes = [
        plan_index(10**7, 256, memory_budget=budget, rescored=True).bytes / 10**7
        for budget in (2 * 10**9, 700 * 10**6, 500 * 10**6)
    ]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] < 90
    with pytest.raises(InputError, match="do not fit a memory budget"):
        plan_index(10**7, 256, memory_budget=300 * 10**6, rescored=True)
