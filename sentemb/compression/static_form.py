"""A static model as what it is, a table of token vectors, to be written with fewer or smaller numbers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from sentemb._compat import StaticEmbedding
from sentemb.compression.static_files import Storage, stored, write_table
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.static import is_static_model
from sentemb.encoding.view import with_modules
from sentemb.modules.source import ModelSource


class StaticForm(NamedTuple):
    """A static model.

    Attributes:
        model: It looks tokens up, takes their mean, may scale it to length 1, and does no more.
        storage: How its own files keep the table.
    """

    model: SentenceTransformer
    storage: Storage

    @property
    def table(self) -> Vectors:
        """Token vectors (tokens, dimension)."""
        table: Vectors = self.model[0].embedding.weight.detach().cpu().float().numpy()
        return table

    def round_table(self) -> None:
        """Give the model the numbers that its folder will have."""
        weight = self.model[0].embedding.weight
        numbers, factors = stored(self.table, self.storage)
        with torch.no_grad():
            weight.copy_(torch.from_numpy(numbers.astype(np.float32) * factors[:, None]))

    def truncated(self, dimension: int) -> StaticForm:
        """The first dimensions alone."""
        first, *others = self.model
        table = np.ascontiguousarray(self.table[:, :dimension])
        fewer = StaticEmbedding(first.tokenizer, embedding_weights=table)
        return self._replace(model=with_modules(self.model, [fewer, *others]))

    def keep_table(self, folder: Path) -> None:
        """Give a model of this table, which was saved in float32, the table in this storage."""
        write_table(folder, self.table, storage=self.storage, normalised=len(self.model) > 1)

    def write(self, folder: Path) -> None:
        """Write the model into an existing folder."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        self.model[0].tokenizer.save(str(folder / "tokenizer.json"), pretty=False)  # indents would double it
        self.keep_table(folder)


def static_form(model: SentenceTransformer, source: ModelSource | None) -> StaticForm | None:
    """A static model's form; None of any other model."""
    if not is_static_model(model):
        return None
    kept = str(model[0].embedding.weight.dtype).removeprefix("torch.")
    named = None if source is None else source.config.get("embedding_dtype")
    storages: tuple[Storage, ...] = get_args(Storage)
    usual: Storage = "float32"
    return StaticForm(model, next((one for one in storages if one == (named or kept)), usual))
