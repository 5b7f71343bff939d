"""The vocabulary of a static encoder: the teacher's tokens, whole words, and pairs of words.

A piece may hold a blank, so a tokenizer that sees whole clauses can keep "new york" as one token. Unigram
segmentation (Kudo, 2018) does: it takes the likeliest way to cut a clause.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import regex
from tokenizers import Tokenizer, models, normalizers

from sentemb.encoding.static_tokens import BLANK, CLAUSES

UNKNOWN = "[UNK]"
_UNKNOWN_SCORE = -100.0  # a logarithm far below that of any piece
_BLANK_SCORE = -20.0  # it is needed between two signs alone
# Against "do it" cut into "do i" and "t": what does not begin a word is the last resort.
_INNER_SCORE = -20.0
_MARGIN = 0.5  # by which a piece is likelier than its own parts
_SIGN = regex.compile(r"[\p{P}$+<=>^`|~]")  # what the pre-tokenizer Punctuation cuts at
_SPECIAL = regex.compile(r"\[.+\]|<.+>")
_BEGINS = ("Ġ", BLANK)  # a word, in the vocabularies of byte-level BPE and of SentencePiece
_PROBES = (("Word", "word"), ("é", "e"))


def base_tokenizer(teacher: Tokenizer, texts: Sequence[str], *, size: int) -> Tokenizer:
    """A tokenizer of the teacher's tokens, likely as they are in some texts.

    Args:
        teacher: The teacher's tokenizer.
        texts: The texts; every character in them becomes a token too.
        size: Most tokens; those that the texts do not need are left out first.

    Returns:
        A tokenizer without special tokens but the unknown one, number 0.
    """
    normaliser = _normaliser_like(teacher)
    letters = sorted({letter for text in texts for letter in normaliser.normalize_str(text)} - {" "})
    singles = [mark + letter for letter in letters for mark in ("", BLANK)]
    pieces = dict.fromkeys(piece for piece in chain(singles, _pieces(teacher)) if piece.strip(BLANK))
    fewest = _unigram(dict.fromkeys(pieces, -1.0), normaliser)
    used: Counter[str] = Counter()
    for encoding in fewest.encode_batch_fast(list(texts), add_special_tokens=False):
        used.update(encoding.tokens)
    kept = sorted(pieces, key=lambda piece: -used[piece])[: size - 2]  # but the unknown token and the blank
    total = used.total() + len(kept)
    scores = {piece: math.log((used[piece] + 1) / total) for piece in kept}
    inner = {piece: score + _INNER_SCORE for piece, score in scores.items() if not piece.startswith(BLANK)}
    return _unigram({**scores, **inner}, normaliser)


def with_pieces(tokenizer: Tokenizer, counts: Mapping[str, int], *, words: int) -> Tokenizer:
    """A tokenizer with further pieces, each of which is taken wherever it stands.

    Args:
        tokenizer: The tokenizer; its tokens keep their numbers.
        counts: How often each new piece occurs.
        words: Among how many words.

    Returns:
        The larger tokenizer, the new pieces in their order.
    """
    scores = _scores(tokenizer)
    listed = [_UNKNOWN_SCORE, *scores.values()]
    parts = tokenizer.encode_batch_fast([text_of(piece) for piece in counts], add_special_tokens=False)
    for (piece, count), encoding in zip(counts.items(), parts, strict=True):
        least = sum(listed[token] for token in encoding.ids) + _MARGIN
        scores[piece] = max(math.log(count / words), least)
    return _unigram(scores, tokenizer.normalizer)


def _scores(tokenizer: Tokenizer) -> dict[str, float]:
    """The pieces of a tokenizer with the logarithms of their probabilities, in the order of their numbers."""
    vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
    return {piece: score for piece, score in vocabulary if piece != UNKNOWN}


def new_pieces(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[str]]:
    """What could become one token in each text: words that are none, and pairs of words in a row."""
    known = tokenizer.get_vocab()
    for text in texts:
        found = []
        for clause in _SIGN.split(tokenizer.normalizer.normalize_str(text)):
            words = [BLANK + word for word in clause.split()]
            found += [word for word in words if word not in known]
            found += map("".join, pairwise(words))
        yield found


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """A tokenizer's tokens in the order of their numbers."""
    numbers = tokenizer.get_vocab()
    return sorted(numbers, key=numbers.__getitem__)


def text_of(piece: str) -> str:
    """A piece as a reader would write it."""
    return piece.replace(BLANK, " ").strip()


def _pieces(teacher: Tokenizer) -> Iterator[str]:
    """The teacher's tokens in the order of their numbers, with a blank before each that begins a word."""
    tokens = [token for token in pieces_of(teacher) if not _SPECIAL.fullmatch(token)]
    if any(token.startswith(_BEGINS) for token in tokens):
        yield from (BLANK + token[1:] if token.startswith(_BEGINS) else token for token in tokens)
    else:
        yield from (token[2:] if token.startswith("##") else BLANK + token for token in tokens)


def _normaliser_like(teacher: Tokenizer) -> normalizers.Normalizer:
    """Folds case and accents where the teacher does."""
    lowercase, strip = (_ids(teacher, first) == _ids(teacher, second) for first, second in _PROBES)
    return normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip)


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def _unigram(scores: Mapping[str, float], normaliser: normalizers.Normalizer) -> Tokenizer:
    pieces = {BLANK: _BLANK_SCORE, **scores}
    tokenizer = Tokenizer(models.Unigram([(UNKNOWN, _UNKNOWN_SCORE), *pieces.items()], unk_id=0))
    tokenizer.normalizer = normaliser
    tokenizer.pre_tokenizer = CLAUSES
    return tokenizer
