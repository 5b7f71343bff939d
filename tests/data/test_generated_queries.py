"""Queries are removed from their documents and no other; neighborhoods; BM25 in memory and on disk."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sentemb.data import bm25
from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms, stored_bm25_scores
from sentemb.data.documents import Document
from sentemb.data.generated_queries import cut_queries, generate_queries
from sentemb.evaluation.retrieval import evaluate_retrieval

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def documents(count: int = 60) -> list[Document]:
    """Return documents of three sentences; one of them is in all."""
    return [
        Document(
            f"Topic {number} is about {LETTERS[number % 26] * 3}. See also the index. It ends with {number}.",
            str(number),
            title=f"title {number}",
        )
        for number in range(count)
    ]


def test_each_query_is_removed_from_the_document_that_it_asks_for() -> None:
    sets = {data.name: data for data in generate_queries(documents(), count=25)}
    assert [*sets] == ["title", "sentence", "crop"]
    originals = [document.whole for document in documents()]
    for data in sets.values():
        assert len(data.queries) == 25
        assert len(data.documents) == len(set(data.document_ids)) == 60
        for query, row, grade in data.judged:
            text, words = data.queries[query], data.documents[row].split()
            assert grade == 1 and text not in data.documents[row]
            assert any(text in original and all(word in original for word in words) for original in originals)
    asked = {row for _, row, _ in sets["title"].judged.tolist()}
    for row, text in enumerate(sets["title"].documents):
        assert ("title" in text) == (row not in asked)
    assert "See also the index." not in sets["sentence"].queries
    assert all("title" in text for text in sets["sentence"].documents)
    crop, quote = generate_queries(documents(), count=25, kinds=("crop", "quote"))
    assert quote.name == "quote" and quote.queries == crop.queries
    assert {*quote.documents} == {*originals}  # a quote stays
    for query, row, _ in quote.judged:
        assert quote.queries[query] in quote.documents[row]
        assert quote.queries[query] not in crop.documents[row]


def test_a_seed_is_a_draw_and_a_large_corpus_is_sampled() -> None:
    first, again, other = (
        [data.queries for data in generate_queries(documents(), count=20, seed=seed)] for seed in (0, 0, 1)
    )
    assert first == again != other
    for data in generate_queries(documents(), count=300, most=30):
        assert len(data.documents) == len(data.queries) == 30


def test_queries_are_unique_among_further_documents() -> None:
    own = documents(40)
    further = [Document(f"{own[5].text.split('. ')[0]}. Another sentence.", "x", title="title 3")]
    alone, among = (
        {data.name: data for data in generate_queries(own, count=40, distractors=some)}
        for some in ((), further)
    )
    assert "title 3" in alone["title"].queries and "title 3" not in among["title"].queries
    assert not {query for query in among["sentence"].queries if query in further[0].text}
    for name, data in among.items():
        assert data.document_ids[-1] == "other-0" and len(data.documents) == 41
        assert data.documents[-1] == (further[0].text if name == "title" else further[0].whole)
        assert 40 not in data.judged[:, 1]


def test_documents_that_allow_no_query_have_none() -> None:
    assert generate_queries([Document(f"word{n}", str(n)) for n in range(100)]) == []
    same = [Document(f"Line {n} has many words.", str(n), title="same") for n in range(100)]
    assert [data.name for data in generate_queries(same)] == ["crop"]
    assert generate_queries(documents(19)) == []
    small = [Document(one.text.lower(), one.id) for one in documents()]  # sentences without capitals
    (data,) = generate_queries(small, count=25, kinds=("sentence",))
    assert len(data) == 25 and all(query.endswith(".") for query in data.queries)
    single = [Document(f"one sentence number {number} of a few words", str(number)) for number in range(60)]
    assert generate_queries([*documents(25), *single], count=25, kinds=("sentence",)) == []


def related(count: int = 160) -> list[Document]:
    """Return documents on four topics, which share words with those of their topic alone."""
    generator = np.random.default_rng(0)
    found = []
    for number in range(count):
        topic = [f"{LETTERS[number % 4]}{LETTERS[place]}word" for place in range(8)]
        lines = [" ".join(generator.permutation(topic)[:5]).capitalize() for _ in range(3)]
        found.append(Document(f"{'. '.join(lines)}. {LETTERS[number % 4]}{number} ends it.", str(number)))
    return found


def test_neighbors_of_a_hidden_document_and_what_they_share() -> None:
    own = related()
    data, topics = generate_queries(own, count=40, kinds=("neighbors", "topic"), seed=0)
    letters = [text.split()[0][0].lower() for text in data.documents]
    assert len(data) == 40 and {*data.documents} == {document.whole for document in own}
    for place, (query, name) in enumerate(zip(data.queries, data.query_ids, strict=True)):
        row = data.document_ids.index(name)
        relevant = data.judged[data.judged[:, 0] == place, 1]
        assert query in data.documents[row] and row not in relevant and 3 <= len(relevant) <= 10
        assert {letters[other] for other in relevant} == {letters[row]}
    record = evaluate_retrieval("bm25", [data], exclude_same_ids=True)
    assert record.score("neighbors", "hit@10") > 90
    for place, query in enumerate(topics.queries):
        words = query.lower().split()
        group = [topics.documents[row].lower() for row in topics.judged[topics.judged[:, 0] == place, 1]]
        assert 2 <= len(words) <= 4
        assert all(sum(word in text for text in group) > len(group) / 2 for word in words)


TEXTS = [f"a{n} b{n} c{n}  d{n} e{n} f{n} g{n} h{n}" for n in range(50)]
THAI = ["ต้นไม้ใหญ่อยู่ในป่าลึกมาก" + str(n) for n in range(5)]
SHORT = ["two words", "", "five words are too few"]


@pytest.mark.parametrize("texts", [TEXTS, THAI, TEXTS + SHORT, SHORT])
def test_a_crop_and_the_rest_are_the_document(texts: list[str]) -> None:
    cut = cut_queries(texts, count=20)
    assert len(cut.queries) == (0 if texts == SHORT else min(20, len(texts)))
    assert sorted(cut.rows) == list(range(len(texts)))
    for place, (document, row) in enumerate(zip(cut.documents, cut.rows, strict=True)):
        if place >= len(cut.queries):
            assert document == texts[row]
            continue
        query = cut.queries[place]
        before, after = texts[row].split(query)
        assert query not in document and document == f"{before} {after}".strip()
        assert len(query) <= len(texts[row]) / 2 + 3
    few = cut_queries(texts, count=10, most=30)
    assert len(few.documents) == len({*few.rows}) == min(30, len(texts)) and len(few.queries) <= 10
    assert few == cut_queries(texts, count=10, most=30)
    assert texts is SHORT or few != cut_queries(texts, count=10, most=30, seed=1)


WORDS = "cat cats dog running runs tree Baum Bäume 東京都 é the of a".split()


@pytest.mark.parametrize("language", ["en", "de", "ja"])
def test_scores_on_disk_are_those_in_memory(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25, "_SIZES_BATCH", 7)
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(0, 9))) for _ in range(50)]
    queries = [*(" ".join(draw.choices([*WORDS, "unknown"], k=n)) for n in range(6)), "unknown"]
    counts, terms = count_terms(texts, language)
    wanted, _ = count_query_terms(queries, language, terms)
    expected = np.concatenate([*bm25_scores(bm25_weights(counts), wanted, 3)])
    found = np.stack([scores.copy() for scores in stored_bm25_scores(iter(texts), queries, language)])
    assert np.array_equal(found, expected) and found.any()
    assert [scores.tolist() for scores in stored_bm25_scores([], ["a", "b"], language)] == [[], []]
