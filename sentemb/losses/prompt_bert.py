"""PromptBERT: two templates are the two views, and each template's own vector is taken off."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.base import check_choice
from sentemb.losses.simcse import Head, SimCSELoss
from sentemb.losses.views import View, transformer_module, unwrap

SECOND_TEMPLATE = 'This sentence : "{text}" means {mask}.'


class PromptBERTLoss(SimCSELoss):
    """Contrast of two templates with template denoising (Jiang et al., 2022).

    h_t(x) is the last hidden state at [MASK] of template t around x, and delta_t(n) that of the template
    around an empty gap, whose later tokens have the positions that they have after n tokens. With n_i the
    number of tokens of sentence i, and MLP the head::

        z_i  = MLP( h_1(x_i) - delta_1(n_i) ),   z'_i = MLP( h_2(x_i) - delta_2(n_i) )

    and the loss is InfoNCE(z, z'). The encoder itself is h_1, without delta and head: build it with
    `pooling="prompt"`. Gradient flows through delta too, which is computed once per batch and length.

    Inputs:
        sentence; labels: none.

    Args:
        model: The encoder to train, with prompt pooling.
        second_template: Text with `{text}` and `{mask}`; the first template is the encoder's.
        temperature: Divides the cosine; 0.05.
        head: The head of `SimCSELoss`; `auto` is a new Linear + tanh, as in the paper.
        gather_across_devices: Take in-batch negatives from all processes.
        preset: `released` follows the authors' code where it differs from the paper: the gap of the second
            template is assumed where the first has it.

    Raises:
        InputError: An option is out of range; the encoder does not have prompt pooling, or its transformer
            does not take position ids.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="prompt", max_length=42)
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=PromptBERTLoss(encoder))

    Reference:
        Jiang et al.: PromptBERT: Improving BERT Sentence Embeddings with Prompts. EMNLP 2022.
        https://arxiv.org/abs/2201.04337
    """

    references: ClassVar[tuple[str, ...]] = ("jiang-etal-2022-promptbert", "gao-etal-2021-simcse")
    single_text: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        second_template: str = SECOND_TEMPLATE,
        temperature: float = 0.05,
        head: Head | None = "auto",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        head = "train-only" if head == "auto" else head
        super().__init__(
            model, temperature=temperature, head=head, gather_across_devices=gather_across_devices
        )
        self.preset = check_choice(self, "preset", preset, ("released", None))
        self.second_template = second_template
        name = type(self).__name__
        transformer = transformer_module(model, loss=name)
        readers: list[Any] = [one for one in unwrap(model).children() if hasattr(one, "template")]
        if not readers:
            raise InputError(f"{name} needs an encoder with prompt pooling", "load it with pooling='prompt'")
        if "position_ids" not in inspect.signature(transformer.model.forward).parameters:
            raise InputError(
                f"{name} shifts the positions of a template, but {type(transformer.model).__name__} does not "
                "take position ids",
                "use an encoder such as BERT or RoBERTa",
            )
        self._templates: list[tuple[list[int], list[int]]] = [
            readers[0].tokens_of(transformer.tokenizer, one) for one in (readers[0].template, second_template)
        ]
        table = getattr(getattr(transformer.model, "embeddings", None), "position_embeddings", None)
        padding = None if table is None else table.padding_idx
        self._first_position = 0 if padding is None else int(padding) + 1  # RoBERTa's kind

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return the sentences in both templates, and both templates with gaps of 0 to the most tokens."""
        column = self.one_column(sentence_features)
        first, second = self._templates
        other = exchange_template(column, first, second)
        lengths = column["attention_mask"].sum(1) - sum(map(len, first))
        most = int(lengths.max())
        gaps = [len(first[0]), len(first[0] if self.preset == "released" else second[0])]
        return [View(column), View(other)] + [
            View(self._empty(template, gap, most, column))
            for template, gap in zip(self._templates, gaps, strict=True)
        ]

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the vectors of a view, and the number of tokens of its sentences behind the first two."""
        vectors: Tensor = output["sentence_embedding"]
        if view > 1:
            return [vectors]
        lengths = output["attention_mask"].sum(1, keepdim=True) - sum(map(len, self._templates[view]))
        return [vectors, lengths.to(vectors.dtype)]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of vectors `(b, d)` and lengths `(b, 1)`, twice, and of two deltas `(n, d)`."""
        first, lengths, second, _, delta, other_delta = embeddings
        index = lengths.squeeze(1).round().long()
        return super().compute_loss_from_embeddings([first - delta[index], second - other_delta[index]])

    def _empty(
        self, template: tuple[list[int], list[int]], gap: int, most: int, column: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a template without a text, once for every number of tokens up to `most` in its gap."""
        ids = torch.tensor([*template[0], *template[1]])
        positions = torch.arange(len(ids)) + self._first_position
        shift = torch.arange(most + 1).unsqueeze(1) * (torch.arange(len(ids)) >= gap)  # (most + 1, t)
        rows = {
            "input_ids": ids.expand(most + 1, -1),
            "attention_mask": torch.ones(most + 1, len(ids), dtype=torch.long),
            "token_type_ids": torch.zeros(most + 1, len(ids), dtype=torch.long),
            "position_ids": positions + shift,
        }
        device = column["input_ids"].device
        kept = {name: value for name, value in column.items() if not isinstance(value, Tensor)}
        names = [name for name in rows if name in column or name == "position_ids"]
        return kept | {name: rows[name].to(device) for name in names}


def exchange_template(
    features: dict[str, Any], old: tuple[list[int], list[int]], new: tuple[list[int], list[int]]
) -> dict[str, Any]:
    """Replace the template around every tokenized text by another one, padded on the right."""
    ids, mask = features["input_ids"], features["attention_mask"].bool()
    texts = [row[own][len(old[0]) : int(own.sum()) - len(old[1])] for row, own in zip(ids, mask, strict=True)]
    prefix, suffix = (torch.tensor(part, dtype=ids.dtype, device=ids.device) for part in new)
    rows = [torch.cat([prefix, text, suffix]) for text in texts]
    pad = nn.utils.rnn.pad_sequence
    changed = {
        "input_ids": pad(rows, batch_first=True),
        "attention_mask": pad([torch.ones_like(row) for row in rows], batch_first=True),
    }
    if "token_type_ids" in features:
        changed["token_type_ids"] = torch.zeros_like(changed["input_ids"])
    return features | changed
