"""BERT-whitening: a frozen encoder's vectors with mean 0 and unit covariance (Su et al., 2021).

The paper's run from BERT-base on the target sentences, STS-B train, dev and test, with the first and the last
layer averaged; its shorter vectors:

    python training/whitening.py --output whitened-bert-base
    python training/whitening.py --dimensions 256 --output whitened-bert-base-256

A bundled encoder; an encoder with a pooling of its own, which stays; your own sentences:

    python training/whitening.py --base bert-mini --pooling last-2 --output whitened-bert-mini
    python training/whitening.py --base all-MiniLM-L6-v2 --dimensions 128 --output whitened-minilm-128
    python training/whitening.py --data sentences.txt --output mine

The result loads as SentenceTransformer("whitened-bert-base").
"""

from __future__ import annotations

import argparse

from sentence_transformers import SentenceTransformer

from sentemb.transforms import add_whitening
from sentemb.transforms.programs import Fitted, Stopwatch, program_parser, run_program
from sentemb.transforms.sentences import Sentences

CITATION = """
@misc{su-etal-2021-whitening,
  title = {Whitening Sentence Representations for Better Semantics and Faster Retrieval},
  author = {Su, Jianlin and Cao, Jiarun and Liu, Weijie and Ou, Yangyiwen},
  year = {2021},
  eprint = {2103.15316},
  archivePrefix = {arXiv},
}"""
POOLING = "first-last"  # the paper's BERT-base-first-last-avg


def fit(options: argparse.Namespace, model: SentenceTransformer, sentences: Sentences) -> Fitted:
    """Fit the whitening."""
    watch = Stopwatch()
    whitened = add_whitening(
        model,
        [*sentences.first, *(sentences.second or ())],
        dimensions=options.dimensions,
        max_length=options.max_length,
        cache_dir=options.cache_dir,
        progress=True,
    )
    settings = {"kept_dimensions": whitened.get_embedding_dimension()}
    return Fitted(whitened, "BERT-whitening", settings, {"encode_and_fit": watch.lap()}, CITATION, {})


def main() -> None:
    """Read the command line and fit."""
    parser = program_parser(__doc__)
    parser.add_argument("--dimensions", type=int, help="keep the first so many; all by default")
    print(run_program(parser, fit, pooling=lambda options: POOLING))


if __name__ == "__main__":
    main()
