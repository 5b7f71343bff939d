"""Translators that are sequence-to-sequence models of transformers: Marian, FSMT, M2M100, NLLB, mBART, T5."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from sentemb.errors import InputError
from sentemb.modules.source import find_source, loading
from sentemb.modules.weights import add_weights, lasting_settings

_NO_LIMIT = 1 << 20
"""Tokenizers without a limit give a number of 31 digits."""
_USUAL_LIMIT = 512


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How a translation is chosen.

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

    Texts are translated in batches of similar length, none of which holds more tokens of hypotheses than
    `tokens_per_batch`, unless a single text does. The samples of a batch depend on its texts, the seed and
    the number of the draw alone. Texts that are too long for the model are truncated.

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
        revision: Branch, tag or commit of a hub id.
        tokens_per_batch: Tokens of all hypotheses of a batch; lower it if memory does not suffice.

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
        revision: str | None = None,
        tokens_per_batch: int = 1 << 14,
    ) -> None:
        if tokens_per_batch < 1:
            raise InputError(f"tokens_per_batch is {tokens_per_batch}", "use 1 or more")
        self.name = str(model)
        self.decoding = decoding or Decoding()
        self._prefix = prefix
        self._tokens_per_batch = tokens_per_batch
        self._languages = (source_language, target_language)
        self._network, self._tokenizer = _load(self.name, revision)
        self._forced_bos = forced_language(self._tokenizer, *self._languages, name=self.name)
        self._network.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._longest = longest_input(self._network.config, self._tokenizer)
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
        translations = [""] * len(texts)
        for rows in self._batches(self._lengths(texts)):
            some = self._generate([texts[row] for row in rows], draw)
            for row, translation in zip(rows, some, strict=True):
                translations[row] = translation
        return translations

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        hypotheses = self.decoding.beams if self.decoding.temperature is None else 1
        while order:
            longest = min(lengths[order[0]], self._longest)
            count = max(1, self._tokens_per_batch // (hypotheses * longest))
            yield order[:count]
            order = order[count:]

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        # Without `verbose` the tokenizer warns of texts that are about to be cut in any case.
        tokens = self._tokenizer([self._prefix + text for text in texts], verbose=False)["input_ids"]
        return [max(1, len(row)) for row in tokens]

    @torch.inference_mode()
    def _generate(self, texts: Sequence[str], draw: int) -> list[str]:
        inputs = self._tokenizer(
            [self._prefix + text for text in texts],
            padding=True,
            truncation=True,
            max_length=self._longest,
            return_tensors="pt",
        ).to(self._network.device)
        settings = copy.deepcopy(self._network.generation_config)
        settings.update(**self.decoding.arguments())
        if self._forced_bos is not None:
            settings.forced_bos_token_id = self._forced_bos
        with torch.random.fork_rng():
            torch.manual_seed(self._seed_of(texts, draw))
            tokens = self._network.generate(
                inputs["input_ids"], attention_mask=inputs["attention_mask"], generation_config=settings
            )
        decoded = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [" ".join(text.split()) for text in decoded]

    def _seed_of(self, texts: Sequence[str], draw: int) -> int:
        content = json.dumps([self.decoding.seed, draw, *texts])
        return int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big") >> 1


def _load(name: str, revision: str | None) -> tuple[Any, Any]:
    source = find_source(name, revision=revision)
    if not source.config.get("is_encoder_decoder"):
        kind = source.architecture or "of an unknown architecture"
        raise InputError(
            f"{name} is not a translation model: it is {kind}", "use a sequence-to-sequence model"
        )
    with loading(source.address):
        try:
            tokenizer = AutoTokenizer.from_pretrained(source.address, revision=source.revision)
        except ImportError as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(
                f"the tokenizer of {name} needs a package: {reason}", "pip install sentencepiece sacremoses"
            ) from error
        network = AutoModelForSeq2SeqLM.from_pretrained(
            source.address, revision=source.revision, dtype=torch.float32
        )
    return network.eval(), tokenizer


def longest_input(config: Any, tokenizer: Any) -> int:
    """Return the number of tokens that a model takes."""
    limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    return min((limit for limit in limits if limit and limit < _NO_LIMIT), default=_USUAL_LIMIT)


def forced_language(tokenizer: Any, source: str | None, target: str | None, *, name: str) -> int | None:
    """Set the source language of a tokenizer of many languages and look the target language up."""
    if not hasattr(tokenizer, "src_lang"):
        if source or target:
            raise InputError(
                f"{name} does not support a choice of languages",
                "remove the languages, or put them in a prefix",
            )
        return None
    if not source or not target:
        raise InputError(
            f"{name} is multilingual and needs both languages",
            "set the source and target language codes of the model",
        )
    _language_token(tokenizer, source, name)
    token = _language_token(tokenizer, target, name)
    tokenizer.src_lang = source
    return token


def digest_of(network: nn.Module, tokenizer: Any) -> str:
    """Return a checksum of what determines a model's translations, besides the options of a call."""
    settings = [
        lasting_settings(network.config),
        lasting_settings(network.generation_config),
        type(tokenizer).__name__,
        {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        _vocabulary(tokenizer),
    ]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    add_weights(digest, network)
    return digest.hexdigest()


def _language_token(tokenizer: Any, code: str, name: str) -> int:
    vocabulary = tokenizer.get_vocab()
    for token in (f"__{code}__", code):  # M2M100 dresses them up, and has plain words that look like them
        if token in vocabulary:
            return int(vocabulary[token])
    raise InputError(
        f"{name} does not support the language {code!r}", "see the model card for its language codes"
    )


def _vocabulary(tokenizer: Any) -> dict[str, Any]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return dict(tokenizer.get_vocab())
    # Padding and truncation are state of the last call, not of the tokenizer.
    content = json.loads(backend.to_str())
    return {name: value for name, value in content.items() if name not in ("padding", "truncation")}
