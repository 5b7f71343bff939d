"""The trainer: sentence-transformers' own, with loss-owned weights and exact resumption."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from accelerate.data_loader import prepare_data_loader
from datasets import Dataset, DatasetDict
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.util import batch_to_device
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers.trainer import TRAINER_STATE_NAME

from sentemb._compat import get_world_size
from sentemb.errors import InputError
from sentemb.losses import LossParameters, SelfGuidedLoss
from sentemb.training.checkpoints import check_checkpoint, save_checkpoint
from sentemb.training.ranks import collate_share, process_state

HEAD_FILE = "loss_weights.safetensors"
_PART_PRICE = 50
"""What one more part of a batch costs, in tokens; measured with a BERT of 6 x 256 on a CPU."""
_ROWS = 64
_WINDOW = 64 * _ROWS
_IDLE_BATCHES = 8


class SentembTrainer(SentenceTransformerTrainer):
    """A `SentenceTransformerTrainer` that treats the weights of a loss like the model's and resumes exactly.

    It takes the same arguments, and a few by name. What differs:

    * Weights that a loss owns (`sentemb.losses.LossParameters`, or the trainable ones of any other loss)
      are in every checkpoint, come back on resumption and with `load_best_model_at_end`, are averaged over
      the ranks and count in `max_grad_norm`.
    * Views of a frozen encoder that a loss caches are computed before the first step, in the order of the
      data, so that they are the same after an interruption.
    * A checkpoint appears under its name only when it is complete.
    * With `eval_on_start`, the score before the first step is the first candidate for the best checkpoint,
      which is kept as `checkpoint-0`.
    * Several ranks share every batch, so that they take the steps of one process with the whole batch. A run
      can be resumed on any number of them, as long as the whole batch is the same.
    * A loss that is not finite, or a best checkpoint that cannot be loaded, is an error, not a log line.

    One process or DDP; sharded training (FSDP, DeepSpeed) and pushing checkpoints to the hub are refused.

    Args:
        *args: Arguments of `SentenceTransformerTrainer`.
        rows_of_step: Rows of a batch of all ranks together. By default `per_device_train_batch_size` times
            the ranks.
        card: Collect what upstream's model card says about the training.
        **kwargs: Arguments of `SentenceTransformerTrainer`.

    Example:
        >>> trainer = SentembTrainer(model, arguments, train_dataset=sentences, loss=loss)  # doctest: +SKIP
        >>> trainer.train(resume_from_checkpoint=True)  # doctest: +SKIP
    """

    def __init__(self, *args: Any, rows_of_step: int | None = None, card: bool = True, **kwargs: Any) -> None:
        self._card = card
        super().__init__(*args, **kwargs)
        self.rows_of_step = rows_of_step or int(self.args.train_batch_size * self.args.world_size)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise InputError(
                "SentembTrainer does not support sharded weights", "train with a single process or with DDP"
            )
        # The filter replaces NaN by the average of earlier losses, so that no log ever shows it.
        self.args.logging_nan_inf_filter = False

    @property
    def owned(self) -> LossWeights:
        """The weights that the loss owns."""
        return LossWeights(self.loss, self.model)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return this rank's part of the batches of one process."""
        rows, ranks = self.train_dataset, self.args.world_size
        if ranks == 1 or not isinstance(rows, (Dataset, DatasetDict)):
            alone: DataLoader[Any] = super().get_train_dataloader()
            return alone
        if self.rows_of_step < ranks:
            raise InputError(
                f"a batch of {self.rows_of_step} rows cannot be divided among {ranks} processes",
                "raise the batch size or start fewer processes",
            )
        # The last batch of an epoch is skipped if it has fewer rows than ranks.
        sets = rows.values() if isinstance(rows, DatasetDict) else [rows]
        if any(0 < len(one) % self.rows_of_step < ranks for one in sets):
            self.args.dataloader_drop_last = True
        whole = self._build_dataloader(rows, self.rows_of_step, dataset_kind="train")
        # All ranks together see what one process sees, in the same steps; sizes differ by one row at most.
        whole.collate_fn = partial(collate_share, whole.collate_fn, self.args.process_index, ranks)
        # For one process, so that the order is a function of seed and epoch.
        shared: DataLoader[Any] = prepare_data_loader(
            whole,
            self.accelerator.device,
            num_processes=1,
            process_index=0,
            put_on_device=True,
            use_seedable_sampler=True,
        )
        self._train_dataloader = shared
        return shared

    def init_hf_repo(self, token: str | None = None) -> None:
        """Refuse to push checkpoints: upstream adds a pickle to each."""
        raise InputError(
            "push_to_hub is not supported during training because it uploads pickle files",
            "push the finished model with model.push_to_hub",
        )

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Collect what upstream's card says, unless a run has its own."""
        if self._card:
            super().add_model_card_callback(default_args_dict)

    def override_model_in_loss(self, loss: nn.Module, model: nn.Module) -> nn.Module:
        """Put upstream's wrapper of the model into the loss, unless the loss runs the model in parts."""
        if isinstance(getattr(loss, "model", None), LengthBucketedEncoder):
            return loss
        changed: nn.Module = super().override_model_in_loss(loss, model)
        return changed

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._prepare_for_training(*args, **kwargs)
        for parameter in self.owned.parameters() if self.args.world_size > 1 else ():
            torch.distributed.broadcast(parameter.data, src=0)
        losses = self.loss.values() if isinstance(self.loss, dict) else [self.loss]
        modules = [module for loss in losses for module in loss.modules()]
        fill_view_caches(
            modules, self.train_dataset, lambda rows: self.collect_features(self.data_collator(rows))[0]
        )
        return prepared

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True) -> Any:
        """Mixed precision for the whole loss: accelerate's own ends with the model's forward."""
        return self.accelerator.autocast()

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Take a forward and backward pass; after the last of an accumulation, average gradients."""
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        # Statistics of a loss are logged like its components, but do not contribute to its value.
        if statistics := getattr(self.loss, "statistics", None):
            self.track_loss_components(statistics)
        # DDP averages what passes through its forward, which loss-owned weights do not.
        if self.accelerator.sync_gradients and self.args.world_size > 1:
            self.owned.average_gradients()
        return loss

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        parameters = [*model.parameters(), *self.owned.parameters()]
        norm: Tensor = self.accelerator.clip_grad_norm_(parameters, self.args.max_grad_norm)
        return norm

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, and stop a run whose loss, or a part of it, is not finite."""
        super().log(logs, start_time)
        check_finite(logs, step=self.state.global_step)

    def _evaluate(
        self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False
    ) -> dict[str, float]:
        metrics: dict[str, float] = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)
        if self.state.global_step == 0:
            # Upstream compares only later scores, so a run that never beats its base model would not notice.
            self._determine_best_metric(metrics, trial)
            if self.args.save_strategy != "no":
                self._save_checkpoint(self.model, trial)
        return metrics

    def save_weights(self, folder: Path) -> None:
        """Write the weights of the model and of the loss, and what the evaluator keeps of its calls."""
        self.model.save_pretrained(str(folder), create_model_card=False)
        if head := self.owned.state():
            save_file(head, folder / HEAD_FILE)
        if hasattr(self.evaluator, "save_state"):
            self.evaluator.save_state(folder, best=self.state.best_global_step, last=self.state.global_step)

    def restore(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint."""
        check_checkpoint(checkpoint)
        self._load_from_checkpoint(str(checkpoint))

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        save_checkpoint(self)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        self.model.save_pretrained(str(folder))
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        checkpoint = Path(resume_from_checkpoint)
        if not (checkpoint / TRAINER_STATE_NAME).is_file():
            raise InputError(
                f"{checkpoint} is not a checkpoint", "specify a checkpoint-N folder of a training run"
            )
        super()._load_from_checkpoint(resume_from_checkpoint)
        head = checkpoint / HEAD_FILE
        self.owned.load(load_file(head) if head.exists() else {})
        if hasattr(self.evaluator, "load_state"):
            self.evaluator.load_state(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        # Of a run on another number of ranks, a new rank takes the generators of the first one.
        own = f"rng_state_{self.args.process_index}.pth" if self.args.world_size > 1 else "rng_state.pth"
        stored = [Path(checkpoint) / name for name in (own, "rng_state.pth", "rng_state_0.pth")]
        present = [path for path in stored if path.exists()]
        if present and present[0] != stored[0]:
            shutil.copy(present[0], stored[0])
        super()._load_rng_state(checkpoint)

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))
        self.model.model_card_data.set_best_model_step(self.state.best_global_step)


class LossWeights:
    """All weights that a loss, or a dict of losses, owns; sentence-transformers only optimizes them.

    A loss names them through `LossParameters`. For any other loss, such as upstream's SoftmaxLoss, they are
    the trainable parameters that do not belong to the model.
    """

    def __init__(self, loss: nn.Module | Mapping[str, nn.Module], model: nn.Module) -> None:
        losses = loss if isinstance(loss, Mapping) else {"": loss}
        modules = _unique(
            (_joined(prefix, path), module)
            for prefix, one in losses.items()
            for path, module in one.named_modules()
            if isinstance(module, LossParameters)
        )
        self._modules: dict[str, Any] = modules
        known = {id(parameter) for parameter in model.parameters()}
        known |= {id(parameter) for one in modules.values() for parameter in one.owned_parameters()}
        self._others: dict[str, nn.Parameter] = _unique(
            (_joined(prefix, name), parameter)
            for prefix, one in losses.items()
            for name, parameter in one.named_parameters()
            if parameter.requires_grad and id(parameter) not in known
        )

    def parameters(self) -> list[nn.Parameter]:
        """Return the trainable weights, each once, in a fixed order."""
        owned = [p for module in self._modules.values() for p in module.owned_parameters() if p.requires_grad]
        return list({id(p): p for p in [*owned, *self._others.values()]}.values())

    def state(self) -> dict[str, Tensor]:
        """Return copies of all owned weights and buffers by name."""
        tensors = {
            _joined(path, name): tensor
            for path, module in self._modules.items()
            for name, tensor in module.head_state().items()
        } | self._others
        return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state` returned."""
        if odd := sorted(state.keys() ^ self.state().keys()):
            raise InputError(
                f"the checkpoint was saved with another loss; these weights do not match: {', '.join(odd)}",
                "resume with the same loss and options",
            )
        for path, module in self._modules.items():
            module.load_head_state({name: state[_joined(path, name)] for name in module.head_state()})
        with torch.no_grad():
            for name, parameter in self._others.items():
                parameter.copy_(state[name])

    def average_gradients(self) -> None:
        """Average the gradients over the ranks, as DDP does; one that no rank has stays None."""
        if parameters := self.parameters():
            used = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
            torch.distributed.all_reduce(used)
            for parameter, ranks in zip(parameters, used.tolist(), strict=True):
                if ranks and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                average(parameter.grad)


def average(tensor: Tensor | None) -> None:
    """Replace a tensor, which all ranks have or none has, by the average over the ranks."""
    if tensor is not None and get_world_size() > 1:
        torch.distributed.all_reduce(tensor)
        tensor /= get_world_size()


def _joined(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part)


def _unique(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return each thing under its first name: a loss shared by several data sets counts once."""
    found: dict[int, tuple[str, Any]] = {}
    for name, one in named:
        found.setdefault(id(one), (name, one))
    return dict(found.values())


def fill_view_caches(
    losses: Iterable[nn.Module],
    rows: Any,
    features_of: Callable[[list[dict[str, Any]]], Sequence[dict[str, Any]]],
) -> None:
    """Compute the views of every row for each loss that caches them, always in the same batches.

    A cache that fills up while training would hold other last bits after an interruption.
    """
    for loss in losses:
        if not isinstance(loss, SelfGuidedLoss) or (cache := loss.view_cache) is None:
            continue
        if not hasattr(rows, "__len__"):
            raise InputError(
                "SelfGuidedLoss computes all views before the first step, which does not work with a "
                "streaming train_dataset",
                'compute the views in each step with SelfGuidedLoss(model, views="online"), or pass a '
                "datasets.Dataset",
            )
        device = next(loss.frozen.parameters()).device
        idle = 0
        for batch in _unique_batches(rows):
            held = len(cache)
            for features in loss.columns_of_views(features_of(batch)):
                cache.views(batch_to_device({**features}, device), loss.frozen)
            # Texts may differ and their tokens not, but not batch after batch: the cache is full.
            idle = 0 if len(cache) > held else idle + 1
            if idle == _IDLE_BATCHES:
                break


def _unique_batches(rows: Any) -> Iterator[list[dict[str, Any]]]:
    seen: set[int] = set()
    for start in range(0, len(rows), _WINDOW):
        window = rows[start : start + _WINDOW]
        unique = {hash(values): values for values in zip(*window.values(), strict=True)}
        fresh = [dict(zip(window, unique[key], strict=True)) for key in unique if key not in seen]
        seen |= unique.keys()
        # Texts of a length together: little padding. Only the data decides the order.
        fresh.sort(key=lambda row: max(len(str(value)) for value in row.values()))
        yield from (fresh[first : first + _ROWS] for first in range(0, len(fresh), _ROWS))


class LengthBucketedEncoder(nn.Module):
    """Runs an encoder on a batch in parts of similar length, and returns what it returns for the whole batch.

    Half of a batch of sentences and more is padding when some of them are long. For a GPU one large part is
    best; on a CPU, where time is tokens, a step on 32 sentences of CoLA takes a quarter less in parts. Only
    the states of padding differ from those of the whole batch.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module  # where upstream's wrappers have it too

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Encode a batch."""
        mask = features.get("attention_mask")
        if not isinstance(mask, Tensor) or mask.ndim != 2 or (mask[:, 1:] > mask[:, :-1]).any():
            whole: dict[str, Any] = self.module(features)
            return whole
        lengths = mask.sum(dim=1).tolist()
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        sizes = bucket_sizes([lengths[row] for row in order])
        outputs = []
        for rows in torch.split(torch.tensor(order, device=mask.device), sizes):
            longest = max(1, int(lengths[rows[0]]))
            part = {}
            for name, value in features.items():
                if isinstance(value, Tensor) and value.shape[:1] == mask.shape[:1]:
                    value = value[rows, :longest] if value.shape == mask.shape else value[rows]
                part[name] = value
            outputs.append(self.module(part))
        back = torch.tensor(order, device=mask.device).argsort()

        def joined(name: str, parts: list[Any]) -> Any:
            if isinstance(parts[0], tuple):
                return tuple(joined(name, list(layer)) for layer in zip(*parts, strict=True))
            if not isinstance(parts[0], Tensor):
                return parts[0]
            if name in ("token_embeddings", "all_layer_embeddings"):
                length = mask.shape[1]
                parts = [nn.functional.pad(one, (0, 0, 0, length - one.shape[1])) for one in parts]
            return torch.cat(parts)[back]  # (b, ...)

        return {
            name: features[name] if name in features else joined(name, [one[name] for one in outputs])
            for name in outputs[0]
        }


def bucketed_by_length(encoder: SentenceTransformer) -> nn.Module:
    """Return what a loss is to run in training, so that a step takes as little time as it can."""
    alone = process_state().num_processes == 1
    return LengthBucketedEncoder(encoder) if alone and encoder.device.type == "cpu" else encoder


def bucket_sizes(lengths: list[int]) -> list[int]:
    """Divide rows of falling length so that tokens with padding, and a price for every part, are least."""
    least, first = [0.0], [0]  # of the rows up to here: the price, and where the last part begins
    for end in range(1, len(lengths) + 1):
        price, start = min(
            (least[start] + (end - start) * lengths[start] + _PART_PRICE, start) for start in range(end)
        )
        least.append(price)
        first.append(start)
    sizes: list[int] = []
    end = len(lengths)
    while end:
        sizes.insert(0, end - first[end])
        end = first[end]
    return sizes


def decay_groups(parameters: Iterable[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Return groups of an optimizer in which matrices decay and vectors do not."""
    weights = list(parameters)
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]


def check_finite(logs: Mapping[str, float], *, step: int) -> None:
    """Raise InputError if a loss, or a part of it, is not finite."""
    losses = {name: value for name, value in logs.items() if name.startswith(("loss", "eval_loss"))}
    # The parts come after the whole, and say more.
    for name in reversed(losses):
        if not math.isfinite(losses[name]):
            shown = name.replace("eval_", "validation ").replace("_", " of ", 1)
            raise InputError(f"the {shown} is not finite at step {step}", "lower the learning rate")
