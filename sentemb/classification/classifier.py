"""An encoder and a head that name the class of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer
from torch import Tensor

from sentemb._files import new_folder
from sentemb.encoding.encoder import check_finite
from sentemb.encoding.sentence import training_flags_kept
from sentemb.encoding.tokens import Tokens
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.files import HeadFolder
from sentemb.modules.heads import ClassificationHead, build_head
from sentemb.modules.loading import shortest_input

Scores = NDArray[np.float32]
Input = str | tuple[str, str]
"""A text, or a pair of texts that the encoder reads as one sequence, [CLS] first [SEP] second [SEP]."""

_BATCH = 64


class _Config(BaseModel):
    """`classifier/config.json`."""

    labels: list[str]
    pairs: bool
    max_length: int | None
    head: dict[str, Any]


_HEAD = HeadFolder(
    kind="classifier",
    name="classifier",
    weights="head.safetensors",
    schema=_Config,
    version=1,
    hint="use the folder that Classifier.save or fit_classifier wrote, and copy it completely",
)


class Classifier:
    """Names the class of texts, or of pairs of texts.

    A pair is read as one sequence, [CLS] first [SEP] second [SEP]; its longer text is truncated first.

    Args:
        encoder: The encoder.
        head: From what the encoder returns to logits; it is moved to the encoder's device.
        labels: Names of the classes in the order of the logits.
        pairs: Whether it classifies pairs of texts.
        max_length: Longest input in tokens, as in training; None is the encoder's own limit.

    Raises:
        InputError: The labels are not the head's classes, or the length does not fit the encoder.

    Example:
        >>> classifier = Classifier.load("cola-classifier")  # doctest: +SKIP
        >>> classifier.predict(["The cat sat on the mat."])  # doctest: +SKIP
        ['acceptable']
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        head: ClassificationHead,
        labels: Sequence[str],
        *,
        pairs: bool = False,
        max_length: int | None = None,
    ) -> None:
        self.labels = tuple(labels)
        if len(set(self.labels)) != len(self.labels) or len(self.labels) != head.classes:
            raise InputError(
                f"got {len(self.labels)} labels for a head with {head.classes} classes",
                "provide one distinct name per class",
            )
        if max_length is not None:
            shortest, longest = shortest_input(encoder, pairs=pairs), encoder.max_seq_length
            if max_length < shortest or (longest is not None and max_length > longest):
                raise InputError(
                    f"max_length {max_length} is not supported by the encoder",
                    f"use {shortest} to {longest} tokens",
                )
        self.encoder = encoder
        self.head = head.to(encoder.device)
        self.pairs = pairs
        self.max_length = max_length

    def predict(self, texts: Sequence[Input]) -> list[str]:
        """Return the most likely class of each text.

        Args:
            texts: Texts, or pairs `(first, second)`; empty strings are legal.

        Returns:
            Label names; of equal logits the first class wins.

        Raises:
            InputError: A text is of another kind, or its logits are not finite.
        """
        return [self.labels[number] for number in self.logits(texts).argmax(axis=1)]

    def predict_proba(self, texts: Sequence[Input]) -> Scores:
        """Return the probabilities of all classes, `(len(texts), classes)`: the softmax of the logits."""
        probabilities: Scores = torch.from_numpy(self.logits(texts)).softmax(dim=1).numpy()
        return probabilities

    def count_cut(self, texts: Sequence[Input]) -> int:
        """Return how many texts, or pairs, are longer than the classifier reads; see `predict`."""
        inputs = check_inputs(texts, pairs=self.pairs)
        tokenizer: Any = self.encoder.tokenizer
        longest = self.max_length or self.encoder.max_seq_length
        if longest is None or longest > 2**31 or not hasattr(tokenizer, "num_special_tokens_to_add"):
            return 0
        tokens = Tokens(tokenizer, int(longest) - tokenizer.num_special_tokens_to_add(pair=self.pairs))
        parts = ([one] if isinstance(one, str) else list(one) for one in inputs)
        # The lengths are upper bounds, and fast.
        long = [one for one in parts if sum(tokens.lengths(one)) > tokens.room]
        return sum(sum(tokens.counts(one)) > tokens.room for one in long)

    def logits(self, texts: Sequence[Input]) -> Scores:
        """Return what the head computes, `(len(texts), classes)`; label vectors give cosines over T."""
        inputs = check_inputs(texts, pairs=self.pairs)
        if not inputs:
            return np.zeros((0, len(self.labels)), dtype=np.float32)
        with training_flags_kept(self.head):
            self.head.eval()
            logits = compute(self.encoder, inputs, self.head, max_length=self.max_length)
        check_finite(logits, [str(text) for text in inputs], name="the classifier")
        return logits

    def save(self, folder: str | Path) -> None:
        """Write the classifier: a plain sentence-transformers model, with the head in `classifier/`.

        Args:
            folder: A folder that does not exist yet, or is empty; it appears when it is complete.

        Raises:
            InputError: The folder is taken.
        """
        with new_folder(Path(folder)) as partial:
            self.encoder.save_pretrained(str(partial), create_model_card=False)
            config = {"labels": list(self.labels), "pairs": self.pairs, "max_length": self.max_length}
            _HEAD.write(partial, self.head, {**config, "head": self.head.config()})

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Classifier:
        """Read a classifier that `save` or `fit_classifier` wrote.

        Args:
            folder: The folder.
            device: Where to put it; None lets sentence-transformers choose.

        Returns:
            The classifier. No code from the folder is run.

        Raises:
            InputError: There is no classifier, or it is damaged.
        """
        path = Path(folder).expanduser()
        with _HEAD.reading(path):
            config = _HEAD.read_config(path)
            head = build_head(config.head)
            _HEAD.load_weights(path, head)
        encoder = load(str(path), device=device)
        with _HEAD.reading(path):
            return cls(encoder, head, config.labels, pairs=config.pairs, max_length=config.max_length)


def check_inputs(texts: Sequence[Input], *, pairs: bool) -> list[Input]:
    """Return texts, or pairs; raise InputError for what a classifier of these cannot classify."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        given = "a single string" if isinstance(texts, str) else repr(texts)
        raise InputError(f"a classifier expects a list of texts, but got {given}", "pass a list")
    checked: list[Input] = []
    for index, text in enumerate(texts):
        parts = [text] if isinstance(text, str) else list(text) if isinstance(text, tuple | list) else []
        if len(parts) != 1 + pairs or not all(isinstance(part, str) for part in parts):
            expected = "a pair of texts (first, second)" if pairs else "a text"
            raise InputError(f"input {index} is {str(text)[:40]!r}", f"pass {expected}")
        checked.append((parts[0], parts[1]) if pairs else parts[0])
    return checked


@torch.inference_mode()
def compute(
    encoder: SentenceTransformer,
    inputs: Sequence[Input],
    function: Callable[[dict[str, Any]], Tensor],
    *,
    max_length: int | None,
    dropout: bool = False,
) -> NDArray[np.float32]:
    """Apply a function to what the encoder returns: unique inputs once, those of a length together."""
    places: dict[Input, int] = {}
    positions = [places.setdefault(one, len(places)) for one in inputs]
    unique = list(places)
    if dropout:
        positions, unique = list(range(len(inputs))), list(inputs)
    # Longest first: a batch that does not fit the memory fails at once.
    order = sorted(range(len(unique)), key=lambda place: -_characters(unique[place]))
    rows: list[NDArray[np.float32]] = []
    limit = {} if max_length is None else {"max_length": max_length}
    with training_flags_kept(encoder):
        encoder.train(dropout)
        for start in range(0, len(order), _BATCH):
            batch = [unique[place] for place in order[start : start + _BATCH]]
            features = {
                name: value.to(encoder.device) if isinstance(value, Tensor) else value
                for name, value in encoder.preprocess(batch, **limit).items()
            }
            rows.append(function(encoder(features)).float().cpu().numpy())
    found = np.concatenate(rows)  # (unique, columns)
    found[order] = found.copy()
    return found[positions]


def _characters(text: Input) -> int:
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])
