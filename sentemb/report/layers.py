"""What each layer of an encoder knows: a record by pooling and layer, as tables and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sentemb.evaluation.schema import DataSet, Record
from sentemb.report.table import ABSENT, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = Mapping[str, tuple[float | None, ...]]
"""By pooling, one per layer from 0, the embedding output; None where there is no score."""


def layer_scores(record: Record, dataset: str) -> Scores:
    """The scores of one data set of a record of the suite `layers`."""
    found: dict[str, dict[int, float]] = {}
    for score in record.scores:
        if score.dataset == dataset:
            pooling, _, layer = score.protocol.partition(", layer ")
            found.setdefault(pooling, {})[int(layer)] = score.value
    layers = range(1 + max(layer for scores in found.values() for layer in scores))
    return {pooling: tuple(scores.get(layer) for layer in layers) for pooling, scores in found.items()}


def best_layer(scores: Scores) -> tuple[int, str]:
    """Layer and pooling of the best vectors, the first of equals."""
    found = [
        (score, -layer, pooling)
        for pooling, each in scores.items()
        for layer, score in enumerate(each)
        if score is not None
    ]
    _, layer, pooling = max(found, key=lambda one: one[:2])
    return -layer, pooling


def layer_tables(record: Record) -> Iterator[Table]:
    """A table for each data set: a row per layer, the best score in bold."""
    for dataset in record.datasets:
        yield _table(dataset, layer_scores(record, dataset.name), record.model)


def layer_record_figure(record: Record) -> tuple[Figure, str]:
    """The figure of a record, a panel per data set, and what it shows."""
    from sentemb.report.curves import layer_figure
    from sentemb.report.figures import plain

    panels = {f"{one.name} {one.split}": layer_scores(record, one.name) for one in record.datasets}
    best = ", ".join(
        f"layer {layer}, {pooling} pooling" for layer, pooling in map(best_layer, panels.values())
    )
    figure = layer_figure(panels, title=plain(record.model))
    return figure, f"Scores by layer of {record.model}; the best: {best}"


def _table(dataset: DataSet, scores: Scores, model: str) -> Table:
    layer, pooling = best_layer(scores)
    rows = [
        (str(number), *(ABSENT if score is None else f"{score:.2f}" for score in each))
        for number, each in enumerate(zip(*scores.values(), strict=True))
    ]
    return Table(
        title=f"{model}: {dataset.name} {dataset.split}, {dataset.items:,} pairs, Spearman x 100 of cosine "
        "similarities by layer and pooling, protocol all",
        header=("layer", *scores),
        rows=tuple(rows),
        notes=("layer 0 is the embedding output",),
        best=frozenset({(layer, 1 + list(scores).index(pooling))}),
    )
