from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.labelled import LabelledTexts
from sentemb.data.sampling import add_copies, read_copies
from sentemb.errors import InputError

Write = Callable[[str, str], Path]
ROWS = np.array([3, 1])


def sentences() -> LabelledTexts:
    return LabelledTexts(
        "sst2", "train", ["a ", "b", "c", "d", "b"], None, np.array([0, 1, 0, 1, 0]), ("n", "p")
    )


def numbered(copies: int = 4) -> str:
    lines = ["index\taugmented\ttemperature"]
    lines += [f'{row}\t"{row}.{n}\t{t}' for row in range(5) for n in range(copies) for t in (0.3, 0.9)]
    return "\n".join(lines) + "\n"


def test_each_row_gets_three_copies_with_its_label(write_file: Write) -> None:
    copies = read_copies(write_file("back.tsv", numbered(3)), temperature="temperature")
    assert (len(copies), copies[0].original, copies[0].text, copies[1].temperature) == (30, 0, '"0.0', 0.9)
    noisy = add_copies(sentences(), ROWS, copies, seed=0, temperature=0.9)
    assert noisy.texts == ["d", "b", '"3.0', '"3.1', '"3.2', '"1.0', '"1.1', '"1.2']
    assert noisy.labels.tolist() == [1, 1, 1, 1, 1, 1, 1, 1]
    assert (noisy.split, noisy.pairs) == ("train with copies", None)
    both = add_copies(sentences(), np.array([2, 3]), copies, seed=0, temperature=0.3, ratio=1)
    assert both.labels.tolist() == [0, 1, 0, 1]


def test_the_seed_chooses_among_more(write_file: Write) -> None:
    copies = read_copies(write_file("back.tsv", numbered(9)), temperature="temperature")
    copies = [copy for copy in copies if copy.temperature == 0.3]
    first, again, other = (add_copies(sentences(), ROWS, copies, seed=seed) for seed in (0, 0, 1))
    assert first.texts == again.texts != other.texts
    assert len(set(first.texts)) == len(first) == 8


def test_pairs(write_file: Write) -> None:
    data = LabelledTexts("qnli", "train", ["q", "r"], ["s", "s"], np.array([0, 1]), ("y", "n"))
    path = write_file("back.csv", "index,augmented,augmented_pair\n1,R,S\n0,Q,S\n")
    copies = read_copies(path, pair="augmented_pair")
    noisy = add_copies(data, np.array([0]), copies, seed=0, ratio=1)
    assert (noisy.texts, noisy.pairs, noisy.labels.tolist()) == (["q", "Q"], ["s", "S"], [0, 0])
    with pytest.raises(
        InputError, match=r"back\.csv:2: sst2 has single texts; name one column of copies per text"
    ):
        add_copies(sentences(), ROWS, copies, seed=0)


@pytest.mark.parametrize(
    ("content", "temperature", "fragment"),
    [
        ("index\taugmented\n5\tx\n", None, "back.tsv:2: sst2 train does not have row 5 (counted from 0)"),
        (
            "index\taugmented\nz\tx\n",
            None,
            "back.tsv:2: expected a number in column 'index', but found 'z'",
        ),
        ("index\taugmented\n3\tx\n", None, "row 3 of sst2 train has 1 copies, but 3 are needed; make more"),
        (
            "index\taugmented\ttemperature\n3\tx\t0.5\n",
            0.7,
            "has 0 copies at temperature 0.7, but 3 are needed",
        ),
        (
            "index\taugmented\ttemperature\n3\tx\thot\n",
            0.7,
            "expected a number in column 'temperature', but found 'hot'",
        ),
        ("index\tback\n3\tx\n", None, "does not have a column 'augmented'; its columns are index, back"),
    ],
)
def test_copies_that_do_not_fit(
    write_file: Write, content: str, temperature: float | None, fragment: str
) -> None:
    with pytest.raises(InputError) as caught:
        copies = read_copies(
            write_file("back.tsv", content), temperature="temperature" if temperature else None
        )
        add_copies(sentences(), ROWS, copies, seed=0, temperature=temperature)
    assert fragment in str(caught.value)
