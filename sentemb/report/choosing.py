"""The table of a choice: systems by quality, speed and size."""

from __future__ import annotations

from sentemb.evaluation.choosing.choice import Candidate, Choice
from sentemb.report.table import ABSENT, Table

_TITLES = {
    "documents": "Systems by predicted NDCG@10 x 100 on real queries over your documents",
    "judged": "Systems by NDCG@10 x 100 on your queries with qrels",
    "pairs": "Systems by Spearman x 100 on your pairs",
}


def choice_table(choice: Choice) -> Table:
    """Return a row for each system, the best first, with a column for each of several sets."""
    sets = [*choice.best.sets] if len(choice.best.sets) > 1 or choice.basis == "documents" else []
    first = frozenset((row, 2) for row, one in enumerate(choice.candidates) if one.place == choice.best.place)
    level = f"{100 * choice.confidence:g} % interval"
    predicted = choice.basis == "documents"
    return Table(
        title=_TITLES[choice.basis],
        header=(
            "place",
            "system",
            "behind the first" if predicted else "score",
            level,
            *sets,
            "texts/s",
            "MB",
            "dimensions",
        ),
        rows=tuple(_row(one, sets, predicted=predicted) for one in choice.candidates),
        notes=(
            "systems that share a place do not differ significantly from the first of it",
            *_about_queries(choice),
            "texts/s: documents encoded on this machine; MB: size of the weights in memory",
        ),
        best=first,
        names=2,
    )


def _about_queries(choice: Choice) -> list[str]:
    """Return the notes about generated queries."""
    if choice.basis != "documents":
        return []
    kinds = ", ".join(choice.best.sets)
    updated = f", updated by {choice.judged:,} queries with qrels" if choice.judged else ""
    weighted = f" weighted by {choice.logged:,} queries of your log" if choice.logged else ""
    return [f"predicted from scores on generated queries ({kinds}){weighted}{updated}", *choice.skipped]


def _row(one: Candidate, sets: list[str], *, predicted: bool) -> tuple[str, ...]:
    speed, size, dimension = one.cost.texts_per_second, one.cost.megabytes, one.cost.dimension
    if predicted:
        value, interval = (
            (ABSENT, ABSENT)
            if one.behind is None
            else (f"{one.behind[0]:.1f}", f"{one.behind[1]:.1f} to {one.behind[2]:.1f}")
        )
    else:
        low, high = one.interval or (float("nan"), float("nan"))
        value, interval = f"{one.score:.1f}", f"{low:.1f} to {high:.1f}"
    return (
        f"{one.place}",
        one.name,
        value,
        interval,
        *(f"{one.sets[name]:.1f}" for name in sets),
        ABSENT if speed is None else f"{speed:,.0f}",
        ABSENT if size is None else f"{size:,.0f}",
        ABSENT if dimension is None else f"{dimension:,}",
    )
