from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command

WORDS = "cat dog man woman red apple house children".split()
NARROW = ("--set", "loss_options.projection_width=8")


@pytest.fixture
def train(
    sentemb: Command, tiny_bert: Path, write_file: Callable[[str, str], Path], tmp_path: Path
) -> Callable[..., tuple[str, str]]:
    """Train on a few sentences by a recipe and further options, and return what the command prints."""
    rows = "".join(f"a {word}\tthe {word} sat\t{index}\n" for index, word in enumerate(WORDS))
    data = write_file("sentences.txt", "".join(f"the {word} is in a park\n" for word in WORDS))
    dev = write_file("dev.tsv", f"sentence1\tsentence2\tscore\n{rows}")
    usual = {"--data": data, "--dev": dev, "--output": tmp_path / "output", "--max-length": 16}

    def succeed(recipe: str, *options: object, **changes: object) -> tuple[str, str]:
        changed = usual | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
        given = [word for option, value in changed.items() if value is not None for word in (option, value)]
        code, out, err = sentemb("train", recipe, "--base", tiny_bert, "--batch-size", 4, *given, *options)
        assert code == 0, err
        return out, err

    return succeed


def test_own_sentences_without_sts_b_are_trained_with_the_bundled_pairs(
    train: Callable[..., tuple[str, str]], sentemb: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train("simcse", "--max-steps", 1, "--data-dir", tmp_path, dev=None)
    assert caplog.text.count("the bundled sentence pairs select the checkpoint. Pass --dev FILE") == 1
    assert 'dev = "sentemb-pairs"' in (tmp_path / "output" / "run" / "config.toml").read_text()
    assert "sentemb-pairs dev" in (tmp_path / "output" / "README.md").read_text()
    # Who asks for STS-B gets it or an error.
    given = ("--data", tmp_path / "sentences.txt", "--data-dir", tmp_path, "-o", tmp_path / "other")
    assert "dev set stsb" in sentemb("train", "simcse", "--base", "bert-mini", *given, "--dev", "stsb")[2]


def test_a_default_length_above_the_limit_of_the_model_is_lowered_silently(
    train: Callable[..., tuple[str, str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train("sg-opt", *NARROW, "--max-steps", 1, max_length=None)
    assert "above the limit" not in caplog.text
    train("sg-opt", *NARROW, "--max-steps", 1, max_length=100, output=tmp_path / "other")
    assert "max_length 100 is above the limit of the model; 64 is used" in caplog.text
