"""Where an index's encoder comes from, and the folders of vectors that an index is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sentemb.encoding.encoder import EncoderSpec, TextEncoder
from sentemb.encoding.shards import Batch, ShardFolder
from sentemb.search.documents import Document


def checked_source(shards: ShardFolder, encoder: str | Path | None = None) -> tuple[EncoderSpec, TextEncoder]:
    """Check every byte of a folder of vectors, and load the encoder that made it.

    Args:
        shards: The folder.
        encoder: Where its model is now; by default where it was.

    Returns:
        Where the encoder is, and the encoder.

    Raises:
        InputError: The folder is damaged, or another encoder made it.
    """
    shards.verify()
    source = EncoderSpec.of(shards.settings.model)
    source = source.located(shards.path) if encoder is None else replace(source, model=str(encoder))
    loaded = source.load()
    shards.check_encoder(loaded)
    return source, loaded


def shard_documents(shards: ShardFolder) -> Iterator[Document]:
    """Yield the documents of a folder of shards."""
    for batch in shards.batches():
        yield from documents_of_batch(batch, shards)


def documents_of_batch(batch: Batch, shards: ShardFolder) -> Iterator[Document]:
    """Yield the documents of some rows of a folder."""
    for identifier, text, metadata in zip(batch.ids, batch.texts, batch.metadata, strict=True):
        yield Document(text, identifier, metadata, f"{shards.path}: {identifier!r}")
