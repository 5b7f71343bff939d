"""Vectors read at [MASK] of a template that the tokenizer puts around every text (PromptBERT)."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers.processors import TemplateProcessing

from sentemb._compat import Transformer
from sentemb.errors import InputError
from sentemb.modules.files import SentembModule

TEMPLATE = 'This sentence of "{text}" means {mask}.'
"""The first of PromptBERT's two templates, with which its encoder is used."""


class MaskPooling(SentembModule):
    """The last hidden state at [MASK] of a template around the text (Jiang et al., 2022).

    The tokenizer adds the template to its tokens, after truncation. Load a saved model that contains this
    module with `sentemb.load`, since sentence-transformers does not have it.

    Args:
        dimension: Width d of the hidden states.
        template: Text with `{text}` and, after it, `{mask}`.

    Example:
        >>> model = load("bert-mini", pooling="prompt")
        >>> model.encode(["a cat sat"]).shape
        (1, 256)

    Reference:
        Jiang et al.: PromptBERT: Improving BERT Sentence Embeddings with Prompts. EMNLP 2022.
        https://arxiv.org/abs/2201.04337
    """

    config_keys = ["dimension", "template"]  # noqa: RUF012

    def __init__(self, dimension: int, template: str = TEMPLATE) -> None:
        super().__init__()
        self.dimension, self.template = dimension, template
        self.mask_token_id: int | None = None

    def attach(self, transformer: Transformer) -> None:
        """Let a transformer's tokenizer put the template around every text."""
        tokenizer: Any = transformer.tokenizer
        prefix, suffix = self.tokens_of(tokenizer, self.template)
        self.mask_token_id = tokenizer.mask_token_id
        names = {number: f"token {number}" for number in (*prefix, *suffix)}
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=[*(names[number] for number in prefix), "$A", *(names[number] for number in suffix)],
            special_tokens=[(name, number) for number, name in names.items()],
        )

    @staticmethod
    def tokens_of(tokenizer: Any, template: str) -> tuple[list[int], list[int]]:
        """Return the tokens before and after the text, special tokens included.

        Raises:
            InputError: The tokenizer has no [MASK] or cannot add a template, or the template has no gap.
        """
        mask = getattr(tokenizer, "mask_token", None)
        if mask is None or not hasattr(tokenizer, "backend_tokenizer"):
            raise InputError(
                "prompt pooling reads the vector of [MASK], which the tokenizer of this model does not have",
                "use a model that was pretrained on masked tokens, or another pooling",
            )
        before, gap, after = template.partition("{text}")
        if not gap or "{mask}" not in after:
            raise InputError(f"the template is {template!r}", "write {text} and, after it, {mask}")
        first, last = (
            tokenizer(part.strip().replace("{mask}", mask), add_special_tokens=False)["input_ids"]
            for part in (before, after)
        )
        start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        return [start, *first], [*last, end]

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Pool `token_embeddings`, `(b, t, d)`, to `sentence_embedding`, `(b, d)`."""
        if self.mask_token_id is None:
            raise InputError("the tokenizer does not have the template of this model", "use sentemb.load")
        # The last one, since the text may contain the token itself.
        at_mask = (features["input_ids"] == self.mask_token_id).long()  # (b, t)
        place = (at_mask * torch.arange(1, at_mask.shape[1] + 1, device=at_mask.device)).argmax(1)
        rows = torch.arange(len(place), device=place.device)
        features["sentence_embedding"] = features["token_embeddings"][rows, place]
        return features
