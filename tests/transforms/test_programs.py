"""The programs of both transforms write a whole model folder or none, and say what is wrong in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import sentemb
from sentemb.errors import InputError
from sentemb.modules import FlowModule
from sentemb.transforms import FlowConfig
from sentemb.transforms.fit import load_sentences
from tests.conftest import WORDS
from tests.programs import run_program as run_program_of

PROGRAMS = Path(__file__).resolve().parents[2] / "training"
TEXTS = [f"{a} {b} {c}" for a in WORDS[:8] for b in WORDS[8:16] for c in ("sat", "ran")]
RunProgram = Callable[..., Path]


@pytest.fixture
def sentences_file(write_file: Callable[[str, str], Path]) -> Path:
    return write_file("sentences.txt", "".join(text + "\n" for text in TEXTS))


@pytest.fixture
def pairs_file(write_file: Callable[[str, str], Path]) -> Path:
    rows = "".join(f"{a},{b},1\n" for a, b in zip(TEXTS[::2], TEXTS[1::2], strict=True))
    return write_file("pairs.csv", f"one,two,score\n{rows}")


@pytest.fixture
def run_program(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunProgram:
    def start(name: str, *arguments: str, base: str = str(tiny_bert), output: str = "output") -> Path:
        folder = tmp_path / output
        run_program_of(monkeypatch, PROGRAMS / name, "--base", base, "--output", str(folder), *arguments)
        return folder

    return start


def test_bert_flow_with_the_papers_values(
    run_program: RunProgram, pairs_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run_program("bert_flow.py", "--data", str(pairs_file), "--columns", "one,two")
    assert "step 2/2" in capsys.readouterr().err
    record = json.loads((output / "run" / "record.json").read_text())
    settings = record["settings"]
    # What the program shows is what the configuration is by default.
    assert settings == {"preset": "paper", **FlowConfig().values()}
    assert record["pooling"] == "last-2"
    assert (record["data"]["rows"], record["data"]["pairs"]) == (64, True)
    assert [point["step"] for point in record["metrics"]["curve"]] == [1, 2]
    model = sentemb.load(output, device="cpu")
    assert isinstance(model[-1], FlowModule)
    assert model.encode(["a cat"]).shape == (1, 16)
    card = (output / "README.md").read_text()
    assert 'sentemb.load("output")' in card
    assert "64 pairs" in card


def test_the_released_preset_and_settings(run_program: RunProgram, sentences_file: Path) -> None:
    output = run_program(
        "bert_flow.py", "--data", str(sentences_file), "--preset", "released", "--set", "coupling=affine"
    )
    record = json.loads((output / "run" / "record.json").read_text())
    assert record["pooling"] == "first-last"
    expected = {"optimizer": "bert-adam", "encoder_dropout": True, "coupling": "affine"}
    assert record["settings"].items() >= expected.items()


def test_whitening_is_native_and_keeps_a_models_own_pooling(
    run_program: RunProgram, sentences_file: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    raw = run_program("whitening.py", "--data", str(sentences_file), "--dimensions", "5")
    assert json.loads((raw / "run" / "record.json").read_text())["pooling"] == "first-last"
    assert SentenceTransformer(str(raw), device="cpu").encode(["a cat"]).shape == (1, 5)
    own = sentemb.load(tiny_bert, pooling="max", device="cpu")
    own.save(str(tmp_path / "own"))
    output = run_program(
        "whitening.py", "--data", str(sentences_file), base=str(tmp_path / "own"), output="again"
    )
    names = [type(module).__name__ for module in SentenceTransformer(str(output), device="cpu")]
    assert names == ["Transformer", "Pooling", "Dense"]
    record = json.loads((output / "run" / "record.json").read_text())
    assert record["pooling"] == "the model's own"
    assert 'SentenceTransformer("again")' in (output / "README.md").read_text()


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("bert_flow.py", ("--set", "momentum=0.9"), "unknown setting: momentum"),
        ("bert_flow.py", ("--set", "epochs=many"), "epochs is 'many'"),
        ("whitening.py", ("--dimensions", "17"), "dimensions is 17, but the vectors have 16"),
        ("whitening.py", ("--pooling", "mid"), "unknown pooling 'mid'"),
    ],
)
def test_a_user_error_is_one_line_and_leaves_nothing(
    run_program: RunProgram,
    sentences_file: Path,
    tmp_path: Path,
    program: str,
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_program(program, "--data", str(sentences_file), *arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "output").exists()
    assert not list(tmp_path.glob(".output*"))


def test_an_interrupt_leaves_nothing(
    run_program: RunProgram, sentences_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: FlowModule, vectors: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FlowModule, "initialise", interrupt)
    with pytest.raises(SystemExit) as stopped:
        run_program("bert_flow.py", "--data", str(sentences_file))
    assert stopped.value.code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["sentences.txt"]


def test_sentences_and_pairs(sentences_file: Path, pairs_file: Path, shared_data: Path) -> None:
    assert load_sentences(str(sentences_file)) == (TEXTS, None)
    assert load_sentences(str(pairs_file), ["one", "two"]) == (TEXTS[::2], TEXTS[1::2])
    with pytest.raises(InputError, match="text columns one, two, score; select one or two"):
        load_sentences(str(pairs_file), ["one", "two", "score"])
    target = load_sentences("stsb-sentences", data_dir=shared_data)
    assert target.second is not None
    assert len(target.first) == len(target.second) == 8628
    assert len(load_sentences("stsb", data_dir=shared_data).first) == 5749
    singles = load_sentences("stsb-sentences", ["text"], data_dir=shared_data)
    assert singles.second is None
    assert singles.first[:2] == [target.first[0], target.second[0]]
    assert np.unique(target.first[:3]).size > 1
