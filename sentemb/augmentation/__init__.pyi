from .back_translation import PAIR_COLUMNS, BackTranslationCounts, back_translate, count_back_translations
from .noise import NoisyCopies, noisy_copies
from .seq2seq import Decoding, Seq2SeqTranslator
from .translator import Translator

__all__ = [
    "PAIR_COLUMNS",
    "BackTranslationCounts",
    "Decoding",
    "NoisyCopies",
    "Seq2SeqTranslator",
    "Translator",
    "back_translate",
    "count_back_translations",
    "noisy_copies",
]
