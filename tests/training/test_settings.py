"""`--set KEY=VALUE`: one grammar for every command."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sentemb.errors import InputError
from sentemb.training import ClassifierConfig, TrainConfig, parse_settings, resolve, split_settings


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("epochs = 3", {"epochs": 3}),
        ("clip=1", {"clip": 1}),
        ("base = bert-mini", {"base": "bert-mini"}),
        ("pooling=none", {"pooling": "none"}),
        ("seeds=4,5", {"seeds": [4, 5]}),
        ("seeds=[4, 5]", {"seeds": [4, 5]}),
        ("seeds=4", {"seeds": [4]}),
        ("loss_options.dropouts=[0, 0.1, 0.2]", {"loss_options": {"dropouts": [0, 0.1, 0.2]}}),
        ("loss_options.dropouts=0,0.1", {"loss_options": {"dropouts": [0, 0.1]}}),
        ("loss_options.layers=4,none", {"loss_options": {"layers": [4, "none"]}}),
        ("loss_options.reduction=sum", {"loss_options": {"reduction": "sum"}}),
        ("loss_options.head=none", {"loss_options": {"head": "none"}}),
        ("head_options.dropout=0", {"head_options": {"dropout": 0}}),
        ("probe_options.epochs=3", {"probe_options": {"epochs": 3}}),
    ],
)
def test_values_are_those_of_a_file(argument: str, expected: dict[str, Any]) -> None:
    assert parse_settings(split_settings([argument]), ClassifierConfig) == expected


def test_options_of_one_table_are_joined() -> None:
    arguments = ["loss_options.weight=1", "loss_options.temperature=0.5", "loss_options.weight=2"]
    assert parse_settings(split_settings(arguments), TrainConfig) == {
        "loss_options": {"weight": 2, "temperature": 0.5}
    }


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("epochs", "--set epochs is not of the form KEY=VALUE; write --set KEY=VALUE"),
        ("=3", "--set =3 is not of the form"),
        ("epochs.x=1", "unknown setting: epochs.x; did you mean epochs?"),
        (
            "loss_options=3",
            "loss_options is a table of options and cannot be set as a whole; write loss_options.NAME=VALUE",
        ),
        ("loss_options.=3", "loss_options is a table of options"),
        ("loss_options.a={b = 1}", "loss_options.a is {'b': 1}"),
        ("loss_options.a=[true]", "loss_options.a is [True]"),
        ("epochs=many", "epochs is 'many'; it must be an integer"),
        ("betas=[0.9]", "betas has 1 entries; provide 2"),
    ],
)
def test_a_user_error_is_one_clear_error(argument: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        resolve("ce", overrides={"output": "o"}, assignments=split_settings([argument]))


def test_a_list_of_probabilities_reaches_the_loss() -> None:
    config = resolve(
        "supcl-seq", overrides={"output": "o"}, assignments={"loss_options.dropouts": "[0, 0.1, 0.2]"}
    )
    assert config.loss_options["dropouts"] == (0.0, 0.1, 0.2)


def test_options_that_are_no_table_are_one_clear_error() -> None:
    with pytest.raises(InputError, match="loss_options is 3; it must be a table"):
        resolve("simcse", overrides={"output": "o", "loss_options": 3})
