from __future__ import annotations

from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.training import RECIPES, recipes_of, resolve

# METHODS.md 1.4 and 3.3, typed in again by hand.
SG = {
    "base": "bert-base-uncased",
    "data": "stsb-sentences",
    "pooling": "cls",
    "batch_size": 16,
    "epochs": 1,
    "learning_rate": 5e-5,
    "weight_decay": 0.01,
    "betas": (0.9, 0.9),
    "epsilon": 1e-6,
    "schedule": "linear",
    "warmup": 0.1,
    "clip": 1.0,
    "max_length": 128,
    "eval_steps": 50,
    "stopping": "drops",
    "stopping_limit": 10,
    "use_last": False,
    "dev": "stsb",
    "precision": "float32",
    "deduplicate": False,
}
SIMCSE = {
    "weight_decay": 0.0,
    "betas": (0.9, 0.999),
    "epsilon": 1e-8,
    "schedule": "linear",
    "warmup": 0.0,
    "clip": 1.0,
    "max_length": 32,
    "eval_steps": 250,
    "stopping": "none",
    "use_last": False,
}
BT = {name: value for name, value in SG.items() if name != "data"} | {
    "columns": ("text", "back_translation"),
    "loss": "BackTranslationLoss",
}
UNSUPERVISED = SIMCSE | {"batch_size": 64, "learning_rate": 3e-5, "epochs": 1, "pooling": "cls"}
SUPERVISED = SIMCSE | {"batch_size": 512, "learning_rate": 5e-5, "epochs": 3, "pooling": "cls-mlp"}
# METHODS.md 8.
CS224N = {
    "base": "bert-base-uncased",
    "pooling": "cls",
    "batch_size": 16,
    "learning_rate": 2e-5,
    "weight_decay": 0.0,
    "betas": (0.9, 0.999),
    "epsilon": 1e-6,
    "schedule": "constant",
    "clip": 0.0,
    "seeds": (11711,),
}
EXPECTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sg", SG, {"objective": "base", "temperature": 0.01, "drift_weight": 0.1}),
    ("sg-opt1", SG, {"objective": "opt1", "temperature": 0.01, "drift_weight": 0.1}),
    ("sg-opt2", SG, {"objective": "opt2", "temperature": 0.01, "drift_weight": 0.1}),
    ("sg-opt", SG, {"objective": "opt3", "temperature": 0.01, "drift_weight": 0.1}),
    (
        "bt",
        BT,
        {"objective": "base", "view_encoder": "trained", "temperature": 0.01, "drift_weight": 0.1},
    ),
    (
        "bt-sg-opt",
        BT,
        {"objective": "opt3", "view_encoder": "frozen", "temperature": 0.01, "drift_weight": 0.1},
    ),
    ("simcse", UNSUPERVISED, {"temperature": 0.05}),
    ("simcse-supervised", SUPERVISED, {"temperature": 0.05, "head": None}),
    (
        "simcse-nli",
        CS224N | {"epochs": 3, "data": "simcse-nli", "loss": "SimCSELoss"},
        {"temperature": 0.05, "head": "two-layer"},
    ),
    (
        "quora",
        CS224N | {"epochs": 5, "data": "cs224n-quora", "label": "label", "loss": "ParaphraseContrastLoss"},
        {"temperature": 0.05, "head": "two-layer", "negatives": "signed"},
    ),
]


@pytest.mark.parametrize(("name", "fields", "options"), EXPECTED)
def test_the_papers_values(name: str, fields: dict[str, Any], options: dict[str, Any]) -> None:
    data = {} if "data" in RECIPES[name].defaults else {"data": "own.csv", "dev": "stsb"}
    config = resolve(name, overrides={"output": "o"} | data)
    assert {field: getattr(config, field) for field in fields} == fields
    assert dict(config.loss_options) == options


def test_back_translations_have_to_be_made_before() -> None:
    with pytest.raises(InputError, match="bt does not have default training data; set it with --data"):
        resolve("bt", overrides={"output": "o"})


def test_every_recipe_is_in_the_table() -> None:
    assert set(recipes_of("contrastive")) == {name for name, _, _ in EXPECTED}


@pytest.mark.parametrize(
    "recipe", [name for name in recipes_of("contrastive") if name.startswith(("sg", "bt"))]
)
def test_the_released_self_guided_code(recipe: str) -> None:
    config = resolve(recipe, overrides={"output": "o", "preset": "released", "data": "own.csv"})
    assert config.use_last
    assert config.loss_options["preset"] == "released"
    assert config.stopping == "drops"


def test_the_released_simcse_scripts_evaluate_twice_as_often() -> None:
    assert resolve("simcse", overrides={"output": "o", "preset": "released"}).eval_steps == 125


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_default_has_a_source(recipe: Any) -> None:
    for key, default in recipe.sources("paper").items():
        assert len(default.source) > 6, key
