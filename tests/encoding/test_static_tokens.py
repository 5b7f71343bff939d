"""The tokens of a static encoder are those of its tokenizer, sooner."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer, Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, PreTokenizer, WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from sentemb.encoding import static_tokens
from sentemb.encoding.static_tokens import CLAUSES, StaticTokens, settings_of
from sentemb.encoding.unigram import BLANK, TwoWordModel

_LETTERS = [*string.ascii_letters[:10], *string.digits[:3], *string.punctuation, "é", "中", "ß"]
_WORDS = ["abc", "bad", "face", "cab", "dad"]
_ENDINGS = ["", "a", "ab", "b", "fac", *_WORDS]  # of the second word of a crossing token
_ODD = [
    "\n",
    "\r\n",
    "\t",
    "\x00",
    "\x1c",
    "\x85",
    "\u00a0",
    "\u2028",
    "\u200b",
    "e\u0301",
    "\u0301",
    "\u3000",
]
_ODD += [*"ÉİΑΣſﬁ½“’…¿。！😀\ufffdกに한≮", BLANK, "##ab", "[SEP]", "[sep]", "[", "ab" * 80]
_BLANKS = [" ", "  ", ". ", ", ", " ,"]


@pytest.fixture(autouse=True)
def _from_the_first_text_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few texts go the way of many."""
    monkeypatch.setattr(static_tokens, "_FEW", 1)
    monkeypatch.setattr(static_tokens, "_ENOUGH", 1)
    monkeypatch.setattr(static_tokens, "_NEW", 9)


def unigram(
    pre_tokenizer: PreTokenizer = CLAUSES,
    *,
    lowercase: bool = True,
    seed: int | None = None,
    **normalizer: Any,
) -> Tokenizer:
    """Words, their letters, and tokens that cross a blank; with a seed, no two of them are equally likely."""
    pairs = [f"{BLANK}{first}{BLANK}{second}" for first in ["", *_WORDS] for second in _ENDINGS]
    pieces = [BLANK, *_LETTERS, *(BLANK + letter for letter in _LETTERS), *(BLANK + word for word in _WORDS)]
    pieces += ["ab", "ba", "bc", "ca", BLANK + "ab"]
    chance = random.Random(seed)
    spread = 0.0 if seed is None else 4.0
    scored = [
        ("[UNK]", -40.0),
        *((piece, -9.0 - len(piece) / 8 - chance.random() * spread) for piece in [*pieces, *pairs]),
    ]
    normalizer = {"lowercase": lowercase, **normalizer}
    return _made(Unigram(scored, unk_id=0), BertNormalizer(**normalizer), pre_tokenizer)


def wordpiece(*, lowercase: bool = True, **normalizer: Any) -> Tokenizer:
    """BERT's kind, with its special tokens."""
    pieces = ["[UNK]", "[SEP]", *_LETTERS, *(f"##{letter}" for letter in _LETTERS), *_WORDS]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    model = WordPiece(numbers, unk_token="[UNK]")
    tokenizer = _made(model, BertNormalizer(lowercase=lowercase, **normalizer), BertPreTokenizer())
    tokenizer.add_special_tokens(["[SEP]"])
    return tokenizer


def _made(model: Unigram | WordPiece | BPE, normalizer: object, pre_tokenizer: PreTokenizer) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    return tokenizer


def written(count: int) -> list[str]:
    """Texts of words, letters, signs and what else a file may hold."""
    chance = random.Random(5)
    kinds = [_WORDS, _LETTERS, _ODD, _BLANKS, [" "], [word.upper() for word in _WORDS]]
    return [
        "".join(chance.choice(chance.choice(kinds)) for _ in range(chance.randrange(30)))
        for _ in range(count)
    ]


def own(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]


def by_text(tokens: StaticTokens, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each text."""
    ids, counts = tokens(texts)
    assert len(counts) == len(texts) and counts.sum() == len(ids)
    flat = iter(ids.tolist())
    return [[next(flat) for _ in range(count)] for count in counts.tolist()]


_KINDS: dict[str, Callable[[], Tokenizer]] = {
    "unigram": unigram,
    "unigram without ties": lambda: unigram(seed=3),
    "unigram, cased": lambda: unigram(lowercase=False, seed=4),
    "unigram with accents": lambda: unigram(strip_accents=False, handle_chinese_chars=False, seed=5),
    "unigram, not cleaned": lambda: unigram(clean_text=False, seed=6),
    "wordpiece": wordpiece,
    "wordpiece, cased": lambda: wordpiece(lowercase=False),
    "wordpiece, not cleaned": lambda: wordpiece(clean_text=False, strip_accents=True),
}


@pytest.mark.parametrize("make", _KINDS.values(), ids=_KINDS)
def test_the_tokens_are_the_tokenizers_own(make: Callable[..., Tokenizer]) -> None:
    tokenizer, texts = make(), written(1_000)
    tokens = StaticTokens(tokenizer)
    expected = own(tokenizer, texts)
    assert by_text(tokens, texts) == expected
    assert by_text(tokens, texts) == expected  # from what is known
    assert tokens._segments is not None and tokens._segments.is_valid
    assert by_text(tokens, []) == [] and by_text(tokens, ["", " "]) == own(tokenizer, ["", " "])
    assert len({number for ids in expected for number in ids}) > 40


_KEPT = {name: (make(), StaticTokens(make())) for name, make in _KINDS.items()}
_PARTS = some.sampled_from([*_WORDS, *_LETTERS, *_ODD, *_BLANKS, *" " * 20, "Abc", "DAD"])
_TEXTS = some.one_of(some.lists(_PARTS, max_size=12).map("".join), some.text(max_size=12))


@pytest.mark.parametrize("name", _KEPT)
@settings(max_examples=25, deadline=None)
@given(texts=some.lists(_TEXTS, min_size=1, max_size=12))
def test_any_text_has_the_tokenizers_tokens(name: str, texts: list[str]) -> None:
    tokenizer, tokens = _KEPT[name]
    assert by_text(tokens, texts) == own(tokenizer, texts)


def test_crossing_tokens_are_found_without_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = unigram(seed=7)
    texts = [" ".join(random.Random(row).sample(_WORDS, 5)) for row in range(100)]
    expected = own(tokenizer, texts)
    tokens = StaticTokens(tokenizer)
    tokens(texts)
    monkeypatch.setattr(static_tokens, "_ids", lambda _, texts: [[] for _ in texts])
    assert by_text(tokens, texts) == expected
    names = [tokenizer.id_to_token(number) for ids in expected for number in ids]
    assert sum(name.count(BLANK) == 2 for name in names) > 100


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("make", [unigram, wordpiece])
def test_texts_are_truncated_as_the_tokenizer_does(make: Callable[..., Tokenizer], limit: int) -> None:
    tokenizer, texts = make(), written(300)
    tokenizer.enable_truncation(limit)
    tokenizer.post_processor = TemplateProcessing(single="[SEP] $A [SEP]", special_tokens=[("[SEP]", 1)])
    tokens = StaticTokens(tokenizer)
    assert by_text(tokens, texts) == own(tokenizer, texts)
    assert tokens._segments is not None and tokens._segments.is_valid


def test_words_are_kept_but_no_more_than_a_corpus_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ids = static_tokens._ids
    monkeypatch.setattr(static_tokens, "_ids", lambda one, texts: asked.extend(texts) or ids(one, texts))
    tokens = StaticTokens(wordpiece())
    tokens(["abc bad, abc", "bad.", "abc\nface"])
    tokens(["face abc!", " abc"])
    assert sorted(asked[1:]) == sorted(["a", "abc", " bad", ",", " abc", "bad", ".", "\nface", "face", "!"])
    monkeypatch.setattr(static_tokens, "_MOST_WORDS", 60)
    for tokenizer in (wordpiece(), unigram()):
        texts, tokens = written(300), StaticTokens(tokenizer)
        for first in range(0, len(texts), 3):
            assert by_text(tokens, texts[first : first + 3]) == own(tokenizer, texts[first : first + 3])
            assert tokens._segments is not None and len(tokens._segments._known) < 160


@pytest.mark.parametrize("make", [wordpiece, lambda: unigram(seed=2)], ids=["wordpiece", "unigram"])
def test_the_words_that_are_used_most_are_kept(
    make: Callable[[], Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_tokens, "_MOST_WORDS", 40)
    tokenizer = make()
    tokens = StaticTokens(tokenizer)
    learned: list[bytes] = []
    learn = static_tokens._Segments._learn
    monkeypatch.setattr(
        static_tokens._Segments, "_learn", lambda one, keys: learned.extend(keys) or learn(one, keys)
    )
    texts = [f"abc bad dad, face{row} cab" for row in range(100)]
    for text in texts:
        assert by_text(tokens, [text]) == own(tokenizer, [text])
        assert tokens._segments is not None and len(tokens._segments._known) <= 41
    assert learned.count(b" bad") == learned.count(b"abc") == 1
    assert len(learned) == 100 + 5 and tokens._segments is not None
    assert b" face0" not in tokens._segments._known


def test_texts_of_new_words_only_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_tokens, "_NEW", 0.5)
    tokenizer, texts = unigram(), ["abc bad", "face cab"]
    tokens = StaticTokens(tokenizer)
    assert by_text(tokens, texts) == own(tokenizer, texts)
    assert tokens._segments is not None and len(tokens._segments._known) == 1


def test_an_interrupted_call_leaves_no_half_known_words(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, texts = unigram(seed=8), written(200)
    tokens = StaticTokens(tokenizer)
    tokens(texts[:50])
    best, calls = TwoWordModel.best, iter(range(40))

    def interrupted(*given: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return best(*given)

    monkeypatch.setattr(TwoWordModel, "best", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tokens(texts)
    monkeypatch.undo()
    assert by_text(tokens, texts * 10) == own(tokenizer, texts * 10)


def test_threads_share_what_is_known() -> None:
    tokenizer, texts = unigram(seed=9), written(400)
    tokens = StaticTokens(tokenizer)
    parts = [texts[first : first + 20] for first in range(0, len(texts), 20)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda part: by_text(tokens, part), parts)) == [
            own(tokenizer, part) for part in parts
        ]


def test_a_lone_surrogate_is_refused_by_the_tokenizer() -> None:
    tokens = StaticTokens(wordpiece())
    for _ in range(2):
        with pytest.raises(TypeError, match="TextEncodeInput"):
            tokens(["abc", "a\ud800"])
        assert by_text(tokens, ["abc"]) == own(tokens.tokenizer, ["abc"])


def _changed(change: Callable[[Tokenizer], object]) -> Tokenizer:
    tokenizer = unigram()
    change(tokenizer)
    return tokenizer


def _bytes() -> Tokenizer:
    alphabet = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    return _made(BPE(alphabet, []), Lowercase(), ByteLevel())


def _pieces(*pieces: str, score: float = -9.0) -> Tokenizer:
    listed = [
        ("[UNK]", -40.0),
        (BLANK, -9.0),
        *((letter, -9.0) for letter in "abc"),
        *((one, score) for one in pieces),
    ]
    return _made(Unigram(listed, unk_id=0), BertNormalizer(), CLAUSES)


_OTHER: dict[str, Callable[[], Tokenizer]] = {
    "added": lambda: _changed(lambda one: one.add_tokens([AddedToken("b-a", normalized=True)])),
    "truncated at the start": lambda: _changed(lambda one: one.enable_truncation(4, direction="left")),
    "padding": lambda: _changed(lambda one: one.enable_padding()),
    "another normalizer": lambda: _changed(lambda one: setattr(one, "normalizer", Lowercase())),
    "without pre-tokenizer": lambda: _changed(lambda one: setattr(one, "pre_tokenizer", None)),
    "bytes": _bytes,
    "other splits": lambda: unigram(WhitespaceSplit()),
    "words of clauses": lambda: _made(wordpiece().model, BertNormalizer(), CLAUSES),
    "three words": lambda: _pieces(f"{BLANK}a{BLANK}b{BLANK}c"),
    "from within a word": lambda: _pieces(f"a{BLANK}b"),
    "large scores": lambda: _pieces("ab", score=-1e6),
    "a text twice": lambda: _changed(
        lambda one: setattr(one, "post_processor", TemplateProcessing(single="$A $A", special_tokens=[]))
    ),
}


@pytest.mark.parametrize("make", _OTHER.values(), ids=_OTHER)
def test_any_other_tokenizer_does_all_itself(make: Callable[[], Tokenizer]) -> None:
    tokenizer, texts = make(), ["B-A ab\ncd", "a b c", *written(200)]
    tokens = StaticTokens(tokenizer)
    assert by_text(tokens, texts) == own(tokenizer, texts)
    assert settings_of(tokenizer) is None or (tokens._segments is not None and not tokens._segments.is_valid)


def test_an_added_token_with_a_blank_goes_to_the_tokenizer() -> None:
    tokenizer = _changed(lambda one: one.add_tokens([AddedToken("ab cd", normalized=False)]))
    texts = ["x ab cd", "ab  cd", "Ab cd", *written(100)]
    assert by_text(StaticTokens(tokenizer), texts) == own(tokenizer, texts)
