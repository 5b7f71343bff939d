"""Where an index's encoder comes from, so that the index can call it again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from sentemb.encoding.encoder import Precision, TextEncoder
from sentemb.encoding.shards import Batch, ShardFolder
from sentemb.search.documents import Document


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """A model by name, with the options that decide its vectors; see `sentemb.encoding.load_encoder`.

    Args:
        model: Folder, word-vector file or hub id.
        pooling: Pooling of a folder or hub id.
        precision: `float32` or `reduced`.
        max_length: Longest input in tokens.

    Example:
        >>> EncoderSource("static-mini").model
        'static-mini'
    """

    model: str
    pooling: str | None = None
    precision: Precision = "float32"
    max_length: int | None = None

    def seen_from(self, folder: Path) -> EncoderSource:
        """The same model by its path from a folder, where it has one: the two can be moved together."""
        path = Path(self.model).expanduser()
        if not path.exists():
            return self
        return replace(self, model=os.path.relpath(path.resolve(), folder.resolve()))

    def located(self, folder: Path = Path()) -> EncoderSource:
        """The same model by its absolute path, where a folder or this one has it."""
        path = folder / Path(self.model).expanduser()
        return replace(self, model=str(path.resolve())) if path.exists() else self

    def load(
        self,
        *,
        device: str | None = None,
        cache_dir: str | Path | None = None,
        data_dir: str | Path | None = None,
    ) -> TextEncoder:
        """Load the encoder.

        Args:
            device: As for `sentemb.encoding.load_encoder`, like the rest.
            cache_dir: Folder for vectors.
            data_dir: Folder for word vectors.

        Returns:
            The encoder.

        Raises:
            InputError: There is no such model, or an option does not fit it.
        """
        from sentemb.encoding import load_encoder

        return load_encoder(
            self.model,
            pooling=self.pooling,  # type: ignore[arg-type]  # load_encoder refuses what is no pooling
            precision=self.precision,
            max_length=self.max_length,
            device=device,
            cache_dir=cache_dir,
            data_dir=data_dir,
        )


def checked_source(
    shards: ShardFolder, encoder: str | Path | None = None
) -> tuple[EncoderSource, TextEncoder]:
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
    given = shards.settings.model
    source = EncoderSource(
        **{one.name: given[one.name] for one in fields(EncoderSource) if one.name in given}
    )
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
