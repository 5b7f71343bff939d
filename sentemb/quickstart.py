"""The whole idea in minutes: a search adapted to its documents, an encoder before and after training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sentemb._commands import format_command
from sentemb._files import write_text
from sentemb.adaptation import Adapted, adapt
from sentemb.data.bundled_text import (
    BUNDLED_PAIRS,
    bundled_pairs,
    bundled_sentences_file,
    bundled_uses,
)
from sentemb.data.docstrings import stdlib_documents
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation import evaluate_pairs
from sentemb.modules.source import find_source
from sentemb.quickstart_search import DEV, METRICS, TEST, Answers, ask_everything
from sentemb.report.figures import curve_figure, interval_figure, map_figure, project_to_plane, svg_of
from sentemb.report.page import Answer, Page
from sentemb.report.table import ABSENT, Table
from sentemb.search import SearchIndex
from sentemb.training import TrainConfig, resolve, train
from sentemb.training.contrastive import load_rows
from sentemb.training.progress import ConsoleProgress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEARCH_ENCODER = "static-mini"
"""The bundled encoder that searches."""
# What was chosen for sg-bert-mini on STS-B's dev set; any other base is trained with the paper's values.
_CHOSEN: dict[str, dict[str, Any]] = {
    "bert-mini": {"learning_rate": 1.5e-4, "loss_options": {"temperature": 0.02, "drift_weight": 0.01}}
}
_SAME_MEANING = 4.0  # pairs that mean the same are joined by a line on the map
_SHOWN = 6  # questions, the first that were written
_SPLITS = {TEST: "held-out", DEV: "dev"}
_MEANING = (
    "hit@10: questions with a relevant document among the first ten hits; recall@10: share of the relevant "
    "documents that are among them; MRR@10: mean of 1 / rank of the first relevant one. All x 100, with 95% "
    "intervals over the questions."
)


class Score(NamedTuple):
    """A row of the table.

    Args:
        encoder: The evaluated encoder.
        pooling: Its pooling.
        spearman: Spearman correlation x 100 on the bundled pairs, all domains in one.
    """

    encoder: str
    pooling: str
    spearman: float


@dataclass(frozen=True)
class Quickstart:
    """Results of a quickstart.

    Args:
        encoder: The bundled encoder, or the requested one.
        adapted: Result of its adaptation to the documents of the search.
        answers: Results of the searches.
        scores: The table, before and after training.
        model: Folder of the trained encoder.
        index: Folder of the index, built with the adapted encoder if that is better.
        page: The page with all results.
    """

    encoder: str
    adapted: Adapted
    answers: Answers
    scores: tuple[Score, ...]
    model: Path
    index: Path
    page: Path

    def your_turn(self) -> tuple[str, ...]:
        """Return the commands for the user's own file."""
        yours = ("YOUR-FILE.csv", "--text-column", "text")
        return (
            format_command("adapt", *yours, "--base", self.encoder, "--output", "my-encoder"),
            format_command("index", "build", *yours, "--model", "my-encoder", "--output", "my-index"),
            format_command("index", "search", "my-index", "your question", "--mode", "hybrid"),
        )

    def table(self) -> Table:
        """Return the table of the training."""
        rows = tuple((one.encoder, one.pooling, f"{one.spearman:.2f}") for one in self.scores)
        return Table("Before and after", ("encoder", "pooling", "Spearman x 100"), rows, names=2)


def check_inputs(
    base: str,
    output: Path,
    *,
    model: str = SEARCH_ENCODER,
    data: str | None = None,
    column: str | None = None,
) -> None:
    """Check models and sentences before they are used and before an earlier quickstart is removed."""
    find_source(model)
    find_source(base)
    load_rows(_configuration(base, output, data=data, column=column, seed=1))


def run_quickstart(
    base: str,
    output: Path,
    *,
    model: str = SEARCH_ENCODER,
    data: str | None = None,
    column: str | None = None,
    seed: int = 1,
    progress: ConsoleProgress | None = None,
) -> Quickstart:
    """Adapt a search to the documentation of the standard library, train SG-OPT, and evaluate both.

    The documents are written to `documents.jsonl`, to try other commands on them. The model has the weights
    with the best score on the bundled pairs, which its table reports as well.
    """
    announce = (lambda text: None) if progress is None else progress.announce
    announce("indexing the documentation of the standard library")
    documents = list(stdlib_documents())
    lines = ({"id": one.id, "text": one.text, **one.metadata} for one in documents)
    write_text(output / "documents.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    index = SearchIndex.build(documents, model)
    announce(f"adapting {index.manifest.encoder.name} to the documentation, without labels")
    adapted = adapt(documents, model, output / "adapted", seeds=(seed,), progress=progress)
    better = SearchIndex.build(documents, output / "adapted") if adapted.helped else None
    announce("searching with the bundled questions")
    answers = ask_everything(documents, index, adapted=better)
    (better or index).save(output / "index")

    announce(f"evaluating {base} before training")
    scores = [
        Score("before training", "cls", _spearman(load_encoder(base, pooling="cls"))),
        Score("before training", "mean", _spearman(load_encoder(base, pooling="mean"))),
    ]
    announce("training SG-OPT")
    trained = output / "model"
    train(_configuration(base, output, data=data, column=column, seed=seed), progress=progress)
    scores.append(Score("after SG-OPT", "cls", _spearman(trained)))

    announce("drawing")
    place = (trained, output / "index", output / "index.html")
    made = Quickstart(model, adapted, answers, tuple(scores), *place)
    page = Page("sentemb quickstart")
    _write_search(page, answers, adapted)
    _write_training(page, base, trained, made.table(), seed=seed)
    page.heading("The same with your own file")
    page.commands(*made.your_turn())
    _write_all_questions(page, answers)
    write_text(made.page, page.html())
    return made


def _configuration(
    base: str, output: Path, *, data: str | None, column: str | None, seed: int
) -> TrainConfig:
    config: TrainConfig = resolve(
        "sg-opt",
        overrides={
            "base": base,
            "data": str(bundled_sentences_file()) if data is None else data,
            "columns": None if column is None else (column,),
            "dev": BUNDLED_PAIRS,
            "output": str(output / "model"),
            "eval_steps": 25,
            "stopping": "none",
            "seeds": (seed,),
            **_CHOSEN.get(base, {}),
        },
    )
    return config


def _spearman(encoder: TextEncoder | Path) -> float:
    return evaluate_pairs(encoder, [bundled_pairs()]).score(BUNDLED_PAIRS)


def search_table(answers: Answers, *, splits: Sequence[str] = (TEST, DEV)) -> Table:
    """Return the scores of each way to search."""
    rows = tuple(
        (way, _SPLITS[split], *(str(answers.scores[way, split, metric]) for metric in METRICS))
        for split in splits
        for way in answers.ways
    )
    header = ("search", "questions", *(metric.replace("mrr", "MRR") for metric in METRICS))
    fitted = "The document texts and the hybrid weights were chosen on the dev questions."
    return Table("", header, rows, notes=(_MEANING, fitted), names=2)


def _write_search(page: Page, answers: Answers, adapted: Adapted) -> None:
    """Add the sections on search."""
    page.heading("Questions about Python's standard library")
    page.text(answers.verdict(), style="verdict")
    page.text(
        f"The documents describe {answers.documents:,} functions, classes and modules of this Python "
        f"version: the beginning of their documentation and, for {len(bundled_uses()):,} of them, typical "
        f"uses. The {len(answers.questions)} questions are in a user's words. The uses were written without "
        "knowing the questions, and do not contain any of them."
    )
    page.text(f"{adapted.base}, adapted to these documents without labels: {adapted.verdict()}.")
    charts = {}
    for metric, name in (
        ("hit@10", "questions with a relevant document in the first ten hits, %"),
        ("mrr@10", "MRR@10 x 100"),
    ):
        estimates = {way: answers.scores[way, TEST, metric] for way in answers.ways}
        charts[f"{name} by search method"] = svg_of(interval_figure(estimates, x_label=name))
    page.charts(charts)
    page.table(search_table(answers))
    page.heading("Results next to each other")
    for place, question in enumerate(answers.questions[:_SHOWN]):
        shown = {
            way: [
                Answer(str(hit.id), hit.text.partition(": ")[2], hit.id in question.answers)
                for hit in hits[place]
            ]
            for way, hits in answers.hits.items()
        }
        page.answers(question.text, shown)


def _write_all_questions(page: Page, answers: Answers) -> None:
    """Add every question with the rank of its first relevant document."""
    rows = []
    for place, one in enumerate(answers.questions):
        ranks = (str(answers.ranks[way][place] or ABSENT) for way in answers.ways)
        rows.append((one.text, _SPLITS[one.split], ", ".join(one.answers), *ranks))
    page.heading("All questions")
    header = ("question", "split", "relevant documents", *answers.ways)
    note = f"Rank of the first relevant document; {ABSENT} if it is not among the first ten hits."
    folded = f"All {len(rows)} questions with the rank of the first relevant document"
    page.table(Table("", header, tuple(rows), notes=(note,), names=3), folded=folded)


def _write_training(page: Page, base: str, model: Path, table: Table, *, seed: int) -> None:
    """Add the sections on self-guided training."""
    page.heading("Training without labels")
    page.text(
        "Self-guided contrastive training (SG-OPT) turns a pretrained language model into a sentence "
        "encoder, using only unlabelled sentences."
    )
    page.table(table)
    page.text(
        f"SG-OPT from {Path(base).name}, seed {seed}, scored on the {len(bundled_pairs().gold)} sentence "
        "pairs bundled with sentemb. This is not a benchmark: the pairs have a single annotator, and they "
        "also selected the checkpoint",
        style="note",
    )
    lines = (model / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [entry for entry in map(json.loads, lines) if "eval_dev_spearman_cosine" in entry]
    steps = [float(entry["step"]) for entry in entries]
    scores = [100 * float(entry["eval_dev_spearman_cosine"]) for entry in entries]
    curve = curve_figure({"SG-OPT": (steps, scores)}, x_label="optimizer step", y_label="Spearman x 100")
    page.charts({"Spearman correlation on the bundled pairs during training": svg_of(curve)})
    page.heading("The sentences before and after")
    page.text(
        "Each point is a sentence, colored by domain. A line joins two sentences with the same meaning."
    )
    page.charts({f"Map of the sentences {title}": svg_of(one) for title, one in _maps(base, model).items()})


def _maps(base: str, model: Path) -> dict[str, Figure]:
    """Draw the sentences of the pairs before and after training."""
    pairs = bundled_pairs()
    rows: dict[str, int] = {}
    groups: list[str] = []
    links: list[tuple[int, int]] = []
    for subset in pairs.subsets:
        for position in range(subset.start, subset.stop):
            first, second = pairs.first[position], pairs.second[position]
            for text in (first, second):
                if text not in rows:
                    rows[text] = len(rows)
                    groups.append(subset.name)
            if pairs.gold[position] >= _SAME_MEANING:
                links.append((rows[first], rows[second]))
    before, after = load_encoder(base, pooling="cls"), load_encoder(model)
    return {
        title: map_figure({title: project_to_plane(encoder.encode(list(rows)))}, groups, links)
        for title, encoder in (("before training, [CLS]", before), ("after SG-OPT, [CLS]", after))
    }
