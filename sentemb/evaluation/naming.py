"""Names of models and records: the folders of a run over several seeds are called `NAME-seed-N`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from sentemb.errors import InputError

_SEED = re.compile(r"-seed-(\d+)$")


def seed_of(model: str) -> int | None:
    """Return the seed that a model was trained with, according to its name."""
    found = _SEED.search(model)
    return None if found is None else int(found[1])


def without_seed(model: str) -> str:
    """Return the name that models trained with different seeds have in common."""
    return _SEED.sub("", model)


def check_once(runs: Iterable[tuple[str, str, int | None]]) -> None:
    """Raise InputError for two records of one run, which would count as two runs."""
    for (model, which, seed), count in Counter(runs).items():
        if count > 1:
            numbered = "" if seed is None else f", seed {seed}"
            raise InputError(
                f"there are {count} records of {model}{which}{numbered}",
                "list folders that do not contain the same record",
            )


def slug(name: str) -> str:
    """Return a model's name as part of a file name: `org/model` becomes `org__model`."""
    plain = re.sub(r"[^0-9A-Za-z._-]+", "-", name.strip("/").replace("/", "__")).strip("-.")
    return plain[:120] or "model"


def record_name(model: str, suite: str, *, protocol: str, seed: int | None) -> str:
    """Return the name of the JSON file of a record: model, suite, protocol and seed."""
    numbered = "" if seed is None else f".seed-{seed}"
    return f"{slug(model)}.{suite}.{slug(protocol)}{numbered}.json"
