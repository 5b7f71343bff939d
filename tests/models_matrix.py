"""Tiny encoders of every architecture and combination of modules, laid out as their folders on the hub.

The page of supported models is made of them by `models_page.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer
from sentence_transformers.sentence_transformer.modules.weighted_layer_pooling import WeightedLayerPooling
from tokenizers import Tokenizer
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

from tests.models_networks import (
    HEADS,
    LAYERS,
    POSITIONS,
    WIDTH,
    WORDS,
    random_network,
    write_encoder,
    write_json,
    write_network,
    write_tokenizer,
)


class Model(NamedTuple):
    """A folder of the matrix.

    Attributes:
        name: What tests call it.
        write: Writes it into an empty folder.
        tolerance: How far vectors may be from those of sentence-transformers.
    """

    name: str
    write: Callable[[Path], None]
    tolerance: float = 1e-5


def write_dense(
    folder: Path, *, activation: str = "torch.nn.modules.linear.Identity", inputs: int = WIDTH
) -> None:
    settings = {
        "in_features": inputs,
        "out_features": WIDTH,
        "bias": False,
        "activation_function": activation,
    }
    write_json(folder / "config.json", settings)
    drawn = torch.randn(WIDTH, inputs, generator=torch.Generator().manual_seed(1))
    save_file({"linear.weight": drawn}, folder / "model.safetensors")


def saved(make: Callable[[Path], list[Any]], **options: Any) -> Callable[[Path], None]:
    """A folder that sentence-transformers saves of modules in memory."""

    def write(folder: Path) -> None:
        parts = folder.with_name(f"{folder.name}-parts")
        parts.mkdir()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            modules = make(parts)
        SentenceTransformer(modules=modules, device="cpu", **options).save_pretrained(
            str(folder), create_model_card=False
        )
        shutil.rmtree(parts)

    return write


def _transformer(folder: Path, kind: str = "bert", **settings: Any) -> Any:
    folder.mkdir()
    write_network(folder, kind, **settings)
    return st.Transformer(str(folder))


def _static(folder: Path) -> Any:
    size = write_tokenizer(folder, "wordpiece", "BertTokenizer")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return st.StaticEmbedding(tokenizer, embedding_weights=torch.randn(size, WIDTH).numpy())


def _network(name: str) -> Any:
    made: dict[str, Callable[[], Any]] = {
        "cnn": lambda: st.CNN(WIDTH, WIDTH, [1, 3]),
        "lstm": lambda: st.LSTM(WIDTH, WIDTH // 2),
        "dropout": lambda: st.Dropout(0.1),
        "norm": lambda: st.LayerNorm(WIDTH),
        "weights": lambda: st.WordWeights(WORDS, {word: 1 / len(word) for word in WORDS}),
    }
    return made[name]()


def _words(*behind: str, trained: bool = True) -> Callable[[Path], list[Any]]:
    """Vectors of words, perhaps with a network behind them, and their mean."""

    def make(folder: Path) -> list[Any]:
        tokenizer = WhitespaceTokenizer(WORDS, stop_words=["the"])
        words = st.WordEmbeddings(tokenizer, torch.randn(len(WORDS), WIDTH), update_embeddings=trained)
        others = [_network(name) for name in behind]
        last = next((one for one in reversed(others) if not isinstance(one, st.WordWeights)), words)
        dimension = getattr(last, "get_embedding_dimension", lambda: WIDTH)()
        return [words, *others, st.Pooling(dimension, "mean")]

    return make


def _bag(folder: Path) -> list[Any]:
    return [st.BoW(WORDS, {word: 1 / len(word) for word in WORDS})]


def behind_bert(*names: str) -> Callable[[Path], list[Any]]:
    def make(folder: Path) -> list[Any]:
        before = [_network(name) for name in names if name in ("cnn", "lstm")]
        modules = [_transformer(folder / "bert"), *before]
        pooling = st.Pooling(modules[-1].get_embedding_dimension(), "mean")
        return [*modules, pooling, *(_network(name) for name in names[len(before) :])]

    return make


def _layers(folder: Path) -> list[Any]:
    transformer = _transformer(folder / "bert", output_hidden_states=True)
    pooled = WeightedLayerPooling(WIDTH, num_hidden_layers=LAYERS, layer_start=1)
    return [transformer, pooled, st.Pooling(WIDTH, "mean")]


def _router(folder: Path, *, static: bool) -> list[Any]:
    document = [_transformer(folder / "document"), st.Pooling(WIDTH, "mean")]
    (folder / "query").mkdir()
    query = [_static(folder / "query")] if static else [*document, st.Dense(WIDTH, WIDTH)]
    return [st.Router.for_query_document(query_modules=query, document_modules=document), st.Normalize()]


def _clip(folder: Path, *, raw: bool = False) -> None:
    """CLIP, raw or as `sentence_transformers.models.CLIPModel` in a folder of its own, as on the hub."""
    place = folder if raw else folder / "0_CLIPModel"
    place.mkdir(exist_ok=True)
    size = write_tokenizer(place, "bpe", "CLIPTokenizer")
    small = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    text = {**small, "intermediate_size": 32, "vocab_size": size, "max_position_embeddings": POSITIONS}
    seen = {**small, "intermediate_size": 32, "image_size": 8, "patch_size": 4}
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = CLIPConfig(text_config={**text, **special}, vision_config=seen, projection_dim=WIDTH)
    random_network(CLIPModel, config).save_pretrained(place)
    CLIPImageProcessor(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}).save_pretrained(place)
    if raw:
        return
    entry = {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
    write_json(folder / "modules.json", [entry])


_E5 = {"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": None}
_DEFAULT = {"prompts": {"sts": "a cat "}, "default_prompt_name": "sts"}
_NORMALIZE = [("Normalize", None)]
DENSE = [("Dense", write_dense)]
_TANH = [("Dense", partial(write_dense, activation="torch.nn.modules.activation.Tanh"))]


def encoder(kind: str, **options: Any) -> Callable[[Path], None]:
    return partial(write_encoder, kind=kind, **options)


def raw(kind: str, **options: Any) -> Callable[[Path], None]:
    return partial(write_network, kind=kind, **options)


MODELS = (
    Model("bert", encoder("bert", behind=_NORMALIZE)),
    Model("bert-e5", encoder("bert", options=_E5)),
    Model("bert-default-prompt", encoder("bert", options=_DEFAULT)),
    Model("bert-instructor", encoder("bert", options=_DEFAULT, include_prompt=False, behind=DENSE)),
    Model("bert-cls", encoder("bert", pooling="cls")),
    Model("bert-max", encoder("bert", pooling="max")),
    Model("bert-many-poolings", encoder("bert", pooling=("cls", "mean", "mean_sqrt_len_tokens"))),
    Model("bert-dense", encoder("bert", behind=_TANH)),
    Model("bert-matryoshka", encoder("bert", options={"truncate_dim": 8})),
    Model("bert-fp16", encoder("bert", dtype="float16"), tolerance=5e-3),
    Model("bert-bf16", encoder("bert", dtype="bfloat16"), tolerance=5e-2),
    Model("bert-raw", raw("bert")),
    Model("bert-masked", raw("bert", task="masked")),
    Model("roberta", encoder("roberta")),
    Model("xlm-roberta", encoder("xlm-roberta", pooling="cls", behind=_NORMALIZE)),
    Model("camembert", encoder("camembert")),
    Model("mpnet", encoder("mpnet", behind=_NORMALIZE)),
    Model("distilbert", encoder("distilbert")),
    Model("albert", encoder("albert")),
    Model("electra", encoder("electra")),
    Model("ernie", encoder("ernie")),
    Model("deberta", encoder("deberta")),
    Model("deberta-v2", encoder("deberta-v2")),
    Model("longformer", encoder("longformer")),
    Model("big-bird", encoder("big_bird")),
    Model("funnel", raw("funnel")),
    Model("t5", encoder("t5", behind=[*DENSE, *_NORMALIZE])),
    Model("mt5", encoder("mt5")),
    Model("modernbert", encoder("modernbert", options=_E5)),
    Model("nomic-bert", encoder("nomic_bert", options=_E5)),
    Model("eurobert", encoder("eurobert")),
    Model("gpt2", encoder("gpt2", pooling="weightedmean")),
    Model("gpt2-raw", raw("gpt2", task="causal")),
    Model("gpt-neo", encoder("gpt_neo", pooling="weightedmean")),
    Model("gpt-neox-raw", raw("gpt_neox", task="causal")),
    Model("opt-raw", raw("opt", task="causal")),
    Model("bloom", encoder("bloom", pooling="weightedmean")),
    Model("falcon-raw", raw("falcon", task="causal")),
    Model("llama-raw", raw("llama", task="causal")),
    Model("mistral", encoder("mistral", pooling="lasttoken", left=True, behind=_NORMALIZE)),
    Model("qwen2", encoder("qwen2", pooling="lasttoken", left=True, behind=_NORMALIZE)),
    Model("qwen3", encoder("qwen3", pooling="lasttoken", left=True, behind=_NORMALIZE, options=_E5)),
    Model(
        "qwen3-bf16",
        encoder("qwen3", pooling="lasttoken", left=True, behind=_NORMALIZE, dtype="bfloat16"),
        tolerance=5e-2,
    ),
    Model("gemma-raw", raw("gemma", task="causal")),
    Model("gemma3", encoder("gemma3_text", options=_E5, behind=[*DENSE, *_NORMALIZE])),
    Model("static", saved(lambda folder: [_static(folder)])),
    Model("static-matryoshka", saved(lambda folder: [_static(folder)], truncate_dim=8)),
    Model("words", saved(_words())),
    Model("words-fixed", saved(_words(trained=False))),
    Model("words-weighted", saved(_words("weights"))),
    Model("words-cnn", saved(_words("cnn"))),
    Model("words-lstm", saved(_words("lstm"))),
    Model("bag-of-words", saved(_bag)),
    Model("router", saved(partial(_router, static=False))),
    Model("router-static", saved(partial(_router, static=True))),
    Model("weighted-layers", saved(_layers)),
    Model("bert-cnn", saved(behind_bert("cnn"))),
    Model("bert-norm", saved(behind_bert("dropout", "norm"))),
    Model("clip", _clip),
    Model("clip-raw", partial(_clip, raw=True)),
)
