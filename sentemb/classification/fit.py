"""From labelled texts to a classifier in a folder: `fit_classifier`, and `sentemb train` for classifiers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup, set_seed

from sentemb._compat import Dense
from sentemb._files import shareable
from sentemb.classification.classifier import (
    Classifier,
    ClassifierEvaluator,
    Input,
    compute,
    grade_classes,
    inputs_of,
    score_classifier,
    score_grades,
)
from sentemb.data import load_labelled
from sentemb.data.columns import LABEL
from sentemb.data.labelled import LabelledTexts, read_labelled
from sentemb.data.sampling import LACON_WHOLE, cap_per_class, lacon_train_split, scl_dev_split
from sentemb.data.sources import read_rows
from sentemb.errors import InputError, unknown
from sentemb.modules.heads import build_head
from sentemb.training.card import ENCODER_ONLY, render_card, training_rows, with_options
from sentemb.training.config import ClassifierConfig, ProbeOptions
from sentemb.training.objective import build_loss, check_loss_options, citation_of, takes_head
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress
from sentemb.training.recipes import PROTOCOLS, Protocol
from sentemb.training.session import Session, run_session
from sentemb.training.trainer import bucketed_by_length, decay_groups

logger = logging.getLogger(__name__)

_LARGEST_WARMUP = 0.1  # share of the steps; BERT's, where the notebooks' fixed number is more than that


@dataclass(frozen=True)
class ClassifierRun:
    """A finished training.

    Args:
        classifier: The classifier, as `Classifier.load(run.output)` would give it.
        run: Where it lies and how it did; `dev_score` is the validation metric, `step` that of the encoder.
    """

    classifier: Classifier
    run: Run


def fit_classifier(
    config: ClassifierConfig,
    train: LabelledTexts,
    validation: LabelledTexts | None = None,
    *,
    resume: bool = False,
    in_memory: bool = False,
    progress: ConsoleProgress | None = None,
) -> ClassifierRun:
    """Train a classifier with one seed, and leave it in a folder that loads with and without sentemb.

    The same configuration and data on the same machine give the same weights, interrupted and resumed or not.

    Args:
        config: The configuration, with one seed.
        train: Texts, or pairs, with a class each.
        validation: The same kind of texts and the same classes, to choose the weights by; without it the last
            weights are kept.
        resume: Resume the interrupted run in the output folder, if there is one.
        in_memory: Write the run to a temporary folder, for a classifier that is used and forgotten.
        progress: Where to show progress.

    Returns:
        The classifier and its run.

    Raises:
        InputError: Something in the configuration, the data or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("lacon", overrides={"output": "cola-lacon"})  # doctest: +SKIP
        >>> cola = load_labelled("cola", split="train")  # doctest: +SKIP
        >>> fit_classifier(config, cola).classifier.predict(["Cat the sat."])  # doctest: +SKIP
    """
    check_options(config)
    _check_sets(train, validation)
    with ExitStack() as stack:
        if in_memory:
            config = config.replace(output=stack.enter_context(TemporaryDirectory()))

        def make() -> ClassifierSession:
            made = ClassifierSession(config, train, validation, progress=progress)
            made.is_resumable = not in_memory
            return made

        session, run = run_session(config, make, resume=resume)
        return ClassifierRun(session.classifier, run)


def check_options(config: ClassifierConfig) -> None:
    """Raise InputError for an unknown option, one of the wrong type, or one that the loss does not use."""
    check_loss_options(config)
    if not takes_head(config.loss):
        if config.head != "linear":
            raise InputError(
                f"{config.loss} does not train a head, and a {config.head} head cannot be fitted to a "
                "frozen encoder",
                "use the head linear, or another loss",
            )
    elif config.probe_options:
        raise InputError(
            f"{config.loss} trains the head itself, so probe_options (of a second stage) are not used",
            "remove probe_options, or use the recipe supcl-seq",
        )
    elif config.self_supervised:
        raise InputError(f"{config.loss} needs labels, which self_supervised hides", "remove self_supervised")


def _check_sets(train: LabelledTexts, validation: LabelledTexts | None) -> None:
    """Raise InputError for labelled texts that no classifier can be trained on."""
    if not train.label_names:
        raise InputError(
            f"the labels of {train.name} are scores, but a classifier needs classes", "use a set with classes"
        )
    where = f"{train.name} {train.split}"
    absent = [name for name, count in train.class_counts.items() if not count]
    if len(absent) == len(train.label_names) - 1:
        (only,) = set(train.label_names) - set(absent)
        raise InputError(
            f"all rows of {train.source or where} have the label {only}",
            "add examples of at least one more class",
        )
    if absent:  # a few examples drawn from a whole set, as in few-shot learning, can miss a rare class
        logger.warning(
            "%s does not have examples of the class %s, so the classifier will hardly ever predict it",
            where,
            ", ".join(absent[:5]),
        )
    if validation is None:
        return
    other = f"{validation.name} {validation.split}"
    if (validation.pairs is None) != (train.pairs is None):
        raise InputError(
            f"{other} and {where} do not match: one has pairs, the other single texts",
            "use the same text columns for both",
        )
    if unseen := [name for name in validation.label_names if name not in train.label_names]:
        raise InputError(
            f"{other} has labels that do not occur in {where}: {', '.join(unseen[:5])}",
            "add examples of these labels to the training set",
        )
    if validation.label_names != train.label_names:
        raise InputError(
            f"{other} numbers its classes differently from {train.name}",
            "read it with label_names=train.label_names",
        )


class ClassifierSession(Session):
    """A run that trains an encoder with a head, or before the head is fitted (SupCL-Seq)."""

    config: ClassifierConfig
    uses_prompts: ClassVar[bool] = False

    def __init__(
        self,
        config: ClassifierConfig,
        train: LabelledTexts,
        validation: LabelledTexts | None,
        *,
        progress: ConsoleProgress | None,
    ) -> None:
        self.train, self.validation = train, validation
        self.two_stages = not takes_head(config.loss)
        # Upstream's collator hands a pair over as it is, and the tokenizer joins its two texts.
        texts: list[Any] = [list(one) if isinstance(one, tuple) else one for one in inputs_of(train)]
        labels = {} if config.self_supervised else {LABEL: train.labels.tolist()}
        super().__init__(config, rows=Dataset.from_dict({"text": texts, **labels}), progress=progress)
        self.eval_steps = config.eval_steps or -(-len(train) // config.batch_size)
        start_from_pooler(self.model)
        size = {"width": self.model.get_embedding_dimension(), "classes": len(train.label_names)}
        head = build_head({"kind": config.head, **size, **config.head_options})
        self.classifier = Classifier(
            self.model, head, train.label_names, pairs=train.pairs is not None, max_length=self.max_length
        )
        self.head = self.classifier.head
        parts = () if self.two_stages else (self.head,)
        self.loss = build_loss(config, bucketed_by_length(self.model), *parts)
        self.final_evaluator = None
        if validation is not None:
            self.final_evaluator = ClassifierEvaluator(
                self.head, validation, metric=config.metric, max_length=self.max_length
            )
        self.evaluator = None if self.two_stages else self.final_evaluator
        self.probe_scores: list[float] = []

    def describe(self) -> dict[str, Any]:
        """Return for the record what the run is trained on."""
        sets = {"train": self.train, "validation": self.validation}
        data: dict[str, Any] = {name: None if one is None else one.describe() for name, one in sets.items()}
        data["source"] = shareable(self.train.source or self.train.name)
        return {"data": data, "head": self.head.config(), **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Fit the head on the frozen encoder, if the loss has not trained it."""
        if not self.two_stages:
            return kept
        self.announce(f"fitting the head on {len(self.train)} vectors of the frozen encoder")
        set_seed(self.seed)
        evaluator, options = self.final_evaluator, self.config.probe
        self.probe_scores = fit_probe(
            self.head,
            lambda: self._vectors(self.train, dropout=options.encoder_dropout),
            torch.from_numpy(self.train.labels).to(self.model.device),
            options=options,
            score=None if evaluator is None else evaluator.scorer(self._vectors(evaluator.data)),
            keep_best=not self.config.use_last,
        )
        if not self.probe_scores:
            return kept
        best = self.probe_scores[-1] if self.config.use_last else max(self.probe_scores)
        return replace(kept, dev_score=best)

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return for the record how the weights were chosen."""
        name = None if self.validation is None else self.validation.name
        probe = {"probe": self.probe_scores} if self.two_stages else {}
        return {"set": name, "metric": self.config.metric, **probe}

    def write_model(self, folder: Path) -> None:
        """Write the classifier."""
        self.classifier.save(folder)

    def card(self, record: dict[str, Any]) -> str:
        """Return the text of the model's card."""
        config, names, data = self.config, self.train.label_names, record["data"]["train"]
        dev, pairs = record["dev"], self.train.pairs is not None
        score = "none (the weights of the last step)"
        if dev["score"] is not None:
            score = f"{config.metric} {100 * dev['score']:.2f} of {dev['set']}"
        rows = {
            "Training data": f"{data['set']} {data['split']}, {data['rows']} {'pairs' if pairs else 'texts'}",
            "Classes": ", ".join(names[:20]) + (", ..." if len(names) > 20 else ""),
            "Head": with_options(config.head, config.head_options),
            **training_rows(config),
            "Validation score": score,
        }
        example = '("first text", "second text")' if pairs else '"a text"'
        code = "from sentemb.classification import Classifier\n\n"
        return render_card(
            config,
            f"A classifier trained with sentemb's `{config.recipe}` recipe.",
            f'{code}Classifier.load("{{name}}").predict([{example}])',
            rows,
            citation_of(self.loss),
            after_code=ENCODER_ONLY,
            pipeline="text-classification",
            tags=("text-classification",),
        )

    def _vectors(self, data: LabelledTexts, *, dropout: bool = False) -> Tensor:
        """Return vectors of the frozen encoder, `(n, d)`."""
        vectors = compute(
            self.model,
            inputs_of(data),
            lambda output: output["sentence_embedding"],
            max_length=self.max_length,
            dropout=dropout,
        )
        return torch.from_numpy(vectors).to(self.model.device)


def start_from_pooler(model: SentenceTransformer) -> None:
    """Let Dense + tanh after CLS begin as the checkpoint's pooler, as BERT's fine-tuning does."""
    pooler = getattr(getattr(getattr(model[0], "model", None), "pooler", None), "dense", None)
    head = model[-1]
    # A Dense whose biases are zero is a new one; a pooler that the checkpoint lacks is loaded as zeros.
    new = isinstance(head, Dense) and head.linear.bias is not None and not head.linear.bias.any()
    if new and isinstance(pooler, nn.Linear) and bool(pooler.weight.any()):
        head.linear.load_state_dict(pooler.state_dict())


def fit_probe(
    head: nn.Module,
    vectors: Callable[[], Tensor],
    labels: Tensor,
    *,
    options: ProbeOptions,
    score: Callable[[], float] | None,
    keep_best: bool = True,
) -> list[float]:
    """Train a head by cross-entropy on the vectors of a frozen encoder; return its score of each epoch."""
    passes = options.passes(len(labels))
    steps = options.epochs * passes * options.steps(len(labels))
    optimizer = torch.optim.AdamW(
        decay_groups(head.parameters(), options.weight_decay), lr=options.learning_rate
    )
    warmup = min(options.warmup_steps, int(_LARGEST_WARMUP * steps))
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, steps)
    scores: list[float] = []
    best = deepcopy(head.state_dict())
    current = vectors()
    for number in range(options.epochs * passes):
        if number and options.encoder_dropout:
            current = vectors()
        head.train()
        for rows in torch.split(torch.randperm(len(labels)), options.batch_size):
            logits = head({"sentence_embedding": current[rows]})  # (b, classes)
            nn.functional.cross_entropy(logits, labels[rows]).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(head.parameters(), options.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        head.eval()
        if score is not None and (number + 1) % passes == 0:
            scores.append(score())
            if scores[-1] > max(scores[:-1], default=float("-inf")):
                best = deepcopy(head.state_dict())
    if scores and keep_best:
        head.load_state_dict(best)
    return scores


class Sets(NamedTuple):
    """Texts to train on, to choose the weights by (None keeps the last), and to report."""

    train: LabelledTexts
    validation: LabelledTexts | None
    test: LabelledTexts | None


def train_classifier(
    config: ClassifierConfig,
    flags: Mapping[str, Any],
    *,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
) -> list[str]:
    """Train on what the flags name and score the result, a line for each set."""
    if flags.get("task") is None:
        sets = _own_sets(flags)
    else:
        sets = _task_sets(config, flags["task"], PROTOCOLS[flags["protocol"]], flags.get("data_dir"))
    fitted = fit_classifier(config, sets.train, sets.validation, resume=resume, progress=progress)
    lines = [f"{config.recipe} on {sets.train.name}, {len(sets.train)} rows, seed {config.seeds[0]}"]
    for title, data in (("validation", sets.validation), ("test", sets.test)):
        if data is not None:
            score = score_classifier if data.label_names else score_grades
            values = score(fitted.classifier, data).items()
            shown = "  ".join(f"{name} {100 * value:.2f}" for name, value in values)
            lines.append(f"{title:<10}  {len(data):>6} rows  {shown}")
    return [*lines, f"classifier  {config.output}"]


def check_flags(flags: Mapping[str, Any]) -> None:
    """Raise InputError for flags that do not go together, before anything is read."""
    task, own = flags.get("task"), flags.get("train")
    if (task is None) == (own is None):
        raise InputError(
            "training data is missing" if task is None else "--task and --train are both set",
            "specify either --task or --train",
        )
    if task is None:
        return
    for name in ("validation", "test", "columns", "label"):
        if flags.get(name) is not None:
            raise InputError(
                f"--{name} needs --train; --task {task} already defines its rows",
                f"remove --{name}, or replace --task with --train FILE",
            )
    if flags.get("protocol") is None:
        raise InputError("the task needs a protocol", f"set --protocol {'|'.join(PROTOCOLS)}")
    if task not in (tasks := PROTOCOLS[flags["protocol"]].tasks):
        raise unknown("task", task, tasks)


def _own_sets(flags: Mapping[str, Any]) -> Sets:
    columns, label = (flags.get("columns") or "text").split(","), flags.get("label") or "label"

    def read(split: str, names: tuple[str, ...] | None = None) -> LabelledTexts | None:
        if (path := flags.get(split)) is None:
            return None
        return read_own_labelled(path, columns=columns, label=label, label_names=names, split=split)

    train = read("train")
    assert train is not None  # check_flags
    _check_sets(train, None)  # before other rows are read, whose labels the training rows may lack
    return Sets(train, read("validation", train.label_names), read("test", train.label_names))


def _task_sets(config: ClassifierConfig, task: str, protocol: Protocol, data_dir: str | None) -> Sets:
    """Load a task, divided as the protocol's paper does it."""
    name = "stsb-glue" if task == "stsb" else task
    splits = ("train", protocol.tasks[task].get("test", "dev"))
    train, test = (load_labelled(name, split=split, data_dir=data_dir) for split in splits)
    (seed,) = config.seeds
    if protocol.split == "lacon":  # section 3.1: a capped sample, 5 % of which choose the weights
        if task not in LACON_WHOLE:
            train = train.select(cap_per_class(train.labels, seed=seed))
        rows = lacon_train_split(train.labels, seed=seed)
        return Sets(train.select(rows.train), train.select(rows.validation, split="validation"), test)
    if protocol.split == "scl":  # section 4.1: the dev split in two, the same for all seeds
        parts = scl_dev_split(test.labels)
        chosen, reported = (test.select(getattr(parts, one), split=one) for one in ("validation", "test"))
        return Sets(train, chosen, reported)
    if task == "stsb":
        if config.recipe.startswith("ce"):
            raise InputError(
                "the cross-entropy recipes do not support the task stsb, which has scores instead of classes",
                "use another --task or recipe",
            )
        # Footnote 3; the released code does not round.
        train = grade_classes(train, decimals=None if config.preset == "released" else 1)
    return Sets(train, None, test)


def read_own_labelled(
    path: str | Path,
    *,
    columns: Sequence[str] = ("text",),
    label: str = "label",
    label_names: Sequence[str] | None = None,
    split: str = "train",
) -> LabelledTexts:
    """Read texts, or pairs of texts, and their labels.

    Args:
        path: A table, as `sentemb.data.read_labelled` takes it.
        columns: The column of the texts, or the two columns of the pairs.
        label: Column of the labels.
        label_names: The classes in the order of their numbers; those of the training set for any other.
        split: What messages call it.

    Returns:
        The rows in the order of the file.

    Raises:
        InputError: The file, a column or a label is missing or broken, or a text is empty.

    Example:
        >>> data = read_own_labelled("few.csv")
        >>> data.label_names
        ('abbreviation', 'description', 'entity', 'location', 'number', 'person')
    """
    text, pair = _text_columns(columns)
    data = read_labelled(path, text=text, pair=pair, label=label, label_names=label_names, split=split)
    for column, texts in ((text, data.texts), (pair, data.pairs or [])):
        for row, one in enumerate(texts, start=1):
            if not one.strip():
                raise InputError(
                    f"{path}: column {column!r} of row {row} is empty", "remove the row, or fill in the value"
                )
    return data


def read_own_texts(path: str | Path, *, columns: Sequence[str] = ("text",)) -> list[Input]:
    """Read texts, or pairs of texts, to be classified.

    Args:
        path: A table, or a file with one text a line.
        columns: The column of the texts, or the two columns of the pairs.

    Returns:
        Texts or pairs in the order of the file; empty ones count.

    Raises:
        InputError: The file or a column is missing or broken, or there is no row.

    Example:
        >>> read_own_texts("few.csv")[0]
        'What does it stand for item 0 ?'
    """
    text, pair = _text_columns(columns)
    rows = read_rows(path, columns=[text] if pair is None else [text, pair])
    return [row.text(text) if pair is None else (row.text(text), row.text(pair)) for row in rows]


def _text_columns(columns: Sequence[str]) -> tuple[str, str | None]:
    if len(columns) == 1:
        return columns[0], None
    if len(columns) == 2 and columns[0] != columns[1]:
        return columns[0], columns[1]
    raise InputError(
        f"text columns are {', '.join(columns) or '(none)'}",
        "list one text column, or the two columns of pairs",
    )
