"""Other wordings of a text by translating it to another language and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.augmentation.back_translation import (
        BackTranslationCounts,
        back_translate,
        count_back_translations,
    )
    from sentemb.augmentation.noise import NoisyCopies, noisy_copies
    from sentemb.augmentation.seq2seq import Decoding, Seq2SeqTranslator
    from sentemb.augmentation.translator import Translator
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "back_translation": ["BackTranslationCounts", "back_translate", "count_back_translations"],
            "noise": ["NoisyCopies", "noisy_copies"],
            "seq2seq": ["Decoding", "Seq2SeqTranslator"],
            "translator": ["Translator"],
        },
    )

__all__ = [
    "BackTranslationCounts",
    "Decoding",
    "NoisyCopies",
    "Seq2SeqTranslator",
    "Translator",
    "back_translate",
    "count_back_translations",
    "noisy_copies",
]
