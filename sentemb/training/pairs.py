"""A run that trains an encoder on pairs of a question and its passage, and says whether that helped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback

from sentemb.data import describe_source
from sentemb.data.labelled import LabelledTexts, text_key
from sentemb.data.pairs import NAMES, load_positive_pairs, pair_batches, paraphrase_components, split_pairs
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.encoding.encoder import Role
from sentemb.errors import InputError
from sentemb.evaluation.comparison import Difference, compare
from sentemb.evaluation.evaluator import RetrievalEvaluator
from sentemb.evaluation.resampling import Clusters
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.systems import System, system_of
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.cards import public_name
from sentemb.training.config import PairsConfig
from sentemb.training.objective import build_loss, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.session import Session
from sentemb.training.trainer import bucketed_by_length

_EVALUATIONS = 10  # of a run
_FEWEST_QUESTIONS = 100  # with fewer, nothing could be said about the result
_LEAST, _MOST = 30, 500  # questions of each of the two parts
_FEWEST_HELD_OUT = 10  # questions of a part, where these come in large groups
_DEV_PASSAGES, _TEST_PASSAGES = 1000, 5000  # that are searched
_ALL = "train on all questions with --held-out 0, which does not give a verdict"


class PairsSession(Session):
    """Trains on pairs, with the encoder's prompts of queries and documents, and negatives within the batch.

    The base as shipped is the result where nothing beats it on the dev questions, and where the test
    questions find what does to be significantly worse.
    """

    config: PairsConfig
    eval_on_start: ClassVar[bool] = True

    def __init__(self, config: PairsConfig, *, progress: ConsoleProgress | None) -> None:
        (seed,) = config.seeds
        pairs = load_positive_pairs(config.data, config.columns, data_dir=config.data_dir)
        self.pairs = len(pairs.rows)
        self.held_out: HeldOutPairs | None = None
        rows = pairs.rows
        if config.held_out:
            self.held_out = hold_out_pairs(rows, share=config.held_out, seed=seed)
            self.evaluator = RetrievalEvaluator(
                [self.held_out.dev], name="dev", exclude_same_ids=True, write_csv=False
            )
            rows = self.held_out.train
        batches = len(pair_batches(rows, config.batch_size, drop_last=False))
        if len(rows.column_names) == 2 and batches == len(rows) and config.batch_size > 1:
            raise InputError(
                f"all pairs in {config.data} have the same passage, so no batch contains a negative",
                "provide pairs with different passages",
            )
        steps = min(config.max_steps or batches * config.epochs, batches * config.epochs)
        self.eval_steps = config.eval_steps or -(-steps // _EVALUATIONS)
        super().__init__(config, progress=progress, rows=rows)
        self.loss = build_loss(config, bucketed_by_length(self.model))
        negatives_per_anchor(self.loss, batch_size=config.batch_size, columns=self.text_columns)  # or refuses
        self.remarks = (self._remark(pairs.names, pairs.repeated),)

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer; no batch has a known positive among the negatives."""
        trainer = super().make_trainer(callbacks, fresh=fresh)
        trainer.args.batch_sampler = pair_batches
        return trainer

    def role_of(self, column: str) -> Role | None:
        """Return what the texts of a column are in a search: questions come first."""
        return "query" if column == "anchor" else "document"

    def describe(self) -> dict[str, Any]:
        """Return for the record what is trained on what."""
        data = describe_source(self.config.data, data_dir=self.config.data_dir, rows=self.pairs)
        data["trained_on"] = len(self.rows or ())
        if self.held_out is not None:
            data["dev_questions"], data["test_questions"] = len(self.held_out.dev), len(self.held_out.test)
        return {"data": data, **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Compare with the base as shipped on the test questions."""
        if self.held_out is None:
            return kept
        kept = replace(kept, measure="NDCG@10", base_score=self.scores[0] if self.scores else None)
        finished = is_finished_encoder(self.config.base)
        if kept.step == 0 and (self.config.pooling is None or not finished):
            base = public_name(self.config.base)
            self.announce(
                f"no checkpoint beat the base on the dev questions, so {kept.output} is the base, {base}"
            )
            return kept
        # Another pooling than a finished encoder's own is a change, also before the first step.
        shipped = load(self.config.base, pooling=None if finished else self.config.pooling)  # type: ignore[arg-type]
        kept = replace(kept, test=compare_on_questions(shipped, self.model, self.held_out))
        if kept.is_worse and not self.config.use_last:
            self.model = shipped
            kept = replace(kept, step=0, dev_score=kept.base_score)
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return for the record how the weights were chosen, and how good they are."""
        return {
            "set": "held-out questions",
            "metric": kept.measure,
            "initial": scores[0] if scores else None,
            "base": kept.base_score,
            "test": None if kept.test is None else asdict(kept.test),
            "verdict": kept.verdict(),
        }

    def _remark(self, names: tuple[str, ...], repeated: int) -> str:
        text = f"{self.pairs:,} pairs from the columns {', '.join(names)}"
        if repeated:
            text += f", after removing {repeated:,} duplicates"
        if self.held_out is None:
            return text
        dev, test = len(self.held_out.dev), len(self.held_out.test)
        text += f": {len(self.rows or ()):,} for training, {dev:,} questions to select the checkpoint"
        text += f" and {test:,} for the verdict"
        if replaced := self.held_out.replaced:
            text += f"; {replaced:,} hard negatives that are held-out passages were replaced"
        return text


class HeldOutPairs(NamedTuple):
    """Pairs in three parts that share no question and no passage."""

    train: Dataset  # rows to train on, with the columns of all rows
    dev: RetrievalSet  # questions that choose the weights
    test: RetrievalSet  # questions for the verdict
    groups: npt.NDArray[np.int64]  # of each test question: those that share passages, also through others
    replaced: int  # hard negatives that are passages of held-out questions: others stand in for them


def hold_out_pairs(rows: Dataset, *, share: float, seed: int) -> HeldOutPairs:
    """Hold out two parts, each a share of the questions (30 to 500) with all that they share a text with.

    The passages that are searched are all of the rows, hard negatives among them, up to 1,000 for the dev
    questions and up to 5,000 for the verdict.
    """
    anchors, positives, *negatives = (list(rows[name]) for name in rows.column_names)
    questions = len({*map(text_key, anchors)})
    if questions < _FEWEST_QUESTIONS:
        raise InputError(
            f"{questions} questions are too few to measure whether training helps",
            f"provide at least {_FEWEST_QUESTIONS}, or {_ALL}",
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

    def system(model: SentenceTransformer, name: str) -> System:
        record = evaluate_retrieval(model, [held_out.test]).model_copy(update={"model": name})
        alone = system_of([record], name)
        return replace(alone, sets={key: replace(one, clusters=clusters) for key, one in alone.sets.items()})

    return compare(system(base, "base"), system(trained, "trained")).headline


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
    """Replace hard negatives that are held out by training passages that are not known positives."""
    anchors, passages, *negatives = (list(rows[name]) for name in rows.column_names)
    positives_of: dict[str, set[str]] = {}
    for anchor, passage in zip(anchors, passages, strict=True):
        positives_of.setdefault(text_key(anchor), set()).add(text_key(passage))
    replaced = 0
    for column in negatives:
        for place, text in enumerate(column):
            if text_key(text) in held_out:
                known, start = positives_of[text_key(anchors[place])], int(rng.integers(len(passages)))
                others = (passages[(start + step) % len(passages)] for step in range(len(passages)))
                if (other := next((one for one in others if text_key(one) not in known), None)) is None:
                    raise _hanging_together(len(passages))
                column[place] = other
                replaced += 1
    if not replaced:
        return rows, 0
    columns = dict(zip(rows.column_names, (anchors, passages, *negatives), strict=True))
    return Dataset.from_dict(columns), replaced


def _hanging_together(questions: int) -> InputError:
    return InputError(
        f"the {questions:,} questions share too many passages to hold some of them out",
        f"remove passages that answer most questions, or {_ALL}",
    )
