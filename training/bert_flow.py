"""BERT-flow: a frozen encoder's vectors mapped to a normal distribution (Li et al., EMNLP 2020).

The paper's run from BERT-base on the target sentences, STS-B train, dev and test without their scores; the
last two layers averaged; and what the released code really computes:

    python training/bert_flow.py --output flow-bert-base
    python training/bert_flow.py --preset released --output flow-released

A bundled encoder; an encoder with a pooling of its own, which stays; your own sentences or pairs; the options
of the released code:

    python training/bert_flow.py --base bert-mini --pooling last-2 --output flow-bert-mini
    python training/bert_flow.py --base all-MiniLM-L6-v2 --output flow-minilm
    python training/bert_flow.py --data sentences.txt --output mine
    python training/bert_flow.py --set coupling=affine --set permutation=learned --output glow

Every different sentence is encoded once, then only the flow is trained, which takes seconds. The result loads
as sentemb.load("flow-bert-base").
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from sentence_transformers import SentenceTransformer

from sentemb.transforms import add_flow, flow_config
from sentemb.transforms.programs import Fitted, Stopwatch, flow_settings, program_parser, run_program
from sentemb.transforms.sentences import Sentences

CITATION = """
@inproceedings{li-etal-2020-sentence,
  title = {On the Sentence Embeddings from Pre-trained Language Models},
  author = {Li, Bohan and Zhou, Hao and He, Junxian and Wang, Mingxuan and Yang, Yiming and Li, Lei},
  booktitle = {EMNLP 2020},
  pages = {9119--9130},
  year = {2020},
}"""
RELEASED: dict[str, Any] = {  # configuration l3_d3_w32 and run script of the released code
    "levels": 3,
    "steps": 3,
    "width": 32,
    "coupling": "additive",
    "permutation": "reverse",
    "batch_size": 32,
    "epochs": 1,
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "clip": 1.0,
}
POOLINGS = {
    "paper": "last-2",  # as the paper and SG-BERT describe it
    "released": "first-last",  # what its "avg-last-2" averages
}
STEPS_PER_LINE = 50


def fit(options: argparse.Namespace, model: SentenceTransformer, sentences: Sentences) -> Fitted:
    """Fit the flow."""
    config = flow_config(options.preset, **RELEASED | {"seed": options.seed} | flow_settings(options.set))
    curve: list[dict[str, float]] = []
    watch, seconds = Stopwatch(), {}

    def note(step: int, steps: int, bits: float) -> None:
        if step == 1:
            seconds["encode"] = watch.lap()
        if step == 1 or step % STEPS_PER_LINE == 0 or step == steps:
            curve.append({"step": step, "bits_per_dimension": round(bits, 5)})
            print(f"step {step}/{steps}  {bits:.4f} bits per dimension", flush=True)

    fitted = add_flow(
        model,
        *sentences,
        config=config,
        max_length=options.max_length,
        cache_dir=options.cache_dir,
        on_step=note,
        progress=True,
    )
    seconds["fit"] = watch.lap()
    settings = {"preset": options.preset, **asdict(config)}
    return Fitted(fitted, "BERT-flow", settings, seconds, CITATION, {"curve": curve})


def main() -> None:
    """Read the command line and fit."""
    parser = program_parser(__doc__)
    parser.add_argument("--preset", choices=POOLINGS, default="paper")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting")
    print(run_program(parser, fit, pooling=lambda options: POOLINGS[options.preset]))


if __name__ == "__main__":
    main()
