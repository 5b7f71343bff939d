"""Vectors as an encoder gives them in training, with its dropout on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device

from sentemb.encoding.encoder import Vectors, check_finite
from sentemb.encoding.sentence import training_flags_kept

_BATCH_SIZE = 64


def encode_with_dropout(model: SentenceTransformer, texts: Sequence[str], *, seed: int) -> Vectors:
    """Encode every text by itself; the model and the caller's random numbers are left as they are."""
    name = model.default_prompt_name
    prompt = None if name is None else model.prompts.get(name) or None
    parts: list[Vectors] = []
    with training_flags_kept(model), torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        model.train()
        for first in range(0, len(texts), _BATCH_SIZE):
            features = model.preprocess(list(texts[first : first + _BATCH_SIZE]), prompt=prompt)
            output = model(batch_to_device(features, model.device))["sentence_embedding"]
            parts.append(output.float().cpu().numpy())
    vectors = np.concatenate(parts)
    check_finite(vectors, texts, name="the encoder with dropout")
    return vectors
