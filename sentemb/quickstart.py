"""The whole idea in minutes: an encoder before and after self-guided training, and a search that answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from sentemb._files import write_text
from sentemb.data.bundled_text import bundled_pairs, bundled_pairs_file, bundled_sentences_file
from sentemb.data.docstrings import stdlib_documents
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation import evaluate_pairs
from sentemb.modules import Poolings
from sentemb.modules.source import find_source
from sentemb.report.curves import curve_figure
from sentemb.report.figures import svg_of
from sentemb.report.maps import map_figure, project_to_plane
from sentemb.report.page import Page
from sentemb.report.table import Table
from sentemb.search import Hit, SearchIndex
from sentemb.training import TrainConfig, resolve, train
from sentemb.training.progress import ConsoleProgress
from sentemb.training.rows import load_rows

QUERIES = (
    "how do I sort a dictionary by value",
    "remove a folder and everything in it",
    "wait for several threads to finish",
)
_HITS = 3
# What was chosen for sg-bert-mini on STS-B's dev set; any other base is trained with the paper's values.
_CHOSEN: dict[str, dict[str, Any]] = {
    "bert-mini": {"learning_rate": 1.5e-4, "loss_options": {"temperature": 0.02, "drift_weight": 0.01}}
}
# Pairs that mean the same are joined by a line on the map.
_SAME_MEANING = 4.0


class Score(NamedTuple):
    """A row of the table.

    Args:
        encoder: What was evaluated.
        pooling: How its sentence vector is made.
        spearman: Spearman correlation x 100 on the bundled pairs, all domains in one.
    """

    encoder: str
    pooling: str
    spearman: float


@dataclass(frozen=True)
class Quickstart:
    """What a quickstart made.

    Args:
        scores: The table, before and after training.
        hits: Query to its nearest documents.
        model: Folder of the trained encoder.
        index: Folder of the index.
        page: The page with the table, the curve, the map and the answers.
    """

    scores: tuple[Score, ...]
    hits: dict[str, list[Hit]]
    model: Path
    index: Path
    page: Path


def check_inputs(base: str, output: Path, *, data: str | None = None, column: str | None = None) -> None:
    """Look at a base and at sentences before time is spent on them, or an earlier quickstart is removed."""
    find_source(base)
    load_rows(_configuration(base, output, data=data, column=column, seed=1))


def run_quickstart(
    base: str,
    output: Path,
    *,
    data: str | None = None,
    column: str | None = None,
    seed: int = 1,
    progress: ConsoleProgress | None = None,
) -> Quickstart:
    """Train SG-OPT from a raw encoder, evaluate both, index the standard library's documentation, search it.

    The model has the weights that were best on the bundled pairs, of which the table is made too.
    """
    poolings: tuple[Poolings, ...] = ("cls", "mean")
    announce = (lambda text: None) if progress is None else progress.announce
    announce(f"evaluating {base} before training")
    scores = [
        Score("before training", pooling, _spearman(load_encoder(base, pooling=pooling)))
        for pooling in poolings
    ]

    announce("training SG-OPT")
    model = output / "model"
    train(_configuration(base, output, data=data, column=column, seed=seed), progress=progress)
    scores.append(Score("after SG-OPT", "cls", _spearman(model)))

    announce("indexing the documentation of the standard library")
    index = SearchIndex.build(stdlib_documents(), str(model))
    index.save(output / "index")
    hits = dict(zip(QUERIES, index.search(list(QUERIES), _HITS), strict=True))

    announce("drawing")
    page = output / "index.html"
    write_text(page, _page(base, model, scores, hits, seed=seed))
    return Quickstart(tuple(scores), hits, model, output / "index", page)


def _configuration(
    base: str, output: Path, *, data: str | None, column: str | None, seed: int
) -> TrainConfig:
    config: TrainConfig = resolve(
        "sg-opt",
        overrides={
            "base": base,
            "data": str(bundled_sentences_file()) if data is None else data,
            "columns": None if column is None else (column,),
            "dev": str(bundled_pairs_file()),
            "output": str(output / "model"),
            "eval_steps": 25,
            "stopping": "none",
            "seeds": (seed,),
            **_CHOSEN.get(base, {}),
        },
    )
    return config


def _spearman(encoder: TextEncoder | Path) -> float:
    return evaluate_pairs(encoder, [bundled_pairs()]).score("sentemb-pairs")


def _page(base: str, model: Path, scores: Sequence[Score], hits: dict[str, list[Hit]], *, seed: int) -> str:
    pairs = bundled_pairs()
    page = Page("sentemb quickstart")
    page.heading("Before and after")
    rows = tuple((encoder, pooling, f"{score:.2f}") for encoder, pooling, score in scores)
    page.table(Table("", ("encoder", "pooling", "Spearman x 100"), rows, names=2))
    page.text(
        f"SG-OPT from {Path(base).name}, seed {seed}; {len(pairs.gold)} graded pairs that come with sentemb; "
        "one annotator graded them, and they chose the checkpoint too: a smoke test, no benchmark.",
        style="note",
    )
    page.heading("While training")
    steps, scores_at = _learning_curve(model)
    curve = curve_figure({"SG-OPT": (steps, scores_at)}, x_label="optimizer step", y_label="Spearman x 100")
    page.charts({"Spearman correlation on the bundled pairs over the training steps": svg_of(curve)})
    page.heading("The sentences before and after")
    page.text("Each point is a sentence, its colour the domain; a line joins two that mean the same.")
    page.charts({f"Map of the sentences {title}": svg_of(one) for title, one in _maps(base, model).items()})
    page.heading("Search in the documentation of the standard library")
    for query, found in hits.items():
        page.text(query)
        rows = tuple((str(hit.id), hit.text, f"{hit.score:.2f}") for hit in found)
        page.table(Table("", ("name", "documentation", "score"), rows, names=2))
    return page.html()


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
