"""Static students from Python: one call from documents to a folder with its record and card."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sentemb.compression import distill_static
from sentemb.compression.static_distillation import _on_cpu
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from tests.training.training_helpers import make_sentences

SMALL: dict[str, Any] = {"dimension": 8, "vocabulary": 1000, "steps": 2, "pooling": "mean"}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(make_sentences(900, seed=3)))
    return path


def test_one_call_makes_a_folder_with_record_and_card(texts: Path, tiny_bert: Path, tmp_path: Path) -> None:
    stages: list[str] = []
    student = distill_static(
        str(tiny_bert),
        texts,
        tmp_path / "mine",
        dtype="float16",
        seed=None,  # as an option that is not given
        progress=lambda stage, done, total: stages.append(stage),
        **SMALL,
    )
    record = json.loads((student.output / "distillation.json").read_text())
    for name in ("bytes", "tokens", "dimension"):
        assert record[name] == getattr(student, name)
    assert record["storage"] == "float16" and record["seed"] == 0
    assert record["held_out"] == len(student.held_out)
    assert record["agreement"] == student.agreement._asdict()
    assert record["speed"] == student.speed._asdict()
    assert student.speed.ratio == student.speed.student / student.speed.teacher > 0
    assert record["command"] == (
        f"sentemb distill {tiny_bert.name} --texts texts.txt -o mine --dimension=8 --vocabulary=1000 "
        "--dtype=float16 --sentences=200000 --steps=2 --seed=0 --pooling=mean"
    )
    assert record["command"] in (student.output / "README.md").read_text()
    assert load_encoder(student.output).dimension == student.dimension
    assert {"encoding with the teacher", "refining tokens"} <= {*stages}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"dimension": 1}, "dimension is 1; it must be greater than or equal to 2"),
        ({"dtype": "int4"}, "dtype is 'int4'"),
        ({"vocabluary": 2000}, "unknown setting: vocabluary; did you mean vocabulary"),
        ({"text_column": "body"}, "body"),
    ],
)
def test_what_cannot_be_distilled_leaves_nothing(
    wrong: dict[str, Any], said: str, texts: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        distill_static(str(tiny_bert), texts, tmp_path / "out", **{**SMALL, **wrong})
    assert not (tmp_path / "out").exists()


def test_a_teacher_is_timed_where_its_student_runs(tmp_path: Path) -> None:
    here: Any = load_encoder("sg-bert-mini", cache_dir=tmp_path)

    def load(**options: Any) -> Any:
        return load_encoder("sg-bert-mini", **options)

    assert _on_cpu(here, load) is here.encoder
    elsewhere: Any = SimpleNamespace(model=SimpleNamespace(device=torch.device("meta")))
    timed: Any = _on_cpu(elsewhere, load)
    assert timed.model.device.type == "cpu"
    assert timed.fingerprint == here.fingerprint
