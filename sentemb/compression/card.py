"""The card of a compressed model: what it was made of, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentemb.compression.price import Price, Prices
from sentemb.data.sources import name_files
from sentemb.modules.cards import front_matter, table


def card(name: str, meaning: str, prices: Prices, row: Price, about: Mapping[str, Any], folder: Path) -> str:
    """Write the card of a variant.

    Args:
        name: Of the model.
        meaning: What the variant is.
        prices: Of all variants, the model itself first.
        row: The variant's.
        about: `model`, `texts`, `command`, `seed`, `versions`, and the model's `terms`.
        folder: Where the variant is, by whose files one sees how it is loaded.

    Returns:
        Markdown.
    """
    whole, terms = prices.rows[0], about.get("terms", {})
    rows = {
        "Compressed from": about.get("model", "a model"),
        "License of that model": terms.get("license", "not stated in its card"),
        "Texts": name_files(about["texts"]) if "texts" in about else None,
        "Size": f"{row.bytes / 1e6:.1f} MB of {whole.bytes / 1e6:.1f}",
        "Bytes per vector": f"{row.vector_bytes:,} of {whole.vector_bytes:,}",
        "Speed": f"{row.speed:,.0f} texts per second on the machine that made it; the original "
        f"{whole.speed:,.0f}",
        f"Spearman x 100 on {', '.join(prices.pairs)}": row.sts,
        f"NDCG@10 x 100 on queries generated from the texts ({', '.join(prices.tasks)})": row.ndcg,
        "Seed": about.get("seed"),
        "Versions": ", ".join(
            f"{library} {version}" for library, version in about.get("versions", {}).items()
        ),
    }
    shown = {title: _difference(value) for title, value in rows.items() if value not in (None, "")}
    parts = [
        front_matter(terms),
        f"# {name}",
        f"{about.get('model', 'A model')}, compressed by sentemb: {meaning}.",
        f"```python\n{_loading(name, folder)}\n```",
        table(shown),
        "Differences are this model minus the original, with 95% intervals.",
    ]
    if command := about.get("command"):
        parts.insert(4, f"Made with\n\n```bash\n{command}\n```")
    return "\n\n".join(parts) + "\n"


def _difference(value: Any) -> str:
    if getattr(value, "interval", None) is None:
        return str(value)
    low, high = value.interval
    return f"{value.size:+.2f} ({low:+.2f} to {high:+.2f})"


def _loading(name: str, folder: Path) -> str:
    """How the folder is loaded."""
    if "sentemb." in (folder / "modules.json").read_text(encoding="utf-8"):
        return f'import sentemb\n\nencoder = sentemb.load("{name}")'
    backend = next((f', backend="{one}"' for one in ("onnx", "openvino") if (folder / one).is_dir()), "")
    return (
        "from sentence_transformers import SentenceTransformer\n\n"
        f'encoder = SentenceTransformer("{name}"{backend})'
    )
