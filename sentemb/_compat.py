"""The only file that touches private or moved names of upstream libraries.

sentence-transformers 6.2 keeps what custom losses, evaluators and trainers build on under `base/`; when a
release moves one of these names, this is the file to mend.
"""

from __future__ import annotations

from sentence_transformers.base.evaluation.evaluator import BaseEvaluator
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from sentence_transformers.sentence_transformer.modules.weighted_layer_pooling import WeightedLayerPooling
from sentence_transformers.util.distributed import all_gather_with_grad, get_rank, get_world_size

__all__ = [
    "BaseEvaluator",
    "Dense",
    "Normalize",
    "Pooling",
    "Transformer",
    "WeightedLayerPooling",
    "all_gather_with_grad",
    "embed_columns",
    "get_rank",
    "get_world_size",
]
