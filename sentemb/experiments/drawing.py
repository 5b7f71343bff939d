"""Scores of an experiment against its values, a picture for each data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentemb._files import write_bytes
from sentemb.evaluation.naming import slug
from sentemb.evaluation.record import load_records
from sentemb.experiments.experiment import Experiment
from sentemb.experiments.summary import curves, summarize
from sentemb.experiments.tables import METRIC_NAMES, varied
from sentemb.report.figures import band_figure, png_of


def draw(experiment: Experiment, folder: Path) -> Iterator[Path]:
    """Draw what the records in a folder say, into the same folder."""
    records = [one for one in load_records([folder]) if one.trial and one.trial.experiment == experiment.name]
    summaries = summarize(records, best=experiment.best)
    metrics = {one.data: METRIC_NAMES[one.metric] for one in summaries}
    axes = [varied(one.setting) for one in summaries if one.setting.value is not None]
    for data, lines in curves(summaries).items():
        figure = band_figure(lines, x_label=axes[0], y_label=f"{data}, {metrics[data]} x 100")
        path = folder / f"{experiment.name}.{slug(data)}.png"
        write_bytes(path, png_of(figure))
        yield path
