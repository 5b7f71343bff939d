"""What students learn from, and what they are compared with their teachers on."""

from __future__ import annotations

import pytest

from sentemb.compression import draw_texts
from sentemb.data.documents import Document
from sentemb.errors import InputError

SHARED = "All rights to this are reserved."


def documents(count: int, sentences: int, *, shared: str = "") -> list[Document]:
    """Documents whose every sentence names its document."""
    texts = [
        " ".join([*(f"Sentence {row} is one of document {number}z." for row in range(sentences)), shared])
        for number in range(count)
    ]
    return [Document(text, str(number), title=f"The title of {number}z") for number, text in enumerate(texts)]


def sources(texts: list[str]) -> set[str]:
    """The documents that texts are of."""
    return {word for text in texts for word in text.replace(".", " ").split() if word.endswith("z")}


@pytest.mark.parametrize(
    ("count", "sentences", "most"), [(200, 10, 10**6), (200, 10, 1500), (10, 100, 10**6)]
)
def test_no_text_is_learned_of_a_document_that_is_held_out(count: int, sentences: int, most: int) -> None:
    texts = draw_texts(documents(count, sentences), most=most, seed=1)
    assert len(texts.held_out) >= 25 and len(texts.training) + len(texts.held_out) <= most
    assert not sources(texts.training) & sources(texts.held_out)
    assert len(sources(texts.held_out)) == max(1, count // 20)
    kinds = [{text.startswith("The title") for text in part} for part in texts]
    assert kinds == [{True, False}, {True, False}]


def test_the_seed_decides_the_texts() -> None:
    own = documents(100, 10)
    first, same, other = (draw_texts(own, most=900, seed=seed) for seed in (1, 1, 2))
    assert first == same
    assert sources(first.held_out) != sources(other.held_out)


def test_a_sentence_of_many_documents_is_either_learned_or_held_out() -> None:
    for seed in range(5):
        texts = draw_texts(documents(100, 10, shared=SHARED), most=10**6, seed=seed)
        assert SHARED in texts.held_out
        assert SHARED not in texts.training


def test_at_most_two_thousand_texts_are_held_out() -> None:
    texts = draw_texts(documents(1000, 60), most=50_000)
    assert len(texts.held_out) == 2000
    assert len(texts.training) == 48_000


@pytest.mark.parametrize("own", [documents(1, 600), [*documents(9, 20), *documents(1, 3000)]])
def test_of_few_or_uneven_documents_texts_are_held_out(
    own: list[Document], caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever document is drawn, most of what there is to learn is learned."""
    for seed in range(10):
        texts = draw_texts(own, most=10**6, seed=seed)
        assert 25 <= len(texts.held_out) < len(texts.training) / 3
        assert not {*texts.training} & {*texts.held_out}
    assert "too few or too uneven to hold whole ones out" in caplog.text


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(InputError, match="40 documents with 440 sentences are too few for distillation"):
        draw_texts(documents(40, 10), most=10**6)
