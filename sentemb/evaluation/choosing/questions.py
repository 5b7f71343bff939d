"""What systems are asked so that they can be ranked: judged queries, queries cut from documents, or pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from sentemb.data.own_documents import OwnDocument, read_own_documents
from sentemb.data.pseudo_queries import FEWEST
from sentemb.data.pseudo_tasks import KINDS, QUOTE, pseudo_tasks
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.retrieval.searchers import DenseSearcher, Searcher
from sentemb.evaluation.schema import Record
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.evaluation.systems import System, system_of, with_clusters

Basis = Literal["documents", "judged", "pairs"]


class Questions(NamedTuple):
    """Sets of queries over documents, or of pairs.

    Attributes:
        basis: Where they come from.
        measure: The metric of the answers.
        sets: Judged or cut queries.
        pairs: Scored pairs.
        texts: Documents, or sentences: what speed is measured on.
        own: All texts of the user, queries among them.
    """

    basis: Basis
    measure: str
    sets: Sequence[RetrievalSet]
    pairs: Sequence[ScoredPairs]
    texts: Sequence[str]
    own: Sequence[str]

    @property
    def language(self) -> str:
        """The code of the documents' language, for keyword search."""
        return self.sets[0].language if self.sets else "und"

    def answers(self, searcher: Searcher) -> Record:
        """The record of a system."""
        if not self.pairs:
            return evaluate_retrieval(searcher, self.sets)
        if not isinstance(searcher, DenseSearcher):
            raise InputError(
                f"{searcher.name} gives no similarity of two texts", "compare encoders by pairs, nothing else"
            )
        return evaluate_pairs(searcher.encoder, self.pairs)

    def system(self, record: Record, name: str) -> System:
        """A system by its record; queries of several kinds may be cut from the same documents."""
        system = replace(system_of([record], record.model, measure=self.measure), name=name)
        return with_clusters(system, self.sets) if self.basis == "documents" else system


def cut_from(
    texts: str | Path | Sequence[str],
    *,
    count: int,
    most: int,
    seed: int,
    text_column: str | None = None,
    title_column: str | None = None,
    data_dir: str | Path | None = None,
) -> Questions:
    """Queries that are cut from documents, each kind a set."""
    if isinstance(texts, (str, Path)):
        documents = read_own_documents(
            texts, text_column=text_column, title_column=title_column, data_dir=data_dir
        )
    else:
        documents = [OwnDocument(str(place), "", text) for place, text in enumerate(dict.fromkeys(texts))]
    sets = pseudo_tasks(documents, count=count, most=most, seed=seed, kinds=(*KINDS, QUOTE))
    if not sets:
        raise InputError(
            f"{len(documents)} documents are too few to cut {FEWEST} queries of a kind from them",
            "give more documents of two sentences or of six words and more, or judged queries (--judged)",
        )
    whole = [document.whole for document in documents]
    return Questions("documents", "ndcg@10", sets, (), whole, whole)


def judged_queries(judged: str | Path | RetrievalSet, data_dir: str | Path | None) -> Questions:
    """Queries that somebody has judged."""
    data = judged if isinstance(judged, RetrievalSet) else load_retrieval(judged, data_dir=data_dir)
    return Questions("judged", "ndcg@10", (data,), (), data.documents, [*data.documents, *data.queries])


def graded_pairs(pairs: str | Path, data_dir: str | Path | None) -> Questions:
    """Pairs of texts with gold similarities."""
    sets = load_sets([str(pairs)], data_dir=data_dir)
    texts = list(dict.fromkeys(text for one in sets for text in (*one.first, *one.second)))
    return Questions("pairs", "spearman", (), sets, texts, texts)
