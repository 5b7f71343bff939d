"""A static student of any encoder: token vectors whose mean agrees with the teacher on your texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from pydantic import Field
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from sentemb._compat import Normalize, StaticEmbedding
from sentemb.compression.distillation_texts import MOST_TEXTS, Texts
from sentemb.compression.static_bags import bags_of
from sentemb.compression.static_files import Storage, stored
from sentemb.compression.static_growth import grow
from sentemb.compression.static_refinement import refine
from sentemb.compression.static_vectors import evened, main_directions, settled, starting_vectors, unit
from sentemb.compression.static_vocabulary import base_tokenizer
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.training.config.base import CheckedModel

Progress = Callable[[str, int, int], None]
_NESTED = (64, 128)
_GROWN_RATE = 1 / 3  # of the learning rate: most of the table is in its place
_NEIGHBOURS = 10
_TEXTS_PER_CALL = 4096


class StaticOptions(CheckedModel):
    """What a static student is to be.

    Raises:
        InputError: A field is unknown, or its value has the wrong type or lies outside its range.

    Example:
        >>> StaticOptions(dimension=128).dtype
        'int8'
    """

    dimension: int = Field(
        256, ge=2, description="Dimensions of the student's vectors, at most the teacher's."
    )
    vocabulary: int = Field(52_000, ge=1000, description="Maximum vocabulary size.")
    dtype: Storage = Field("int8", description="Number format of the token table.")
    sentences: int = Field(MOST_TEXTS, ge=1, description="Maximum number of texts that the teacher encodes.")
    steps: int = Field(
        1000,
        ge=2,
        description="Refinement steps of 1,024 texts: half before words and pairs become tokens, half after.",
    )
    seed: int = Field(0, ge=0, description="Random seed.")


class Agreement(NamedTuple):
    """How near a student is to its teacher on texts that it has not seen.

    Attributes:
        cosine: Mean cosine between both vectors of a text, in the student's dimensions.
        similarities: Spearman's correlation of the similarities of pairs of texts, half of them neighbours.
    """

    cosine: float
    similarities: float


class TokenVectors(NamedTuple):
    """A static encoder.

    Attributes:
        tokenizer: Its tokenizer.
        table: The vectors as they will be read from the folder, (tokens, dimension).
        agreement: On the held-out texts.
    """

    tokenizer: Tokenizer
    table: Vectors
    agreement: Agreement

    def model(self) -> SentenceTransformer:
        """The student as sentence-transformers has it."""
        embedding = StaticEmbedding(self.tokenizer, embedding_weights=self.table)
        return SentenceTransformer(modules=[embedding, Normalize()], device="cpu")


def learn_token_vectors(
    teacher: TextEncoder,
    texts: Texts,
    options: StaticOptions,
    *,
    progress: Progress = lambda stage, done, total: None,
) -> TokenVectors:
    """Learn token vectors whose mean agrees with a teacher; see `distill_static`.

    Args:
        teacher: Encodes the texts and the tokens.
        texts: What to learn and what to check.
        options: Size, storage and steps.
        progress: Told the stage and how much of it is done.

    Returns:
        The tokens and their vectors.

    Raises:
        InputError: The teacher has no tokenizer that can be read.
    """
    tokenizer = _tokenizer_of(teacher)
    vectors = unit(_encode(teacher, [*texts.training, *texts.held_out], progress))
    directions = main_directions(vectors, options.dimension)
    targets = unit(vectors @ directions)
    training, held_out = np.split(targets, [len(texts.training)])
    nested = tuple(width for width in _NESTED if width < directions.shape[1])

    def refined(tokenizer: Tokenizer, table: Vectors, rate: float, stage: str) -> Vectors:
        steps = max(1, options.steps // 2)
        bags = bags_of(tokenizer, texts.training)
        found = refine(
            table,
            bags,
            training,
            steps=steps,
            rate=rate,
            nested=nested,
            seed=options.seed,
            progress=lambda step: progress(stage, step, steps),
        )
        return settled(table, found, bags.counts(len(table)))

    tokenizer = base_tokenizer(tokenizer, texts.training, size=options.vocabulary)
    counts = bags_of(tokenizer, texts.training).counts(tokenizer.get_vocab_size())
    start = starting_vectors(teacher, tokenizer, directions, counts)
    table = refined(tokenizer, start, 1.0, "refining tokens")
    tokenizer, table = grow(tokenizer, table, texts.training, training, size=options.vocabulary)
    table = refined(tokenizer, table, _GROWN_RATE, "refining words and pairs")
    numbers, factors = stored(evened(table), options.dtype)
    table = numbers.astype(np.float32) * factors[:, None]
    return TokenVectors(tokenizer, table, agreement(tokenizer, table, texts.held_out, held_out))


def agreement(tokenizer: Tokenizer, table: Vectors, texts: Sequence[str], targets: Vectors) -> Agreement:
    """Compare a static student with its teacher; see `Agreement`."""
    return agreement_of(unit(bags_of(tokenizer, texts).sums(table)), targets)


def agreement_of(vectors: Vectors, targets: Vectors) -> Agreement:
    """Compare vectors of length 1 of some texts with the teacher's; see `Agreement`."""
    wanted = targets @ targets.T
    np.fill_diagonal(wanted, -np.inf)
    nearest = np.argpartition(-wanted, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    others = np.random.default_rng(0).integers(0, len(vectors), nearest.shape)
    columns = np.concatenate([nearest, others], axis=1)
    rows = np.repeat(np.arange(len(vectors))[:, None], columns.shape[1], axis=1)
    kept = rows != columns
    got = (vectors @ vectors.T)[rows[kept], columns[kept]]
    return Agreement(
        float((vectors * targets).sum(axis=1).mean()),
        float(spearmanr(got, wanted[rows[kept], columns[kept]]).statistic),
    )


def _tokenizer_of(encoder: TextEncoder) -> Tokenizer:
    """The teacher's tokenizer."""
    model = getattr(getattr(encoder, "encoder", encoder), "model", None)
    tokenizer = None if model is None else getattr(model[0], "tokenizer", None)
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if isinstance(tokenizer, Tokenizer):
        plain = Tokenizer.from_str(tokenizer.to_str())  # padding and cutting are states of the teacher's own
        plain.no_padding()
        plain.no_truncation()
        return plain
    raise InputError(
        "a static student needs a teacher with a fast tokenizer",
        "choose a sentence-transformers model with a tokenizer.json",
    )


def _encode(teacher: TextEncoder, texts: Sequence[str], progress: Progress) -> Vectors:
    parts = []
    for first in range(0, len(texts), _TEXTS_PER_CALL):
        parts.append(teacher.encode(texts[first : first + _TEXTS_PER_CALL]))
        progress("encoding with the teacher", min(first + _TEXTS_PER_CALL, len(texts)), len(texts))
    return np.concatenate(parts)
