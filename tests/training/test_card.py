"""What a model card says: how the model is loaded, from what it was made."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sentemb.modules import load
from sentemb.training.card import Card, encoder_code
from tests.conftest import build_tiny_bert


@pytest.mark.parametrize(("pooling", "loader"), [("cls", "SentenceTransformer"), ("wk", "sentemb.load")])
def test_the_code_loads_what_the_model_holds(pooling: str, loader: str, tmp_path: Path) -> None:
    model = load(build_tiny_bert(tmp_path / "bert", layers=4), pooling=pooling)
    code = "\n".join(encoder_code("mine", model))
    assert f'encoder = {loader}("mine")' in code
    folder = tmp_path / "mine"
    model.save(str(folder))
    names = {}
    exec(compile(ast.parse(code.replace('"mine"', repr(str(folder)))), "card", "exec"), names)
    assert names["vectors"].shape == (2, 16)


@pytest.mark.parametrize("base", ["bert-mini", ""])
def test_only_a_hub_id_is_named_as_the_base(base: str, tmp_path: Path) -> None:
    def card(base: str) -> str:
        return Card("mine", "An encoder.", ["pass"], {"A": "a|b"}, "@misc{}", base).text()

    assert "\nbase_model: org/name\n" in card("org/name")
    assert "base_model" not in card(base or str(tmp_path))
    assert "| A | a\\|b |" in card("org/name")
