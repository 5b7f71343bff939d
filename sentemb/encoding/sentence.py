"""The encoder over a SentenceTransformer: every unique text once, in token-sorted batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import sentence_transformers
import torch
import transformers
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import (
    Dense,
    Normalize,
    Pooling,
    Router,
    Transformer,
    WeightedLayerPooling,
    get_world_size,
    input_of_route,
)
from sentemb._threads import one_thread, one_thread_each
from sentemb.encoding.batching import TokenisedTexts, batches, same_length_batches, tokenise
from sentemb.encoding.encoder import BAGS, Precision, Role, Vectors, check_finite, unique_texts
from sentemb.encoding.fingerprint import fingerprint_of
from sentemb.encoding.linear import kernel_for, replace_linears, this_processor
from sentemb.encoding.roles import select_prompt
from sentemb.encoding.static import encode_static, is_static_model
from sentemb.encoding.tokens import Tokens
from sentemb.encoding.view import Branches, inference_view
from sentemb.modules.custom_modules import CUSTOM_MODULES

# Tokens in a batch. A CPU is fastest while the activations of a layer stay in its caches; an accelerator
# wants more.
TOKEN_BUDGET_CPU = 4096
TOKEN_BUDGET_ACCELERATOR = 32768
_PLAIN_MODULES = (Transformer, Pooling, WeightedLayerPooling, Dense, Normalize, Branches, *CUSTOM_MODULES)


class SentenceEncoder:
    """Encodes with a SentenceTransformer, to float32 rounding as its own `encode` does.

    A plain text pipeline is tokenised, sorted and batched here; any other model, and any in a distributed
    run, goes through `SentenceTransformer.encode`. On a CPU the vector of a text has the same bits whatever
    is encoded beside it, by any number of threads. The model may be in training: its mode is left as it is,
    and its weights are read at every call, unless it is frozen.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        name: str,
        precision: Precision = "float32",
        frozen: bool = False,
    ) -> None:
        self.model = model
        self.name = name
        self.role: Role | None = None  # of the texts; None takes the model's default prompt and route
        # Encoders of the roles share the layers and the fingerprint of this one.
        self._base = self
        self._of_role: dict[Role, SentenceEncoder] = {}
        # Nobody trains the model meanwhile: its fingerprint is taken and its layers are packed once.
        self._frozen = frozen
        self._view: SentenceTransformer | None = None
        self._fingerprint: str | None = None
        self._precision: Precision = precision
        self._tokens: tuple[Any, Tokens] | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of weights, tokenizer and modules, and the role where it makes a difference."""
        if self.role is not None:
            return f"{self._base.fingerprint}-{self.role}"
        if self._fingerprint is None or not self._frozen:
            self._fingerprint = fingerprint_of(self.model)
        return self._fingerprint

    @property
    def similarity(self) -> str:
        """Name of the similarity that the model was trained for."""
        return str(self.model.similarity_fn_name)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        dimension = self.model.get_embedding_dimension()
        return int(dimension) if dimension is not None else self.encode([""]).shape[1]

    @property
    def tokens(self) -> Tokens | None:
        """How many tokens of a text the model reads; None where it reads all of them."""
        module: Any = _input_module(self.model, self.role)
        tokenizer: Any = getattr(module, "tokenizer", None)
        longest = _longest(module)
        if longest is None or not hasattr(tokenizer, "num_special_tokens_to_add"):
            return None
        room = longest - int(tokenizer.num_special_tokens_to_add())
        key = (id(tokenizer), room, prompt_of(self.model, self.role))
        if self._tokens is None or self._tokens[0] != key:
            self._tokens = key, Tokens(tokenizer, room, prompt=key[2], name=self.name)
        return self._tokens[1]

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`."""
        unique, positions = unique_texts(texts)
        if not unique:
            return np.zeros((0, self.dimension), dtype=np.float32)
        if get_world_size() == 1 and is_plain_text_model(self.model, self.role):
            vectors = self._encode_plain(unique, progress=progress)
        elif get_world_size() == 1 and is_static_model(self.model):
            vectors = encode_static(self.model, unique, prompt=prompt_of(self.model, self.role))
        else:
            if self.tokens is not None:
                self.tokens.note(unique)
            with training_flags_kept(self.model):
                vectors = self.model.encode(
                    unique,
                    prompt=prompt_of(self.model, self.role),
                    task=self.role,
                    show_progress_bar=progress,
                    convert_to_numpy=True,
                )
            vectors = np.asarray(vectors, dtype=np.float32)
        vectors = vectors[positions]
        check_finite(vectors, texts, name=self.name)
        return vectors

    def for_role(self, role: Role) -> SentenceEncoder:
        """Return the encoder of queries or documents, which is one and the same where they do not differ."""
        base = self._base
        if not has_routes(self.model) and prompt_of(self.model, role) == prompt_of(self.model, None):
            return base
        if role not in base._of_role:
            own = SentenceEncoder(self.model, name=self.name, precision=self._precision, frozen=self._frozen)
            own.role, own._base = role, base
            base._of_role[role] = own
        return base._of_role[role]

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made; see `TextEncoder.describe`."""
        plain = is_plain_text_model(self.model, self.role)
        kernel = kernel_for(self.model, precision=self._precision) if plain else "stock"
        return {
            "encoder": "sentence-transformers",
            "backend": _backend(self.model, plain=plain),
            "linear_kernel": kernel,
            "linear_kernel_for": this_processor()._asdict(),
            "precision": "bfloat16 linear layers" if kernel == "packed-bfloat16" else _dtype_of(self.model),
            "precision_asked": self._precision,
            "device": str(self.model.device),
            "threads": torch.get_num_threads(),
            "max_length": _longest(_input_module(self.model, self.role)),
            "prompts": {
                "default": prompt_of(self.model, None),
                "query": prompt_of(self.model, "query"),
                "document": prompt_of(self.model, "document"),
            },
            "routes": has_routes(self.model),
            "similarity": self.similarity,
            "versions": {
                "sentence-transformers": sentence_transformers.__version__,
                "transformers": transformers.__version__,
                "torch": torch.__version__,
            },
        }

    def tokenise(self, texts: Sequence[str]) -> TokenisedTexts:
        """Tokenise texts for a plain text pipeline, with the prompt of the role; those cut are counted."""
        prompt = prompt_of(self.model, self.role)
        tokens = tokenise(self.model[0].tokenizer, [prompt + text for text in texts] if prompt else texts)
        if tokens.cut and self.tokens is not None:
            self.tokens.cut.add(texts[row] for row in tokens.cut)
        return tokens

    def ready_view(self) -> SentenceTransformer:
        """The model of a plain text pipeline in eval mode, with the linear layers that are fastest here."""
        if self._base is not self:
            return self._base.ready_view()
        if self._view is not None:
            return self._view
        view = inference_view(self.model)
        with torch.inference_mode():
            replace_linears(view, kernel_for(view, precision=self._precision))
        if self._frozen:
            self._view = view
        return view

    def _encode_plain(self, texts: list[str], *, progress: bool) -> Vectors:
        tokens, view = self.tokenise(texts), self.ready_view()
        cut = same_length_batches if view.device.type == "cpu" else batches
        parts = list(cut(tokens.lengths, token_budget=_token_budget(view.device)))

        def encode(rows: NDArray[np.intp]) -> Vectors:
            return encode_batch(view, [(tokens, rows)])

        vectors: Vectors | None = None
        with _progress_bar(len(texts), shown=progress) as advance, _mapping(view.device, len(parts)) as each:
            for indices, output in zip(parts, each(encode, parts), strict=True):
                if vectors is None:
                    vectors = np.empty((len(texts), output.shape[1]), dtype=np.float32)
                vectors[indices] = output
                advance(len(indices))
        assert vectors is not None  # there is at least one text
        return vectors


@torch.inference_mode()
def encode_batch(
    view: SentenceTransformer, parts: Sequence[tuple[TokenisedTexts, NDArray[np.intp]]]
) -> Vectors:
    """Encode some rows of tokenised texts as one batch; if they are of several, they have one length.

    Args:
        view: What `SentenceEncoder.ready_view` gives.
        parts: Tokenised texts, and which of them.

    Returns:
        float32 array of shape (rows, dimension).
    """
    made = [tokens.batch(rows) for tokens, rows in parts]
    features: dict[str, Any] = {
        key: torch.cat([batch[key] for batch in made]).to(view.device) for key in made[0]
    }
    output = view({**features, "modality": "text"})["sentence_embedding"]  # (batch, dimension)
    vectors: Vectors = output[:, : view.truncate_dim].float().cpu().numpy()
    return vectors


def is_plain_text_model(model: SentenceTransformer, role: Role | None = None) -> bool:
    """Whether a model is a text transformer with ordinary modules after it, fed by a fast tokenizer."""
    modules = list(model)
    if not modules or any(type(module) not in _PLAIN_MODULES for module in modules):
        return False
    transformer = modules[0]
    if type(transformer) is not Transformer or any(map(_has_own_forward, model.modules())):
        return False
    prompt = prompt_of(model, role)
    return (
        transformer.backend == "torch"
        and transformer.transformer_task == "feature-extraction"
        and list(transformer.modality_config) == ["text"]
        and transformer.modality_config["text"]["method"] == "forward"
        and not transformer.processing_kwargs
        and not transformer.can_flatten_inputs
        and bool(getattr(transformer.tokenizer, "is_fast", False))
        and transformer.tokenizer.pad_token_id is not None
        # Batches are padded on the right, those of one length on a CPU not at all.
        and (transformer.tokenizer.padding_side == "right" or model.device.type == "cpu")
        # Leaving the prompt's tokens out of the pooling is upstream's business.
        and (not prompt or all(getattr(module, "include_prompt", True) for module in modules))
    )


@contextmanager
def training_flags_kept(model: nn.Module) -> Iterator[None]:
    """Leave every module in its mode, whatever encoding switches off or on."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _has_own_forward(module: nn.Module) -> bool:
    # Compiled, or wrapped in autocast by accelerate: such a forward is bound to this very module, so that a
    # view of it would run the original, in training mode.
    return "forward" in vars(module) or module._compiled_call_impl is not None


def _backend(model: SentenceTransformer, *, plain: bool) -> str:
    if plain:
        return "torch, token-sorted"
    return BAGS if is_static_model(model) else "SentenceTransformer.encode"


def _dtype_of(model: nn.Module) -> str:
    parameter = next(model.parameters(), None)
    return "float32" if parameter is None else str(parameter.dtype).removeprefix("torch.")


def _longest(module: nn.Module) -> int | None:
    """The longest input in tokens; None without a limit, where upstream has infinity or 10 to the 30."""
    longest: Any = getattr(module, "max_seq_length", None)
    return None if longest is None or longest > 2**31 else int(longest)


def _input_module(model: SentenceTransformer, role: Role | None) -> nn.Module:
    """The module that tokenizes texts of a role."""
    first: nn.Module = model[0]
    return input_of_route(first, role) if isinstance(first, Router) else first


def has_routes(model: SentenceTransformer) -> bool:
    """Whether a model may have a network of its own for queries and for documents."""
    return any(isinstance(module, Router) for module in model)


def prompt_of(model: SentenceTransformer, role: Role | None) -> str:
    """Return the prompt that stands before each text of a role."""
    return select_prompt(model.prompts, model.default_prompt_name, role)


def _token_budget(device: torch.device) -> int:
    return TOKEN_BUDGET_CPU if device.type == "cpu" else TOKEN_BUDGET_ACCELERATOR


@contextmanager
def _mapping(device: torch.device, batches: int) -> Iterator[Callable[..., Iterable[Vectors]]]:
    """`map`, on a CPU with one thread for each batch: bits depend on how an operation is divided."""
    # Autocast would not reach other threads.
    if device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        yield map
    elif batches == 1 or torch.get_num_threads() == 1:
        with one_thread():
            yield map
    else:
        with one_thread_each() as workers:
            yield workers.map


@contextmanager
def _progress_bar(total: int, *, shown: bool) -> Iterator[Any]:
    if not shown:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("encoding", total=total)
        yield lambda count: bar.advance(task, count)
