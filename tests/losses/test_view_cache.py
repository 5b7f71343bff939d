from __future__ import annotations

import errno
import gc
import logging
import tempfile
from typing import Any

import pytest
import torch

from sentemb.errors import InputError
from sentemb.losses.self_guided import ViewCache, batch_keys


class Encoder:
    """An encoder whose views identify their tokens and that counts the computed rows."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, features: dict[str, Any]) -> torch.Tensor:
        ids = features["input_ids"] * features["attention_mask"]
        self.rows.append(len(ids))
        return torch.stack([ids.sum(1), ids.pow(2).sum(1)], dim=1).float().unsqueeze(2).repeat(1, 1, 3)


def batch(*rows: list[int], width: int = 6) -> dict[str, Any]:
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "modality": "text"}


def test_each_sentence_is_computed_once_whatever_its_batch_and_padding() -> None:
    cache, encoder, plain = ViewCache(), Encoder(), Encoder()
    for features in (
        batch([5, 6], [7], [5, 6]),
        batch([8, 9, 10], [7], width=9),
        batch([7], [5, 6], [8, 9, 10]),
    ):
        assert torch.equal(cache.views(features, encoder), plain(features))
    assert encoder.rows == [2, 1]
    assert len(cache) == 3


def test_misses_are_computed_without_the_padding_of_the_hits() -> None:
    widths = []

    def encoder(features: dict[str, Any]) -> torch.Tensor:
        widths.append(features["input_ids"].shape[1])
        return Encoder()(features)

    cache = ViewCache()
    cache.views(batch([1, 2, 3, 4, 5, 6]), encoder)
    cache.views(batch([1, 2, 3, 4, 5, 6], [1, 2]), encoder)
    assert widths == [6, 2]


def test_segments_and_inner_masks_are_part_of_the_key() -> None:
    plain = batch([5, 6, 7])
    segments = {**plain, "token_type_ids": torch.tensor([[0, 0, 1, 0, 0, 0]])}
    hole = {**plain, "attention_mask": torch.tensor([[1, 0, 1, 0, 0, 0]])}
    left = {
        "input_ids": torch.tensor([[0, 0, 0, 5, 6, 7]]),
        "attention_mask": torch.tensor([[0, 0, 0, 1, 1, 1]]),
    }
    keys = [batch_keys(features)[0] for features in (plain, segments, hole, left)]
    assert len(set(keys)) == 4
    assert batch_keys(batch([5, 6, 7], width=11))[0] == keys[0]


def test_a_bound_stops_the_store_but_not_the_views(caplog) -> None:
    cache, encoder, plain = ViewCache(max_bytes=2 * 6 * 4), Encoder(), Encoder()
    features = batch([1], [2], [3], [4])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert torch.equal(cache.views(features, encoder), plain(features))
    assert len(cache) == 2
    assert cache.full
    assert encoder.rows == [4, 2, 2]
    assert caplog.text.count("is full after 2 sentences: its limit of 48 bytes is reached") == 1


@pytest.mark.parametrize("failure", ["error", "short write"])
def test_a_full_disk_stops_the_store_but_not_the_views(caplog, failure) -> None:
    class FullDisk:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, data: memoryview) -> int:
            if failure == "error":
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(data[:1])

    cache, encoder, plain = ViewCache(), Encoder(), Encoder()
    cache.views(batch([1]), encoder)
    cache._file = FullDisk(cache._file)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert torch.equal(cache.views(batch([1], [2]), encoder), plain(batch([1], [2])))
    assert len(cache) == 1
    assert "the view cache is full" in caplog.text


def test_the_file_goes_with_the_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache = ViewCache()
    cache.views(batch([1]), Encoder())
    file = cache._file
    assert not list(tmp_path.iterdir())  # unnamed: a kill leaves nothing behind
    del cache
    gc.collect()
    assert file.closed


def test_bad_bounds_are_refused() -> None:
    with pytest.raises(InputError, match="max_bytes of ViewCache is 0"):
        ViewCache(max_bytes=0)
