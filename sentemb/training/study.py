"""Rows of a table of STS scores: each trained and judged once for every seed, whatever interrupts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentemb._files import read_json, write_json
from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation.environment import command_line
from sentemb.evaluation.judge import judge_sts
from sentemb.evaluation.record_files import prepare_folder
from sentemb.evaluation.records import read_record, write_record
from sentemb.evaluation.result import ResultRecord, file_name_of
from sentemb.evaluation.suites import STS, Suite
from sentemb.losses import ViewCache
from sentemb.training.checkpoints import remove_folder
from sentemb.training.config import TrainConfig
from sentemb.training.folder import RunFolder
from sentemb.training.progress import ConsoleProgress
from sentemb.training.run import train
from sentemb.training.settings import resolve

_MODELS = "models"
_SETTINGS = "settings"
# Where the data lies does not decide the weights, and the seed has a record of its own.
_NO_SETTING = ("output", "data_dir", "seeds")


@dataclass(frozen=True)
class Row:
    """A row of a table: a way to train.

    Attributes:
        name: What tables and records call it.
        settings: All that decides the weights beside the seed; JSON values.
        train: Takes a folder, a seed and where to show progress, and leaves a model there that `load_encoder`
            takes. It may find the remains of an interrupted run there, or a finished one.
    """

    name: str
    settings: Mapping[str, Any]
    train: Callable[[Path, int, ConsoleProgress | None], None]


def recipe_row(
    name: str, recipe: str, overrides: Mapping[str, Any], *, view_cache: ViewCache | None = None
) -> Row:
    """A row that trains a recipe."""

    def configured(folder: str, seed: int) -> TrainConfig:
        config: TrainConfig = resolve(recipe, overrides={**overrides, "output": folder, "seeds": (seed,)})
        return config

    def train_one(folder: Path, seed: int, progress: ConsoleProgress | None) -> None:
        if RunFolder(folder).status() != "finished":
            train(configured(str(folder), seed), resume=True, progress=progress, view_cache=view_cache)

    settings = configured(name, 1).values()
    return Row(name, {key: value for key, value in settings.items() if key not in _NO_SETTING}, train_one)


def judge_rows(
    rows: Sequence[Row],
    seeds: Sequence[int],
    pairs: Sequence[ScoredPairs],
    *,
    folder: Path,
    suite: Suite = STS,
    models: Path | None = None,
    keep_models: bool = False,
    progress: ConsoleProgress | None = None,
) -> list[ResultRecord]:
    """Train and judge what has no record yet.

    `ROW-seed-N.SUITE.PROTOCOL.seed-N.json` is the record, its settings lie in `settings/`. An interrupted run
    goes on from its checkpoint; a model is removed when its record is written.
    """
    prepare_folder(folder)
    sets = [f"{one.name} {one.split}, {len(one)} pairs" for one in pairs]
    for row in rows:
        _check_settings(folder / _SETTINGS / f"{row.name}.json", {"sets": sets, **row.settings})
    for seed in seeds:
        for row in rows:
            model = (models or folder / _MODELS) / f"{row.name}-seed-{seed}"
            if not _record_path(folder, suite, row, seed).exists():
                if progress is not None:
                    progress.announce(f"{row.name}, seed {seed}")
                row.train(model, seed, progress)
                record = judge_sts(model, pairs, suite=suite, seed=seed, command=command_line())
                write_record(record, folder)
            # A kill may have left the model of a record that is already written.
            if not keep_models:
                remove_folder(model)
    return [read_record(_record_path(folder, suite, row, seed)) for row in rows for seed in seeds]


def _record_path(folder: Path, suite: Suite, row: Row, seed: int) -> Path:
    name = f"{row.name}-seed-{seed}"
    return folder / file_name_of(name, suite=suite.name, protocol=suite.protocol, seed=seed)


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    if not path.exists():
        write_json(path, settings)
        return
    before = read_json(path)
    if differing := sorted(
        key for key in before.keys() | settings.keys() if before.get(key) != settings.get(key)
    ):
        raise InputError(
            f"{path} is of other values of {', '.join(differing)}", "use the same ones, or another --output"
        )
