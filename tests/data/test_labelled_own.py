from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.labelled import load_labelled, read_labelled
from sentemb.errors import InputError

Write = Callable[[str, str], Path]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.tsv", 'text\tlabel\n"x\tham\ny\tspam\n\tham\n'),
        ("mine.csv", 'label,text\nham,"""x"\nspam,y\n ham ,\n'),
        ("mine.jsonl", '{"text": "\\"x", "label": "ham"}\n{"text": "y", "label": "spam"}\n'
                       '{"text": "", "label": "ham"}\n'),
    ],
)  # fmt: skip
def test_any_table_with_a_label_column(write_file: Write, name: str, content: str) -> None:
    data = read_labelled(write_file(name, content))
    assert (data.texts, data.pairs, data.name, data.split) == (['"x', "y", ""], None, "mine", "all")
    assert (data.labels.tolist(), data.label_names) == ([0, 1, 0], ("ham", "spam"))
    assert data.labels.dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        (["10", "9", "10", "-1"], ("-1", "9", "10"), [2, 1, 2, 0]),  # whole numbers sort as numbers
        (["10", "9", "b", "9"], ("10", "9", "b"), [0, 1, 2, 1]),
        (["true", "false", "true", "true"], ("false", "true"), [1, 0, 1, 1]),
        (["1", "0", "1.0", "0.0"], ("0", "1"), [1, 0, 1, 0]),  # of one class in JSON, however written
    ],
)
def test_classes_are_sorted(
    write_file: Write, labels: list[str], names: tuple[str, ...], numbers: list[int]
) -> None:
    quoted = [label if label[0] in "tf-019" and label != "b" else f'"{label}"' for label in labels]
    data = read_labelled(
        write_file("a.jsonl", "\n".join(f'{{"text": "t", "label": {label}}}' for label in quoted))
    )
    assert (data.label_names, data.labels.tolist()) == (names, numbers)


def test_another_split_takes_the_classes_of_the_first(write_file: Write) -> None:
    train = read_labelled(write_file("train.csv", "text,label\na,x\nb,y\nc,z\n"))
    content = "text,label\nd,z\ne,x\n"
    assert read_labelled(write_file("dev.csv", content)).labels.tolist() == [1, 0]
    dev = read_labelled(write_file("dev.csv", content), label_names=train.label_names, split="dev")
    assert (dev.labels.tolist(), dev.class_counts) == ([2, 0], {"x": 1, "y": 0, "z": 1})
    with pytest.raises(
        InputError, match=r"late\.csv:3: column 'label': 'w' is not a label of late; its labels are x, y, z"
    ):
        read_labelled(write_file("late.csv", "text,label\nd,z\ne,w\n"), label_names=train.label_names)


def test_scores_and_pairs(write_file: Write) -> None:
    path = write_file("own.csv", "a,b,y\nu,v,0.5\nw,x,3\n")
    data = read_labelled(path, text="a", pair="b", label="y", scores=True)
    assert (data.labels.tolist(), data.label_names, data.pairs) == ([0.5, 3.0], (), ["v", "x"])
    with pytest.raises(InputError, match="label_names cannot be combined with scores=True"):
        read_labelled(path, text="a", label="y", scores=True, label_names=("p", "q"))


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (
            '{"text": "a", "label": null}\n',
            "own.jsonl:1: column 'label': the label is missing; remove the row",
        ),
        (
            '{"text": "a", "label": 1}\n{"text": "a", "label": "  "}\n',
            "own.jsonl:2: column 'label': the label is missing",
        ),
        ('{"text": "a", "label": 0.5}\n', "0.5 is not a class; read decimal numbers as scores (scores=True)"),
        ('{"text": "a", "label": [1]}\n', "[1] is not a class"),
        ('{"text": 3, "label": 1}\n', "own.jsonl:1: expected a text in column 'text', but found 3"),
        ('{"text": "a", "kind": 1}\n', "does not have a column 'label'; its columns are text, kind"),
        ("", "own.jsonl is empty"),
    ],
)
def test_user_errors_name_file_and_line(write_file: Write, content: str, fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        read_labelled(write_file("own.jsonl", content))
    assert fragment in str(caught.value)


def test_real_tables(shared_data: Path) -> None:
    """FewGLUE's JSON lines with truth values, CAD-SNLI's tables, and the joined pairs, compressed."""
    words = read_labelled(shared_data / "fewglue/WiC/train.jsonl", text="sentence1", pair="sentence2")
    assert words.class_counts == {"false": 15, "true": 17}
    revised = read_labelled(
        shared_data / "nli/cad_snli/all_combined/dev.tsv",
        text="sentence1",
        pair="sentence2",
        label="gold_label",
    )
    assert (len(revised), revised.label_names) == (1000, ("contradiction", "entailment", "neutral"))
    assert revised.label_names[revised.labels[0]] == "neutral"


@pytest.mark.parametrize(
    ("name", "header", "texts"),
    [("a-train.csv", "sentence,class", 1), ("b.csv", "question1,question2,label", 2)],
)
def test_a_file_in_the_place_of_a_data_set(write_file: Write, name: str, header: str, texts: int) -> None:
    row = ",".join(["a text", "other"][:texts])
    data = load_labelled(write_file(name, f"{header}\n{row},ham\n{row},spam\n"))
    assert (data.name, data.split) == (name.removesuffix(".csv"), "train" if "train" in name else "all")
    assert (data.pairs is None, data.label_names) == (texts == 1, ("ham", "spam"))
    with pytest.raises(InputError, match="unknown data set 'sst3'; did you mean"):
        load_labelled("sst3")
