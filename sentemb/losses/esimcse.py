"""ESimCSE: repeated word pieces as a view, and a queue of a momentum encoder's vectors as negatives."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity
from sentemb.errors import InputError
from sentemb.losses.base import check_choice, check_number
from sentemb.losses.functional import first_of, without
from sentemb.losses.simcse import Head, SimCSELoss
from sentemb.losses.views import View, draw_per_row, project, transformer_module, unwrap


class ESimCSELoss(SimCSELoss):
    """SimCSE with word repetition and momentum contrast (Wu et al., 2022).

    The second view of a sentence of N tokens, `[CLS]` and `[SEP]` included, repeats some of its word pieces
    in place: their number is uniform in 0 to max(2, int(rate * N)), their positions are drawn without
    replacement from those between the special tokens. With z and z' the two views after the head, and q the
    vectors of the queue, which come from earlier batches::

        loss_i = -log( phi(z_i, z'_i) / [ sum_j phi(z_i, z'_j) + sum_q phi(z_i, q) ] )

    After a training step's loss, the momentum encoder moves to momentum * itself + (1 - momentum) * encoder,
    encodes the first column without dropout, through the current head, and the queue keeps the last
    `queue_size` of its vectors. An anchor without negatives has loss 0.

    Inputs:
        sentence; labels: none.

    Args:
        model: The encoder to train, a transformer.
        temperature: Divides the cosine; 0.05.
        repetition: The rate of repetition; 0.32 in the paper, 0 for none.
        queue_size: Vectors in the queue; 160 in the paper (2.5 batches of 64), 0 for no momentum encoder.
        momentum: 0.995 in the paper.
        head: The head of `SimCSELoss`.
        gather_across_devices: Take in-batch negatives, and the queue, from all processes.
        preset: `released` follows the authors' code where it differs from the paper: 0 to
            min(10, int(rate * N)) - 1 repetitions, and a momentum encoder that starts with random weights.

    Raises:
        InputError: An option is out of range, or the encoder is not a transformer.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls", max_length=32)
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=ESimCSELoss(encoder))

    Reference:
        Wu et al.: ESimCSE: Enhanced Sample Building Method for Contrastive Learning of Unsupervised Sentence
        Embedding. COLING 2022. https://arxiv.org/abs/2109.04380
    """

    references: ClassVar[tuple[str, ...]] = ("wu-etal-2022-esimcse", "gao-etal-2021-simcse")
    owned_modules: ClassVar[tuple[str, ...]] = ("head", "memory")
    single_text: ClassVar[bool] = True
    why_not_cached: ClassVar[str | None] = (
        "its queue already holds negatives of earlier batches without their memory"
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        repetition: float = 0.32,
        queue_size: int = 160,
        momentum: float = 0.995,
        head: Head | None = "auto",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(
            model, temperature=temperature, head=head, gather_across_devices=gather_across_devices
        )
        self.preset = check_choice(self, "preset", preset, ("released", None))
        self.repetition = check_number(self, "repetition", repetition, low=0, inclusive=True)
        self.queue_size = check_number(self, "queue_size", queue_size, low=0, inclusive=True, whole=True)
        self.momentum = check_number(self, "momentum", momentum, low=0, inclusive=True)
        if momentum > 1:
            raise InputError(f"momentum of {type(self).__name__} is {momentum}", "set it between 0 and 1")
        transformer = transformer_module(model, loss=type(self).__name__)
        # The tables of RoBERTa's kind use two of their positions for padding.
        positions = getattr(transformer.model.config, "max_position_embeddings", None)
        self.longest = None if positions is None else int(positions) - 2
        self.memory = _Memory(model, queue_size) if queue_size else None
        if self.memory is not None and preset == "released":
            random = type(transformer.model)(transformer.model.config)
            self.memory.encoder[0].model.load_state_dict(random.state_dict())  # type: ignore[union-attr]

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of the sentences and one of them with repeated word pieces."""
        column = self.one_column(sentence_features)
        repeated = repeat_word_pieces(
            column, rate=self.repetition, longest=self.longest, released=self.preset == "released"
        )
        return [View(column), View(repeated)]

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of a batch as a scalar; in training, move the momentum encoder and the queue."""
        columns = list(sentence_features)
        loss = super().forward(columns, labels)
        if self.memory is not None and unwrap(self.model).training and torch.is_grad_enabled():
            vectors = self.memory.encode(unwrap(self.model), columns[0], self.momentum)
            self.memory.append(self.gather(project(self.head, vectors).detach()).rows)
        return loss

    def contrast(self, first: Tensor, second: Tensor, hard_negatives: list[Tensor], anchors: slice) -> Tensor:
        """Compute the loss of every anchor, `(a,)`, with the queue in its denominator."""
        logits = cosine_similarity(first[anchors], second) / self.temperature  # (a, n)
        positive = logits.diagonal(first_of(anchors))
        if self.memory is not None:
            queue = self.memory.queue
            earlier = cosine_similarity(first[anchors], queue) / self.temperature  # (a, queue)
            empty = (queue == 0).all(1).expand_as(earlier)
            logits = torch.cat([logits, without(earlier, empty)], dim=1)
        return torch.logsumexp(logits, dim=1) - positive


class _Memory(nn.Module):
    """The momentum encoder and its queue, whose rows are 0 until they are filled.

    Both are parameters without gradient, so they are saved and restored with the head.
    """

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        modules = [copy.deepcopy(module) for module in unwrap(model).children()]
        # A plain container: the trainer would replace a SentenceTransformer with the model in training.
        self.encoder = nn.Sequential(*modules).requires_grad_(False).eval()
        width = int(unwrap(model).get_embedding_dimension())  # type: ignore[operator]
        parameter = next(model.parameters())
        self.queue = nn.Parameter(parameter.new_zeros((size, width)), requires_grad=False)

    def train(self, mode: bool = True) -> _Memory:
        """Stay in evaluation mode."""
        return super().train(False)

    @torch.no_grad()
    def encode(self, model: nn.Module, column: dict[str, Any], momentum: float) -> Tensor:
        """Move the encoder towards the model, and encode a batch."""
        for own, current in zip(self.encoder.parameters(), model.parameters(), strict=True):
            own.lerp_(current, 1 - momentum)
        vectors: Tensor = self.encoder(dict(column))["sentence_embedding"]
        return vectors

    @torch.no_grad()
    def append(self, vectors: Tensor) -> None:
        """Append vectors `(n, d)` and drop the oldest."""
        queue = self.queue
        queue.copy_(torch.cat([queue, vectors.to(queue.dtype)])[-len(queue) :])


def repeat_word_pieces(
    features: dict[str, Any], *, rate: float, longest: int | None = None, released: bool = False
) -> dict[str, Any]:
    """Repeat some word pieces of every row in place; see `ESimCSELoss`.

    The tensors of one value per token grow by the most repetitions of a row, and are padded on the right. No
    row grows beyond `longest` tokens.
    """
    mask = features["attention_mask"].bool()  # (b, t)
    lengths = mask.sum(1).tolist()
    seeds = draw_per_row(features["attention_mask"], high=2**62).tolist()
    sources = []  # of each row: the position that every token of the new row is copied from
    for row, (length, seed) in enumerate(zip(lengths, seeds, strict=True)):
        generator = torch.Generator().manual_seed(seed)
        most = min(10, int(rate * length)) - 1 if released else max(2, int(rate * length)) * (rate > 0)
        count = int(torch.randint(max(most, 0) + 1, (1,), generator=generator))
        count = count if longest is None else max(0, min(count, longest - length))
        repeated = torch.randperm(max(length - 2, 0), generator=generator)[:count] + 1
        tokens = mask[row].nonzero().flatten().cpu()
        places = torch.cat([torch.arange(length), repeated]).sort().values
        sources.append(tokens[places])
    width = max(map(len, sources), default=0)
    index = torch.zeros((len(sources), width), dtype=torch.long)
    filled = torch.zeros((len(sources), width), dtype=torch.bool)
    for row, source in enumerate(sources):
        index[row, : len(source)], filled[row, : len(source)] = source, True
    index, filled = index.to(mask.device), filled.to(mask.device)
    repeated_features = dict(features)
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape == mask.shape:
            padding = value[~mask][0] if bool((~mask).any()) else 0
            repeated_features[name] = torch.where(filled, value.gather(1, index), padding)
    return repeated_features
