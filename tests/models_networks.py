"""Tiny transformers with random weights and their tokenizers, laid out as their folders on the hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    MT5EncoderModel,
    T5EncoderModel,
)

WORDS = (
    "a the cat dog sat ran on mat in park man woman plays guitar is not sleeping children eat red apple "
    "quickly two birds fly over house"
).split()
WIDTH, LAYERS, HEADS = 16, 2, 2


POSITIONS, _LONGEST = 64, 48
_SPREAD = 0.2  # of random weights: wide, so that the layers of an untrained network differ
_SPECIAL = {
    "wordpiece": ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"),
    "bpe": ("<s>", "</s>", "<pad>", "<unk>", "<mask>"),
    "unigram": ("<s>", "</s>", "<pad>", "<unk>", "<mask>"),
}


def write_tokenizer(folder: Path, kind: str, name: str, *, left: bool = False, pads: bool = True) -> int:
    """Write a WordPiece, byte-level BPE or Unigram tokenizer of a class of transformers; return its size."""
    begin, end, padding, unknown, mask = _SPECIAL[kind]
    # In this order where a class of transformers numbers its special tokens itself.
    specials = (
        [begin, padding, end, unknown, mask] if kind != "wordpiece" else [padding, unknown, begin, end, mask]
    )
    if kind == "wordpiece":
        letters = [prefix + letter for letter in "abcdefghijklmnop" for prefix in ("", "##")]
        numbers = {word: row for row, word in enumerate(dict.fromkeys([*specials, *WORDS, *letters]))}
        tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
    elif kind == "bpe":
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        numbers = {word: row for row, word in enumerate([*specials, *letters, "Ġt", "he"])}
        tokenizer = Tokenizer(models.BPE(numbers, [("Ġ", "t"), ("h", "e")]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        pieces = [f"▁{word}" for word in WORDS] + ["▁", *"abcdefghijklmnopqrstuvwxyz"]
        scores = [(word, 0.0) for word in specials]
        scores += [(piece, -1.0 - row) for row, piece in enumerate(pieces)]
        numbers = {word: row for row, (word, _) in enumerate(scores)}
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=3))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}" if left else f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B {end}",
        special_tokens=[(word, numbers[word]) for word in (begin, end)],
    )
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(folder / "tokenizer.json"))
    kinds = ("bos_token cls_token", "eos_token sep_token", "pad_token", "unk_token", "mask_token")
    named = {one: word for some, word in zip(kinds, _SPECIAL[kind], strict=True) for one in some.split()}
    if not pads:
        del named["pad_token"]
    settings = {
        "tokenizer_class": name,
        "model_max_length": _LONGEST,
        "padding_side": "left" if left else "right",
    }
    write_json(folder / "tokenizer_config.json", settings | named)
    return len(numbers)


# Architecture: tokenizer, its class, and the settings that are not called as in BERT.
_USUAL: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": POSITIONS,
}
_GROUPED = {"num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_FIVE = {"d_model": WIDTH, "d_kv": 8, "d_ff": 2 * WIDTH, "num_layers": LAYERS, "num_heads": HEADS}
_SELF_MADE = "PreTrainedTokenizerFast"
_NETWORKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "albert": ("unigram", "AlbertTokenizer", {"embedding_size": 8}),
    "bert": ("wordpiece", "BertTokenizer", {}),
    "big_bird": ("unigram", "BigBirdTokenizer", {"attention_type": "original_full"}),
    "bloom": ("bpe", _SELF_MADE, {"n_layer": LAYERS, "n_head": HEADS}),
    "camembert": ("unigram", "CamembertTokenizer", {"pad_token_id": 1}),
    "deberta": ("bpe", "DebertaTokenizer", {}),
    "deberta-v2": (
        "unigram",
        "DebertaV2Tokenizer",
        {
            "relative_attention": True,
            "position_buckets": 8,
            "pos_att_type": ["p2c", "c2p"],
            "share_att_key": True,
        },
    ),
    "distilbert": (
        "wordpiece",
        "DistilBertTokenizer",
        {"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 2 * WIDTH},
    ),
    "electra": ("wordpiece", "ElectraTokenizer", {"embedding_size": 8}),
    "ernie": ("wordpiece", "BertTokenizer", {}),
    "eurobert": ("bpe", _SELF_MADE, {**_GROUPED, "mask_token_id": 4}),
    "falcon": ("bpe", _SELF_MADE, {"alibi": True}),
    "funnel": (
        "wordpiece",
        "FunnelTokenizer",
        {
            "architectures": ["FunnelModel"],
            "block_sizes": [1, 1],
            "block_repeats": [1, 1],
            "d_model": WIDTH,
            "n_head": HEADS,
            "d_head": 8,
            "d_inner": 2 * WIDTH,
        },
    ),
    "gemma": ("bpe", _SELF_MADE, _GROUPED),
    "gemma3_text": (
        "bpe",
        _SELF_MADE,
        {
            **_GROUPED,
            "use_bidirectional_attention": True,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "gpt2": (
        "bpe",
        "GPT2Tokenizer",
        {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS},
    ),
    "gpt_neo": (
        "bpe",
        "GPT2Tokenizer",
        {"num_layers": LAYERS, "num_heads": HEADS, "attention_types": [[["global", "local"], 1]]},
    ),
    "gpt_neox": ("bpe", "GPTNeoXTokenizer", {}),
    "llama": ("bpe", _SELF_MADE, _GROUPED),
    "longformer": ("bpe", "LongformerTokenizer", {"attention_window": 8, "pad_token_id": 1}),
    "mistral": ("unigram", "LlamaTokenizer", _GROUPED),
    "modernbert": (
        "wordpiece",
        _SELF_MADE,
        {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
    ),
    "mpnet": ("wordpiece", "MPNetTokenizer", {"pad_token_id": 1}),
    "mt5": ("unigram", "T5Tokenizer", _FIVE),
    "nomic_bert": ("wordpiece", "BertTokenizer", {}),
    "opt": ("bpe", "GPT2Tokenizer", {"ffn_dim": 2 * WIDTH, "word_embed_proj_dim": WIDTH, "pad_token_id": 1}),
    "qwen2": ("bpe", "Qwen2Tokenizer", _GROUPED),
    "qwen3": ("bpe", "Qwen2Tokenizer", _GROUPED),
    "roberta": ("bpe", "RobertaTokenizer", {"pad_token_id": 1, "type_vocab_size": 1}),
    "t5": ("unigram", "T5Tokenizer", _FIVE),
    "xlm-roberta": ("unigram", "XLMRobertaTokenizer", {"pad_token_id": 1, "type_vocab_size": 1}),
}


def write_network(
    folder: Path,
    kind: str,
    *,
    task: str = "",
    left: bool = False,
    pads: bool = True,
    dtype: str = "float32",
    **settings: Any,
) -> None:
    """Write a transformer with random weights and its tokenizer, as `save_pretrained` leaves them."""
    vocabulary, name, own = _NETWORKS[kind]
    size = write_tokenizer(folder, vocabulary, name, left=left, pads=pads)
    made: dict[str, Any] = {
        "": AutoModel.from_config,
        "causal": AutoModelForCausalLM.from_config,
        "classifier": AutoModelForSequenceClassification.from_config,
        "masked": AutoModelForMaskedLM.from_config,
    }
    make = {"t5": T5EncoderModel, "mt5": MT5EncoderModel}.get(kind, made[task])
    usual = {} if kind == "funnel" else _USUAL
    config = CONFIG_MAPPING[kind](**{**usual, "vocab_size": size, **own, **settings})
    network = random_network(make, config)
    network.to(getattr(torch, dtype)).save_pretrained(folder)


_POOLINGS = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "max": "max_tokens",
    "weightedmean": "weightedmean_tokens",
    "lasttoken": "lasttoken",
}


def write_encoder(
    folder: Path,
    kind: str,
    *,
    pooling: str | Sequence[str] = "mean",
    behind: Sequence[tuple[str, Callable[[Path], None] | None]] = (),
    options: Mapping[str, Any] = {},
    include_prompt: bool = True,
    **settings: Any,
) -> None:
    """Write a transformer with the files that sentence-transformers puts next to it on the hub."""
    write_network(folder, kind, **settings)
    place = folder / "1_Pooling"
    place.mkdir()
    wanted = [pooling] if isinstance(pooling, str) else pooling
    modes = {
        f"pooling_mode_{_POOLINGS.get(one, one)}": one in wanted
        for one in ("mean_sqrt_len_tokens", *_POOLINGS)
    }
    settings = {"word_embedding_dimension": WIDTH, "include_prompt": include_prompt}
    write_json(place / "config.json", settings | modes)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    for number, (module, write) in enumerate(behind, start=2):
        modules.append((f"{number}_{module}", module))
        if write is not None:
            (folder / f"{number}_{module}").mkdir()
            write(folder / f"{number}_{module}")
    entries = [
        {"idx": row, "name": str(row), "path": path, "type": f"sentence_transformers.models.{module}"}
        for row, (path, module) in enumerate(modules)
    ]
    write_json(folder / "modules.json", entries)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": _LONGEST, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", {"__version__": {"pytorch": "2.1"}, **options})


def random_network(make: Any, config: Any) -> Any:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        network = make(config)
        for weight in network.parameters():
            if weight.ndim > 1:
                weight.normal_(std=_SPREAD)
    return network


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
