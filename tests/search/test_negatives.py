"""Mined negatives: near, but no nearer than the margin allows, and never a known positive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers.util import mine_hard_negatives

from sentemb.data import stored_texts
from sentemb.data.labelled import text_key
from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import SearchIndex, mine_negatives, negatives
from sentemb.search.negatives import _components, documents_at, pool_at
from tests.search.bag_of_words import BagOfWords, Table
from tests.search.shard_folders import shards

ANGLES = np.radians([0, 10, 12, 20, 30, 90, 5])  # of texts 0 to 6, on the unit circle
TABLE = Table(np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32))


def test_the_nearest_text_beyond_the_margin_is_the_negative() -> None:
    """The positive 10 degrees away allows cosines up to 0.95 * cos(10) = 0.936, an angle of 20.7 degrees."""
    triples, counts = mine_negatives([("0", "1")], TABLE, corpus=["2", "3", "4", "5"])
    assert triples == [("0", "1", "4")]
    assert (counts.pairs, counts.triples, counts.without, counts.known) == (1, 1, 0, 0)
    assert mine_negatives([("0", "1")], TABLE, corpus=["2", "3", "4", "5"], skip=1)[0] == [("0", "1", "5")]
    near = mine_negatives([("0", "1")], TABLE, corpus=["2", "3", "4", "5"], margin=0.0, count=3)[0]
    assert [negative for _, _, negative in near] == ["2", "3", "4"]


def test_positives_by_way_of_others_are_no_negatives() -> None:
    """1 and 3 are positives of 2, so 3 is not a negative of 1, but 5 is."""
    pairs = [("1", "2"), ("2", "3"), ("6", "5")]
    triples, counts = mine_negatives(pairs, TABLE, margin=0.0, count=1)
    assert ("1", "2", "5") in triples
    assert not [row for row in triples if row[0] == "1" and row[2] in ("2", "3")]
    assert counts.known == 1
    assert counts.without == sum(pair not in {row[:2] for row in triples} for pair in pairs)


def test_they_are_what_sentence_transformers_finds() -> None:
    """Use a window as wide as the corpus, since upstream does not look for negatives outside its window."""
    draw = np.random.default_rng(0)
    table = Table(draw.normal(size=(60, 8)).astype(np.float32))
    pairs = [(str(a), str(b)) for a, b in draw.integers(0, 40, (25, 2)) if a != b]
    pairs = list(dict.fromkeys(pairs))
    corpus = [str(number) for number in range(60)]
    for margin, skip in ((0.05, 0), (0.3, 2)):
        found = mine_hard_negatives(
            Dataset.from_dict({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}),
            _Model(table),
            corpus=[*dict.fromkeys([*(b for _, b in pairs), *corpus])],
            range_min=skip,
            range_max=60,
            relative_margin=margin,
            num_negatives=60 - skip,
            output_format="triplet",
            verbose=False,
        )
        joined, _ = _components(pairs)
        expected: dict[tuple[str, str], list[str]] = {}
        for row in found:
            anchor, positive, negative = row.values()
            if joined.get(text_key(anchor)) != joined.get(text_key(negative)):
                expected.setdefault((anchor, positive), []).append(negative)
        mined: dict[tuple[str, str], list[str]] = {}
        for anchor, positive, negative in mine_negatives(
            pairs, table, corpus=corpus, margin=margin, skip=skip, count=3
        )[0]:
            mined.setdefault((anchor, positive), []).append(negative)
        assert mined == {pair: own[:3] for pair, own in expected.items()}


class _Model:
    """Model with the methods that `mine_hard_negatives` calls."""

    device = torch.device("cpu")

    def __init__(self, encoder: Table) -> None:
        self._encoder = encoder

    def encode_query(self, texts: list[str], **_: Any) -> np.ndarray:
        return normalised(self._encoder.encode(texts))

    encode_document = encode_query

    def similarity(self, queries: np.ndarray, corpus: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(queries) @ corpus.T

    def similarity_pairwise(self, queries: np.ndarray, positives: torch.Tensor) -> torch.Tensor:
        return (torch.from_numpy(queries) * positives).sum(1)


def test_a_pool_is_texts_shards_or_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{word} {number} {number % 7}" for number in range(90) for word in ("cat", "dog")] * 2
    pairs = [("cat 3", "cat 3 3"), ("a dog 8", "dog 8 1"), ("dog 5", "cat 5 5")]
    expected = mine_negatives(pairs, BagOfWords(), corpus=texts, count=2)
    assert len(expected[0]) == 6
    shards(tmp_path / "vectors", texts, size=50)
    SearchIndex.build(texts, BagOfWords()).save(tmp_path / "index")
    for block in (7, 16_384):
        monkeypatch.setattr(negatives, "_AT_ONCE", block)
        monkeypatch.setattr(stored_texts, "_IN_MEMORY", block)
        assert mine_negatives(pairs, BagOfWords(), corpus=texts, count=2) == expected
        for folder in ("vectors", "index"):
            words = BagOfWords()
            assert mine_negatives(pairs, words, corpus=pool_at(tmp_path / folder) or (), count=2) == expected
            assert len(words.encoded) == 6
    assert pool_at(tmp_path) is None
    changed = SearchIndex.load(tmp_path / "index", BagOfWords())
    changed.delete([6])
    changed.add([("new", expected[0][0][2])])
    of_changed = pool_at(tmp_path / "index")
    assert of_changed is not None and [*negatives._texts(of_changed)][-1] == expected[0][0][2]
    for folder in ("vectors", "index"):
        with pytest.raises(InputError, match="not with bag-of-words"):
            mine_negatives(pairs, BagOfWords(fingerprint="other"), corpus=pool_at(tmp_path / folder) or ())
    assert [one.text for one in documents_at(tmp_path / "vectors") or ()] == texts
    next((tmp_path / "vectors").glob("*.arrow")).write_bytes(b"damaged")
    for opened in (pool_at, documents_at):
        with pytest.raises(InputError, match="does not match its checksum"):
            opened(tmp_path / "vectors")


def test_every_different_text_is_encoded_and_pairs_count_once() -> None:
    words = BagOfWords()
    pairs = [("a cat sat", "the cat sat"), ("a cat sat", "the cat sat"), ("birds fly", "two birds fly")]
    triples, counts = mine_negatives(pairs, words)
    assert counts.pairs == 2
    assert {row[:2] for row in triples} <= set(pairs)
    assert len(words.encoded) == 4


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        ([], {}, "there are no pairs"),
        ([("0", " ")], {}, "pair 1 has a blank text"),
        ([("0", "1")], {"count": 0}, "count is 0"),
        ([("0", "1")], {"margin": 1.0}, "margin is 1"),
        ([("0", "1")], {"skip": -1}, "skip is -1"),
    ],
)
def test_user_errors_are_named(pairs, options, message) -> None:
    with pytest.raises(InputError, match=message):
        mine_negatives(pairs, TABLE, **options)


def test_more_to_skip_than_there_are_candidates_is_refused() -> None:
    pairs = [("a cat", "the cat"), ("a dog", "the dog")]
    with pytest.raises(InputError, match="skip is 1,000,000,000, but there are only 2 candidates"):
        mine_negatives(pairs, BagOfWords(), skip=10**9)
