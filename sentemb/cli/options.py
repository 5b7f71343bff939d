"""Options that several verbs have."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Models = Annotated[list[str], typer.Argument(help="Folder, hub id or word-vector file (GloVe format).")]
Pooling = Annotated[
    str | None, typer.Option(help="For a raw transformer: cls, mean, max, first-last, last-2, ...")
]
Precision = Annotated[
    Literal["float32", "reduced"], typer.Option(help="reduced: fewer bits where that is faster.")
]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Longest input in tokens.")]
Device = Annotated[str | None, typer.Option(help="Such as cpu or cuda:0.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print markdown.")]
AllowCountMismatch = Annotated[
    bool, typer.Option("--allow-count-mismatch", help="Score sets with missing or extra rows.")
]
