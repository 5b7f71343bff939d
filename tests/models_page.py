"""Write the table of docs/guides/models.md: what each kind of model can do, tried on the matrix.

A row of the page has its kind, examples and notes; `python -m tests.models_page` fills in the rest.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sentemb.compression.layers import reason_against_pruning
from sentemb.compression.variants import is_text_transformer, original_of, variants_of
from sentemb.modules import load
from tests.models_matrix import MODELS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guides" / "models.md"
_NAMES = (
    "bert bert-e5 bert-instructor bert-dense roberta xlm-roberta mpnet distilbert albert electra ernie "
    "camembert deberta deberta-v2 longformer big-bird funnel t5 mt5 modernbert nomic-bert eurobert gpt2 "
    "gpt-neo gpt-neox-raw opt-raw bloom falcon-raw llama-raw mistral qwen2 qwen3 gemma-raw gemma3 "
    "bert-bf16 bert-matryoshka weighted-layers bert-cnn static words bag-of-words router-static clip"
).split()
"""Models of the matrix that stand for the rows of the table, whose kinds, examples and notes the page has."""
# What torch cannot export or a runtime cannot compute; to find it out takes a minute.
_UNCONVERTED = {
    "longformer": "ONNX and OpenVINO",
    "funnel": "ONNX and OpenVINO",
    "falcon-raw": "ONNX and OpenVINO",
    "gpt2": "int8",
}


def page(folders: Mapping[str, Path]) -> str:
    """Return the text of the page, with what the models of the matrix can do in its first table."""
    text = PAGE.read_text(encoding="utf-8")
    table = re.search(r"(?<=--- \|\n)(\|.*\n)+", text)
    assert table is not None
    lines = table[0].splitlines()
    rows = [_row(line, name, folders[name]) for line, name in zip(lines, _NAMES, strict=True)]
    return text[: table.start()] + "".join(f"| {' | '.join(row)} |\n" for row in rows) + text[table.end() :]


def _row(line: str, name: str, folder: Path) -> tuple[str, ...]:
    title, like, *_, note = (cell.strip() for cell in line.split("|")[1:-1])
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
