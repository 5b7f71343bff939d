"""From an encoder and sentences to a model that ends in a fitted transform."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from sentemb._compat import Dense, Normalize
from sentemb.encoding import load_encoder
from sentemb.encoding.sentence import encode_with_dropout
from sentemb.encoding.view import with_modules, with_truncation_as_module
from sentemb.errors import InputError
from sentemb.modules.flow import FlowModule
from sentemb.training.config import FlowConfig
from sentemb.transforms.flow import OnStep, fit_flow, fit_flow_to_epochs
from sentemb.transforms.whitening import fit_whitening

_SHORTEST = 3  # a word between [CLS] and [SEP]


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
    texts = [*first, *(second or ())]
    bare = _bare(model, texts)
    with _limited_to(bare, max_length):
        if config.encoder_dropout:

            def pairs_of_epoch(epoch: int) -> tuple[Tensor, Tensor | None]:
                seed = int(np.random.SeedSequence([config.seed, epoch]).generate_state(1)[0])
                noisy = encode_with_dropout(bare, texts, seed=seed)
                sides = torch.split(torch.from_numpy(noisy), len(first))
                return sides[0], None if second is None else sides[1]

            flow = fit_flow_to_epochs(pairs_of_epoch, config, on_step=on_step)
        else:
            vectors = load_encoder(bare, cache_dir=cache_dir).encode(texts, progress=progress)
            others = None if second is None else vectors[len(first) :]
            flow = fit_flow(vectors[: len(first)], others, config=config, on_step=on_step)
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
    bare = _bare(model, texts)
    with _limited_to(bare, max_length):
        vectors = load_encoder(bare, cache_dir=cache_dir).encode(texts, progress=progress)
    return append_transform(model, fit_whitening(vectors, dimensions))


def append_transform(model: SentenceTransformer, transform: FlowModule | Dense) -> SentenceTransformer:
    """Put a fitted transform behind an encoder, before its normalisation where it ends in one.

    A model that gives unit vectors still does, for who compares them by dot products. A transform that
    was fitted on normalised vectors does not fit there: fit it on those before the normalisation.

    Args:
        model: The encoder.
        transform: What `fit_flow` or `fit_whitening` gave.

    Returns:
        A model that shares the encoder's modules.

    Raises:
        InputError: The transform is for vectors of another length.

    Example:
        >>> model = append_transform(model, fit_whitening(model.encode(texts)))  # doctest: +SKIP
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


def _bare(model: SentenceTransformer, texts: Sequence[str]) -> SentenceTransformer:
    if isinstance(texts, str) or not texts:
        raise InputError("the list of sentences is empty", "provide a list of sentences")
    return _without_normalisation(model)


@contextmanager
def _limited_to(model: SentenceTransformer, max_length: int | None) -> Iterator[None]:
    """Cut inputs at `max_length` for a while, where the model takes more."""
    own = model.max_seq_length
    if max_length is not None and max_length < _SHORTEST:
        raise InputError(
            f"max_length {max_length} is too short for any word", f"use {_SHORTEST} tokens or more"
        )
    if max_length is None or (own is not None and own <= max_length):
        yield
        return
    model.max_seq_length = max_length
    try:
        yield
    finally:
        model.max_seq_length = own
