"""Queries are cut out of their documents and of no other."""

from __future__ import annotations

import pytest

from sentemb.data.generated_queries import cut_queries

TEXTS = [f"a{n} b{n} c{n}  d{n} e{n} f{n} g{n} h{n}" for n in range(50)]
THAI = ["ต้นไม้ใหญ่อยู่ในป่าลึกมาก" + str(n) for n in range(5)]
SHORT = ["two words", "", "five words are too few"]


@pytest.mark.parametrize("texts", [TEXTS, THAI, TEXTS + SHORT])
def test_a_query_and_the_rest_are_the_document(texts: list[str]) -> None:
    cut = cut_queries(texts, count=20)
    assert len(cut.queries) == min(20, len(texts))
    assert sorted(cut.rows) == list(range(len(texts)))
    for place, (document, row) in enumerate(zip(cut.documents, cut.rows, strict=True)):
        if place >= len(cut.queries):
            assert document == texts[row]
        else:
            query = cut.queries[place]
            assert query in texts[row] and query not in document
            parts = texts[row].split(query)
            assert document == f"{parts[0]} {parts[1]}".strip()
            assert len(query) <= len(texts[row]) / 2 + 3


def test_short_documents_are_left_whole() -> None:
    cut = cut_queries(SHORT)
    assert cut.queries == [] and sorted(cut.documents) == sorted(SHORT)


def test_a_large_corpus_is_sampled_and_a_seed_draws_the_same() -> None:
    cut = cut_queries(TEXTS, count=10, most=30)
    assert len(cut.documents) == len({*cut.rows}) == 30 and len(cut.queries) == 10
    assert cut == cut_queries(TEXTS, count=10, most=30) != cut_queries(TEXTS, count=10, most=30, seed=1)
