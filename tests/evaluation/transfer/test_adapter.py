"""An encoder as the original SentEval calls it."""

from __future__ import annotations

import numpy as np

from sentemb.evaluation.transfer import senteval_adapter
from tests.evaluation.transfer.test_evaluate import counting


def test_each_unique_sentence_is_encoded_once() -> None:
    encoded: list[str] = []

    def encoder(texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return counting(texts)

    prepare, batcher = senteval_adapter(encoder)
    samples = [["a", "cat"], [], ["a", "dog"], ["a", "cat"], [b"a", b"dog"]]
    prepare({}, samples)
    vectors = batcher({}, samples)
    assert vectors.shape == (5, 40)
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, counting(["a cat", ".", "a dog", "a cat", "a dog"]))
    assert sorted(set(encoded)) == sorted(encoded) == [".", "a cat", "a dog"]


def test_a_batch_without_preparation_and_a_second_task() -> None:
    prepare, batcher = senteval_adapter(counting)
    assert np.array_equal(batcher({}, [["one"], []]), counting(["one", "."]))
    prepare({}, [["two"]])
    assert np.array_equal(batcher({}, np.array([["two"], ["one"]])), counting(["two", "one"]))
