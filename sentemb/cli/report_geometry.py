"""The section of `sentemb report` on how vectors lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sentemb._tables import Table
from sentemb.cli.report_layers import open_fields, picture_of
from sentemb.evaluation.record_files import Fields
from sentemb.report.sections import Picture, Section

_FILE = "geometry.json"
_MEASURES = ("alignment", "uniformity", "anisotropy", "effective_rank")


def geometry_section(folders: Sequence[Path], *, figures: bool) -> Section | None:
    """What `sentemb analyse geometry` measured.

    Args:
        folders: Folders of records.
        figures: Draw it.

    Returns:
        A table for each measurement; None where there is none.

    Raises:
        InputError: A record is damaged.
    """
    paths = [folder / _FILE for folder in folders if (folder / _FILE).is_file()]
    if not paths:
        return None
    found = [open_fields(path, "sentemb analyse geometry MODEL --output FOLDER writes one") for path in paths]
    pictures = [picture for fields in found for picture in _pictures(fields)] if figures else []
    return Section("geometry", "Geometry", tables=tuple(map(_table, found)), pictures=tuple(pictures))


def _encoders(fields: Fields) -> dict[str, Fields]:
    inside = fields.object("encoders")
    if not inside.values:
        raise fields.fail("encoders", "empty")
    return {name: inside.object(name) for name in inside.values}


def _table(fields: Fields) -> Table:
    rows = []
    for name, one in _encoders(fields).items():
        *values, rank = (one.get(measure, float) for measure in _MEASURES)
        rows.append((name, *(f"{value:.3f}" for value in values), f"{rank:.1f} of {len(_spectrum(one))}"))
    return Table(
        title=f"Geometry on {fields.get('data', str)} {fields.get('split', str)}",
        header=("encoder", "alignment ↓", "uniformity ↓", "anisotropy", "effective rank"),
        rows=tuple(rows),
        notes=("lower alignment and lower uniformity are better, only both together mean something",),
    )


def _pictures(fields: Fields) -> list[Picture]:
    from sentemb.report.figures import plain
    from sentemb.report.geometry import alignment_figure, spectrum_figure

    encoders = _encoders(fields)
    points = {
        plain(name): (one.get("uniformity", float), one.get("alignment", float))
        for name, one in encoders.items()
    }
    runs = fields.object("runs")
    paths = {
        plain(name): list(zip(*(_numbers(runs.object(name), key) for key in _MEASURES[1::-1]), strict=True))
        for name in runs.values
        if name in encoders
    }
    spectra = {plain(name): np.array(_spectrum(one)) for name, one in encoders.items()}
    ranks = {plain(name): one.get("effective_rank", float) for name, one in encoders.items()}
    listed = ", ".join(encoders)
    return [
        picture_of(alignment_figure(points, paths), f"Alignment against uniformity of {listed}"),
        picture_of(spectrum_figure(spectra, ranks), f"Variance along each direction of {listed}"),
    ]


def _spectrum(fields: Fields) -> list[float]:
    values = _numbers(fields, "spectrum")
    if not values or min(values) < 0 or max(values) == 0:
        raise fields.fail("spectrum", "no variance")
    return values


def _numbers(fields: Fields, name: str) -> list[float]:
    numbered = {str(place): value for place, value in enumerate(fields.get(name, list))}
    inside = Fields(fields.path, numbered, f"{fields.prefix}{name}.", hint=fields.hint)
    return [inside.get(place, float) for place in numbered]
