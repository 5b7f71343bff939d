"""The encoder of an index: taken as it is given, or loaded from where the manifest says."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentemb.encoding.encoder import Role, TextEncoder, Vectors
from sentemb.encoding.roles import for_role, select_prompt
from sentemb.encoding.tokens import Tokens, tokens_of
from sentemb.errors import InputError
from sentemb.search.adapter import Adapter
from sentemb.search.manifest import EncoderFacts, Manifest
from sentemb.search.shards import encode_checked
from sentemb.search.source import EncoderSource
from sentemb.search.vectors import comparable
from sentemb.search.view import Encode, View

logger = logging.getLogger(__name__)


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
    documents = for_role(encoder, "document")
    return EncoderFacts(encoder.name, documents.fingerprint, place, documents.describe(), "document")


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

    def for_role(self, role: Role) -> TextEncoder:
        """Return the old encoder for documents, and this one for queries."""
        return self.documents if role == "document" else self

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode queries."""
        return self.mapped(for_role(self._encoder, "query").encode(texts, progress=progress))

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
            return for_role(encoder_of(None, self._old, self._path), "document")
        except InputError as error:
            raise InputError(
                f"the documents of {self._path} were encoded with {self._old.name}, which cannot be loaded: "
                f"{error}",
                "encode them with the new model: run `sentemb index upgrade` without --adapter",
            ) from error

    def describe(self) -> dict[str, Any]:
        """What the new encoder says."""
        return self._encoder.describe()


class RolelessEncoder:
    """Encodes queries and documents alike, for an index that was built before roles were used.

    Args:
        encoder: The encoder.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint

    @property
    def tokens(self) -> Tokens | None:
        """The encoder's tokens."""
        return tokens_of(self._encoder)

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`."""
        return self._encoder.encode(texts, progress=progress)

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made; see `TextEncoder.describe`."""
        return self._encoder.describe()


def of_documents(encoder: TextEncoder) -> Encode:
    """Encodes texts as those of documents are, with the encoder of the index given."""
    return lambda texts: encode_checked(for_role(encoder, "document"), texts)


def documents_encoder(view: View, path: Path) -> TextEncoder:
    """The encoder that made the vectors of an index, from where it was."""
    return for_role(encoder_of(None, view.manifest.documents_encoder, path), "document")


def matching(encoder: Any | None, view: View, path: Path) -> TextEncoder:
    """The encoder of queries of an index, from where it was or is now; another one is refused."""
    loaded = encoder_of(encoder, view.manifest.encoder, path)
    return loaded if view.adapter is None else AdaptedEncoder(loaded, view.adapter, view.manifest, path)


def encoder_of(encoder: Any | None, wanted: EncoderFacts, path: Path | str) -> TextEncoder:
    """Load the encoder of an index, in the way in which the index was built: with roles or without."""
    loaded = loaded_encoder(encoder, wanted, path)
    if is_of_role(loaded, wanted):
        return loaded
    logger.warning(
        "%s was built without the document prompt or route of %s, so queries are encoded without theirs too; "
        "build it again to use them",
        path,
        loaded.name,
    )
    return RolelessEncoder(loaded)


def is_of_role(encoder: TextEncoder, facts: EncoderFacts) -> bool:
    """Whether an index holds the vectors that an encoder gives documents."""
    return for_role(encoder, "document").fingerprint == facts.fingerprint


def has_built(encoder: TextEncoder, facts: EncoderFacts) -> bool:
    """Whether an index was built with an encoder, with roles or without."""
    return is_of_role(encoder, facts) or encoder.fingerprint == facts.fingerprint


def lacks_role(facts: EncoderFacts) -> bool:
    """Whether an index was built without roles by a model that encodes documents in another way by now.

    The model is not loaded. Of one that is not here nothing is known.
    """
    if facts.role is not None or facts.source is None or facts.fingerprint.endswith("-document"):
        return False
    from sentemb.modules.source import local_object

    options = local_object(facts.source.model, "config_sentence_transformers.json")
    modules = local_object(facts.source.model, "modules.json")
    if isinstance(modules, list) and any("Router" in str(one) or "Asym" in str(one) for one in modules):
        return True
    if not isinstance(options, dict) or not isinstance(options.get("prompts"), dict):
        return False
    default = options.get("default_prompt_name")
    # Upstream gives a model both of these, empty unless it has them.
    prompts = {"query": "", "document": "", **options["prompts"]}
    return select_prompt(prompts, default, "document") != select_prompt(prompts, default, None)


def loaded_encoder(encoder: Any | None, wanted: EncoderFacts, path: Path | str) -> TextEncoder:
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
        raise InputError(
            f"the location of the encoder {wanted.name} of {path} is not known", "pass the encoder"
        )
    if not has_built(loaded, wanted):
        raise InputError(
            f"{path} was built with {wanted.name} ({wanted.fingerprint[:12]}), "
            f"not with {loaded.name} ({loaded.fingerprint[:12]})",
            "pass the encoder of the build, or change the encoder with `sentemb index upgrade`",
        )
    return loaded
