from __future__ import annotations

import random
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.integrations.haystack import SentembDocumentStore
from sentemb.integrations.langchain import SentembEmbeddings, SentembVectorStore
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords
from tests.search.test_upgrade import Turned


def test_an_index_that_maps_queries_is_refused(tmp_path: Path) -> None:
    """Frameworks compute the vectors of queries by themselves, and would compare them unmapped."""
    rng = random.Random(1)
    texts = [" ".join(f"w{rng.randrange(60)}" for _ in range(4)) for _ in range(700)]
    SearchIndex.build(texts, BagOfWords()).save(tmp_path / "index")
    SearchIndex.upgrade(tmp_path / "index", Turned(), adapter=True)
    with pytest.raises(InputError, match=r"uses an adapter .*; upgrade the index without --adapter"):
        SentembDocumentStore(tmp_path / "index", Turned())
    with pytest.raises(InputError, match="uses an adapter"):
        SentembVectorStore(SentembEmbeddings(Turned()), tmp_path / "index")
