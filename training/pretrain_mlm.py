"""Masked-language-model pre-training of a small BERT from plain text, or of any base on a user's own text.

    python training/pretrain_mlm.py --corpus texts/ --output runs/bert-mini --max-minutes 120
    python training/pretrain_mlm.py --corpus my.txt --output domain --base bert-base-uncased --max-steps 900

The result, `OUTPUT/model`, is a plain transformers folder; SentenceTransformer("OUTPUT/model") loads it.
An interrupted run goes on with the same command and --resume.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sentemb.errors import InputError
from sentemb.pretraining.config import Initialisation, Layout, Precision, PretrainConfig

Paths = list[Path]


def main(
    corpus: Annotated[
        Paths, typer.Option(help="Text files (.txt, .txt.gz, .txt.xz) or folders; repeatable.")
    ],
    output: Annotated[Path, typer.Option(help="Run folder.")],
    base: Annotated[str | None, typer.Option(help="Model to continue from; without it a new BERT.")] = None,
    stack_to: Annotated[int | None, typer.Option(help="Repeat the base's layers up to this number.")] = None,
    exclude: Annotated[Paths | None, typer.Option(help="Files of sentences no line may contain.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of tokenised text to share between runs.")
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Pieces of a new tokenizer.")] = PretrainConfig.vocabulary,
    layers: Annotated[int, typer.Option(help="Of a new BERT.")] = PretrainConfig.layers,
    width: Annotated[int, typer.Option(help="Of a new BERT.")] = PretrainConfig.width,
    heads: Annotated[int, typer.Option(help="Of a new BERT.")] = PretrainConfig.heads,
    inner_width: Annotated[int, typer.Option(help="Of a new BERT.")] = PretrainConfig.inner_width,
    positions: Annotated[int, typer.Option(help="Of a new BERT.")] = PretrainConfig.positions,
    initialise: Annotated[Initialisation, typer.Option(help="New embeddings.")] = PretrainConfig.initialise,
    embedding_scale: Annotated[
        float, typer.Option(help="Standard deviation of a rare token's co-occurrence vector.")
    ] = PretrainConfig.embedding_scale,
    length: Annotated[int, typer.Option(help="Tokens per row.")] = PretrainConfig.length,
    layout: Annotated[
        Layout, typer.Option(help="Full blocks, or one row a document.")
    ] = PretrainConfig.layout,
    masking_rate: Annotated[
        float, typer.Option(help="Share of pieces to predict.")
    ] = PretrainConfig.masking_rate,
    batch_size: Annotated[int, typer.Option(help="Rows per step.")] = PretrainConfig.batch_size,
    learning_rate: Annotated[float, typer.Option(help="At its peak.")] = PretrainConfig.learning_rate,
    embedding_rate: Annotated[
        float, typer.Option(help="Factor of the learning rate for token embeddings.")
    ] = PretrainConfig.embedding_rate,
    warmup: Annotated[float, typer.Option(help="Share of the run.")] = PretrainConfig.warmup,
    dropout: Annotated[float, typer.Option(help="During pre-training only.")] = PretrainConfig.dropout,
    max_steps: Annotated[int | None, typer.Option(help="End by steps.")] = None,
    max_minutes: Annotated[float | None, typer.Option(help="End by the clock.")] = None,
    save_minutes: Annotated[float, typer.Option(help="Between checkpoints.")] = PretrainConfig.save_minutes,
    log_steps: Annotated[int, typer.Option(help="Between lines of metrics.")] = PretrainConfig.log_steps,
    validation_share: Annotated[
        float, typer.Option(help="Share of documents held out.")
    ] = PretrainConfig.validation_share,
    precision: Annotated[Precision, typer.Option(help="auto measures.")] = PretrainConfig.precision,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = PretrainConfig.seed,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> None:
    """Pre-train by masked language modelling; see the top of this file."""
    from sentemb.pretraining.run import pretrain

    config = PretrainConfig(
        corpus=tuple(corpus),
        output=output,
        base=base,
        stack_to=stack_to,
        exclude=tuple(exclude or ()),
        cache=cache,
        vocabulary=vocabulary,
        layers=layers,
        width=width,
        heads=heads,
        inner_width=inner_width,
        positions=positions,
        initialise=initialise,
        embedding_scale=embedding_scale,
        length=length,
        layout=layout,
        masking_rate=masking_rate,
        batch_size=batch_size,
        learning_rate=learning_rate,
        embedding_rate=embedding_rate,
        warmup=warmup,
        dropout=dropout,
        max_steps=max_steps,
        max_minutes=max_minutes,
        save_minutes=save_minutes,
        log_steps=log_steps,
        validation_share=validation_share,
        precision=precision,
        seed=seed,
        resume=resume,
    )
    folder = pretrain(config)
    if folder is not None:
        print(folder)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    # Before torch is imported. Threads that wait for each other by spinning burn the time slices of a shared
    # machine: with 2 threads on 2 busy cores a step took 3 times as long as with this.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        typer.run(main)
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
