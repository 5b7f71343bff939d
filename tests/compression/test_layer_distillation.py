"""Students with fewer layers: nearer to the teacher than what is cut, native, resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from sentemb.compression import LayeredStudent, distill_layers
from sentemb.errors import InputError
from sentemb.training import session
from sentemb.training.callbacks import InterruptCallback
from sentemb.training.outcome import Interrupted
from tests.conftest import build_tiny_bert
from tests.training.training_helpers import make_sentences

SHORT: dict[str, Any] = {
    "layers": 1,
    "max_steps": 60,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "max_length": 32,
    "pooling": "mean",
    "precision": "float32",
}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("teacher") / "bert"
    build_tiny_bert(folder, layers=3)
    return str(folder)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(make_sentences(900, seed=3)))
    return path


@pytest.fixture(scope="module")
def student(teacher: str, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> LayeredStudent:
    return distill_layers(teacher, texts, tmp_path_factory.mktemp("student") / "mine", **SHORT)


def test_training_brings_it_nearer_to_the_teacher(student: LayeredStudent) -> None:
    assert student.agreement.cosine > student.before
    assert student.speed.ratio == student.speed.student / student.speed.teacher > 0
    record = json.loads((student.output / "run" / "record.json").read_text())
    assert record["status"] == "finished"
    assert record["agreement"]["cosine"] == student.agreement.cosine
    assert not (student.output / "run" / "teacher").exists()


def test_the_folder_is_native_and_has_fewer_layers(student: LayeredStudent) -> None:
    model = SentenceTransformer(str(student.output))
    assert model[0].model.config.num_hidden_layers == 1
    assert model.encode(["the cat sat"]).shape == (1, 16)
    card = (student.output / "README.md").read_text()
    assert f"{student.agreement.cosine:.3f}" in card
    assert str(student.output.parent) not in card


class _Interrupted(InterruptCallback):
    """Notes a Ctrl-C in a step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.interrupted |= state.global_step == 25
        super().on_step_end(args, state, control, **kwargs)


def test_an_interrupted_run_is_resumed_with_the_same_weights(
    student: LayeredStudent, teacher: str, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = tmp_path / "again"
    with monkeypatch.context() as patch:
        patch.setattr(session, "InterruptCallback", _Interrupted)
        with pytest.raises(Interrupted, match="stopped at step 25"):
            distill_layers(teacher, texts, again, **SHORT)
    resumed = distill_layers(teacher, texts, again, resume=True, **SHORT)
    assert resumed.agreement == student.agreement
    name = "model.safetensors"
    assert (again / name).read_bytes() == (student.output / name).read_bytes()


def test_no_titles_are_read_where_none_are_wanted(teacher: str, tmp_path: Path) -> None:
    sentences = [*dict.fromkeys(make_sentences(900, seed=3))]
    rows = [{"text": text, "title": f"{number}"} for number, text in enumerate(sentences * 2)]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    short = {**SHORT, "max_steps": 2}
    student = distill_layers(teacher, path, tmp_path / "out", title_column="none", **short)
    record = json.loads((student.output / "run" / "record.json").read_text())
    assert record["data"]["documents"] == len(sentences)
    assert {*student.held_out} <= {*sentences}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"layers": 3}, r"cannot keep 3 layers \(--layers\): the model has 3"),
        ({"layers": 0}, "layers"),
        ({"batch_size": 5000}, "only 843 texts to train on"),
    ],
)
def test_what_cannot_be_distilled_leaves_nothing(
    changed: dict[str, Any], said: str, teacher: str, texts: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        distill_layers(teacher, texts, tmp_path / "out", **{**SHORT, **changed})
    assert not list(tmp_path.iterdir())
