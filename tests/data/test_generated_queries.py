from __future__ import annotations

from pathlib import Path

from sentemb.data.generated_queries import generate_queries
from sentemb.data.own_documents import OwnDocument, read_own_documents
from sentemb.evaluation.retrieval import evaluate_retrieval

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def documents(count: int = 60) -> list[OwnDocument]:
    """Documents of three sentences; one of them is in all."""
    return [
        OwnDocument(
            str(number),
            f"title {number}",
            f"Topic {number} is about {LETTERS[number % 26] * 3}. See also the index. It ends with {number}.",
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
    beside = [OwnDocument("x", "title 3", f"{own[5].text.split('. ')[0]}. Another sentence.")]
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
    assert generate_queries([OwnDocument(str(n), "", f"word{n}") for n in range(100)]) == []
    same = [OwnDocument(str(n), "same", f"Line {n} has many words.") for n in range(100)]
    assert [data.name for data in generate_queries(same)] == ["crop"]
    assert [data.name for data in generate_queries(documents(19))] == []


def test_a_large_corpus_is_drawn_from() -> None:
    for data in generate_queries(documents(), count=300, most=30):
        assert len(data.documents) == 30
        assert len(data.queries) == 30


def test_keywords_find_what_was_cut_out_of_real_pages(shared_data: Path) -> None:
    pages = read_own_documents(shared_data / "retrieval" / "tldr")
    sets = generate_queries(pages, count=100, most=2000)
    record = evaluate_retrieval("bm25", sets)
    scores = {data.name: record.score(data.name, "ndcg@10") for data in sets}
    # A line's words come back in the page's other lines; a crop of any place says less.
    assert scores["sentence"] > 50
    assert all(score > 20 for score in scores.values())
