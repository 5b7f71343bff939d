"""Documents that are kept from training: some choose the weights, others give the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sentence_transformers import SentenceTransformer

from sentemb._compat import BaseEvaluator, Normalize
from sentemb.adaptation.pairs import allows_pair
from sentemb.data.generated_queries import KINDS, QUOTE, generate_queries
from sentemb.data.own_documents import OwnDocument, split_documents
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import NonFiniteError, load_encoder
from sentemb.encoding.encoder import Role, Vectors, normalised
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.retrieval.searchers import DenseSearcher
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import RETRIEVAL

FEWEST_DOCUMENTS = 100
"""With fewer nothing could be told of the result."""
_SHARE, _LEAST, _MOST = 0.15, 30, 400  # of the documents, and how many, each of the two parts has
_DEV = (100, 400)  # queries of each kind, and documents that are searched
_TEST = (250, 1000)


class Parts(NamedTuple):
    """The documents in three parts.

    Attributes:
        train: What pairs are drawn from.
        dev: Queries of each kind that choose the weights.
        test: Queries of each kind for the verdict. The words of one kind, quotes, are still in their
            documents, as some words of users' queries are: where they are not found better, what was learned
            is how documents are built, not what they say.
    """

    train: list[OwnDocument]
    dev: list[RetrievalSet]
    test: list[RetrievalSet]


def hold_out(documents: Sequence[OwnDocument], *, language: str, seed: int) -> Parts:
    """Divide documents; queries are cut out of those that are held out, and training documents stand beside.

    Raises:
        InputError: There are fewer than 100 documents, or too few that a query can be cut from.
    """
    if len(documents) < FEWEST_DOCUMENTS:
        raise InputError(
            f"too few documents to tell whether adaptation helps: {len(documents)}",
            f"give {FEWEST_DOCUMENTS} or more; a document a line or row, or a file each",
        )
    train, held = _divide(documents, seed)
    size = len(held) // 2
    order = np.random.default_rng(seed).permutation(len(held)).tolist()
    dev, test = ([held[number] for number in sorted(part)] for part in (order[:size], order[size:]))
    others = [train[number] for number in np.random.default_rng(seed).permutation(len(train))]
    parts = Parts(
        train,
        _tasks(dev, others, *_DEV, language, seed, KINDS),
        _tasks(test, others, *_TEST, language, seed, (*KINDS, QUOTE)),
    )
    if not parts.dev or not parts.test:
        raise InputError(
            "too few documents have six words or more, so that a query could be cut out of them",
            "give longer documents, or more of them",
        )
    return parts


def most_pairs_of_a_batch(documents: Sequence[OwnDocument], *, seed: int) -> int:
    """How many of the documents that are trained on allow a pair: a batch takes each at most once."""
    return max(1, sum(map(allows_pair, _divide(documents, seed)[0])))


def _divide(documents: Sequence[OwnDocument], seed: int) -> tuple[list[OwnDocument], list[OwnDocument]]:
    """Those to train on, and those that are held out for dev and test queries."""
    size = min(max(_LEAST, round(_SHARE * len(documents))), _MOST)
    return split_documents(documents, share=min(1.0, 2 * size / max(len(documents), 1)), seed=seed)


def _tasks(
    held: Sequence[OwnDocument],
    others: Sequence[OwnDocument],
    count: int,
    most: int,
    language: str,
    seed: int,
    kinds: Sequence[str],
) -> list[RetrievalSet]:
    """Queries cut out of held-out documents, which are searched among others."""
    return generate_queries(
        held,
        count=count,
        most=len(held),
        seed=seed,
        language=language,
        kinds=kinds,
        beside=others[: max(0, most - len(held))],
    )


class RememberingSearcher(DenseSearcher):
    """Encodes a text once, however many sets have it, in bfloat16 where that is faster."""

    def __init__(self, model: SentenceTransformer, *, name: str) -> None:
        super().__init__(load_encoder(model, precision="reduced"))
        self.name = name
        self.gives_units = isinstance(model[-1], Normalize)
        self._known: dict[tuple[str, str], Any] = {}

    def vectors(self, texts: Sequence[str], role: Role, *, progress: bool = False) -> Vectors:
        """See `DenseSearcher.vectors`."""
        new = list(dict.fromkeys(text for text in texts if (role, text) not in self._known))
        if new:
            found = super().vectors(new, role, progress=progress)
            self._known.update(((role, text), own) for text, own in zip(new, found, strict=True))
        return np.stack([self._known[role, text] for text in texts])


class WhitenedSearcher(DenseSearcher):
    """Searches by a linear map of another's vectors, which are encoded once for all maps.

    Args:
        base: The other.
        matrix: The map, (dimension, dimension), of vectors that are rows.
        name: What a record calls it.
    """

    def __init__(self, base: RememberingSearcher, matrix: Vectors, *, name: str) -> None:
        super().__init__(base.encoder)
        self.name = name
        self._base = base
        self._matrix = matrix

    def vectors(self, texts: Sequence[str], role: Role, *, progress: bool = False) -> Vectors:
        """See `DenseSearcher.vectors`."""
        mapped = self._base.vectors(texts, role, progress=progress) @ self._matrix
        # The map comes before the model's normalisation.
        return normalised(mapped) if self._base.gives_units else self._comparable(mapped)


def ranks_of(model: SentenceTransformer, tasks: Sequence[RetrievalSet], *, name: str) -> Record:
    """The record of a model on held-out queries."""
    return evaluate_retrieval(RememberingSearcher(model, name=name), tasks)


def mean_of(record: Record) -> float:
    """NDCG@10, x 100, the mean over the kinds of queries."""
    return float(np.mean([record.score(data.name, RETRIEVAL.measure) for data in record.datasets]))


class DevQueries(BaseEvaluator):
    """NDCG@10 on the dev queries, in [0, 1], the mean over their kinds, for the trainer.

    Args:
        tasks: The queries.
    """

    best_metric_key = "eval_dev_ndcg@10"

    def __init__(self, tasks: Sequence[RetrievalSet]) -> None:
        super().__init__()
        self.primary_metric = "dev_ndcg@10"
        self.tasks = tasks

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Evaluate; weights that have diverged score 0."""
        try:
            return {self.primary_metric: mean_of(ranks_of(model, self.tasks, name="dev")) / 100}
        except NonFiniteError:
            return {self.primary_metric: 0.0}
