"""What `sentemb analyse` wrote, read back with every field checked: layer maps and geometry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sentemb._files import read_json
from sentemb.errors import InputError
from sentemb.report.table import ABSENT, Table

Read = TypeVar("Read", bound=BaseModel)
Numbers = Annotated[tuple[float, ...], Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class LayerSet(_Part):
    """One set of a layer map.

    Attributes:
        name: The set.
        split: Its split.
        pairs: Number of pairs.
        spearman: Spearman x 100 by pooling, one per layer from the embedding output; None if undefined.
    """

    name: str
    split: str
    pairs: int
    spearman: Annotated[Mapping[str, tuple[float | None, ...]], Field(min_length=1)]

    def best(self) -> tuple[int, str]:
        """Layer and pooling of the best vectors, the first of equals."""
        found = [
            (score, -layer, pooling)
            for pooling, scores in self.spearman.items()
            for layer, score in enumerate(scores)
            if score is not None
        ]
        _, layer, pooling = max(found, key=lambda one: one[:2])
        return -layer, pooling

    def table(self, model: str = "") -> Table:
        """A row per layer, the best score in bold."""
        layer, pooling = self.best()
        rows = [
            (str(number), *(ABSENT if score is None else f"{score:.2f}" for score in scores))
            for number, scores in enumerate(zip(*self.spearman.values(), strict=True))
        ]
        return Table(
            title=f"{f'{model}: ' if model else ''}{self.name} {self.split}, {self.pairs:,} pairs, "
            "Spearman x 100 of cosines by layer and pooling, protocol all",
            header=("layer", *self.spearman),
            rows=tuple(rows),
            notes=("layer 0 is the embedding output",),
            best=frozenset({(layer, 1 + list(self.spearman).index(pooling))}),
        )


class LayerMapFile(_Part):
    """What `sentemb analyse layers` wrote of a model."""

    model: str
    sets: Annotated[tuple[LayerSet, ...], Field(min_length=1)]


class EncoderGeometry(_Part):
    """The geometry of an encoder and the variance along each principal direction."""

    alignment: float
    uniformity: float
    anisotropy: float
    effective_rank: float
    spectrum: Numbers


class TrainingPath(_Part):
    """How alignment and uniformity went while an encoder was trained."""

    alignment: Numbers
    uniformity: Numbers


class GeometryFile(_Part):
    """What `sentemb analyse geometry` wrote."""

    data: str
    split: str
    encoders: Annotated[Mapping[str, EncoderGeometry], Field(min_length=1)]
    runs: Mapping[str, TrainingPath]

    def table(self) -> Table:
        """Encoders by their geometry."""
        rows = [
            (
                name,
                *(f"{value:.3f}" for value in (one.alignment, one.uniformity, one.anisotropy)),
                f"{one.effective_rank:.1f} of {len(one.spectrum)}",
            )
            for name, one in self.encoders.items()
        ]
        return Table(
            title=f"Geometry on {self.data} {self.split}",
            header=("encoder", "alignment ↓", "uniformity ↓", "anisotropy", "effective rank"),
            rows=tuple(rows),
            notes=("lower alignment and lower uniformity are better, only both together mean something",),
        )


def read_layer_map(path: Path) -> LayerMapFile:
    """Read a layer map, every set with a score and as many layers under each pooling."""
    found = _read(path, LayerMapFile, "sentemb analyse layers MODEL --output FOLDER writes one")
    for one in found.sets:
        if not any(score is not None for scores in one.spearman.values() for score in scores):
            raise InputError(f"{path}, field sets: {one.name} has no score")
        if len({len(scores) for scores in one.spearman.values()}) > 1:
            raise InputError(
                f"{path}, field sets: the poolings of {one.name} have different numbers of layers"
            )
    return found


def read_geometry(path: Path) -> GeometryFile:
    """Read the geometry of encoders."""
    return _read(path, GeometryFile, "sentemb analyse geometry MODEL --output FOLDER writes one")


def _read(path: Path, kind: type[Read], hint: str) -> Read:
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path} is no record", hint)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}, field {field}: {first['msg']}", hint) from None
