from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.evaluation.classification import Method
from sentemb.evaluation.classification.methods import find_methods, with_options


def test_names_are_recipes_groups_or_from_the_file(write_file: Callable[[str, str], Path]) -> None:
    file = write_file(
        "grid.toml", '[ce]\nepochs = 5\n[cold]\nrecipe = "scl"\nloss_options.temperature = 0.1\n'
    )
    assert find_methods(["ce", "cold", "lacon"], file) == [
        Method("ce", "ce", {"epochs": 5}),
        Method("cold", "scl", {"loss_options": {"temperature": 0.1}}),
        Method("lacon", "lacon"),
    ]


def test_table_1_of_supcl_seq() -> None:
    views = find_methods(["supcl-seq-views"])
    assert [one.name for one in views][::4] == ["supcl-seq [0, 0.1, 0.2, 0.3, 0.4]", "supcl-seq [0.1, 0.1]"]
    # The paper's batch sizes count views.
    assert [one.options["batch_size"] for one in views] == [160, 160, 160, 160, 128]


def test_a_methods_own_options_come_first() -> None:
    own = Method("cold", "scl", {"loss_options": {"temperature": 0.1}})
    common = {"epochs": 3, "loss_options": {"temperature": 0.3, "weight": 0.5}}
    (joined,) = with_options([own], common)
    assert joined.options == {"epochs": 3, "loss_options": {"temperature": 0.1, "weight": 0.5}}
    assert own.options == {"loss_options": {"temperature": 0.1}}


def test_mistakes(write_file: Callable[[str, str], Path]) -> None:
    with pytest.raises(InputError, match="two methods of the study have one name"):
        find_methods(["ce", "scl", "ce"])
    with pytest.raises(InputError, match=r"grid\.toml is not valid TOML"):
        find_methods(["ce"], write_file("grid.toml", "[ce\n"))
    with pytest.raises(InputError, match="epochs is no table"):
        find_methods(["ce"], write_file("grid.toml", "epochs = 3\n"))
    with pytest.raises(InputError, match=r"the recipe of a is \['ce'\]"):
        find_methods(["a"], write_file("grid.toml", '[a]\nrecipe = ["ce"]\n'))
