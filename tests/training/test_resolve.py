from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sentemb.errors import InputError
from sentemb.training import RECIPES, resolve
from sentemb.training.values import to_toml

Write = Callable[[str, str], Path]


def test_flags_win_over_the_file_and_the_file_over_the_recipe(write_file: Write) -> None:
    file = write_file(
        "t.toml",
        'epochs = 4\nbatch_size = 7\nbase = "b"\n[loss_options]\ntemperature = 0.2\ndrift_weight = 0\n',
    )
    config = resolve(
        "sg-opt",
        file=file,
        overrides={"batch_size": 9, "output": "o", "epochs": None},
        assignments={"loss_options.temperature": "0.3", "seeds": "4,5", "betas": "0.8,0.9"},
    )
    assert (config.base, config.epochs, config.batch_size, config.learning_rate) == ("b", 4, 9, 5e-5)
    assert config.loss_options == {"temperature": 0.3, "drift_weight": 0, "objective": "opt3"}
    assert config.seeds == (4, 5)
    assert config.betas == (0.8, 0.9)


def test_a_configuration_reaches_another_process() -> None:
    config = resolve("sg-opt", overrides={"output": "o"}, assignments={"loss_options.layers": "4,none"})
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config and hash(copy) == hash(config) and copy.loss_options["layers"] == (4, None)


def test_a_layer_range_can_be_given_as_a_flag() -> None:
    config = resolve("sg-opt", overrides={"output": "o"}, assignments={"loss_options.layers": "4,none"})
    assert config.loss_options["layers"] == (4, None)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("preset", ["paper", "released"])
def test_a_resolved_configuration_written_as_toml_resolves_to_itself(
    recipe: str, preset: str, write_file: Write
) -> None:
    # There is no published file of back-translations or of pairs, and no corpus of its own for a new base.
    own = {"data": "pairs.csv"}
    given = {"bt": own, "pairs": own, "mlm": {"corpus": ("a.txt",)}}.get(recipe.partition("-")[0], {})
    if preset == "released" and all(layer.released is None for layer in RECIPES[recipe].layers):
        with pytest.raises(InputError, match="does not have a preset 'released'"):
            resolve(recipe, overrides={"output": "o", "preset": preset})
        return
    config = resolve(recipe, overrides={"output": "o", "preset": preset, **given})
    again = resolve(recipe, file=write_file("t.toml", to_toml(config.values())))
    assert again == config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("batchsize = 3", r"t\.toml: unknown key: batchsize; did you mean batch_size\?"),
        ("batch_size = 1.5", r"t\.toml: batch_size is 1\.5; it must be an integer"),
        ('epochs = "3"', r"t\.toml: epochs is '3'"),
        ("epochs = 0", r"t\.toml: epochs is 0; it must be at least 1"),
        ("learning_rate = nan", r"t\.toml: learning_rate is nan; it must be a finite number"),
        ("learning_rate = inf", r"t\.toml: learning_rate is inf; it must be a finite number"),
        ("seeds = [-1]", r"t\.toml: seeds is -1; it must be at least 0"),
        ("betas = [0.9]", r"t\.toml: betas has 1 entries; provide 2"),
        ("betas = [0.9, 2]", r"t\.toml: betas is 2; it must be below 1"),
        ("betas = [0.9, 1]", r"t\.toml: betas is 1; it must be below 1"),
        ("warmup = 3", r"t\.toml: warmup is 3; it must be at most 0.99"),
        ("seeds = []", r"t\.toml: seeds must be"),
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
        ({}, "the output folder is missing; set a folder with --output"),
        ({"file": "absent.toml"}, "no such file: absent.toml"),
        ({"overrides": {"output": "o", "epochs": -1}}, "epochs is -1"),
        ({"overrides": {"output": "o", "preset": "relaesed"}}, "did you mean released?"),
        (
            {"overrides": {"output": "o", "precision": "half"}},
            "precision is 'half'; choose among float32, bfloat16",
        ),
        (
            {"assignments": {"learning-rate": "1"}},
            "unknown setting: learning-rate; did you mean learning_rate?",
        ),
        ({"assignments": {"seeds": "1,x"}, "overrides": {"output": "o"}}, "seeds is 'x'"),
    ],
)
def test_user_errors_in_flags(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        resolve("sg-opt", **arguments)


def test_an_unknown_recipe_names_the_closest() -> None:
    with pytest.raises(InputError, match=r"unknown recipe: sgopt; did you mean sg-opt\?"):
        resolve("sgopt")


def test_a_configuration_cannot_change() -> None:
    config = resolve("simcse", overrides={"output": "o"})
    with pytest.raises(ValidationError):
        config.epochs = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.loss_options["temperature"] = 1  # type: ignore[index]
    assert config.replace(epochs=3).epochs == 3
    with pytest.raises(InputError):
        config.replace(epochs=0)
