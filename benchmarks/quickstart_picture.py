"""Draw README's picture: four ways to search Python's documentation, on the quickstart's held-out questions.

    python benchmarks/quickstart_picture.py docs/search.png

It repeats the search of `sentemb quickstart`: a minute or two on two cores.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from matplotlib.ticker import MaxNLocator

from sentemb.adaptation import adapt
from sentemb.data.bundled_text import stdlib_documents
from sentemb.quickstart import SEARCH_ENCODER, TEST, Answers, search_in_all_modes
from sentemb.report.figures import COLOURS, panels, png_of
from sentemb.search import SearchIndex

_LABELS = ("keyword (BM25)", "dense (static-mini)", "hybrid", "hybrid, adapted")
_METRICS = {"hit@10": "relevant document in the first ten, %", "mrr@10": "MRR@10 x 100"}


def search(folder: Path) -> Answers:
    """Ask the quickstart's questions in its four ways."""
    documents = list(stdlib_documents())
    adapt(documents, SEARCH_ENCODER, folder / "adapted", seeds=(1,))
    index = SearchIndex.build(documents, SEARCH_ENCODER)
    return search_in_all_modes(documents, index, adapted=SearchIndex.build(documents, folder / "adapted"))


def draw(answers: Answers) -> bytes:
    """Draw a panel for each metric: a dot for each way to search, with its 95 % interval."""
    figure, axes = panels(len(_METRICS), width=9, height=2.6)
    for one, (metric, label) in zip(axes, _METRICS.items(), strict=True):
        for row, way in enumerate(answers.hits):
            value, low, high = answers.scores[way, TEST, metric]
            one.plot([low, high], [row, row], color=COLOURS[row], linewidth=3, alpha=0.45)
            one.plot(value, row, "o", color=COLOURS[row], markersize=8)
            one.annotate(f"{value:.0f}", (value, row), (0, 7), textcoords="offset points", ha="center")
        one.set_xlabel(label)
        one.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        one.set_ylim(len(answers.hits) - 0.6, -0.8)
        one.spines["left"].set_visible(False)
        one.tick_params(axis="y", length=0)
        one.grid(axis="x", alpha=0.3, linewidth=0.6)
    axes[0].set_yticks(range(len(_LABELS)), _LABELS)
    axes[1].set_yticks([])
    return png_of(figure)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        answers = search(Path(work))
    Path(sys.argv[1]).write_bytes(draw(answers))
