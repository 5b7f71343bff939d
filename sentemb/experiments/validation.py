"""Typed models from plain values: a wrong field is a user error that names field and place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sentemb.errors import InputError, unknown

Model = TypeVar("Model", bound=BaseModel)


class Written(BaseModel):
    """What a user wrote: no field may change, none may be unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def checked_model(kind: type[Model], values: Mapping[str, Any], place: str) -> Model:
    """Make a model of values that a user wrote."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
            raise cause from None
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            wrong = unknown("field", where, list(kind.model_fields))
            raise InputError(f"{place}: {wrong.message}", wrong.hint) from None
        field = kind.model_fields.get(where.partition(".")[0])
        hint = f"expected: {field.description}" if field is not None else None
        raise InputError(f"{place}, field {where}: {first['msg']}", hint) from None
