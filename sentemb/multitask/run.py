"""From labelled texts of three tasks to one model in a folder."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import TrainerCallback

from sentemb._compat import BaseEvaluator
from sentemb.errors import InputError
from sentemb.multitask.heads import TaskHeads
from sentemb.multitask.loss import MultiTaskLoss
from sentemb.multitask.model import OVERALL, MultiTaskModel, TaskEnsemble, evaluate_tasks
from sentemb.multitask.plan import StepPlan, uses_nli
from sentemb.multitask.tasks import TaskSets, load_task_sets, read_nli_columns
from sentemb.multitask.trainer import MultiTaskTrainer, best_scores
from sentemb.training.card import multitask_card, write_card
from sentemb.training.checkpoints import checkpoint_name
from sentemb.training.config import MultiTaskConfig as MultiTaskConfig
from sentemb.training.config.base import checked
from sentemb.training.folder import RunFolder
from sentemb.training.objective import check_loss_options
from sentemb.training.outcome import Run, run_with_options
from sentemb.training.progress import ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import on_all, on_main
from sentemb.training.session import Session
from sentemb.training.values import parsed

ENSEMBLE = "table2-ensemble"
_LOG_STEPS = 50


@dataclass(frozen=True)
class MultiTaskRun:
    """A finished training.

    Args:
        model: The model with the kept weights.
        run: Where it lies and how it did; `dev_score` is the mean of the three tasks.
    """

    model: MultiTaskModel
    run: Run


def fit_multitask(
    config: MultiTaskConfig,
    train: TaskSets,
    dev: TaskSets,
    *,
    nli: Sequence[Sequence[str]] = (),
    resume: bool = False,
    progress: ConsoleProgress | None = None,
) -> MultiTaskRun:
    """Train one encoder for several tasks, and leave it in a folder that loads with and without sentemb.

    The same configuration and data on the same machine give the same weights, interrupted and resumed or not.
    Next to the model that is best overall, the run's folder keeps the best one of each task, from which
    `TaskEnsemble.of_runs` chooses.

    Args:
        config: The configuration, with one seed.
        train: Sets to train on; contrast uses those of tasks that are not trained, too.
        dev: Sets to choose the weights by.
        nli: Anchors, positives and hard negatives, a list each, where `contrast_data` names `nli`.
        resume: Resume the interrupted run in the output folder, if there is one.
        progress: Where to show progress.

    Returns:
        The model and its run.

    Raises:
        InputError: Something in the configuration, the data or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("table2-given", overrides={"output": "multitask"})  # doctest: +SKIP
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
        >>> fit_multitask(config, train, dev).model.predict_sentiment(["Fun."])  # doctest: +SKIP
    """
    config.check_single_seed("fit_multitask")
    check_loss_options(config, cacheable=False)
    if uses_nli(config) != bool(nli):
        raise InputError(
            "contrast_data=nli needs NLI triples"
            if not nli
            else "nli is set, but contrast_data does not include it",
            "pass nli together with contrast_data=nli, or neither",
        )
    for task, data in dev:
        if data.label_names != train[task].label_names:
            raise InputError(
                f"the training and the dev set of {task} have different classes",
                "read the dev set with label_names of the training set",
            )
    on_main(lambda: RunFolder(Path(config.output)).check(config, resume=resume))
    with without_upstream_bars():
        session = on_all(lambda: MultiTaskSession(config, train, dev, nli, progress=progress))
        run = session.run(resume=resume)
        return MultiTaskRun(MultiTaskModel.load(run.output), run)


def train_row(
    config: MultiTaskConfig,
    flags: Mapping[str, Any],
    *,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
) -> list[str]:
    """Train a row and score it on the dev sets, a line for each score."""
    held_out, rows = (
        checked(name, parsed(str(flags[name]), kind), kind) if flags.get(name) is not None else None
        for name, kind in (("held_out", float), ("rows", int))
    )
    data_dir = flags.get("data_dir")
    sets = load_task_sets(data_dir=data_dir, held_out=held_out)
    train, dev = (part.sample(rows) for part in sets)
    nli = []
    if uses_nli(config):
        nli = read_nli_columns(flags.get("nli") or "simcse-nli", data_dir=data_dir, rows=rows)
    run = fit_multitask(config, train, dev, nli=nli, resume=resume, progress=progress)
    return _score_lines(evaluate_tasks(run.model, dev), config.recipe, config.output)


def ensemble_program(description: str | None) -> None:
    """Read the command line, put the best checkpoints of finished runs together and print their scores."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", choices=[ENSEMBLE])
    parser.add_argument("--runs", required=True, help="folders of finished runs: a,b,c")
    parser.add_argument("--output", required=True, help="output folder of the ensemble")
    parser.add_argument("--data-dir", help="folder that contains cs224n/; SENTEMB_DATA by default")
    parser.add_argument("--held-out", type=float, help="fraction of quora-dev.csv to evaluate on")
    parser.add_argument("--rows", type=int, help="maximum number of rows of each set")

    def make(options: argparse.Namespace) -> str:
        _, dev = load_task_sets(data_dir=options.data_dir, held_out=options.held_out)
        ensemble = TaskEnsemble.of_runs(options.runs.split(","))
        ensemble.save(options.output)
        scores = evaluate_tasks(ensemble, dev.sample(options.rows))
        return "\n".join(_score_lines(scores, ENSEMBLE, options.output))

    print(run_with_options(parser, make))  # noqa: T201 - a program


def _score_lines(scores: Mapping[str, float], row: str, output: str) -> list[str]:
    return [*(f"{name:<20} {100 * score:6.2f}" for name, score in scores.items()), f"{row:<20} {output}"]


class TaskEvaluator(BaseEvaluator):
    """Scores the model that is being trained on the dev sets."""

    primary_metric = OVERALL
    best_metric_key = f"eval_{OVERALL}"

    def __init__(self, model: MultiTaskModel, dev: TaskSets) -> None:
        super().__init__()
        self.model, self.dev = model, dev

    def __call__(self, model: SentenceTransformer, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate, in the way every sentence-transformers trainer calls it."""
        return evaluate_tasks(self.model, self.dev)


class MultiTaskSession(Session):
    """A run that trains one encoder and the heads of several tasks."""

    config: MultiTaskConfig

    def __init__(
        self,
        config: MultiTaskConfig,
        train: TaskSets,
        dev: TaskSets,
        nli: Sequence[Sequence[str]],
        *,
        progress: ConsoleProgress | None = None,
    ) -> None:
        super().__init__(config, progress=progress)
        self.train, self.dev, self.nli = train, dev, nli
        self.model.max_seq_length = self.max_length
        width, names = int(self.model.get_embedding_dimension() or 0), train.sentiment.label_names
        heads = TaskHeads(width, len(names), sharing=config.sharing, dropout=config.head_dropout)
        self.tasks = MultiTaskModel(self.model, heads, names, shifted=config.similarity_target == "shifted")
        self.loss = MultiTaskLoss(self.tasks, train, config, nli)
        self.plan = StepPlan(config, train, nli_rows=len(nli[0]) if nli else 0)
        self.evaluator = TaskEvaluator(self.tasks, dev)

    def describe(self) -> dict[str, Any]:
        """Return for the record what the run is trained on."""
        data = {
            "source": "the data",
            "train": {task: one.describe() for task, one in self.train},
            "dev": {task: one.describe() for task, one in self.dev},
            "nli": {"rows": len(self.nli[0]), "sha256": checksum(self.nli)} if self.nli else None,
        }
        heads = self.tasks.heads.config()
        return {"data": data, "stages": self.plan.stages, "heads": heads, **super().describe()}

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return for the record how the weights were chosen."""
        return {"metric": OVERALL}

    def write_model(self, folder: Path, record: dict[str, Any]) -> None:
        """Write the model and its card."""
        self.tasks.save(folder)
        write_card(folder / "README.md", lambda: multitask_card(self.config, record, loss=self.loss))

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer of the plan."""
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(self.folder.checkpoints),
            per_device_train_batch_size=1,
            num_train_epochs=1,
            max_grad_norm=self.config.clip,
            use_cpu=not torch.accelerator.is_available(),
            metric_for_best_model=self.evaluator.best_metric_key,
            greater_is_better=True,
            save_strategy="steps",
            save_steps=len(self.plan),
            logging_steps=_LOG_STEPS,
            seed=self.seed,
            report_to="none",
            disable_tqdm=True,
        )
        return MultiTaskTrainer(
            arguments, plan=self.plan, loss=self.loss, evaluator=self.evaluator, callbacks=callbacks
        )

    def retained(self, trainer: Any, kept: Run) -> set[int]:
        """Return the best steps by every metric, of which ensembles are made."""
        return {int(best["step"]) for best in best_scores(trainer.state).values()} - {kept.step}

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Return for the record where the best model by each metric lies."""
        best: dict[str, dict[str, Any]] = dict(best_scores(trainer.state))
        for one in best.values():
            step = int(one["step"])
            one["path"] = "." if step == kept.step else f"run/checkpoints/{checkpoint_name(step)}"
        return {"best": best, "seconds": round(self.speed.seconds, 2)}


def checksum(content: Any) -> str:
    """Return the SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()
