"""A change that is killed has happened or not: documents, vectors, words and filters agree."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from sentemb.search import SearchIndex
from tests.search.bag_of_words import FewWords
from tests.search.forks import Forks
from tests.search.living_model import Model

DOCUMENTS = 1500


def rows_of(rng: random.Random, ids: list[int], mark: int) -> list[tuple[int, str, dict[str, Any]]]:
    """Documents of new and of known texts, with metadata that say which change made them."""
    texts = (f"w{rng.randrange(40)} w{rng.randrange(40)} t{rng.randrange(900)}" for _ in ids)
    return [(key, text, {"kill": mark, "year": 1999}) for key, text in zip(ids, texts, strict=True)]


def change_of(rng: random.Random, how: str, model: Model, mark: int) -> tuple[list[Any], Model]:
    """What a change is given, and the state that it leads to."""
    new, known = model.copy(), list(model.documents)
    if how == "delete":
        ids = rng.sample(known, len(known) // 8)
        new.drop(ids)
        return ids, new
    if how == "compact":
        return [], new
    fresh = [10_000 * mark + number for number in range(DOCUMENTS // 4)]
    ids = fresh if how == "add" else rng.sample(known, len(known) // 4) + fresh[: DOCUMENTS // 20]
    rows = rows_of(rng, ids, mark)
    new.put(rows)
    return rows, new


def kill_changes(folder: Path, times: int, *, seed: int) -> None:
    """Begin changes and kill them at random moments, until so many were killed before their end."""
    rng, model, forks = random.Random(seed), Model(), Forks()
    first = rows_of(rng, list(range(DOCUMENTS)), 0)
    model.put(first)
    SearchIndex.build(first, FewWords()).save(folder)
    reader = SearchIndex.load(folder, FewWords())
    number = kills = 0
    try:
        while kills < times:
            number += 1
            how = ("add", "update", "delete", "compact")[number % 4]
            what, new = change_of(rng, how, model, number)
            process = forks.begin(how, folder, what)
            time.sleep(rng.uniform(0, rng.choice([0.1, 0.6])))
            kills += forks.end(process)
            model = check(folder, model, new)
            model.check(reader, f"w{number % 40} w3", 9, number)
    finally:
        forks.close()
    reader.compact()  # a writer after all of them
    assert len([path for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]) == 3
    assert model.is_that_of(SearchIndex.load(folder, FewWords()))


def check(folder: Path, old: Model, new: Model) -> Model:
    """The one of two states that a folder holds, in all that a search goes by."""
    index = SearchIndex.load(folder, FewWords())
    state = next(model for model in (new, old) if model.is_that_of(index))
    for which, query in enumerate(("w1 w2", "w7 t5", "w30")):
        state.check(index, query, 20, which)
    return state


def test_changes_killed_at_random_moments(tmp_path: Path) -> None:
    kill_changes(tmp_path / "index", 4, seed=1)


@pytest.mark.slow
def test_changes_killed_at_fifty_random_moments(tmp_path: Path) -> None:
    kill_changes(tmp_path / "index", 50, seed=2)
