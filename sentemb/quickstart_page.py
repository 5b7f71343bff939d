"""The page of a quickstart: what the searches found, and what training changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from sentemb.adaptation import Adapted
from sentemb.data.bundled_text import bundled_pairs, bundled_uses
from sentemb.encoding import load_encoder
from sentemb.quickstart_search import DEV, METRICS, TEST, Answers
from sentemb.report.figures import curve_figure, interval_figure, svg_of
from sentemb.report.maps import map_figure, project_to_plane
from sentemb.report.page import Answer, Page
from sentemb.report.table import ABSENT, Table

# Pairs that mean the same are joined by a line on the map.
_SAME_MEANING = 4.0
_SHOWN = 6  # questions, the first that were written
_SPLITS = {TEST: "held-out", DEV: "dev"}
_MEANING = (
    "hit@10: questions with a relevant document among the first ten hits; recall@10: share of the relevant "
    "documents that are among them; MRR@10: mean of 1 / rank of the first relevant one. All x 100, with 95% "
    "intervals over the questions."
)


def write_search(page: Page, answers: Answers, adapted: Adapted) -> None:
    """Add the sections on search."""
    page.heading("Questions about Python's standard library")
    page.text(answers.verdict(), style="verdict")
    page.text(
        f"The documents describe {answers.documents:,} functions, classes and modules of this Python "
        "version: "
        f"the beginning of their documentation and, for {len(bundled_uses()):,} of them, typical uses. The "
        f"{len(answers.questions)} questions are in a user's words. The uses were written without knowing "
        "the "
        "questions, and do not contain any of them."
    )
    page.text(f"{adapted.base}, adapted to these documents without labels: {adapted.verdict()}.")
    page.charts(
        {
            f"{name} by search method": svg_of(
                interval_figure(
                    {way: answers.scores[way, TEST, metric] for way in answers.ways}, x_label=name
                )
            )
            for metric, name in (
                ("hit@10", "questions with a relevant document in the first ten hits, %"),
                ("mrr@10", "MRR@10 x 100"),
            )
        }
    )
    page.table(search_table(answers))
    page.heading("Results next to each other")
    for place, question in enumerate(answers.questions[:_SHOWN]):
        page.answers(
            question.text,
            {
                way: [
                    Answer(str(hit.id), hit.text.partition(": ")[2], hit.id in question.answers)
                    for hit in hits[place]
                ]
                for way, hits in answers.hits.items()
            },
        )


def write_all_questions(page: Page, answers: Answers) -> None:
    """Add every question with the rank of its first right answer."""
    rows = tuple(
        (
            question.text,
            _SPLITS[question.split],
            ", ".join(question.answers),
            *(str(answers.ranks[way][place] or ABSENT) for way in answers.ways),
        )
        for place, question in enumerate(answers.questions)
    )
    page.heading("All questions")
    header = ("question", "split", "relevant documents", *answers.ways)
    note = f"Rank of the first relevant document; {ABSENT} if it is not among the first ten hits."
    page.table(
        Table("", header, rows, notes=(note,), names=3),
        folded=f"All {len(rows)} questions with the rank of the first relevant document",
    )


def search_table(answers: Answers, *, splits: Sequence[str] = (TEST, DEV)) -> Table:
    """The scores of each way to search."""
    rows = tuple(
        (way, _SPLITS[split], *(str(answers.scores[way, split, metric]) for metric in METRICS))
        for split in splits
        for way in answers.ways
    )
    header = ("search", "questions", *(metric.replace("mrr", "MRR") for metric in METRICS))
    fitted = "The document texts and the hybrid weights were chosen on the dev questions."
    return Table("", header, rows, notes=(_MEANING, fitted), names=2)


def write_training(page: Page, base: str, model: Path, table: Table, *, seed: int) -> None:
    """Add the sections on self-guided training."""
    page.heading("Training without labels")
    page.text(
        "Self-guided contrastive training (SG-OPT) turns a pretrained language model into a sentence "
        "encoder, "
        "using only unlabelled sentences."
    )
    page.table(table)
    page.text(
        f"SG-OPT from {Path(base).name}, seed {seed}, scored on the {len(bundled_pairs().gold)} sentence "
        "pairs "
        "bundled with sentemb. This is not a benchmark: the pairs have a single annotator, and they also "
        "selected "
        "the checkpoint",
        style="note",
    )
    steps, scores = _learning_curve(model)
    curve = curve_figure({"SG-OPT": (steps, scores)}, x_label="optimizer step", y_label="Spearman x 100")
    page.charts({"Spearman correlation on the bundled pairs during training": svg_of(curve)})
    page.heading("The sentences before and after")
    page.text(
        "Each point is a sentence, colored by domain. A line joins two sentences with the same meaning."
    )
    page.charts({f"Map of the sentences {title}": svg_of(one) for title, one in _maps(base, model).items()})


def _learning_curve(model: Path) -> tuple[list[float], list[float]]:
    """Steps and dev scores of a run."""
    lines = (model / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [entry for entry in map(json.loads, lines) if "eval_dev_spearman_cosine" in entry]
    return (
        [float(entry["step"]) for entry in entries],
        [100 * float(entry["eval_dev_spearman_cosine"]) for entry in entries],
    )


def _maps(base: str, model: Path) -> dict[str, Figure]:
    """The sentences of the pairs before and after training, a figure each."""
    pairs = bundled_pairs()
    rows: dict[str, int] = {}
    groups: list[str] = []
    links: list[tuple[int, int]] = []
    for subset in pairs.subsets:
        for position in range(subset.start, subset.stop):
            ends = []
            for text in (pairs.first[position], pairs.second[position]):
                if text not in rows:
                    rows[text] = len(rows)
                    groups.append(subset.name)
                ends.append(rows[text])
            if pairs.gold[position] >= _SAME_MEANING:
                links.append((ends[0], ends[1]))
    encoders = {
        "before training, [CLS]": load_encoder(base, pooling="cls"),
        "after SG-OPT, [CLS]": load_encoder(model),
    }
    return {
        title: map_figure({title: project_to_plane(encoder.encode(list(rows)))}, groups, links)
        for title, encoder in encoders.items()
    }
