"""The encoder of an index: taken as it is given, or loaded from where the manifest says."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.errors import InputError
from sentemb.search.adapter import Adapter
from sentemb.search.manifest import EncoderFacts, Manifest
from sentemb.search.shards import encode_checked
from sentemb.search.source import EncoderSource
from sentemb.search.vectors import comparable
from sentemb.search.view import Encode, View


def resolve(encoder: Any) -> TextEncoder:
    """The encoder that is given, or that is loaded from what is."""
    # On the class: an object's fingerprint may take a while. What is an encoder already needs no torch.
    if hasattr(type(encoder), "fingerprint"):
        ready: TextEncoder = encoder
        return ready

    from sentemb.encoding import load_encoder

    return load_encoder(encoder)


def facts_of(encoder: TextEncoder, given: Any, source: EncoderSource | None) -> EncoderFacts:
    """What an index notes of an encoder that was given in some form, so that it finds it again."""
    if source is None and isinstance(given, (str, Path)):
        source = EncoderSource(str(given))
    place = source.located() if source else None
    return EncoderFacts(encoder.name, encoder.fingerprint, place, encoder.describe())


class AdaptedEncoder:
    """Encodes queries as a new encoder does, and maps them to the vectors of the old one."""

    def __init__(self, encoder: TextEncoder, adapter: Adapter, manifest: Manifest, path: Path) -> None:
        assert manifest.adapter is not None
        self._encoder = encoder
        self._adapter = adapter
        self._metric = manifest.metric
        self._old = manifest.adapter.documents
        self._path = path
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.dimension = manifest.dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode queries."""
        return self.mapped(self._encoder.encode(texts, progress=progress))

    def mapped(self, vectors: Vectors) -> Vectors:
        """Map vectors of the new encoder."""
        return self._adapter(comparable(vectors, self._metric))

    @property
    def queries(self) -> TextEncoder:
        """The new encoder."""
        return self._encoder

    @functools.cached_property
    def documents(self) -> TextEncoder:
        """The old encoder; loaded when documents are added, whose vectors must not be mapped ones."""
        try:
            return encoder_of(None, self._old, self._path)
        except InputError as error:
            raise InputError(
                f"{self._path} has vectors of {self._old.name}, which cannot be loaded: {error}",
                "encode all of them with the new model: `sentemb index upgrade` without --adapter",
            ) from error

    def describe(self) -> dict[str, Any]:
        """What the new encoder says."""
        return self._encoder.describe()


def for_documents(encoder: TextEncoder) -> TextEncoder:
    """The encoder of documents that are added."""
    return encoder.documents if isinstance(encoder, AdaptedEncoder) else encoder


def of_documents(encoder: TextEncoder) -> Encode:
    """Encodes texts as those of documents are, with the encoder of queries given."""
    return lambda texts: encode_checked(for_documents(encoder), texts)


def documents_encoder(view: View, path: Path) -> TextEncoder:
    """The encoder that made the vectors of an index, from where it was."""
    return encoder_of(None, view.manifest.documents_encoder, path)


def matching(encoder: Any | None, view: View, path: Path) -> TextEncoder:
    """The encoder of queries of an index, from where it was or is now; another one is refused."""
    loaded = encoder_of(encoder, view.manifest.encoder, path)
    return loaded if view.adapter is None else AdaptedEncoder(loaded, view.adapter, view.manifest, path)


def encoder_of(encoder: Any | None, wanted: EncoderFacts, path: Path | str) -> TextEncoder:
    """The encoder that an index was built with, from where it was or is now; another one is refused."""
    if wanted.source is not None and (encoder is None or isinstance(encoder, (str, Path))):
        # The model may have moved; pooling and the other options of the build still apply.
        try:
            loaded = replace(wanted.source, model=str(encoder or wanted.source.model)).load()
        except InputError as error:
            if encoder is not None:
                raise
            raise InputError(f"the encoder of {path}, {wanted.name}: {error.message}", error.hint) from error
    elif encoder is not None:
        loaded = resolve(encoder)
    else:
        raise InputError(f"{path} does not say where its encoder {wanted.name} is", "pass the encoder")
    fingerprint = loaded.fingerprint
    if fingerprint != wanted.fingerprint:
        raise InputError(
            f"{path} was built with {wanted.name} ({wanted.fingerprint[:12]}), "
            f"the encoder given is {loaded.name} ({fingerprint[:12]})",
            "search with the encoder of the build, or change to the other with `sentemb index upgrade`",
        )
    return loaded
