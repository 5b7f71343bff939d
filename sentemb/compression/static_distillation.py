"""`distill_static`: a static student of any encoder, from documents to a folder with record and card."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sentemb._files import check_new_folder, new_folder, shareable, write_json, write_text
from sentemb.compression.config import StaticOptions
from sentemb.compression.distillation import (
    Agreement,
    Progress,
    Speed,
    draw_texts,
    ignore_progress,
    measure_speed,
)
from sentemb.compression.static_learning import learn_token_vectors
from sentemb.compression.static_model import write_static
from sentemb.data.documents import read_unique_documents
from sentemb.data.sources import describe_source, name_files
from sentemb.encoding import Precision, load_encoder
from sentemb.evaluation.environment import library_versions
from sentemb.modules.cards import ENCODER_TAGS, base_terms, front_matter, public_name, table
from sentemb.modules.poolings import Poolings

_RECORD = "distillation.json"
_TAGS = (*ENCODER_TAGS, "static-embeddings", "model2vec")


class StaticStudent(NamedTuple):
    """A static student.

    Attributes:
        output: Its folder.
        agreement: Agreement with the teacher on the held-out texts.
        speed: Speed of student and teacher on the CPU.
        bytes: Size of the model, without card and record.
        tokens: Size of the vocabulary.
        dimension: Dimension of the vectors.
        held_out: The held-out texts.
    """

    output: Path
    agreement: Agreement
    speed: Speed
    bytes: int
    tokens: int
    dimension: int
    held_out: list[str]


def distill_static(
    teacher: str,
    texts: str | Path,
    output: str | Path,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    pooling: Poolings | None = None,
    precision: Precision = "float32",
    max_length: int | None = None,
    device: str | None = None,
    cache_dir: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress = ignore_progress,
    **settings: Any,
) -> StaticStudent:
    """Distill an encoder into token vectors on your texts, and write them as a model.

    Each token starts with the teacher's vector of it, frequent tokens with a short one (as in model2vec).
    Training turns the mean of a text's token vectors towards the teacher's vector of the text; rare tokens
    move less. Words and pairs of words whose texts stay farthest from the teacher then become tokens, and all
    vectors are trained again. The folder appears whole, with a card and the record `distillation.json`.

    Args:
        teacher: An encoder with a fast tokenizer: a folder, a hub id or a bundled model.
        texts: Documents, as for `read_unique_documents`.
        output: Folder to create.
        text_column: Column with the text. The default is the only column, or `text`.
        title_column: Column with the title. The default is `title`, if it exists; `none` takes none.
        pooling: Pooling of a pretrained transformer that does not define one.
        precision: Precision of the teacher.
        max_length: Maximum input length of the teacher in tokens. The default is the model's own.
        device: Device of the teacher. The default is the best available.
        cache_dir: Folder in which the teacher's vectors are cached. They are not cached by default.
        data_dir: Folder with the data sets of the catalogue. The default is `SENTEMB_DATA`.
        progress: Called with a stage, the number done and the total.
        **settings: Fields of `StaticOptions`, such as `dimension`, `vocabulary`, `sentences`, `seed`.

    Returns:
        The student.

    Raises:
        InputError: The texts, the teacher, a setting or the folder cannot be used.

    Example:
        >>> distill_static("all-MiniLM-L6-v2", "docs/", "small", dimension=128).agreement  # doctest: +SKIP
    """
    options = StaticOptions(**{name: value for name, value in settings.items() if value is not None})
    output = Path(output)
    check_new_folder(output)
    documents = read_unique_documents(
        texts, text_column=text_column, title_column=title_column, data_dir=data_dir
    )
    drawn = draw_texts(documents, most=options.sentences, seed=options.seed)
    loading: dict[str, Any] = {"pooling": pooling, "precision": precision, "max_length": max_length}
    encoder = load_encoder(teacher, **loading, device=device, cache_dir=cache_dir, data_dir=data_dir)
    student = learn_token_vectors(encoder, drawn, options, progress=progress)
    tokens, dimension = student.table.shape
    progress("timing", 1, 1)
    # On the CPU, where a static student runs, and without its cache.
    timed: Any = getattr(encoder, "encoder", encoder)
    if timed.model.device.type != "cpu":
        timed = load_encoder(teacher, **loading, device="cpu", data_dir=data_dir)
    speed = measure_speed(load_encoder(student.model()), timed, drawn.held_out)
    # The options that decide the texts and the teacher's vectors of them.
    given = {"text_column": text_column, "title_column": title_column, **loading}
    if precision == "float32":
        del given["precision"]
    reading = {name: value for name, value in given.items() if value is not None}
    values = {**options.values(), **reading}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    # Without paths of this machine.
    command = ["sentemb", "distill", public_name(teacher), "--texts", shareable(texts), "-o", output.name]
    record: dict[str, Any] = {
        "teacher": public_name(teacher),
        "teacher_fingerprint": encoder.fingerprint,
        "data": {
            **describe_source(texts, data_dir=data_dir),
            "documents": len(documents),
            "texts": len(drawn.training),
        },
        "held_out": len(drawn.held_out),
        "tokens": tokens,
        "dimension": dimension,
        "storage": options.dtype,
        "steps": options.steps,
        "seed": options.seed,
        **reading,
        "agreement": student.agreement._asdict(),
        "command": shlex.join([*command, *flags]),
        "versions": library_versions(),
        "speed": speed._asdict(),
    }
    with new_folder(output) as folder:
        write_static(folder, student.tokenizer, student.table, storage=options.dtype)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        record["bytes"] = size
        write_json(folder / _RECORD, record)
        write_text(folder / "README.md", _card(output.name, record, base_terms(teacher)))
    return StaticStudent(output, student.agreement, speed, size, tokens, dimension, drawn.held_out)


def _card(name: str, record: Mapping[str, Any], terms: Mapping[str, str]) -> str:
    data = record["data"]
    rows = {
        "Teacher": record["teacher"],
        "License of the teacher": terms.get("license", "not stated in its card"),
        "Texts": f"{data['texts']:,} of {data['documents']:,} documents: {name_files(data)}",
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
    parts = (
        front_matter(terms, tags=_TAGS),
        f"# {name}",
        f"A static encoder, distilled from {record['teacher']} with sentemb. The vector of a text is "
        "the mean of the vectors of its tokens, normalized to length 1. Tokens are subwords, words and pairs "
        "of words. The vectors can be shortened to the first 64 or 128 dimensions.",
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        f'encoder = SentenceTransformer("{name}")\n```',
        "`model2vec.StaticModel.from_pretrained` also loads this folder. Made with",
        f"```bash\n{record['command']}\n```",
        table(rows),
        f"Both values are measured on {record['held_out']:,} held-out texts: the mean cosine between the "
        "vectors of student and teacher, and the Spearman correlation between their similarities of pairs of "
        "texts.",
    )
    return "\n\n".join(parts) + "\n"
