"""The figure of training: a score over the steps, the seeds of a run as one line with a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from matplotlib.figure import Figure

from sentemb.report.figures import COLOURS, plain, plain_frame

Course = Mapping[int, float]
"""Step to score."""


def course_figure(runs: Mapping[str, Sequence[Course]], *, y_label: str) -> Figure:
    """Draw a line for each run: the mean over its seeds at the steps that all of them reached."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for place, (name, courses) in enumerate(runs.items()):
        colour = COLOURS[place % len(COLOURS)]
        steps = sorted(set.intersection(*({*course} for course in courses)))
        values = [[course[step] for course in courses] for step in steps]
        means = [fmean(at_step) for at_step in values]
        seeds = f", {len(courses)} seeds" if len(courses) > 1 else ""
        axes.plot(steps, means, marker="o", markersize=3, color=colour, label=plain(name) + seeds)
        if len(courses) > 1:
            spread = [stdev(at_step) for at_step in values]
            low = [mean - one for mean, one in zip(means, spread, strict=True)]
            high = [mean + one for mean, one in zip(means, spread, strict=True)]
            axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("optimizer step")
    axes.set_ylabel(y_label)
    plain_frame(axes)
    axes.legend(frameon=False)
    return figure
