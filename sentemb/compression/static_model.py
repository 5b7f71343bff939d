"""A static model: a table of token vectors, in memory and as a folder that model2vec also loads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch.nn.functional import embedding_bag

from sentemb._compat import StaticEmbedding
from sentemb._files import write_json, write_text
from sentemb.compression.config import Storage
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.static import is_static_model
from sentemb.encoding.static_tokens import StaticTokens
from sentemb.encoding.view import with_modules
from sentemb.modules.source import ModelSource

_TOP = 127  # the largest magnitude of a symmetric int8 code
_SCORE_DECIMALS = 3  # more decimals would take more bytes than a short token vector
_TEXTS_PER_CALL = 10_000
_MODULES = "sentence_transformers.models"


class StaticForm(NamedTuple):
    """A static model as its table of token vectors."""

    model: SentenceTransformer  # a token look-up and a mean, optionally followed by a normalization
    storage: Storage  # number format of the table in the model's own files

    @property
    def table(self) -> Vectors:
        """Token vectors, (tokens, dimension)."""
        table: Vectors = self.model[0].embedding.weight.detach().cpu().float().numpy()
        return table

    def round_table(self) -> None:
        """Give the model the numbers that its folder will have."""
        with torch.no_grad():
            self.model[0].embedding.weight.copy_(torch.from_numpy(round_to_storage(self.table, self.storage)))

    def truncate(self, dimension: int) -> StaticForm:
        """Return the same model with only the first dimensions."""
        first, *others = self.model
        table = np.ascontiguousarray(self.table[:, :dimension])
        fewer = StaticEmbedding(first.tokenizer, embedding_weights=table)
        return self._replace(model=with_modules(self.model, [fewer, *others]))

    def keep_table(self, folder: Path) -> None:
        """Replace the table of a model saved in float32 with this table in this storage."""
        _write_table(folder, self.table, storage=self.storage, normalised=len(self.model) > 1)

    def write(self, folder: Path) -> None:
        """Write the model into an existing folder."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        # Indentation would double the size of the file.
        self.model[0].tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        self.keep_table(folder)


def static_form(model: SentenceTransformer, source: ModelSource | None) -> StaticForm | None:
    """Return the form of a static model, or None for any other model."""
    if not is_static_model(model):
        return None
    in_memory = str(model[0].embedding.weight.dtype).removeprefix("torch.")
    in_files = None if source is None else source.config.get("embedding_dtype")
    storage: Storage = next((one for one in get_args(Storage) if one == (in_files or in_memory)), "float32")
    return StaticForm(model, storage)


class Bags(NamedTuple):
    """Texts as token ids."""

    tokens: NDArray[np.int64]  # of all texts, concatenated
    starts: NDArray[np.int64]  # (texts + 1,), the offset of each text, and the end of the last one

    def select(self, rows: NDArray[np.intp]) -> Bags:
        """Return the texts of these rows, in their order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Bags(self.tokens[places], starts)

    def sums(self, table: Vectors) -> Vectors:
        """Return the sum of each text's token vectors, (texts, dimension)."""
        with torch.inference_mode():
            sums: Vectors = self.pool(torch.from_numpy(table), mode="sum").numpy()
        return sums

    def pool(self, table: torch.Tensor, *, mode: str = "mean") -> torch.Tensor:
        """Return the mean or sum of each text's token vectors, (texts, dimension)."""
        offsets = torch.from_numpy(self.starts[:-1])
        return embedding_bag(torch.from_numpy(self.tokens), table, offsets, mode=mode)

    def counts(self, size: int) -> NDArray[np.int64]:
        """Return how often each of `size` tokens occurs, (size,)."""
        return np.bincount(self.tokens, minlength=size)

    def __len__(self) -> int:
        return len(self.starts) - 1


def tokenize_bags(tokenizer: Tokenizer, texts: Sequence[str]) -> Bags:
    """Tokenize texts into bags."""
    tokenize = StaticTokens(tokenizer)
    parts, counts = [np.empty(0, np.int64)], [np.zeros(1, np.int64)]
    for first in range(0, len(texts), _TEXTS_PER_CALL):
        ids, lengths = tokenize(texts[first : first + _TEXTS_PER_CALL])
        parts.append(ids)
        counts.append(lengths)
    return Bags(np.concatenate(parts), np.cumsum(np.concatenate(counts)))


def to_storage(table: Vectors, storage: Storage) -> tuple[NDArray[Any], Vectors]:
    """Return the numbers that are stored of token vectors, and a factor per token to multiply them with."""
    table = table.astype(np.float32)  # with float16 factors, int8 codes would overflow
    if storage != "int8":
        return table.astype(storage), np.ones(len(table), dtype=np.float32)
    factors = np.abs(table).max(axis=1) / _TOP
    factors[factors == 0] = 1
    return np.rint(table / factors[:, None]).astype(np.int8), factors.astype(np.float32)


def round_to_storage(table: Vectors, storage: Storage) -> Vectors:
    """Return token vectors as they will be read from a folder, (tokens, dimension)."""
    numbers, factors = to_storage(table, storage)
    rounded: Vectors = numbers.astype(np.float32) * factors[:, None]
    return rounded


def write_static(folder: Path, tokenizer: Tokenizer, table: Vectors, *, storage: Storage) -> None:
    """Write a static encoder into a folder.

    Args:
        folder: An existing folder.
        tokenizer: Its ids are the rows of the table.
        table: (tokens, dimension).
        storage: Number format of the table.

    Example:
        >>> write_static(Path("static"), tokenizer, table, storage="float16")  # doctest: +SKIP
    """
    _write_table(folder, table, storage=storage, normalised=True)
    content = json.loads(tokenizer.to_str())
    if content["model"]["type"] == "Unigram":
        pieces = content["model"]["vocab"]
        content["model"]["vocab"] = [[piece, round(score, _SCORE_DECIMALS)] for piece, score in pieces]
    write_text(folder / "tokenizer.json", json.dumps(content, ensure_ascii=False, separators=(",", ":")))
    modules = [("", "StaticEmbedding"), ("1_Normalize", "Normalize")]
    write_json(
        folder / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"{_MODULES}.{kind}"}
            for number, (path, kind) in enumerate(modules)
        ],
    )
    options = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine", "prompts": {}}
    write_json(folder / "config_sentence_transformers.json", options)


def _write_table(folder: Path, table: Vectors, *, storage: Storage, normalised: bool) -> None:
    """Write the token vectors, and the configuration that model2vec reads."""
    numbers, factors = to_storage(table, storage)
    save_file({"embeddings": numbers, "weights": factors}, folder / "model.safetensors")
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": table.shape[1],
        "normalize": normalised,
        "max_length": None,
        "embedding_dtype": storage,
    }
    write_json(folder / "config.json", config)
