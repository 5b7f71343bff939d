"""The table of a choice: systems by quality, speed and size."""

from __future__ import annotations

from sentemb.evaluation.choosing.choice import Candidate, Choice
from sentemb.evaluation.significance import LEVEL
from sentemb.report.table import ABSENT, Table

_TITLES = {
    "documents": "Systems by NDCG@10 x 100 of queries cut from your documents",
    "judged": "Systems by NDCG@10 x 100 of your judged queries",
    "pairs": "Systems by Spearman x 100 of your pairs",
}


def choice_table(choice: Choice) -> Table:
    """A row for each system, the best first, and a column for each kind of query where there are several."""
    sets = [*choice.best.sets] if len(choice.best.sets) > 1 else []
    first = frozenset((row, 2) for row, one in enumerate(choice.candidates) if one.place == choice.best.place)
    level = f"{100 * choice.confidence:g} %"
    return Table(
        title=_TITLES[choice.basis],
        header=(
            "place",
            "system",
            "score",
            f"{level} interval",
            *(name.removeprefix("pseudo-") for name in sets),
            "texts/s",
            "MB",
            "dimensions",
        ),
        rows=tuple(_row(one, sets) for one in choice.candidates),
        notes=(
            "systems of one place cannot be told apart from the first of it (Holm's correction)",
            *_disagreement(choice),
            "texts/s: documents read on this machine; MB: the model's weights in memory",
        ),
        best=first,
        names=2,
    )


def _disagreement(choice: Choice) -> list[str]:
    """Systems of one place whose scores differ beyond chance, but not by every kind of query."""
    places = {one.name: one.place for one in choice.candidates}
    found = [
        f"{pair.better} from {pair.worse}"
        for pair in choice.pairs
        if not pair.agree and pair.difference.p < LEVEL and places[pair.better] == places[pair.worse]
    ]
    if not found:
        return []
    return [f"it depends on how people ask, since not every kind of query tells apart {', '.join(found)}"]


def _row(one: Candidate, sets: list[str]) -> tuple[str, ...]:
    speed, size, dimension = one.cost.texts_per_second, one.cost.megabytes, one.cost.dimension
    return (
        f"{one.place}",
        one.name,
        f"{one.score:.1f}",
        f"{one.interval[0]:.1f} to {one.interval[1]:.1f}",
        *(f"{one.sets[name]:.1f}" for name in sets),
        ABSENT if speed is None else f"{speed:,.0f}",
        ABSENT if size is None else f"{size:,.0f}",
        ABSENT if dimension is None else f"{dimension:,}",
    )
