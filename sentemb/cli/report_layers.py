"""The sections of `sentemb report` on the inside of encoders: layer maps, and how training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb._files import read_json
from sentemb.errors import InputError
from sentemb.evaluation.record_files import Fields
from sentemb.report.sections import Chart, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sentemb.evaluation.layers import LayerScores
    from sentemb.report.curves import LearningCurve

_SPEARMAN = "spearman_cosine"


def layers_section(folders: Sequence[Path], *, figures: bool) -> Section | None:
    """The layer maps that `sentemb analyse layers` wrote."""
    maps = [_read_map(path) for folder in folders for path in sorted(folder.glob("*.layers.*.json"))]
    if not maps:
        return None
    tables, pictures = [], []
    for model, sets in maps:
        tables += [replace(table, title=f"{model}: {table.title}") for table in (one.table() for one in sets)]
        if figures:
            pictures.append(_map_picture(model, sets))
    return Section("layers", "What each layer knows", tables=tuple(tables), charts=tuple(pictures))


def _read_map(path: Path) -> tuple[str, list[LayerScores]]:
    from sentemb.evaluation.layers import LayerScores

    fields = open_fields(path, "sentemb analyse layers MODEL --output FOLDER writes one")
    sets = [
        LayerScores(
            name=one.get("name", str),
            split=one.get("split", str),
            pairs=one.get("pairs", int),
            checksum=one.get("checksum", str),
            spearman=_curves(one.object("spearman")),
        )
        for one in fields.objects("sets")
    ]
    for one in sets:
        if not any(score is not None for scores in one.spearman.values() for score in scores):
            raise fields.fail("sets", f"{one.name} has no score")
        if len({len(scores) for scores in one.spearman.values()}) > 1:
            raise fields.fail("sets", f"the poolings of {one.name} have different numbers of layers")
    return fields.get("model", str), sets


def _curves(fields: Fields) -> dict[str, tuple[float | None, ...]]:
    curves = {}
    for pooling in fields.values:
        numbered = {str(layer): score for layer, score in enumerate(fields.get(pooling, list))}
        layers = Fields(fields.path, numbered, f"{fields.prefix}{pooling}.", hint=fields.hint)
        curves[pooling] = tuple(layers.optional(layer, float) for layer in numbered)
    return curves


def _map_picture(model: str, sets: Sequence[LayerScores]) -> Chart:
    from sentemb.report.curves import layer_figure
    from sentemb.report.figures import plain

    panels = {f"{one.name} {one.split}": one.spearman for one in sets}
    best = ", ".join(
        f"layer {layer}, {pooling} pooling" for layer, pooling, _ in (one.best() for one in sets)
    )
    figure = layer_figure(panels, title=plain(model))
    return picture_of(figure, f"Scores of the layers of {model}; the best: {best}")


def training_section(runs: Sequence[Path]) -> Section:
    """The scores of a dev set over the steps of runs, the seeds of a run as one line."""
    from sentemb.report.curves import learning_curve_figure

    by_dev: dict[str, dict[str, list[LearningCurve]]] = {}
    for folder in runs:
        for dev, courses in _courses(folder).items():
            name = folder.resolve().name
            if name in by_dev.setdefault(dev, {}):
                raise InputError(f"two runs are called {name}", "rename a folder")
            by_dev[dev][name] = courses
    pictures = [
        picture_of(
            learning_curve_figure(courses, y_label=f"{dev} dev, Spearman × 100"),
            f"Spearman correlation x 100 on {dev} over the steps of {', '.join(courses)}",
        )
        for dev, courses in by_dev.items()
    ]
    return Section("training", "While training", charts=tuple(pictures))


def _courses(folder: Path) -> Mapping[str, list[LearningCurve]]:
    """Dev set to the course of every seed."""
    from sentemb.training.trace import read_trace

    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}", "name the folder of a run")
    found: dict[str, list[LearningCurve]] = {}
    for member in sorted(folder.glob("seed-*")) or [folder]:
        trace = read_trace(member, (_SPEARMAN,))
        if trace is not None:
            scores = [100 * value for value in trace.values[_SPEARMAN]]
            found.setdefault(trace.dev, []).append(dict(zip(trace.steps, scores, strict=True)))
    if not found:
        raise InputError(f"{folder} holds no run", "name a folder that sentemb train wrote")
    return found


def picture_of(figure: Figure, description: str) -> Chart:
    """A figure for the page."""
    from sentemb.report.figures import svg_of

    return Chart(svg_of(figure), description)


def open_fields(path: Path, hint: str) -> Fields:
    """The fields of a JSON file."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path} is no record", hint)
    return Fields(path, values, hint=hint)
