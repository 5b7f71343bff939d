"""Documents of words that the tiny models know."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from sentemb.data.documents import Document
from tests.conftest import WORDS

_WORDS = [word for word in WORDS if not word.startswith("##")]


def make_documents(count: int, seed: int = 0) -> list[Document]:
    """Documents with a title, of three lines: four words tell one from another, the others are in all."""
    generator = random.Random(seed)
    common, telling = _WORDS[::2], _WORDS[1::2]
    documents = []
    for number in range(count):
        topic = generator.sample(telling, 4)
        lines = [_line(topic, common, generator) for _ in range(3)]
        documents.append(Document("\n".join(lines), str(number), title=f"{' '.join(topic)} {number}"))
    return documents


def _line(topic: list[str], common: list[str], generator: random.Random) -> str:
    words = [*generator.sample(topic, 3), *generator.choices(common, k=5)]
    generator.shuffle(words)
    return " ".join(words)


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    return make_documents(400)


@pytest.fixture(scope="session")
def documents_file(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("documents") / "docs.jsonl"
    rows = [json.dumps({"title": one.title, "text": one.text}) for one in documents]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
