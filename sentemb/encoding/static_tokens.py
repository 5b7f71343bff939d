"""Token ids of many texts for static encoders: words are found in NumPy, and each is tokenized once.

A static encoder takes the mean of token vectors, so nearly all its time goes to the tokenizer. After BERT's
normalizer, tokenizers of two kinds have tokens that follow from parts of a text:

* with BERT's pre-tokenizer, each word and each sign has its own tokens;
* with that of `sentemb distill`, a Unigram model may also have tokens of two words. The likeliest tokens of a
  clause are those of its words, except where a token that crosses a blank is likelier than the tokens of its
  two words. Which of these to take is a recursion over the clauses of all texts at once.

Texts are divided into segments: a word with the blank before it, or a sign. What a character does is found by
asking the tokenizer's normalizer and pre-tokenizer. Other tokenizers, and texts with anything unusual, such
as special tokens or segmentations that are equally likely, go to the tokenizer itself.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Metaspace, Punctuation
from tokenizers.pre_tokenizers import Sequence as Steps

from sentemb.encoding.unigram import BLANK, LONGEST_CLAUSE, NEAR, Ids, TwoWordModel

CLAUSES = Steps([Punctuation("isolated"), Metaspace(BLANK, "always", split=False)])
"""Leaves the words between two signs together, so that a token may be more than one."""

_END = b"\0"  # stands before the first text and after each
# What a byte of a text does.
_STARTS = 1  # a segment starts here
_CLOSES = 2  # the next byte starts a segment
_SIGN = 4
_ENDS_TEXT = 8
_OTHER = 16  # the tokenizer has to read the text
_MAY_BE_SPECIAL = 32  # a special token starts with this character
_UNSEEN = 255

_FEW = 8  # texts that the tokenizer reads sooner than NumPy's calls take
_ENOUGH = 512  # texts after which the vocabulary is worth reading
_LONGEST_WORD = 64  # bytes; longer ones rarely come again
_MOST_WORDS = 1 << 18  # that are kept: up to 200 megabytes; among more, the half that is used most
_NEW = 0.75  # share of segments that are new from which nothing is worth keeping
_LONGEST_TEXT = 1 << 28  # offsets of Arrow have 32 bits

_WORDS = np.dtype(
    [
        ("start", "i4"),  # of its tokens in the store
        ("count", "i4"),
        ("first", "i4"),  # its number among the first words of crossing tokens, or -1
        ("option", "i4"),  # its first option
        ("options", "i4"),
        ("near", "i4"),  # 1 if other tokens are as likely
        ("uses", "i4"),
        ("score", "f8"),
    ]
)
# A beginning of a word with which a crossing token may end, and the likeliest tokens of the rest.
_OPTIONS = np.dtype(
    [
        ("second", "i4"),  # its number among the endings of crossing tokens
        ("word", "i4"),
        ("end", "i4"),  # where the rest of the word begins
        ("start", "i4"),
        ("count", "i4"),
        ("near", "i4"),
        ("change", "f8"),  # of the word's score, if the rest alone counts; NaN if not known yet
    ]
)
# The crossing token that two words may have, if it gains anything.
_PAIRS = np.dtype(
    [
        ("code", "i8"),  # of both words; 0 is that of no pair
        ("gain", "f8"),
        ("token", "i4"),
        ("option", "i4"),
        ("near", "i4"),  # 1 if other tokens are as likely
    ]
)
_WORD_BITS, _WORD = 31, (1 << 31) - 1
_SCATTER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(46)  # of a multiplicative hash
_NOTHING = (0, 0, -1, 0, 0, 0, 0, 0.0)


class StaticTokens:
    """Token ids as a tokenizer gives them, sooner if it is of one of the two kinds.

    Words and pairs of words are kept between calls. Threads may share an instance.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.settings = tokenizer, settings_of(tokenizer)
        self._seen = 0
        self._segments: _Segments | None = None
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the token ids of all texts, joined, and how many each text has, without special tokens."""
        self._seen += len(texts)
        if self.settings is not None and len(texts) >= _FEW and self._seen >= _ENOUGH:
            with self._lock:
                if self._segments is None:
                    self._segments = _Segments(self.tokenizer)
                if self._segments.is_valid:
                    try:
                        return self._segments.tokenize(texts)
                    except UnicodeEncodeError:  # a lone surrogate: the tokenizer refuses it
                        pass
                    except BaseException:  # may have been in the middle of a change
                        self._segments = None
                        raise
        return _joined(_ids(self.tokenizer, texts))


def settings_of(tokenizer: Tokenizer) -> tuple[Any, ...] | None:
    """Return what decides the tokens, except most of the vocabulary; None for a tokenizer of another kind."""
    model, cut, added = tokenizer.model, tokenizer.truncation, tokenizer.get_added_tokens_decoder()
    if (
        not isinstance(tokenizer.normalizer, BertNormalizer)
        or tokenizer.pre_tokenizer is None
        or tokenizer.padding is not None
        or (cut is not None and not (cut["direction"] == "right" and 0 <= cut["stride"] < cut["max_length"]))
        or (cut is not None and cut["strategy"] not in ("longest_first", "only_first"))
        or any(token.normalized or not token.content for token in added.values())
    ):
        return None
    splitter, size = tokenizer.pre_tokenizer.__getstate__(), tokenizer.get_vocab_size()
    if splitter == BertPreTokenizer().__getstate__() and isinstance(model, WordPiece):
        kind: tuple[Any, ...] = (
            model.unk_token,
            model.continuing_subword_prefix,
            model.max_input_chars_per_word,
        )
    elif splitter == CLAUSES.__getstate__() and isinstance(model, Unigram):
        kind = ()
    else:
        return None
    some = tuple(tokenizer.id_to_token(size * part // 8) for part in range(8))
    special = tuple((number, token.content) for number, token in added.items())
    after = tokenizer.post_processor and tokenizer.post_processor.__getstate__()
    limit = None if cut is None else cut["max_length"]
    return tokenizer.normalizer.__getstate__(), splitter, kind, limit, special, after, size, some


class _Segments:
    """Texts as segments, and the tokens of the segments that occurred."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._limit: int | None = tokenizer.truncation["max_length"] if tokenizer.truncation else None
        self._plain = Tokenizer(tokenizer.model)  # does not truncate, and does not know special tokens
        self._plain.normalizer, self._plain.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
        self._model: TwoWordModel | None = None
        self.is_valid = _ids(tokenizer, ["a"])[0] == _ids(self._plain, ["a"])[0][: self._limit]
        if isinstance(tokenizer.model, Unigram):
            self._model = TwoWordModel.read(tokenizer.model)
            self.is_valid &= self._model is not None
        self._longest = LONGEST_CLAUSE if self._model else _LONGEST_TEXT
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self._special = re.compile("|".join(map(re.escape, special)) or "(?!)")
        self._first_characters = {content[0] for content in special}
        self._of_byte = bytes(
            [
                _STARTS | _CLOSES | _ENDS_TEXT,
                *(self._classify(chr(code)) for code in range(1, 128)),
                *[0] * 128,
            ]
        )
        self._of_character = np.full(0x110000, _UNSEEN, np.uint8)
        self._known = {_END: 0}
        self._numbers: dict[str, int] = {}  # by what the model reads
        self._names = [""]  # what the model reads, by number
        self._words, self._options, self._store = _Rows(_WORDS), _Rows(_OPTIONS), _Rows(np.dtype("i8"))
        self._words.add([_NOTHING])
        self._tokens = 0 if self._model is None else self._model.size
        self._store.add(np.arange(self._tokens))  # so that the number of a token is its place
        # By a hash of their words; a later one replaces it.
        self._pairs = np.zeros(1 << (64 - int(_SHIFT)), _PAIRS)

    def _forget(self) -> None:
        """Keep the half of the words that is used most."""
        size = self._words.size
        most_used = np.argsort(-self._words.all["uses"][1:size], kind="stable")[: _MOST_WORDS // 2]
        kept = np.append(0, np.sort(most_used) + 1)
        number = np.full(size, -1)
        number[kept] = np.arange(len(kept))
        of = number.tolist()
        self._known = {key: of[old] for key, old in self._known.items() if of[old] >= 0}
        self._numbers = {name: of[old] for name, old in self._numbers.items() if of[old] >= 0}
        self._names = [self._names[old] for old in kept.tolist()] if self._model else [""]
        words = self._words.all[kept]
        words["uses"] //= 2  # so that what was used long ago goes too
        old_options = _places(words["option"], words["options"])
        options = self._options.all[old_options]
        options["word"] = number[options["word"]]
        words["option"] = np.cumsum(words["options"]) - words["options"]
        option = np.zeros(self._options.size + 1, np.intp)
        option[old_options] = np.arange(len(old_options))
        store = [self._store.all[: self._tokens]]
        for rows in (words, options):
            store.append(self._store.all[_places(rows["start"], rows["count"])])
            rows["start"] = sum(map(len, store[:-1])) + np.cumsum(rows["count"]) - rows["count"]
        first, second = number[self._pairs["code"] >> _WORD_BITS], number[self._pairs["code"] & _WORD]
        known = (first > 0) & (second > 0)
        pairs = self._pairs[known]
        pairs["code"], pairs["option"] = (first << _WORD_BITS | second)[known], option[pairs["option"]]
        self._pairs[:] = 0
        self._pairs[_slots(pairs["code"])] = pairs
        self._words, self._options, self._store = _Rows(_WORDS), _Rows(_OPTIONS), _Rows(np.dtype("i8"))
        self._words.add(words)
        self._options.add(options)
        self._store.add(np.concatenate(store))

    def _classify(self, character: str) -> int:
        """Return what a character does, by asking the tokenizer's parts."""
        text = self._plain.normalizer.normalize_str(f"a{character}a")
        parts = [part for part, _ in self._plain.pre_tokenizer.pre_tokenize_str(text)]
        if self._model is not None:
            parts = [part.removeprefix(BLANK) for part in parts]
        special = _MAY_BE_SPECIAL if character in self._first_characters else 0
        if parts == (["a", "a"] if self._model is None else [f"a{BLANK}a"]):
            return _STARTS | special
        if len(parts) == 3 and parts[0] == parts[2] == "a" and BLANK not in parts[1]:
            return _STARTS | _SIGN | special | (_CLOSES if character.isascii() else 0)
        if len(parts) == 1 and BLANK not in parts[0] and parts[0][0] == parts[0][-1] == "a":
            return special
        return _OTHER

    def tokenize(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the token ids of all texts, joined, and their numbers."""
        skipped: list[int] = []
        joined = "\0".join(["", *texts, ""])
        if joined.count("\0") > len(texts) + 1 or max(map(len, texts)) > self._longest:
            skipped = [row for row, text in enumerate(texts) if "\0" in text or len(text) > self._longest]
            joined = "\0".join(
                ["", *("" if row in {*skipped} else text for row, text in enumerate(texts)), ""]
            )
        data, does = self._read(joined)
        starts, other = self._divide(texts, does)
        offsets = pa.py_buffer(np.append(starts, len(data)).astype(np.int32))
        array = pa.Array.from_buffers(pa.binary(), len(starts), [None, offsets, pa.py_buffer(data)])
        array = array.dictionary_encode()
        numbers = self._look_up(array.dictionary.to_pylist(), len(starts))
        if numbers is None:
            return _joined(_ids(self._tokenizer, texts))
        words = numbers[array.indices.to_numpy()]
        ends = np.flatnonzero(does[starts] & _ENDS_TEXT)  # as segments
        begins, counts, near = (self._words.all[field][words] for field in ("start", "count", "near"))
        near = [np.flatnonzero(near)]
        if self._model is not None:
            near += self._join(self._model, words, begins, counts)
        rows = np.unique(np.concatenate([skipped, other, np.searchsorted(ends, np.concatenate(near)) - 1]))
        rows = rows.astype(np.int64)
        size = self._store.size
        for row, ids in zip(rows.tolist(), _ids(self._tokenizer, [texts[row] for row in rows]), strict=True):
            counts[ends[row] + 1 : ends[row + 1]] = 0
            begins[ends[row + 1]], counts[ends[row + 1]] = self._store.add(ids), len(ids)
        self._store.size = size
        joined_ids, lengths = self._store.all[_places(begins, counts)], np.diff(np.cumsum(counts)[ends])
        return (joined_ids, lengths) if self._limit is None else _truncate(joined_ids, lengths, self._limit)

    def _read(self, joined: str) -> tuple[bytes, NDArray[np.uint8]]:
        """Return joined texts as bytes, and what each byte does."""
        data = joined.encode()
        does = np.frombuffer(bytearray(data.translate(self._of_byte)), np.uint8)
        if joined.isascii():
            return data, does
        codes = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
        codes = codes[codes >= 0x80]
        places = np.flatnonzero(np.frombuffer(data, np.uint8) >= 0xC0)  # of their first bytes
        new = np.unique(codes[self._of_character[codes] == _UNSEEN])
        self._of_character[new] = [self._classify(chr(code)) for code in new.tolist()]
        found = self._of_character[codes]
        does[places] = found
        signs = np.flatnonzero(found & _SIGN)
        codes = codes[signs]
        does[places[signs] + 1 + (codes >= 0x800) + (codes >= 0x10000)] = _CLOSES  # their last bytes
        return data, does

    def _divide(self, texts: Sequence[str], does: NDArray[np.uint8]) -> tuple[NDArray[np.intp], list[int]]:
        """Return where segments start, and which texts the tokenizer has to read: these have no segments."""
        begins = does & _STARTS
        begins[1:] |= (does[:-1] & _CLOSES) >> 1
        starts = np.flatnonzero(begins.view(bool))
        long = starts[np.flatnonzero(np.diff(starts) > _LONGEST_WORD)]
        unusual = np.flatnonzero(does >= _OTHER)
        if not len(long) and not len(unusual):
            return starts, []
        ends = np.flatnonzero(does & _ENDS_TEXT)
        other = set((np.searchsorted(ends, long, side="right") - 1).tolist())
        is_other = does[unusual] & _OTHER > 0
        rows = np.searchsorted(ends, unusual) - 1
        other.update(rows[is_other].tolist())
        may_be = np.unique(rows[~is_other]).tolist()
        other.update(row for row in may_be if row not in other and self._special.search(texts[row]))
        for row in other:
            begins[ends[row] + 1 : ends[row + 1]] = 0
        return np.flatnonzero(begins.view(bool)), sorted(other)

    def _look_up(self, keys: list[bytes], segments: int) -> NDArray[np.int64] | None:
        """Return the numbers of segments, tokenizing new ones; None if these are too many to be worth it."""
        numbers = np.fromiter(map(self._known.get, keys, repeat(-1)), np.int64, len(keys))
        if len(keys) and numbers.min() < 0:
            new = [key for key, number in zip(keys, numbers.tolist(), strict=True) if number < 0 and key[0]]
            if len(new) > _NEW * segments:
                return None
            if len(self._known) + len(new) > _MOST_WORDS:
                self._forget()
                new = [key for key in keys if key[0] and key not in self._known]
            if new:
                self._learn(new)
            known = (self._known[key if key[0] else _END] for key in keys)
            numbers = np.fromiter(known, np.int64, len(keys))
        self._words.all["uses"][numbers] += 1
        return numbers

    def _learn(self, keys: list[bytes]) -> None:
        """Tokenize new segments."""
        texts = [key.decode() for key in keys]
        if self._model is None:
            ids, counts = _joined(_ids(self._plain, texts))
            starts = self._store.add(ids) + np.cumsum(counts) - counts
            rows = [
                (start, count, *_NOTHING[2:])
                for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
            ]
            first = self._words.add(rows)
            self._known.update(zip(keys, range(first, first + len(keys)), strict=True))
            return
        normalize = self._plain.normalizer.normalize_str
        signs = [bool(self._does(text[0]) & _SIGN) for text in texts]
        # One call normalizes all words: a sign separates them.
        words = normalize(
            "!".join("" if sign else text for text, sign in zip(texts, signs, strict=True))
        ).split("!")
        read = [
            BLANK + normalize(text) if sign else _with_blank(word)
            for text, word, sign in zip(texts, words, signs, strict=True)
        ]
        new = {word: sign for word, sign in zip(read, signs, strict=True) if word not in self._numbers}
        self._learn_words(self._model, new)
        self._known.update(zip(keys, map(self._numbers.__getitem__, read), strict=True))

    def _learn_words(self, model: TwoWordModel, words: dict[str, bool]) -> None:
        """Find the likeliest tokens of words and signs, as the model reads them."""
        own = _ids(Tokenizer(self._tokenizer.model), list(words))
        start = self._store.size
        rows: list[tuple[Any, ...]] = []
        options: list[tuple[Any, ...]] = []
        store: list[int] = []
        for (word, is_sign), check in zip(words.items(), own, strict=True):
            score, ids, near = model.best(word)
            first, before = -1, len(options)
            if not is_sign and word:
                first = model.firsts.get(word[1:], -1)
                for end in range(1, len(word) + 1):
                    second = model.seconds.get(word[1:end])
                    if second is not None:
                        change = -score if end == len(word) else np.nan
                        options.append((second, self._words.size + len(rows), end, 0, 0, 0, change))
            option, count = self._options.size + before, len(options) - before
            rows.append((start + len(store), len(ids), first, option, count, near or ids != check, 0, score))
            store += ids
        self._store.add(store)
        self._options.add(options)
        number = self._words.add(rows)
        self._numbers.update(zip(words, range(number, number + len(words)), strict=True))
        self._names += words

    def _does(self, character: str) -> int:
        return (
            self._of_byte[ord(character)] if character.isascii() else int(self._of_character[ord(character)])
        )

    def _join(self, model: TwoWordModel, words: Ids, begins: Ids, counts: Ids) -> list[NDArray[np.intp]]:
        """Take crossing tokens where they are likelier, changing the tokens of segments; return near ties."""
        first, options = (self._words.all[field][words] for field in ("first", "options"))
        at = np.flatnonzero((first[:-1] >= 0) & (options[1:] > 0)) + 1  # the second words of pairs
        pairs = self._pairs_of(model, words[at - 1] << _WORD_BITS | words[at])
        near = [at[pairs["near"] > 0]]
        rows = np.flatnonzero(pairs["gain"] > 0)
        taken, close = _best_disjoint(at[rows], pairs["gain"][rows])
        near.append(at[rows][close])
        at, pairs = at[rows][taken], pairs.take(rows[taken])
        chosen = self._options.all.take(pairs["option"])
        begins[at - 1], counts[at - 1] = pairs["token"], 1
        begins[at], counts[at] = chosen["start"], chosen["count"]
        near.append(at[chosen["near"] > 0])
        return near

    def _pairs_of(self, model: TwoWordModel, codes: Ids) -> Any:
        """Return the best crossing token of each pair of words; most pairs have occurred before."""
        slots = _slots(codes)
        found = self._pairs.take(slots)  # of records, ten times as fast as an index
        new = np.flatnonzero(found["code"] != codes)
        if len(new):
            unique, inverse = np.unique(codes[new], return_inverse=True)
            judged = self._judge(model, unique)
            found[new] = judged[inverse]
            self._pairs[slots[new]] = found[new]
        return found

    def _judge(self, model: TwoWordModel, codes: Ids) -> Any:
        """Find the best crossing token of pairs of words."""
        judged = np.zeros(len(codes), _PAIRS)
        judged["code"] = codes
        first, second = self._words.all.take(codes >> _WORD_BITS), self._words.all.take(codes & _WORD)
        number = second["options"]
        pair = np.repeat(np.arange(len(codes)), number)
        option = _places(second["option"], number)
        keys = first["first"][pair] * np.int64(len(model.seconds)) + self._options.all["second"][option]
        token = np.searchsorted(model.keys[:-1], keys)
        hits = np.flatnonzero(model.keys[token] == keys)
        option, token, pair = option[hits], token[hits], pair[hits]
        self._find_rests(model, np.unique(option[np.isnan(self._options.all["change"][option])]).tolist())
        gain = model.scores[token] - first["score"][pair] + self._options.all["change"][option]
        judged["near"][pair[np.abs(gain) < NEAR]] = 1
        # Of several tokens for one pair, the likeliest.
        order = np.lexsort((-gain, pair))
        option, token, pair, gain = option[order], token[order], pair[order], gain[order]
        is_best = np.diff(pair, prepend=-1) > 0
        best, second = np.flatnonzero(is_best), np.flatnonzero(is_best[:-1] & ~is_best[1:]) + 1
        judged["near"][pair[second[gain[second] > gain[second - 1] - NEAR]]] = 1
        pair = pair[best]
        judged["gain"][pair], judged["option"][pair] = gain[best], option[best]
        judged["token"][pair] = model.tokens[token[best]]
        return judged

    def _find_rests(self, model: TwoWordModel, options: list[int]) -> None:
        """Find the likeliest tokens of the rests of words, for options that are new."""
        for option in options:
            second, word, end, *_ = self._options.all[option].item()
            score, ids, near = model.best(self._names[word][end:])
            start, change = self._store.add(ids), score - self._words.all["score"][word]
            self._options.all[option] = (second, word, end, start, len(ids), near, change)


def _slots(codes: Ids) -> NDArray[np.intp]:
    """Return where pairs of words are kept."""
    return (codes.view(np.uint64) * _SCATTER >> _SHIFT).astype(np.intp)


def _places(starts: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.intp]:
    """Return the places of several ranges, one after another."""
    ends = np.cumsum(counts, dtype=np.intp)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


def _best_disjoint(at: Ids, gain: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Select pairs of words with the largest sum of gains, no word twice; and return where it is a near tie.

    `at` has the second word of each pair, ascending.
    """
    starts = np.flatnonzero(
        np.diff(at, prepend=-2) != 1
    )  # of runs in which each pair shares a word with the next
    left = np.diff(np.append(starts, len(at)))
    ends = starts + left - 1
    takes = np.zeros(len(at), dtype=bool)
    near: list[NDArray[np.intp]] = [np.zeros(0, np.intp)]
    taken: list[NDArray[np.intp]] = [np.zeros(0, np.intp)]
    here, before, now = starts, np.zeros(len(starts)), np.zeros(len(starts))
    while len(here):
        total = before + gain[here]
        near.append(here[np.abs(total - now) < NEAR])
        takes[here] = total > now
        on = np.flatnonzero(left > 1)
        here, left, before, now = here[on] + 1, left[on] - 1, now[on], np.maximum(total, now)[on]
    here = ends
    while len(here):
        is_taken = takes[here]
        taken.append(here[is_taken])
        here = here - 1 - is_taken
        on = np.flatnonzero(here >= starts)
        here, starts = here[on], starts[on]
    return np.concatenate(taken), np.concatenate(near)


class _Rows:
    """An array that grows."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.all: NDArray[Any] = np.zeros(1024, dtype)
        self.size = 0

    def add(self, values: Sequence[Any] | NDArray[Any]) -> int:
        """Append rows and return the place of the first."""
        place, self.size = self.size, self.size + len(values)
        if self.size > len(self.all):
            self.all = np.concatenate([self.all, np.zeros(self.size, self.all.dtype)])
        self.all[place : self.size] = np.array(values, dtype=self.all.dtype)
        return place


def _with_blank(word: str) -> str:
    """Return a word as the model reads it; nothing is left of one whose characters are all removed."""
    return BLANK + word.removeprefix(" ").removeprefix(BLANK) if word else ""


def _truncate(ids: Ids, lengths: Ids, limit: int) -> tuple[Ids, Ids]:
    """Return the first tokens of each text."""
    if not len(lengths) or lengths.max() <= limit:
        return ids, lengths
    places = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return ids[places < limit], np.minimum(lengths, limit)


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def _joined(rows: list[list[int]]) -> tuple[Ids, Ids]:
    """Return the token ids of all texts, joined, and their numbers."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum())), lengths
