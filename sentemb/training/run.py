"""`train` and `train_seeds`: from a configuration to folders that plain sentence-transformers loads."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sentemb._files import write_json
from sentemb.errors import InputError
from sentemb.evaluation.comparison import Difference
from sentemb.losses import ViewCache
from sentemb.training.config import PairsConfig, TrainConfig
from sentemb.training.contrastive import ContrastiveSession
from sentemb.training.folder import RunFolder
from sentemb.training.objective import check_loss_options
from sentemb.training.outcome import Run
from sentemb.training.pairs import PairsSession
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import on_main
from sentemb.training.session import Session, run_session


@dataclass(frozen=True)
class SeedSummary:
    """Runs that differ in their seed alone.

    Args:
        runs: One per seed.
    """

    runs: tuple[Run, ...]

    @property
    def measure(self) -> str:
        """Name of the measure of the dev scores."""
        return self.runs[0].measure

    def statistics(self) -> dict[str, Any]:
        """Return mean, sample standard deviation and range of the dev scores.

        Returns:
            Plain values; `None` without dev scores. The deviation is also `None` for a single seed.
        """
        scores = [run.dev_score for run in self.runs if run.dev_score is not None]
        return {
            "seeds": [run.seed for run in self.runs],
            "scores": scores,
            "mean": statistics.fmean(scores) if scores else None,
            "standard_deviation": statistics.stdev(scores) if len(scores) > 1 else None,
            "lowest": min(scores, default=None),
            "highest": max(scores, default=None),
        }


def train(
    config: TrainConfig | PairsConfig,
    *,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
    view_cache: ViewCache | None = None,
) -> Run:
    """Train one encoder with one seed.

    The same configuration on the same machine gives the same weights, interrupted and resumed or not.

    Args:
        config: The configuration, with one seed.
        resume: Resume the interrupted run in the output folder, if there is one.
        progress: Where to show progress.
        view_cache: Cache of frozen views to share between runs on the same base model and data.

    Returns:
        The finished run.

    Raises:
        InputError: Something in the configuration, the data or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("sg-opt", overrides={"base": base, "output": "sg"})  # doctest: +SKIP
        >>> train(config).dev_score  # doctest: +SKIP
    """
    check_loss_options(config)

    def session() -> Session:
        if isinstance(config, PairsConfig):
            return PairsSession(config, progress=progress)
        return ContrastiveSession(config, progress=progress, view_cache=view_cache)

    return run_session(config, session, resume=resume)[1]


def train_seeds(
    config: TrainConfig | PairsConfig, *, resume: bool = False, progress: ConsoleProgress | None = None
) -> SeedSummary:
    """Train one encoder per seed, each in its folder `seed-N`, and summarize them in `summary.json`.

    Args:
        config: The configuration.
        resume: Leave finished seeds as they are and resume the others.
        progress: Where to show progress.

    Returns:
        The runs.

    Raises:
        InputError: Something in the configuration, the data or a folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("simcse", overrides={"base": "bert-mini", "seeds": (1, 2, 3)})  # doctest: +SKIP
        >>> train_seeds(config).runs  # doctest: +SKIP
    """
    output = Path(config.output)
    own = {seed: config.replace(seeds=(seed,), output=str(output / f"seed-{seed}")) for seed in config.seeds}
    check_loss_options(config)
    on_main(lambda: _check_folders(output, own, resume=resume))
    cache = ViewCache()
    runs: list[Run] = []
    for seed, one in own.items():
        folder = RunFolder(Path(one.output))
        if folder.status() == "finished":
            runs.append(_finished(folder, seed))
        else:
            if progress is not None:
                progress.announce(f"seed {seed}")
            runs.append(train(one, resume=resume, progress=progress, view_cache=cache))
    summary = SeedSummary(tuple(runs))
    on_main(lambda: write_json(output / "summary.json", summary.statistics()))
    return summary


def _check_folders(output: Path, own: dict[int, Any], *, resume: bool) -> None:
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file, not a folder", "choose another --output")
    expected = {f"seed-{seed}" for seed in own} | {"summary.json"}
    if foreign := sorted({entry.name for entry in output.glob("*")} - expected):
        raise InputError(f"{output} already contains {', '.join(foreign[:3])}", "choose another --output")
    for config in own.values():
        folder = RunFolder(Path(config.output))
        if not (resume and folder.status() == "finished" and not folder.differing(config)):
            folder.check(config, resume=resume)


def _finished(folder: RunFolder, seed: int) -> Run:
    record = folder.read_record()
    dev = record["dev"]
    return Run(
        output=folder.path,
        seed=seed,
        dev_score=dev["score"],
        step=record["kept_step"],
        steps=record["steps"],
        sentences_per_second=record["sentences_per_second"],
        base_score=dev.get("base"),
        interval=dev.get("interval") and tuple(dev["interval"]),
        measure=dev.get("metric", "").partition(" ")[0] or "Spearman",
        test=TypeAdapter(Difference | None).validate_python(dev.get("test")),
    )
