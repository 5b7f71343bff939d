"""The encoder of an index: taken as it is given, or loaded from where the manifest says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sentemb.encoding.encoder import EncoderSpec, TextEncoder, for_role
from sentemb.errors import InputError
from sentemb.search.manifest import EncoderFacts


def resolve(encoder: Any) -> TextEncoder:
    """Return the encoder that is given, or that is loaded from what is."""
    # On the class: an object's fingerprint may take a while. What is an encoder already needs no torch.
    if hasattr(type(encoder), "fingerprint"):
        ready: TextEncoder = encoder
        return ready

    from sentemb.encoding import load_encoder

    return load_encoder(encoder)


def facts_of(encoder: TextEncoder, given: Any, source: EncoderSpec | None) -> EncoderFacts:
    """Return what an index notes of an encoder that was given in some form, so that it finds it again."""
    if source is None and isinstance(given, (str, Path)):
        source = EncoderSpec(str(given))
    place = source.located() if source else None
    documents = for_role(encoder, "document")
    return EncoderFacts(encoder.name, documents.fingerprint, place, documents.describe(), "document")


def has_built(encoder: TextEncoder, facts: EncoderFacts) -> bool:
    """Return whether an index has the vectors that an encoder gives documents."""
    return for_role(encoder, "document").fingerprint == facts.fingerprint


def loaded_encoder(encoder: Any | None, wanted: EncoderFacts, path: Path | str) -> TextEncoder:
    """Return the encoder that an index was built with.

    Args:
        encoder: The encoder, or the new place of its model; by default the one that the index names.
        wanted: What the index notes of it.
        path: The index, for messages.

    Returns:
        The encoder.

    Raises:
        InputError: It cannot be loaded, or it is another one.
    """
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
