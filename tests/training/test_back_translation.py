"""Training on a file of texts and their back-translations."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from sentemb.training import resolve, train
from tests.programs import run_program as run_program_of
from tests.training.training_helpers import make_sentences

PROGRAM = Path(__file__).resolve().parents[2] / "training" / "back_translation.py"


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    """24 texts with a second wording."""
    rows = zip(make_sentences(24), make_sentences(24, seed=3), strict=True)
    path = tmp_path / "back.csv"
    path.write_text("".join(f"{a},{b}\n" for a, b in [("text", "back_translation"), *rows]), encoding="utf-8")
    return path


@pytest.fixture
def run_program(
    tiny_bert: Path, pairs_file: Path, dev_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    def run(*arguments: str) -> Path:
        output = tmp_path / "output"
        common = ["--base", str(tiny_bert), "--data", str(pairs_file), "--dev", str(dev_file)]
        run_program_of(monkeypatch, PROGRAM, *common, "--output", str(output), "--max-steps", "2", *arguments)
        return output

    return run


@pytest.mark.parametrize(
    ("arguments", "recipe", "view_encoder"),
    [
        ((), "bt", "trained"),
        (("--objective", "bt-sg-opt"), "bt-sg-opt", "frozen"),
        (("--view-encoder", "frozen", "--preset", "released"), "bt", "frozen"),
    ],
)
def test_the_program_trains_its_recipe(
    run_program: Callable[..., Path], arguments: tuple[str, ...], recipe: str, view_encoder: str
) -> None:
    output = run_program(*arguments)
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    preset = "released" if "released" in arguments else "paper"
    expected = resolve(recipe, overrides={"output": "o", "preset": preset, "data": "d"}).values()
    own = {"base", "data", "dev", "output", "max_steps", "loss_options"}
    for name, value in expected.items():
        if name not in own and value is not None:
            assert settings[name] == value, name
    assert settings["loss_options"] == expected["loss_options"] | {"view_encoder": view_encoder}
    record = json.loads((output / "run" / "record.json").read_text())
    assert record["negatives_per_anchor"] == (60 if recipe == "bt-sg-opt" else 30)
    assert SentenceTransformer(str(output), device="cpu").encode(["a cat"]).shape == (1, 16)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--view-encoder", "trained", "--objective", "bt-sg-opt"), "opt3 needs several"),
        (("--columns", "text"), "has 1 text column"),
        (("--columns", "text,translation"), "'translation'"),
    ],
)
def test_a_user_error_is_one_line(
    run_program: Callable[..., Path],
    flags: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_program(*flags)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_seeds_share_the_views_of_the_back_translations(
    configure: Callable[..., object], pairs_file: Path
) -> None:
    from sentemb.losses import ViewCache

    cache = ViewCache()
    options = {"projection_width": 8}
    for seed in (1, 2):
        config = configure(
            "bt-sg-opt",
            data=str(pairs_file),
            dev="none",
            seeds=[seed],
            loss_options=options,
            output=str(pairs_file.parent / f"seed-{seed}"),
        )
        train(config, view_cache=cache)
    translations = {line.split(",")[1] for line in pairs_file.read_text().splitlines()[1:]}
    assert len(cache) == len(translations)
