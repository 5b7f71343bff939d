"""The model card: what was trained on what, and how it was scored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from sentemb.modules.bundled import bundled_folder
from sentemb.modules.custom_modules import CUSTOM_MODULES
from sentemb.training.config import TrainConfig

logger = logging.getLogger(__name__)


def write_card(path: Path, make_text: Callable[[], str]) -> None:
    """Write a `README.md`. A card that cannot be made is a warning: it never costs the trained model."""
    try:
        path.write_text(make_text(), encoding="utf-8")
    except Exception as error:  # whatever it is, the model matters more
        logger.warning("no model card: %s", error)


@dataclass(frozen=True)
class Card:
    """A card of a model, whatever kind of model it is.

    Attributes:
        name: The model's name.
        summary: What it is, in a sentence or two.
        code: Python that loads and uses it.
        rows: Settings and scores by title.
        citation: BibTeX of the method.
        base: What it was made of.
        pipeline: The hub's name for what it does.
        tags: Of the hub, beside `sentence-transformers` and `sentemb`.
        after_code: What there is to say on the code.
    """

    name: str
    summary: str
    code: Sequence[str]
    rows: Mapping[str, object]
    citation: str
    base: str
    pipeline: str = "sentence-similarity"
    tags: Sequence[str] = ()
    after_code: str = ""

    def text(self) -> str:
        """The card."""
        front = ["library_name: sentence-transformers", f"pipeline_tag: {self.pipeline}"]
        # Only a hub id may stand here: a path or the name of a bundled model would point to nowhere.
        if not Path(self.base).exists() and bundled_folder(self.base) is None:
            front.append(f"base_model: {self.base}")
        front += ["tags:", *(f"- {tag}" for tag in ("sentence-transformers", *self.tags, "sentemb"))]
        parts = [
            "\n".join(["---", *front, "---"]),
            f"# {self.name}",
            self.summary,
            "\n".join(["```python", *self.code, "```"]),
            *([self.after_code] if self.after_code else []),
            "\n".join(["| | |", "|---|---|", *(_row(title, value) for title, value in self.rows.items())]),
            "The folder `run/` holds every setting, versions and checksums of the data.",
            "## Citation",
            f"```bibtex\n{self.citation.strip()}\n```",
        ]
        return "\n\n".join(parts) + "\n"


ENCODER_TAGS = ("sentence-similarity", "feature-extraction")


def encoder_code(name: str, model: SentenceTransformer) -> list[str]:
    """Python that loads an encoder and encodes two sentences."""
    if any(isinstance(module, CUSTOM_MODULES) for module in model):
        loading = ["import sentemb", "", f'encoder = sentemb.load("{name}")']
    else:
        plain = "from sentence_transformers import SentenceTransformer"
        loading = [plain, "", f'encoder = SentenceTransformer("{name}")']
    return [*loading, 'vectors = encoder.encode(["A man is playing a guitar.", "Someone makes music."])']


def model_card(
    config: TrainConfig, model: SentenceTransformer, record: dict[str, Any], *, citation: str
) -> str:
    """Make the text of the card of a trained encoder."""
    name = Path(config.output).name
    rows = {
        "Recipe": f"{config.recipe} ({config.preset})",
        "Base model": config.base,
        "Training data": f"{config.data}, {record.get('data', {}).get('rows', '?')} rows",
        "Pooling": config.pooling,
        "Loss": f"{config.loss} {dict(config.loss_options)}",
        "Batch size": config.batch_size,
        "Epochs": config.epochs,
        "Learning rate": f"{config.learning_rate:g}",
        "Precision": config.precision,
        "Seed": ", ".join(str(seed) for seed in config.seeds),
        "Dev score": _dev_score(config, record),
    }
    summary = f"A sentence encoder trained with sentemb's `{config.recipe}` recipe."
    code = encoder_code(name, model)
    return Card(name, summary, code, rows, citation, config.base, tags=ENCODER_TAGS).text()


def _row(title: str, value: object) -> str:
    return f"| {title} | {str(value).replace('|', chr(92) + '|')} |"


def _dev_score(config: TrainConfig, record: dict[str, Any]) -> str:
    dev = record.get("dev")
    if not dev or dev.get("score") is None:
        return "none: the last weights, chosen without a dev set"
    weights = "last weights" if config.use_last else f"best of {dev['evaluations']} evaluations"
    return f"{100 * dev['score']:.2f} Spearman of cosines on {config.dev} dev, protocol all ({weights})"
