"""One encoder that names the sentiment of a text, recognises paraphrases and grades similarity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sentence_transformers import SentenceTransformer

from sentemb._files import new_folder
from sentemb.encoding import load_encoder
from sentemb.encoding.sentence import training_flags_kept
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.head_files import HeadFolder
from sentemb.multitask.heads import TaskHeads
from sentemb.multitask.objectives import scores_of
from sentemb.multitask.tasks import TASKS, Task

Floats = NDArray[np.float32]
Pair = tuple[str, str]
HINT = "use the folder that save or fit_multitask wrote, and copy it completely"


class _HeadsConfig(BaseModel):
    """The arguments of `TaskHeads`."""

    model_config = ConfigDict(extra="forbid")

    width: int
    classes: int
    sharing: Any  # `TaskHeads` checks it
    dropout: float


class _Config(BaseModel):
    """`multitask/config.json`."""

    sentiments: list[str]
    shifted: bool
    heads: _HeadsConfig


_HEADS = HeadFolder(
    kind="multi-task model",
    name="multitask",
    weights="heads.safetensors",
    schema=_Config,
    version=1,
    hint=HINT,
)


class MultiTaskModel:
    """An encoder and the heads of its tasks.

    The texts of a pair are encoded one by one: a unique text costs one forward pass, however many pairs and
    tasks it is in.

    Args:
        encoder: The encoder; inputs are cut at its `max_seq_length`.
        heads: The heads; they are moved to the encoder's device.
        sentiments: Names of the classes of sentiment, in the order of the logits.
        shifted: Whether a cosine of -1 stands for the score 0, instead of a cosine of 0.

    Raises:
        InputError: Encoder, heads and names do not fit each other.

    Example:
        >>> model = MultiTaskModel.load("multitask-base")  # doctest: +SKIP
        >>> model.predict_sentiment(["A warm, funny, engaging film."])  # doctest: +SKIP
        ['positive']
        >>> model.predict_similarity([("A dog plays.", "A dog is playing.")])  # doctest: +SKIP
        array([4.7], dtype=float32)
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        heads: TaskHeads,
        sentiments: Sequence[str],
        *,
        shifted: bool = False,
    ) -> None:
        self.sentiments = tuple(sentiments)
        if len(set(self.sentiments)) != len(self.sentiments) or len(self.sentiments) != heads.classes:
            raise InputError(
                f"got {len(self.sentiments)} names for {heads.classes} sentiment classes",
                "provide one distinct name per class",
            )
        if encoder.get_embedding_dimension() != heads.width:
            raise InputError(
                f"the encoder's vectors have {encoder.get_embedding_dimension()} dimensions, but the "
                f"heads expect {heads.width}",
                "build the heads with width=encoder.get_embedding_dimension()",
            )
        self.encoder = encoder
        self.heads = heads.to(encoder.device)
        self.shifted = shifted

    @property
    def models(self) -> dict[Task, MultiTaskModel]:
        """Which model answers each task: this one. An ensemble has the same attribute."""
        return dict.fromkeys(TASKS, self)

    def predict_sentiment(self, texts: Sequence[str]) -> list[str]:
        """The most likely sentiment of each text.

        Args:
            texts: Texts; empty ones are legal.

        Returns:
            Names of classes; of equal logits the first class wins.

        Raises:
            InputError: A text is no string.
        """
        predicted = self.answer("sentiment", self.encode(texts))
        return [self.sentiments[int(number)] for number in predicted]

    def predict_paraphrase(self, pairs: Sequence[Pair]) -> list[bool]:
        """Whether the two texts of each pair are paraphrases."""
        return [bool(one) for one in self._answer_pairs("paraphrase", pairs)]

    def predict_similarity(self, pairs: Sequence[Pair]) -> Floats:
        """How similar the two texts of each pair are.

        Args:
            pairs: Pairs of texts.

        Returns:
            `(len(pairs),)`, on the scale of STS: 5 for texts that say the same. Without `shifted` a negative
            cosine gives a negative score.

        Raises:
            InputError: Something is no pair of texts.
        """
        return self._answer_pairs("similarity", pairs)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Sentence vectors, `(len(texts), d)`, each unique text encoded once."""
        return load_encoder(self.encoder).encode(texts)

    @torch.no_grad()
    def answer(self, task: Task, *vectors: Floats) -> Floats:
        """What a task says about texts that are already encoded.

        Args:
            task: The task.
            *vectors: Sentence vectors `(n, d)`; for a pair task the first texts' and the second ones'.

        Returns:
            `(n,)`: class numbers, 1 for paraphrases and 0 for others, or scores.
        """
        columns = [torch.from_numpy(np.ascontiguousarray(one)).to(self.encoder.device) for one in vectors]
        with training_flags_kept(self.heads):
            self.heads.eval()
            predicted = self.heads(task, *columns)
        if task == "sentiment":
            predicted = predicted.argmax(dim=1)
        elif task == "paraphrase":
            # The paper rounds the sigmoid, which is above one half where the logit is above 0.
            predicted = predicted > 0
        else:
            predicted = scores_of(predicted, shifted=self.shifted)
        return np.asarray(predicted.float().cpu().numpy())

    def save(self, folder: str | Path) -> None:
        """Write the model: a plain sentence-transformers model, with the heads in `multitask/`.

        Args:
            folder: A folder that does not exist yet, or is empty; it appears when it is complete.

        Raises:
            InputError: The folder is taken.
        """
        with new_folder(Path(folder)) as partial:
            self.encoder.save_pretrained(str(partial), create_model_card=False)
            self.write_heads(partial)

    def write_heads(self, folder: Path) -> None:
        """Write what belongs beside a saved encoder."""
        config = {"sentiments": list(self.sentiments), "shifted": self.shifted, "heads": self.heads.config()}
        _HEADS.write(folder, self.heads, config)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> MultiTaskModel:
        """Read a model that `save` or `fit_multitask` wrote.

        Args:
            folder: The folder.
            device: Where to put it; None lets sentence-transformers choose.

        Returns:
            The model. No code from the folder is run.

        Raises:
            InputError: There is no such model, or it is damaged.
        """
        path = Path(folder).expanduser()
        with _HEADS.reading(path):
            config = _HEADS.read_config(path)
            heads = TaskHeads(**config.heads.model_dump())
            _HEADS.load_weights(path, heads)
        encoder = load(str(path), device=device)
        with _HEADS.reading(path):
            return cls(encoder, heads, config.sentiments, shifted=config.shifted)

    def _answer_pairs(self, task: Task, pairs: Sequence[Pair]) -> Floats:
        first, second = split_pairs(pairs)
        vectors = self.encode([*first, *second])
        return self.answer(task, vectors[: len(first)], vectors[len(first) :])


def split_pairs(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Divide pairs into their first and second texts."""
    if isinstance(pairs, str):
        raise InputError("expected pairs of texts, got a single string", "pass [(first, second), ...]")
    for index, pair in enumerate(pairs):
        whole = isinstance(pair, tuple | list) and len(pair) == 2
        if not whole or not all(isinstance(text, str) for text in pair):
            raise InputError(f"pair {index} is {str(pair)[:40]!r}", "pass two texts (first, second)")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
