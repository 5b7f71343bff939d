"""From whatever the user calls a model to an encoder."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from inspect import getattr_static
from pathlib import Path
from typing import Any, get_args

import numpy as np
from sentence_transformers import SentenceTransformer

from sentemb._compat import Transformer
from sentemb._files import sha256_of
from sentemb._uris import is_endpoint
from sentemb.data.files import read_lines
from sentemb.data.locate import VARIABLE
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import Precision, TextEncoder, Vectors, check_finite, unique_texts
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.encoding.view import view_with_states, with_modules
from sentemb.errors import InputError
from sentemb.modules import Poolings, load
from sentemb.modules.poolings import LayerPooling
from sentemb.modules.source import check_kind, find_source

logger = logging.getLogger(__name__)

_SEED = re.compile(r"seed-\d+")
_WORD_VECTORS = (".txt", ".vec", ".gz")
_FORMAT = "write lines of `word v1 v2 ...`, as in the GloVe and word2vec text formats"
# Runs of letters and digits, with inner apostrophes and hyphens, or single other signs: "don't",
# "well-known", ",".
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


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
            of word vectors (`.txt`, `.vec`, also `.gz`), an OpenAI-compatible endpoint (`endpoint:URL#MODEL`,
            with its key in `OPENAI_API_KEY`), or an encoder, which is returned as it is.
        pooling: For a folder or hub id; a raw transformer without one is pooled by the mean, with a warning.
        precision: `float32` gives what `SentenceTransformer.encode` gives; `reduced` may use fewer bits
            where that is faster on this machine, and says in `describe()` whether it did.
        device: For a folder or hub id; None lets sentence-transformers choose.
        cache_dir: Folder in which vectors are cached; None does not cache them.
        data_dir: Second folder in which a word-vector file with a relative path is looked up; None means
            `SENTEMB_DATA`.
        max_length: Maximum input length in tokens, for a folder or hub id; None keeps the model's own limit.

    Returns:
        The encoder.

    Raises:
        InputError: The model does not exist, it cannot be read, or an option does not fit it.

    Example:
        >>> encoder = load_encoder("static-mini")
        >>> encoder.encode(["a cat sat", "birds fly"]).shape
        (2, 256)
        >>> load_encoder(lambda texts: [[len(text), 1.0] for text in texts]).encode(["a cat sat"])
        array([[9., 1.]], dtype=float32)
    """
    if precision not in get_args(Precision):
        known = f"choose one of {', '.join(get_args(Precision))}"
        raise InputError(f"unknown precision {precision!r}", known)
    is_name = isinstance(model, (str, Path))
    if isinstance(model, (str, Path)) and not is_endpoint(model) and not _is_word_vectors(Path(model)):
        built = load(model, pooling=pooling, max_length=max_length, device=device)
        # One raw transformer is a different encoder under each pooling, with a record of its own.
        name = name_of(str(model)) if pooling is None else f"{name_of(str(model))}-{pooling}"
        encoder: TextEncoder = SentenceEncoder(built, name=name, precision=precision, frozen=True)
    else:
        kind = f"the word vectors {model}" if is_name else f"a {type(model).__name__}"
        kind = "an endpoint" if is_name and is_endpoint(model) else kind
        for option, value in (("pooling", pooling), ("max_length", max_length), ("device", device)):
            if value is not None:
                hint = f"remove {option}, or pass a model folder"
                raise InputError(f"{option} does not apply to {kind}", hint)
        encoder = _wrap(model, precision=precision, data_dir=data_dir)
    if cache_dir is None:
        return encoder
    if isinstance(encoder, FunctionEncoder):
        message = f"vectors of the function {encoder.name} cannot be cached, because its code may change"
        raise InputError(message, "remove the cache folder (--cache-dir)")
    return CachedEncoder(encoder, Path(cache_dir).expanduser())


def _wrap(model: Any, *, precision: Precision, data_dir: str | Path | None) -> TextEncoder:
    if isinstance(model, (str, Path)) and is_endpoint(model):
        from sentemb.encoding.endpoint import EndpointEncoder

        return EndpointEncoder(str(model))
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
    """Return the name of a model in records."""
    if isinstance(model, SentenceTransformer):
        network = getattr(model[0], "auto_model", None)
        loaded_from = model.model_card_data.base_model or getattr(network, "name_or_path", "")
        return _folder_name(Path(str(loaded_from))) or "SentenceTransformer"
    path = Path(model).expanduser().resolve()
    return _folder_name(path) if path.is_dir() else model


def _folder_name(path: Path) -> str:
    # Many a model lies in a folder called "model", or by its seed; the parent tells it from the others.
    if path.name == "model":
        return path.parent.name
    return f"{path.parent.name}-{path.name}" if _SEED.fullmatch(path.name) else path.name


def check_address(model: str, *, data_dir: str | Path | None = None) -> None:
    """Raise InputError if a model does not exist, without loading it."""
    if is_endpoint(model):
        from sentemb.encoding.endpoint import split_address

        split_address(model)
    elif not _is_word_vectors(Path(model)):
        check_kind(find_source(model))
    elif not (path := _word_vectors(Path(model), data_dir)).exists():
        raise InputError(f"no such file: {path}")


def _is_word_vectors(path: Path) -> bool:
    return path.name.lower().endswith(_WORD_VECTORS) and not path.is_dir()


def _word_vectors(path: Path, data_dir: str | Path | None) -> Path:
    folder = data_dir or os.environ.get(VARIABLE)
    in_folder = folder and not path.exists() and not path.is_absolute()
    return Path(folder, path) if folder and in_folder else path.expanduser()


class FunctionEncoder:
    """Encodes with the caller's function, whose results are checked."""

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        self._function = function
        self.name = str(getattr(function, "__qualname__", type(function).__qualname__))
        # What a function computes cannot be seen.
        module = getattr(function, "__module__", type(function).__module__)
        self.fingerprint = f"function:{module}.{self.name}"
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Length of a vector; the empty string is encoded if nothing has been encoded yet."""
        return self._dimension or self.encode([""]).shape[1]

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`. The function shows its own progress, if any."""
        unique, positions = unique_texts(texts)
        if not unique:
            return np.zeros((0, self.dimension), dtype=np.float32)
        result = self._function(unique)
        if hasattr(result, "detach"):  # a torch tensor, perhaps on an accelerator
            result = result.detach().float().cpu().numpy()
        problem = ""
        try:
            vectors = np.asarray(result, dtype=np.float32)
        except (TypeError, ValueError) as error:
            problem = f"a {type(result).__name__}, which is not an array of numbers: {error}"
        else:
            if vectors.ndim != 2 or len(vectors) != len(unique) or vectors.shape[1] == 0:
                problem = f"an array of shape {vectors.shape} for {len(unique)} texts"
            elif vectors.shape[1] != (self._dimension or vectors.shape[1]):
                problem = f"vectors of {vectors.shape[1]} dimensions, after {self._dimension} before"
        if problem:
            raise InputError(
                f"{self.name} returned {problem}", "return one vector per text, all of one length"
            )
        check_finite(vectors[positions], texts, name=self.name)
        self._dimension = vectors.shape[1]
        return vectors[positions]

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed; see `TextEncoder.describe`."""
        return {"encoder": "function", "backend": self.fingerprint, "precision": "unknown"}


class WordVectorEncoder:
    """Word vectors from a text file (GloVe, word2vec, fastText): the mean of a text's known words."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.name
        self._places, self._table = _read_word_vectors(path)
        self.dimension = int(self._table.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return sha256_of(self._path)

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`. It is too fast for a progress bar."""
        unique, positions = unique_texts(texts)
        vectors = np.zeros((len(unique), self.dimension), dtype=np.float32)
        unknown = 0
        for row, text in enumerate(unique):
            found = (self._places.get(word, self._places.get(word.lower())) for word in _WORD.findall(text))
            places = [place for place in found if place is not None]
            if places:
                vectors[row] = self._table[places].mean(axis=0)
            else:
                unknown += 1
        if unknown:
            message = "%s: %d of %d texts do not contain a known word; their vectors are zero"
            logger.warning(message, self.name, unknown, len(unique))
        return vectors[positions]

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed; see `TextEncoder.describe`."""
        return {
            "encoder": "word vectors",
            "backend": "numpy",
            "precision": "float32",
            "words": len(self._places),
            "pooling": "mean of known words",
        }


def _read_word_vectors(path: Path) -> tuple[dict[str, int], Vectors]:
    places: dict[str, int] = {}
    rows: list[Vectors] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue  # the header that word2vec and fastText write
        where = f"{path}, line {number}"
        dimension = rows[0].size if rows else len(fields) - 1
        if dimension < 2:
            raise InputError(f"{where}: {dimension} numbers after the word", _FORMAT)
        # A few words of the large GloVe files contain spaces: the numbers are counted from the end.
        word, numbers = " ".join(fields[:-dimension]), fields[-dimension:]
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            raise InputError(f"{where}: expected {dimension} numbers after the word", _FORMAT) from None
        if not word or not np.isfinite(vector).all():
            raise InputError(f"{where}: the word is missing, or a number is not finite", _FORMAT)
        if word not in places:
            places[word] = len(rows)
            rows.append(vector)
    if not rows:
        raise InputError(f"{path} does not contain word vectors", _FORMAT)
    return places, np.stack(rows)


class LayerEncoder:
    """The layers of a transformer, pooled without whatever its model does after the last."""

    def __init__(
        self,
        model: str | Path | SentenceTransformer,
        *,
        poolings: Sequence[str] = ("cls", "mean", "max"),
        device: str | None = None,
        max_length: int | None = None,
    ) -> None:
        self.name = name_of(model if isinstance(model, SentenceTransformer) else str(model))
        if not isinstance(model, SentenceTransformer):
            model = load(model, pooling="mean", device=device, max_length=max_length)
        if not isinstance(model[0], Transformer):
            message = f"{self.name} starts with {type(model[0]).__name__}, which does not have layers"
            raise InputError(message, "pass a transformer model")
        transformer = view_with_states(model[0])
        self.poolings = tuple(poolings)
        self.layers = int(transformer.model.config.num_hidden_layers) + 1
        self.width = int(transformer.get_embedding_dimension())
        pooling = LayerPooling(self.width, self.layers - 1, self.poolings)
        encoder = SentenceEncoder(with_modules(model, [transformer, pooling]), name=self.name)
        self.fingerprint, self.describe, self._encode = encoder.fingerprint, encoder.describe, encoder.encode

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts, each unique one once, (texts, layers, poolings, width)."""
        vectors = self._encode(texts, progress=progress)
        return vectors.reshape(len(vectors), self.layers, len(self.poolings), self.width)
