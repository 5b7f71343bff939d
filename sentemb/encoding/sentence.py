"""The encoder over a SentenceTransformer: every unique text once, in token-sorted batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, get_args

import numpy as np
import sentence_transformers
import torch
import transformers
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
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
from sentemb._threads import at_most_threads, one_thread, one_thread_each
from sentemb.encoding.bert import FlatNetwork, flatten_networks
from sentemb.encoding.encoder import BAGS, Precision, Role, Vectors, check_finite, select_prompt, unique_texts
from sentemb.encoding.linear import SIZES, is_divisible, kernel_for, replace_linears, this_processor
from sentemb.encoding.rows import ReadyTexts, Rows, texts_of
from sentemb.encoding.static import encode_static, is_static_model
from sentemb.encoding.tokens import Tokens, batches, same_length_batches, tokenise
from sentemb.encoding.view import fingerprint_of, inference_view
from sentemb.modules.loading import CUSTOM_MODULES

# Tokens in a batch. A CPU is fastest while the activations of a layer stay in its caches.
TOKEN_BUDGET_CPU, TOKEN_BUDGET_ACCELERATOR = 4096, 32768
_DROPOUT_BATCH = 64
_LAST_STATES = ("last_hidden_state", ["last_hidden_state"], ("last_hidden_state",))
_PLAIN_MODULES = (Transformer, Pooling, WeightedLayerPooling, Dense, Normalize, *CUSTOM_MODULES)


class SentenceEncoder:
    """Encodes with a SentenceTransformer, to float32 rounding as its own `encode` does.

    A plain text pipeline is tokenized, sorted and batched here; any other model, and any in a distributed
    run, goes through `SentenceTransformer.encode`. The model may be in training: its mode is left as it is,
    and its weights are read at every call. Layers of a frozen one are packed, and its weights hashed, once.
    """

    def __init__(
        self, model: SentenceTransformer, *, name: str, precision: Precision = "float32", frozen: bool = False
    ) -> None:
        self.model, self.name = model, name
        self.role: Role | None = None  # of the texts; None takes the model's default prompt and route
        # Encoders of the roles share the layers and the fingerprint of this one.
        self._base = self
        self._of_role: dict[Role, SentenceEncoder] = {}
        self._frozen = frozen
        self._is_plain: bool | None = None
        self._view: SentenceTransformer | None = None
        self._divisible: dict[tuple[int, int], bool] = {}  # by tokens of a text and threads
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
    def prompt(self) -> str:
        """The prompt before each text."""
        return prompt_of(self.model, self.role)

    @property
    def is_plain(self) -> bool:
        """True if texts are tokenized and batched here."""
        if not self._frozen:
            return is_plain_text_model(self.model, self.role)
        if self._is_plain is None:
            self._is_plain = is_plain_text_model(self.model, self.role)
        return self._is_plain

    @property
    def tokens(self) -> Tokens | None:
        """Tokens of texts as the model reads them; None if it reads all of them."""
        module: Any = _input_module(self.model, self.role)
        tokenizer: Any = getattr(module, "tokenizer", None)
        longest = _longest(module)
        if longest is None or not hasattr(tokenizer, "num_special_tokens_to_add"):
            return None
        room = longest - int(tokenizer.num_special_tokens_to_add())
        key = (id(tokenizer), room, self.prompt)
        if self._tokens is None or self._tokens[0] != key:
            self._tokens = key, Tokens(tokenizer, room, prompt=self.prompt, name=self.name)
        return self._tokens[1]

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`."""
        unique, positions = unique_texts(texts)
        if not unique:
            return np.zeros((0, self.dimension), dtype=np.float32)
        if get_world_size() == 1 and self.is_plain:
            vectors = self._encode_plain(unique, progress=progress)
        elif get_world_size() == 1 and is_static_model(self.model):
            vectors, _ = encode_static(self.model, unique, prompt=self.prompt)
        else:
            if self.tokens is not None:
                self.tokens.note(unique)
            with training_flags_kept(self.model):
                options: dict[str, Any] = {"show_progress_bar": progress, "convert_to_numpy": True}
                vectors = self.model.encode(unique, prompt=self.prompt, task=self.role, **options)
            vectors = np.asarray(vectors, dtype=np.float32)
        if len(unique) < len(texts):
            vectors = vectors[positions]
        check_finite(vectors, texts, name=self.name)
        return vectors

    def for_role(self, role: Role) -> SentenceEncoder:
        """Return the encoder of queries or documents, which is the same one where they do not differ."""
        base = self._base
        if not _has_routes(self.model) and prompt_of(self.model, role) == prompt_of(self.model, None):
            return base
        if role not in base._of_role:
            own = SentenceEncoder(self.model, name=self.name, precision=self._precision, frozen=self._frozen)
            own.role, own._base = role, base
            base._of_role[role] = own
        return base._of_role[role]

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed; see `TextEncoder.describe`."""
        backend, kernel = "SentenceTransformer.encode", "stock"
        if self.is_plain:
            backend, kernel = "torch, token-sorted", kernel_for(self.model, precision=self._precision)
        elif is_static_model(self.model):
            backend = BAGS
        dtype = next((str(weight.dtype) for weight in self.model.parameters()), "float32")
        precision = "bfloat16 linear layers" if kernel == "packed-bfloat16" else dtype.removeprefix("torch.")
        return {
            "encoder": "sentence-transformers",
            "backend": backend,
            "linear_kernel": kernel,
            "linear_kernel_for": this_processor()._asdict(),
            "precision": precision,
            "precision_asked": self._precision,
            "device": str(self.model.device),
            "threads": torch.get_num_threads(),
            "max_length": _longest(_input_module(self.model, self.role)),
            "prompts": {role or "default": prompt_of(self.model, role) for role in (None, *get_args(Role))},
            "routes": _has_routes(self.model),
            "similarity": self.similarity,
            "versions": {
                "sentence-transformers": sentence_transformers.__version__,
                "transformers": transformers.__version__,
                "torch": torch.__version__,
            },
        }

    @property
    def by_length(self) -> bool:
        """True if texts of one length can be prepared and computed in any batch; see `RowEncoder`."""
        return self.is_plain or is_static_model(self.model)

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        """Tokenize texts, and count the truncated ones; encode them if that is all there is to do."""
        if not self.is_plain:
            vectors, lengths = encode_static(self.model, texts, prompt=self.prompt)
            check_finite(vectors, texts, name=self.name)
            return ReadyTexts(texts, lengths, (), vectors=vectors)
        prompt = self.prompt
        tokens = tokenise(self.model[0].tokenizer, [prompt + text for text in texts] if prompt else texts)
        if tokens.cut and self.tokens is not None:
            self.tokens.cut.add(texts[row] for row in tokens.cut)
        return ReadyTexts(texts, tokens.lengths, tokens.cut, tokens)

    def compute(self, rows: Rows) -> Vectors:
        """Encode prepared texts of one length as one batch."""
        if rows[0][0].vectors is not None:
            found: list[Any] = [(ready.vectors, places) for ready, places in rows]
            return np.concatenate([vectors[places] for vectors, places in found])
        view = self._ready_view()
        with self._threads_of(view, rows):
            vectors = _forward(view, rows)
        check_finite(vectors, texts_of(rows), name=self.name)
        return vectors

    def _ready_view(self) -> SentenceTransformer:
        """Return the model of a plain pipeline in eval mode, with the linear layers that are fastest here."""
        if self._base is not self:
            return self._base._ready_view()
        if self._view is not None:
            return self._view
        view = inference_view(self.model)
        with torch.inference_mode():
            kernel = kernel_for(view, precision=self._precision)
            if _reads_last_states(view[0]):
                flatten_networks(view, kernel, pooled=False)
            replace_linears(view, kernel)
        if self._frozen:
            self._view = view
        return view

    def _encode_plain(self, texts: list[str], *, progress: bool) -> Vectors:
        ready, view = self.prepare(texts), self._ready_view()
        if view.device.type == "cpu":
            budget = TOKEN_BUDGET_CPU
            parts = list(same_length_batches(ready.lengths, token_budget=budget, sizes=SIZES))
        else:
            parts = list(batches(ready.lengths, token_budget=TOKEN_BUDGET_ACCELERATOR))

        def encode(rows: NDArray[np.intp]) -> Vectors:
            with self._threads_of(view, [(ready, rows)]):
                return _forward(view, [(ready, rows)])

        vectors = np.empty((len(texts), 0), dtype=np.float32)
        bar = Progress(console=Console(stderr=True), transient=True) if progress else None
        task = bar.add_task("encoding", total=len(texts)) if bar else None
        with bar or nullcontext(), _mapping(view.device, len(parts)) as each:
            for rows, output in zip(parts, each(encode, parts), strict=True):
                if not vectors.size:
                    vectors = np.empty((len(texts), output.shape[1]), dtype=np.float32)
                vectors[rows] = output
                if bar is not None and task is not None:
                    bar.advance(task, len(rows))
        return vectors

    @contextmanager
    def _threads_of(self, view: SentenceTransformer, rows: Rows) -> Iterator[None]:
        """On a CPU, one thread, or several for a short text alone if its bits are the same."""
        is_free = view.device.type != "cpu" or torch.is_autocast_enabled("cpu")
        if is_free or torch.get_num_threads() == 1:
            yield
            return
        tokens = [int(length) for ready, places in rows for length in ready.lengths[places]]
        with at_most_threads(4 if torch.get_num_threads() >= 4 else 2):
            several = len(tokens) == 1 and self._is_divisible(view, tokens[0])
            with nullcontext() if several else one_thread():
                yield

    def _is_divisible(self, view: SentenceTransformer, tokens: int) -> bool:
        key = tokens, torch.get_num_threads()
        if not self._frozen or key not in self._base._divisible:
            # Other attention consists of products that torch may divide.
            network: Any = view[0].model
            is_fused = isinstance(network, FlatNetwork) or network.config._attn_implementation == "sdpa"
            self._base._divisible[key] = is_fused and is_divisible(view, tokens)
        return self._base._divisible[key]


@torch.inference_mode()
def _forward(view: SentenceTransformer, rows: Rows) -> Vectors:
    """Run prepared texts through a view as one batch, (rows, dimension)."""
    made = [ready.content.batch(places) for ready, places in rows]
    features: dict[str, Any] = {
        key: torch.cat([batch[key] for batch in made]).to(view.device) for key in made[0]
    }
    output = view({**features, "modality": "text"})["sentence_embedding"]  # (batch, dimension)
    vectors: Vectors = output[:, : view.truncate_dim].float().cpu().numpy()
    return vectors


def encode_with_dropout(model: SentenceTransformer, texts: Sequence[str], *, seed: int) -> Vectors:
    """Encode every text as in training, with dropout; model and random state are left as they are."""
    parts: list[Vectors] = []
    with training_flags_kept(model), torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        model.train()
        for first in range(0, len(texts), _DROPOUT_BATCH):
            some = list(texts[first : first + _DROPOUT_BATCH])
            features = model.preprocess(some, prompt=prompt_of(model, None) or None)
            output = model(batch_to_device(features, model.device))["sentence_embedding"]
            parts.append(output.float().cpu().numpy())
    vectors = np.concatenate(parts)
    check_finite(vectors, texts, name="the encoder with dropout")
    return vectors


def is_plain_text_model(model: SentenceTransformer, role: Role | None = None) -> bool:
    """Return whether a model is a text transformer and ordinary modules, fed by a fast tokenizer."""
    modules = list(model)
    if not modules or any(type(module) not in _PLAIN_MODULES for module in modules):
        return False
    transformer = modules[0]
    # Compiled, or wrapped in autocast by accelerate: such a forward is bound to this very module, so that a
    # view of it would run the original, in training mode.
    wrapped = any("forward" in vars(part) or part._compiled_call_impl is not None for part in model.modules())
    if type(transformer) is not Transformer or wrapped:
        return False
    return bool(
        transformer.backend == "torch"
        and transformer.transformer_task == "feature-extraction"
        and list(transformer.modality_config) == ["text"]
        and transformer.modality_config["text"]["method"] == "forward"
        and not transformer.processing_kwargs
        and not transformer.can_flatten_inputs
        and getattr(transformer.tokenizer, "is_fast", False)
        and transformer.tokenizer.pad_token_id is not None
        # Batches are padded on the right, those of one length on a CPU not at all.
        and (transformer.tokenizer.padding_side == "right" or model.device.type == "cpu")
        # Leaving the prompt's tokens out of the pooling is upstream's business.
        and (not prompt_of(model, role) or all(getattr(module, "include_prompt", True) for module in modules))
    )


@contextmanager
def training_flags_kept(model: nn.Module) -> Iterator[None]:
    """Restore the mode of every module in the end."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def prompt_of(model: SentenceTransformer, role: Role | None) -> str:
    """Return the prompt that stands before each text of a role."""
    return select_prompt(model.prompts, model.default_prompt_name, role)


def _input_module(model: SentenceTransformer, role: Role | None) -> nn.Module:
    """Return the module that tokenizes texts of a role."""
    first: nn.Module = model[0]
    return input_of_route(first, role) if isinstance(first, Router) else first


def _reads_last_states(transformer: Any) -> bool:
    """Return whether the states of the last layer are all that is read of a text's network."""
    return transformer.modality_config["text"]["method_output_name"] in _LAST_STATES


def _longest(module: nn.Module) -> int | None:
    """Return the maximum input in tokens; None without a limit, where upstream has infinity or 1e30."""
    longest: Any = getattr(module, "max_seq_length", None)
    return None if longest is None or longest > 2**31 else int(longest)


def _has_routes(model: SentenceTransformer) -> bool:
    """Return whether a model may have separate networks for queries and documents."""
    return any(isinstance(module, Router) for module in model)


@contextmanager
def _mapping(device: torch.device, batches: int) -> Iterator[Callable[..., Iterable[Vectors]]]:
    """Yield `map`, on a CPU with one thread for each batch: bits depend on how an operation is divided."""
    # Autocast would not reach other threads.
    several = batches > 1 and torch.get_num_threads() > 1
    if device.type == "cpu" and several and not torch.is_autocast_enabled("cpu"):
        with one_thread_each() as workers:
            yield workers.map
    else:
        yield map
