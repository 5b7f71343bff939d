"""The auxiliary masked-language-model term of SimCSE, with the base model's pretrained head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM
from transformers.modeling_outputs import BaseModelOutput

from sentemb._compat import Transformer
from sentemb.errors import InputError

_IGNORED = -100  # the label that cross-entropy skips


class MaskedLanguageHead(nn.Module):
    """A pretrained masked-language-model head for given hidden states.

    If the architecture ties them, its decoder shares the encoder's word embeddings. These still belong to the
    encoder and are trained with it.

    Args:
        encoder: The first module of the model.

    Raises:
        InputError: The base model was saved without this head, or its tokenizer lacks a mask token.
    """

    def __init__(self, encoder: Transformer) -> None:
        super().__init__()
        tokenizer = encoder.tokenizer
        if tokenizer is None or tokenizer.mask_token_id is None:
            raise InputError(
                "mlm_weight needs a mask token, but the tokenizer does not have one", "set mlm_weight to 0"
            )
        self.mask_token = int(tokenizer.mask_token_id)
        self.special_tokens = sorted(set(tokenizer.all_special_ids))
        self.vocabulary = int(encoder.model.get_input_embeddings().num_embeddings)
        self.network = _pretrained_head(encoder)

    def forward(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Compute the cross-entropy of each masked position."""
        chosen = labels != _IGNORED  # (n, t)
        # The head works position by position, so the 85 % that are not masked can be skipped.
        logits = self.network(inputs_embeds=hidden[chosen].unsqueeze(0)).logits[0]  # (m, vocabulary)
        return nn.functional.cross_entropy(logits.float(), labels[chosen], reduction="none")

    def mask(self, features: dict[str, Any], probability: float = 0.15) -> tuple[dict[str, Any], Tensor]:
        """Mask tokens as BERT does: 80 % become the mask token, 10 % a random token, 10 % stay."""
        ids: Tensor = features["input_ids"]  # (n, t)
        special = torch.isin(ids, torch.tensor(self.special_tokens, device=ids.device))
        chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
        chosen &= features["attention_mask"].bool()
        fate = torch.rand(ids.shape, device=ids.device)
        random = torch.randint_like(ids, self.vocabulary)
        masked = ids.masked_fill(chosen & (fate < 0.8), self.mask_token)
        masked = torch.where(chosen & (fate >= 0.9), random, masked)
        return {**features, "input_ids": masked}, ids.masked_fill(~chosen, _IGNORED)


class _HandedThrough(nn.Module):
    """Replace the encoder of a masked-language model and return the given hidden states."""

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=inputs_embeds)


def _pretrained_head(encoder: Transformer) -> nn.Module:
    source = encoder.model.config.name_or_path
    hint = "set mlm_weight to 0, or use a base model that was saved with its masked-language-model head"
    try:
        network, report = AutoModelForMaskedLM.from_pretrained(source, output_loading_info=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot load a masked-language model from {source!r}: {error}", hint) from error
    prefix = network.base_model_prefix
    missing = sorted(name for name in report["missing_keys"] if not name.startswith(f"{prefix}."))
    if missing:
        raise InputError(
            f"{source!r} does not contain a masked-language-model head: {missing[0]} is missing", hint
        )
    decoder, own_table = network.get_output_embeddings(), network.get_input_embeddings()
    if decoder is not None and own_table is not None and decoder.weight is own_table.weight:
        decoder.weight = encoder.model.get_input_embeddings().weight
    setattr(network, prefix, _HandedThrough())
    head: nn.Module = network.to(encoder.model.device, encoder.model.dtype)
    return head
