"""From whatever the user calls a model to an encoder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from inspect import getattr_static
from pathlib import Path
from typing import Any, get_args

from sentence_transformers import SentenceTransformer

from sentemb.data.locate import VARIABLE
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import Precision, TextEncoder
from sentemb.encoding.function import FunctionEncoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.encoding.words import SUFFIXES, WordVectorEncoder
from sentemb.errors import InputError
from sentemb.modules import Poolings, load
from sentemb.modules.kinds import check_kind
from sentemb.modules.source import find_source

_SEED = re.compile(r"seed-\d+")


def load_encoder(
    model: str | Path | SentenceTransformer | TextEncoder | Callable[[list[str]], Any],
    *,
    pooling: Poolings | None = None,
    precision: Precision = "float32",
    device: str | None = None,
    cache_dir: str | Path | None = None,
    data_dir: str | Path | None = None,
    max_length: int | None = None,
) -> TextEncoder:
    """Make an encoder of a model in any of its forms.

    Args:
        model: Folder or hub id of a model, a `SentenceTransformer`, a function `list[str] -> array`, a file
            of word vectors (`.txt`, `.vec`, also `.gz`), or an encoder, which is handed through.
        pooling: For a folder or hub id; a raw transformer without one is pooled by the mean, with a warning.
        precision: `float32` gives what `SentenceTransformer.encode` gives; `reduced` may use fewer bits
            where that is faster on this machine, and says in `describe()` whether it did.
        device: For a folder or hub id; None lets sentence-transformers choose.
        cache_dir: Keep vectors in this folder and take them from there; None keeps nothing.
        data_dir: Where a file of word vectors named by a relative path is looked for second; None means
            `SENTEMB_DATA`.
        max_length: Longest input in tokens, for a folder or hub id; None keeps the model's own limit.

    Returns:
        The encoder.

    Raises:
        InputError: There is no such model, it cannot be read, or an option does not fit it.

    Example:
        >>> encoder = load_encoder("static-mini")
        >>> encoder.encode(["a cat sat", "birds fly"]).shape
        (2, 256)
        >>> load_encoder(lambda texts: [[len(text), 1.0] for text in texts]).encode(["a cat sat"])
        array([[9., 1.]], dtype=float32)
    """
    if precision not in get_args(Precision):
        raise InputError(
            f"unknown precision {precision!r}", f"choose one of {', '.join(get_args(Precision))}"
        )
    if isinstance(model, (str, Path)) and not _is_word_vectors(Path(model)):
        built = load(model, pooling=pooling, max_length=max_length, device=device)
        # One raw transformer is a different encoder under each pooling, with a record of its own.
        name = name_of(str(model)) if pooling is None else f"{name_of(str(model))}-{pooling}"
        encoder: TextEncoder = SentenceEncoder(built, name=name, precision=precision, frozen=True)
    else:
        _refuse_options(model, pooling=pooling, max_length=max_length, device=device)
        encoder = _wrap(model, precision=precision, data_dir=data_dir)
    if cache_dir is None:
        return encoder
    if isinstance(encoder, FunctionEncoder):
        raise InputError(
            f"vectors of the function {encoder.name} cannot be cached, because its code may change",
            "remove the cache folder (--cache-dir)",
        )
    return CachedEncoder(encoder, Path(cache_dir).expanduser())


def _refuse_options(model: Any, **options: Any) -> None:
    kind = f"the word vectors {model}" if isinstance(model, (str, Path)) else f"a {type(model).__name__}"
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} does not apply to {kind}", f"remove {option}, or pass a model folder")


def _wrap(model: Any, *, precision: Precision, data_dir: str | Path | None) -> TextEncoder:
    if isinstance(model, (str, Path)):
        return WordVectorEncoder(_word_vectors(Path(model), data_dir))
    if isinstance(model, SentenceTransformer):
        return SentenceEncoder(model, name=name_of(model), precision=precision)
    # Not isinstance: that would evaluate the properties, and a fingerprint reads every weight.
    members = ("name", "fingerprint", "dimension", "encode", "describe")
    if all(getattr_static(model, member, None) is not None for member in members):
        return model  # type: ignore[no-any-return]
    if callable(model):
        return FunctionEncoder(model)
    raise InputError(
        f"cannot encode with {type(model).__name__}",
        "pass a model folder, a hub id, a SentenceTransformer, a function or a word-vector file",
    )


def name_of(model: str | SentenceTransformer) -> str:
    """What records call a model."""
    if isinstance(model, SentenceTransformer):
        network = getattr(model[0], "auto_model", None)
        loaded_from = model.model_card_data.base_model or getattr(network, "name_or_path", "")
        return _folder_name(Path(str(loaded_from))) or "SentenceTransformer"
    path = Path(model).expanduser().resolve()
    return _folder_name(path) if path.is_dir() else model


def _folder_name(path: Path) -> str:
    """The last part of a path that tells models apart."""
    # Many a model lies in a folder called "model", or by its seed; the parent tells it from the others.
    if path.name == "model":
        return path.parent.name
    return f"{path.parent.name}-{path.name}" if _SEED.fullmatch(path.name) else path.name


def check_address(model: str, *, data_dir: str | Path | None = None) -> None:
    """Refuse a name of no model, without loading one."""
    if not _is_word_vectors(Path(model)):
        check_kind(find_source(model))
    elif not (path := _word_vectors(Path(model), data_dir)).exists():
        raise InputError(f"no such file: {path}")


def _is_word_vectors(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES) and not path.is_dir()


def _word_vectors(path: Path, data_dir: str | Path | None) -> Path:
    folder = data_dir or os.environ.get(VARIABLE)
    in_folder = folder and not path.exists() and not path.is_absolute()
    return Path(folder, path) if folder and in_folder else path.expanduser()
