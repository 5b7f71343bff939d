"""Several encoders side by side: how the vectors of one set of sentences lie under each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb._tables import Table
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder
from sentemb.evaluation.geometry import Geometry, measure_geometry, spectrum
from sentemb.evaluation.sts import encode_sets


class Spread(NamedTuple):
    """The geometry of an encoder in full.

    Attributes:
        geometry: Its figures.
        spectrum: Variance along each principal direction, descending, shape (dim,).
    """

    geometry: Geometry
    spectrum: npt.NDArray[np.float64]


def measure_spread(encoder: TextEncoder, pairs: ScoredPairs) -> Spread:
    """Encode the sentences of scored pairs and measure how they lie."""
    encoded = encode_sets(encoder, [pairs])
    return Spread(measure_geometry(encoded), spectrum(encoded.vectors))


def geometry_table(spreads: Mapping[str, Spread], pairs: ScoredPairs) -> Table:
    """Encoders by figures of geometry."""
    rows = tuple(
        (
            name,
            *(f"{value:.3f}" for value in one.geometry[:3]),
            f"{one.geometry.effective_rank:.1f} of {len(one.spectrum)}",
        )
        for name, one in spreads.items()
    )
    return Table(
        title=f"Geometry on {pairs.name} {pairs.split}, {len(pairs):,} pairs",
        header=("encoder", "alignment ↓", "uniformity ↓", "anisotropy", "effective rank"),
        rows=rows,
        notes=("lower alignment and lower uniformity are better, only both together mean something",),
    )
