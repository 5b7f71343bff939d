"""From labelled texts of three tasks to one model: loss, trainer and run."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.util import batch_to_device
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb._compat import BaseEvaluator, get_rank, get_world_size
from sentemb.errors import InputError
from sentemb.losses import ParaphraseContrastLoss, SimCSELoss
from sentemb.losses.views import mean_weight, project
from sentemb.multitask.model import METRICS, OVERALL, MultiTaskModel, TaskHeads, evaluate_tasks, task_loss
from sentemb.multitask.pcgrad import project_conflicts
from sentemb.multitask.tasks import (
    TASKS,
    ContrastSet,
    Part,
    Step,
    StepPlan,
    Task,
    TaskSets,
    load_task_sets,
    read_nli_columns,
    uses_nli,
)
from sentemb.training.card import ENCODER_ONLY, render_card, training_rows
from sentemb.training.checkpoints import checkpoint_name, checkpoints, keep_weights, remove_folder
from sentemb.training.config import MultiTaskConfig as MultiTaskConfig
from sentemb.training.config.base import checked
from sentemb.training.objective import check_loss_options
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import share_of
from sentemb.training.session import Session, run_session
from sentemb.training.trainer import SentembTrainer, average, bucketed_by_length, decay_groups
from sentemb.training.values import parsed

_LOG_STEPS = 50
_CODE = """from sentemb.multitask import MultiTaskModel

model = MultiTaskModel.load("{name}")
model.predict_sentiment(["a text"])
model.predict_paraphrase([("first text", "second text")])
model.predict_similarity([("first text", "second text")])"""


class MultiTaskLoss(nn.Module):
    """Owns the heads of the tasks and of contrast, so that every checkpoint holds them.

    One head of two linear layers serves all contrast (Chen, section 4.1): of labelled pairs in
    `ParaphraseContrastLoss`, of triples and dropout views in `SimCSELoss`. The two sides of unlabelled pairs
    are views in batches of their own, since the partner of a text is not a negative of it; the paper does
    not say.
    """

    def __init__(
        self,
        model: MultiTaskModel,
        sets: TaskSets,
        config: MultiTaskConfig,
        nli: Sequence[Sequence[str]] = (),
    ) -> None:
        super().__init__()
        self.tasks, self.sets, self.config = model, sets, config
        self.encoder, self.heads = model.encoder, model.heads
        self.pairs = ParaphraseContrastLoss(self.encoder, **check_loss_options(config, cacheable=False))
        self.views = SimCSELoss(self.encoder, temperature=self.pairs.temperature, head=None)
        self.columns: dict[ContrastSet, Sequence[Sequence[str]]] = {
            task: sets.columns(task) for task in TASKS
        }
        self.columns["nli"] = nli
        # For the record and the card.
        self.citation, self.get_config_dict = self.pairs.citation, self.pairs.get_config_dict

    def forward(self, part: Part) -> Tensor:
        """Return the loss of a batch: on several ranks of each one's rows, which average to that of all."""
        world = get_world_size()
        # A batch that cannot be divided is every rank's.
        divided = world > 1 and len(part.rows) >= world
        rows = part.rows[share_of(len(part.rows), get_rank(), world)] if divided else part.rows
        columns = [[column[row] for row in rows] for column in self.columns[part.data]]
        labels = None
        if part.data != "nli":
            labels = torch.from_numpy(self.sets[part.data].labels[rows]).to(self.encoder.device)
        if part.objective == "contrast":
            labelled = part.data == "paraphrase" and self.config.contrast_supervised
            self.pairs.gather_across_devices = self.views.gather_across_devices = divided
            return self.contrast(columns, labels if labelled else None)
        task = cast(Task, part.data)  # triples do not have a task
        predicted = self.heads(task, *_embed(self.encoder, columns))
        nominal = self.config.batch_size if self.config.preset == "released" else None
        loss = task_loss(task, predicted, cast(Tensor, labels), nominal_rows=nominal)
        if not divided:
            return loss
        # A sum over a fixed number of rows is not a mean.
        return loss * (world if nominal and task == "sentiment" else mean_weight(predicted))

    def contrast(self, columns: Sequence[Sequence[str]], labels: Tensor | None = None) -> Tensor:
        """Return the loss of labelled pairs, of triples, or of the dropout views of each column."""
        if labels is not None:
            return self.pairs.compute_loss_from_embeddings(_embed(self.encoder, columns), labels)
        groups = [columns] if len(columns) == 3 else [[one, one] for one in columns]
        losses: list[Any] = [
            self.views.compute_loss_from_embeddings(
                [project(self.pairs.head, vectors) for vectors in _embed(self.encoder, group)]
            )
            for group in groups
        ]
        return torch.stack(losses).mean()


def _embed(encoder: SentenceTransformer, columns: Sequence[Sequence[str]]) -> list[Tensor]:
    """Return training vectors of columns, each `(n, d)`; every text has a dropout mask of its own."""
    texts = [text for column in columns for text in column]
    features = batch_to_device(encoder.preprocess(texts), encoder.device)
    vectors: Tensor = bucketed_by_length(encoder)(features)["sentence_embedding"]  # (columns * n, d)
    return list(vectors.chunk(len(columns)))


class MultiTaskTrainer(SentembTrainer):
    """Takes the steps of a plan, each stage with a fresh optimizer."""

    loss: MultiTaskLoss

    def __init__(self, folder: Path, *, plan: StepPlan, loss: MultiTaskLoss, **kwargs: Any) -> None:
        config = loss.config
        self.plan, self._parts = plan, defaultdict[str, list[Tensor]](list)
        self.weights = [parameter for parameter in loss.parameters() if parameter.requires_grad]
        groups = decay_groups(self.weights, config.weight_decay)
        # The plan has the learning rate.
        optimizer = torch.optim.AdamW(groups, lr=1.0, betas=config.betas, eps=config.epsilon, fused=True)
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=1,
            num_train_epochs=1,
            max_grad_norm=config.clip,
            use_cpu=not torch.accelerator.is_available(),
            metric_for_best_model=TaskEvaluator.best_metric_key,
            greater_is_better=True,
            save_strategy="steps",
            save_steps=len(plan),
            logging_steps=_LOG_STEPS,
            seed=config.seeds[0],
            report_to="none",
            disable_tqdm=True,
        )
        with torch.random.fork_rng():  # upstream seeds the generator again
            super().__init__(
                loss.encoder,
                arguments,
                loss=loss,
                optimizers=(optimizer, LambdaLR(optimizer, plan.learning_rate)),
                card=False,
                **kwargs,
            )
        self.add_callback(_PlanCallback(plan))

    def get_train_dataloader(self) -> DataLoader[Step]:
        """Return the steps, in order."""
        # A generator of its own, because a loader draws a number when it starts.
        return DataLoader(
            self.plan,
            batch_size=1,
            collate_fn=lambda steps: {"step": steps[0]},
            generator=torch.Generator(),
        )

    def override_model_in_loss(self, loss: nn.Module, model: nn.Module) -> nn.Module:
        """Leave the encoder in the loss: gradients are averaged here, not by a wrapper."""
        return loss

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Compute the gradients of one step, and return the mean of its losses."""
        number, config = self.state.global_step, self.loss.config
        if self.plan.locate(number)[1] == 0:
            self.optimizer.state.clear()
        self.loss.train()
        with torch.autocast(self.args.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            losses = {part.name: self.loss(part) for part in inputs["step"]}
        total = torch.stack(list(losses.values())).mean()
        if config.gradient_surgery and len(losses) > 1:
            parts = list(losses.values())
            gradients = [
                # The tasks may have computed something in common.
                torch.autograd.grad(loss, self.weights, retain_graph=loss is not parts[-1], allow_unused=True)
                for loss in parts
            ]
            for own in (entry for one in gradients for entry in one):
                average(own)
            generator = random.Random(f"{config.seeds[0]}/{number}")
            combined = project_conflicts(gradients, generator=generator, preset=config.preset)
            for parameter, gradient in zip(self.weights, combined, strict=True):
                parameter.grad = gradient
        else:
            total.backward()  # type: ignore[no-untyped-call]
            for parameter in self.loss.parameters():
                average(parameter.grad)
        for name, loss in losses.items():
            self._parts[name].append(loss.detach())
        return total.detach()

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate without touching the random state that dropout draws from."""
        with torch.random.fork_rng():
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log with the stage and the mean loss of each kind of batch."""
        if "loss" in logs:
            logs |= {f"loss_{name}": torch.stack(one).mean().item() for name, one in self._parts.items()}
            self._parts.clear()
        stage: Any = self.plan.stages[self.plan.locate(max(0, self.state.global_step - 1))[0]]
        super().log(logs | {"stage": stage}, start_time)

    def save_weights(self, folder: Path) -> None:
        """Write the weights, and the heads as a model has them."""
        super().save_weights(folder)
        self.loss.tasks.write_heads(folder)

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        norm: Tensor = nn.utils.clip_grad_norm_(self.loss.parameters(), self.args.max_grad_norm)
        return norm

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if not self.args.should_save:
            return
        best = {int(one["step"]) for one in best_scores(self.state).values()}
        for step, path in checkpoints(Path(self.args.output_dir)):
            if step not in best | {self.state.global_step}:
                remove_folder(path)
            elif step != self.state.global_step:
                keep_weights(path)


class _PlanCallback(TrainerCallback):
    """Saves after every epoch, and evaluates those of the last stage."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        last = state.global_step - 1
        if self.plan.ends_epoch(last):
            control.should_log = control.should_save = True
            control.should_evaluate = self.plan.locate(last)[0] == len(self.plan.stages) - 1


def best_scores(state: TrainerState) -> dict[str, dict[str, float]]:
    """Return for each metric the best score, and the step after which it was first reached."""
    best: dict[str, dict[str, float]] = {}
    for entry in state.log_history:
        for name in (*METRICS.values(), OVERALL):
            score = entry.get(f"eval_{name}")
            if score is not None and (name not in best or score > best[name]["score"]):
                best[name] = {"score": score, "step": entry["step"]}
    return best


def fit_multitask(
    config: MultiTaskConfig,
    train: TaskSets,
    dev: TaskSets,
    *,
    nli: Sequence[Sequence[str]] = (),
    resume: bool = False,
    progress: ConsoleProgress | None = None,
) -> Run:
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
        The finished run; `dev_score` is the mean of the three tasks, and `MultiTaskModel.load(run.output)`
        reads the model.

    Raises:
        InputError: Something in the configuration, the data or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("table2-given", overrides={"output": "multitask"})  # doctest: +SKIP
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
        >>> model = MultiTaskModel.load(fit_multitask(config, train, dev).output)  # doctest: +SKIP
    """
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

    def make() -> MultiTaskSession:
        return MultiTaskSession(config, train, dev, nli, progress=progress)

    return run_session(config, make, resume=resume)[1]


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
    scores = evaluate_tasks(MultiTaskModel.load(run.output), dev).items()
    lines = [f"{name:<20} {100 * score:6.2f}" for name, score in scores]
    return [*lines, f"{config.recipe:<20} {config.output}"]


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
        self.tasks = MultiTaskModel(self.model, heads, names)
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

    def write_model(self, folder: Path) -> None:
        """Write the encoder with the heads."""
        self.tasks.save(folder)

    def card(self, record: dict[str, Any]) -> str:
        """Return the model card."""
        config = self.config
        sets = [f"{one['set']} ({one['rows']} rows)" for one in record["data"]["train"].values()]
        rows = {
            "Training data": ", ".join(sets),
            "Stages": ", then ".join(record["stages"]),
            "Tasks trained": ", ".join(config.tasks),
            "Heads": f"{config.sharing}, dropout {config.head_dropout:g}",
            **training_rows(config),
            "Dev score": f"{100 * record['dev']['score']:.2f}, the mean over the three tasks",
        }
        what = "A multi-task model for sentiment, paraphrase and similarity, trained with sentemb's"
        tags = ("sentence-similarity", "text-classification")
        return render_card(
            config,
            f"{what} `{config.recipe}` recipe.",
            _CODE,
            rows,
            self.loss.citation,
            after_code=ENCODER_ONLY,
            tags=tags,
        )

    def make_trainer(self, callbacks: list[TrainerCallback], *, fresh: bool) -> Any:
        """Make the trainer of the plan."""
        return MultiTaskTrainer(
            self.folder.checkpoints,
            plan=self.plan,
            loss=self.loss,
            evaluator=self.evaluator,
            callbacks=callbacks,
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
