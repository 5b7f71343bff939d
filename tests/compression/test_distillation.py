"""Students: the texts that they learn from, and one call from documents to a folder with record and card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from sentemb.compression import (
    LayeredStudent,
    distill_layers,
    distill_static,
    divide_documents,
    draw_texts,
)
from sentemb.data.documents import Document
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.training.outcome import Interrupted
from tests.conftest import build_tiny_bert
from tests.training.training_helpers import make_sentences, stop_at

SHARED = "All rights to this are reserved."


def documents(count: int, sentences: int, *, shared: str = "") -> list[Document]:
    """Documents whose every sentence names its document."""
    texts = [
        " ".join([*(f"Sentence {row} is one of document {number}z." for row in range(sentences)), shared])
        for number in range(count)
    ]
    return [Document(text, str(number), title=f"The title of {number}z") for number, text in enumerate(texts)]


def sources(texts: list[str]) -> set[str]:
    """The documents that texts are of."""
    return {word for text in texts for word in text.replace(".", " ").split() if word.endswith("z")}


@pytest.mark.parametrize(
    ("count", "sentences", "most"), [(200, 10, 10**6), (200, 10, 1500), (10, 100, 10**6), (1000, 60, 50_000)]
)
def test_no_text_is_learned_of_a_document_that_is_held_out(count: int, sentences: int, most: int) -> None:
    texts = draw_texts(documents(count, sentences), most=most, seed=1)
    assert 25 <= len(texts.held_out) <= 2000 and len(texts.training) + len(texts.held_out) <= most
    assert (len(texts.held_out) == 2000) is (count == 1000)
    assert not sources(texts.training) & sources(texts.held_out)
    if count < 1000:
        assert len(sources(texts.held_out)) == max(1, count // 20)
    kinds = [{text.startswith("The title") for text in part} for part in texts]
    assert kinds == [{True, False}, {True, False}]


def test_the_seed_decides_the_texts_and_a_shared_sentence_is_on_one_side() -> None:
    own = documents(100, 10, shared=SHARED)
    first, same, other = (draw_texts(own, most=10**6, seed=seed) for seed in (1, 1, 2))
    assert first == same
    assert sources(first.held_out) != sources(other.held_out)
    for texts in (first, other):
        assert SHARED in texts.held_out
        assert SHARED not in texts.training


@pytest.mark.parametrize("own", [documents(1, 600), [*documents(9, 20), *documents(1, 3000)]])
def test_of_few_or_uneven_documents_texts_are_held_out(
    own: list[Document], caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever document is drawn, most of what there is to learn is learned."""
    for seed in range(4):
        texts = draw_texts(own, most=10**6, seed=seed)
        assert 25 <= len(texts.held_out) < len(texts.training) / 3
        assert not {*texts.training} & {*texts.held_out}
    assert "too few or too uneven to hold whole ones out" in caplog.text


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(InputError, match="40 documents with 440 sentences are too few for distillation"):
        draw_texts(documents(40, 10), most=10**6)


@pytest.mark.parametrize(
    ("count", "calibrated", "priced", "shared"),
    [(2000, 600, 500, 0), (1099, 600, 500, 1), (550, 550, 500, 500), (30, 30, 30, 30)],
)
def test_variants_are_calibrated_and_evaluated_on_different_documents_if_there_are_enough(
    count: int, calibrated: int, priced: int, shared: int
) -> None:
    own = [Document(f"document {number}", str(number)) for number in range(count)]
    parts, same, other = (divide_documents(own, seed=seed) for seed in (1, 1, 2))
    both = {*parts.calibration} & {document.whole for document in parts.evaluation}
    assert (len({*parts.calibration}), len({*parts.evaluation})) == (calibrated, priced)
    assert (len(both), parts.shared) == (shared, shared)
    assert parts == same != other


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(make_sentences(900, seed=3)))
    return path


SMALL: dict[str, Any] = {"dimension": 8, "vocabulary": 1000, "steps": 2, "pooling": "mean"}


def test_a_static_student_has_record_and_card(texts: Path, tiny_bert: Path, tmp_path: Path) -> None:
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
def test_a_static_student_that_cannot_be_made_leaves_nothing(
    wrong: dict[str, Any], said: str, texts: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        distill_static(str(tiny_bert), texts, tmp_path / "out", **{**SMALL, **wrong})
    assert not (tmp_path / "out").exists()


SHORT: dict[str, Any] = {
    "layers": 1,
    "max_steps": 40,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "max_length": 32,
    "pooling": "mean",
    "precision": "float32",
}


@pytest.fixture(scope="module")
def teacher_of_three(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_tiny_bert(tmp_path_factory.mktemp("teacher") / "bert", layers=3))


@pytest.fixture(scope="module")
def student(teacher_of_three: str, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> LayeredStudent:
    return distill_layers(teacher_of_three, texts, tmp_path_factory.mktemp("student") / "mine", **SHORT)


def test_a_layered_student_is_native_and_nearer_to_the_teacher(student: LayeredStudent) -> None:
    assert student.agreement.cosine > student.before
    assert student.speed.ratio == student.speed.student / student.speed.teacher > 0
    record = json.loads((student.output / "run" / "record.json").read_text())
    assert record["status"] == "finished"
    assert record["agreement"]["cosine"] == student.agreement.cosine
    assert not (student.output / "run" / "teacher").exists()
    model = SentenceTransformer(str(student.output))
    assert model[0].model.config.num_hidden_layers == 1
    assert model.encode(["the cat sat"]).shape == (1, 16)
    card = (student.output / "README.md").read_text()
    assert f"{student.agreement.cosine:.3f}" in card
    assert str(student.output.parent) not in card


def test_an_interrupted_run_is_resumed_with_the_same_weights(
    student: LayeredStudent,
    teacher_of_three: str,
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = tmp_path / "again"
    with monkeypatch.context() as patch:
        stop_at(patch, 25)
        with pytest.raises(Interrupted, match="stopped at step 25"):
            distill_layers(teacher_of_three, texts, again, **SHORT)
    resumed = distill_layers(teacher_of_three, texts, again, resume=True, **SHORT)
    assert resumed.agreement == student.agreement
    name = "model.safetensors"
    assert (again / name).read_bytes() == (student.output / name).read_bytes()


def test_no_titles_are_read_if_the_column_is_none(teacher_of_three: str, tmp_path: Path) -> None:
    sentences = [*dict.fromkeys(make_sentences(900, seed=3))]
    rows = [{"text": text, "title": f"{number}"} for number, text in enumerate(sentences * 2)]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    short = {**SHORT, "max_steps": 2}
    student = distill_layers(teacher_of_three, path, tmp_path / "out", title_column="none", **short)
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
def test_a_layered_student_that_cannot_be_made_leaves_nothing(
    changed: dict[str, Any], said: str, teacher_of_three: str, texts: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        distill_layers(teacher_of_three, texts, tmp_path / "out", **{**SHORT, **changed})
    assert not list(tmp_path.iterdir())
