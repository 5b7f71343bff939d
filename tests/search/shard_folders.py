"""Shard folders as `sentemb encode` writes them, from an encoder that does not need the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentemb.encoding.shards import Row, Settings, ShardFolder, write_manifest, write_shard
from tests.search.bag_of_words import BagOfWords

TEXTS = ["a cat", "two dogs run", "a bird", "dogs' houses", "a cat", "rivers and stones", "one more cat"]


def shards(
    folder: Path,
    texts: list[str] = TEXTS,
    *,
    size: int = 3,
    ids: list[Any] | None = None,
    encoder: Any = None,
) -> ShardFolder:
    """Write a folder of shards as `sentemb encode` does."""
    encoder = BagOfWords()
    settings = Settings(
        name=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        dtype="float32",
        shard_size=size,
        model={"model": encoder.fingerprint},
    )
    names = ids or [f"d'{n}" if n % 2 else n for n in range(len(texts))]
    rows = [Row(name, text, {"n": n}, "") for n, (name, text) in enumerate(zip(names, texts, strict=True))]
    folder.mkdir()
    written = []
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        file = settings.file_name(some)
        write_shard(folder / file, some, encoder.encode([row.text for row in some]), [], settings)
        written.append((file, len(some)))
    write_manifest(folder, settings, written, 0, "texts", [])
    return ShardFolder(folder)
