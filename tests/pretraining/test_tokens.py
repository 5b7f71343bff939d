"""The tokenizer, and the rows: every token once an epoch, in an order that needs no state."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.pretraining.tokens import (
    Corpus,
    Row,
    Visits,
    WholeWordMasking,
    load_tokenizer,
    open_rows,
    train_wordpiece,
    write_rows,
)
from sentemb.training.progress import ENDLESS

TEXTS = ["The quick brown foxes are jumping over lazy dogs", "a fox jumped; the dog slept (déjà vu)"] * 30


def test_known_words_are_not_unknown_and_survive_a_round_trip(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(TEXTS, 300)
    for text in TEXTS[:2]:
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert tokenizer.tokenize("THE quick déjà") == tokenizer.tokenize("the quick deja")
    segments = tokenizer("the quick fox", "the fox")["token_type_ids"]
    assert (segments[0], segments[-1]) == (0, 1)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="does not contain a tokenizer"):
        load_tokenizer(tmp_path / "empty")


def test_the_rows_hold_every_document_whole(
    lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    # More documents than are tokenized at once.
    many = lines * 8
    write_rows(tmp_path / "rows.arrow", many, tiny_tokenizer, 64)
    rows = open_rows(tmp_path / "rows.arrow")
    tokens = np.concatenate([row["tokens"] for row in rows])
    assert tokens.tolist() == [one for text in many for one in tiny_tokenizer(text)["input_ids"]]
    starts = np.concatenate([row["word_starts"] for row in rows])
    pieces = tiny_tokenizer.convert_ids_to_tokens(tokens.tolist())
    assert starts.tolist() == [not piece.startswith("##") for piece in pieces]


def test_damaged_and_empty_rows_are_refused(tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    write_rows(path, [], tiny_tokenizer, 8)
    with pytest.raises(InputError, match="makes no tokens of the corpus"):
        open_rows(path)
    path.write_bytes(b"x" * 40)
    with pytest.raises(InputError, match=r"is damaged: .*; delete it to tokenize"):
        open_rows(path)


@pytest.mark.parametrize("length", [8, 13, 64])
def test_every_epoch_visits_every_token_once_in_another_order(
    lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, length: int
) -> None:
    write_rows(tmp_path / "rows.arrow", lines, tiny_tokenizer, length)
    rows = open_rows(tmp_path / "rows.arrow")
    validation = Visits(rows, seed=None)
    blocks = [validation[number]["tokens"] for number in range(len(validation))]
    whole = [one for text in lines for one in tiny_tokenizer(text)["input_ids"]]
    assert np.concatenate(blocks).tolist() == whole
    assert {len(block) for block in blocks[:-1]} == {length}
    visits = Visits(rows, seed=5, count=3 * len(blocks))
    epochs = [
        [visits[epoch * len(blocks) + place]["tokens"].tobytes() for place in range(len(blocks))]
        for epoch in range(3)
    ]
    assert all(sorted(epoch) == sorted(block.tobytes() for block in blocks) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    fresh = Visits(rows, seed=5, count=3 * len(blocks))  # a visit does not depend on those before
    assert fresh[len(blocks) + 4]["tokens"].tobytes() == epochs[1][4]


def test_a_separator_alone_is_not_a_row(tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    # [CLS], seven words and [SEP]: nine tokens
    for length in (8, 9, 10):
        write_rows(tmp_path / f"{length}", ["the cat sat on the mat quickly"], tiny_tokenizer, length)
        assert len(Visits(open_rows(tmp_path / f"{length}"), seed=None)) == 1


WriteFile = Callable[[str, str | bytes], Path]
TEXT = "First line.\n\n  Second ✓ line.  \n"


def test_plain_and_compressed_files_read_the_same(write_file: WriteFile, tmp_path: Path) -> None:
    write_file("a.txt", TEXT)
    write_file("b.txt.gz", gzip.compress(TEXT.encode()))
    write_file("c.txt.xz", lzma.compress(TEXT.encode()))
    write_file("notes.md", "not part of it")
    corpus = Corpus([str(tmp_path)], validation_share=0.3)
    assert [path.name for path in corpus.files] == ["a.txt", "b.txt.gz", "c.txt.xz"]
    assert list(corpus.texts()) == ["First line.", "Second ✓ line."] * 3


def test_unusable_sources_are_named(write_file: WriteFile, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, message in (
        (tmp_path / "absent.txt", r"no such file: .*absent\.txt"),
        (tmp_path / "empty", "does not contain a text file"),
        (write_file("table.csv", "a,b\n"), r"table\.csv is not a text file"),
        (write_file("blank.txt", "\n \n"), r"blank\.txt does not contain text"),
        (write_file("latin.txt", b"fine\ncaf\xe9\n"), r"latin\.txt"),
        (write_file("cut.txt.xz", lzma.compress(TEXT.encode() * 99)[:-9]), r"cut\.txt\.xz"),
        ("s3://bucket/a.txt", "is remote"),
    ):
        with pytest.raises(InputError, match=message):
            Corpus([str(source)], validation_share=0.1)


def test_the_parts_do_not_overlap(write_file: WriteFile) -> None:
    texts = [f"line number {number} of a small corpus" for number in range(400)]
    source = write_file("corpus.txt", "\n".join(texts * 2))
    corpus = Corpus([str(source)], validation_share=0.1)
    training, validation = list(corpus.texts("train")), list(corpus.texts("validation"))
    assert sorted(training + validation) == sorted(texts * 2) == sorted(corpus.texts())
    assert not {*training} & {*validation}
    assert 30 < len(validation) < 140
    assert (corpus.documents["train"], corpus.documents["validation"]) == (len(training), len(validation))


SENTENCE = "A man is playing a large flute"


@pytest.mark.parametrize(
    ("line", "skipped"),
    [
        (SENTENCE, True),
        ("He said: a MAN is playing, a large flute!", True),
        ("One. A man is playing a large flute. Two.", True),
        ("A man is playing a large flutes", False),
        ("man is playing a large flute", False),
        ("Birds fly high", True),
        ("Birds fly high today", False),
        ("main captions", False),
    ],
)
def test_long_sentences_are_excluded_anywhere_and_short_ones_whole(
    line: str, skipped: bool, write_file: WriteFile
) -> None:
    texts = [f"line number {number}" for number in range(99)]
    source = write_file("corpus.txt", "\n".join([*texts, line]))
    exclude = write_file("test.tsv", f"genre\t4.2\t{SENTENCE}.\tbirds fly high.\tmain captions\n")
    corpus = Corpus([str(source)], [str(exclude)], validation_share=0.1)
    assert list(corpus.texts()) == texts + [line] * (not skipped)
    assert (corpus.excluded, corpus.skipped) == (2, int(skipped))
    assert corpus.documents.total() == 100 - corpus.skipped


def test_a_corpus_of_excluded_lines_is_refused(write_file: WriteFile) -> None:
    source = write_file("only.txt", SENTENCE)
    with pytest.raises(InputError, match="too few documents"):
        Corpus([str(source)], [str(source)], validation_share=0.1)


@pytest.fixture(scope="module")
def rows(
    lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory
) -> list[Row]:
    path = tmp_path_factory.mktemp("rows") / "rows.arrow"
    write_rows(path, lines, tiny_tokenizer, 64)
    visits = Visits(open_rows(path), seed=0, count=ENDLESS)
    return [visits[number] for number in range(40 * visits.rows)]


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_all_pieces_of_a_word_are_chosen_and_specials_never(
    rows: list[Row], tiny_tokenizer: PreTrainedTokenizerFast, rate: float
) -> None:
    masking = WholeWordMasking(tiny_tokenizer, rate=rate)
    split_words = 0
    for row in rows[:400]:
        hidden, chosen = masking.mask(row)
        assert len(chosen)
        assert not np.isin(row["tokens"][chosen], tiny_tokenizer.all_special_ids).any()
        untouched = np.setdiff1d(np.arange(len(hidden)), chosen)
        assert np.array_equal(hidden[untouched], row["tokens"][untouched])
        words = np.cumsum(row["word_starts"])
        for word in np.unique(words[chosen]):
            pieces = np.flatnonzero(words == word)
            split_words += len(pieces) > 1
            assert np.isin(pieces, chosen).all()
            masked = hidden[pieces] == tiny_tokenizer.mask_token_id
            assert masked.all() or not masked.any()
    assert split_words > 50


def test_shares_are_those_of_bert(rows: list[Row], tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    masking = WholeWordMasking(tiny_tokenizer, rate=0.15)
    pieces = chosen_pieces = masked = kept = 0
    for row in rows:
        hidden, chosen = masking.mask(row)
        ordinary = ~np.isin(row["tokens"], tiny_tokenizer.all_special_ids)
        if ordinary.sum() > 20:
            assert len(chosen) <= 0.15 * ordinary.sum()
        pieces += ordinary.sum()
        chosen_pieces += len(chosen)
        masked += (hidden[chosen] == tiny_tokenizer.mask_token_id).sum()
        kept += (hidden[chosen] == row["tokens"][chosen]).sum()
    assert 0.13 < chosen_pieces / pieces <= 0.15
    assert masked / chosen_pieces == pytest.approx(0.8, abs=0.02)
    # A random piece of a vocabulary of 26 is sometimes the right one.
    assert kept / chosen_pieces == pytest.approx(0.1 + 0.1 / 26, abs=0.02)


def test_the_draw_follows_the_visit_and_not_the_batch(
    rows: list[Row], tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    masking = WholeWordMasking(tiny_tokenizer)
    together = masking(rows[:4])["input_ids"]
    assert torch.equal(together[2:3], masking(rows[2:3])["input_ids"])
    again = dict(tokens=rows[0]["tokens"], word_starts=rows[0]["word_starts"], visit=999)
    assert not np.array_equal(masking.mask(again)[1], masking.mask(rows[0])[1])


def test_isolated_documents_are_seen_as_if_alone(
    tiny_bert: Path, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    first, second = "a cat sat on the mat", "two birds fly over the house"
    ids = [tiny_tokenizer(text)["input_ids"] for text in (first, second)]
    tokens = np.array(ids[0] + ids[1], dtype=np.int32)
    masking = WholeWordMasking(tiny_tokenizer)
    long = dict(tokens=np.resize(tokens, 40), word_starts=np.ones(40, dtype=bool), visit=1)
    batch = masking([dict(tokens=tokens, word_starts=np.ones(len(tokens), dtype=bool), visit=0), long])
    model = AutoModelForMaskedLM.from_pretrained(tiny_bert).eval()
    padded = np.full(40, tiny_tokenizer.pad_token_id)
    padded[: len(tokens)] = tokens
    with torch.no_grad():
        packed = model(
            input_ids=torch.from_numpy(padded)[None],
            attention_mask=batch["attention_mask"][:1],
            position_ids=batch["position_ids"][:1],
        ).logits[0]
        alone = [model(input_ids=torch.tensor([one])).logits[0] for one in ids]
    torch.testing.assert_close(packed[: len(tokens)], torch.cat(alone))
    assert batch["position_ids"][0, : len(tokens)].tolist() == [*range(len(ids[0])), *range(len(ids[1]))]


def test_special_tokens_predict_nothing(tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    tokens = np.array([tiny_tokenizer.cls_token_id, tiny_tokenizer.sep_token_id], dtype=np.int32)
    hidden, chosen = WholeWordMasking(tiny_tokenizer).mask(
        dict(tokens=tokens, word_starts=np.ones(2, dtype=bool), visit=0)
    )
    assert np.array_equal(hidden, tokens)
    assert len(chosen) == 0
