"""A search has no answer where its evidence is no more than that of unanswerable queries."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import Abstention, SearchIndex
from sentemb.search.abstention import (
    explain,
    features,
    generate_unanswerable,
    is_answer,
    measured,
    rank_queries,
)
from tests.search.bag_of_words import BagOfWords

_CHOSEN, _CALIBRATION = 300, 100  # documents; queries whose documents are known


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return 450 texts of 14 words, each from 7 of 800 words."""
    rng = np.random.default_rng(0)
    topics = rng.integers(800, size=(450, 7))
    return [" ".join(f"w{word}" for word in rng.choice(topic, 14)) for topic in topics]


def query_of(text: str) -> str:
    """Return some words of a text, which is one in three less exact, and words of none."""
    words = text.split()
    return " ".join([*dict.fromkeys(words[:4]), "w3", f"w{len(text) * 7 % 800}"])


@pytest.fixture(scope="module")
def index(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> SearchIndex:
    folder = tmp_path_factory.mktemp("abstention") / "index"
    SearchIndex.build(texts[:_CHOSEN], BagOfWords(), language="en").save(folder)
    return SearchIndex.load(folder, BagOfWords())


@pytest.fixture(scope="module")
def calibrated(index: SearchIndex, texts: list[str]) -> Abstention:
    queries = [query_of(text) for text in texts[:_CALIBRATION]]
    return index.calibrate(queries, [[number] for number in range(_CALIBRATION)], alpha=0.1)


def test_queries_without_an_answer_seldom_get_one(
    index: SearchIndex, texts: list[str], calibrated: Abstention
) -> None:
    others = [query_of(text) for text in texts[_CALIBRATION:]]
    answered = [len(hits) > 0 for hits in index.search(others, 3, mode="hybrid", abstain=True)]
    answerable, unanswerable = (
        np.mean(answered[: _CHOSEN - _CALIBRATION]),
        np.mean(answered[_CHOSEN - _CALIBRATION :]),
    )
    assert unanswerable <= 0.1 + 2 * np.sqrt(0.1 * 0.9 * (1 / 150 + 1 / _CALIBRATION))
    assert answerable > 0.6 and calibrated.kept == pytest.approx(answerable, abs=0.15)
    assert calibrated.judged and len(calibrated.scores) == _CALIBRATION
    assert "guaranteed for queries like the 100 of the calibration" in explain(calibrated)


@pytest.mark.parametrize("mode", ["dense", "keyword", "hybrid"])
def test_hits_have_p_values_and_no_hits_a_reason(
    index: SearchIndex, texts: list[str], calibrated: Abstention, mode: str
) -> None:
    good, bad = texts[5], "nothing of this kind"
    hits, none = index.search([good, bad], 60, mode=mode, abstain=True)  # type: ignore[call-overload]
    plain = index.search(good, 60, mode=mode)  # type: ignore[call-overload]
    assert [hit.id for hit in hits] == [hit.id for hit in plain] and hits.reason == ""
    assert hits[0].id == 5 and hits[0].p_value == pytest.approx(1 / (1 + _CALIBRATION))
    assert all(0 < hit.p_value <= 1 for hit in hits) and {hit.p_value for hit in plain} == {None}
    assert none == [] and "no document seems to answer this" in none.reason and "10 %" in none.reason
    assert index.search(bad, abstain=True, vectors=BagOfWords().encode([bad])).reason == none.reason
    assert index.search(good, 3, abstain=True, where={"year": 2000}).reason


def test_few_queries_cannot_guarantee_a_small_share(index: SearchIndex, texts: list[str]) -> None:
    queries, relevant = [query_of(text) for text in texts[:19]], [[number] for number in range(19)]
    message = "18 queries with qrels cannot guarantee alpha 0.05, which needs 19; .* alpha 0.053 or more"
    with pytest.raises(InputError, match=message):
        index.calibrate(queries[:18], relevant[:18])
    before = index.manifest.abstention
    assert len(index.calibrate(queries, relevant).scores) == 19
    assert index.calibrate(queries, [[] for _ in queries]).kept is None
    index.store.keep(abstention=before)
    for alpha in (0, 1, "5%", True):
        with pytest.raises(InputError, match="choose a share above 0 and below 1"):
            index.calibrate(alpha=alpha)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not contain any of the relevant documents, such as 'x'"):
        index.calibrate(queries, [["x"] for _ in queries])
    with pytest.raises(InputError, match="pass both or neither"):
        index.calibrate(queries)
    with pytest.raises(InputError, match="there are 19 queries, but relevant documents for 2"):
        index.calibrate(queries, relevant[:2])


def test_queries_of_documents_do_not_guarantee_it_for_others(tmp_path: Path, texts: list[str]) -> None:
    copies = [f"{text} again" for text in texts[:40]]
    index = SearchIndex.build([*texts[:200], *copies], BagOfWords(), language="en")
    with index.store.snapshot() as snapshot:
        rows = generate_unanswerable(snapshot, BagOfWords())
        pairs = [{*row.dense.documents.tolist()} for row in rows]
    assert all(len(found) < 240 for found in pairs)
    # A document and its copy are removed together.
    assert sum(len(found) == 238 for found in pairs) >= 30
    found = index.calibrate()
    assert not found.judged and found.kept is None and 100 < len(found.scores) <= 200
    assert "is not guaranteed for queries of your users" in explain(found)
    assert f"of {measured().sets} corpora, a nominal 5 %" in explain(found)
    with pytest.raises(InputError, match=r"1 queries generated .* cannot guarantee alpha 0\.05"):
        SearchIndex.build(["a cat sat on the mat and slept", "birds"], BagOfWords()).calibrate()


def test_a_calibration_is_for_documents_and_an_encoder(tmp_path: Path, texts: list[str]) -> None:
    SearchIndex.build(texts[:100], BagOfWords(), language="en").save(tmp_path / "index")
    index, reader = (SearchIndex.load(tmp_path / "index", BagOfWords()) for _ in range(2))
    with pytest.raises(InputError, match="the index is not calibrated to abstain; run `sentemb index"):
        index.search("w1", abstain=True)
    found = index.calibrate(alpha=0.2)
    assert reader.manifest.abstention == found and reader.explain_no_abstention() is None
    index.add([(f"new-{place}", text) for place, text in enumerate(texts[100:106])])
    index.compact()
    assert reader.search(texts[0], abstain=True)[0].id == 0
    index.delete(range(6))
    message = "12 % of the documents have changed since the index was calibrated to abstain"
    assert reader.explain_no_abstention() == message
    with pytest.raises(InputError, match=message):
        reader.search(texts[50], abstain=True)
    index.calibrate(alpha=0.2)
    index.update([(place, text) for place, text in zip(range(6, 20), texts[200:], strict=False)])
    assert "28 % of the documents" in (reader.explain_no_abstention() or "")
    index.store.keep(abstention=dataclasses.replace(found, rules=0))
    assert "another version" in (reader.explain_no_abstention() or "")
    SearchIndex.upgrade(tmp_path / "index", BagOfWords(fingerprint="words-2"))
    other = SearchIndex.load(tmp_path / "index", BagOfWords(fingerprint="words-2"))
    assert other.explain_no_abstention() == "the index is not calibrated to abstain"


class Paraphrases(BagOfWords):
    """Encodes `d1`, `e1` and `q1`: a document, one of the same topic, and a query that `d1` answers.

    All have no words in common. Topics with an even number are far from each other, others are near.
    """

    def __init__(self) -> None:
        super().__init__(dimension=72)

    def _vector(self, text: str) -> np.ndarray:
        topic = int(text[1:])
        part = slice(0, 64) if topic % 2 == 0 else slice(64, 72)
        parts = np.random.default_rng(topic).normal(size=(3, 72))
        vector = np.zeros(72)
        for share, direction in zip(
            {"d": (1, 0, 0), "e": (1, 1, 0), "q": (1, 0, 0.3)}[text[0]], parts, strict=True
        ):
            vector[part] += share * direction[part] / np.linalg.norm(direction[part])
        return (vector / np.linalg.norm(vector)).astype(np.float32)


def test_similarity_alone_is_the_evidence_where_it_is_better(tmp_path: Path) -> None:
    documents = [(f"{kind}{topic}", f"{kind}{topic}") for topic in range(120) for kind in "de"]
    SearchIndex.build(documents, Paraphrases(), language="en").save(tmp_path / "index")
    index = SearchIndex.load(tmp_path / "index", Paraphrases())
    queries, relevant = [f"q{topic}" for topic in range(60)], [[f"d{topic}"] for topic in range(60)]
    few = index.calibrate(queries[:19], relevant[:19])
    assert few.evidence == "weighted"
    found = index.calibrate(queries, relevant)
    assert found.evidence == "similarity" and found.kept == 1
    assert "holds approximately for queries like the 60 of the calibration, which also show" in explain(found)
    others = [f"q{topic}" for topic in range(60, 120)]
    hits = index.search(others, 1, abstain=True)
    assert [own[0].id for own in hits] == [f"d{query[1:]}" for query in others]
    index.delete([f"d{topic}" for topic in range(110, 120)])
    assert sum(len(hits) for hits in index.search(others[50:], 1, abstain=True)) <= 2
    again = SearchIndex.load(tmp_path / "index", Paraphrases())
    assert again.manifest.abstention == found


def test_p_values_count_the_query_itself() -> None:
    nine = Abstention(0.1, tuple(range(9)), True, None, 1, 1, 1)
    assert [nine.p_value(score) for score in (-1, 0, 0.5, 8, 9)] == [1, 1, 0.9, 0.2, 0.1]
    assert [is_answer(nine, nine.p_value(score)) for score in (8, 8.1)] == [False, True]


def test_no_evidence_counts_against_a_document(index: SearchIndex, texts: list[str]) -> None:
    assert len(measured().weights) == 6 and (measured().weights >= 0).all()
    queries = [texts[7], "w1 unseen", "unseen"]
    with index.store.snapshot() as snapshot:
        rows = rank_queries(snapshot, queries, BagOfWords().encode(queries))
        (documents, own), (_, half), (_, none) = (features(snapshot, row) for row in rows)
        gone = rows[0].without([int(documents[own[:, 1].argmax()])])
        assert features(snapshot, gone)[1][:, 1].max() < own[:, 1].max() == 1
        everything = rows[0].without(range(10_000))
        assert features(snapshot, everything)[1].shape == (0, 6)
    assert 0 < half[:, 1].max() < 1 and none[:, 1:4].max() == 0
    assert np.isfinite([*own.ravel(), *half.ravel(), *none.ravel()]).all()
