"""The model card: what was trained on what, and how it was scored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentemb.modules.bundled import bundled_folder
from sentemb.training.config import TrainConfig

logger = logging.getLogger(__name__)


def write_card(path: Path, make_text: Callable[[], str]) -> None:
    """Write a `README.md`. A card that cannot be made is a warning: it never costs the trained model.

    Args:
        path: The file.
        make_text: Makes the text.
    """
    try:
        path.write_text(make_text(), encoding="utf-8")
    except Exception as error:  # whatever it is, the model matters more
        logger.warning("no model card: %s", error)


def model_card(config: TrainConfig, record: dict[str, Any], *, citation: str) -> str:
    """Make the text of a model card.

    Args:
        config: The run's configuration.
        record: The run's record.
        citation: BibTeX of the method.

    Returns:
        Markdown with the hub's front matter.
    """
    name = Path(config.output).name
    data = record.get("data", {})
    front = ["library_name: sentence-transformers", "pipeline_tag: sentence-similarity"]
    # Only a hub id may stand here: a path or the name of a bundled model would point to nowhere.
    if not Path(config.base).exists() and bundled_folder(config.base) is None:
        front.append(f"base_model: {config.base}")
    front += [
        "tags:",
        "- sentence-transformers",
        "- sentence-similarity",
        "- feature-extraction",
        "- sentemb",
    ]
    rows = {
        "Recipe": f"{config.recipe} ({config.preset})",
        "Base model": config.base,
        "Training data": f"{config.data}, {data.get('rows', '?')} rows",
        "Pooling": config.pooling,
        "Loss": f"{config.loss} {dict(config.loss_options)}",
        "Batch size": config.batch_size,
        "Epochs": config.epochs,
        "Learning rate": f"{config.learning_rate:g}",
        "Precision": config.precision,
        "Seed": ", ".join(str(seed) for seed in config.seeds),
        "Dev score": _dev_score(config, record),
    }
    return "\n".join(
        [
            "---",
            *front,
            "---",
            "",
            f"# {name}",
            "",
            f"A sentence encoder trained with sentemb's `{config.recipe}` recipe.",
            "",
            "```python",
            "from sentence_transformers import SentenceTransformer",
            "",
            f'encoder = SentenceTransformer("{name}")',
            'vectors = encoder.encode(["A man is playing a guitar.", "Someone makes music."])',
            "```",
            "",
            "| | |",
            "|---|---|",
            *(f"| {title} | {str(value).replace('|', chr(92) + '|')} |" for title, value in rows.items()),
            "",
            "`run/config.toml` and `run/record.json` hold every setting, versions and checksums of the data.",
            "",
            "## Citation",
            "",
            "```bibtex",
            citation.strip(),
            "```",
            "",
        ]
    )


def _dev_score(config: TrainConfig, record: dict[str, Any]) -> str:
    dev = record.get("dev")
    if not dev or dev.get("score") is None:
        return "none: the last weights, chosen without a dev set"
    weights = "last weights" if config.use_last else f"best of {dev['evaluations']} evaluations"
    return f"{100 * dev['score']:.2f} Spearman of cosines on {config.dev} dev, protocol all ({weights})"
