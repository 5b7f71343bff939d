"""Self-guided contrastive learning: the layers of a frozen copy guide the sentence vector."""

from __future__ import annotations

import copy
import hashlib
import inspect
import logging
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sentemb._compat import Normalize, Transformer
from sentemb._vectors import cosine_similarity, full_precision, unit_vectors
from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.losses.base import EncoderLoss, check_choice, check_number
from sentemb.losses.functional import EVERY, first_of, info_nce, nt_xent, own_pair, without
from sentemb.losses.views import draw_per_row, dtype_of, initialize_head, transformer_module, unwrap

logger = logging.getLogger(__name__)

Objective = Literal["base", "opt1", "opt2", "opt3"]
"""The paper's contrastive terms: `base` is SG, `opt3` is SG-OPT."""

ViewPooling = Literal["max", "mean"]
_FINGERPRINT = "frozen_encoder.sha256"
_Column = TypeVar("_Column")


class SelfGuidedLoss(EncoderLoss):
    """Self-guided contrastive loss of SG-BERT, with its four objectives (Kim, Yoo and Lee, 2021).

    BERT_F is a frozen copy of the encoder's transformer. For a sentence i, c_i is the encoder's vector, h_ik
    the pooled hidden state k of BERT_F, u_i = f(c_i) and v_ik = f(h_ik) their projections by one shared head
    f, and phi(u, v) = exp(cos(u, v) / temperature). The contrastive term is a mean over all anchors of::

        base   -log( phi(x, partner of x) / sum over the other 2b - 1 vectors )     x in {u_i} and {v_i}
        opt1   -log( phi(u_i, v_i) / (sum_{j != i} phi(u_i, u_j) + sum_j phi(u_i, v_j)) )
        opt2   -log( phi(u_i, v_i) / sum_j phi(u_i, v_j) )
        opt3   -log( phi(u_i, v_ik) / (phi(u_i, v_ik) + sum_{m != i, n} phi(u_i, v_mn)) )   for every layer k

    where base, opt1 and opt2 draw one layer per sentence in every step. The weight regulariser, the component
    `drift`, is drift_weight * |theta_T - theta_F|^2 over the transformer's trainable parameters. The
    constructor freezes the whole embedding module of the encoder, and a pooler head that the sentence vector
    does not use. A batch of one sentence has contrastive loss 0. Duplicated texts are negatives of
    each other, as in the paper.

    c_i is the encoder's vector, with any pooling. If the encoder ends with `Normalize`, the h_ik are scaled
    to length 1 too, so that both inputs of the head have the same scale.

    Inputs:
        sentence; labels: none.

    Args:
        model: The encoder to train, with its pretrained weights: they are copied here. The paper pools by
            CLS.
        objective: `base`, `opt1`, `opt2` or `opt3`; the last is the paper's best (SG-OPT, Table 5).
        temperature: Divides the cosine; 0.01 (Table 8).
        layers: Half-open range over the hidden states that serve as views, each the maximum over its tokens
            (section 3.1). 0 is the embedding output and None means through the last layer. All in the paper.
        drift_weight: lambda of the weight regulariser, 0.1 (Table 8); 0 disables it.
        projection_width: Width of the head's layers, 4096 (footnote 4). None compares the vectors themselves,
            without a head (Table 5).
        views: `cached` computes the views of a sentence once and reads them from disk afterwards, `online`
            computes them in every step; the loss is the same.
        view_cache: The store of `views="cached"`, to share it between losses; None creates one.
        gather_across_devices: Take in-batch negatives from all processes.
        preset: `released` follows the authors' code where it differs from the paper: the mean over tokens as
            view, dropout in BERT_F while training, so that nothing is cached, twice the contrastive term for
            `base`, and one negative fewer for `opt2`.

    Raises:
        InputError: An option is out of range, or the encoder is not a transformer.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls", max_length=128)
        >>> loss = SelfGuidedLoss(encoder, objective="opt3")
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=loss)

    Reference:
        Kim, Yoo and Lee: Self-Guided Contrastive Learning for BERT Sentence Representations. ACL 2021.
        https://aclanthology.org/2021.acl-long.197
    """

    references: ClassVar[tuple[str, ...]] = ("kim-etal-2021-self",)
    owned_modules: ClassVar[tuple[str, ...]] = ("head",)
    why_not_cached: ClassVar[str | None] = (
        "it compares a batch with the views of all layers of its frozen encoder, which must stay in memory "
        "for the whole batch anyway"
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        objective: Objective = "opt3",
        temperature: float = 0.01,
        layers: tuple[int, int | None] = (0, None),
        drift_weight: float = 0.1,
        projection_width: int | None = 4096,
        views: Literal["cached", "online"] = "cached",
        view_cache: ViewCache | None = None,
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(model)
        self.objective: Objective = check_choice(self, "objective", objective, get_args(Objective))
        check_choice(self, "views", views, ("cached", "online"))
        self.preset = check_choice(self, "preset", preset, ("released", None))
        self.temperature = check_number(self, "temperature", temperature, low=0)
        self.drift_weight = check_number(self, "drift_weight", drift_weight, low=0, inclusive=True)
        if projection_width is not None:
            check_number(self, "projection_width", projection_width, low=1, inclusive=True, whole=True)
        self.projection_width = projection_width
        self.gather_across_devices = gather_across_devices
        released = preset == "released"
        transformer = transformer_module(model, loss=type(self).__name__)
        # Copy before freezing: the copy must not inherit the requires_grad flags.
        self.frozen = FrozenEncoder(
            transformer.model, layers=layers, pooling="mean" if released else "max", dropout=released
        )
        self.layers = (self.frozen.layers.start, self.frozen.layers.stop)
        width = self.frozen.width
        dimension = unwrap(model).get_embedding_dimension()  # type: ignore[operator]
        if dimension != width:
            raise InputError(
                f"{type(self).__name__} projects vectors and hidden states with the same head, but the "
                f"encoder's vectors have {dimension} dimensions and its hidden states {width}",
                "build the encoder with pooling='cls' and without further layers",
            )
        self.head: nn.Sequential | None = None
        if projection_width is not None:
            weights = projection_width * (width + projection_width) / 1e6
            refuse_above("weights", weights, "projection_width of SelfGuidedLoss", "lower it")
        freeze_outside_layers(transformer)
        if projection_width is not None:
            # Two linear layers, each followed by an exact GELU (footnote 4).
            first, second = nn.Linear(width, projection_width), nn.Linear(projection_width, projection_width)
            head = initialize_head(nn.Sequential(first, nn.GELU(), second, nn.GELU()))
            self.head = head.to(transformer.model.device)
        self.view_cache: ViewCache | None = None
        if views == "cached" and not released:
            self.view_cache = ViewCache() if view_cache is None else view_cache
            if view_cache is not None:
                view_cache.bind(self.frozen)
        self.views = "online" if self.view_cache is None else "cached"

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the weighted components `contrast` and, unless its weight is 0, `drift`."""
        column = self.one_column(sentence_features)
        return self.compute_loss_from_embeddings(self._both_sides(column, column), labels)

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute the weighted components from sentence vectors c, `(b, d)`, and views h, `(b, l, d)`."""
        sentences, views = embeddings
        if self.objective != "opt3":
            views = sample_layer(views)  # (b, 1, d)
        # One pass of the head over both sides: one matrix product, and gradient from each of its rows.
        precision = sentences.dtype if self.head is None else dtype_of(self.head)
        both = torch.cat([sentences.unsqueeze(1).to(precision), views.to(precision)], dim=1)
        projected = both if self.head is None else self.head(both)  # (b, 1 + l, w)
        rows, anchors, weight = self.gather(projected)
        losses = self._contrast(rows[:, 0], rows[:, 1:], anchors)
        components = {"contrast": weight * losses.mean()}
        if self.drift_weight > 0:
            components["drift"] = self.drift_weight * self._weight_distance()
        return components

    def _contrast(self, sentences: Tensor, views: Tensor, anchors: slice) -> Tensor:
        """Compute per-anchor losses of projected sentence vectors `(n, w)` and views `(n, l, w)`."""
        released = self.preset == "released"
        options: dict[str, Any] = {"temperature": self.temperature, "anchors": anchors}
        if self.objective == "opt3":
            return opt3(sentences, views, **options)
        view = views.squeeze(1)  # (n, w)
        if self.objective == "opt2":
            return opt2(sentences, view, drop_one=released, **options)
        if self.objective == "opt1":
            return opt1(sentences, view, **options)
        losses = nt_xent(sentences, view, **options)
        return 2 * losses if released else losses  # the authors divide the sum over 2b anchors by b

    def _weight_distance(self) -> Tensor:
        # Resolved in every step: the trainer may have put another model, or a wrapped one, in place.
        references = dict(self.frozen.transformer.named_parameters())
        live = transformer_module(self.model, loss=type(self).__name__).model.named_parameters()
        trained = {name: parameter for name, parameter in live if parameter.requires_grad}
        unknown = sorted(trained.keys() - references.keys())
        if unknown:
            raise InputError(
                f"the encoder has parameters that are missing from its frozen copy, such as {unknown[0]}",
                "add adapters before you build the loss",
            )
        distance = squared_distance(list(trained.values()), [references[name] for name in trained])
        # Without trainable parameters it is 0 on the CPU, which trainers cannot stack with the other term.
        return distance.to(next(iter(references.values())).device)

    def _both_sides(self, sentences: dict[str, Any], viewed: dict[str, Any]) -> list[Tensor]:
        """Compute vectors c of one column, `(b, d)`, and views h of the same or another, `(b, l, d)`."""
        if "cu_seq_lens_q" in viewed:
            raise InputError(
                f"{type(self).__name__} needs padded batches, but this model flattens them",
                "set model[0].unpad_inputs = False",
            )
        encoder = unwrap(self.model)
        if self.frozen.dropout:
            # Trainers call train() on the model alone, and a loaded transformer starts in evaluation mode.
            self.frozen.train(encoder.training)
        # The frozen encoder first: with dropout in both, the random numbers are drawn in the authors' order.
        cache = self.view_cache
        views = self.frozen(viewed) if cache is None else cache.views(viewed, self.frozen)
        if any(isinstance(module, Normalize) for module in encoder.children()):
            views = unit_vectors(views)
        return [self.model(dict(sentences))["sentence_embedding"], views]

    def head_state(self) -> dict[str, Tensor]:
        """Return the head's weights and the checksum of the frozen encoder used to train them."""
        return {**super().head_state(), _FINGERPRINT: fingerprint(self.frozen.transformer)}

    def load_head_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `head_state` returned; raise InputError if the frozen encoder differs."""
        weights = dict(state)
        saved = weights.pop(_FINGERPRINT, None)
        if saved is not None and not torch.equal(saved.cpu(), fingerprint(self.frozen.transformer)):
            raise InputError(
                "the saved head was trained with another frozen encoder",
                "build the loss on the base model of the interrupted run, then load the checkpoint",
            )
        super().load_head_state(weights)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card."""
        options = super().get_config_dict()
        options.pop("view_cache", None)  # a subclass may not have it
        return options

    def columns_of_views(self, columns: Sequence[_Column]) -> Sequence[_Column]:
        """Return the text columns that BERT_F reads, whose views can be cached."""
        return columns


def opt1(sentences: Tensor, views: Tensor, *, temperature: float, anchors: slice = EVERY) -> Tensor:
    """L_opt1 of SG-BERT, `(a,)`: sentence vectors u are the only anchors, with one view v of each.

    Negatives are the other sentences' vectors and views.
    """
    own = own_pair(len(sentences), anchors, sentences.device)  # (a, n)
    logits = cosine_similarity(sentences[anchors], torch.cat([sentences, views])) / temperature  # (a, 2n)
    itself = torch.cat([own, torch.zeros_like(own)], dim=1)  # (a, 2n)
    positives = logits.diagonal(len(sentences) + first_of(anchors))  # (a,)
    return torch.logsumexp(without(logits, itself), dim=1) - positives


def opt2(
    sentences: Tensor, views: Tensor, *, temperature: float, drop_one: bool = False, anchors: slice = EVERY
) -> Tensor:
    """L_opt2 of SG-BERT, `(a,)`: negatives are the other sentences' views only.

    `drop_one` skips one negative per anchor, as the authors' code does: view 1 for anchor 0, and view 0 for
    all other anchors.
    """
    if not drop_one or len(sentences) < 2:
        return info_nce(sentences, views, temperature=temperature, anchors=anchors)
    own = own_pair(len(sentences), anchors, sentences.device)  # (a, n)
    logits = cosine_similarity(sentences[anchors], views) / temperature  # (a, n)
    dropped = torch.zeros_like(own)
    dropped[:, 0] = ~own[:, 0]
    dropped[:, 1] = own[:, 0]
    return torch.logsumexp(without(logits, dropped), dim=1) - logits.diagonal(first_of(anchors))


def opt3(sentences: Tensor, views: Tensor, *, temperature: float, anchors: slice = EVERY) -> Tensor:
    """L_opt3 of SG-BERT, the objective of SG-OPT: each of a sentence's views `(n, l, d)` is a positive once.

    Negatives are all views of all other sentences; the other views of the same sentence are ignored. All
    positives of an anchor share their negatives, so one `(a, n * l)` similarity matrix is enough. Returns the
    loss of each anchor with each of its views, `(a, l)`.
    """
    own = own_pair(len(sentences), anchors, sentences.device)  # (a, n)
    logits = cosine_similarity(sentences[anchors], views.flatten(0, 1)) / temperature  # (a, n * l)
    logits = logits.view(len(logits), *views.shape[:2])  # (a, n, l)
    positives = logits.diagonal(first_of(anchors)).T  # (a, l)
    negatives = torch.logsumexp(without(logits, own.unsqueeze(2)).flatten(1), dim=1, keepdim=True)  # (a, 1)
    losses: Tensor = torch.logaddexp(positives, negatives) - positives
    return losses


def sample_layer(views: Tensor) -> Tensor:
    """Draw one layer per sentence, uniformly and independently; `(b, l, d)` to `(b, 1, d)`."""
    layer = draw_per_row(views, high=views.shape[1]).view(-1, 1, 1).to(views.device)  # (b, 1, 1)
    return views.gather(1, layer.expand(-1, 1, views.shape[2]))


class FrozenEncoder(nn.Module):
    """BERT_F: a copy of the transformer that never trains and pools each of its layers into a view.

    Without `dropout` it stays in evaluation mode even if `train()` is called on it or on the loss that holds
    it, so its views depend on the text alone. The copy is a plain transformers model: the trainer would
    replace a SentenceTransformer with the model in training.
    """

    def __init__(
        self,
        transformer: nn.Module,
        *,
        layers: tuple[int, int | None] = (0, None),
        pooling: ViewPooling = "max",
        dropout: bool = False,
    ) -> None:
        super().__init__()
        config = transformer.config.get_text_config()  # type: ignore[union-attr, operator]
        self.width = int(config.hidden_size)  # of the hidden states
        states = int(config.num_hidden_layers) + 1
        self.layers = range(0)
        if isinstance(layers, list | tuple) and len(layers) == 2:
            start, end = layers[0], states if layers[1] is None else layers[1]
            if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= states:
                self.layers = range(start, end)
        if not self.layers:
            raise InputError(
                f"layers {layers!r} are outside the hidden states 0 to {states - 1} of this encoder",
                f"set layers to (first, end) with 0 <= first < end <= {states}",
            )
        self.pooling: ViewPooling = pooling
        self.dropout = dropout
        self.transformer = copy.deepcopy(transformer).requires_grad_(False)
        self._inputs = frozenset(inspect.signature(transformer.forward).parameters)
        self.train(transformer.training)

    def train(self, mode: bool = True) -> FrozenEncoder:
        """Stay in evaluation mode, unless built with `dropout=True`."""
        super().train(mode and self.dropout)
        return self

    @torch.no_grad()
    def forward(self, features: dict[str, Any]) -> Tensor:
        """Compute the views of a batch."""
        inputs = {name: value for name, value in features.items() if name in self._inputs}
        # Views are computed in the encoder's own precision, so that cached and fresh views agree.
        with torch.autocast(features["input_ids"].device.type, enabled=False):
            output = self.transformer(**inputs, output_hidden_states=True, return_dict=True)
        mask = features["attention_mask"]  # (b, t)
        pooled = [pool_tokens(output.hidden_states[k], mask, pooling=self.pooling) for k in self.layers]
        return torch.stack(pooled, dim=1)  # (b, l, d)


def pool_tokens(hidden: Tensor, mask: Tensor, *, pooling: ViewPooling) -> Tensor:
    """Pool `(n, t, d)` over every position whose mask is 1: `[CLS]` and `[SEP]` count and padding does not.

    Returns `(n, d)` in float32, or in float64 if `hidden` is float64; rows without tokens are zero.
    """
    hidden = full_precision(hidden)
    attended = mask.bool().unsqueeze(2)  # (n, t, 1)
    if pooling == "mean":
        return hidden.masked_fill(~attended, 0).sum(1) / attended.sum(1).clamp_min(1)  # (n, d)
    pooled = hidden.masked_fill(~attended, -torch.inf).amax(1)  # (n, d)
    return pooled.masked_fill(~attended.any(1), 0)


def fingerprint(module: nn.Module) -> Tensor:
    """Compute a checksum of all parameters and buffers that hidden states depend on.

    A pooler is skipped because hidden states do not depend on it. If a checkpoint lacks a pooler, its weights
    are random, and runs with different seeds would appear to have different frozen encoders.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if name.startswith("pooler."):
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)


def embeddings_module(transformer: nn.Module) -> nn.Module:
    """Return the whole embedding module of a transformer, including its LayerNorm.

    BERT, RoBERTa, MPNet, DistilBERT, ELECTRA, ALBERT, DeBERTa and ModernBERT keep token, position and segment
    tables and the LayerNorm in a module called `embeddings`. Elsewhere the token table alone is returned.
    """
    table: nn.Module = transformer.get_input_embeddings()  # type: ignore[operator]
    for name, module in transformer.named_modules():
        if name.rsplit(".", 1)[-1] == "embeddings" and any(child is table for child in module.modules()):
            embeddings: nn.Module = module
            return embeddings
    return table


def freeze_outside_layers(module: Transformer) -> None:
    """Freeze the embeddings, and a pooler head that the sentence vector does not use.

    The pooler gets no gradient from the sentence vector, and DDP rejects a gradient that the weight
    regulariser alone would send it. An existing optimiser skips parameters without a gradient.
    """
    frozen = [embeddings_module(module.model)]
    pooler = getattr(module.model, "pooler", None)
    if pooler is not None and module.module_output_name == "token_embeddings":
        frozen.append(pooler)
    for part in frozen:
        for parameter in part.parameters():
            parameter.requires_grad_(False)
            parameter.grad = None


class ViewCache:
    """A cache of views on disk with a size limit, keyed by token ids.

    The views are kept in an unnamed temporary file that the system removes with the process; memory holds 16
    bytes and a row number per sentence. Sentences beyond the limit, or after the disk is full, are computed
    every time, so the cache affects only the speed. Several losses with the same frozen encoder, layers and
    pooling can share a cache, for example the runs of several seeds.

    Args:
        max_bytes: Maximum number of bytes on disk. The 13 views of a 12-layer encoder of width 768 take 40 kB
            per sentence.

    Example:
        >>> cache = ViewCache(max_bytes=2 << 30)
        >>> losses = [SelfGuidedLoss(copy.deepcopy(encoder), view_cache=cache) for seed in (1, 2, 3)]
    """

    def __init__(self, *, max_bytes: int = 4 << 30) -> None:
        if max_bytes < 1:
            raise InputError(f"max_bytes of ViewCache is {max_bytes}", "set it to a positive number of bytes")
        self.max_bytes = max_bytes
        self.full = False
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives with the cache
        weakref.finalize(self, self._file.close)
        self._rows: dict[bytes, int] = {}
        self._owner: str | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def bind(self, encoder: FrozenEncoder) -> None:
        """Bind the cache to an encoder, layer range and pooling; raise InputError if it has others."""
        checksum = bytes(fingerprint(encoder.transformer).tolist()).hex()
        owner = f"{checksum} {encoder.layers} {encoder.pooling}"
        if self._owner not in (None, owner):
            raise InputError(
                "this ViewCache contains the views of another encoder, layer range or pooling",
                "use a separate cache for each combination",
            )
        self._owner = owner

    def views(self, features: dict[str, Any], compute: Callable[[dict[str, Any]], Tensor]) -> Tensor:
        """Return the views of a batch, `(b, l, d)`, and compute those that are not cached."""
        keys = batch_keys(features)
        first_row: dict[bytes, int] = {}  # of each sentence that is not cached: duplicates are computed once
        for row, key in enumerate(keys):
            if key not in self._rows:
                first_row.setdefault(key, row)
        fresh: dict[bytes, NDArray[Any]] = {}
        if first_row:
            computed = compute(_select(features, list(first_row.values())))  # (misses, l, d)
            fresh = dict(zip(first_row, np.ascontiguousarray(computed.cpu().numpy()), strict=True))
            self._shape, self._dtype = computed.shape[1:], fresh[next(iter(fresh))].dtype
        views = np.empty((len(keys), *self._shape), dtype=self._dtype)  # (b, l, d)
        for view, key in zip(views, keys, strict=True):
            if key in fresh:
                view[:] = fresh[key]
            else:
                self._file.seek(self._rows[key] * view.nbytes)
                self._file.readinto(view)
        self._store(fresh)
        return torch.from_numpy(views).to(features["input_ids"].device)

    def _store(self, fresh: Mapping[bytes, NDArray[Any]]) -> None:
        for key, view in fresh.items():
            if self.full:
                return
            reason = ""
            try:
                if (len(self) + 1) * view.nbytes > self.max_bytes:
                    reason = f"its limit of {self.max_bytes:,} bytes is reached"
                else:
                    self._file.seek(len(self) * view.nbytes)
                    reason = "" if self._file.write(view.data) == view.nbytes else "the disk is full"
            except OSError as error:
                reason = str(error)
            if not reason:
                self._rows[key] = len(self)
                continue
            self.full = True
            logger.warning(
                "the view cache is full after %d sentences: %s. Views of further sentences are computed "
                "in every step. To cache them too, set TMPDIR to another folder, or a higher max_bytes on "
                "the ViewCache.",
                len(self),
                reason,
            )


def batch_keys(features: dict[str, Any]) -> list[bytes]:
    """Return one key per sentence, from its tokens without padding."""
    mask = features["attention_mask"].cpu().numpy().astype(bool)  # (b, t)
    # The mask itself and the segment ids are part of the key: they change what the encoder computes.
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in features]
    tables = [np.ascontiguousarray(features[name].cpu().numpy()) for name in names]
    ends = mask.shape[1] - np.argmax(mask[:, ::-1], axis=1)  # one past the last token
    keys = []
    for row, end in enumerate(ends):
        digest = hashlib.blake2b(digest_size=16)
        for table in tables:
            digest.update(table[row, :end].tobytes())
        keys.append(digest.digest())
    return keys


def _select(features: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """Select rows of a batch, without the padding columns that only the other rows need."""
    size = features["input_ids"].shape
    mask = features["attention_mask"][rows]  # (rows, t)
    width = int(mask.any(0).nonzero().max()) + 1
    selected = {}
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape[:1] == size[:1]:
            value = value[rows]
            if value.shape[1:2] == size[1:2]:
                value = value[:, :width]
        selected[name] = value
    return selected


def squared_distance(parameters: Sequence[Tensor], references: Sequence[Tensor]) -> Tensor:
    """Compute L_reg of SG-BERT: the sum of `(theta_T - theta_F)^2`, not its mean or root (footnote 5).

    The gradient `2 (theta_T - theta_F)` is implemented directly instead of by autograd, so a difference of
    the size of the model is not kept between forward and backward. It passes through the parameters' own
    autograd nodes, so gradient accumulation, loss scaling and DDP treat it like any other gradient. At
    `theta_T = theta_F` it is exactly zero.
    """
    if not parameters:
        return torch.zeros(())
    apply: Callable[..., Tensor] = _SquaredDistance.apply
    return apply(tuple(references), *parameters)


class _SquaredDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, references: tuple[Tensor, ...], *parameters: Tensor) -> Tensor:
        ctx.references = references
        ctx.save_for_backward(*parameters)  # references to the parameters, not copies
        # Parameter by parameter: the peak is one difference, not one model.
        parts = []
        for parameter, reference in zip(parameters, references, strict=True):
            difference = _difference(parameter, reference).flatten()
            parts.append(torch.dot(difference, difference))
        return torch.stack(parts).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        factor = 2 * upstream[0]
        gradients: list[Tensor | None] = [None]
        for parameter, reference in zip(ctx.saved_tensors, ctx.references, strict=True):
            gradients.append(_difference(parameter, reference).mul_(factor).to(parameter.dtype))
        return tuple(gradients)


def _difference(parameter: Tensor, reference: Tensor) -> Tensor:
    return full_precision(parameter) - full_precision(reference)
