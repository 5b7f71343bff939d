"""A static model as what it is, a tokenizer and a table, to be written with fewer or smaller numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from sentemb._compat import Normalize
from sentemb.compression.static_files import Storage, write_static, write_table
from sentemb.encoding.encoder import Vectors
from sentemb.modules.source import find_source


class StaticForm(NamedTuple):
    """A static model.

    Attributes:
        tokenizer: Its numbers are the rows of the table.
        table: (tokens, dimension).
        storage: How the model's own files keep the table.
    """

    tokenizer: Tokenizer
    table: Vectors
    storage: Storage

    def writer(
        self, *, dimension: int | None = None, storage: Storage | None = None
    ) -> Callable[[Path], dict[str, Any]]:
        """What writes the model with the first dimensions alone, or with its numbers kept in another way."""
        kept = storage or self.storage

        def build(folder: Path) -> dict[str, Any]:
            write_static(folder, self.tokenizer, self.table[:, :dimension], storage=kept)
            return {"stored": kept}

        return build

    def keep_table(self, folder: Path) -> None:
        """Give a model of the same table, which was saved in float32, the table as this one keeps it."""
        write_table(folder, self.table, storage=self.storage)


def static_form(model: SentenceTransformer, address: str | Path | None) -> StaticForm | None:
    """A static model's form; None of a model that is anything else, or does more than look up and average."""
    first, *rest = model
    if not isinstance(first, StaticEmbedding) or [type(one) for one in rest] != [Normalize]:
        return None
    config = {} if address is None else find_source(str(address)).config
    storages: tuple[Storage, ...] = get_args(Storage)
    usual: Storage = "float32"
    stored = next((one for one in storages if one == config.get("embedding_dtype")), usual)
    return StaticForm(first.tokenizer, first.embedding.weight.detach().numpy(), stored)
