"""A static encoder as a folder that sentence-transformers and model2vec both load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from sentemb._files import write_json, write_text
from sentemb.encoding.encoder import Vectors

Storage = Literal["float32", "float16", "int8"]
"""How each number of the table is kept. `int8` has a factor for each token beside it."""

_TOP = 127  # of 8 bits with a sign, and the same below zero
_DECIMALS = 3  # of the pieces' scores: more take more bytes than the numbers of a short vector
_MODULES = "sentence_transformers.models"


def stored(table: Vectors, storage: Storage) -> tuple[NDArray[Any], Vectors]:
    """Round token vectors to what will be kept.

    Args:
        table: (tokens, dimension).
        storage: How.

    Returns:
        The kept numbers and a factor for each token, whose product is the table again.
    """
    table = table.astype(np.float32)  # in float16 the factors would let numbers wrap around
    if storage != "int8":
        return table.astype(storage), np.ones(len(table), dtype=np.float32)
    factors = np.abs(table).max(axis=1) / _TOP
    factors[factors == 0] = 1
    return np.rint(table / factors[:, None]).astype(np.int8), factors.astype(np.float32)


def write_table(folder: Path, table: Vectors, *, storage: Storage, normalised: bool = True) -> None:
    """Write the token vectors of a static encoder, and how model2vec reads them.

    Args:
        folder: An existing folder.
        table: (tokens, dimension).
        storage: How the table is kept.
        normalised: Whether the encoder scales vectors to length 1.
    """
    numbers, factors = stored(table, storage)
    save_file({"embeddings": numbers, "weights": factors}, folder / "model.safetensors")
    write_json(
        folder / "config.json",
        {
            "model_type": "model2vec",
            "architectures": ["StaticModel"],
            "hidden_dim": table.shape[1],
            "normalize": normalised,
            "max_length": None,
            "embedding_dtype": storage,
        },
    )


def write_static(folder: Path, tokenizer: Tokenizer, table: Vectors, *, storage: Storage) -> None:
    """Write a static encoder into a folder.

    Args:
        folder: An existing folder.
        tokenizer: Its numbers are the rows of the table.
        table: (tokens, dimension).
        storage: How the table is kept.

    Example:
        >>> write_static(Path("static"), tokenizer, table, storage="float16")  # doctest: +SKIP
    """
    write_table(folder, table, storage=storage)
    write_text(folder / "tokenizer.json", _compact(tokenizer))
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


def _compact(tokenizer: Tokenizer) -> str:
    content = json.loads(tokenizer.to_str())
    if content["model"]["type"] == "Unigram":
        content["model"]["vocab"] = [
            [piece, round(score, _DECIMALS)] for piece, score in content["model"]["vocab"]
        ]
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
