from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb.errors import InputError
from sentemb.training.config.checks import checked
from sentemb.training.values import parsed, read_toml, to_toml

Choice = Literal["linear", "constant"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, float, 1.0),
        (3, int, 3),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([0, "none"], tuple[int, int | None], (0, None)),
        ("none", str | None, None),
        ("none", str, "none"),
        ("linear", Choice, "linear"),
        (2, str | int | float | None, 2),
        ({"a": 1}, Mapping[str, int | str], {"a": 1}),
    ],
)
def test_what_fits_passes(value: Any, kind: Any, expected: Any) -> None:
    result = checked("x", value, kind)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (True, int, "x is True; it must be an integer"),
        (1.5, int, "x is 1.5; it must be an integer"),
        ("3", int, "x is '3'; it must be an integer"),
        (None, float, "x is None; it must be a number"),
        (1, bool, "x is 1; it must be true or false"),
        (["a"], tuple[int, ...], "x is 'a'; it must be an integer"),
        ([1.0], tuple[float, float], "x has 1 entries; provide 2"),
        ("linaer", Choice, "x is 'linaer'; did you mean linear?"),
        (3, Mapping[str, int], "x is 3; it must be a table"),
        ("many", int | None, "x is 'many'; it must be an integer"),
    ],
)
def test_what_does_not_fit_is_named(value: Any, kind: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        checked("x", value, kind)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1,2,3", tuple[int, ...], (1, 2, 3)),
        ("0.9, 0.95", tuple[float, float], (0.9, 0.95)),
        ("5e-5", float, 5e-5),
        ("none", int | None, None),
        ("none", str, "none"),
        ("12", str, "12"),
        ("true", bool, True),
        ("max", bool | int | float | str | None, "max"),
        ("0.1", bool | int | float | str | None, 0.1),
        ("a,b", tuple[str, ...] | None, ("a", "b")),
    ],
)
def test_text_from_the_command_line(text: str, kind: Any, expected: Any) -> None:
    assert checked("x", parsed(text, kind), kind) == expected


scalars = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(st.characters(codec="utf-8")),
)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]+", fullmatch=True), st.one_of(scalars, st.lists(scalars, max_size=3))
    )
)
def test_toml_comes_back(values: dict[str, Any]) -> None:
    nested = values | {"table": values | {"a table of α": values}}
    assert tomllib.loads(to_toml(nested)) == nested


def test_a_name_that_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match=r"udc80' is not valid UTF-8"):
        to_toml({"cache": "\udc80"})


NESTED, DIGITS = "[" * 50_000, "9" * 5_000


@pytest.mark.parametrize("text", [NESTED, DIGITS])
def test_a_value_that_python_cannot_read_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot parse"):
        parsed(text, int)
    (tmp_path / "c.toml").write_text(f"seeds = [{text}]")
    with pytest.raises(InputError, match=r"c\.toml is not valid TOML"):
        read_toml(tmp_path / "c.toml")


def test_a_second_line_is_not_dropped() -> None:
    assert parsed('1\nbase = "x"', int) == '1\nbase = "x"'
