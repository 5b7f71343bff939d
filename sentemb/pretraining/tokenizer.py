"""An uncased WordPiece vocabulary trained on a corpus, as BERT's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import WordPieceTrainer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.modules.source import find_source

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALLEST_VOCABULARY = 300


def train_wordpiece(texts: Iterable[str], vocabulary_size: int = 16_000) -> PreTrainedTokenizerFast:
    """Train BERT's uncased tokenizer: lower case, accents stripped, split at punctuation, WordPiece."""
    if vocabulary_size < SMALLEST_VOCABULARY:
        raise InputError(f"a vocabulary of {vocabulary_size} tokens is too small", "set it to 300 or more")
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    trainer = WordPieceTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        # Rare scripts would spend pieces on single letters; 200 letters cover Latin text and its signs.
        limit_alphabet=200,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    # Not BertTokenizerFast: in transformers 5 it ignores a vocabulary file it is given and maps every word
    # to [UNK]. The generic class takes the tokenizer as it is.
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        # The generic class leaves the segments of a pair out unless it is told.
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def load_tokenizer(base: str | Path) -> PreTrainedTokenizerFast:
    """The tokenizer of an existing base model, or of a run."""
    # The tokenizer of a run has no model beside it.
    address = str(base) if Path(base).is_dir() else find_source(str(base)).address
    try:
        tokenizer = AutoTokenizer.from_pretrained(address)
    except Exception as error:  # a damaged file can end in any
        raise InputError(
            f"{base} does not contain a tokenizer", "use a folder or hub id of a masked language model"
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(
            f"{base} does not have a fast tokenizer",
            "choose another base: whole-word masking needs a fast tokenizer",
        )
    for name in ("mask_token", "cls_token", "sep_token", "pad_token"):
        if getattr(tokenizer, name) is None:
            raise InputError(
                f"the tokenizer of {base} does not have a {name}", "use a masked language model as base"
            )
    return tokenizer
