"""The card of a masked language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentemb.training.card import Card, recipe_of, run_name
from sentemb.training.config import PretrainConfig
from sentemb.training.settings import shown

_SHOWN_FILES = 5
_CITATION = """
@inproceedings{devlin-etal-2019-bert,
  title = {{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author = {Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle = {NAACL-HLT 2019},
  pages = {4171--4186},
  year = {2019},
}"""


def pretraining_card(config: PretrainConfig, record: Mapping[str, Any]) -> str:
    """Make the text of the card of a masked language model."""
    name, data, loss = run_name(config.output), record["data"], record["validation_loss"]
    size = (
        f"{config.layers} layers of width {config.width}, vocabulary of at most {config.vocabulary:,} tokens"
    )
    rows = {
        "Size": size if config.base is None else None,
        "Training text": f"{_files(data['files'])}: {data['documents']:,} documents",
        "Lines excluded": f"{data['lines_left_out']:,}" if config.exclude else None,
        "Recipe": recipe_of(config),
        "Layers stacked to": config.stack_to,
        "Masking rate": f"{config.masking_rate:g}, whole words",
        "Rows": f"{config.length} tokens, {config.layout}",
        "Batch size": config.batch_size,
        "Steps": f"{record['steps']:,}, {record['throughput']['tokens']:,} tokens",
        "Learning rate": f"{config.learning_rate:g}",
        "Precision": record["throughput"]["precision"],
        "Seed": shown(config.seeds),
        "Validation loss": None if loss is None else f"{loss:.4f}, {record['dev']['metric']}",
    }
    code = [
        "from transformers import AutoModelForMaskedLM, AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")',
        f'model = AutoModelForMaskedLM.from_pretrained("{name}")',
    ]
    return Card(
        name,
        "A pretrained base for sentence encoders: a masked language model trained with sentemb's "
        f"`{config.recipe}` recipe.",
        code,
        rows,
        _CITATION,
        config.base,
        library="transformers",
        pipeline="fill-mask",
        tags=("fill-mask",),
        after_code=f"`sentemb train simcse --base {name}` trains a sentence encoder from it.",
    ).text()


def _files(checksums: Mapping[str, str]) -> str:
    listed = [f"{name} (SHA-256 {checksum[:16]}...)" for name, checksum in checksums.items()]
    more = f" and {len(listed) - _SHOWN_FILES} more files" if len(listed) > _SHOWN_FILES else ""
    return ", ".join(listed[:_SHOWN_FILES]) + more
