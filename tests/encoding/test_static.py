"""The tokens of a static encoder are those of its tokenizer, sooner."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer, Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, PreTokenizer, WhitespaceSplit

from sentemb.encoding import static
from sentemb.encoding.static import BLANK, CLAUSES, StaticTokens

_LETTERS = [*string.ascii_letters[:10], *string.digits[:3], *string.punctuation, "é", "中", "ß"]
_WORDS = ["abc", "bad", "face", "cab", "dad"]
_ODD = ["\n", "\r\n", "\t", "\x00", "\x1c", "\x85", "\u00a0", "\u2028", "\u200b", "e\u0301", "\u0301"]
_ODD += [*"ÉİΑΣſﬁ½“’…😀\ufffd", BLANK, "##ab", "[SEP]", "[sep]", "ab" * 80]


def unigram(pre_tokenizer: PreTokenizer = CLAUSES, *, lowercase: bool = True) -> Tokenizer:
    """Words, their letters, and pairs of words that are one token."""
    pairs = [f"{BLANK}{first}{BLANK}{second}" for first in _WORDS for second in _WORDS]
    pieces = [BLANK, *_LETTERS, *(BLANK + letter for letter in _LETTERS), *(BLANK + word for word in _WORDS)]
    scored = [("[UNK]", -100.0), *((piece, -9.0 - len(piece) / 8) for piece in [*pieces, *pairs])]
    return _made(Unigram(scored, unk_id=0), BertNormalizer(lowercase=lowercase), pre_tokenizer)


def wordpiece(*, lowercase: bool = True) -> Tokenizer:
    """BERT's kind, with its special tokens."""
    pieces = ["[UNK]", "[SEP]", *_LETTERS, *(f"##{letter}" for letter in _LETTERS), *_WORDS]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    model = WordPiece(numbers, unk_token="[UNK]")
    tokenizer = _made(model, BertNormalizer(lowercase=lowercase), BertPreTokenizer())
    tokenizer.add_special_tokens(["[SEP]"])
    return tokenizer


def _made(model: Unigram | WordPiece | BPE, normaliser: object, pre_tokenizer: PreTokenizer) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normaliser, pre_tokenizer
    return tokenizer


def written(count: int) -> list[str]:
    """Texts of words, letters, signs and what else a file may hold."""
    chance = random.Random(5)
    kinds = [_WORDS, _LETTERS, _ODD, [" ", "  ", ". ", ", "], [word.upper() for word in _WORDS]]
    return [
        "".join(chance.choice(chance.choice(kinds)) for _ in range(chance.randrange(30)))
        for _ in range(count)
    ]


def own(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("make", [unigram, wordpiece])
def test_the_tokens_are_the_tokenizers_own(make: Callable[..., Tokenizer], lowercase: bool) -> None:
    tokenizer, texts = make(lowercase=lowercase), written(5_000)
    tokens = StaticTokens(tokenizer)
    wanted = own(tokenizer, texts)
    assert tokens(texts) == wanted
    assert tokens(texts) == wanted  # from what is known
    assert tokens([]) == [] and tokens(["", " "]) == own(tokenizer, ["", " "])
    assert len({number for some in wanted for number in some}) > 40


def test_parts_are_kept_but_no_more_than_a_corpus_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_MOST_KEPT", 20)
    asked: list[str] = []
    ids = static._ids
    monkeypatch.setattr(static, "_ids", lambda one, texts: asked.extend(texts) or ids(one, texts))
    tokens = StaticTokens(wordpiece())
    tokens(["abc bad, abc", "bad.", "abc\nface"])
    tokens(["face abc!"])
    assert sorted(asked) == ["!", ",", ".", "abc", "bad", "face"]  # each part once
    tokenizer, texts = wordpiece(), written(300)
    tokens = StaticTokens(tokenizer)
    for first in range(0, len(texts), 10):
        assert tokens(texts[first : first + 10]) == own(tokenizer, texts[first : first + 10])
    assert len(tokens._known) < 300


def _changed(change: Callable[[Tokenizer], object]) -> Tokenizer:
    tokenizer = unigram()
    change(tokenizer)
    return tokenizer


def _bytes() -> Tokenizer:
    alphabet = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    return _made(BPE(alphabet, []), Lowercase(), ByteLevel())


_OTHER: dict[str, Callable[[], Tokenizer]] = {
    "added": lambda: _changed(lambda one: one.add_tokens([AddedToken("b-a", normalized=True)])),
    "with a blank": lambda: _changed(lambda one: one.add_tokens([AddedToken("ab cd", normalized=False)])),
    "truncation": lambda: _changed(lambda one: one.enable_truncation(4)),
    "padding": lambda: _changed(lambda one: one.enable_padding()),
    "no cleaning": lambda: _changed(lambda one: setattr(one, "normalizer", BertNormalizer(clean_text=False))),
    "bytes": _bytes,
    "other splits": lambda: unigram(WhitespaceSplit()),
}


@pytest.mark.parametrize("make", _OTHER.values(), ids=_OTHER)
def test_any_other_tokenizer_does_all_itself(make: Callable[[], Tokenizer]) -> None:
    tokenizer, texts = make(), ["B-A ab\ncd", *written(500)]
    assert StaticTokens(tokenizer)(texts) == own(tokenizer, texts)
