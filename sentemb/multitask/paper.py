"""What the paper reports: the rows of its tables with their figures on the dev sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sentemb.multitask.tasks import TASKS

Figures = tuple[float | None, float, float, float]
"""Overall, accuracy of sentiment and of paraphrase, Pearson's correlation of similarity; as fractions."""


@dataclass(frozen=True)
class PaperRow:
    """A row of a table.

    Attributes:
        label: What the paper calls it.
        figures: What it reports.
        runs: The rows of `ROWS` that it is made of: one; or one for each task, where a task's score is that
            of its own run; or none, where each task has the best of all runs.
    """

    label: str
    figures: Figures
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper.

    Attributes:
        title: What it compares.
        rows: Its rows, in order.
    """

    title: str
    rows: tuple[PaperRow, ...]


def _one(label: str, run: str, *figures: float) -> PaperRow:
    overall, sentiment, paraphrase, similarity = figures
    return PaperRow(label, (overall, sentiment, paraphrase, similarity), (run,))


_NONE = (0.540, 0.490, 0.726, 0.404)
_NLI = (0.661, 0.500, 0.746, 0.735)
_GIVEN = (0.664, 0.516, 0.815, 0.661)
_NLI_GIVEN = (0.628, 0.476, 0.794, 0.614)

PAPER_TABLES: Mapping[int, PaperTable] = {
    1: PaperTable(
        "unsupervised contrast",
        (
            _one("Vanilla BERT", "table1-vanilla", 0.391, 0.516, 0.388, 0.270),
            _one("Contrastive First", "table1-contrast-first", 0.449, 0.479, 0.401, 0.466),
            _one("Supervised First", "table1-supervised-first", 0.502, 0.422, 0.402, 0.682),
            _one("Fusion", "table1-fusion", 0.520, 0.465, 0.410, 0.685),
        ),
    ),
    2: PaperTable(
        "supervised contrast before three tasks",
        (
            _one("None", "table2-none", *_NONE),
            _one("NLI", "table2-nli", *_NLI),
            _one("3 Given", "table2-given", *_GIVEN),
            PaperRow(
                "3 Given (Single Task)",
                (None, 0.502, 0.836, 0.642),
                tuple(f"table2-single-{task}" for task in TASKS),
            ),
            PaperRow("Ensemble", (0.706, 0.521, 0.836, 0.761)),
        ),
    ),
    3: PaperTable(
        "layers in the heads, without contrast",
        (
            _one("All Different", "table3-all-different", 0.530, 0.496, 0.732, 0.361),
            _one("Shared Heads", "table3-shared-heads", 0.494, 0.497, 0.625, 0.361),
            _one("Shared 1st Linear Layer", "table3-shared-first-layer", 0.539, 0.514, 0.734, 0.370),
        ),
    ),
    4: PaperTable(
        "negative pairs and more data in contrast",
        (
            _one("Quora Only (No Negative Pairs)", "table4-quora-no-negatives", 0.620, 0.387, 0.730, 0.743),
            _one("Quora Only", "table4-quora", 0.623, 0.521, 0.781, 0.565),
            _one("All 3 Given", "table4-given", 0.651, 0.488, 0.784, 0.683),
        ),
    ),
    5: PaperTable(
        "data of contrast",
        (
            _one("NLI before 3 Given", "table5-nli-given", *_NLI_GIVEN),
            _one("3 Given before NLI", "table5-given-nli", 0.604, 0.431, 0.790, 0.592),
            _one("NLI", "table5-nli", *_NLI),
            _one("3 Given", "table5-given", *_GIVEN),
        ),
    ),
    6: PaperTable(
        "how the tasks are mixed, without contrast",
        (
            _one("Epoch Round Robin", "table6-epoch-round-robin", 0.493, 0.507, 0.519, 0.453),
            _one("Batch Round Robin", "table6-batch-round-robin", 0.491, 0.510, 0.520, 0.442),
            _one("Multi-Task Average Loss", "table6-average", *_NONE),
        ),
    ),
    7: PaperTable(
        "gradient surgery, after contrast on NLI and the three sets",
        (
            _one("Gradient Surgery", "table7-gradient-surgery", 0.625, 0.480, 0.800, 0.596),
            _one("Multi-Task Average Loss", "table7-average", *_NLI_GIVEN),
        ),
    ),
    8: PaperTable(
        "epochs of contrast on NLI",
        (
            _one("1", "table8-1", 0.630, 0.500, 0.730, 0.658),
            _one("3", "table8-3", *_NLI),
        ),
    ),
    9: PaperTable(
        "epochs of contrast on the three sets",
        (
            _one("2", "table9-2", 0.591, 0.406, 0.697, 0.671),
            _one("3", "table9-3", 0.610, 0.360, 0.724, 0.748),
        ),
    ),
    10: PaperTable(
        "learning rate of contrast",
        (
            _one("1e-5", "table10-1e-5", 0.637, 0.497, 0.806, 0.609),
            _one("2e-5", "table10-2e-5", *_GIVEN),
            _one("3e-5", "table10-3e-5", 0.658, 0.496, 0.799, 0.680),
        ),
    ),
}
"""By number."""
