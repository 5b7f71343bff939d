"""Texts made ready once and then encoded in any company: what a server batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.batching import TokenisedTexts, from_ids
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import TextEncoder, Vectors, check_finite
from sentemb.encoding.sentence import SentenceEncoder, encode_batch, is_plain_text_model, prompt_of
from sentemb.encoding.static import encode_and_count, is_static_model
from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError


@dataclass(frozen=True)
class ReadyTexts:
    """Texts that only have to be computed.

    Attributes:
        texts: The texts.
        lengths: Tokens that the model reads of each, (n,), prompt and special tokens included.
        cut: Which of them are longer than the model reads.
        content: What the row encoder that made them computes with.
        vectors: Their vectors (n, dim), where making them ready was all there is to do.
    """

    texts: Sequence[str]
    lengths: NDArray[np.int64]
    cut: Sequence[int]
    content: Any = None
    vectors: Vectors | None = None


Rows = Sequence[tuple[ReadyTexts, NDArray[np.intp]]]
"""Some of the texts of one or several that were made ready."""


class RowEncoder(Protocol):
    """Encodes texts one batch at a time, with the bits that `TextEncoder.encode` gives.

    Attributes:
        by_length: Whether the texts of a batch must have one length; else a batch is one text.
    """

    by_length: bool

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        """Make texts ready."""
        ...

    def prepare_ids(self, ids: Sequence[Sequence[int]]) -> ReadyTexts:
        """Make texts ready that are given as the model's own token ids, special tokens among them.

        Raises:
            InputError: There is no such token, there are more than the model reads, or it has no tokens.
        """
        ...

    def compute(self, rows: Rows) -> Vectors:
        """Encode one batch.

        Args:
            rows: Texts of one length, or a single one.

        Returns:
            float32 array of shape (rows, dimension).

        Raises:
            NonFiniteError: A vector is not finite.
        """
        ...


def row_encoder(encoder: TextEncoder) -> RowEncoder:
    """The row encoder of an encoder; of one that keeps vectors, that of the encoder inside."""
    if isinstance(encoder, CachedEncoder):
        return row_encoder(encoder.encoder)
    if isinstance(encoder, SentenceEncoder) and is_plain_text_model(encoder.model, encoder.role):
        return _TokenRows(encoder)
    if isinstance(encoder, SentenceEncoder) and is_static_model(encoder.model):
        return _StaticRows(encoder)
    return _TextRows(encoder)


class _TokenRows:
    """A transformer: texts of one length together."""

    by_length = True

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        """Tokenise."""
        tokens = self._encoder.tokenise(texts)
        return ReadyTexts(texts, tokens.lengths, tokens.cut, tokens)

    def prepare_ids(self, ids: Sequence[Sequence[int]]) -> ReadyTexts:
        """Check the ids."""
        model = self._encoder.model
        tokens = from_ids(model[0].tokenizer, ids, longest=model.max_seq_length)
        return ReadyTexts([f"token ids {row}" for row in range(len(ids))], tokens.lengths, (), tokens)

    def compute(self, rows: Rows) -> Vectors:
        """One forward pass."""
        parts: list[tuple[TokenisedTexts, NDArray[np.intp]]] = [(ready.content, some) for ready, some in rows]
        return _checked(encode_batch(self._encoder.ready_view(), parts), rows, self._encoder)


class _StaticRows:
    """Token vectors: once there are tokens, all is done."""

    by_length = True

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        """Encode."""
        encoder = self._encoder
        vectors, lengths = encode_and_count(
            encoder.model, texts, prompt=prompt_of(encoder.model, encoder.role)
        )
        check_finite(vectors, texts, name=encoder.name)
        return ReadyTexts(texts, lengths, (), vectors=vectors)

    def prepare_ids(self, ids: Sequence[Sequence[int]]) -> ReadyTexts:
        """Refuse."""
        raise _takes_no_ids(self._encoder)

    def compute(self, rows: Rows) -> Vectors:
        """Take the vectors."""
        return np.concatenate([_vectors(ready)[some] for ready, some in rows])


class _TextRows:
    """Any other encoder: each text alone, for nothing is known of how it batches."""

    by_length = False

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        """Count tokens, where the encoder has any; words where it has none."""
        tokens = tokens_of(self._encoder)
        if tokens is None:
            return ReadyTexts(texts, np.array([len(text.split()) for text in texts], dtype=np.int64), ())
        counts = np.array(tokens.counts(texts), dtype=np.int64)
        cut = np.flatnonzero(counts > tokens.room).tolist()
        return ReadyTexts(texts, np.minimum(counts, tokens.room) + tokens.overhead, cut)

    def prepare_ids(self, ids: Sequence[Sequence[int]]) -> ReadyTexts:
        """Refuse."""
        raise _takes_no_ids(self._encoder)

    def compute(self, rows: Rows) -> Vectors:
        """Each text alone."""
        texts = [ready.texts[row] for ready, some in rows for row in some]
        return np.concatenate([self._encoder.encode([text]) for text in texts])


def _takes_no_ids(encoder: TextEncoder) -> InputError:
    return InputError(f"{encoder.name} does not accept token ids", "pass texts")


def _vectors(ready: ReadyTexts) -> Vectors:
    assert ready.vectors is not None
    return ready.vectors


def _checked(vectors: Vectors, rows: Rows, encoder: TextEncoder) -> Vectors:
    check_finite(vectors, [ready.texts[row] for ready, some in rows for row in some], name=encoder.name)
    return vectors
