"""The encoder of a run: its weights, its length, its routes, and its training in upstream's words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from tokenizers import Tokenizer

from sentemb._compat import Router
from sentemb.encoding.encoder import Role
from sentemb.encoding.tokens import Tokens
from sentemb.encoding.view import with_truncation_as_module
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.loading import longest_input, shortest_input
from sentemb.training.config import EncoderConfig
from sentemb.training.ranks import process_state
from sentemb.training.recipes import RECIPES

logger = logging.getLogger(__name__)

_LOGS_PER_EVALUATION = 5
_KEPT_CHECKPOINTS = 2
_ROWS_MEASURED = 5000
"""Rows of which it is counted how many texts are truncated; tokenizing these takes a second."""


def load_trainable(config: Any) -> SentenceTransformer:
    """Load the base in float32, whatever it is stored in: fewer bits would round small steps away."""
    if (processes := process_state().num_processes) > config.batch_size:
        raise InputError(
            f"batch_size {config.batch_size} is too small for {processes} processes",
            "raise --batch-size or start fewer processes",
        )
    slow = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
    if config.precision == "bfloat16" and slow and not torch.accelerator.is_available():
        logger.warning(
            "this CPU does not have bfloat16 instructions: training with --precision float32 is several "
            "times faster"
        )
    model = load(config.base, pooling=config.pooling)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(
            f"{config.base} does not have trainable weights ({type(model[0]).__name__})",
            "use a transformer or a static model; to train word vectors, set update_embeddings in "
            "their wordembedding_config.json",
        )
    return with_truncation_as_module(model.float())


def fitting_length(config: Any, model: SentenceTransformer) -> int | None:
    """Return the longest training input in tokens; None where a model has no limit and none is set."""
    longest = longest_input(model)
    chosen: int | None = config.max_length
    if chosen is None or longest is None:
        return longest if chosen is None else chosen
    if chosen < (shortest := shortest_input(model)):
        raise InputError(f"max_length {chosen} leaves no room for a text", f"set it to {shortest} or more")
    default = type(config).model_fields["max_length"].default
    if recipe := RECIPES.get(config.recipe):
        default = recipe.values(config.preset).get("max_length")
    if longest < chosen != default:
        logger.warning("max_length %d is above the limit of the model; %d is used", chosen, longest)
    return min(chosen, longest)


def routes_of(
    base: str, model: SentenceTransformer, columns: Sequence[str], role_of: Callable[[str], Role | None]
) -> dict[str, str]:
    """Return the route of each text column through the model's Router, if it has one."""
    router: Any = model[0]
    if not isinstance(router, Router) or not columns:
        return {}
    usual = dict.fromkeys(columns, router.default_route)
    if router.default_route is None:
        if len(usual) == 1 or not {"query", "document"} <= set(router.sub_modules):
            raise InputError(
                f"the Router of {base} has the routes {', '.join(router.sub_modules)} but no default_route",
                "set default_route in its router_config.json, or train on pairs of query and document",
            )
        # Queries come first, as losses have them.
        usual = dict(zip(usual, ["query", *["document"] * (len(usual) - 1)], strict=True))
    return {name: role_of(name) or route for name, route in usual.items()}


def truncation_notice(
    config: EncoderConfig,
    model: SentenceTransformer,
    rows: Dataset | None,
    prompts: Mapping[str, str],
    max_length: int | None,
) -> str | None:
    """Return a notice of how many texts of rows, with the prompt of each text column, are truncated."""
    tokenizer: Any = model.tokenizer
    # A static encoder's bare tokenizer never truncates.
    bare = isinstance(tokenizer, Tokenizer) or not hasattr(tokenizer, "num_special_tokens_to_add")
    if bare or max_length is None or rows is None:
        return None
    kind = "training"
    if len(rows) > _ROWS_MEASURED:
        kind, drawn = "drawn", np.random.default_rng(0).choice(len(rows), _ROWS_MEASURED, replace=False)
        rows = rows.select(np.sort(drawn))
    room = max_length - tokenizer.num_special_tokens_to_add()
    count = truncated = 0
    for name, prompt in prompts.items():
        tokens = Tokens(tokenizer, room, prompt=prompt)
        texts = [text for text in rows[name] if isinstance(text, str)]  # no pairs
        count += len(texts)
        truncated += int((tokens.lengths(texts) > tokens.room).sum())
    if not truncated:
        return None
    among = f"{truncated:,} of {count:,} {kind} texts are"
    if config.max_length is None:
        return f"{among} truncated to {room} tokens, the limit of the encoder"
    return (
        f"{among} longer than {room} tokens (--max-length {max_length}) and are truncated; raise "
        "--max-length to use more of them"
    )


def training_arguments(
    config: Any,
    checkpoints: Path,
    *,
    eval_steps: int,
    metric: str | None,
    eval_on_start: bool,
    prompts: dict[str, str],
    routes: dict[str, str],
) -> SentenceTransformerTrainingArguments:
    """Return a configuration in upstream's words."""
    warm = "constant_with_warmup" if config.warmup else "constant"
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
        per_device_train_batch_size=-(-config.batch_size // process_state().num_processes),
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        adam_beta1=config.betas[0],
        adam_beta2=config.betas[1],
        adam_epsilon=config.epsilon,
        # One kernel for all weights: on a small encoder the projection head is most of a step.
        optim="adamw_torch_fused",
        lr_scheduler_type="linear" if config.schedule == "linear" else warm,
        warmup_steps=config.warmup,
        max_grad_norm=config.clip,
        bf16=config.precision == "bfloat16",
        use_cpu=not torch.accelerator.is_available(),
        eval_strategy="no" if metric is None else "steps",
        eval_steps=eval_steps,
        eval_on_start=metric is not None and eval_on_start,
        metric_for_best_model=metric,
        greater_is_better=True,
        save_strategy="steps",
        save_steps=eval_steps,
        # With a limit of 1 upstream removes the newest checkpoint when an interrupted run ends.
        save_total_limit=_KEPT_CHECKPOINTS,
        logging_steps=max(1, eval_steps // _LOGS_PER_EVALUATION),
        seed=config.seeds[0],
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
        prompts=prompts,
        router_mapping=routes,
        # With several processes, upstream warns that it drops the last batch, unless this is set.
        dataloader_drop_last=True,
    )
    arguments.dataloader_drop_last = False
    return arguments
