"""A transformer with fewer layers: those that change its vectors least are removed, the rest is trained."""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from datasets import Dataset
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import BaseEvaluator, Normalize
from sentemb._machine import faster_precision
from sentemb.compression.config import LayeredConfig
from sentemb.compression.distillation import (
    TIMED,
    Agreement,
    Speed,
    draw_texts,
    measure_agreement,
    measure_speed,
)
from sentemb.data.documents import Document, read_unique_documents
from sentemb.encoding import NonFiniteError, load_encoder
from sentemb.encoding.encoder import Vectors, normalised
from sentemb.encoding.view import linear, with_modules, with_truncation_as_module
from sentemb.errors import InputError
from sentemb.modules.cards import public_name
from sentemb.training.card import encoder_code, render_card, training_rows
from sentemb.training.folder import RunFolder
from sentemb.training.objective import build_loss, citation_of
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import refuse_several
from sentemb.training.session import Session, run_session
from sentemb.training.trainer import bucketed_by_length

# Share of the mean square of a dimension. It keeps the map from fitting noise if there is little text.
_RIDGE = 1e-2
_OF_LAYERS = ("attention_window",)  # settings per layer whose name does not say so
_CHOOSING = 200  # texts by which layers are chosen
_EVALUATIONS = 8  # of a run, in addition to the one before the first step
_MAPPED = 2000  # texts by which layers are chosen and the last matrix is fitted


def layers_of(model: SentenceTransformer) -> nn.ModuleList | None:
    """Return the stack of layers of a model's transformer, or None if it is not unique."""
    network: Any = getattr(model[0], "model", None)
    count = getattr(getattr(network, "config", None), "num_hidden_layers", None)
    if not isinstance(network, nn.Module):
        return None
    stacks = [part for part in network.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    inner = {id(part) for stack in stacks for layer in stack for part in layer.modules()}
    stacks = [stack for stack in stacks if id(stack) not in inner]
    return stacks[0] if len(stacks) == 1 else None


def reason_against_pruning(model: SentenceTransformer) -> str | None:
    """Return why layers of a model cannot be removed, or None if they can."""
    layers = layers_of(model)
    if layers is None:
        name = type(getattr(model[0], "model", model[0])).__name__
        return f"{name} does not have a plain stack of layers with separate weights"
    if len(layers) == 1:
        return "it has a single layer"
    if getattr(model[0].model.config, "output_hidden_states", False):
        return "it pools several layers"
    return None


def prune_layers(model: SentenceTransformer, count: int, texts: Sequence[str]) -> SentenceTransformer:
    """Remove layers, and map the vectors of the rest to those of the full model, which is not changed.

    Layers are removed one by one, each time the one whose removal changes the vectors of the texts least. A
    linear map, fitted by ridge regression on the same texts, then corrects the vectors. A first layer that
    has other weights than the rest, such as T5's positions, is kept.
    """
    if (reason := reason_against_pruning(model)) is not None:
        raise InputError(f"cannot remove layers (--layers): {reason}", "distill without --layers")
    model = with_truncation_as_module(model)
    layers = layers_of(model)
    assert layers is not None  # reason_against_pruning found none
    if not 0 < count < len(layers):
        raise InputError(
            f"cannot keep {count} layers (--layers): the model has {len(layers)}", "choose a smaller number"
        )
    wanted = load_encoder(model).encode(texts)

    def nearness(kept: list[int]) -> float:
        """Return the mean cosine with the full model on a few texts."""
        found = load_encoder(_with_layers(model, kept)).encode(texts[:_CHOOSING])
        right = wanted[:_CHOOSING]
        lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(right, axis=1)
        return float(((found * right).sum(axis=1) / np.maximum(lengths, 1e-12)).mean())

    kept = list(range(len(layers)))
    first, second = (
        [(name, weight.shape) for name, weight in layer.named_parameters()] for layer in layers[:2]
    )
    fixed = {0} if first != second else set()
    while len(kept) > count:
        trials = [[number for number in kept if number != left] for left in kept if left not in fixed]
        kept = max(trials, key=nearness)
    smaller = _with_layers(model, kept)
    dense = linear(_fit_map(load_encoder(smaller).encode(texts), wanted))
    return with_modules(smaller, [*smaller, dense, Normalize()])


def _with_layers(model: SentenceTransformer, kept: Sequence[int]) -> SentenceTransformer:
    smaller = copy.deepcopy(model)
    layers = layers_of(smaller)
    assert layers is not None  # as the model has them
    count, some = len(layers), [layers[number] for number in kept]
    config = smaller[0].model.config
    # Settings per layer, such as which layers attend to the whole text.
    for name, value in vars(config).items():
        if isinstance(value, list) and len(value) == count and ("layer" in name or name in _OF_LAYERS):
            setattr(config, name, [value[number] for number in kept])
    if hasattr(config, "attention_layers"):  # GPT-Neo, which saves them as pairs of a pattern and a number
        config.attention_types = [[[kind], 1] for kind in config.attention_layers]
    del layers[:]
    layers.extend(some)
    config.num_hidden_layers = len(some)
    return smaller


def _fit_map(found: Vectors, wanted: Vectors) -> NDArray[np.float32]:
    """Fit the linear map between two sets of vectors, (wanted dim, found dim)."""
    products = found.T @ found
    ridge = _RIDGE * np.trace(products) / len(products) * np.eye(len(products))
    weight: NDArray[np.float32] = np.linalg.solve(products + ridge, found.T @ wanted).T.astype(np.float32)
    return weight


class LayeredStudent(NamedTuple):
    """A student with fewer layers.

    Attributes:
        output: Its folder.
        agreement: Agreement with the teacher on the held-out texts.
        before: Mean cosine with the teacher on them before the first step.
        held_out: The held-out texts.
        speed: Speed of student and teacher, each on the best device available.
    """

    output: Path
    agreement: Agreement
    before: float
    held_out: list[str]
    speed: Speed


class TeacherCosine(BaseEvaluator):
    """Evaluator: mean cosine between the student's and the teacher's vectors of held-out texts."""

    best_metric_key = "eval_dev_cosine"

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self.primary_metric = "dev_cosine"
        self.texts = texts
        self.wanted: Vectors  # the teacher's, of length 1

    def encode(self, model: SentenceTransformer) -> Vectors:
        """Return the student's vectors of the texts, of length 1."""
        return normalised(load_encoder(model, precision="reduced").encode(self.texts))

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Evaluate; weights that have diverged score -1."""
        try:
            return {self.primary_metric: float((self.encode(model) * self.wanted).sum(axis=1).mean())}
        except NonFiniteError:
            return {self.primary_metric: -1.0}


class LayeredSession(Session):
    """Training run of a student with fewer layers."""

    config: LayeredConfig
    eval_on_start: ClassVar[bool] = True
    evaluator: TeacherCosine
    agreement: Agreement

    def __init__(
        self, config: LayeredConfig, documents: Sequence[Document], *, progress: ConsoleProgress | None
    ) -> None:
        (seed,) = config.seeds
        self.documents = len(documents)
        self.texts = draw_texts(documents, most=config.sentences, seed=seed)
        rows = len(self.texts.training)
        if config.batch_size > rows:
            raise InputError(
                f"batch_size is {config.batch_size}, but there are only {rows} texts to train on",
                "lower batch_size",
            )
        steps = config.max_steps or config.epochs * -(-rows // config.batch_size)
        self.eval_steps = max(1, steps // _EVALUATIONS)
        super().__init__(config, progress=progress)
        self.model = prune_layers(self.model, config.layers, self.texts.training[:_MAPPED])
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # the teacher's vectors have none, and they can be had for any text
        self.loss = build_loss(config, bucketed_by_length(self.model))
        self.evaluator = TeacherCosine(self.texts.held_out)
        self.remarks = (
            f"{rows:,} texts to train on, {len(self.texts.held_out):,} held out; {config.layers} layers",
        )

    def prepare(self) -> None:
        """Encode the texts with the teacher."""
        teacher = load_encoder(
            self.config.base,
            pooling=self.config.pooling,  # type: ignore[arg-type]
            precision="reduced",
            cache_dir=self.kept_vectors,
        )
        texts = [*self.texts.training, *self.texts.held_out]
        vectors = self.encode_by_teacher(teacher, texts, name=public_name(self.config.base))
        vectors, self.evaluator.wanted = np.split(vectors, [len(self.texts.training)])
        labels = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        self.rows = Dataset(pa.table({"text": self.texts.training, "label": labels}))

    def describe(self) -> dict[str, Any]:
        """Describe the texts for the record."""
        digest = hashlib.sha256()
        for text in (*self.texts.training, *self.texts.held_out):
            digest.update(f"{text}\0".encode("utf-8", "surrogatepass"))
        data = {
            "source": public_name(self.config.texts),
            "sha256": digest.hexdigest(),
            "documents": self.documents,
            "texts": len(self.texts.training),
        }
        return {"data": data, **super().describe()}

    def finish(self, kept: Run) -> Run:
        """Compare the student with its teacher on the held-out texts."""
        self.agreement = measure_agreement(self.evaluator.encode(self.model), self.evaluator.wanted)
        return kept

    def describe_score(self, kept: Run, scores: list[float]) -> dict[str, Any]:
        """Describe for the record how the weights were chosen."""
        return {
            "set": f"{len(self.texts.held_out)} held-out texts",
            "metric": "mean cosine with the teacher",
            "initial": scores[0],
        }

    def summarise(self, trainer: Any, kept: Run) -> dict[str, Any]:
        """Return the agreement with the teacher."""
        return {"agreement": self.agreement._asdict()}

    def card(self, record: dict[str, Any]) -> str:
        """Return the text of the student's card."""
        data = record["data"]
        rows: dict[str, object] = {
            "Texts": f"{data['texts']:,} of {data['documents']:,} documents: {data['source']}",
            "Checksum of the texts": data["sha256"],
            "Layers": self.config.layers,
            **training_rows(self.config),
            "Cosine with the teacher": f"{self.agreement.cosine:.3f}",
            "Agreement on similarities": f"{self.agreement.similarities:.3f}",
        }
        return render_card(
            self.config,
            f"`{public_name(self.config.base)}` with {self.config.layers} of its layers and a linear layer "
            "after them, trained with `sentemb distill` to reproduce the vectors of the full model.",
            encoder_code(self.model),
            rows,
            citation_of(self.loss),
        )


def distill_layers(
    teacher: str,
    texts: str | Path,
    output: str | Path,
    *,
    layers: int,
    resume: bool = False,
    progress: ConsoleProgress | None = None,
    **settings: Any,
) -> LayeredStudent:
    """Remove layers from an encoder and train the rest to its vectors of your texts.

    The layers whose removal changes the vectors least are removed, and a linear layer is appended to the
    others (`prune_layers`). All weights are then trained to the teacher's vectors.

    Args:
        teacher: A transformer: a folder, a hub id or a bundled model.
        texts: Documents, as for `read_unique_documents`.
        output: Folder for the model and its card. The run's files are in `run/`.
        layers: Number of layers that the student keeps.
        resume: Resume the interrupted run in the folder, if there is one.
        progress: Console to show progress on.
        **settings: Fields of `LayeredConfig`, such as `sentences`, `max_steps`, `seeds`.

    Returns:
        The student.

    Raises:
        InputError: The texts, the teacher, a setting or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> distill_layers("all-MiniLM-L6-v2", "docs/", "small", layers=3).agreement  # doctest: +SKIP
    """
    refuse_several("distillation")
    given = {name: value for name, value in settings.items() if value is not None}
    values = {"precision": faster_precision(), **given}
    config = LayeredConfig(base=teacher, texts=str(texts), output=str(output), layers=layers, **values)
    RunFolder(Path(config.output)).check(config, resume=resume)
    documents = read_unique_documents(
        texts,
        text_column=config.text_column,
        # Not the configuration's: there "none", which takes no titles, is the same as the default.
        title_column=given.get("title_column"),
        data_dir=config.data_dir,
    )
    session, _ = run_session(
        config, lambda: LayeredSession(config, documents, progress=progress), resume=resume
    )
    with without_upstream_bars():
        shutil.rmtree(session.kept_vectors, ignore_errors=True)
        folder, held_out = session.folder.path, session.texts.held_out
        whole = load_encoder(teacher, pooling=config.pooling)  # type: ignore[arg-type]
        speed = measure_speed(load_encoder(folder), whole, held_out[:TIMED])
    return LayeredStudent(folder, session.agreement, session.scores[0], held_out, speed)
