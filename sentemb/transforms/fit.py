"""Whitening and BERT-flow: fit them on vectors, put them at the end of an encoder, and write the model.

`sentemb train flow` and `sentemb train whitening` write a whole folder, or nothing:

flow-bert-mini/         the model
├─ README.md            its card
└─ run/record.json      settings, versions, data, timings
"""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from sentemb._compat import Dense, Normalize
from sentemb._files import new_folder, refuse_unusable_output, write_json
from sentemb._threads import one_blas_thread
from sentemb.data import describe_source, load_columns
from sentemb.data.catalogue import get
from sentemb.data.sources import kind_of
from sentemb.data.sts import load_scored_pairs
from sentemb.encoding import load_encoder
from sentemb.encoding.sentence import encode_with_dropout
from sentemb.encoding.view import with_modules, with_truncation_as_module
from sentemb.errors import InputError
from sentemb.losses.base import bibtex
from sentemb.modules import load
from sentemb.modules.cards import public_name
from sentemb.modules.flow import FlowModule
from sentemb.training.card import encoder_code, render_card, write_card
from sentemb.training.config import FlowConfig as FlowConfig
from sentemb.training.config import FlowRunConfig, WhiteningRunConfig
from sentemb.training.folder import describe_environment
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import refuse_several

logger = logging.getLogger(__name__)

OnStep = Callable[[int, int, float], Any]
"""Called after every step: the step from 1, the steps in all, and the bits per dimension of its sentences."""
# BERT's Adam; the bias-corrected one has them too, so that the two differ in nothing else.
_BETAS, _EPSILON = (0.9, 0.999), 1e-6
_SHORTEST = 3  # a word between [CLS] and [SEP]
_STEPS_PER_LINE = 50


@one_blas_thread()
def fit_whitening(vectors: npt.ArrayLike, dimensions: int | None = None) -> Dense:
    """Fit BERT-whitening.

    With the mean mu and the covariance U S U^T of the vectors, `(x - mu) W` has unit covariance for W = U
    S^(-1/2). The columns of W are sorted by decreasing variance, so the first columns alone give shorter
    vectors. The transform is one linear layer with the weight W^T and the bias -mu W, which plain
    sentence-transformers loads.

    A direction in which the vectors do not vary beyond float32 rounding is skipped, since its variance
    cannot be scaled to 1. Every encoder that averages the output of a final LayerNorm has such a direction.
    With None, the result may therefore have fewer dimensions than the vectors.

    Args:
        vectors: Vectors of unique sentences, not normalised, of shape (n, dimension).
        dimensions: Number of dimensions to keep; None keeps all in which the vectors vary.

    Returns:
        A native `Dense` without activation.

    Raises:
        InputError: The vectors are too few for their dimension, or vary in fewer dimensions than requested.

    Example:
        >>> import numpy as np
        >>> fit_whitening(np.random.default_rng(0).normal(size=(100, 8)), 4).out_features
        4

    Reference:
        Su, Cao, Liu and Ou: Whitening Sentence Representations for Better Semantics and Faster Retrieval.
        2021. https://arxiv.org/abs/2103.15316
    """
    matrix = checked_vectors("vectors", vectors)
    count, width = matrix.shape
    if dimensions is not None and not 1 <= dimensions <= width:
        raise InputError(
            f"dimensions is {dimensions}, but the vectors have {width} dimensions", f"use 1 to {width}"
        )
    if count <= (dimensions or width):
        raise InputError(
            f"{count} vectors are too few to estimate the covariance of {dimensions or width} dimensions",
            "provide more sentences, or keep fewer dimensions",
        )
    mean = matrix.mean(axis=0)
    centred = matrix - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / (count - 1))
    variances, directions = variances[::-1], directions[:, ::-1]  # in falling order
    # An eigenvector's sign is open: with a positive largest entry, every machine gives the same.
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(width)]
    directions = directions * np.where(largest < 0, -1.0, 1.0)
    deviations = np.sqrt(np.maximum(variances, 0.0))
    # What numpy's matrix_rank calls zero, for numbers that were float32.
    rank = int((deviations > deviations[0] * width * np.finfo(np.float32).eps).sum())
    if rank == 0 or (dimensions is not None and dimensions > rank):
        raise InputError(
            f"the vectors vary in {rank} of {width} dimensions, but {dimensions or width} were requested",
            f"keep at most {rank}" if rank else "provide different sentences",
        )
    if dimensions is None and rank < width:
        logger.info("the vectors vary in %d of %d dimensions; these are kept", rank, width)
    kept = dimensions or rank
    weight = directions[:, :kept] / deviations[:kept]  # (width, kept)
    return Dense(
        width,
        kept,
        activation_function=nn.Identity(),
        init_weight=torch.from_numpy(weight.T.astype(np.float32)),
        init_bias=torch.from_numpy((-mean @ weight).astype(np.float32)),
    )


def checked_vectors(name: str, vectors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Check vectors that something is fitted on."""
    try:
        matrix = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a 2-D array of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"{name} has the shape {matrix.shape}", "pass a 2-D array with one row per sentence")
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise InputError(f"{name} contains NaN or infinity: {len(bad)} rows, the first is row {bad[0]}")
    return matrix


def fit_flow(
    vectors: npt.ArrayLike,
    second: npt.ArrayLike | None = None,
    *,
    config: FlowConfig | None = None,
    on_step: OnStep | None = None,
    vectors_of: Callable[[int], npt.ArrayLike] | None = None,
) -> FlowModule:
    """Fit a flow on vectors by maximum likelihood.

    A step takes a batch of pairs and lowers bits(first) + bits(second), each a mean over the batch; the pairs
    need not be related, and single sentences are paired at random again in every epoch. The first batch's
    first sentences initialise the actnorms. Pairs that fill no batch at an epoch's end are skipped.

    Args:
        vectors: Shape (n, dimension): of the pairs' first sentences, or of single sentences; not normalised.
        second: Shape (n, dimension), of the pairs' second sentences.
        config: The flow and its training; the defaults of `FlowConfig`.
        on_step: Called after every step.
        vectors_of: Makes the vectors of an epoch above 0, of all first and then all second sentences, where
            the encoder's dropout gives others (`encoder_dropout`).

    Returns:
        The fitted flow.

    Raises:
        InputError: The vectors do not fit each other or the flow, are too few, or the training diverged.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> flow = fit_flow(rng.normal(size=(200, 8)), config=FlowConfig(width=4))
        >>> flow.bits(torch.randn(3, 8)).shape
        torch.Size([3])
    """
    config = FlowConfig() if config is None else config
    if config.encoder_dropout and vectors_of is None:
        raise InputError(
            "encoder_dropout needs an encoder, but fit_flow receives vectors", "use add_flow with the encoder"
        )
    sides = [vectors] if second is None else [vectors, second]
    first, *others = (torch.from_numpy(checked_vectors("vectors", one).astype(np.float32)) for one in sides)
    if others and others[0].shape != first.shape:
        raise InputError(
            f"the shapes of first and second sentence vectors differ: {tuple(first.shape)} and "
            f"{tuple(others[0].shape)}",
            "pass both vectors of every pair",
        )
    if len(first) < (2 if others else 4):
        raise InputError("there are too few sentences to fit a flow", "provide two pairs or more")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        shape = ("levels", "steps", "width", "coupling", "permutation")
        flow = FlowModule(first.shape[1], **{name: getattr(config, name) for name in shape})
    options: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    options |= {"betas": _BETAS, "eps": _EPSILON}
    # A flow is a hundred small tensors, and the loop over them costs more than their sums.
    adam = partial(torch.optim.AdamW, fused=True) if config.optimizer == "adamw" else BertAdam
    optimizer = adam(flow.parameters(), **options)
    generator = torch.Generator().manual_seed(config.seed)
    step = 0
    for epoch in range(config.epochs):
        if epoch and vectors_of is not None:
            made = torch.from_numpy(np.asarray(vectors_of(epoch), dtype=np.float32))
            first, *others = torch.split(made, len(first))
        rows, other = _paired(first, *others, generator=generator)
        size = min(config.batch_size, len(rows))
        whole = torch.randperm(len(rows), generator=generator)[: len(rows) // size * size]
        batches = torch.split(whole, size)
        steps = config.epochs * len(batches)
        for batch in batches:
            step += 1
            if not flow.initialised:
                flow.initialise(rows[batch])
            optimizer.zero_grad()
            # The sides are of one size: their common mean is half of what is lowered.
            bits = flow.bits(torch.cat([rows[batch], other[batch]])).mean()
            (2 * bits).backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(flow.parameters(), config.clip)
            optimizer.step()
            value = bits.item()
            if not (math.isfinite(value) and math.isfinite(norm)):
                raise InputError(
                    f"the flow diverged at step {step} of {steps}", "reduce the learning rate or clip"
                )
            if on_step is not None:
                on_step(step, steps, value)
    logger.info("fitted a flow of %d dimensions: %.3f bits per dimension", flow.dimension, value)
    flow.eval()
    return flow


def _paired(first: Tensor, *others: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return first and second sides; single sentences are paired at random."""
    if others:
        return first, others[0]
    order = torch.randperm(len(first), generator=generator)[: len(first) // 2 * 2].view(2, -1)
    return first[order[0]], first[order[1]]


class BertAdam(torch.optim.Optimizer):
    """The optimizer that BERT was released with: Adam without bias correction, with decoupled weight decay.

        m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   w = w - lr (m / (sqrt(v) + eps) + decay w)

    The first steps are larger than those of Adam: about 3 lr instead of lr.
    """

    def __init__(self, parameters: Iterable[Tensor], **options: Any) -> None:
        super().__init__(parameters, options)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
                mean: Tensor = state["mean"].lerp_(weight.grad, 1 - beta1)
                square: Tensor = state["square"].lerp_(weight.grad.square(), 1 - beta2)
                change = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * weight
                weight.sub_(group["lr"] * change)


def add_flow(
    model: SentenceTransformer,
    first: Sequence[str],
    second: Sequence[str] | None = None,
    *,
    config: FlowConfig | None = None,
    max_length: int | None = None,
    cache_dir: str | Path | None = None,
    on_step: OnStep | None = None,
    progress: bool = False,
) -> SentenceTransformer:
    """Fit BERT-flow to an encoder's vectors and put it at the encoder's end.

    The encoder is not changed. Every different text is encoded once, and the flow trains on the vectors; only
    with `encoder_dropout` are all texts encoded in every epoch, as their vectors then differ.

    Args:
        model: The encoder. Its closing normalisation stays its end: the flow is fitted on the vectors before
            it and comes before it, which changes no cosine.
        first: First sentences of pairs, or single sentences.
        second: Second sentences of the pairs.
        config: The flow and its training; the defaults of `FlowConfig`.
        max_length: Longest input in tokens while vectors are made for the fit; None for the model's own.
        cache_dir: Keep vectors in this folder and take them from there.
        on_step: Called after every step.
        progress: Show a bar while encoding.

    Returns:
        A model that shares the encoder's modules. Save it as any other; `sentemb.load` reads the folder.

    Raises:
        InputError: The sentences do not fit each other, or nothing can be fitted on their vectors.

    Example:
        >>> model = add_flow(load("bert-mini"), texts)  # doctest: +SKIP
    """
    config = FlowConfig() if config is None else config
    if second is not None and len(second) != len(first):
        raise InputError(
            f"got {len(first)} first sentences, but {len(second)} second sentences",
            "provide both sentences of every pair",
        )
    with _bare(model, first, max_length) as bare:
        texts = [*first, *(second or ())]

        def vectors_of(epoch: int) -> npt.NDArray[np.float32]:
            seed = int(np.random.SeedSequence([config.seed, epoch]).generate_state(1)[0])
            return encode_with_dropout(bare, texts, seed=seed)

        if config.encoder_dropout:
            vectors = vectors_of(0)
        else:
            vectors = load_encoder(bare, cache_dir=cache_dir).encode(texts, progress=progress)
        flow = fit_flow(
            vectors[: len(first)],
            None if second is None else vectors[len(first) :],
            config=config,
            on_step=on_step,
            vectors_of=vectors_of if config.encoder_dropout else None,
        )
    return append_transform(model, flow)


def add_whitening(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    dimensions: int | None = None,
    max_length: int | None = None,
    cache_dir: str | Path | None = None,
    progress: bool = False,
) -> SentenceTransformer:
    """Fit whitening to an encoder's vectors and put it at the encoder's end.

    Args:
        model: The encoder, which is not changed; as for `add_flow`, like the options below.
        texts: Sentences; each counts as often as it comes.
        dimensions: Number to keep; None keeps all in which the vectors vary.
        max_length: Longest input in tokens.
        cache_dir: Cache of vectors.
        progress: Show a bar.

    Returns:
        A native model that shares the encoder's modules: plain sentence-transformers loads its folder.

    Raises:
        InputError: The vectors are too few, or vary in fewer dimensions than asked for.

    Example:
        >>> model = add_whitening(load("static-mini"), texts, dimensions=8)
        >>> model.encode(["a cat sat"]).shape
        (1, 8)
    """
    with _bare(model, texts, max_length) as bare:
        vectors = load_encoder(bare, cache_dir=cache_dir).encode(texts, progress=progress)
    return append_transform(model, fit_whitening(vectors, dimensions))


def append_transform(model: SentenceTransformer, transform: FlowModule | Dense) -> SentenceTransformer:
    """Put a fitted transform behind an encoder, before its normalisation where it ends in one.

    A model that gives unit vectors still does, for who compares them by dot products.
    """
    model = with_truncation_as_module(model)
    if model.dtype in (torch.float16, torch.bfloat16):  # the transform is fitted and applied in float32
        model = copy.deepcopy(model).float()
    bare = _without_normalisation(model)
    ending = list(model)[len(bare) :]
    wanted = transform.dimension if isinstance(transform, FlowModule) else transform.in_features
    if (given := bare.get_embedding_dimension()) != wanted:
        raise InputError(
            f"the transform expects vectors of {wanted} dimensions, but the model computes {given}",
            "fit the transform on vectors of this model",
        )
    return with_modules(model, [*bare, transform.to(model.device), *ending])


def _without_normalisation(model: SentenceTransformer) -> SentenceTransformer:
    model = with_truncation_as_module(model)
    modules = list(model)
    while modules and isinstance(modules[-1], Normalize):
        modules.pop()
    return with_modules(model, modules)


@contextmanager
def _bare(
    model: SentenceTransformer, texts: Sequence[str], max_length: int | None
) -> Iterator[SentenceTransformer]:
    """Yield a model without its normalization, which truncates inputs at `max_length` for a while."""
    if isinstance(texts, str) or not texts:
        raise InputError("the list of sentences is empty", "provide a list of sentences")
    if max_length is not None and max_length < _SHORTEST:
        raise InputError(
            f"max_length {max_length} is too short for any word", f"use {_SHORTEST} tokens or more"
        )
    bare = _without_normalisation(model)
    own = bare.max_seq_length
    if max_length is not None and (own is None or own > max_length):
        bare.max_seq_length = max_length
    try:
        yield bare
    finally:
        if bare.max_seq_length != own:
            bare.max_seq_length = own


def fit_transform(
    config: FlowRunConfig | WhiteningRunConfig, *, progress: ConsoleProgress | None = None
) -> Path:
    """Fit a transform and write the model folder, all of it or nothing."""
    refuse_several("a transform")
    output = Path(config.output)
    refuse_unusable_output(output, [], cache=config.cache_dir)
    curve: list[dict[str, float]] = []

    def note(step: int, steps: int, bits: float) -> None:
        if step == 1 and progress is not None:
            progress.begin(steps)
        if step == 1 or step % _STEPS_PER_LINE == 0 or step == steps:
            curve.append({"step": step, "bits_per_dimension": round(bits, 5)})
            if progress is not None:
                progress.advance(step)
                progress.show({"bits_per_dimension": bits}, step)

    with new_folder(output) as partial:
        model = load(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        sentences = load_sentences(config.data, config.columns, data_dir=config.data_dir)
        began = time.perf_counter()
        options: dict[str, Any] = {
            "max_length": config.max_length,
            "cache_dir": config.cache_dir,
            "progress": True,
        }
        if isinstance(config, FlowRunConfig):
            method, citation = "BERT-flow", "li-etal-2020-sentence"
            try:
                fitted = add_flow(model, *sentences, config=config.flow, on_step=note, **options)
            finally:
                if progress is not None:
                    progress.close()
            settings = {"preset": config.preset, **config.flow.values()}
        else:
            method, citation = "BERT-whitening", "su-etal-2021-whitening"
            texts = [*sentences.first, *(sentences.second or ())]
            fitted = add_whitening(model, texts, dimensions=config.dimensions, **options)
            settings = {"kept_dimensions": fitted.get_embedding_dimension()}
        data = describe_source(config.data, data_dir=config.data_dir, rows=len(sentences.first))
        record = {
            "method": method,
            "base": config.base,
            "pooling": config.pooling or "the model's own",
            "max_length": config.max_length,
            "modules": [type(module).__name__ for module in fitted],
            "dimension": fitted.get_embedding_dimension(),
            "data": data | {"pairs": sentences.second is not None},
            "settings": settings,
            "seconds": {"encode_and_fit": round(time.perf_counter() - began, 3)},
            "metrics": {"curve": curve} if curve else {},
            **describe_environment(),
        }
        kind = "sentences" if sentences.second is None else "pairs"
        rows = {
            "Pooling": record["pooling"],
            "Fitted on": f"{public_name(config.data)}, {data['rows']} {kind}",
            "Dimensions": record["dimension"],
            **{key.replace("_", " ").capitalize(): value for key, value in settings.items()},
        }
        summary = (
            f"A sentence encoder with {method} applied to its vectors; the encoder's weights are unchanged."
        )
        fitted.save(str(partial), create_model_card=False)
        write_json(partial / "run" / "record.json", record)
        write_card(
            partial / "README.md",
            lambda: render_card(config, summary, encoder_code(fitted), rows, bibtex(citation)),
        )
    return output


class Sentences(NamedTuple):
    """Sentences to fit on."""

    first: list[str]  # first sentences of pairs, or single sentences
    second: list[str] | None  # second sentences of the pairs


def load_sentences(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
) -> Sentences:
    """Load sentences or pairs."""
    base = get(source).derived_from if kind_of(source) == "entry" else None
    if base is not None and columns is None:
        parts = [load_scored_pairs(base, split=split, data_dir=data_dir) for split in get(base).splits]
        sides = ([text for part in parts for text in getattr(part, side)] for side in ("first", "second"))
        return Sentences(*sides)
    rows = load_columns(source, columns, data_dir=data_dir)
    names = rows.column_names
    if len(names) > 2:
        raise InputError(
            f"{source} has the text columns {', '.join(names)}", "select one or two of them with --columns"
        )
    return Sentences(list(rows[names[0]]), list(rows[names[1]]) if len(names) == 2 else None)
