from __future__ import annotations

from pathlib import Path

import numpy as np

from sentemb.data.documents import Document, read_unique_documents
from sentemb.data.generated_queries import generate_queries
from sentemb.evaluation.retrieval import evaluate_retrieval

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def documents(count: int = 60) -> list[Document]:
    """Documents of three sentences; one of them is in all."""
    return [
        Document(
            f"Topic {number} is about {LETTERS[number % 26] * 3}. See also the index. It ends with {number}.",
            str(number),
            title=f"title {number}",
        )
        for number in range(count)
    ]


def test_each_query_is_cut_out_of_the_document_that_it_asks_for() -> None:
    sets = {data.name: data for data in generate_queries(documents(), count=25)}
    assert [*sets] == ["title", "sentence", "crop"]
    originals = {document.text.split()[1]: document for document in documents()}
    for data in sets.values():
        assert len(data.queries) == 25
        assert len(data.documents) == len(set(data.document_ids)) == 60
        for query, row, grade in data.judged:
            text = data.queries[query]
            assert grade == 1
            assert text not in data.documents[row]
            assert any(
                text in original.whole and all(word in original.whole for word in data.documents[row].split())
                for original in originals.values()
            )
    asked = {row for _, row, _ in sets["title"].judged.tolist()}
    for row, text in enumerate(sets["title"].documents):
        assert ("title" in text) == (row not in asked)
    assert "See also the index." not in sets["sentence"].queries
    assert all("title" in text for text in sets["sentence"].documents)


def test_a_quote_is_a_crop_that_the_document_keeps() -> None:
    crop, quote = generate_queries(documents(), count=25, kinds=("crop", "quote"))
    assert quote.name == "quote" and quote.queries == crop.queries
    assert {*quote.documents} == {document.whole for document in documents()}
    for query, row, _ in quote.judged:
        assert quote.queries[query] in quote.documents[row]
        assert quote.queries[query] not in crop.documents[row]


def test_a_seed_is_a_draw() -> None:
    first, again, other = (
        [data.queries for data in generate_queries(documents(), count=20, seed=seed)] for seed in (0, 0, 1)
    )
    assert first == again != other


def test_what_documents_beside_have_too_is_not_asked_for() -> None:
    own = documents(40)
    beside = [Document(f"{own[5].text.split('. ')[0]}. Another sentence.", "x", title="title 3")]
    alone, among = (
        {data.name: data for data in generate_queries(own, count=40, beside=some)} for some in ((), beside)
    )
    assert "title 3" in alone["title"].queries and "title 3" not in among["title"].queries
    asked = {query for query in among["sentence"].queries if query in beside[0].text}
    assert not asked
    for name, data in among.items():
        assert data.document_ids[-1] == "other-0" and len(data.documents) == 41
        assert data.documents[-1] == (beside[0].text if name == "title" else beside[0].whole)
        assert 40 not in data.judged[:, 1]


def test_documents_that_allow_no_query_have_none() -> None:
    assert generate_queries([Document(f"word{n}", str(n)) for n in range(100)]) == []
    same = [Document(f"Line {n} has many words.", str(n), title="same") for n in range(100)]
    assert [data.name for data in generate_queries(same)] == ["crop"]
    assert [data.name for data in generate_queries(documents(19))] == []


def test_a_large_corpus_is_drawn_from() -> None:
    for data in generate_queries(documents(), count=300, most=30):
        assert len(data.documents) == 30
        assert len(data.queries) == 30


def test_keywords_find_what_was_cut_out_of_real_pages(shared_data: Path) -> None:
    pages = read_unique_documents(shared_data / "retrieval" / "tldr")
    sets = generate_queries(pages, count=100, most=2000)
    record = evaluate_retrieval("bm25", sets)
    scores = {data.name: record.score(data.name, "ndcg@10") for data in sets}
    # A line's words come back in the page's other lines; a crop of any place says less.
    assert scores["sentence"] > 50
    assert all(score > 20 for score in scores.values())


def related(count: int = 160) -> list[Document]:
    """Documents on four topics, which share words with those of their topic alone."""
    generator = np.random.default_rng(0)
    found = []
    for number in range(count):
        topic = [f"{LETTERS[number % 4]}{LETTERS[place]}word" for place in range(8)]
        lines = [" ".join(generator.permutation(topic)[:5]).capitalize() for _ in range(3)]
        found.append(Document(f"{'. '.join(lines)}. {LETTERS[number % 4]}{number} ends it.", str(number)))
    return found


def test_neighbors_of_a_hidden_document_are_relevant() -> None:
    own = related()
    (data,) = generate_queries(own, count=40, kinds=("neighbors",), seed=0)
    topics = [text.split()[0][0].lower() for text in data.documents]
    assert len(data) == 40 and {*data.documents} == {document.whole for document in own}
    for place, (query, name) in enumerate(zip(data.queries, data.query_ids, strict=True)):
        row = data.document_ids.index(name)
        assert query in data.documents[row]
        relevant = data.judged[data.judged[:, 0] == place, 1]
        assert row not in relevant and 3 <= len(relevant) <= 10
        assert {topics[other] for other in relevant} == {topics[row]}
    record = evaluate_retrieval("bm25", [data], exclude_same_ids=True)
    assert record.score("neighbors", "hit@10") > 90


def test_a_topic_is_terms_that_its_neighborhood_shares() -> None:
    (data,) = generate_queries(related(), count=40, kinds=("topic",), seed=0)
    for place, query in enumerate(data.queries):
        words = query.lower().split()
        assert 2 <= len(words) <= 4
        relevant = data.judged[data.judged[:, 0] == place, 1].tolist()
        assert all(
            sum(word in data.documents[row].lower() for row in relevant) > len(relevant) / 2 for word in words
        )


def test_sentences_are_found_without_capitals_and_not_in_single_sentences() -> None:
    small = [Document(one.text.lower(), one.id) for one in documents()]
    (data,) = generate_queries(small, count=25, kinds=("sentence",))
    assert len(data) == 25 and all(query.endswith(".") for query in data.queries)
    single = [Document(f"one sentence number {number} of a few words", str(number)) for number in range(60)]
    mixed = [*documents(25), *single]
    assert generate_queries(mixed, count=25, kinds=("sentence",)) == []
