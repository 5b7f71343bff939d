"""The whole idea in minutes: a search adapted to its documents, an encoder before and after training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sentemb._commands import format_command
from sentemb._files import write_text
from sentemb.adaptation import Adapted, adapt
from sentemb.data.bundled_text import BUNDLED_PAIRS, bundled_pairs, bundled_sentences_file
from sentemb.data.docstrings import stdlib_documents
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation import evaluate_pairs
from sentemb.modules import Poolings
from sentemb.modules.source import find_source
from sentemb.quickstart_page import write_all_questions, write_search, write_training
from sentemb.quickstart_search import Answers, ask_everything
from sentemb.report.page import Page
from sentemb.report.table import Table
from sentemb.search import SearchIndex
from sentemb.training import TrainConfig, resolve, train
from sentemb.training.contrastive import load_rows
from sentemb.training.progress import ConsoleProgress

SEARCH_ENCODER = "static-mini"
"""The bundled encoder that searches."""
# What was chosen for sg-bert-mini on STS-B's dev set; any other base is trained with the paper's values.
_CHOSEN: dict[str, dict[str, Any]] = {
    "bert-mini": {"learning_rate": 1.5e-4, "loss_options": {"temperature": 0.02, "drift_weight": 0.01}}
}


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
        encoder: The bundled encoder, or the one that was asked for.
        adapted: How its adaptation to the documents of the search ended.
        answers: What the searches found.
        scores: The table, before and after training.
        model: Folder of the trained encoder.
        index: Folder of the index, of the adapted encoder where that is better.
        page: The page with all of it.
    """

    encoder: str
    adapted: Adapted
    answers: Answers
    scores: tuple[Score, ...]
    model: Path
    index: Path
    page: Path

    def your_turn(self) -> tuple[str, ...]:
        """Commands for a file of one's own."""
        yours = ("YOUR-FILE.csv", "--text-column", "text")
        return (
            format_command("adapt", *yours, "--base", self.encoder, "--output", "my-encoder"),
            format_command("index", "build", *yours, "--model", "my-encoder", "--output", "my-index"),
            format_command("index", "search", "my-index", "your question", "--mode", "hybrid"),
        )

    def table(self) -> Table:
        """The table of the training."""
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
    """Look at models and sentences before time is spent on them, or an earlier quickstart is removed."""
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

    The documents lie in `documents.jsonl`, to try other commands with. The model has the weights that were
    best on the bundled pairs, of which its table is made too.
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
    poolings: tuple[Poolings, ...] = ("cls", "mean")
    scores = [
        Score("before training", pooling, _spearman(load_encoder(base, pooling=pooling)))
        for pooling in poolings
    ]
    announce("training SG-OPT")
    trained = output / "model"
    train(_configuration(base, output, data=data, column=column, seed=seed), progress=progress)
    scores.append(Score("after SG-OPT", "cls", _spearman(trained)))

    announce("drawing")
    made = Quickstart(
        model, adapted, answers, tuple(scores), trained, output / "index", output / "index.html"
    )
    page = Page("sentemb quickstart")
    write_search(page, answers, adapted)
    write_training(page, base, trained, made.table(), seed=seed)
    page.heading("The same with your own file")
    page.commands(*made.your_turn())
    write_all_questions(page, answers)
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
