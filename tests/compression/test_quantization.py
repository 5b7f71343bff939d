from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from sentemb.compression.onnx_graphs import Floats, Product

pytestmark = pytest.mark.skipif(find_spec("onnx") is None, reason="needs the extra compress")


def best_product(inputs: Floats, weights: list[Floats]) -> Product:
    from sentemb.compression import onnx_graphs

    return onnx_graphs.best_product(inputs, weights)


def rounded(inputs: Floats, product: Product, weights: Floats) -> Floats:
    codes = np.rint(inputs / product.scale / product.step).clip(-product.zero, 255 - product.zero)
    most = (codes * product.step) @ (product.weights[0] * product.steps[0])
    return np.asarray(most + inputs[:, product.kept] @ weights[product.kept] + product.shifts[0])


def drawn(*, outlier: float) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(500, 64)).astype(np.float32)
    inputs[:, 5] *= outlier
    return inputs, generator.normal(size=(64, 32)).astype(np.float32)


@pytest.mark.parametrize("outlier", [1, 100])
def test_a_product_tells_its_own_error(outlier: float) -> None:
    inputs, weights = drawn(outlier=outlier)
    product = best_product(inputs, [weights])
    right = inputs @ weights
    lost = np.square(right - rounded(inputs, product, weights)).sum()
    assert lost / np.square(right - right.mean(axis=0)).sum() == pytest.approx(product.error, rel=1e-2)
    assert product.error < 3e-4


def test_a_channel_that_is_far_larger_than_the_rest_stays_in_float32() -> None:
    inputs, weights = drawn(outlier=100)
    product = best_product(inputs, [weights])
    assert 5 in product.kept
    assert not product.weights[0][product.kept].any()


def test_the_mean_of_the_outputs_is_kept() -> None:
    inputs, weights = drawn(outlier=10)
    inputs += 3
    product = best_product(inputs, [weights])
    means = rounded(inputs, product, weights).mean(axis=0)
    assert np.allclose(means, (inputs @ weights).mean(axis=0), atol=1e-3)
