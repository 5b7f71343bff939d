"""Base of all configurations: a frozen pydantic model with one-line errors that name the field.

Values may be text from the command line ("3", "none"), TOML values, or Python values.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from sentemb.errors import InputError, unknown
from sentemb.training.values import attribute_docs

Precision = Literal["float32", "bfloat16"]
Preset = Literal["paper", "released"]
OptionValue = str | int | float | bool | tuple[int | float | None, ...] | None
"""What an option of a loss or a head can be; who takes it checks it."""


def _seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(
            "seeds must be a list of at least one number, without repeats", "for example, use --seeds 1,2,3"
        )
    return seeds


Options = Mapping[str, OptionValue]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
BatchSize = Annotated[int, Field(ge=1, le=2**31 - 1)]  # torch slices by a machine integer
Seeds = Annotated[tuple[Seed, ...], AfterValidator(_seeds)]
Beta = Annotated[float, Field(ge=0, lt=1)]  # torch refuses 1 with a traceback


class CheckedModel(BaseModel):
    """A frozen model that raises `InputError`.

    Text passes as the number that it says, lists as tuples, and "none", which TOML and flags write, as
    `None` where a field may be that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        docs = attribute_docs(cls)  # for help texts and tables
        for name, field in cls.model_fields.items():
            field.description = field.description or docs.get(name)

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
            name: _without_none_text(value, fields[name].annotation) if name in fields else value
            for name, value in values.items()
        }

    def values(self) -> dict[str, Any]:
        """Return the fields as plain values, for TOML and JSON: lists for tuples."""
        return {name: plain(getattr(self, name)) for name in type(self).model_fields}

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, checked like a new one."""
        return type(self)(**{**self.values(), **changes})


class RunConfig(BaseModel):
    """The fields of every run, whatever it trains, next to those of `CheckedModel`."""

    # What may differ when a run is resumed: it does not decide what comes out.
    free_to_change: ClassVar[tuple[str, ...]] = ("output", "data_dir")

    recipe: str
    """Name of the recipe that sets the defaults."""
    preset: Preset = "paper"
    """`paper` for the values of the paper, `released` for those of the published code where they differ."""
    base: str | None
    """Base model: a folder, a hub id or a bundled model."""
    output: str
    """Output folder of the run. The finished model is at its top level."""
    batch_size: BatchSize
    """Rows per optimizer step, divided among the processes."""
    max_steps: int | None = Field(None, ge=1)
    """Maximum number of optimizer steps."""
    learning_rate: float = Field(ge=0)
    """Peak learning rate."""
    weight_decay: float = Field(ge=0)
    """Decoupled weight decay, applied to all weights except biases and normalization layers."""
    betas: tuple[Beta, Beta]
    """Beta coefficients of AdamW."""
    # Without it a weight that no row reaches would be moved by 0 / 0.
    epsilon: float = Field(gt=0)
    """Epsilon of AdamW."""
    warmup: float = Field(ge=0, le=0.99)
    """Fraction of the steps used for learning rate warmup."""
    clip: float = Field(ge=0)
    """Maximum global gradient norm. 0 disables clipping."""
    seeds: Seeds = (1,)
    """Random seeds, one run per seed, such as 1,2,3."""

    def check_single_seed(self) -> None:
        """Raise InputError for a list of seeds where one run is made."""
        if len(self.seeds) != 1:
            raise InputError(
                f"a run has one seed, but the configuration has {len(self.seeds)}",
                "start one run per seed, or use train_seeds",
            )


class EncoderConfig(BaseModel):
    """The fields of a run that trains a sentence encoder by a loss, next to those of `RunConfig`."""

    base: str
    """Base model: a folder, a hub id or a bundled model."""
    pooling: str | None
    """Pooling of token vectors into a sentence vector; see `sentemb.modules.Poolings`. The recipe's pooling
    applies to a pretrained base, that is, a transformer without sentence-level training. A finished sentence
    encoder keeps its own pooling unless you set this."""
    loss: str
    """Loss class in `sentemb.losses`, or FILE.py:CLASS for your own class."""
    loss_options: Options = Field({})
    """Arguments of the loss."""
    epochs: int = Field(ge=1)
    """Number of passes over the data."""
    schedule: Literal["linear", "constant"]
    """Learning rate schedule after warmup."""
    max_length: int | None = Field(ge=1)
    """Maximum length of a training input in tokens; none for the encoder's own limit. An encoder is evaluated
    and saved with its own limit. A classifier also predicts with this length."""
    precision: Precision = "float32"
    """`bfloat16` for mixed precision with float32 weights."""
    stopping: Literal["drops", "patience", "none"]
    """Early stopping rule; see `StoppingRule`."""
    stopping_limit: int = Field(ge=1)
    """Number of drops or evaluations after which the rule stops training."""
    use_last: bool
    """Keep the weights of the last step instead of those with the best dev score."""


def checked(name: str, value: Any, kind: Any) -> Any:
    """Return a value as a type that no configuration declares, such as that of a loss's argument."""
    config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)
    try:
        # A type that is a model has a configuration of its own.
        is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
        adapter: TypeAdapter[Any] = TypeAdapter(kind, config=None if is_model else config)
        return adapter.validate_python(_without_none_text(value, kind))
    except ValidationError as error:
        raise _error_of(name, error.errors()) from None


def plain(value: Any) -> Any:
    """Return a value as TOML and JSON have it."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def described_error(
    error: ValidationError, values: Mapping[str, Any], *, known: Collection[str]
) -> InputError:
    """Return the first thing that pydantic found, in one line."""
    errors = error.errors()
    first, place = errors[0], errors[0]["loc"]
    if not place:  # a check of several fields
        cause = first.get("ctx", {}).get("error")
        return cause if isinstance(cause, InputError) else InputError(str(cause or first["msg"]))
    field = str(place[0])
    if first["type"] == "extra_forbidden":
        return unknown("setting", field, known)
    if first["type"] == "missing" and len(place) == 1:
        return InputError(f"{field} is missing", f"set it with --{field.replace('_', '-')}")
    depth = 2 if isinstance(values[field], Mapping) and len(place) > 1 else 1
    same = [one for one in errors if one["loc"][:depth] == place[:depth]]
    return _error_of(".".join(map(str, place[:depth])), same)


def _error_of(name: str, errors: list[ErrorDetails]) -> InputError:
    first = errors[0]
    context, value = first.get("ctx", {}), first["input"]
    if isinstance(cause := context.get("error"), InputError):
        return cause
    if isinstance(value, tuple):
        value = list(value)
    if first["type"] == "literal_error" and len(errors) == 1:
        choices = [one.strip(" '") for one in context["expected"].replace(" or ", ", ").split(",")]
        return InputError(f"{name} is {value!r}", unknown("", value, choices).hint)
    expected = dict.fromkeys(one["msg"].removeprefix("Input should be ").partition(",")[0] for one in errors)
    hint = "it has too few entries" if first["type"] == "missing" else f"it must be {' or '.join(expected)}"
    return InputError(f"{name} is {value!r}", hint if cause is None else str(cause))


def _without_none_text(value: Any, kind: Any) -> Any:
    """Return a value with None for "none" where its type allows that; lists become tuples."""
    kinds = _alternatives(kind)
    if value == "none" and NoneType in kinds:
        return None
    if isinstance(value, list | tuple):
        entries = [entry for one in kinds if get_origin(one) is tuple for entry in get_args(one)]
        entry: Any = Union[tuple(entries)] if entries else Any  # noqa: UP007 - of a list of types
        return tuple(_without_none_text(item, entry) for item in value)
    if isinstance(value, Mapping) and get_origin(kinds[0]) is Mapping:
        return {key: _without_none_text(item, get_args(kinds[0])[1]) for key, item in value.items()}
    return value


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if hasattr(kind, "__metadata__"):  # of Annotated
        return _alternatives(get_args(kind)[0])
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
