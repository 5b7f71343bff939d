"""The whole idea in minutes: a search adapted to its documents, an encoder before and after training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb._files import write_text
from sentemb.adaptation import Adapted, adapt
from sentemb.data.bundled_text import (
    BUNDLED_PAIRS,
    Question,
    bundled_pairs,
    bundled_questions,
    bundled_sentences_file,
    bundled_uses,
    stdlib_documents,
)
from sentemb.data.documents import Document
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation import compare, evaluate_pairs
from sentemb.evaluation.comparison import DRAWS, Difference
from sentemb.evaluation.resampling import bootstrap
from sentemb.evaluation.retrieval.metrics import query_scores
from sentemb.evaluation.systems import SetRuns, System
from sentemb.report.figures import curve_figure, interval_figure, svg_of
from sentemb.report.page import Answer, Page
from sentemb.report.table import ABSENT, Table
from sentemb.search import Hits, SearchIndex
from sentemb.training import resolve, train
from sentemb.training.progress import ConsoleProgress

SEARCH_ENCODER = "static-mini"
"""The bundled encoder that searches."""
DEV, TEST = "dev", "test"
_KEYWORD, _HYBRID, _ADAPTED = "keyword", "hybrid", "adapted hybrid"
_SPLITS = {TEST: "held-out", DEV: "dev"}
_METRICS = {
    "hit@10": "questions with a relevant document in the first ten hits, %",
    "recall@10": "",
    "mrr@10": "MRR@10 x 100",
}  # with the label of the axis, of those that are drawn
_DEPTH = 10
_SHOWN = 6  # questions of the page, each with three hits
# What was chosen for sg-bert-mini on STS-B's dev set; any other base is trained with the paper's values.
_CHOSEN: dict[str, dict[str, Any]] = {
    "bert-mini": {"learning_rate": 1.5e-4, "loss_options": {"temperature": 0.02, "drift_weight": 0.01}}
}


class Estimate(NamedTuple):
    """A mean over questions x 100, with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True)
class Answers:
    """Results of all search modes."""

    questions: list[Question]
    # The ten best of each question, by mode; the last mode is the recommended one.
    hits: dict[str, list[Hits]]
    scores: dict[tuple[str, str, str], Estimate]  # by search mode, split and metric
    gain: Difference  # in hit@10 on `test`, of the last mode over keyword search

    @property
    def ranks(self) -> dict[str, list[int]]:
        """The rank of each question's first relevant document, by search mode; 0 if it is not found."""
        return {
            way: [
                next((rank for rank, hit in enumerate(hits, 1) if hit.id in question.answers), 0)
                for question, hits in zip(self.questions, found, strict=True)
            ]
            for way, found in self.hits.items()
        }

    def verdict(self) -> str:
        """Summarize the score of the last search mode and its difference from keyword search."""
        way = [*self.hits][-1]
        found, low, high = self.scores[way, TEST, "hit@10"]
        less, more = self.gain.interval or (self.gain.size, self.gain.size)
        return (
            f"{way.capitalize()} search finds a relevant document among the first ten hits for "
            f"{found:.0f}% of {self.gain.items} held-out questions (95% interval {low:.0f} to {high:.0f}). "
            f"The difference from keyword search is {self.gain.size:+.0f} points ({less:+.0f} to "
            f"{more:+.0f}), p = {self.gain.p:.2g}."
        )

    def table(self, *splits: str) -> Table:
        """Return the scores of each search mode on some of the questions."""
        rows = tuple(
            (way, _SPLITS[split], *(str(self.scores[way, split, metric]) for metric in _METRICS))
            for split in splits
            for way in self.hits
        )
        notes = (
            "hit@10: questions with a relevant document among the first ten hits; recall@10: share of the "
            "relevant documents that are among them; MRR@10: mean of 1 / rank of the first relevant one. All "
            "x 100, with 95% intervals over the questions.",
            "The document texts and the hybrid weights were chosen on the dev questions.",
        )
        return Table("", ("search", "questions", "hit@10", "recall@10", "MRR@10"), rows, notes=notes, names=2)


def search_in_all_modes(
    documents: Sequence[Document], index: SearchIndex, *, adapted: SearchIndex | None = None
) -> Answers:
    """Search with all questions in every mode; hybrid search is fitted on the questions of `dev`."""
    known = {document.id for document in documents}
    questions = []
    for question in bundled_questions():
        if answers := tuple(name for name in question.answers if name in known):  # in this version of Python
            questions.append(question._replace(answers=answers))
    dev = [question for question in questions if question.split == DEV]
    for one in filter(None, (index, adapted)):
        one.fit([question.text for question in dev], [question.answers for question in dev])
    texts = [question.text for question in questions]
    dense = index.manifest.encoder.name
    hits = {
        _KEYWORD: index.search(texts, _DEPTH, mode="keyword"),
        dense: index.search(texts, _DEPTH),
        _HYBRID: index.search(texts, _DEPTH, mode="hybrid"),
    }
    if adapted is not None:
        hits[_ADAPTED] = adapted.search(texts, _DEPTH, mode="hybrid")
    scores: dict[tuple[str, str, str], Estimate] = {}
    on_test = []
    for way, split in product(hits, (DEV, TEST)):
        asked = [(one, found) for one, found in zip(questions, hits[way], strict=True) if one.split == split]
        judged = [(place, name) for place, (one, _) in enumerate(asked) for name in one.answers]
        ranked = [[hit.id for hit in found] for _, found in asked]
        ranks = np.array(
            [ranked[place].index(name) + 1 if name in ranked[place] else 0 for place, name in judged]
        )
        gold = np.array([(place, 1) for place, _ in judged])
        values = {metric: query_scores(metric, ranks, gold) for metric in _METRICS}
        scores |= {(way, split, metric): _estimate(metric, own) for metric, own in values.items()}
        if split == TEST and way in (_KEYWORD, [*hits][-1]):
            runs = SetRuns(np.zeros(len(asked)), values["hit@10"][None], content="")
            on_test.append(System(way, "hit@10", (None,), {"questions": runs}))
    return Answers(questions, hits, scores, compare(*on_test).headline)


def _estimate(metric: str, values: npt.NDArray[np.float64]) -> Estimate:
    generator = np.random.default_rng(0)
    drawn = bootstrap(metric, values[None], np.zeros(len(values)), draws=DRAWS, generator=generator)
    low, high = np.quantile(drawn[0], (0.025, 0.975))
    return Estimate(*(100 * float(value) for value in (values.mean(), low, high)))


class Quickstart(NamedTuple):
    """Results of a quickstart."""

    answers: Answers
    adapted: Adapted
    training: Table  # the scores before and after


def run_quickstart(
    base: str,
    output: Path,
    *,
    model: str = SEARCH_ENCODER,
    seed: int = 1,
    commands: Sequence[str] = (),
    progress: ConsoleProgress,
) -> Quickstart:
    """Adapt a search to the documentation of the standard library, train SG-OPT, and evaluate both.

    The output folder gets the documents (`documents.jsonl`), the models `adapted` and `model`, the `index`
    with the adapted encoder if that is better, and the page with all results (`index.html`), which also shows
    commands for the user's own file. The trained model has the weights with the best score on the bundled
    pairs, which its table reports as well.
    """
    progress.announce("indexing the documentation of the standard library")
    documents = list(stdlib_documents())
    lines = ({"id": one.id, "text": one.text, **one.metadata} for one in documents)
    write_text(output / "documents.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    index = SearchIndex.build(documents, model)
    progress.announce(f"adapting {index.manifest.encoder.name} to the documentation, without labels")
    adapted = adapt(documents, model, output / "adapted", seeds=(seed,), progress=progress)
    better = SearchIndex.build(documents, output / "adapted") if adapted.helped else None
    progress.announce("searching with the bundled questions")
    answers = search_in_all_modes(documents, index, adapted=better)
    (better or index).save(output / "index")

    def spearman(encoder: TextEncoder | Path) -> str:
        return f"{evaluate_pairs(encoder, [bundled_pairs()]).score(BUNDLED_PAIRS):.2f}"

    progress.announce(f"evaluating {base} before training")
    rows = [
        ("before training", pooling, spearman(load_encoder(base, pooling=pooling)))
        for pooling in ("cls", "mean")
    ]
    progress.announce("training SG-OPT")
    trained = output / "model"
    overrides = {
        "base": base,
        "data": str(bundled_sentences_file()),
        "dev": BUNDLED_PAIRS,
        "output": str(trained),
        "eval_steps": 25,
        "stopping": "none",
        "seeds": (seed,),
        **_CHOSEN.get(base, {}),
    }
    train(resolve("sg-opt", overrides=overrides), progress=progress)
    rows.append(("after SG-OPT", "cls", spearman(trained)))
    training = Table("Before and after", ("encoder", "pooling", "Spearman x 100"), tuple(rows), names=2)
    made = Quickstart(answers, adapted, training)
    page = _page(made, commands, documents=len(documents), base=Path(base).name, trained=trained, seed=seed)
    write_text(output / "index.html", page)
    return made


def _page(
    made: Quickstart, commands: Sequence[str], *, documents: int, base: str, trained: Path, seed: int
) -> str:
    """Return the page: the searches, the training, commands for the user's own file, and all questions."""
    page, answers = Page("sentemb quickstart"), made.answers
    page.heading("Questions about Python's standard library")
    page.text(answers.verdict(), style="verdict")
    page.text(
        f"The documents describe {documents:,} functions, classes and modules of this Python version: the "
        f"beginning of their documentation and, for {len(bundled_uses()):,} of them, typical uses. The "
        f"{len(answers.questions)} questions are in a user's words. The uses were written without knowing "
        "the questions, and do not contain any of them."
    )
    page.text(f"{made.adapted.base}, adapted to these documents without labels: {made.adapted.verdict()}.")
    charts = {}
    for metric, label in _METRICS.items():
        if label:
            estimates = {way: answers.scores[way, TEST, metric] for way in answers.hits}
            charts[f"{label} by search method"] = svg_of(interval_figure(estimates, x_label=label))
    page.charts(charts)
    page.table(answers.table(TEST, DEV))
    page.heading("Results next to each other")
    for place, question in enumerate(answers.questions[:_SHOWN]):
        found = {way: hits[place][:3] for way, hits in answers.hits.items()}
        page.answers(
            question.text,
            {
                way: [
                    Answer(str(hit.id), hit.text.partition(": ")[2], hit.id in question.answers)
                    for hit in hits
                ]
                for way, hits in found.items()
            },
        )
    page.heading("Training without labels")
    page.text(
        "Self-guided contrastive training (SG-OPT) turns a pretrained language model into a sentence "
        "encoder, using only unlabelled sentences."
    )
    page.table(made.training)
    page.text(
        f"SG-OPT from {base}, seed {seed}, scored on the {len(bundled_pairs().gold)} sentence pairs bundled "
        "with sentemb. This is not a benchmark: the pairs have a single annotator, and they also selected "
        "the checkpoint",
        style="note",
    )
    score = "eval_dev_spearman_cosine"
    lines = (trained / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [entry for entry in map(json.loads, lines) if score in entry]
    curve = [float(entry["step"]) for entry in entries], [100 * float(entry[score]) for entry in entries]
    figure = curve_figure({"SG-OPT": curve}, x_label="optimizer step", y_label="Spearman x 100")
    page.charts({"Spearman correlation on the bundled pairs during training": svg_of(figure)})
    page.heading("The same with your own file")
    page.commands(*commands)
    page.heading("All questions")
    ranks = [*answers.ranks.values()]
    rows = tuple(
        (one.text, _SPLITS[one.split], ", ".join(one.answers), *(str(own[place] or ABSENT) for own in ranks))
        for place, one in enumerate(answers.questions)
    )
    note = f"Rank of the first relevant document; {ABSENT} if it is not among the first ten hits."
    header = ("question", "split", "relevant documents", *answers.hits)
    folded = f"All {len(rows)} questions with the rank of the first relevant document"
    page.table(Table("", header, rows, notes=(note,), names=3), folded=folded)
    return page.html()
