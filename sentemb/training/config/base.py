"""What every configuration is: a frozen pydantic model whose errors name the field."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from sentemb.errors import InputError
from sentemb.training.config.checks import described_error, plain, prepared

Precision = Literal["float32", "bfloat16"]
Preset = Literal["paper", "released"]
OptionValue = str | int | float | bool | tuple[int | None, ...] | tuple[float, ...] | None
"""What an option of a loss or a head can be; who takes it checks it."""


def _frozen(options: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
    return MappingProxyType(dict(options))


def _seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(
            "seeds must be a list of at least one number, without repeats", "for example, use --seeds 1,2,3"
        )
    return seeds


Options = Annotated[Mapping[str, OptionValue], AfterValidator(_frozen)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Seeds = Annotated[tuple[Seed, ...], AfterValidator(_seeds)]
Beta = Annotated[float, Field(ge=0, lt=1)]  # torch refuses 1 with a traceback


class CheckedModel(BaseModel):
    """A frozen model that is strict about types and raises `InputError`.

    Whole numbers pass as floats, lists as tuples, and "none" as `None`, which TOML and flags lack.

    Raises:
        InputError: A field is unknown or missing, or its value has the wrong type or lies outside its range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise described_error(error, values, known=type(self).model_fields) from None

    @model_validator(mode="before")
    @classmethod
    def _prepare(cls, values: dict[str, Any]) -> dict[str, Any]:
        fields = cls.model_fields
        return {
            name: prepared(value, fields[name].annotation) if name in fields else value
            for name, value in values.items()
        }

    def __hash__(self) -> int:
        return hash(str(self.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        # The read-only options cannot be pickled, and experiments hand configurations to their processes.
        return _remake, (type(self), self.values())

    def values(self) -> dict[str, Any]:
        """The fields as plain values, for TOML and JSON: lists for tuples."""
        return {name: plain(getattr(self, name)) for name in type(self).model_fields}

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new one."""
        return type(self)(**{**self.values(), **changes})


def _remake(kind: type[CheckedModel], values: dict[str, Any]) -> CheckedModel:
    return kind(**values)


class RunConfig(CheckedModel):
    """What every run has, whatever it trains.

    Example:
        >>> issubclass(TrainConfig, RunConfig)
        True
    """

    free_to_change: ClassVar[tuple[str, ...]] = ("output", "data_dir")
    """What may differ when a run is resumed: it does not decide what comes out."""

    recipe: str = Field(description="Name of the recipe that sets the defaults.")
    preset: Preset = Field(
        "paper",
        description="`paper` for the values of the paper, `released` for those of the published code where "
        "they differ.",
    )
    base: str | None = Field(description="Base model: a folder, a hub id or a bundled model.")
    output: str = Field(description="Output folder of the run. The finished model is at its top level.")
    batch_size: int = Field(ge=1, description="Rows per optimizer step, divided among the processes.")
    max_steps: int | None = Field(None, ge=1, description="Maximum number of optimizer steps.")
    learning_rate: float = Field(ge=0, description="Peak learning rate.")
    weight_decay: float = Field(
        ge=0,
        description="Decoupled weight decay, applied to all weights except biases and normalization layers.",
    )
    betas: tuple[Beta, Beta] = Field(description="Beta coefficients of AdamW.")
    # Without it a weight that no row reaches would be moved by 0 / 0.
    epsilon: float = Field(gt=0, description="Epsilon of AdamW.")
    warmup: float = Field(ge=0, le=0.99, description="Fraction of the steps used for learning rate warmup.")
    clip: float = Field(ge=0, description="Maximum global gradient norm. 0 disables clipping.")
    seeds: Seeds = Field((1,), description="Random seeds, one run per seed, such as 1,2,3.")

    def check_single_seed(self, caller: str, hint: str = "call it once per seed") -> None:
        """Refuse a list of seeds where one run is made."""
        if len(self.seeds) != 1:
            raise InputError(f"{caller} accepts one seed, but the configuration has {len(self.seeds)}", hint)


class EncoderConfig(RunConfig):
    """A run that trains a sentence encoder by a loss."""

    base: str = Field(description="Base model: a folder, a hub id or a bundled model.")
    pooling: str | None = Field(
        description="Pooling of token vectors into a sentence vector; see `sentemb.modules.Poolings`. The "
        "recipe's pooling applies to a pretrained base, that is, a transformer without "
        "sentence-level training. A finished sentence encoder keeps its own pooling unless you set "
        "this."
    )
    loss: str = Field(description="Loss class in `sentemb.losses`, or FILE.py:CLASS for your own class.")
    loss_options: Options = Field({}, description="Arguments of the loss.")
    epochs: int = Field(ge=1, description="Number of passes over the data.")
    schedule: Literal["linear", "constant"] = Field(description="Learning rate schedule after warmup.")
    max_length: int | None = Field(
        ge=1,
        description="Maximum length of a training input in tokens; none for the encoder's own limit. An "
        "encoder is evaluated and saved with its own limit. A classifier also predicts with this length.",
    )
    precision: Precision = Field(
        "float32", description="`bfloat16` for mixed precision with float32 weights."
    )
    stopping: Literal["drops", "patience", "none"] = Field(
        description="Early stopping rule; see `StoppingRule`."
    )
    stopping_limit: int = Field(
        ge=1, description="Number of drops or evaluations after which the rule stops training."
    )
    use_last: bool = Field(
        description="Keep the weights of the last step instead of those with the best dev score."
    )
