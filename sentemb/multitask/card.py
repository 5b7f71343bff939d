"""The model card of a model that serves several tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentemb.multitask.config import MultiTaskConfig


def model_card(config: MultiTaskConfig, record: dict[str, Any], *, citation: str) -> str:
    """Make the text of a card.

    Args:
        config: The run's configuration.
        record: The run's record.
        citation: BibTeX of the method.

    Returns:
        Markdown with the hub's front matter.
    """
    name = Path(config.output).name
    sets = ", ".join(f"{one['set']} ({one['rows']} rows)" for one in record["data"]["train"].values())
    rows = {
        "Row": f"{config.recipe} ({config.preset})",
        "Base model": config.base,
        "Training data": sets,
        "Stages": ", then ".join(record["stages"]),
        "Tasks trained": ", ".join(config.tasks),
        "Heads": f"{config.sharing}, dropout {config.head_dropout:g}",
        "Batch size": config.batch_size,
        "Learning rate": f"{config.learning_rate:g}",
        "Seed": config.seeds[0],
        "Dev score": f"{100 * record['dev']['score']:.2f}, the mean of the three tasks",
    }
    table = [f"| {title} | {str(value).replace('|', chr(92) + '|')} |" for title, value in rows.items()]
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- sentence-similarity
- text-classification
- sentemb
---

# {name}

One encoder for sentiment, paraphrase and similarity, trained with sentemb's `{config.recipe}`.

```python
from sentemb.multitask import MultiTaskModel

model = MultiTaskModel.load("{name}")
model.predict_sentiment(["a text"])
model.predict_paraphrase([("first text", "second text")])
model.predict_similarity([("first text", "second text")])
```

Its encoder alone is `SentenceTransformer("{name}")`.

| | |
|---|---|
{chr(10).join(table)}

`run/config.toml` and `run/record.json` hold every setting, versions and checksums of the data.

## Citation

```bibtex
{citation.strip()}
```
"""
