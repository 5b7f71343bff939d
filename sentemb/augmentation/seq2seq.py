"""Translators that are sequence-to-sequence models of transformers: Marian, FSMT, M2M100, NLLB, mBART, T5."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from sentemb.errors import InputError
from sentemb.modules.check import add_weights, lasting_settings, loading
from sentemb.modules.source import find_source

TOKENS_PER_BATCH = 1 << 14
"""Tokens of all hypotheses of a batch."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """The way in which a translation is chosen.

    Attributes:
        beams: Width of beam search; 100 (Kim et al., ACL 2021, A.2).
        temperature: Sample from the whole vocabulary at this temperature instead of beam search (Gunel et
            al., ICLR 2021, section 4.2: 0.3 to 0.9).
        seed: Seed of the samples.
        max_new_tokens: Longest translation.

    Example:
        >>> Decoding(beams=5).beams
        5
    """

    beams: int = 100
    temperature: float | None = None
    seed: int = 0
    max_new_tokens: int = 256

    def __post_init__(self) -> None:
        for name in ("beams", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", "use 1 or more")
        if self.temperature is not None and not 0 < self.temperature < math.inf:
            raise InputError(f"temperature is {self.temperature}", "use a number above 0")

    def describe(self) -> dict[str, Any]:
        """Return the options that are used."""
        unused = ("temperature", "seed") if self.temperature is None else ("beams",)
        return {name: value for name, value in asdict(self).items() if name not in unused}

    def arguments(self) -> dict[str, Any]:
        """Return the options as fields of `GenerationConfig`, which override those of the checkpoint."""
        common = {"max_new_tokens": self.max_new_tokens, "max_length": None, "num_return_sequences": 1}
        if self.temperature is None:
            return {**common, "num_beams": self.beams, "do_sample": False}
        sampled = {"do_sample": True, "temperature": self.temperature, "top_k": 0, "top_p": 1.0}
        return {**common, "num_beams": 1, **sampled}


class Seq2SeqTranslator:
    """A translation model in evaluation mode, float32, without gradients.

    Texts are translated in batches of similar length, none of which holds more than 16,384 tokens of
    hypotheses, unless a single text does. The samples of a batch depend on its texts, the seed and the number
    of the draw alone. Texts that are too long for the model are truncated.

    Args:
        model: Folder or hub id of a sequence-to-sequence model. Those of Marian and FSMT need sentencepiece
            or sacremoses for their texts.
        decoding: Beam search of width 100 by default.
        source_language: Code of the language of the texts as the model spells it (`en`, `eng_Latn`); required
            by multilingual models, and by no others.
        target_language: Code of the language to translate into; likewise.
        prefix: Put before every text, as T5 (`translate English to German: `) and Marian models of several
            targets (`>>deu<< `) need it.
        device: Where to translate; by default a GPU if there is one.

    Raises:
        InputError: The model does not exist or does not translate, its tokenizer needs a package, or it does
            not know a language.

    Example:
        >>> forward = Seq2SeqTranslator("facebook/wmt19-en-de")  # doctest: +SKIP
        >>> forward(["A cat sat on the mat."])  # doctest: +SKIP
    """

    def __init__(
        self,
        model: str | Path,
        *,
        decoding: Decoding | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        prefix: str = "",
        device: str | None = None,
    ) -> None:
        self.name, self.decoding, self._prefix = str(model), decoding or Decoding(), prefix
        self._languages = (source_language, target_language)
        self._network, self._tokenizer = _load(self.name)
        self._forced_bos = forced_language(self._tokenizer, *self._languages, name=self.name)
        self._network.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        # Tokenizers without a limit give a number of 31 digits.
        positions = getattr(self._network.config, "max_position_embeddings", 0)
        limits = (limit for limit in (positions, self._tokenizer.model_max_length) if limit)
        self._longest = min((limit for limit in limits if limit < 1 << 20), default=512)
        self._checkpoint = digest_of(self._network, self._tokenizer)

    @property
    def fingerprint(self) -> str:
        """Checksum of weights, vocabulary, languages, prefix and decoding."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    def with_decoding(self, decoding: Decoding) -> Seq2SeqTranslator:
        """Return a translator that shares the weights and decodes in another way."""
        other = copy.copy(self)
        other.decoding = decoding
        return other

    def describe(self) -> dict[str, Any]:
        """Return name, checksum of the checkpoint, languages, prefix and decoding, for a manifest."""
        source, target = self._languages
        return {
            "name": self.name,
            "checkpoint": self._checkpoint,
            "source_language": source,
            "target_language": target,
            "prefix": self._prefix,
            "longest_input": self._longest,
            "decoding": self.decoding.describe(),
        }

    def count_too_long(self, texts: Sequence[str]) -> int:
        """Return how many texts are truncated before they are translated."""
        return sum(length > self._longest for length in self._lengths(texts))

    def __call__(self, texts: Sequence[str], *, draw: int = 0) -> list[str]:
        """Translate texts; see `Translator`."""
        lengths = self._lengths(texts)
        order = sorted(range(len(texts)), key=lambda row: -lengths[row])
        hypotheses = self.decoding.beams if self.decoding.temperature is None else 1
        translations = [""] * len(texts)
        while order:
            longest = min(lengths[order[0]], self._longest)
            count = max(1, TOKENS_PER_BATCH // (hypotheses * longest))
            rows, order = order[:count], order[count:]
            for row, text in zip(rows, self._generate([texts[row] for row in rows], draw), strict=True):
                translations[row] = text
        return translations

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        # Without `verbose` the tokenizer warns of texts that are about to be truncated in any case.
        inputs = [self._prefix + text for text in texts]
        rows = self._tokenizer(inputs, verbose=False)["input_ids"] if texts else []
        return [max(1, len(row)) for row in rows]

    @torch.inference_mode()
    def _generate(self, texts: Sequence[str], draw: int) -> list[str]:
        options = {"padding": True, "truncation": True, "max_length": self._longest, "return_tensors": "pt"}
        inputs = self._tokenizer([self._prefix + text for text in texts], **options).to(self._network.device)
        settings = copy.deepcopy(self._network.generation_config)
        settings.update(**self.decoding.arguments())
        if self._forced_bos is not None:
            settings.forced_bos_token_id = self._forced_bos
        seed = hashlib.sha256(json.dumps([self.decoding.seed, draw, *texts]).encode()).digest()
        with torch.random.fork_rng():
            torch.manual_seed(int.from_bytes(seed[:8], "big") >> 1)
            tokens = self._network.generate(
                inputs["input_ids"], attention_mask=inputs["attention_mask"], generation_config=settings
            )
        decoded = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [" ".join(text.split()) for text in decoded]


def _load(name: str) -> tuple[Any, Any]:
    source = find_source(name)
    if not source.config.get("is_encoder_decoder"):
        kind = source.architecture or "of an unknown architecture"
        message = f"{name} is not a translation model: it is {kind}"
        raise InputError(message, "use a sequence-to-sequence model")
    place = {"pretrained_model_name_or_path": source.address, "revision": source.revision}
    with loading(source.address):
        try:
            tokenizer = AutoTokenizer.from_pretrained(**place)
        except ImportError as error:
            message = f"the tokenizer of {name} needs a package: {str(error).strip().splitlines()[0]}"
            raise InputError(message, "pip install sentencepiece sacremoses") from error
        network = AutoModelForSeq2SeqLM.from_pretrained(**place, dtype=torch.float32)
    return network.eval(), tokenizer


def forced_language(tokenizer: Any, source: str | None, target: str | None, *, name: str) -> int | None:
    """Set the source language of a tokenizer of many languages and look the target language up."""
    if not hasattr(tokenizer, "src_lang"):
        if source or target:
            message = f"{name} does not support a choice of languages"
            raise InputError(message, "remove the languages, or put them in a prefix")
        return None
    if not source or not target:
        message = f"{name} is multilingual and needs both languages"
        raise InputError(message, "set the source and target language codes of the model")
    tokens: list[int] = []
    vocabulary = tokenizer.get_vocab()
    for code in (source, target):
        # M2M100 dresses codes up, and has plain words that look like them.
        known = [int(vocabulary[token]) for token in (f"__{code}__", code) if token in vocabulary]
        if not known:
            message = f"{name} does not support the language {code!r}"
            raise InputError(message, "see the model card for its language codes")
        tokens.append(known[0])
    tokenizer.src_lang = source
    return tokens[1]


def digest_of(network: nn.Module, tokenizer: Any) -> str:
    """Return a checksum of what determines a model's translations, besides the options of a call."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    vocabulary = tokenizer.get_vocab()
    if backend is not None:  # padding and truncation are state of the last call, not of the tokenizer
        vocabulary = {**json.loads(backend.to_str()), "padding": None, "truncation": None}
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    configs = [lasting_settings(network.config), lasting_settings(network.generation_config)]
    settings = [*configs, type(tokenizer).__name__, special, vocabulary]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    add_weights(digest, network)
    return digest.hexdigest()
