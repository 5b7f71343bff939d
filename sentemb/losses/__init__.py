"""Training objectives: pure tensor functions and the loss classes built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.losses.back_translation import BackTranslationLoss
    from sentemb.losses.cached_labelled import CachedCrossEntropySupConLoss, CachedLaConLoss
    from sentemb.losses.cached_pairs import CachedParaphraseContrastLoss, CachedSimCSELoss
    from sentemb.losses.cached_supcon import CachedSupCLSeqLoss, CachedSupConLoss
    from sentemb.losses.cross_entropy import CrossEntropyLoss
    from sentemb.losses.cross_entropy_contrast import CrossEntropyContrastLoss
    from sentemb.losses.cross_entropy_supcon import CrossEntropySupConLoss
    from sentemb.losses.lacon import LaConLoss
    from sentemb.losses.leam import LeamLoss
    from sentemb.losses.owned import OwnedWeights
    from sentemb.losses.paraphrase_contrast import ParaphraseContrastLoss
    from sentemb.losses.self_guided import SelfGuidedLoss
    from sentemb.losses.simcse import SimCSELoss
    from sentemb.losses.supcl_seq import SupCLSeqLoss
    from sentemb.losses.supcon import SupConLoss
    from sentemb.losses.view_cache import ViewCache
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "back_translation": ["BackTranslationLoss"],
            "cached_labelled": ["CachedCrossEntropySupConLoss", "CachedLaConLoss"],
            "cached_pairs": ["CachedParaphraseContrastLoss", "CachedSimCSELoss"],
            "cached_supcon": ["CachedSupCLSeqLoss", "CachedSupConLoss"],
            "cross_entropy": ["CrossEntropyLoss"],
            "cross_entropy_contrast": ["CrossEntropyContrastLoss"],
            "cross_entropy_supcon": ["CrossEntropySupConLoss"],
            "lacon": ["LaConLoss"],
            "leam": ["LeamLoss"],
            "owned": ["OwnedWeights"],
            "paraphrase_contrast": ["ParaphraseContrastLoss"],
            "self_guided": ["SelfGuidedLoss"],
            "simcse": ["SimCSELoss"],
            "supcl_seq": ["SupCLSeqLoss"],
            "supcon": ["SupConLoss"],
            "view_cache": ["ViewCache"],
        },
    )

__all__ = [
    "BackTranslationLoss",
    "CachedCrossEntropySupConLoss",
    "CachedLaConLoss",
    "CachedParaphraseContrastLoss",
    "CachedSimCSELoss",
    "CachedSupCLSeqLoss",
    "CachedSupConLoss",
    "CrossEntropyContrastLoss",
    "CrossEntropyLoss",
    "CrossEntropySupConLoss",
    "LaConLoss",
    "LeamLoss",
    "OwnedWeights",
    "ParaphraseContrastLoss",
    "SelfGuidedLoss",
    "SimCSELoss",
    "SupCLSeqLoss",
    "SupConLoss",
    "ViewCache",
]
