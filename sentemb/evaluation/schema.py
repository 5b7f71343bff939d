"""The fields of a record: one typed model for every suite, validated when it is read."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from sentemb.data.sts import Subset
from sentemb.errors import InputError
from sentemb.evaluation.suites import get_suite

FORMAT: Literal["sentemb-record"] = "sentemb-record"
VERSION: Literal[1] = 1
OVERALL = "overall"
"""What a score over several data sets names in place of one."""

Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Array = npt.NDArray[Any]
_SEED = re.compile(r"-seed-(\d+)$")  # of the folders of a run over several seeds


def checksum_of_parts(parts: Iterable[str | bytes]) -> str:
    """Return the checksum of texts, each with its length, and of bytes."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            encoded = part.encode("utf-8", "surrogatepass")
            part = len(encoded).to_bytes(8, "little") + encoded
        digest.update(part)
    return digest.hexdigest()


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Score(_Part):
    """One number."""

    dataset: str  # name of a data set of the record, or `overall`
    metric: str  # such as `spearman` or `accuracy`
    # `all`, `mean` or `wmean` of STS subsets; others, such as `dev`, are not scores of the kept predictions
    protocol: str = "all"
    value: float  # the score, in the scale of its suite
    low: float | None = None  # of its interval
    high: float | None = None


class DataSet(_Part):
    """A data set of a record."""

    name: str
    split: str  # such as `test`
    items: int = Field(ge=1)  # number of scored items
    sha256: Checksum  # checksum of the items: what must agree for two records to be comparable
    source: str = ""  # where it was read
    subsets: tuple[Subset, ...] = ()  # its parts, where it has several
    classes: tuple[str, ...] = ()  # names of the classes, where labels are classes and have names


class Trial(_Part):
    """Place of a run in an experiment."""

    experiment: str  # the experiment or protocol
    method: str  # what was trained
    setting: dict[str, Any] = {}  # what the experiment varies in addition to method, data and seed
    options: dict[str, Any] = {}  # options of the method


class Environment(_Part):
    """Environment of a measurement."""

    versions: dict[str, str]  # of Python and the libraries
    hardware: dict[str, Any]
    date: str  # ISO 8601 in UTC
    seconds: dict[str, float] = {}  # wall time by phase
    command: tuple[str, ...] | None = None  # the command line, None from Python


class PredictionsFile(_Part):
    """Place of the packed predictions."""

    sha256: Checksum  # checksum of the packed predictions
    file: str | None = Field(default=None, pattern=r"^[^/\\]+\.safetensors$")
    data: str | None = None  # the predictions themselves, compressed and in base 85


class Predictions(NamedTuple):
    """Predictions and gold values, by data set."""

    values: Mapping[str, Array]  # also under `<dataset>:<kind>`, where a set has more than one array
    gold: Mapping[str, Array]  # scores or class numbers


class Record(_Part):
    """The scores of one model on one suite, with everything that decided them.

    Attributes:
        suite: Name of the suite.
        model: The model's name; of a trained trial its method.
        fingerprint: The model's fingerprint; of a trained trial that of its base.
        dimension: Length of its vectors, None where there are none.
        base: The base model, None where it is unknown.
        protocol: What tables show first (STS), or the preset or setting of the classifiers.
        seed: The seed of the training or of the classifiers, None where there is none.
        datasets: What was scored.
        scores: The numbers, x 100; those of classification and multi-task are fractions.
        trial: The place in an experiment, None of a model evaluated by itself.
        encoder: How vectors were made: backend, precision, ….
        environment: Versions, machine, date, times.
        details: What only this suite has.
        predictions: Where the predictions are, None where there are none.

    Example:
        >>> record = load_records("records")[0]
        >>> record.suite, record.datasets[0].name
        ('sts', 'pairs')
    """

    format: Literal["sentemb-record"] = FORMAT
    version: Literal[1] = VERSION
    suite: Annotated[str, AfterValidator(lambda name: get_suite(name).name)]
    model: str = Field(min_length=1)
    fingerprint: str
    dimension: int | None = Field(default=None, ge=1)
    base: str | None = None
    protocol: str
    seed: int | None = None
    datasets: tuple[DataSet, ...]
    scores: tuple[Score, ...] = Field(min_length=1)
    trial: Trial | None = None
    encoder: dict[str, Any] = {}
    environment: Environment
    details: dict[str, Any] = {}
    predictions: PredictionsFile | None = None

    _predictions: Predictions = PrivateAttr(Predictions({}, {}))

    @model_validator(mode="after")
    def _names_agree(self) -> Record:
        names = [one.name for one in self.datasets]
        if len(set(names)) < len(names):
            raise ValueError("a data set is listed twice")
        seen = set()
        for index, one in enumerate(self.scores):
            if one.dataset not in (*names, OVERALL):
                raise ValueError(f"scores[{index}].dataset: {one.dataset!r} is not a data set of the record")
            key = (one.dataset, one.metric, one.protocol)
            if key in seen:
                raise ValueError(f"scores[{index}]: {' '.join(key)} is listed twice")
            seen.add(key)
        return self

    @property
    def file_name(self) -> str:
        """Name of the JSON file: model, suite, protocol and seed."""
        return record_name(self.model, self.suite, protocol=self.protocol, seed=self.seed)

    def dataset(self, name: str) -> DataSet:
        """Return one of the data sets, or raise InputError if the record has none of this name."""
        for one in self.datasets:
            if one.name == name:
                return one
        raise InputError(
            f"{self.model} was not evaluated on {name}",
            f"choose among {', '.join(x.name for x in self.datasets)}",
        )

    def find(self, dataset: str, metric: str | None = None, protocol: str = "all") -> Score | None:
        """Return a score by data set, metric (by default the suite's headline) and protocol, or None."""
        wanted = (dataset, metric or get_suite(self.suite).measure, protocol)
        for one in self.scores:
            if (one.dataset, one.metric, one.protocol) == wanted:
                return one
        return None

    def score(self, dataset: str, metric: str | None = None, protocol: str = "all") -> float:
        """Return the value of a score, see `find`, or raise InputError if the record does not have it."""
        found = self.find(dataset, metric, protocol)
        if found is None:
            present = dict.fromkeys(f"{one.dataset} {one.metric} ({one.protocol})" for one in self.scores)
            raise InputError(
                f"the record of {self.model} does not contain {metric or 'a headline score'} "
                f"({protocol}) of {dataset}",
                f"choose among {', '.join(present)}",
            )
        return found.value

    def average(self, metric: str | None = None, protocol: str = "all") -> float | None:
        """Return the mean over the sets of the suite: the papers' "Avg."; None where a set is missing."""
        found = [self.find(name, metric, protocol) for name in get_suite(self.suite).sets]
        values = [one.value for one in found if one is not None]
        return float(np.mean(values)) if values and len(values) == len(found) else None

    def with_predictions(self, values: Mapping[str, Array], gold: Mapping[str, Array]) -> Record:
        """Return a copy with predictions and gold values by data set, as `load_predictions` returns them."""
        copy = self.model_copy()
        copy._predictions = Predictions(values, gold)
        return copy


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a validation, and the field that has it."""
    first = error.errors(include_url=False)[0]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    problem = str(first["msg"]).removeprefix("Value error, ")
    return f"field {field.lstrip('.')}: {problem}" if field else problem


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
