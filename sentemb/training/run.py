"""`train` and `train_seeds`: from a configuration to folders that plain sentence-transformers loads."""

from __future__ import annotations

import logging
import math
import shutil
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from pydantic import TypeAdapter
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

from sentemb._compat import BaseEvaluator
from sentemb._files import write_json
from sentemb._uris import local_path
from sentemb.augmentation import negate
from sentemb.data import describe_source, load_columns
from sentemb.data.bundled_text import BUNDLED_PAIRS, bundled_pairs
from sentemb.data.columns import LABEL
from sentemb.data.pairs import PAIR_COLUMNS, clean_pairs, load_pairs, paraphrase_components
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.encoding import load_encoder
from sentemb.encoding.teachers import check_weights, mix_vectors
from sentemb.errors import InputError
from sentemb.evaluation import STSEvaluator
from sentemb.evaluation.comparison import DRAWS, Difference
from sentemb.evaluation.resampling import bootstrap
from sentemb.evaluation.sts import Similarities
from sentemb.losses import GradientCache, RankEncoderLoss, SNCSELoss, ViewCache
from sentemb.losses.base import EncoderLoss
from sentemb.modules import is_finished_encoder, load
from sentemb.modules.cards import public_name
from sentemb.training.checkpoints import check_checkpoint, checkpoints
from sentemb.training.config import PairsConfig, TrainConfig
from sentemb.training.folder import RunFolder
from sentemb.training.objective import build_loss, check_loss_options, loss_class, negatives_per_anchor
from sentemb.training.outcome import Run
from sentemb.training.pairs import PairsSession
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import on_main
from sentemb.training.recipes import RECIPES
from sentemb.training.session import Session, run_session
from sentemb.training.trainer import bucketed_by_length

logger = logging.getLogger(__name__)

_SIMILARITIES = "dev_similarities.safetensors"


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
    keep_checkpoints: bool = False,
) -> Run:
    """Train one encoder with one seed.

    The same configuration on the same machine gives the same weights, interrupted and resumed or not.

    Args:
        config: The configuration, with one seed.
        resume: Resume the interrupted run in the output folder, if there is one.
        progress: Where to show progress.
        view_cache: Cache of frozen views to share between runs on the same base model and data.
        keep_checkpoints: Keep the weights of all evaluations, for `choose_checkpoint`.

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
            made: Session = PairsSession(config, progress=progress)
        else:
            made = ContrastiveSession(config, progress=progress, view_cache=view_cache)
        made.keep_checkpoints = keep_checkpoints
        return made

    return run_session(config, session, resume=resume)[1]


def choose_checkpoint(config: TrainConfig) -> SentenceTransformer:
    """Return the encoder that training with `config` would have kept, without training again.

    The dev set decides only which weights are kept. So one training serves several dev sets.

    Args:
        config: The configuration of a finished run that kept its checkpoints; `dev` may be another.

    Returns:
        The best checkpoint on the dev set, or the base as shipped, where training would fall back to it.

    Raises:
        InputError: The run does not have its checkpoints, or the dev set cannot be used.

    Example:
        >>> train(config, keep_checkpoints=True)  # doctest: +SKIP
        >>> choose_checkpoint(config.replace(dev="stsb,sickr"))  # doctest: +SKIP
    """
    folder, evaluator = RunFolder(Path(config.output)), dev_evaluator(config)
    found, evaluations = (
        checkpoints(folder.checkpoints),
        folder.read_record().get("dev", {}).get("evaluations", 1),
    )
    if len(found) < max(evaluations, 1):
        reason = f"{config.output} contains {len(found)} checkpoints of {evaluations} evaluations"
        raise InputError(reason, "train with keep_checkpoints=True")
    for _, path in found:
        check_checkpoint(path)
    candidates = [str(path) for _, path in found]
    if evaluator is None or config.use_last:
        return load(candidates[-1])
    if _starts_from_another_pooling(config):
        candidates.insert(0, config.base)
    best, best_score = "", -math.inf
    for name in candidates:
        score = evaluator(load(name))[evaluator.primary_metric]
        if score > best_score:
            best, best_score = name, score
    return load(best)


def _starts_from_another_pooling(config: TrainConfig) -> bool:
    """Return True if the base as shipped is not the state before the first step."""
    return config.pooling is not None and is_finished_encoder(config.base)


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


class ContrastiveSession(Session):
    """A run that trains an encoder on text and chooses its weights by a similarity dev set.

    The baseline is the base as shipped. It is the state before the first step, unless a pooling is named for
    an encoder that has one: then it is evaluated separately. If nothing beats it, it is the result.
    """

    config: TrainConfig
    eval_on_start: ClassVar[bool] = True

    def __init__(
        self, config: TrainConfig, *, progress: ConsoleProgress | None, view_cache: ViewCache | None
    ) -> None:
        rows = load_rows(config)
        check_teachers(config)
        self.evaluator = dev_evaluator(config)
        self.eval_steps = config.eval_steps
        super().__init__(config, progress=progress, rows=rows)
        whole_pass = config.max_steps is None or config.max_steps * config.batch_size >= len(rows)
        encoder = bucketed_by_length(self.model)
        self.loss = build_loss(config, encoder, view_cache=view_cache, whole_pass=whole_pass)
        self.negatives = negatives_per_anchor(
            self.loss, batch_size=config.batch_size, columns=self.text_columns
        )
        self.remarks = () if self.negatives is None else (f"negatives per anchor: {self.negatives}",)
        if getattr(self.loss, "view_cache", None) is not None:
            self.remarks += ("computing the views of the frozen encoder before the first step",)
        self.shipped: float | None = None

    def prepare(self) -> None:
        """Encode by the teachers; evaluate the base as shipped, if training does not start from it."""
        config = self.config
        if config.teachers:
            self._learn_from_teachers()
        if self.evaluator is not None and _starts_from_another_pooling(config):
            with torch.random.fork_rng():
                scores = self.evaluator(load(config.base))
            self.shipped = scores[self.evaluator.primary_metric]
            self.announce(f"the base {config.base} before training: dev Spearman {100 * self.shipped:.2f}")

    def _learn_from_teachers(self) -> None:
        """Label what training sees with the teachers' vectors, and draw the corpus of rank vectors."""
        config, rows = self.config, self.rows
        assert rows is not None
        loss = self.loss.loss if isinstance(self.loss, GradientCache) else self.loss
        count = used = len(rows)
        if config.max_steps is not None:
            used = min(count, config.max_steps * config.batch_size)
        corpus = min(count, config.corpus_size) if isinstance(loss, RankEncoderLoss) else 0
        order = np.random.default_rng(self.seed).permutation(count)
        encoded = np.sort(order[: max(used, corpus)])
        texts, parts = pa.array(rows[rows.column_names[0]]).take(pa.array(encoded)), []
        for name in config.teachers:
            teacher = load_encoder(name, cache_dir=config.cache_dir or self.kept_vectors)
            parts.append(self.encode_by_teacher(teacher, texts.to_pylist(), name=public_name(name)))
        vectors = mix_vectors(parts, config.teacher_weights)
        if isinstance(loss, RankEncoderLoss):
            loss.set_corpus(vectors[np.isin(encoded, order[:corpus])])
        seen = np.flatnonzero(np.isin(encoded, order[:used]))
        labels = pa.FixedSizeListArray.from_arrays(pa.array(vectors[seen].ravel()), vectors.shape[1])
        self.rows = Dataset(pa.table({rows.column_names[0]: texts.take(pa.array(seen)), LABEL: labels}))

    def describe(self) -> dict[str, Any]:
        """Return for the record what the run is trained on."""
        config = self.config
        data = describe_source(config.data, data_dir=config.data_dir, rows=len(self.rows or ()))
        return {"data": data, "negatives_per_anchor": self.negatives, **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Fall back to the base if nothing beat it."""
        on_main(lambda: shutil.rmtree(self.kept_vectors, ignore_errors=True))
        if self.evaluator is None:
            return kept
        base, first = (self.scores[0], 0) if self.shipped is None else (self.shipped, -1)
        kept = replace(kept, base_score=base, interval=self.evaluator.interval(first, kept.step))
        if kept.dev_score is None or self.config.use_last:
            return kept
        if self.shipped is not None and kept.dev_score <= self.shipped:
            self.model = load(self.config.base)
            kept = replace(kept, step=0, dev_score=self.shipped, interval=None)
        if kept.step == 0:
            self.announce(
                f"no checkpoint beat the base model on the dev set, so {kept.output} is the base, "
                f"{public_name(self.config.base)}"
            )
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Return for the record how the weights were chosen."""
        return {
            "set": local_path(self.config.dev).name,
            "metric": "Spearman correlation of cosine similarities, protocol all",
            "initial": scores[0] if scores else None,
            "base": kept.base_score,
            "interval": kept.interval,
        }


def load_rows(config: TrainConfig) -> Dataset:
    """Load the training rows; raise InputError if there is nothing to contrast."""
    if config.label is not None:  # labelled pairs, without those that contradict or repeat each other
        pairs = load_pairs(config.data, columns=config.columns, label=config.label, data_dir=config.data_dir)
        kept, counts = clean_pairs(pairs)
        if counts.kept < counts.rows or counts.implied:
            logger.warning("%s: %s", config.data, counts)
        labels = np.column_stack([kept.labels, paraphrase_components(kept)])  # (n, 3)
        first, second = PAIR_COLUMNS
        return Dataset.from_dict({first: kept.texts, second: kept.pairs, LABEL: labels.tolist()})
    rows = load_columns(config.data, config.columns, data_dir=config.data_dir)
    if config.loss == SNCSELoss.__name__ and len(rows.column_names) == 1:
        rows = rows.add_column("negation", [negate(text) for text in rows[rows.column_names[0]]])
    recipe = RECIPES.get(config.recipe)
    if recipe is not None and len(rows.column_names) < recipe.least_columns:
        raise InputError(
            f"the recipe {config.recipe} needs pairs, but only one column of {config.data} is "
            f"selected: {rows.column_names[0]!r}",
            "list the columns in order: --columns ANCHOR,POSITIVE[,HARD_NEGATIVE]",
        )
    # Where each unique row comes first; Arrow compares the texts where they lie.
    table: pa.Table = rows.with_format("arrow")[:]
    places = table.append_column("place", pa.array(np.arange(len(table))))
    first = places.group_by(table.column_names, use_threads=False).aggregate([("place", "min")])
    unique = sorted(first["place_min"].to_pylist())
    if len(unique) == 1:
        repeated = "" if len(rows) == 1 else f", {len(rows)} times"
        raise InputError(
            f"{config.data} contains a single unique row{repeated}",
            "provide two or more unique texts for contrastive training",
        )
    if config.deduplicate:
        return rows.select(unique)
    if 2 * len(unique) < len(rows):
        logger.warning(
            "%s contains many duplicates: only %d of %d rows are unique, and duplicates serve as "
            "each other's negatives. Set deduplicate to remove them.",
            config.data,
            len(unique),
            len(rows),
        )
    return rows


def check_teachers(config: TrainConfig) -> None:
    """Raise InputError if a loss that learns from teachers has none, or another loss has some."""
    chosen = loss_class(config.loss)
    learns = issubclass(chosen, EncoderLoss) and chosen.learns_from_teachers
    if config.teachers and not learns:
        raise InputError(f"{config.loss} does not learn from teachers", "remove --teachers")
    if learns:
        if not config.teachers:
            raise InputError(f"{config.loss} learns from teachers", "name encoders with --teachers")
        check_weights(len(config.teachers), config.teacher_weights)


class DevEvaluator(BaseEvaluator):
    """Keep the similarities of every STS evaluation, so that two of them can be compared."""

    def __init__(self, *pairs: ScoredPairs) -> None:
        super().__init__()
        self.sts = STSEvaluator(pairs=pairs, name="dev", geometry=True, write_csv=False)
        self.name, self.primary_metric = self.sts.name, self.sts.primary_metric
        self.best_metric_key = self.sts.best_metric_key
        self.evaluated: dict[int, Similarities] = {}

    def __call__(self, model: Any, output_path: Any = None, epoch: float = -1, steps: int = -1) -> Any:
        """Evaluate; `steps` is -1 for a model that is not in training."""
        self.sts.similarities = []
        metrics = self.sts(model, output_path, epoch, steps)
        if self.sts.similarities:
            self.evaluated[steps] = np.concatenate(self.sts.similarities)
        return metrics

    def save_state(self, folder: Path, *, best: int | None, last: int) -> None:
        """Write what the verdict of a resumed run needs: the first, the best and the last evaluation."""
        kept = {str(step): found for step, found in self.evaluated.items() if step in (0, best, last)}
        save_file(kept, folder / _SIMILARITIES)

    def load_state(self, folder: Path) -> None:
        """Take what was written, next to what this process has evaluated."""
        self.evaluated |= {int(step): found for step, found in load_file(folder / _SIMILARITIES).items()}

    def interval(self, first: int, second: int) -> tuple[float, float] | None:
        """Return the paired bootstrap's 95 % interval of the change in Spearman between two steps."""
        if first == second or not {first, second} <= self.evaluated.keys():
            return None
        both, generator = np.stack([self.evaluated[first], self.evaluated[second]]), np.random.default_rng(0)
        ends = np.cumsum([len(one) for one in self.sts.pairs])
        changes = []
        for one, part in zip(self.sts.pairs, np.split(both, ends[:-1], axis=1), strict=True):
            scores = bootstrap("spearman", part, one.gold, draws=DRAWS, generator=generator)
            changes.append(scores[1] - scores[0])
        low, high = np.nanquantile(np.mean(changes, axis=0), (0.025, 0.975)).tolist()
        return low, high


def dev_evaluator(config: TrainConfig) -> DevEvaluator | None:
    """Make the evaluator that chooses the best checkpoint."""
    if config.dev == "none":
        return None
    if config.dev == BUNDLED_PAIRS:
        return DevEvaluator(bundled_pairs())
    # A file can have a comma in its name.
    names = [config.dev] if Path(config.dev).exists() else config.dev.split(",")
    try:
        return DevEvaluator(
            *(load_scored_pairs(name, split="dev", data_dir=config.data_dir) for name in names)
        )
    except InputError as error:
        hints = [error.hint] if error.hint else []
        hints += ["set --data-dir, use a file of scored pairs as --dev"]
        hints += ["--dev none to keep the weights of the last step"]
        raise InputError(f"dev set {config.dev}: {error.message}", ", or ".join(hints)) from None
