"""Write the table of docs/guides/models.md: what each kind of model can do, tried on the matrix.

Run `python -m tests.models_page` after a change of the matrix.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from sentemb.compression.layers import reason_against_pruning
from sentemb.compression.variants import is_text_transformer, original_of, variants_of
from sentemb.modules import load
from tests.models_matrix import MODELS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guides" / "models.md"
# What a reader calls a model of the matrix, well-known ones of the kind, and what is special about it.
_ROWS: dict[str, tuple[str, str, str]] = {
    "bert": ("BERT", "all-MiniLM, BGE, GTE", ""),
    "bert-e5": ("BERT with prompts", "E5", "prompts are used in every command"),
    "bert-instructor": ("BERT, prompts excluded from the pooling", "Instructor", ""),
    "bert-dense": ("BERT with Dense layers", "distiluse", ""),
    "roberta": ("RoBERTa", "all-distilroberta", ""),
    "xlm-roberta": ("XLM-RoBERTa", "BGE-M3, multilingual E5", ""),
    "mpnet": ("MPNet", "all-mpnet-base", ""),
    "distilbert": ("DistilBERT", "msmarco-distilbert", ""),
    "albert": ("ALBERT", "paraphrase-albert", "its layers share their weights"),
    "electra": ("ELECTRA", "", ""),
    "ernie": ("ERNIE", "", ""),
    "camembert": ("CamemBERT", "sentence-camembert", ""),
    "deberta": ("DeBERTa", "", ""),
    "deberta-v2": ("DeBERTa-v2, DeBERTa-v3", "mDeBERTa", ""),
    "longformer": ("Longformer", "", ""),
    "big-bird": ("BigBird", "", ""),
    "funnel": ("Funnel", "", ""),
    "t5": ("T5 encoder", "sentence-t5, GTR", ""),
    "mt5": ("mT5 encoder", "", ""),
    "modernbert": ("ModernBERT", "ModernBERT-embed, GTE-ModernBERT", ""),
    "nomic-bert": ("NomicBERT in the format of transformers", "nomic-embed-text", ""),
    "eurobert": ("EuroBERT", "", ""),
    "gpt2": ("GPT-2", "SGPT", ""),
    "gpt-neo": ("GPT-Neo", "SGPT", ""),
    "gpt-neox-raw": ("GPT-NeoX, pretrained base", "Pythia", "pools the last token"),
    "opt-raw": ("OPT, pretrained base", "", "pools the last token"),
    "bloom": ("BLOOM", "SGPT-BLOOM", ""),
    "falcon-raw": ("Falcon, pretrained base", "", "pools the last token"),
    "llama-raw": ("Llama, pretrained base", "", "pools the last token"),
    "mistral": ("Mistral, padded on the left", "E5-Mistral", ""),
    "qwen2": ("Qwen2, padded on the left", "GTE-Qwen2", ""),
    "qwen3": ("Qwen3, padded on the left", "Qwen3-Embedding", ""),
    "gemma-raw": ("Gemma, pretrained base", "", "pools the last token"),
    "gemma3": ("Gemma 3", "EmbeddingGemma", ""),
    "bert-bf16": ("weights in float16 or bfloat16", "Qwen3-Embedding", "trained in float32"),
    "bert-matryoshka": ("`truncate_dim`", "Matryoshka models", "trained and compressed as truncated"),
    "weighted-layers": (
        "WeightedLayerPooling",
        "`--pooling first-last`, `last-2`",
        "graphs have only one layer",
    ),
    "bert-cnn": ("CNN or LayerNorm behind a transformer", "", ""),
    "static": ("StaticEmbedding", "static-retrieval-mrl, Model2Vec", ""),
    "words": (
        "WordEmbeddings, with mean, CNN or LSTM",
        "average_word_embeddings_glove",
        "training needs `update_embeddings`",
    ),
    "bag-of-words": ("BoW", "", ""),
    "router-static": ("Router, Asym", "", "pairs train both routes, single texts the default route"),
    "clip": ("CLIP", "clip-ViT-B-32", "texts only"),
}
# What torch cannot export or a runtime cannot compute; to find it out takes a minute.
_UNCONVERTED = {
    "longformer": "ONNX and OpenVINO",
    "funnel": "ONNX and OpenVINO",
    "falcon-raw": "ONNX and OpenVINO",
    "gpt2": "int8",
}
_COLUMNS = ("kind", "such as", "encode", "train, adapt", "fewer layers", "compress", "notes")


def page(folders: Mapping[str, Path]) -> str:
    """Return the text of the page, whose first table is made from the models of the matrix."""
    head, first, after = PAGE.read_text(encoding="utf-8").partition(f"| {' | '.join(_COLUMNS)} |\n")
    rows = [("---",) * len(_COLUMNS), *(_row(name, folders[name]) for name in _ROWS)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in rows)
    return head + first + table + after[after.index("\n\n") + 1 :]


def _row(name: str, folder: Path) -> tuple[str, ...]:
    title, like, note = _ROWS[name]
    model = load(folder, device="cpu")
    trains = any(weight.requires_grad for weight in model.parameters())
    original = original_of(model, [])
    made = {variant.name for variant in variants_of(original)[0]}
    if is_text_transformer(original.model):
        lacking = [*_without(made), *([_UNCONVERTED[name]] if name in _UNCONVERTED else [])]
        forms = f"all but {', '.join(lacking)}" if lacking else "all"
    else:
        forms = "vectors, int8 table" if "int8" in made else "vectors"
    return (title, like, "✓", _tick(trains), _tick(reason_against_pruning(model) is None), forms, note)


def _without(made: set[str]) -> list[str]:
    names = {"bf16": "bfloat16", "onnx": "ONNX and OpenVINO"}
    return [title for name, title in names.items() if name not in made]


def _tick(works: bool) -> str:
    return "✓" if works else "–"


def main() -> None:
    """Build the models and write the page."""
    with tempfile.TemporaryDirectory() as place:
        for model in MODELS:
            (Path(place) / model.name).mkdir()
            model.write(Path(place) / model.name)
        PAGE.write_text(page({model.name: Path(place) / model.name for model in MODELS}), encoding="utf-8")


if __name__ == "__main__":
    main()
