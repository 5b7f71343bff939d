from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb.data.batches import ClassBalancedBatches, PairBatches, class_balanced_batches, pair_batches
from sentemb.data.labelled import load_labelled
from sentemb.errors import InputError


@given(
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=9), half=st.integers(2, 8), seed=st.integers(0, 2)
)
@settings(max_examples=80)
def test_batches_hold_what_they_promise(sizes: list[int], half: int, seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    batches = ClassBalancedBatches(labels, 2 * half, seed=seed)
    drawn = list(batches)
    assert len(drawn) == len(batches)
    assert {row for batch in drawn for row in batch} == set(range(len(labels)))
    for batch in drawn:
        counts = Counter(labels[batch].tolist())
        assert len(batch) == len(set(batch)) <= 2 * half
        assert len(counts) >= 2
        # A row without a positive only where its class has no other.
        assert all(count > 1 or sizes[one] == 1 for one, count in counts.items())


@pytest.mark.parametrize(("sizes", "batch_size"), [([50, 500], 16), ([40, 60, 80], 16), ([30] * 15, 16)])
def test_classes_have_equal_parts(sizes: list[int], batch_size: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    drawn = list(ClassBalancedBatches(labels, batch_size))
    assert {len(batch) for batch in drawn} == {batch_size}
    totals = np.bincount(labels[np.concatenate(drawn)])
    assert totals.max() - totals.min() <= batch_size
    assert totals.max() <= max(sizes) + batch_size
    for batch in drawn:
        counts = np.bincount(labels[batch])
        assert counts.max() - counts[counts > 0].min() <= 2, counts


def test_no_row_comes_again_before_all_of_its_class_came() -> None:
    labels = np.repeat([0, 1], [7, 40])
    rows = [row for batch in ClassBalancedBatches(labels, 8) for row in batch if labels[row] == 0]
    for start in range(0, len(rows) - 7, 7):
        assert sorted(rows[start : start + 7]) == list(range(7))


def test_labels_may_be_of_any_kind() -> None:
    expected = list(ClassBalancedBatches([0, 1, 0, 1, 1], 4))
    assert list(ClassBalancedBatches([0.0, 1.0, 0.0, 1.0, 1.0], 4)) == expected
    assert list(ClassBalancedBatches(["a", "b", "a", "b", "b"], 4)) == expected


def test_the_seed_and_the_epoch_decide_the_order() -> None:
    labels = np.repeat([0, 1, 2], 20)
    batches = ClassBalancedBatches(labels, 8, seed=1)
    first = list(batches)
    assert list(batches) == first
    batches.set_epoch(1)
    assert list(batches) != first
    assert list(ClassBalancedBatches(labels, 8, seed=2)) != first
    batches.set_epoch(0)
    assert list(batches) == first


@pytest.mark.parametrize(
    ("labels", "batch_size", "fragment"),
    [
        ([0, 1], 5, "cannot have 5 rows; choose an even number of at least 4"),
        ([0, 1], 2, "cannot have 2 rows"),
        ([1, 1], 4, "at least two classes; got 1"),
        ([], 4, "at least two classes; got 0"),
    ],
)
def test_what_cannot_be_balanced(labels: list[float], batch_size: int, fragment: str) -> None:
    with pytest.raises(InputError, match=fragment):
        ClassBalancedBatches(labels, batch_size)


def test_an_epoch_of_real_data_leaves_nothing_out(shared_data: Path) -> None:
    """sentence-transformers' own sampler by label drops 41 % of CoLA, the majority's tail."""
    from datasets import Dataset
    from sentence_transformers.base.sampler import GroupByLabelBatchSampler

    labels = load_labelled("cola", split="train", data_dir=shared_data).labels
    data = Dataset.from_dict({"label": labels.tolist()})
    ours = class_balanced_batches(data, 16, drop_last=False, valid_label_columns=["label", "score"], seed=3)
    assert len({row for batch in ours for row in batch}) == 8551
    assert len(ours) == 753
    theirs = GroupByLabelBatchSampler(data, batch_size=16, drop_last=False, valid_label_columns=["label"])
    assert len({row for batch in theirs for row in batch}) == 5056
    with pytest.raises(
        InputError,
        match="does not have a label column; its columns are label; rename the label column to class",
    ):
        class_balanced_batches(data, 16, drop_last=False, valid_label_columns=["class"])


def test_sentence_transformers_trainer_takes_them(tiny_encoder, tmp_path: Path) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import BatchAllTripletLoss

    data = Dataset.from_dict({"text": ["cat", "dog"] * 3 + ["park"] * 12, "label": [0, 1] * 3 + [2] * 12})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=6,
        batch_sampler=class_balanced_batches,
        num_train_epochs=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = SentenceTransformerTrainer(
        tiny_encoder, arguments, train_dataset=data, loss=BatchAllTripletLoss(tiny_encoder)
    )
    batches = list(trainer.get_train_dataloader())
    assert [sorted(batch["label"].tolist()) for batch in batches] == [[0, 0, 1, 1, 2, 2]] * 6
    assert trainer.train().global_step == 12


def conflicting(rows: list[tuple[str, ...]]) -> bool:
    """Whether a text of one row is another row's question or answer, or another answer to its question."""
    positives: dict[str, set[str]] = {}
    for anchor, positive, *_ in FAQ:
        positives.setdefault(anchor, set()).add(positive)
    return any({one[0], *positives[one[0]]} & {*other} for one in rows for other in rows if one is not other)


FAQ = [
    *((f"q{number}", f"a{number % 12}", f"a{(number + 1) % 12}") for number in range(60)),
    *((f"q{number}", f"a{(number + 5) % 12}", "n") for number in range(0, 60, 4)),
]


@pytest.mark.parametrize("columns", [2, 3])
def test_no_known_positive_is_a_negative_in_its_batch(columns: int) -> None:
    rows = [row[:columns] for row in FAQ]
    batches = PairBatches(*zip(*(row[:2] for row in rows), strict=True), [row[2:] for row in rows], 8)
    seen: list[int] = []
    for epoch in range(8):
        batches.set_epoch(epoch)
        drawn = list(batches)
        assert len(drawn) == len(batches)
        assert all(0 < len(batch) <= 8 and not conflicting([rows[row] for row in batch]) for batch in drawn)
        places = [row for batch in drawn for row in batch]
        assert len(places) == len(set(places))
        seen += places
    assert {*seen} == {*range(len(rows))}


def test_pairs_without_repeated_texts_fill_their_batches_in_another_order_every_epoch() -> None:
    from datasets import Dataset

    data = Dataset.from_dict(
        {"anchor": [f"q{n}" for n in range(21)], "positive": [f"a{n}" for n in range(21)]}
    )
    batches = pair_batches(data, 8, drop_last=False, seed=3)
    first = list(batches)
    assert sorted(map(len, first)) == [5, 8, 8] and sorted(chain(*first)) == [*range(21)]
    assert list(batches) == first
    batches.set_epoch(1)
    assert list(batches) != first


def test_fewer_passages_than_rows_in_a_batch_make_more_batches() -> None:
    batches = PairBatches([f"q{n}" for n in range(30)], [f"a{n % 3}" for n in range(30)], [()] * 30, 8)
    drawn = list(batches)
    assert len(drawn) == len(batches) == 10
    assert sorted(chain(*drawn)) == [*range(30)]
