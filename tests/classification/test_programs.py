"""The programs and the verb for labelled texts run as written."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.classification import Classifier, ClassifierRun, read_own_labelled, read_own_texts
from sentemb.classification.classifier import grade_classes, score_grades
from sentemb.cli.main import run
from sentemb.data import load_labelled
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from tests.classification.toy import toy_set
from tests.programs import run_program as run_program_of

PROGRAMS = Path(__file__).resolve().parents[2] / "training"
RunProgram = Callable[..., Path]


@pytest.fixture
def toy_table(write_file: Callable[[str, str], Path]) -> Path:
    data = toy_set(24)
    rows = "".join(
        f"{text},{data.label_names[label]}\n" for text, label in zip(data.texts, data.labels, strict=True)
    )
    return write_file("train.csv", f"text,label\n{rows}")


@pytest.fixture
def run_program(small_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunProgram:
    def start(name: str, *arguments: str) -> Path:
        output = tmp_path / "output"
        common = ["--base", str(small_bert), "--output", str(output), "--set", "max_steps=1"]
        run_program_of(monkeypatch, PROGRAMS / name, *common, "--set", "max_length=16", *arguments)
        return output

    return start


@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        ("supcl_seq.py", ("--preset", "released"), {"preset": "released", "epochs": 3}),
        ("supcl_seq.py", ("--objective", "supcl-seq-self"), {"self_supervised": True, "batch_size": 128}),
        ("scl.py", ("--objective", "ce"), {"recipe": "ce", "learning_rate": 1e-5, "batch_size": 16}),
    ],
)
def test_a_program_trains_on_a_table_of_ones_own(
    run_program: RunProgram,
    toy_table: Path,
    program: str,
    arguments: tuple[str, ...],
    expected: dict[str, object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = str(toy_table)
    output = run_program(program, "--train", table, "--validation", table, "--test", table, *arguments)
    settings = tomllib.loads((output / "run" / "config.toml").read_text())
    assert settings.items() >= expected.items()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["validation", "test", "classifier"]
    assert "accuracy" in lines[-2]


def test_a_task_has_the_values_and_splits_of_its_paper(
    run_program: RunProgram, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run_program("scl.py", "--task", "rte", "--data-dir", str(shared_data))
    printed = capsys.readouterr().out
    assert "2490 rows" in printed
    assert printed.count("138 rows") + printed.count("139 rows") == 2  # the dev split in two
    assert (output / "classifier" / "config.json").exists()


def test_grades_are_classes_and_scored_as_grades(
    run_program: RunProgram,
    shared_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = load_labelled("stsb-glue", split="dev", data_dir=shared_data)
    few = whole.select(range(0, 60))
    monkeypatch.setattr("sentemb.classification.fit.load_labelled", lambda *arguments, **options: few)
    output = run_program("supcl_seq.py", "--task", "stsb", "--data-dir", str(shared_data))
    line = capsys.readouterr().out.splitlines()[-2].split()
    assert line[:3] == ["test", "60", "rows"]
    assert line[3::2] == ["pearson", "spearman"]
    labels = Classifier.load(output, device="cpu").labels
    assert list(labels) == sorted({str(round(float(grade), 1)) for grade in few.labels}, key=float)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--train", "{one}"), "one.csv have the label good; add examples of at least one more class"),
        ((), "specify either --task or --train"),
        (("--task", "cola", "--validation", "{table}"), "--validation needs --train"),
        (
            ("--task", "cola", "--label", "kind"),
            "--label needs --train; --task cola already defines its rows; remove --label",
        ),
        (("--train", "{table}", "--set", "probe_options.epochs=3"), "of a second stage"),
    ],
)
def test_a_user_error_is_one_line(
    run_program: RunProgram,
    toy_table: Path,
    arguments: tuple[str, ...],
    message: str,
    write_file: Callable[[str, str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = write_file("one.csv", "text,label\na,good\nb,good\n")
    with pytest.raises(SystemExit) as caught:
        run_program("lacon.py", *(text.format(table=toy_table, one=one) for text in arguments))
    assert caught.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "error: " in last
    assert message in last


def test_the_verb_names_classes(
    trained: ClassifierRun,
    write_file: Callable[[str, str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = write_file("texts.txt", f"cat dog\nthe man plays guitar{' a' * 500}\n")
    folder, table = str(trained.run.output), tmp_path / "out.csv"
    with pytest.raises(SystemExit) as left:
        run(["classify", folder, str(texts), "--output", str(table), "--device", "cpu"])
    assert left.value.code == 0
    header, *rows = csv.reader(table.open(newline=""))
    assert header == ["label", "p(animal)", "p(person)", "p(thing)"]
    assert [row[0] for row in rows] == ["animal", "person"]
    assert (
        "1 of 2 rows are longer than the maximum length of the classifier and were truncated"
        in capsys.readouterr().err
    )
    assert all(abs(sum(map(float, row[1:])) - 1) < 1e-5 for row in rows)


Write = Callable[[str, str], Path]


def test_texts_and_pairs(write_file: Write) -> None:
    table = write_file("rows.csv", "first,second,kind\na cat,the dog,same\na man,a mat,other\n")
    data = read_own_labelled(table, columns=["first", "second"], label="kind")
    assert (data.texts, data.pairs) == (["a cat", "a man"], ["the dog", "a mat"])
    assert (data.label_names, data.labels.tolist()) == (("other", "same"), [1, 0])
    assert read_own_texts(table, columns=["first"]) == ["a cat", "a man"]
    assert read_own_texts(table, columns=["first", "second"]) == [("a cat", "the dog"), ("a man", "a mat")]
    assert read_own_texts(write_file("lines.txt", "a cat\na man\n")) == ["a cat", "a man"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("text,kind\na,b\n", {}, "label"),
        ("words,label\na,b\n", {}, "text"),
        ("text,label\na,b\n ,b\n", {}, "column 'text' of row 2 is empty"),
        ("text,label\na,new\n", {"label_names": ("old", "older")}, "'new' is not a label"),
        ("text,label\na,b\n", {"columns": ("a", "b", "c")}, "text columns are a, b, c"),
        ("text,label\na,b\n", {"columns": ("text", "text")}, "text columns are text, text"),
    ],
)
def test_user_errors_are_clear(write_file: Write, content: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_own_labelled(write_file("rows.csv", content), **options)


def graded(grades: list[float]) -> LabelledTexts:
    texts = [f"text {number}" for number in range(len(grades))]
    return LabelledTexts("graded", "train", texts, texts, np.array(grades), ())


def test_grades_that_round_to_the_same_are_one_class() -> None:
    data = graded([3.76, 0.0, 3.8, 3.84, 5.0])
    classes = grade_classes(data)
    assert classes.label_names == ("0.0", "3.8", "5.0")
    assert classes.labels.tolist() == [1, 0, 1, 1, 2]
    assert grade_classes(data, decimals=None).label_names == ("0.0", "3.76", "3.8", "3.84", "5.0")
    with pytest.raises(InputError, match="are classes"):
        grade_classes(classes)


def test_a_predicted_grade_is_the_mean_under_the_probabilities(
    trained: ClassifierRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = trained.classifier
    monkeypatch.setattr(classifier, "labels", ("0.0", "2.5", "5.0"))
    data = toy_set(24, seed=1)
    scored = LabelledTexts("graded", "dev", data.texts, None, 2.5 * data.labels, ())
    expected = classifier.predict_proba(data.texts) @ np.array([0.0, 2.5, 5.0])
    pearson = np.corrcoef(expected, scored.labels)[0, 1]
    assert score_grades(classifier, scored)["pearson"] == pytest.approx(pearson)
    assert pearson > 0.7
