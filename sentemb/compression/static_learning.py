"""Token vectors learned from a teacher: its tokens, their first vectors, refinement, then words and pairs.

A piece may contain a blank, so a tokenizer that sees whole clauses can keep "new york" as one token. Unigram
segmentation (Kudo, 2018) does that: it takes the likeliest way to split a clause.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import regex
import torch
from numpy.typing import NDArray
from scipy import sparse
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers
from torch.nn.functional import log_softmax, normalize

from sentemb._compat import Normalize, StaticEmbedding
from sentemb.compression.config import StaticOptions
from sentemb.compression.distillation import (
    Agreement,
    Progress,
    Texts,
    ignore_progress,
    measure_agreement,
)
from sentemb.compression.static_model import Bags, round_to_storage, tokenize_bags
from sentemb.encoding.encoder import TextEncoder, Vectors, normalised
from sentemb.encoding.static_tokens import CLAUSES
from sentemb.encoding.unigram import BLANK
from sentemb.errors import InputError

UNKNOWN = "[UNK]"
_UNKNOWN_SCORE = -100.0  # a log-probability far below that of any piece
_BLANK_SCORE = -20.0  # the blank alone is needed between two signs
# Against "do it" split into "do i" and "t": a piece that does not begin a word is the last resort.
_INNER_SCORE = -20.0
_MARGIN = 0.5  # by which a piece is likelier than its own parts
_SIGN = regex.compile(r"[\p{P}$+<=>^`|~]")  # where the pre-tokenizer Punctuation splits
_SPECIAL = regex.compile(r"\[.+\]|<.+>")
_BEGINS = ("Ġ", BLANK)  # a word, in the vocabularies of byte-level BPE and of SentencePiece
_PROBES = (("Word", "word"), ("é", "e"))

MIN_COUNT = 5
"""No vector can be learned for rarer pieces."""
_GAIN_PRIOR = 5.0  # texts that count against a vector of its own
_LEAST_LENGTH = 1e-6

ZIPF = 1e-4
"""Share of all tokens at which a token's weight is one half (Arora et al., 2017, use 1e-3 to 1e-4)."""
PRIOR = 10
"""Number of texts at which a token's own refinement weighs as much as the common map."""
LENGTHS = 0.8
"""Power of the lengths. The training texts overstate how much tokens differ in weight. On the dev pairs of
STS-B .8 is best. Held-out similarities agree as well with it, and the cosine loses .003."""
_EVEN_LEAST_LENGTH = 1e-9
_RIDGE = 1e-2

BATCH = 1024
LEARNING_RATE = 0.03
_BETAS = (0.9, 0.99)
_WARM_UP = 50  # steps
_LEAST_RATE = 0.02  # of the learning rate, at the end
_TEMPERATURE = 0.05  # of the neighbourhoods
_NEIGHBOURHOOD = 0.03  # weight of their loss next to the cosine's

_NESTED = (64, 128)
_GROWN_RATE = 1 / 3  # of the learning rate: most of the table is already in place
_TEXTS_PER_CALL = 4096


class TokenVectors(NamedTuple):
    """A static encoder, and its agreement with the teacher on the held-out texts."""

    tokenizer: Tokenizer
    table: Vectors  # as it will be read from the folder, (tokens, dimension)
    agreement: Agreement

    def model(self) -> SentenceTransformer:
        """Return the student as a sentence-transformers model."""
        embedding = StaticEmbedding(self.tokenizer, embedding_weights=self.table)
        return SentenceTransformer(modules=[embedding, Normalize()], device="cpu")


def learn_token_vectors(
    teacher: TextEncoder, texts: Texts, options: StaticOptions, *, progress: Progress = ignore_progress
) -> TokenVectors:
    """Learn token vectors whose mean agrees with a teacher, which needs a fast tokenizer."""
    tokenizer = _tokenizer_of(teacher)
    vectors = normalised(_encode(teacher, [*texts.training, *texts.held_out], progress))
    directions = principal_directions(vectors, options.dimension)
    targets = normalised(vectors @ directions)
    training, held_out = np.split(targets, [len(texts.training)])
    steps = max(1, options.steps // 2)

    def refine_stage(tokenizer: Tokenizer, table: Vectors, rate: float, stage: str) -> Vectors:
        bags = tokenize_bags(tokenizer, texts.training)
        refined = refine(
            table,
            bags,
            training,
            steps=steps,
            rate=rate,
            nested=[width for width in _NESTED if width < directions.shape[1]],
            seed=options.seed,
            progress=lambda step: progress(stage, step, steps),
        )
        return shrink_refinement(table, refined, bags.counts(len(table)))

    tokenizer = make_base_tokenizer(tokenizer, texts.training, size=options.vocabulary)
    counts = tokenize_bags(tokenizer, texts.training).counts(tokenizer.get_vocab_size())
    table = initial_vectors(teacher, tokenizer, directions, counts)
    table = refine_stage(tokenizer, table, 1.0, "refining tokens")
    tokenizer, table = grow(tokenizer, table, texts.training, training, size=options.vocabulary)
    table = refine_stage(tokenizer, table, _GROWN_RATE, "refining words and pairs")
    table = round_to_storage(even_lengths(table), options.dtype)
    found = normalised(tokenize_bags(tokenizer, texts.held_out).sums(table))
    return TokenVectors(tokenizer, table, measure_agreement(found, held_out))


def _tokenizer_of(encoder: TextEncoder) -> Tokenizer:
    """Return a copy of the teacher's tokenizer."""
    model = getattr(getattr(encoder, "encoder", encoder), "model", None)
    tokenizer = None if model is None else getattr(model[0], "tokenizer", None)
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if isinstance(tokenizer, Tokenizer):
        # Padding and truncation are states of the teacher's own tokenizer.
        plain = Tokenizer.from_str(tokenizer.to_str())
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


def make_base_tokenizer(teacher: Tokenizer, texts: Sequence[str], *, size: int) -> Tokenizer:
    """Make a Unigram tokenizer of the teacher's tokens and all characters, with their probabilities here.

    Beyond `size` tokens, those that the texts do not need are dropped first. Token 0 is the unknown one.
    """
    # Folds case and accents where the teacher does.
    probed = [[teacher.encode(text, add_special_tokens=False).ids for text in pair] for pair in _PROBES]
    lowercase, strip = (first == second for first, second in probed)
    normaliser = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip)
    letters = sorted({letter for text in texts for letter in normaliser.normalize_str(text)} - {" "})
    singles = [mark + letter for letter in letters for mark in ("", BLANK)]
    pieces = dict.fromkeys(piece for piece in chain(singles, _teacher_pieces(teacher)) if piece.strip(BLANK))
    fewest = _make_unigram(dict.fromkeys(pieces, -1.0), normaliser)
    encoded = fewest.encode_batch_fast(list(texts), add_special_tokens=False)
    used = Counter(chain.from_iterable(encoding.tokens for encoding in encoded))
    most = size - 2  # without the unknown token and the blank
    kept = sorted(pieces, key=lambda piece: -used[piece])[:most]
    total = used.total() + len(kept)
    scores = {piece: math.log((used[piece] + 1) / total) for piece in kept}
    inner = {piece: score + _INNER_SCORE for piece, score in scores.items() if not piece.startswith(BLANK)}
    return _make_unigram({**scores, **inner}, normaliser)


def add_pieces(tokenizer: Tokenizer, counts: Mapping[str, int], *, words: int) -> Tokenizer:
    """Add pieces after the tokens, with their counts among some words; each is used wherever it occurs."""
    vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
    scores: dict[str, float] = {piece: score for piece, score in vocabulary if piece != UNKNOWN}
    listed = [_UNKNOWN_SCORE, *scores.values()]
    parts = tokenizer.encode_batch_fast([piece_text(piece) for piece in counts], add_special_tokens=False)
    for (piece, count), encoding in zip(counts.items(), parts, strict=True):
        least = sum(listed[token] for token in encoding.ids) + _MARGIN
        scores[piece] = max(math.log(count / words), least)
    return _make_unigram(scores, tokenizer.normalizer)


def find_pieces(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the candidate tokens of each text: words that are not tokens, and pairs of adjacent words."""
    known = tokenizer.get_vocab()
    for text in texts:
        found = []
        for clause in _SIGN.split(tokenizer.normalizer.normalize_str(text)):
            words = [BLANK + word for word in clause.split()]
            found += [word for word in words if word not in known]
            found += map("".join, pairwise(words))
        yield found


def list_pieces(tokenizer: Tokenizer) -> list[str]:
    """Return a tokenizer's tokens in the order of their numbers."""
    numbers = tokenizer.get_vocab()
    return sorted(numbers, key=numbers.__getitem__)


def piece_text(piece: str) -> str:
    """Return a piece as a reader would write it."""
    return piece.replace(BLANK, " ").strip()


def _teacher_pieces(teacher: Tokenizer) -> Iterator[str]:
    """Yield the teacher's tokens in their order, with a blank before each that begins a word."""
    tokens = [token for token in list_pieces(teacher) if not _SPECIAL.fullmatch(token)]
    if any(token.startswith(_BEGINS) for token in tokens):
        yield from (BLANK + token[1:] if token.startswith(_BEGINS) else token for token in tokens)
    else:
        yield from (token[2:] if token.startswith("##") else BLANK + token for token in tokens)


def _make_unigram(scores: Mapping[str, float], normaliser: normalizers.Normalizer) -> Tokenizer:
    pieces = {BLANK: _BLANK_SCORE, **scores}
    tokenizer = Tokenizer(models.Unigram([(UNKNOWN, _UNKNOWN_SCORE), *pieces.items()], unk_id=0))
    tokenizer.normalizer = normaliser
    tokenizer.pre_tokenizer = CLAUSES
    return tokenizer


def grow(
    tokenizer: Tokenizer, table: Vectors, texts: Sequence[str], targets: Vectors, *, size: int
) -> tuple[Tokenizer, Vectors]:
    """Add the pieces that would explain most of what the token vectors do not, up to `size` tokens.

    A new piece starts as the sum of its parts, so that the direction of no text's vector changes yet.
    """
    counts: Counter[str] = Counter()
    for found in find_pieces(tokenizer, texts):
        counts.update(found)
    pieces = [piece for piece, count in counts.items() if count >= MIN_COUNT]
    room = size - tokenizer.get_vocab_size()
    if room <= 0 or not pieces:
        return tokenizer, table
    incidence = _count_pieces(tokenizer, texts, pieces)
    gain = _estimate_gains(incidence, tokenize_bags(tokenizer, texts).sums(table), targets)
    best = [int(row) for row in np.argsort(-gain, kind="stable")[:room] if gain[row] > 0]
    chosen = {pieces[row]: counts[pieces[row]] for row in best}
    parts = tokenize_bags(tokenizer, [piece_text(piece) for piece in chosen])
    larger = add_pieces(tokenizer, chosen, words=sum(len(text.split()) for text in texts))
    return larger, np.concatenate([table, parts.sums(table)])


def _estimate_gains(incidence: sparse.csr_matrix, sums: Vectors, targets: Vectors) -> NDArray[np.float64]:
    """Estimate how much a vector of its own for each piece would add to the sum of all cosines.

    The square of a mean gradient also counts chance. That part is the mean of the squares, and is subtracted.
    """
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _LEAST_LENGTH)
    directions = sums / lengths
    cosines = (directions * targets).sum(axis=1, keepdims=True)
    gradients = (targets - cosines * directions) / lengths  # of each cosine, by the sum of token vectors
    by_piece = incidence.T.tocsr()
    squares = np.asarray(by_piece @ (gradients**2).sum(axis=1), dtype=np.float64)
    curvature = np.asarray(by_piece @ (1 / lengths[:, 0] ** 2), dtype=np.float64)
    both = (np.asarray(by_piece @ gradients, dtype=np.float64) ** 2).sum(axis=1)
    gain: NDArray[np.float64] = (both - squares) / (curvature + _GAIN_PRIOR * np.mean(1 / lengths**2))
    return gain


def _count_pieces(tokenizer: Tokenizer, texts: Sequence[str], pieces: Sequence[str]) -> sparse.csr_matrix:
    """Count how often each piece occurs in each text, (texts, pieces)."""
    places = {piece: place for place, piece in enumerate(pieces)}
    columns: list[int] = []
    starts = [0]
    for found in find_pieces(tokenizer, texts):
        columns += [places[piece] for piece in found if piece in places]
        starts.append(len(columns))
    counted = sparse.csr_matrix(
        (np.ones(len(columns), np.float32), columns, starts), shape=(len(texts), len(pieces))
    )
    counted.sum_duplicates()
    return counted


def principal_directions(vectors: Vectors, dimension: int) -> Vectors:
    """Return the orthogonal directions with most energy, largest first, (width, dimension)."""
    _, directions = np.linalg.eigh((vectors.T @ vectors).astype(np.float64))
    kept: Vectors = np.ascontiguousarray(directions[:, ::-1][:, :dimension], dtype=np.float32)
    return kept


def initial_vectors(
    teacher: TextEncoder, tokenizer: Tokenizer, directions: Vectors, counts: NDArray[np.int64]
) -> Vectors:
    """Return the teacher's vector of each token as a text, frequent ones short, (tokens, dimension)."""
    texts = ["" if piece == UNKNOWN else piece_text(piece) for piece in list_pieces(tokenizer)]
    vectors = normalised(teacher.encode(texts)) @ directions
    vectors[[not text for text in texts]] = 0  # the unknown token and the blank mean nothing
    shares = (counts + 1) / (counts.sum() + len(counts))
    weighted: Vectors = (vectors * (ZIPF / (ZIPF + shares))[:, None]).astype(np.float32)
    return weighted


def refine(
    table: Vectors,
    bags: Bags,
    targets: Vectors,
    *,
    steps: int,
    rate: float = 1.0,
    nested: Sequence[int] = (),
    seed: int = 0,
    progress: Callable[[int], None] = lambda step: None,
) -> Vectors:
    """Raise the cosine between the mean of a text's token vectors and the teacher's vector of it.

    Only the direction counts, so the length of a token's vector becomes its weight in the mean. A small part
    of the loss asks that each text has the same neighbours in its batch as with the teacher. The leading
    `nested` dimensions count as much as all; tokens that occur in no text stay.
    """
    generator = np.random.default_rng(seed)
    weights = torch.nn.Parameter(torch.from_numpy(table.copy()))
    optimiser = torch.optim.Adam([weights], lr=rate * LEARNING_RATE, betas=_BETAS, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    widths = [*nested, table.shape[1]]
    order = np.empty(0, dtype=np.intp)
    for step in range(steps):
        if len(order) < min(BATCH, len(bags)):
            order = generator.permutation(len(bags))
        drawn, order = order[:BATCH], order[BATCH:]
        means = bags.select(drawn).pool(weights)
        wanted = torch.from_numpy(targets[drawn])
        losses = [1 - _cosines(means[:, :width], wanted[:, :width]).mean() for width in widths]
        loss = torch.stack(losses).mean() + _NEIGHBOURHOOD * neighbourhood_loss(means, wanted)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        progress(step + 1)
    return weights.detach().numpy()


def neighbourhood_loss(means: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy between the teacher's and the student's neighbourhoods in a batch.

    Lin, Yang & Lin (2021), "In-Batch Negatives for Knowledge Distillation with Tightly-Coupled Teachers for
    Dense Retrieval", RepL4NLP. Of a single text, which does not have neighbours, it is 0.
    """
    own = torch.eye(len(means), dtype=torch.bool)
    teacher, student = (
        log_softmax((rows @ rows.T / _TEMPERATURE).masked_fill(own, -torch.inf), dim=1).masked_fill(own, 0.0)
        for rows in (normalize(wanted), normalize(means))
    )
    return -(teacher.exp().masked_fill(own, 0.0) * student).sum(dim=1).mean()


def _cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (normalize(first) * normalize(second)).sum(dim=1)


def _rate(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / _WARM_UP) * max(_LEAST_RATE, 1 - step / steps)


def shrink_refinement(start: Vectors, refined: Vectors, counts: NDArray[np.int64]) -> Vectors:
    """Trust the refinement of a token in proportion to the texts that contain it.

    The refinement of a rare token is mostly chance. It is averaged with a common map, fitted by least squares
    from where all tokens started to where they went, which counts as much as `PRIOR` texts.
    """
    seen = counts > 0
    before, after = start[seen], refined[seen]
    square = before.T @ before + _RIDGE * len(before) / before.shape[1] * np.eye(before.shape[1])
    mapped = start @ np.linalg.solve(square, before.T @ after).astype(np.float32)
    trust = (counts / (counts + PRIOR)).astype(np.float32)[:, None]
    both: Vectors = trust * refined + (1 - trust) * mapped
    return both


def even_lengths(table: Vectors) -> Vectors:
    """Bring the lengths of token vectors, which are their weights in a mean, nearer to each other."""
    lengths = np.maximum(np.linalg.norm(table, axis=1, keepdims=True), _EVEN_LEAST_LENGTH)
    nearer: Vectors = table * lengths ** np.float32(LENGTHS - 1)
    return nearer
