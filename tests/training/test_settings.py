"""From recipes, files and flags to one checked configuration; errors are one line that names the place."""

from __future__ import annotations

import pickle
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sentemb.errors import InputError
from sentemb.training import (
    RECIPES,
    ClassifierConfig,
    recipes_of,
    resolve,
)
from sentemb.training.config.base import checked
from sentemb.training.settings import parse_settings, split_settings
from sentemb.training.values import parsed, read_toml, to_toml

Write = Callable[[str, str], Path]
# METHODS.md 1.4, 3.3 and 8: the values that a paper states and its code does not.
PUBLISHED = {
    "sg-opt": {"batch_size": 16, "learning_rate": 5e-5, "betas": (0.9, 0.9), "epsilon": 1e-6, "warmup": 0.1},
    "simcse-supervised": {"batch_size": 512, "learning_rate": 5e-5, "epochs": 3, "pooling": "cls-mlp"},
    "simcse-nli": {"schedule": "constant", "clip": 0.0, "seeds": (11711,), "epochs": 3},
    "scl": {"batch_size": 16, "learning_rate": 1e-5, "base": "roberta-large"},
    "lacon": {"epochs": 10, "warmup": 0.06, "head": "label"},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_values_of_the_papers(name: str) -> None:
    config = resolve(name, overrides={"output": "o"})
    assert {field: getattr(config, field) for field in PUBLISHED[name]} == PUBLISHED[name]


def test_the_values_of_the_released_code() -> None:
    released = {"output": "o", "preset": "released"}
    config = resolve("sg-opt", overrides=released)
    assert config.use_last and config.loss_options["preset"] == "released"
    assert config.loss_options["objective"] == "opt3"
    assert resolve("simcse", overrides=released).eval_steps == 125
    with pytest.raises(InputError, match="ce does not have a preset 'released'"):
        resolve("ce", overrides=released)


def test_values_of_a_task_are_the_papers_but_what_a_recipe_sets_itself_stays() -> None:
    mrpc = resolve("supcl-seq", task="mrpc", overrides={"output": "o"})
    assert (mrpc.learning_rate, mrpc.loss_options["dropouts"]) == (1e-4, (0.0, 0.05, 0.1, 0.2))
    own = resolve("supcl-seq-self", task="mrpc", overrides={"output": "o"})
    assert (own.learning_rate, own.loss_options["dropouts"]) == (1e-4, (0.1, 0.1))


def test_every_default_has_a_source() -> None:
    for recipe in RECIPES.values():
        assert all(len(default.source) > 6 for default in recipe.sources("paper").values()), recipe.name
    with pytest.raises(InputError, match="bt does not have default training data; set it with --data"):
        resolve("bt", overrides={"output": "o"})


def test_flags_win_over_the_file_and_the_file_over_the_recipe(write_file: Write) -> None:
    options = "[loss_options]\ntemperature = 0.2\ndrift_weight = 0\n"
    config = resolve(
        "sg-opt",
        file=write_file("t.toml", f'epochs = 4\nbatch_size = 7\nbase = "b"\n{options}'),
        overrides={"batch_size": 9, "output": "o", "epochs": None},
        assignments=split_settings(
            ["loss_options.temperature=0.5", "loss_options.temperature=0.3", "seeds=4,5", "betas=0.8,0.9"]
        ),
    )
    assert (config.base, config.epochs, config.batch_size, config.learning_rate) == ("b", 4, 9, 5e-5)
    assert config.loss_options == {"temperature": 0.3, "drift_weight": 0, "objective": "opt3"}
    assert (config.seeds, config.betas) == ((4, 5), (0.8, 0.9))


def test_a_configuration_reaches_another_process() -> None:
    config = resolve("sg-opt", overrides={"output": "o"}, assignments={"loss_options.layers": "4,none"})
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config and copy.loss_options["layers"] == (4, None)


@pytest.mark.parametrize(
    "recipe", [*recipes_of("contrastive"), "pairs", "lacon", "table2-given", "mlm", "flow"]
)
def test_a_configuration_written_as_toml_resolves_to_itself(recipe: str, write_file: Write) -> None:
    # There is no published file of back-translations or of pairs, and no corpus of its own for a new base.
    own = {"data": "pairs.csv"}
    values = {"bt": own, "pairs": own, "mlm": {"corpus": ("a.txt",)}}.get(recipe.partition("-")[0], {})
    config = resolve(recipe, overrides={"output": "o", **values})
    assert resolve(recipe, file=write_file("t.toml", to_toml(config.values()))) == config


def test_a_configuration_cannot_change() -> None:
    config = resolve("simcse", overrides={"output": "o"})
    with pytest.raises(ValidationError):
        config.epochs = 3  # type: ignore[misc]
    assert config.replace(epochs=3).epochs == 3
    with pytest.raises(InputError):
        config.replace(epochs=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("batchsize = 3", r"t\.toml: unknown key: batchsize; did you mean batch_size\?"),
        ("batch_size = 1.5", r"t\.toml: batch_size is 1\.5; it must be a valid integer"),
        ("batch_size = 1180591620717411303424", "batch_size is 1180591620717411303424; it must be less than"),
        ("learning_rate = nan", r"t\.toml: learning_rate is nan; it must be a finite number"),
        ("seeds = [-1]", r"t\.toml: seeds is -1; it must be greater than or equal to 0"),
        ("betas = [0.9, 1]", r"t\.toml: betas is 1; it must be less than 1"),
        ("seeds = [1, 1]", r"t\.toml: seeds must be"),
        ('stopping = "drop"', r"t\.toml: stopping is 'drop'; did you mean drops\?"),
        ("loss_options = 3", r"t\.toml: loss_options is not a table"),
        ('recipe = "simcse"', r"t\.toml is a configuration for the recipe simcse, not sg-opt"),
        ("epochs = ", r"t\.toml is not valid TOML"),
    ],
)
def test_user_errors_in_the_file_name_file_and_key(content: str, message: str, write_file: Write) -> None:
    with pytest.raises(InputError, match=message):
        resolve("sg-opt", file=write_file("t.toml", content), overrides={"output": "o"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"overrides": {"output": "o", "preset": "relaesed"}}, "did you mean released?"),
        ({"overrides": {"output": "o", "loss_options": 3}}, "loss_options is 3; it must be"),
        ({"overrides": {"output": "o", "precision": "half"}}, "'half'; choose among float32, bfloat16"),
        (["learning-rate=1"], "unknown setting: learning-rate; did you mean learning_rate?"),
        (["=3"], "--set =3 is not of the form"),
        (["epochs.x=1"], "unknown setting: epochs.x; did you mean epochs?"),
        (["loss_options=3"], "cannot be set as a whole; write loss_options.NAME=VALUE"),
        (["loss_options.a={b = 1}"], "loss_options.a is {'b': 1}"),
        (["betas=[0.9]"], "betas is [0.9]; it has too few entries"),
    ],
)
def test_user_errors_in_flags(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        if isinstance(arguments, list):
            arguments = {"overrides": {"output": "o"}, "assignments": split_settings(arguments)}
        resolve("sg-opt", **arguments)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("base = bert-mini", {"base": "bert-mini"}),
        ("seeds=4,5", {"seeds": ["4", "5"]}),
        ("seeds=[4, 5]", {"seeds": [4, 5]}),
        ("loss_options.dropouts=0,0.1", {"loss_options": {"dropouts": [0, 0.1]}}),
        ("loss_options.layers=4,none", {"loss_options": {"layers": [4, "none"]}}),
        ("loss_options.reduction=sum", {"loss_options": {"reduction": "sum"}}),
        ("probe_options.epochs=3", {"probe_options": {"epochs": 3}}),
    ],
)
def test_settings_of_the_command_line(argument: str, expected: dict[str, Any]) -> None:
    assert parse_settings(split_settings([argument]), ClassifierConfig) == expected


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("5e-5", float, 5e-5),
        ("true", bool, True),
        ([0, "none"], tuple[int, int | None], (0, None)),
        ("none", str | None, None),
        ("none", str, "none"),
        (2, str | int | float | None, 2),
        ({"a": 1}, Mapping[str, int | str], {"a": 1}),
        (parsed("0.9, 0.95", tuple[float, float]), tuple[float, float], (0.9, 0.95)),
        (parsed('["a,b"]', tuple[str, ...]), tuple[str, ...], ("a,b",)),
        (parsed("12", str), str, "12"),
    ],
)
def test_what_fits_passes(value: Any, kind: Any, expected: Any) -> None:
    result = checked("x", value, kind)
    assert result == expected
    assert type(result) is type(expected)


SCALARS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(st.characters(codec="utf-8")),
)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]+", fullmatch=True), st.one_of(SCALARS, st.lists(SCALARS, max_size=3))
    )
)
def test_toml_comes_back(values: dict[str, Any]) -> None:
    nested = values | {"table": values | {"a table of α": values}}
    assert tomllib.loads(to_toml(nested)) == nested


@pytest.mark.parametrize("text", ["[" * 50_000, "9" * 5_000])
def test_what_python_cannot_read_or_write_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot parse"):
        parsed(text, tuple[int, ...])
    (tmp_path / "c.toml").write_text(f"seeds = [{text}]")
    with pytest.raises(InputError, match=r"c\.toml is not valid TOML"):
        read_toml(tmp_path / "c.toml")
    with pytest.raises(InputError, match=r"udc80' is not valid UTF-8"):
        to_toml({"cache": "\udc80"})
