"""The text of a run, its tokenized rows on disk, their order, and the words that are hidden in them."""

from __future__ import annotations

import itertools
import logging
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import datasets
import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sentemb._files import new_file
from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.data.contamination import KnownTexts, words_key
from sentemb.data.files import read_lines
from sentemb.errors import InputError
from sentemb.modules.source import find_source

logger = logging.getLogger(__name__)

SUFFIXES = (".txt", ".txt.gz", ".txt.xz")
_PATTERN = "bert-mini"
_TEXTS = 2000  # that are tokenized at once
_SHORTEST_SENTENCE = 3  # words of a sentence that is excluded
_SCHEMA = pa.schema({"tokens": pa.list_(pa.int32()), "word_starts": pa.list_(pa.bool_())})
_MASKED, _RANDOM = 0.8, 0.1  # of the chosen words; the rest stay as they are (BERT, section 3.1)


class Corpus:
    """The lines of text files that are not blank, in two parts; making it reads the files once.

    Lines that contain a sentence of the files `exclude` are skipped; case and punctuation do not count.
    """

    def __init__(
        self, sources: Sequence[str], exclude: Sequence[str] = (), *, validation_share: float
    ) -> None:
        self.files: list[Path] = []
        self.validation_share = validation_share
        # Any field of a table may be a sentence; shorter ones are names of genres and the like.
        lines = (line for name in exclude for _, line in read_lines(local_path(name).expanduser()))
        keys = {words_key(field) for line in lines for field in line.split("\t")}
        keys = {key for key in keys if len(key.split()) >= _SHORTEST_SENTENCE}
        self.excluded, self._known = len(keys), KnownTexts(keys)
        for name in sources:
            if is_remote(name):
                raise InputError(
                    f"{without_secrets(name)} is remote, but pretraining reads the corpus several times",
                    "copy it to a local disk",
                )
            source = local_path(name).expanduser()
            found = sorted(source.iterdir()) if source.is_dir() else [source]
            texts = [path for path in found if path.name.endswith(SUFFIXES)]
            if not texts:
                what = "does not contain" if source.is_dir() else "is not"
                hint = f"use files that end in {', '.join(SUFFIXES)}"
                raise InputError(f"{source} {what} a text file", hint)
            self.files += texts
        self.documents = Counter[str]()  # of each part
        for path in self.files:
            before = self.documents.total()
            self.documents.update(part for part, _ in self._read(path))
            if self.documents.total() == before:
                raise InputError(f"{path} does not contain text", "add text, or remove it from --corpus")
        self.skipped = self.documents.pop("skipped", 0)
        if exclude:
            logger.info("%d lines contain an excluded sentence and are skipped", self.skipped)
        for part in ("train", "validation"):
            if not self.documents[part]:
                raise InputError(
                    f"the corpus has too few documents: none is left for {part}",
                    "add text or change validation_share",
                )

    def texts(self, wanted: str | None = None) -> Iterator[str]:
        """Stream the lines, stripped, or those for `train` or `validation`."""
        for path in self.files:
            for part, text in self._read(path):
                if part != "skipped" and wanted in (None, part):
                    yield text

    def _read(self, path: Path) -> Iterator[tuple[str, str]]:
        for _, line in read_lines(path):
            text = line.strip()
            if self.excluded and any(self._known.find(text)):
                yield "skipped", text
            elif text:
                # By the text, so that repeated lines are in one part.
                held_out = zlib.crc32(text.encode("utf-8")) < self.validation_share * 2**32
                yield "validation" if held_out else "train", text


def train_wordpiece(texts: Iterable[str], vocabulary_size: int) -> PreTrainedTokenizerFast:
    """Train BERT's uncased tokenizer: lower case, accents stripped, split at punctuation, WordPiece."""
    # Rare scripts would spend pieces on single letters; 200 letters cover Latin text and its signs.
    trained = load_tokenizer(_PATTERN).train_new_from_iterator(
        iter(texts), vocabulary_size, limit_alphabet=200, show_progress=False
    )
    return cast(PreTrainedTokenizerFast, trained)


def load_tokenizer(base: str | Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer of an existing base model, or of a run."""
    # The tokenizer of a run does not have a model next to it.
    address = str(base) if Path(base).is_dir() else find_source(str(base)).address
    try:
        tokenizer = AutoTokenizer.from_pretrained(address)
    except Exception as error:  # a damaged file can end in any
        raise InputError(
            f"{base} does not contain a tokenizer", "use a folder or hub id of a masked language model"
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(
            f"{base} does not have a fast tokenizer",
            "choose another base: whole-word masking needs a fast tokenizer",
        )
    for name in ("mask_token", "cls_token", "sep_token", "pad_token"):
        if getattr(tokenizer, name) is None:
            raise InputError(
                f"the tokenizer of {base} does not have a {name}", "use a masked language model as base"
            )
    return tokenizer


def write_rows(path: Path, texts: Iterable[str], tokenizer: PreTrainedTokenizerFast, length: int) -> None:
    """Tokenize documents as one stream, and write rows of `length` tokens and which of them begin a word."""
    opens, closes = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
    with new_file(path) as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
        ids, starts = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.bool_)

        def write(count: int) -> None:
            offsets = np.arange(0, count + 1, min(length, count) or 1, dtype=np.int32)
            columns = [pa.ListArray.from_arrays(offsets, pa.array(one[:count])) for one in (ids, starts)]
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))

        stream = iter(texts)
        while batch := list(itertools.islice(stream, _TEXTS)):
            encoded = tokenizer(batch, add_special_tokens=False, return_attention_mask=False, verbose=False)
            documents = [one for one in encoded.encodings if one.ids]
            ids = np.concatenate([ids, *([*opens, *one.ids, *closes] for one in documents)], dtype=np.int32)
            # word_ids numbers the pre-tokenizer's words, whatever sign a vocabulary marks continuations with.
            words = [np.array([-1, *one.word_ids, -1], dtype=np.int64) for one in documents]
            starts = np.concatenate([starts, *(np.diff(one, prepend=-2) != 0 for one in words)])
            whole = len(ids) // length * length
            write(whole)
            ids, starts = ids[whole:], starts[whole:]
        if len(ids):
            write(len(ids))


def open_rows(path: Path) -> datasets.Dataset:
    """Map the rows that `write_rows` wrote into memory."""
    try:
        rows = datasets.Dataset.from_file(str(path)).with_format("numpy")
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} is damaged: {error}", "delete it to tokenize the corpus again") from error
    if not len(rows):
        raise InputError("the tokenizer makes no tokens of the corpus", "use a base of the corpus's language")
    return rows


Row = Mapping[str, Any]
"""A row before masking: `tokens` (ids), `word_starts` (bool), and the number of its `visit` in the run."""


class Visits(Dataset[Row]):
    """Rows in the order of a whole run: epoch after epoch, each in a new order; without a seed in their own.

    A visit's row depends on the seed and its number alone, so a resumed run needs no state of a generator.
    """

    def __init__(self, rows: datasets.Dataset, *, seed: int | None, count: int | None = None) -> None:
        self._rows, self._seed = rows, seed
        # The last token is [SEP]: alone in a row it leaves nothing to hide.
        self.rows = len(rows) - (len(rows) > 1 and len(rows[-1]["tokens"]) == 1)
        self._count = self.rows if count is None else count
        self._epoch, self._order = -1, np.arange(self.rows)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, visit: int) -> Row:
        if not 0 <= visit < self._count:
            raise IndexError(visit)
        epoch, place = divmod(visit, self.rows)
        if epoch != self._epoch and self._seed is not None:
            self._epoch = epoch
            self._order = np.random.default_rng((self._seed, epoch)).permutation(self.rows)
        return {**self._rows[int(self._order[place])], "visit": visit}


class WholeWordMasking:
    """Collator that hides whole words: [MASK] (80 %), random pieces (10 %) or as they are (10 %).

    Words are drawn until `rate` of a row's pieces are reached, never more, but at least one word. The draw
    depends on `seed` and the row's visit number alone, so that a resumed run hides the same words; the
    collator of transformers draws from the global generators. With `first_position`, the position id of a
    first token, attention stays inside each document of a row and positions count from its start, so that a
    document is seen as it will be when it is encoded alone.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        *,
        rate: float = 0.15,
        seed: int = 0,
        first_position: int | None = 0,
    ) -> None:
        self.tokenizer, self.rate, self.seed = tokenizer, rate, seed
        self.first_position = first_position
        self._special = np.asarray(tokenizer.all_special_ids)
        self._ordinary = np.setdiff1d(np.arange(len(tokenizer)), self._special)

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """Mask and stack."""
        lengths = np.array([len(row["tokens"]) for row in rows])
        present: np.ndarray = np.arange(lengths.max()) < lengths[:, None]  # (batch, length)
        input_ids: np.ndarray = np.full(present.shape, self.tokenizer.pad_token_id, dtype=np.int64)
        chosen = np.zeros_like(present)
        labels = []
        for number, row in enumerate(rows):
            hidden, places = self.mask(row)
            input_ids[number, : len(hidden)] = hidden
            chosen[number, places] = True
            labels.append(row["tokens"][places])
        batch = {
            "input_ids": input_ids,
            "masked_index": np.flatnonzero(chosen),
            "masked_labels": np.concatenate(labels).astype(np.int64),
            "attention_mask": present.astype(np.int64),
        }
        if self.first_position is not None:
            opens = input_ids == self.tokenizer.cls_token_id
            # Padding gets a document of its own, so that no row of the attention matrix is empty.
            document = np.where(present, np.cumsum(opens, axis=1), -1)
            place = np.arange(input_ids.shape[1])
            start = np.maximum.accumulate(np.where(opens, place, 0), axis=1)
            batch["position_ids"] = np.where(present, place - start, 0) + self.first_position
            # (batch, 1, length, length)
            batch["attention_mask"] = document[:, None, :, None] == document[:, None, None, :]
        return {name: torch.from_numpy(array) for name, array in batch.items()}

    def mask(self, row: Row) -> tuple[np.ndarray, np.ndarray]:
        """Choose and hide words of one row; return its tokens and the chosen places."""
        generator = np.random.default_rng((self.seed, row["visit"]))
        tokens = np.array(row["tokens"])
        candidates = np.flatnonzero(~np.isin(tokens, self._special))
        if not len(candidates):
            return tokens, candidates
        # A row may begin inside a word: what is left of it counts as a word.
        names, numbers, sizes = np.unique(
            np.cumsum(row["word_starts"])[candidates], return_inverse=True, return_counts=True
        )
        order = generator.permutation(len(names))
        within = np.searchsorted(np.cumsum(sizes[order]), self.rate * len(candidates), side="right")
        count = max(1, int(within))
        fate = np.full(len(names), np.nan)
        fate[order[:count]] = generator.random(count)
        fates = fate[numbers]  # (candidates,), nan where the word is not chosen
        tokens[candidates[fates < _MASKED]] = self.tokenizer.mask_token_id
        replaced = candidates[(fates >= _MASKED) & (fates < _MASKED + _RANDOM)]
        tokens[replaced] = generator.choice(self._ordinary, len(replaced))
        return tokens, candidates[~np.isnan(fates)]
