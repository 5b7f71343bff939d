"""The folder of a static student: the model, its card and the record of how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentemb._files import new_folder, write_json, write_text
from sentemb.compression.distillation import TokenVectors
from sentemb.compression.static_files import Storage, write_static
from sentemb.data.sources import name_files
from sentemb.modules.cards import ENCODER_TAGS, front_matter, table

RECORD = "distillation.json"
_TAGS = (*ENCODER_TAGS, "static-embeddings", "model2vec")


def save_student(
    folder: Path,
    student: TokenVectors,
    record: Mapping[str, Any],
    *,
    storage: Storage,
    terms: Mapping[str, str],
) -> int:
    """Write a static student, its card and its record; the folder appears whole.

    Args:
        folder: A folder that is not there yet, or is empty.
        student: The student.
        record: What it was made of and how, JSON values only: `teacher`, `data`, `command`, `agreement` and
            more.
        storage: How its table is kept.
        terms: Licence and language of the teacher, as far as they are known.

    Returns:
        The bytes of the model, without card and record.

    Raises:
        InputError: The folder is there already.
    """
    with new_folder(folder) as partial:
        write_static(partial, student.tokenizer, student.table, storage=storage)
        size = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
        written = {**record, "bytes": size}
        write_json(partial / RECORD, written)
        write_text(partial / "README.md", _card(folder.name, written, terms))
    return size


def _card(name: str, record: Mapping[str, Any], terms: Mapping[str, str]) -> str:
    rows = {
        "Teacher": record["teacher"],
        "License of the teacher": terms.get("license", "not stated in its card"),
        "Texts": _texts(record["data"]),
        "Tokens": f"{record['tokens']:,}",
        "Dimensions": record["dimension"],
        "Stored as": f"{record['storage']}, {record['bytes'] / 1e6:.1f} MB",
        "Cosine with the teacher": f"{record['agreement']['cosine']:.3f}",
        "Agreement on similarities": f"{record['agreement']['similarities']:.3f}",
        "Speed": f"{record['speed']['student']:,.0f} texts per second on the CPU that made it; "
        f"the teacher {record['speed']['teacher']:,.0f}",
        "Seed": record["seed"],
        "Versions": ", ".join(f"{library} {version}" for library, version in record["versions"].items()),
    }
    parts: Sequence[str] = (
        front_matter(terms, tags=_TAGS),
        f"# {name}",
        f"A static encoder, distilled from {record['teacher']} with sentemb. The vector of a text is the "
        "mean "
        "of the vectors of its tokens, normalized to length 1. Tokens are subwords, words and pairs of "
        "words. The "
        "vectors can be shortened to the first 64 or 128 dimensions.",
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        f'encoder = SentenceTransformer("{name}")\n```',
        "`model2vec.StaticModel.from_pretrained` also loads this folder. Made with",
        f"```bash\n{record['command']}\n```",
        table(rows),
        f"Both values are measured on {record['held_out']:,} held-out texts: the mean cosine between the "
        "vectors "
        "of student and teacher, and the Spearman correlation between their similarities of pairs of texts.",
    )
    return "\n\n".join(parts) + "\n"


def _texts(data: Mapping[str, Any]) -> str:
    return f"{data['texts']:,} of {data['documents']:,} documents: {name_files(data)}"
