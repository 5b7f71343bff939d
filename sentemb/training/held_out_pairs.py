"""Pairs that are kept from training: some choose the weights, others give the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from datasets import Dataset
from sentence_transformers import SentenceTransformer

from sentemb.data.labelled import LabelledTexts, text_key
from sentemb.data.paraphrases import NAMES, paraphrase_components, split_pairs
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.errors import InputError
from sentemb.evaluation.comparison import Difference, compare
from sentemb.evaluation.resampling import Clusters
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.systems import System, system_of

FEWEST_QUESTIONS = 100
"""With fewer nothing could be told of the result."""
_LEAST, _MOST = 30, 500  # questions of each of the two parts
_FEWEST_HELD_OUT = 10  # questions of a part, where these come in large groups
_DEV_PASSAGES, _TEST_PASSAGES = 1000, 5000  # that are searched
_ALL = "train on all questions with --held-out 0, which does not give a verdict"


class HeldOutPairs(NamedTuple):
    """Pairs in three parts that share no question and no passage.

    Attributes:
        train: Rows to train on, with the columns of all rows.
        dev: Questions that choose the weights.
        test: Questions for the verdict.
        groups: Number of the group of each test question: those that share passages, directly or by way of
            others.
        replaced: Hard negatives that are passages of held-out questions: others stand in for them.
    """

    train: Dataset
    dev: RetrievalSet
    test: RetrievalSet
    groups: npt.NDArray[np.int64]
    replaced: int


def hold_out_pairs(rows: Dataset, *, share: float, seed: int) -> HeldOutPairs:
    """Set two parts of the questions aside, each with all that it shares a text with.

    The passages that are searched are all of the rows, hard negatives among them, up to 1,000 for the dev
    questions and up to 5,000 for the verdict. A question has as many relevant ones as rows pair it with.

    Args:
        rows: Columns `anchor`, `positive`, and any hard negatives.
        share: Of the questions, for each part; 30 at least and 500 at most.
        seed: Draws them.

    Returns:
        The parts.

    Raises:
        InputError: There are fewer than 100 questions, or too many hang together by texts that they share.
    """
    anchors, positives, *negatives = (list(rows[name]) for name in rows.column_names)
    questions = len({*map(text_key, anchors)})
    if questions < FEWEST_QUESTIONS:
        raise InputError(
            f"{questions} questions are too few to measure whether training helps",
            f"provide at least {FEWEST_QUESTIONS}, or {_ALL}",
        )
    size = min(max(_LEAST, round(share * questions)), _MOST) / questions
    data = LabelledTexts("pairs", "train", anchors, positives, np.ones(len(rows)), NAMES)
    groups = paraphrase_components(data)[:, 0]  # (n,)
    try:
        parts = split_pairs(data, seed=seed, dev=size, test=size)
    except InputError:
        raise _hanging_together(questions) from None
    for held in (parts.dev, parts.test):
        if len({text_key(anchors[row]) for row in held}) < _FEWEST_HELD_OUT:
            raise _hanging_together(questions)
    passages = list(dict.fromkeys([*positives, *(text for column in negatives for text in column)]))
    rng = np.random.default_rng(seed)
    others = [passages[place] for place in rng.permutation(len(passages))]
    dev, _ = _questions(anchors, positives, parts.dev, others, _DEV_PASSAGES, split="dev")
    test, firsts = _questions(anchors, positives, parts.test, others, _TEST_PASSAGES, split="test")
    held_out = {
        text_key(text) for row in (*parts.dev, *parts.test) for text in (anchors[row], positives[row])
    }
    train, replaced = _without(rows.select(parts.train), held_out, rng)
    return HeldOutPairs(train, dev, test, groups[firsts], replaced)


def compare_on_questions(
    base: SentenceTransformer, trained: SentenceTransformer, held_out: HeldOutPairs
) -> Difference:
    """Compare trained weights with the base by NDCG@10 on the test questions; groups of these are drawn."""
    numbers = np.unique(held_out.groups, return_inverse=True)[1]
    clusters = Clusters(numbers, int(numbers.max()) + 1)
    return compare(
        *(
            _system(model, name, held_out.test, clusters)
            for name, model in (("base", base), ("trained", trained))
        )
    ).headline


def _system(model: SentenceTransformer, name: str, questions: RetrievalSet, clusters: Clusters) -> System:
    record = evaluate_retrieval(model, [questions]).model_copy(update={"model": name})
    system = system_of([record], name)
    sets = {key: replace(one, clusters=clusters) for key, one in system.sets.items()}
    return replace(system, sets=sets)


def _questions(
    anchors: Sequence[str],
    positives: Sequence[str],
    held: npt.NDArray[np.integer],
    others: Sequence[str],
    most: int,
    *,
    split: str,
) -> tuple[RetrievalSet, list[int]]:
    """Return held-out questions among their own passages and others, and the first row of each question."""
    documents: dict[str, str] = {}
    firsts: dict[str, int] = {}
    judged: dict[str, dict[str, int]] = {}
    for row in held.tolist():
        question, passage = text_key(anchors[row]), text_key(positives[row])
        firsts.setdefault(question, row)
        documents.setdefault(passage, positives[row])
        judged.setdefault(question, {})[passage] = 1
    for text in others:
        if len(documents) >= most:
            break
        documents.setdefault(text_key(text), text)
    queries = {question: anchors[row] for question, row in firsts.items()}
    return retrieval_set(documents, queries, judged, name="held-out", split=split), list(firsts.values())


def _without(rows: Dataset, held_out: set[str], rng: np.random.Generator) -> tuple[Dataset, int]:
    """Replace hard negatives that are held out by training passages that are no known positives."""
    anchors, passages, *negatives = (list(rows[name]) for name in rows.column_names)
    positives_of: dict[str, set[str]] = {}
    for anchor, passage in zip(anchors, passages, strict=True):
        positives_of.setdefault(text_key(anchor), set()).add(text_key(passage))
    replaced = 0
    for column in negatives:
        for place, text in enumerate(column):
            if text_key(text) in held_out:
                column[place] = _other(passages, positives_of[text_key(anchors[place])], rng)
                replaced += 1
    if not replaced:
        return rows, 0
    columns = dict(zip(rows.column_names, (anchors, passages, *negatives), strict=True))
    return Dataset.from_dict(columns), replaced


def _other(passages: Sequence[str], known: set[str], rng: np.random.Generator) -> str:
    """Draw a passage that is not a known positive."""
    start = int(rng.integers(len(passages)))
    for place in range(len(passages)):
        text = passages[(start + place) % len(passages)]
        if text_key(text) not in known:
            return text
    raise _hanging_together(len(passages))


def _hanging_together(questions: int) -> InputError:
    return InputError(
        f"the {questions:,} questions share too many passages to hold some of them out",
        f"remove passages that answer most questions, or {_ALL}",
    )
