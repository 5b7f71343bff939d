from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sentemb.evaluation.measures import measure
from sentemb.evaluation.packing import PEARSON_WITHIN, pack, pack_gold, unpack, unpack_gold


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, np.nextafter(1.0, 0.0), 0.3, 0.3, -0.2, 1.0]),  # a tie, and two that are all but one
        1 - np.random.default_rng(0).random(20_000) ** 9 * 1e-9,  # crowded at one end
        np.full(5, 0.25),
        np.arange(70_000) / 3,  # more values than 16 bits have codes
    ],
)
def test_codes_keep_order_and_ties(values: np.ndarray) -> None:
    tensors = pack({"set": values})
    back = unpack(tensors)["set"]
    assert tensors["set"].dtype == (np.uint16 if len(values) == 20_000 else np.uint32)
    np.testing.assert_array_equal(stats.rankdata(back), stats.rankdata(values))
    assert back.min() == pytest.approx(values.min()) and back.max() == pytest.approx(values.max())


def test_pearson_stays_within_what_is_documented() -> None:
    random = np.random.default_rng(1)
    gold = random.integers(0, 26, 3000) / 5
    for power in (1, 3, 0.2):
        values = np.clip(gold / 5 + 0.3 * random.normal(size=3000), 0, 1) ** power
        back = unpack(pack({"set": values}))["set"]
        assert measure("pearson", back, gold) == pytest.approx(
            measure("pearson", values, gold), abs=PEARSON_WITHIN
        )


@pytest.mark.parametrize(
    ("values", "kind"), [([0, 3, 1], np.uint8), ([0, 300], np.uint16), ([-1, 5], np.int8), ([], np.uint8)]
)
def test_integers_take_the_smallest_type(values: list[int], kind: type) -> None:
    tensors = pack({"set": np.array(values, dtype=np.int64)})
    assert tensors["set"].dtype == kind
    np.testing.assert_array_equal(unpack(tensors)["set"], values)


def test_gold_is_exact() -> None:
    gold = np.random.default_rng(2).random(500)
    for one in (gold, np.repeat(gold, 3), np.array([2, 0, 1])):
        np.testing.assert_array_equal(unpack_gold(pack_gold(one)), one)
        assert unpack_gold(pack_gold(one)).dtype == one.dtype
