"""The encoder of an index: taken as it is given, or loaded from where the manifest says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sentemb.encoding.encoder import TextEncoder
from sentemb.errors import InputError
from sentemb.search.manifest import Manifest


def resolve(encoder: Any) -> TextEncoder:
    """The encoder that is given, or that is loaded from what is."""
    # On the class: an object's fingerprint may take a while. What is an encoder already needs no torch.
    if hasattr(type(encoder), "fingerprint"):
        ready: TextEncoder = encoder
        return ready

    from sentemb.encoding import load_encoder

    return load_encoder(encoder)


def matching(encoder: Any | None, manifest: Manifest, path: Path) -> TextEncoder:
    """The encoder of an index, from where it was or is now; another one is refused."""
    wanted = manifest.encoder
    if wanted.source is not None and (encoder is None or isinstance(encoder, (str, Path))):
        # The model may have moved; pooling and the other options of the build still apply.
        loaded = replace(wanted.source, model=str(encoder or wanted.source.model)).load()
    elif encoder is not None:
        loaded = resolve(encoder)
    else:
        raise InputError(f"{path} does not say where its encoder {wanted.name} is", "pass the encoder")
    fingerprint = loaded.fingerprint
    if fingerprint != wanted.fingerprint:
        raise InputError(
            f"{path} was built with {wanted.name} ({wanted.fingerprint[:12]}), "
            f"the encoder given is {loaded.name} ({fingerprint[:12]})",
            "search with the encoder of the build, or build the index again",
        )
    return loaded
