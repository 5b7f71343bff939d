from .back_translation import PAIR_COLUMNS as PAIR_COLUMNS
from .back_translation import Translator as Translator
from .back_translation import back_translate as back_translate
from .negation import negate as negate
from .seq2seq import Decoding as Decoding
from .seq2seq import Seq2SeqTranslator as Seq2SeqTranslator
