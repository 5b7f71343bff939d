"""Trials that train or adapt an encoder, or take it frozen, and evaluate it on scored pairs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field
from sentence_transformers import SentenceTransformer

from sentemb._files import new_folder, write_text
from sentemb.data.pairs import draw_pairs
from sentemb.encoding.encoder import Precision
from sentemb.encoding.resolve import name_of
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.errors import InputError
from sentemb.evaluation.environment import command_line
from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.schema import Record, slug
from sentemb.evaluation.sts import checksum_of, evaluate_pairs, load_sets
from sentemb.evaluation.suites import get_suite
from sentemb.experiments.experiment import Experiment, Method, Trial, Written, joined, portable
from sentemb.experiments.runner import Job, Outcome, Place, TrialKind, differing
from sentemb.losses import ViewCache
from sentemb.modules import load
from sentemb.training import choose_checkpoint, resolve, train
from sentemb.training.checkpoints import remove_folder
from sentemb.training.config import FlowRunConfig, TrainConfig, WhiteningRunConfig
from sentemb.training.folder import RunFolder
from sentemb.transforms import add_flow, add_whitening
from sentemb.transforms.fit import Sentences, load_sentences

TRANSFORMS: tuple[str, ...] = ("whitening", "flow")
_AS_SHIPPED = "base"
_DEV = "dev"
# Folders do not decide the weights, and the seed has a field of its own.
_NO_SETTING = ("output", "data_dir", "seeds", "cache_dir")
_NO_SETTING_OF_TRANSFORMS = (*_NO_SETTING, "recipe", "preset", "columns", "seed")
_DEFAULT_BASE = "bert-base-uncased"
_OUTCOMES: dict[Any, Outcome] = {}  # of the encoders that this process evaluated
_VIEWS = ViewCache()  # the trials of a process compute the views of a frozen encoder once


class StsData(Written):
    """Data options of an experiment on scored pairs: its table `data`."""

    suite: Literal["sts", "multilingual"] = Field(
        "sts", description="aggregation of subsets and correlation measure"
    )
    sample: str = Field("simcse-nli", description="sentence pairs for methods with data = 'sample'")
    columns: tuple[str, ...] | None = Field(None, description="the two text columns of the sample")
    pairs: int = Field(8628, ge=1, description="number of pairs of the sample; by default that of STS-B")
    sentences: int | None = Field(
        None,
        ge=2,
        description="rows to which transforms are fitted, drawn from their data; by default all",
    )
    check_rows: bool = Field(True, description="true to reject copies of sets with missing or extra rows")
    precision: Precision = Field("float32", description="precision of the evaluation: float32 or reduced")


class StsTrials(TrialKind):
    """Methods by seeds, each trained once and evaluated on all sets together.

    A recipe is one of `sentemb train`; `flow` or `whitening`, which is fitted on a frozen encoder; or
    `base`, which is the base as shipped. A loss of your own is the option `loss = "FILE.py:CLASS"` of a
    recipe. If the setting of the experiment is `dev`, its values are the dev sets by which checkpoints are
    chosen, all from the same training.
    """

    data_model = StsData
    recipes = ("contrastive", *TRANSFORMS)

    def __init__(self, experiment: Experiment, data: StsData, place: Place) -> None:
        values = experiment.values if experiment.setting == _DEV else ()
        super().__init__(experiment.replace(values=values), data, place)
        self.suite = data.suite
        self._data = data
        names = experiment.datasets or get_suite(data.suite).sets
        self._pairs = load_sets(names, data_dir=place.data_dir, check_rows=data.check_rows)
        self._sample: Sentences | None = None

    def groups(self) -> list[tuple[str, ...]]:
        """Return all sets as one group."""
        return [tuple(one.name for one in self._pairs)]

    def methods(self, names: tuple[str, ...]) -> list[Method]:
        """Return the methods with the settings of the experiment."""
        base = {} if self.experiment.base is None else {"base": self.experiment.base}
        below = {**self.experiment.options, **base}
        return [replace(one, options=joined(below, one.options)) for one in self.experiment.chosen]

    def trials(self) -> list[Trial]:
        """Return all combinations, those of a training side by side; without seeds if they decide nothing."""
        found = (
            Trial(method, names, setting, seed if self._is_drawn(method) else None)
            for seed in self.experiment.seeds
            for names in self.groups()
            for method in self.methods(names)
            for setting in self.experiment.settings
        )
        return list(dict.fromkeys(found))

    def _is_drawn(self, method: Method) -> bool:
        """Return whether another seed gives another encoder."""
        return method.recipe not in (_AS_SHIPPED, "whitening")

    def shared(self, trial: Trial) -> Hashable:
        """Return what the trials of one training have in common."""
        return trial.method.name, trial.seed

    def settings(self, trial: Trial) -> dict[str, Any]:
        """Return all settings that decide the weights, except the seed."""
        method, fitted = trial.method, trial.method.recipe in TRANSFORMS
        evaluation = (
            {"evaluation_precision": self._data.precision} if self._data.precision != "float32" else {}
        )
        if method.recipe == _AS_SHIPPED:
            return {"base": portable(self._base(method)), **evaluation}
        values = (_transform_config(method) if fitted else self._config(trial)).values()
        ignored = _NO_SETTING_OF_TRANSFORMS if fitted else _NO_SETTING
        described = {name: value for name, value in values.items() if name not in ignored}
        described["base"] = portable(described["base"])
        if method.options.get("data") == "sample":
            columns = None if self._data.columns is None else ",".join(self._data.columns)
            source = {"nli": self._data.sample, "columns": columns, "pairs": self._data.pairs}
            described |= {**source, "data": "sample"}
        elif fitted and self._data.sentences is not None:
            described["sentences"] = self._data.sentences
        return described | evaluation

    def prepare(self, trial: Trial) -> Job:
        """Find the sentences. Recipes read their data themselves."""
        method, first = trial.method, self._training(trial)
        output = self._folder(first)
        make: Callable[[], SentenceTransformer]
        if method.recipe == _AS_SHIPPED:
            make = partial(load, self._base(method))
        elif method.recipe in TRANSFORMS:
            make = partial(_fit_transform, output, method, trial.seed, self._sentences(method))
        else:
            several = len(self.experiment.settings) > 1
            config = self._config(first, output)
            make = partial(_train, config, self.place.progress, keep_checkpoints=several)
            if trial != first:
                make = partial(_choose, make, self._config(trial, output))
        return self._job(trial, make)

    def _job(self, trial: Trial, make: Callable[[], SentenceTransformer]) -> Job:
        checksums = {one.name: checksum_of(one) for one in self._pairs}
        made = partial(_encoder, make, self._folder(trial).name, self._data.precision)
        return Job(partial(_evaluate, made, self._pairs, self.suite, trial.seed), checksums)

    def file_name(self, trial: Trial, job: Job) -> None:
        """Name the record like any record of the model."""

    def check(self, jobs: Mapping[Trial, Job], records: Sequence[Record]) -> None:
        """Refuse a record of a trial's model with other settings or other sets."""
        there = {(one.model, one.seed): one for one in records}
        for trial, job in jobs.items():
            record = there.get((self._folder(trial).name, trial.seed))
            if record is None:
                continue
            if record.trial is None or record.trial.experiment != self.experiment.name:
                hint = "choose another --output folder"
                raise InputError(f"a record of {record.model} already exists", hint)
            other = list(differing(record, job.settings))
            if {one.name: one.sha256 for one in record.datasets} != job.checksums:
                other.append("sets")
            if other:
                raise InputError(
                    f"the record of {record.model} has other values of {', '.join(other)}",
                    "use the same values, or another --output folder",
                )

    def end(self, trial: Trial) -> None:
        """Remove the models of a training after its last trial."""
        if self.place.keep_models:
            return
        settings = self.experiment.settings
        if trial.setting == settings[-1]:
            for setting in settings:
                remove_folder(self._folder(replace(trial, setting=setting)))

    def _training(self, trial: Trial) -> Trial:
        """Return the trial that trains what a trial evaluates."""
        return replace(trial, setting=self.experiment.settings[0])

    def _folder(self, trial: Trial) -> Path:
        """Return the folder in which the model is trained, whose name is that of the model."""
        base = name_of(self._base(trial.method))
        name = self.experiment.model.format(base=base, method=trial.method.name)
        if trial.setting.value is not None:
            name += f"-{slug(trial.setting.text)}"
        return self.place.work / (name if trial.seed is None else f"{name}-seed-{trial.seed}")

    def _base(self, method: Method) -> str:
        if "base" in method.options or method.recipe == _AS_SHIPPED:
            return str(method.options.get("base", _DEFAULT_BASE))
        return str(resolve(method.recipe, overrides={"output": "unused"}).base)

    def _config(self, trial: Trial, output: Path | None = None) -> TrainConfig:
        method, data_dir = trial.method, None if self.place.data_dir is None else str(self.place.data_dir)
        overrides = {**method.options, "data_dir": data_dir, "output": str(output or "unused")}
        if trial.setting.value is not None:
            overrides[_DEV] = trial.setting.value
        if method.options.get("data") == "sample":
            # Recipes train on single sentences, from a file.
            path = self.place.work.parent / "sample-sentences.jsonl"
            if output is not None and not path.exists():
                texts = [text for pair in zip(*self._sampled(), strict=True) for text in pair]  # type: ignore[arg-type]
                lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
                write_text(path, "".join(lines))
            overrides["data"] = str(path)
        config: TrainConfig = resolve(method.recipe, overrides={**overrides, "seeds": (trial.seed or 0,)})
        if config.teachers and config.cache_dir is None:
            config = config.replace(cache_dir=_vectors().name)
        return config

    def _sentences(self, method: Method) -> Sentences:
        source, count = _transform_config(method).data, self._data.sentences
        if source == "sample":
            return self._sampled()
        found = load_sentences(source, data_dir=self.place.data_dir)
        if count is None or count >= len(found.first):
            return found
        rows = np.random.default_rng(0).permutation(len(found.first))[:count]
        first, second = found
        return Sentences(
            [first[row] for row in rows], None if second is None else [second[row] for row in rows]
        )

    def _sampled(self) -> Sentences:
        """Draw the pairs of the sample, the same at each call."""
        if self._sample is None:
            data = self._data
            pairs = draw_pairs(data.sample, data.columns, count=data.pairs, data_dir=self.place.data_dir)
            self._sample = Sentences(*pairs)
        return self._sample


class FrozenTrials(StsTrials):
    """Frozen encoders: poolings, and transforms fitted on their vectors.

    A method's recipe is a pooling, `whitening` or `flow`.
    """

    recipes = ()

    def _is_drawn(self, method: Method) -> bool:
        return method.recipe == "flow"

    def settings(self, trial: Trial) -> dict[str, Any]:
        """Return base and pooling, or the settings of the transform."""
        if trial.method.recipe in TRANSFORMS:
            return super().settings(trial)
        return {"base": portable(self._base(trial.method)), "pooling": trial.method.recipe}

    def prepare(self, trial: Trial) -> Job:
        """Find the sentences on whose vectors a transform is fitted."""
        method = trial.method
        sentences = self._sentences(method) if method.recipe in TRANSFORMS else None
        return self._job(trial, partial(_frozen, self._base(method), method, trial.seed, sentences))

    def _base(self, method: Method) -> str:
        return str(method.options.get("base", _DEFAULT_BASE))


def _encoder(make: Callable[[], SentenceTransformer], name: str, precision: Precision) -> SentenceEncoder:
    return SentenceEncoder(make(), name=name, precision=precision, frozen=True)


def _train(config: TrainConfig, progress: Any, *, keep_checkpoints: bool) -> SentenceTransformer:
    """Train, or load the finished model of a killed run."""
    if RunFolder(Path(config.output)).status() != "finished":
        train(config, resume=True, progress=progress, view_cache=_VIEWS, keep_checkpoints=keep_checkpoints)
    return load(config.output)


def _choose(make: Callable[[], SentenceTransformer], config: TrainConfig) -> SentenceTransformer:
    """Train, and choose the weights by another dev set."""
    make()
    return choose_checkpoint(config)


def _fit_transform(
    folder: Path, method: Method, seed: int | None, sentences: Sentences
) -> SentenceTransformer:
    """Fit a transform, or load the model of a killed run."""
    if not folder.exists():
        with new_folder(folder) as partial_folder:
            _transformed(method, seed, sentences).save(str(partial_folder), create_model_card=False)
    return load(str(folder))


def _frozen(base: str, method: Method, seed: int | None, sentences: Sentences | None) -> SentenceTransformer:
    """Load a base with a pooling, or fit a transform."""
    if sentences is None:
        return load(base, pooling=method.recipe)  # type: ignore[arg-type]
    return _transformed(method, seed, sentences)


def _evaluate(make: Callable[[], SentenceEncoder], pairs: Any, suite: str, seed: int | None) -> Outcome:
    """Evaluate an encoder, unless one with the same weights was evaluated before."""
    encoder = make()
    key = encoder.fingerprint, suite, json.dumps(encoder.describe()), *map(checksum_of, pairs)
    if key not in _OUTCOMES:
        record = evaluate_pairs(encoder, pairs, suite=get_suite(suite), seed=seed, command=command_line())
        _OUTCOMES[key] = Outcome(record, *load_predictions(record))
    record, *arrays = _OUTCOMES[key]
    return Outcome(record.model_copy(update={"model": encoder.name, "seed": seed}), *arrays)


def _transform_config(method: Method) -> FlowRunConfig | WhiteningRunConfig:
    """Return the recipe of a transform. Other options of an experiment are for its trainings."""
    own = {name: method.options[name] for name in ("base", "pooling", "data") if name in method.options}
    config: FlowRunConfig | WhiteningRunConfig = resolve(method.recipe, overrides={**own, "output": "unused"})
    return config


@cache
def _vectors() -> tempfile.TemporaryDirectory[str]:
    """Return the folder where the trials of this process share vectors of sentences."""
    return tempfile.TemporaryDirectory(prefix="sentemb-vectors-", ignore_cleanup_errors=True)


def _transformed(method: Method, seed: int | None, sentences: Sentences) -> SentenceTransformer:
    config, vectors = _transform_config(method), _vectors().name
    model, length = load(config.base, pooling=config.pooling), config.max_length  # type: ignore[arg-type]
    if isinstance(config, FlowRunConfig):
        flow = config.flow.replace(seed=seed or 0)
        return add_flow(model, *sentences, config=flow, max_length=length, cache_dir=vectors)
    texts = [*sentences.first, *(sentences.second or ())]
    return add_whitening(model, texts, max_length=length, cache_dir=vectors)
