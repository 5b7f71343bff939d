"""Compare `sentemb serve` with sentence-transformers behind a plain FastAPI application, under load.

    pip install 'sentemb[serve,bench]'
    python benchmarks/serving.py --model all-MiniLM-L6-v2 --output benchmarks/results/serving.json

Both servers and the load generator are separate processes on this machine and share its cores. Bulk load is
`--connections` clients that send requests of 64 texts of 20 words one after another. The servers are
interleaved, and the ratio is the median round's. The plain application answers a request with
`model.encode(texts)` in a thread and returns JSON; ours returns the same numbers. Interactive queries have 8
words and come at random moments, regardless of how long answers take; their time counts from the moment they
were due. `--minutes` loads our server at 80 % of its capacity and records its memory, open files and errors.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
from load import Answers, at_random_moments, encoded, saturate

from sentemb._files import write_json, write_text
from sentemb.data.bundled_text import bundled_sentences
from sentemb.evaluation.environment import hardware, library_versions

Rate = dict[str, float]
PATH = "/v1/embeddings"
BULK, QUERY_WORDS, WORDS = 64, 8, 20
WARM_UP = 3.0  # seconds of bulk that are not counted
OURS = "import sys; from sentemb.cli.main import run; run(sys.argv[1:])"
PLAIN = """
import sys
import torch, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer
model, app = SentenceTransformer(sys.argv[1], device="cpu"), FastAPI()
class Texts(BaseModel):
    input: list[str]
@app.get("/v1/models")
def models(): return {"data": [{"id": "plain"}]}
@app.post("/v1/embeddings")
def embeddings(texts: Texts):
    vectors = model.encode(texts.input)
    return {"data": [{"index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)]}
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


class Server(NamedTuple):
    """A server that is ready."""

    port: int
    process: subprocess.Popen[bytes]
    model: str

    def bodies(self, texts: int, words: int = WORDS, **options: Any) -> Iterator[tuple[bytes, int]]:
        """Requests without end, of texts that were never sent before."""
        stream = made_texts(words)
        while True:
            some = list(itertools.islice(stream, texts))
            yield encoded({"model": self.model, "input": some, **options}), texts

    def counters(self) -> dict[str, float]:
        """The server's own counters."""
        text = fetched(f"http://127.0.0.1:{self.port}/metrics").decode()
        return {name: float(value) for name, value in re.findall(r"^(sentemb\S+) (\S+)$", text, re.M)}


_SEED = itertools.count()


def made_texts(words: int) -> Iterator[str]:
    """Texts of so many words of English sentences, each time others."""
    stream = " ".join(bundled_sentences()).split()
    draw = random.Random(next(_SEED))
    while True:
        start = draw.randrange(len(stream) - words)
        some = stream[start : start + words]
        some[draw.randrange(words)] = draw.choice(stream)
        yield " ".join(some)


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=5) as answer:
        content: bytes = answer.read()
    return content


@contextmanager
def served(command: list[str], port: int, threads: int) -> Iterator[Server]:
    """A server in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", *command],
        env=environment,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                listed = json.loads(fetched(f"http://127.0.0.1:{port}/v1/models"))
                break
            except OSError:
                if process.poll() is not None:
                    raise SystemExit(f"a server ended with {process.returncode}") from None
                time.sleep(0.2)
        yield Server(port, process, listed["data"][0]["id"])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def bulk(server: Server, options: argparse.Namespace, texts: int = BULK, **fields: Any) -> Rate:
    """Texts a second of as many requests as the clients can send."""

    async def run() -> tuple[Answers, float]:
        start = time.monotonic() + WARM_UP
        made, clients = partial(server.bodies, texts, **fields), options.connections
        end = start + options.seconds
        load = saturate(server.port, PATH, made, connections=clients, start=start, end=end)
        answering = asyncio.ensure_future(load)
        await asyncio.sleep(WARM_UP)
        before = processor_seconds(server.process.pid)
        await asyncio.sleep(options.seconds)
        used = processor_seconds(server.process.pid) - before
        return await answering, used

    answers, used = asyncio.run(run())
    if answers.failed or answers.refused:
        raise SystemExit(f"{server.model}: {answers.failed} failed, {answers.refused} refused")
    return {
        "texts_per_second": answers.texts / options.seconds,
        "processor_ms_per_text": 1000 * used / max(1, answers.texts),
    }


def queries(server: Server, options: argparse.Namespace, *, loaded: bool) -> dict[str, Any]:
    """Milliseconds of single queries, alone or while bulk is sent as fast as it is answered."""

    async def run() -> list[Answers]:
        start = time.monotonic()
        end = start + options.query_seconds
        asked = server.bodies(1, QUERY_WORDS)
        works = [at_random_moments(server.port, PATH, asked, rate=options.rate, end=end)]
        if loaded:
            made, clients = partial(server.bodies, BULK), options.connections
            works.append(saturate(server.port, PATH, made, connections=clients, start=start, end=end))
        return await asyncio.gather(*works)

    answers = asyncio.run(run())
    found = answers[0]
    milliseconds = 1000 * np.array(found.seconds)
    return {
        "queries": len(found.seconds),
        "failed": found.failed + found.refused,
        "p50_ms": float(np.percentile(milliseconds, 50)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
        "bulk_texts_per_second": answers[1].texts / options.query_seconds if loaded else 0.0,
    }


def batch_ms(server: Server) -> float:
    """Mean milliseconds of a bulk batch so far."""
    counters = server.counters()
    seconds = counters['sentemb_model_seconds_total{queue="bulk"}']
    return 1000 * seconds / counters['sentemb_batch_tokens_count{queue="bulk"}']


def soak(server: Server, options: argparse.Namespace, capacity: float) -> dict[str, Any]:
    """Memory and open files during minutes of four fifths of what the server takes."""
    seen: list[tuple[float, float, int]] = []

    async def watch(end: float) -> None:
        began = time.monotonic()
        while time.monotonic() < end:
            seen.append((time.monotonic() - began, *footprint(server.process.pid)))
            await asyncio.sleep(5)

    async def run() -> Answers:
        end = time.monotonic() + 60 * options.minutes
        rate = 0.8 * capacity / BULK
        work = at_random_moments(server.port, PATH, server.bodies(BULK), rate=rate, end=end)
        return (await asyncio.gather(work, watch(end)))[0]

    answers = asyncio.run(run())
    after = [row for row in seen if row[0] >= 30] or seen  # the first half minute fills what is kept
    fetched(f"http://127.0.0.1:{server.port}/health")
    return {
        "minutes": options.minutes,
        "texts": answers.texts,
        "failed": answers.failed,
        "refused": answers.refused,
        "p99_ms": float(np.percentile(1000 * np.array(answers.seconds), 99)),
        "mib_after_half_a_minute": after[0][1],
        "mib_at_the_end": after[-1][1],
        "mib_most": max(row[1] for row in after),
        "files_after_half_a_minute": after[0][2],
        "files_at_the_end": after[-1][2],
    }


def footprint(process: int) -> tuple[float, int]:
    """MiB that a process holds, and how many files it has open."""
    return harness.resident(process), len(list(Path(f"/proc/{process}/fd").iterdir()))


def processor_seconds(process: int) -> float:
    """Seconds that a process has computed, whatever else the machine did meanwhile."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def middle(rounds: list[Rate], name: str = "texts_per_second") -> float:
    return statistics.median(one[name] for one in rounds)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    port = options.port
    serve = [OURS, "serve", "--precision", options.precision, "--port"]
    threads = options.threads
    result: dict[str, Any] = {
        "machine": hardware(),
        "versions": library_versions(),
        "load_at_start": os.getloadavg()[0],
        "model": options.model_name or Path(options.model).name,
        **{name: getattr(options, name) for name in ("threads", "connections", "seconds", "rate")},
    }
    with ExitStack() as running:
        if not options.only_static:
            ours = running.enter_context(served([*serve, str(port), options.model], port, threads))
            if options.minutes:
                capacity = bulk(ours, options)["texts_per_second"]
                return {**result, "capacity": capacity, "soak": soak(ours, options, capacity)}
            plain = running.enter_context(served([PLAIN, options.model, str(port + 1)], port + 1, threads))
            rounds: dict[str, list[Rate]] = {"ours": [], "plain": []}
            for _ in range(options.rounds):
                for system, server in (("ours", ours), ("plain", plain)):
                    rounds[system].append(bulk(server, options))
                    print(system, rounds[system][-1], flush=True)
            result["bulk"] = rounds
            pairs = list(zip(rounds["ours"], rounds["plain"], strict=True))
            for name, over, under in (("texts_per_second", 0, 1), ("processor_ms_per_text", 1, 0)):
                ratios = [one[over][name] / one[under][name] for one in pairs]
                result[f"ratio_{name}"] = statistics.median(ratios)
            result["batch_ms"] = batch_ms(ours)
            for system, server in (("ours", ours), ("plain", plain)):
                result[f"queries_{system}"] = {
                    "idle": queries(server, options, loaded=False),
                    "loaded": queries(server, options, loaded=True),
                }
                print(result[f"queries_{system}"], flush=True)
        static = running.enter_context(served([*serve, str(port + 2), "static-mini"], port + 2, threads))
        result["static"] = {
            kind: [bulk(static, options, 256, encoding_format=kind) for _ in range(options.rounds)]
            for kind in ("float", "base64")
        }
        print(result["static"], flush=True)
    return result


def table(result: dict[str, Any]) -> str:
    if "soak" in result:
        told = "\n".join(
            f"- {name.replace('_', ' ')}: {value:,.6g}" for name, value in result["soak"].items()
        )
        return f"# Soak at 80 % of {result['capacity']:,.0f} texts/s\n\n{told}\n"
    titles = "|bulk texts/s|processor ms/text|query p50 / p99 ms|under bulk|bulk meanwhile".split("|")
    rows = []
    for name, title in (("ours", "sentemb serve"), ("plain", "sentence-transformers in FastAPI")):
        rounds, both = result["bulk"][name], [result[f"queries_{name}"][kind] for kind in ("idle", "loaded")]
        times = (f"{one['p50_ms']:.1f} / {one['p99_ms']:.1f}" for one in both)
        work = f"{middle(rounds, 'processor_ms_per_text'):.2f}"
        meanwhile = f"{both[1]['bulk_texts_per_second']:,.0f}"
        rows.append([title, f"{middle(rounds):,.0f}", work, *times, meanwhile])
    static = {kind: middle(rates) for kind, rates in result["static"].items()}
    return (
        f"# Serving {result['model']}, {result['threads']} threads, {result['connections']} bulk clients\n\n"
        f"{harness.markdown(titles, rows, names=6)}\n"
        f"The ratio of bulk is {result['ratio_texts_per_second']:.2f}, that of processor time "
        f"{result['ratio_processor_ms_per_text']:.2f}, in the median of {len(rounds)} rounds of "
        f"{result['seconds']:g} s; a bulk batch takes {result['batch_ms']:.1f} ms. Queries come "
        f"{result['rate']:g} times a second. static-mini: {static['float']:,.0f} texts/s as numbers, "
        f"{static['base64']:,.0f} in base64. {result['machine']['processor']}, load "
        f"{result['load_at_start']:.1f} at first; clients and servers share the "
        f"{result['machine']['cores']} cores.\n"
    )


def main() -> None:
    options = harness.options(
        __doc__,
        model=str,
        model_name=(str, None),  # what the result calls it
        port=18700,  # the first of three
        threads=2,
        connections=8,  # bulk clients
        rounds=3,
        seconds=20.0,  # of a round
        query_seconds=40.0,
        rate=10.0,  # interactive queries a second
        only_static=False,
        precision="float32",
        minutes=0.0,  # of a soak of our server instead
        output=(Path, None),
    )
    result = measure(options)
    if options.only_static:
        return
    print(table(result))
    if options.output is not None:
        write_json(options.output, result)
        write_text(options.output.with_suffix(".md"), table(result))


if __name__ == "__main__":
    main()
