"""Tiny encoders of every architecture and combination of modules, laid out as their folders on the hub.

The table `MODELS` says what each of them can do; the page of supported models is made of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

WORDS = (
    "a the cat dog sat ran on mat in park man woman plays guitar is not sleeping children eat red apple "
    "quickly two birds fly over house"
).split()
WIDTH, LAYERS, HEADS = 16, 2, 2


class Other(NamedTuple):
    """A folder that holds no encoder that sentemb can use.

    Attributes:
        name: What tests call it.
        write: Writes it into an empty folder.
        message: What is said of it.
        hint: What is to be done.
        folder: What its folder is called.
    """

    name: str
    write: Callable[[Path], None]
    message: str
    hint: str
    folder: str = "model"


class Model(NamedTuple):
    """A folder of the matrix.

    Attributes:
        name: What tests call it.
        write: Writes it into an empty folder.
        like: Well-known models of this kind.
        tolerance: How far vectors may be from those of sentence-transformers.
    """

    name: str
    write: Callable[[Path], None]
    like: str = ""
    tolerance: float = 1e-5


_POSITIONS, _LONGEST = 64, 48
_SPREAD = 0.2  # of random weights: wide, so that the layers of an untrained network differ
_SPECIAL = {
    "wordpiece": ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"),
    "bpe": ("<s>", "</s>", "<pad>", "<unk>", "<mask>"),
    "unigram": ("<s>", "</s>", "<pad>", "<unk>", "<mask>"),
}


def write_tokenizer(folder: Path, kind: str, name: str, *, left: bool = False, pads: bool = True) -> int:
    """Write a WordPiece, byte-level BPE or Unigram tokenizer of a class of transformers; return its size."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

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
        scores = [(word, 0.0) for word in specials] + [
            (piece, -1.0 - row) for row, piece in enumerate(pieces)
        ]
        numbers = {word: row for row, (word, _) in enumerate(scores)}
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=3))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    around = (begin, end)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}" if left else f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B {end}",
        special_tokens=[(word, numbers[word]) for word in around],
    )
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(folder / "tokenizer.json"))
    kinds = (
        ("bos_token", "cls_token"),
        ("eos_token", "sep_token"),
        ("pad_token",),
        ("unk_token",),
        ("mask_token",),
    )
    named = {one: word for some, word in zip(kinds, _SPECIAL[kind], strict=True) for one in some}
    if not pads:
        del named["pad_token"]
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": name,
            "model_max_length": _LONGEST,
            "padding_side": "left" if left else "right",
            **named,
        },
    )
    return len(numbers)


# Architecture: tokenizer, its class, and the settings that are not called as in BERT.
_USUAL: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": _POSITIONS,
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
        {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": _POSITIONS},
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
    folder: Path, kind: str, *, task: str = "", left: bool = False, dtype: str = "float32", **settings: Any
) -> None:
    """Write a transformer with random weights and its tokenizer, as `save_pretrained` leaves them."""
    import torch
    from transformers import (
        CONFIG_MAPPING,
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForMaskedLM,
        AutoModelForSequenceClassification,
        MT5EncoderModel,
        T5EncoderModel,
    )

    vocabulary, name, own = _NETWORKS[kind]
    size = write_tokenizer(folder, vocabulary, name, left=left)
    made: dict[str, Any] = {
        "": AutoModel.from_config,
        "causal": AutoModelForCausalLM.from_config,
        "classifier": AutoModelForSequenceClassification.from_config,
        "masked": AutoModelForMaskedLM.from_config,
    }
    make = {"t5": T5EncoderModel, "mt5": MT5EncoderModel}.get(kind, made[task])
    usual = {} if kind == "funnel" else _USUAL
    config = CONFIG_MAPPING[kind](**{**usual, "vocab_size": size, **own, **settings})
    network = _random(make, config)
    network.to(getattr(torch, dtype)).save_pretrained(folder)


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
    """Write a transformer with the files that sentence-transformers puts beside it on the hub."""
    write_network(folder, kind, **settings)
    place = folder / "1_Pooling"
    place.mkdir()
    modes = {
        "cls": "cls_token",
        "mean": "mean_tokens",
        "max": "max_tokens",
        "weightedmean": "weightedmean_tokens",
    }
    wanted = {modes.get(one, one) for one in ([pooling] if isinstance(pooling, str) else pooling)}
    names = (
        "cls_token",
        "mean_tokens",
        "max_tokens",
        "mean_sqrt_len_tokens",
        "weightedmean_tokens",
        "lasttoken",
    )
    _write(
        place / "config.json",
        {
            "word_embedding_dimension": WIDTH,
            **{f"pooling_mode_{name}": name in wanted for name in names},
            "include_prompt": include_prompt,
        },
    )
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
    _write(folder / "modules.json", entries)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": _LONGEST, "do_lower_case": False})
    _write(folder / "config_sentence_transformers.json", {"__version__": {"pytorch": "2.1"}, **options})


def _dense(
    folder: Path, *, activation: str = "torch.nn.modules.linear.Identity", inputs: int = WIDTH
) -> None:
    import torch
    from safetensors.torch import save_file

    settings = {
        "in_features": inputs,
        "out_features": WIDTH,
        "bias": False,
        "activation_function": activation,
    }
    _write(folder / "config.json", settings)
    drawn = torch.randn(WIDTH, inputs, generator=torch.Generator().manual_seed(1))
    save_file({"linear.weight": drawn}, folder / "model.safetensors")


def _saved(make: Callable[[Path], list[Any]], **options: Any) -> Callable[[Path], None]:
    """A folder that sentence-transformers saves of modules in memory."""

    def write(folder: Path) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        (folder / "parts").mkdir()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            modules = make(folder / "parts")
        SentenceTransformer(modules=modules, device="cpu", **options).save_pretrained(
            str(folder), create_model_card=False
        )

    return write


def _transformer(folder: Path, kind: str = "bert", **settings: Any) -> Any:
    from sentence_transformers.sentence_transformer.modules import Transformer

    folder.mkdir()
    write_network(folder, kind, **settings)
    return Transformer(str(folder))


def _static(folder: Path) -> Any:
    import torch
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    size = write_tokenizer(folder, "wordpiece", "BertTokenizer")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return StaticEmbedding(tokenizer, embedding_weights=torch.randn(size, WIDTH).numpy())


def _words(*behind: str, trained: bool = True) -> Callable[[Path], list[Any]]:
    """Vectors of words, perhaps with a network behind them, and their mean."""

    def make(folder: Path) -> list[Any]:
        import torch
        from sentence_transformers.sentence_transformer import modules as st
        from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

        tokenizer = WhitespaceTokenizer(WORDS, stop_words=["the"])
        words = st.WordEmbeddings(tokenizer, torch.randn(len(WORDS), WIDTH), update_embeddings=trained)
        made = {
            "cnn": lambda: st.CNN(WIDTH, WIDTH, [1, 3]),
            "lstm": lambda: st.LSTM(WIDTH, WIDTH // 2),
            "weights": lambda: st.WordWeights(WORDS, {word: 1 / len(word) for word in WORDS}),
        }
        others = [made[name]() for name in behind]
        last = next((one for one in reversed(others) if not isinstance(one, st.WordWeights)), words)
        dimension = getattr(last, "get_embedding_dimension", lambda: WIDTH)()
        return [words, *others, st.Pooling(dimension, "mean")]

    return make


def _bag(folder: Path) -> list[Any]:
    from sentence_transformers.sentence_transformer.modules import BoW

    return [BoW(WORDS, {word: 1 / len(word) for word in WORDS})]


def _behind_bert(*names: str) -> Callable[[Path], list[Any]]:
    def make(folder: Path) -> list[Any]:
        from sentence_transformers.sentence_transformer import modules as st

        made: dict[str, Callable[[], Any]] = {
            "cnn": lambda: st.CNN(WIDTH, WIDTH, [1, 3]),
            "lstm": lambda: st.LSTM(WIDTH, WIDTH // 2),
            "dropout": lambda: st.Dropout(0.1),
            "norm": lambda: st.LayerNorm(WIDTH),
        }
        first = [name for name in names if name in ("cnn", "lstm")]
        modules = [_transformer(folder / "bert"), *(made[name]() for name in first)]
        dimension = modules[-1].get_embedding_dimension()
        return [
            *modules,
            st.Pooling(dimension, "mean"),
            *(made[name]() for name in names if name not in first),
        ]

    return make


def _layers(folder: Path) -> list[Any]:
    from sentence_transformers.sentence_transformer.modules import Pooling
    from sentence_transformers.sentence_transformer.modules.weighted_layer_pooling import WeightedLayerPooling

    transformer = _transformer(folder / "bert", output_hidden_states=True)
    pooled = WeightedLayerPooling(WIDTH, num_hidden_layers=LAYERS, layer_start=1)
    return [transformer, pooled, Pooling(WIDTH, "mean")]


def _router(folder: Path, *, static: bool) -> list[Any]:
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Router

    document = [_transformer(folder / "document"), Pooling(WIDTH, "mean")]
    (folder / "query").mkdir()
    query = [_static(folder / "query")] if static else [*document, Dense(WIDTH, WIDTH)]
    return [Router.for_query_document(query_modules=query, document_modules=document), Normalize()]


def _clip(folder: Path) -> None:
    """CLIP of `sentence_transformers.models.CLIPModel`, in a folder of its own as on the hub."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    place = folder / "0_CLIPModel"
    place.mkdir()
    size = write_tokenizer(place, "bpe", "CLIPTokenizer")
    small = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    text = {**small, "intermediate_size": 32, "vocab_size": size, "max_position_embeddings": _POSITIONS}
    seen = {**small, "intermediate_size": 32, "image_size": 8, "patch_size": 4}
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = CLIPConfig(text_config={**text, **special}, vision_config=seen, projection_dim=WIDTH)
    _random(CLIPModel, config).save_pretrained(place)
    CLIPImageProcessor(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}).save_pretrained(place)
    entry = {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
    _write(folder / "modules.json", [entry])


def _random(make: Any, config: Any) -> Any:
    import torch

    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        network = make(config)
        for weight in network.parameters():
            if weight.ndim > 1:
                weight.normal_(std=_SPREAD)
    return network


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


_E5 = {"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": None}
_DEFAULT = {"prompts": {"sts": "a cat "}, "default_prompt_name": "sts"}
_NORMALIZE = [("Normalize", None)]
_DENSE = [("Dense", _dense)]
_TANH = [("Dense", partial(_dense, activation="torch.nn.modules.activation.Tanh"))]


def _encoder(kind: str, **options: Any) -> Callable[[Path], None]:
    return partial(write_encoder, kind=kind, **options)


def _raw(kind: str, **options: Any) -> Callable[[Path], None]:
    return partial(write_network, kind=kind, **options)


MODELS = (
    Model("bert", _encoder("bert", behind=_NORMALIZE), "all-MiniLM, BGE, GTE"),
    Model("bert-e5", _encoder("bert", options=_E5), "E5"),
    Model("bert-default-prompt", _encoder("bert", options=_DEFAULT), ""),
    Model(
        "bert-instructor",
        _encoder("bert", options=_DEFAULT, include_prompt=False, behind=_DENSE),
        "Instructor",
    ),
    Model("bert-cls", _encoder("bert", pooling="cls"), "BGE"),
    Model("bert-max", _encoder("bert", pooling="max"), ""),
    Model("bert-many-poolings", _encoder("bert", pooling=("cls", "mean", "mean_sqrt_len_tokens")), ""),
    Model("bert-dense", _encoder("bert", behind=_TANH), "distiluse"),
    Model("bert-matryoshka", _encoder("bert", options={"truncate_dim": 8}), "MRL"),
    Model("bert-fp16", _encoder("bert", dtype="float16"), "", tolerance=5e-3),
    Model("bert-bf16", _encoder("bert", dtype="bfloat16"), "", tolerance=5e-2),
    Model("bert-raw", _raw("bert"), "bert-base"),
    Model("bert-masked", _raw("bert", task="masked"), "bert-base"),
    Model("roberta", _encoder("roberta"), "all-distilroberta"),
    Model(
        "xlm-roberta", _encoder("xlm-roberta", pooling="cls", behind=_NORMALIZE), "BGE-M3, multilingual E5"
    ),
    Model("camembert", _encoder("camembert"), ""),
    Model("mpnet", _encoder("mpnet", behind=_NORMALIZE), "all-mpnet-base"),
    Model("distilbert", _encoder("distilbert"), ""),
    Model("albert", _encoder("albert"), "paraphrase-albert"),
    Model("electra", _encoder("electra"), ""),
    Model("ernie", _encoder("ernie"), ""),
    Model("deberta", _encoder("deberta"), ""),
    Model("deberta-v2", _encoder("deberta-v2"), "DeBERTa-v3"),
    Model("longformer", _encoder("longformer"), ""),
    Model("big-bird", _encoder("big_bird"), ""),
    Model("funnel", _raw("funnel"), ""),
    Model("t5", _encoder("t5", behind=[*_DENSE, *_NORMALIZE]), "sentence-t5, GTR"),
    Model("mt5", _encoder("mt5"), ""),
    Model("modernbert", _encoder("modernbert", options=_E5), "ModernBERT-embed, GTE-ModernBERT"),
    Model("nomic-bert", _encoder("nomic_bert", options=_E5), ""),
    Model("eurobert", _encoder("eurobert"), ""),
    Model("gpt2", _encoder("gpt2", pooling="weightedmean"), "SGPT"),
    Model("gpt-neo", _encoder("gpt_neo", pooling="weightedmean"), "SGPT"),
    Model("gpt-neox-raw", _raw("gpt_neox", task="causal"), "Pythia"),
    Model("opt-raw", _raw("opt", task="causal"), ""),
    Model("bloom", _encoder("bloom", pooling="weightedmean"), "SGPT-BLOOM"),
    Model("falcon-raw", _raw("falcon", task="causal"), ""),
    Model("llama-raw", _raw("llama", task="causal"), "Llama 3"),
    Model("mistral", _encoder("mistral", pooling="lasttoken", left=True, behind=_NORMALIZE), "E5-Mistral"),
    Model("qwen2", _encoder("qwen2", pooling="lasttoken", left=True, behind=_NORMALIZE), "GTE-Qwen2"),
    Model(
        "qwen3",
        _encoder("qwen3", pooling="lasttoken", left=True, behind=_NORMALIZE, options=_E5),
        "Qwen3-Embedding",
    ),
    Model(
        "qwen3-bf16",
        _encoder("qwen3", pooling="lasttoken", left=True, behind=_NORMALIZE, dtype="bfloat16"),
        "Qwen3-Embedding",
        tolerance=5e-2,
    ),
    Model("gemma-raw", _raw("gemma", task="causal"), ""),
    Model("gemma3", _encoder("gemma3_text", options=_E5, behind=[*_DENSE, *_NORMALIZE]), "EmbeddingGemma"),
    Model("static", _saved(lambda folder: [_static(folder)]), "static-retrieval-mrl"),
    Model("static-matryoshka", _saved(lambda folder: [_static(folder)], truncate_dim=8), ""),
    Model("words", _saved(_words()), "average_word_embeddings_glove"),
    Model("words-fixed", _saved(_words(trained=False)), ""),
    Model("words-weighted", _saved(_words("weights")), ""),
    Model("words-cnn", _saved(_words("cnn")), ""),
    Model("words-lstm", _saved(_words("lstm")), ""),
    Model("bag-of-words", _saved(_bag), ""),
    Model("router", _saved(partial(_router, static=False)), ""),
    Model("router-static", _saved(partial(_router, static=True)), ""),
    Model("weighted-layers", _saved(_layers), ""),
    Model("bert-cnn", _saved(_behind_bert("cnn")), ""),
    Model("bert-norm", _saved(_behind_bert("dropout", "norm")), ""),
    Model("clip", _clip, "clip-ViT-B-32"),
)


def _edited(write: Callable[[Path], None], name: str, **fields: Any) -> Callable[[Path], None]:
    """A folder with other fields in one of its files."""

    def edit(folder: Path) -> None:
        write(folder)
        path = folder / name
        _write(path, {**(json.loads(path.read_text()) if path.exists() else {}), **fields})

    return edit


def _with_module(kind: str) -> Callable[[Path], None]:
    """An encoder whose list of modules has one of another package."""

    def write(folder: Path) -> None:
        write_encoder(folder, "bert")
        modules = json.loads((folder / "modules.json").read_text())
        modules[0]["type"] = kind
        _write(folder / "modules.json", modules)

    return write


def _pickled(folder: Path) -> None:
    import torch

    write_encoder(folder, "bert", behind=_DENSE)
    (folder / "2_Dense" / "model.safetensors").unlink()
    torch.save({"linear.weight": torch.ones(WIDTH, WIDTH)}, folder / "2_Dense" / "pytorch_model.bin")


def _lacking(folder: Path) -> None:
    """Weights by other names, as a network of the model's own code has them."""
    from safetensors.torch import load_file, save_file

    write_network(folder, "bert")
    weights = load_file(folder / "model.safetensors")
    renamed = {name.replace("attention.self", "mixer"): weight for name, weight in weights.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})


def _sees(folder: Path) -> None:
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    small = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "intermediate_size": 32,
    }
    _random(ViTModel, ViTConfig(**small, image_size=8, patch_size=4)).save_pretrained(folder)
    ViTImageProcessor(size={"height": 8, "width": 8}).save_pretrained(folder)


_OPTIONS = "config_sentence_transformers.json"
_AUTO = {"AutoModel": "modeling_own.OwnModel"}
OTHERS = (
    Other("cross-encoder", _raw("bert", task="classifier", num_labels=1), "is a cross-encoder", "--reranker"),
    Other("classifier", _raw("bert", task="classifier", num_labels=3), "is a classifier", "trained from"),
    Other(
        "cross-encoder-saved",
        _edited(_encoder("bert"), _OPTIONS, model_type="CrossEncoder"),
        "is a cross-",
        "--rerank",
    ),
    Other(
        "decoder-reranker",
        _raw("qwen3", task="causal"),
        "is a cross-encoder",
        "--reranker",
        "Qwen3-Reranker-0.6B",
    ),
    Other(
        "colbert",
        _edited(_raw("bert"), "config.json", architectures=["HF_ColBERT"]),
        "is a multi-vector",
        "one vector",
    ),
    Other("pylate", _with_module("pylate.models.Transformer.Transformer"), "is a multi-vector", "one vector"),
    Other("splade-raw", _raw("bert", task="masked"), "is a sparse encoder", "dense encoder", "splade-v3"),
    Other(
        "splade",
        _with_module("sentence_transformers.sparse_encoder.models.MLMTransformer"),
        "is a sparse encoder",
        "dense encoder",
    ),
    Other(
        "sparse",
        _edited(_encoder("bert"), _OPTIONS, model_type="SparseEncoder"),
        "is a sparse",
        "dense encoder",
    ),
    Other(
        "newer",
        _edited(_encoder("bert"), _OPTIONS, model_type="Novel"),
        "kind that sentemb does not know",
        "encoder",
    ),
    Other(
        "own-module",
        _with_module("custom_st.Transformer"),
        r"code of its own \(custom_st",
        "trust_remote_code",
    ),
    Other(
        "own-network",
        _edited(_raw("bert"), "config.json", model_type="own", auto_map=_AUTO),
        r"code of its own \(auto_map",
        "trust_remote_code",
    ),
    Other(
        "own-weights",
        _edited(_lacking, "config.json", auto_map=_AUTO),
        "code of its own",
        "trust_remote_code",
    ),
    Other("unknown", _edited(_raw("bert"), "config.json", model_type="own"), "cannot load", "newer release"),
    Other(
        "model2vec",
        lambda folder: _write(folder / "config.json", {"model_type": "model2vec"}),
        "is a model2vec",
        "from_model2vec",
    ),
    Other(
        "adapter",
        lambda folder: _write(folder / "adapter_config.json", {"peft_type": "LORA"}),
        "is an adapter",
        "merge",
    ),
    Other("pickle", _pickled, "2_Dense holds its weights as a pickle", "SentenceTransformer(folder)"),
    Other("image", _sees, "takes no text", "encoder of texts"),
    Other("broken-chain", _saved(_behind_bert("lstm")), "cannot load .*sentence_lengths", "the whole error"),
)
