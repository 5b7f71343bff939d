"""Compare LaCon's ICL + LCL with SupCon as the batch grows.

    python benchmarks/label_losses.py --output benchmarks/results/label_losses.json

LaCon compares N texts with C labels, SupCon compares the texts with each other, so their costs should grow
like N * C and N^2. Both losses get the same N random vectors of BERT-base's width and compute gradients for
them. Encoder and head are not part of it, because they cost the same in both. Steps are interleaved in one
process. Peak memory is measured in a separate process for each figure, without the vectors and the memory of
a batch of 8. `growth` is the exponent of N between the two largest batches, `supcon_to_lacon` the ratio of
the CPU times.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from sg_opt_step import peak_resident
from torch import Tensor, nn

from sentemb._files import write_json
from sentemb.evaluation.environment import hardware
from sentemb.losses import LaConLoss, SupConLoss
from sentemb.modules import LabelHead

WIDTH = 768
BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)
CLASSES = (2, 15)  # most sets of the paper, and its largest in the main table, Tnews
VARIANTS = ("supcon", "lacon")


def make_step(variant: str, classes: int) -> Callable[[Tensor], None]:
    """One forward and backward of a loss, from and to the vectors of a batch."""
    torch.manual_seed(0)
    nothing = nn.Linear(1, 1)  # stands for the encoder, which is not run
    if variant == "supcon":
        loss: nn.Module = SupConLoss(nothing)
    else:
        loss = LaConLoss(nothing, LabelHead(WIDTH, classes), ler_weight=0)

    def step(vectors: Tensor) -> None:
        vectors.grad = None
        value = loss.compute_loss_from_embeddings([vectors], torch.arange(len(vectors)) % classes)
        total: Tensor = sum(value.values()) if isinstance(value, dict) else value
        total.backward()

    return step


def make_vectors(rows: int) -> Tensor:
    """Sentence vectors that take a gradient."""
    return torch.randn(rows, WIDTH, requires_grad=True)


def time_steps(classes: int, rows: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds of each variant by the clock and of processor time, one step of each in turn."""
    vectors = make_vectors(rows)
    steps = {variant: make_step(variant, classes) for variant in VARIANTS}
    seconds: dict[str, list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
    for number in range(rounds + 1):
        for variant, step in steps.items():
            start = time.perf_counter(), time.process_time()
            step(vectors)
            if number:  # the first round warms up
                seconds[variant].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return {
        variant: (
            statistics.median(clock for clock, _ in pairs),
            statistics.median(used for _, used in pairs),
        )
        for variant, pairs in seconds.items()
    }


def peak_memory(variant: str, classes: int, rows: int, threads: int) -> float:
    """Megabytes that one step needs beyond its vectors and a step of 8 rows."""
    command = [sys.executable, __file__, "--threads", str(threads), "--measure-memory"]
    command += [variant, str(classes), str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure_memory(variant: str, classes: int, rows: int) -> None:
    """Print the growth of the largest resident set."""
    step = make_step(variant, classes)
    step(make_vectors(8))
    vectors = make_vectors(rows)
    before = peak_resident()
    step(vectors)
    print(peak_resident() - before)


def measure(classes: int, arguments: argparse.Namespace) -> dict:
    """All figures of one number of classes."""
    batches = []
    for rows in arguments.batches:
        timed = time_steps(classes, rows, arguments.rounds)
        used = {variant: processor for variant, (_, processor) in timed.items()}
        batches.append(
            {
                "batch_size": rows,
                "supcon_to_lacon": used["supcon"] / used["lacon"],
                "variants": {
                    variant: {
                        "step_ms": 1000 * clock,
                        # Processor time tells more than the clock where other programs run beside.
                        "processor_ms": 1000 * processor,
                        "peak_memory_mb": peak_memory(variant, classes, rows, arguments.threads),
                    }
                    for variant, (clock, processor) in timed.items()
                },
            }
        )
    return {"classes": classes, "batches": batches, "growth": growth(batches[-2:])}


def growth(batches: list[dict]) -> dict[str, float]:
    """Exponent of the batch size in each variant's processor time."""
    small, large = batches[0], batches[-1]
    steps = math.log(large["batch_size"] / small["batch_size"])
    ratios = {
        variant: large["variants"][variant]["processor_ms"] / small["variants"][variant]["processor_ms"]
        for variant in VARIANTS
    }
    return {variant: math.log(ratio) / steps for variant, ratio in ratios.items()}


def print_table(results: list[dict]) -> None:
    """One row per number of classes and batch size."""
    columns = [f"{variant} {unit}" for unit in ("ms", "CPU ms", "MB") for variant in VARIANTS]
    print(f"{'classes':>7}{'batch':>7}" + "".join(f"{column:>15}" for column in columns) + f"{'ratio':>8}")
    for result in results:
        for batch in result["batches"]:
            figures = [
                batch["variants"][variant][key]
                for key in ("step_ms", "processor_ms", "peak_memory_mb")
                for variant in VARIANTS
            ]
            row = f"{result['classes']:>7}{batch['batch_size']:>7}" + "".join(f"{x:>15.1f}" for x in figures)
            print(f"{row}{batch['supcon_to_lacon']:>8.1f}")
        exponents = ", ".join(f"{variant} N^{value:.2f}" for variant, value in result["growth"].items())
        print(f"  growth of processor time: {exponents}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES), help="two or more sizes")
    parser.add_argument("--classes", type=int, nargs="+", default=list(CLASSES))
    parser.add_argument("--rounds", type=int, default=15, help="timed steps per variant and batch size")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--measure-memory", nargs=3, metavar=("VARIANT", "C", "N"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.measure_memory:
        variant, classes, rows = arguments.measure_memory
        measure_memory(variant, int(classes), int(rows))
        return
    if len(arguments.batches) < 2:
        parser.error("--batches needs two sizes or more to tell how the cost grows")
    results = [measure(classes, arguments) for classes in arguments.classes]
    print_table(results)
    if arguments.output:
        machine = {"cpu": hardware()["processor"], "threads": arguments.threads, "torch": torch.__version__}
        record = {"machine": machine, "width": WIDTH, "rounds": arguments.rounds, "results": results}
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
