from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import Document, SearchIndex
from sentemb.search.building import encode_to_shards
from sentemb.search.documents import encode_unique
from sentemb.search.folder import work_folder
from sentemb.search.vectors import Rows
from tests.search.bag_of_words import BagOfWords, Table, clustered

TEXTS = [f"w{number}" for number in range(45)]


def test_dot_ranks_by_inner_product_and_zero_vectors_score_zero(words: BagOfWords) -> None:
    texts = ["w1", "w1 w1 w1", "w2"]
    hits = SearchIndex.build(texts, words, metric="dot").search("w1", 3)
    assert [hit.id for hit in hits] == [1, 0, 2]
    first, query = words.encode(["w1 w1 w1", "w1"])
    assert hits[0].score == pytest.approx(float(first @ query), rel=1e-5)
    index = SearchIndex.build(["0", "1", "2"], Table(np.array([[0, 0], [1, 0], [-1, 0]], dtype=np.float32)))
    assert [(hit.id, hit.score) for hit in index.search("1")] == [(1, 1.0), (0, 0.0), (2, -1.0)]
    assert [hit.score for hit in index.search("0")] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["hnsw", "ivfpq"])
def test_approximate_kinds_find_nearly_everything(kind: str) -> None:
    vectors = clustered(6000, 64)
    texts = [str(number) for number in range(5900)]
    index = SearchIndex.build(texts, Table(vectors), kind=kind, memory_budget=10**7)
    exact = SearchIndex.build(texts, Table(vectors), kind="flat")
    queries = [str(number) for number in range(5900, 6000)]
    shares = [
        len({hit.id for hit in hits} & {hit.id for hit in true}) / 10
        for hits, true in zip(index.search(queries), exact.search(queries), strict=True)
    ]
    assert np.mean(shares) >= {"hnsw": 0.95, "ivfpq": 0.9}[kind]
    assert index.manifest.recall.at_10 == pytest.approx(np.mean(shares), abs=0.03)
    assert index.manifest.recall.queries == index.manifest.recall.tuning_queries == 295


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivfpq"])
def test_a_loaded_index_gives_the_same_hits_each_document_once(
    tmp_path: Path, corpus: list[str], words: BagOfWords, kind: str
) -> None:
    documents = [(f"id-{n}", text, {"n": n}) for n, text in enumerate(corpus)]
    built = SearchIndex.build(documents, words, kind=kind)
    built.save(tmp_path / "index")
    loaded = SearchIndex.load(tmp_path / "index", words)
    queries = ["w1 w2", "w7 w8 w9", "w3"]
    assert loaded.search(queries, 20) == built.search(queries, 20)
    assert loaded.manifest == built.manifest and len(loaded) == len(corpus)
    assert loaded.search(corpus[3], 1)[0].metadata == {"n": 3}
    hits = loaded.search("w1", 10**30)
    assert Counter(hit.id for hit in hits) == Counter(f"id-{n}" for n in range(len(corpus)))
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("kind", ["auto", "hnsw"])
def test_few_documents(tmp_path: Path, words: BagOfWords, kind: str) -> None:
    index = SearchIndex.build(["w1"], words, kind=kind)
    index.save(tmp_path / "index")
    assert [hit.text for hit in SearchIndex.load(tmp_path / "index", words).search("w2")] == ["w1"]
    assert index.manifest.recall.at_10 == (1.0 if kind == "auto" else None)
    words.encoded.clear()
    index = SearchIndex.build(
        ["w1", "w2", "", " \t", "w1", "w1 w2"], words, kind=kind
    )  # blank and equal ones
    assert index.manifest.documents == index.manifest.vectors == 4 and index.manifest.skipped == 2
    assert words.encoded == ["w1", "w2", "w1 w2"]
    assert [hit.id for hit in index.search("w1", 3)] == [0, 4, 5]
    assert [hit.id for hit in index.search("w1", 1)] == [0]
    assert index.search(["w2", "w1"], 1) == [index.search("w2", 1), index.search("w1", 1)]
    assert index.search([]) == []
    index = SearchIndex.build((Document(f"w{n}", id=n * 10) for n in range(5)), words.encode)
    assert index.search("w3", 1)[0].id == 30


def test_bad_queries_and_numbers_of_hits_are_named(words: BagOfWords) -> None:
    index = SearchIndex.build(["w1"], words)
    for k in (0, -1, True, 2.0, "3"):
        with pytest.raises(InputError, match="k must be a positive integer"):
            index.search("w1", k)  # type: ignore[call-overload]
    for queries in ("", "  ", ["w1", ""], ["w1", None], {"a": 1}, {"a"}, b"a", 5, None):
        with pytest.raises(InputError, match=r"query \d is (blank|not a string)|queries must be a string"):
            index.search(queries)  # type: ignore[call-overload]


def test_another_encoder_is_refused(tmp_path: Path, words: BagOfWords) -> None:
    SearchIndex.build(["w1"], words).save(tmp_path / "index")
    with pytest.raises(
        InputError, match=r"built with bag-of-words \(words-1\), not with bag-of-words \(words-2\)"
    ):
        SearchIndex.load(tmp_path / "index", BagOfWords(fingerprint="words-2"))
    with pytest.raises(
        InputError, match=r"the location of the encoder bag-of-words of .* is not known; pass the encoder"
    ):
        SearchIndex.load(tmp_path / "index").search("w1")


def test_a_model_folder_is_found_again(tmp_path: Path, tiny_encoder: object) -> None:
    model = tmp_path / "model"
    tiny_encoder.save(str(model))
    index = SearchIndex.build(["a cat sat", "two birds fly", "the man plays guitar"], model)
    index.save(tmp_path / "index")
    first = index.search("birds")
    assert SearchIndex.load(tmp_path / "index").search("birds") == first
    moved = model.rename(tmp_path / "moved")
    unknown = SearchIndex.load(tmp_path / "index")
    with pytest.raises(InputError):
        unknown.search("birds")
    assert unknown.search("birds", mode="keyword")  # needs no model
    assert SearchIndex.load(tmp_path / "index", moved).search("birds")[0] == first[0]


def test_threads_search_while_the_index_is_replaced(
    tmp_path: Path, corpus: list[str], words: BagOfWords
) -> None:
    other = SearchIndex.build(["w1", "w2"], words)
    SearchIndex.build(corpus, words, kind="hnsw").save(tmp_path / "index")
    index = SearchIndex.load(tmp_path / "index", words)
    expected = [index.search(query, 5) for query in corpus[:20]]
    failures: list[object] = []
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            for query, hits in zip(corpus[:20], expected, strict=True):
                try:
                    if index.search(query, 5) != hits:
                        failures.append(query)
                except Exception as error:
                    failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        other.save(tmp_path / "index", overwrite=True)
    late = threading.Thread(target=search)  # a thread that first searches after the files are gone
    late.start()
    stop.set()
    for thread in (*threads, late):
        thread.join()
    assert not failures and [index.search(query, 5) for query in corpus[:20]] == expected
    assert len(SearchIndex.load(tmp_path / "index", words)) == 2


def test_temporary_files_go_with_the_index(
    tmp_path: Path, corpus: list[str], words: BagOfWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    index = SearchIndex.build(corpus, words)
    (folder,) = tmp_path.iterdir()
    assert not list(folder.glob("shard-*"))
    del index
    assert not folder.exists()
    for documents in ([], ["", "  "]):
        with pytest.raises(InputError, match="no documents to index"):
            SearchIndex.build(documents, words)
    assert not list(tmp_path.iterdir())


def test_a_work_folder_is_locked_and_goes_with_a_success(tmp_path: Path, words: BagOfWords) -> None:
    work, messages = tmp_path / "work", []
    refusals: list[InputError] = []

    def second() -> None:
        try:
            with work_folder(work, messages.append):
                pass
        except InputError as error:
            refusals.append(error)

    with work_folder(work, messages.append):
        index = SearchIndex.build(["w1"], words, work_dir=work)
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert "another process is building" in str(refusals[0]) and list(work.glob("shard-*"))
        index.save(tmp_path / "index")
    assert not work.exists() and not messages
    with pytest.raises(KeyboardInterrupt), work_folder(work, messages.append):
        raise KeyboardInterrupt
    assert not work.exists() and not messages


@pytest.mark.parametrize("is_written", [True, False])
def test_an_interruption_after_the_index_was_written_leaves_no_work_folder(
    tmp_path: Path, words: BagOfWords, is_written: bool
) -> None:
    work, output = tmp_path / "work", tmp_path / "index"
    messages: list[str] = []
    with pytest.raises(KeyboardInterrupt), work_folder(work, messages.append, output=output):
        index = SearchIndex.build(["a cat sat", "birds fly"], words, work_dir=work)
        if is_written:
            index.save(output)
        raise KeyboardInterrupt
    assert work.exists() is not is_written
    assert [str(work) in message for message in messages] == ([] if is_written else [True])


def encode(folder: Path, texts: list[str], encoder: BagOfWords) -> Rows:
    parts = (texts[start : start + 10] for start in range(0, len(texts), 10))
    return encode_to_shards(parts, len(texts), encoder, "cosine", folder, lambda *_: None)


def test_vectors_are_the_encoder_s_in_any_order_and_equal_texts_are_encoded_once(
    tmp_path: Path, words: BagOfWords
) -> None:
    rows = encode(tmp_path, TEXTS, words)
    assert np.array_equal(rows(np.arange(45)), normalised(words.encode(TEXTS)))
    assert np.array_equal(rows(np.array([44, 3, 17, 3])), rows(np.arange(45))[[44, 3, 17, 3]])
    words.encoded.clear()
    index = SearchIndex.build(["a", "b"] * 30, words)
    assert words.encoded == ["a", "b"] and index.manifest.vectors == 60
    assert np.array_equal(encode_unique(words, ["b", "a", "b"]), words.encode(["b", "a", "b"]))


def test_shards_of_another_encoder_or_text_are_not_used(tmp_path: Path, words: BagOfWords) -> None:
    encode(tmp_path, TEXTS[:10], BagOfWords(fingerprint="another"))
    encode(tmp_path, [*TEXTS[:9], "w99"], BagOfWords())
    encode(tmp_path, TEXTS[:10], words)
    assert words.encoded == TEXTS[:10]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros((2, 5)), r"shape \(2, 5\) for 2 texts"),
        (np.zeros((1, 32)), r"shape \(1, 32\)"),
        (np.full((2, 32), np.nan), "NaN or infinity"),
    ],
)
def test_an_encoder_that_breaks_its_promise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: BagOfWords, result: np.ndarray, message: str
) -> None:
    monkeypatch.setattr(words, "encode", lambda texts: result)
    with pytest.raises(InputError, match=message):
        encode(tmp_path, ["a", "b"], words)
    assert not list(tmp_path.glob("shard-*"))
