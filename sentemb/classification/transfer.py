"""Models tuned on one task, as bases for another (SCL, section 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sentemb.classification.cells import describe
from sentemb.classification.fit import fit_classifier
from sentemb.classification.recipes import resolve_classifier
from sentemb.evaluation.classification.cell import Cell, Method
from sentemb.evaluation.classification.protocols import Protocol, full
from sentemb.evaluation.classification.sets import ProtocolData
from sentemb.training.folder import RunFolder


def tune_on_source(
    protocol: Protocol,
    methods: Sequence[Method],
    source: str,
    *,
    rows: int | None = None,
    data: ProtocolData,
    folder: Path,
    say: Callable[[str], None],
) -> list[Method]:
    """Train each method on a source task, once, and let it start from there.

    A model that is there already is taken as it is; an interrupted training goes on.
    """
    first = replace(
        full(() if rows is None else (rows,)),
        seeds=protocol.seeds[:1],
        options=protocol.options,
        rule=protocol.rule,
        paper=protocol.paper,
    )
    cells = first.cells(methods, [source])
    bases = [_trained(cell, data, folder / "sources", say) for cell in cells]
    return [
        Method(method.name, method.recipe, {**method.options, "base": base})
        for method, base in zip(methods, bases, strict=True)
    ]


def _trained(cell: Cell, data: ProtocolData, folder: Path, say: Callable[[str], None]) -> str:
    splits, recipe = data(cell), cell.method.recipe
    output = folder / Path(cell.file_name(splits, describe(recipe, cell.options))).stem
    if RunFolder(output).read_record().get("status") != "finished":
        say(f"tuning {cell.method.name} on {cell.data}, {len(splits.train)} rows: {output}")
        overrides = {**cell.options, "seeds": (cell.seed,), "output": str(output)}
        config = resolve_classifier(recipe, overrides=overrides)
        fit_classifier(config, splits.train, splits.validation, resume=True)
    return str(output)
