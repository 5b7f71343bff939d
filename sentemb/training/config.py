"""The configuration of a run: one frozen dataclass, filled from recipe, file and flags, in that order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Self, get_type_hints

from sentemb.errors import InputError
from sentemb.training.values import checked

Precision = Literal["float32", "bfloat16"]
Preset = Literal["paper", "released"]
Schedule = Literal["linear", "constant"]
OptionValue = str | int | float | bool | tuple[int | None, ...] | tuple[float, ...] | None


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What every run has, whatever it is trained on: base, loss, optimization and seeds.

    Args:
        recipe: Name of the recipe that the other values come from.
        preset: `paper`, or `released` for what the published code really does where that differs.
        base: Base model: a folder or a hub id.
        output: Folder of the run; the finished model lies at its top.
        pooling: A name of `sentemb.modules.Poolings`; `None` keeps what the base model has.
        loss: Class name in `sentemb.losses`.
        loss_options: Arguments of the loss.
        batch_size: Rows per optimizer step and process.
        epochs: Passes over the data.
        max_steps: Stop after this many optimizer steps; the learning rate then decays over these.
        learning_rate: Peak learning rate.
        weight_decay: Decoupled decay of all weights but biases and normalisation.
        betas: Decay rates of AdamW's moments.
        epsilon: AdamW's epsilon.
        schedule: Course of the learning rate after the warm-up.
        warmup: Share of the steps over which the learning rate rises.
        clip: Largest global gradient norm over the model's and the loss's weights; 0 does not clip.
        max_length: Longest training input in tokens. An encoder is evaluated and saved with its own limit, a
            classifier judges and predicts at this length.
        precision: `float32`, or `bfloat16` for automatic mixed precision with float32 weights.
        stopping: Stopping rule, see `StoppingRule`.
        stopping_limit: The count at which the rule stops.
        use_last: Keep the last weights, not those of the best dev score.
        seeds: One run per seed.

    Raises:
        InputError: A value has the wrong type or lies outside its range.
    """

    recipe: str
    base: str
    output: str
    pooling: str | None
    loss: str
    max_length: int
    batch_size: int
    epochs: int
    learning_rate: float
    weight_decay: float
    betas: tuple[float, float]
    epsilon: float
    schedule: Schedule
    warmup: float
    clip: float
    stopping: Literal["drops", "patience", "none"]
    stopping_limit: int
    use_last: bool
    preset: Preset = "paper"
    loss_options: Mapping[str, OptionValue] = field(default_factory=dict)
    max_steps: int | None = None
    precision: Precision = "float32"
    seeds: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for name, kind in field_types(type(self)).items():
            value = checked(name, getattr(self, name), kind)
            object.__setattr__(
                self, name, MappingProxyType(dict(value)) if isinstance(value, Mapping) else value
            )
        for name in ("batch_size", "epochs", "max_length", "stopping_limit", "max_steps"):
            require(name, getattr(self, name), at_least=1)
        for name in ("learning_rate", "weight_decay", "epsilon", "clip"):
            require(name, getattr(self, name), at_least=0)
        require("warmup", self.warmup, at_least=0, at_most=0.99)
        for beta in self.betas:
            require("betas", beta, at_least=0, at_most=1)
            if beta == 1:  # torch refuses it with a traceback
                raise InputError("betas is 1.0", "it must be below 1")
        for seed in self.seeds:
            require("seeds", seed, at_least=0, at_most=2**32 - 1)
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise InputError("seeds must be one or more different numbers", "for example --seeds 1,2,3")

    def __hash__(self) -> int:
        return hash(tuple(str(value) for value in self.values().values()))

    def __reduce__(self) -> tuple[Any, ...]:
        # The read-only options cannot be pickled, and a study hands configurations to its processes.
        return _remake, (type(self), self.values())

    def values(self) -> dict[str, Any]:
        """The fields as plain values, for TOML and JSON."""
        plain = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in plain.items()}

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new one."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    """Everything that decides the weights of an encoder trained on text, and where they go.

    Recipes fill the fields; `sentemb train RECIPE --explain` prints each value with its source.

    Args:
        data: Training text: a file, a folder, a hub id, or a name from the catalogue.
        columns: Columns of `data` in the order of the loss's inputs; `None` takes the columns of
            a catalogue entry, the only column, or `text` or `sentence`.
        label: Column of labelled pairs that has 1 for paraphrases and 0 for others; `None` for texts without
            labels. A catalogue entry has its own.
        deduplicate: Drop repeated rows; labelled pairs are always cleaned, see `clean_pairs`.
        dev: Dev set that chooses the best checkpoint: a catalogue name (`stsb`), a file of scored pairs, or
            `none`.
        eval_steps: Optimizer steps between two evaluations, and between two checkpoints.
        data_dir: Folder of local data sets; `None` means the environment variable `SENTEMB_DATA`.

    Raises:
        InputError: A value has the wrong type or lies outside its range.
    """

    data: str
    eval_steps: int
    columns: tuple[str, ...] | None = None
    label: str | None = None
    deduplicate: bool = False
    dev: str = "stsb"
    data_dir: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require("eval_steps", self.eval_steps, at_least=1)

    __hash__ = RunConfig.__hash__


def field_types(kind: type[RunConfig] = TrainConfig) -> dict[str, Any]:
    """Types of the fields of a configuration."""
    return get_type_hints(kind)


def require(name: str, value: float | None, *, at_least: float, at_most: float | None = None) -> None:
    """Refuse a number outside its range."""
    # Written so that NaN fails as well.
    if value is None or (value >= at_least and (at_most is None or value <= at_most)):
        return
    bounds = f"at least {at_least}" if at_most is None else f"between {at_least} and {at_most}"
    raise InputError(f"{name} is {value}", f"it must be {bounds}")


def _remake(kind: type[RunConfig], values: dict[str, Any]) -> RunConfig:
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
