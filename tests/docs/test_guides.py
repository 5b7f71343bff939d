"""docs: the commands and programs of a page run as printed, in their order, in a folder with small inputs.

What they print is compared too: the words of every line that is not a row of a table. Parts of steps in
`SMALLER` take less work than printed. Steps in `CHECKED` are not run: their verbs, options and names are
compared with the command and the package.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests import processes
from tests.cli.conftest import Command
from tests.docs.inputs import INPUTS, SHARED_DATA
from tests.printed import Step, check_command, check_program, in_folder, steps_of
from tests.serving.live import running

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PORT = "127.0.0.1:8000"


class Page(NamedTuple):
    """Contents of the folder of a page.

    Attributes:
        inputs: Names, and what lies there, by the keys of `INPUTS`.
        names: A program that defines what the page's programs take for granted.
    """

    inputs: Mapping[str, str] = MappingProxyType({})
    names: str = ""


_INDEX = 'from sentemb import SearchIndex\nindex = SearchIndex.load("index")\n'
_MODEL = {"all-MiniLM-L6-v2": "a sentence encoder"}
_DOCS = {"docs.jsonl": "Python's documentation"}
_FEW_DOCS = {"docs.jsonl": "a little of Python's documentation"}
_LABELLED = ("few.csv", "train.csv", "validation.csv", "test.csv", "new.csv")

PAGES: dict[str, Page] = {
    "guides/abstain.md": Page(
        {"index": "an index of Python's documentation", "my-queries": "a collection"}, _INDEX
    ),
    "guides/adapt.md": Page(_MODEL | _FEW_DOCS | {"questions": "a collection"}),
    "guides/choose.md": Page(_MODEL | _FEW_DOCS | {"judged": "a collection"}),
    "guides/classification.md": Page(_MODEL | dict.fromkeys(_LABELLED, "labelled texts")),
    "guides/coming-from.md": Page(_MODEL | _DOCS | {"pairs.csv": "graded pairs"}),
    "guides/compare.md": Page(_MODEL | {"eval": "the folder eval", "records": "records"}),
    "guides/compress.md": Page(_DOCS),
    "guides/distill.md": Page(
        _MODEL | _FEW_DOCS | {"my-folder": "a collection", "pairs.csv": "graded pairs"}
    ),
    "guides/evaluate.md": Page({"data": "data sets", "mine": "static-mini", "pairs.csv": "graded pairs"}),
    "guides/filters.md": Page({"index": "an index of documents"}, f"import datetime\n{_INDEX}"),
    "guides/gpu.md": Page(_MODEL | _DOCS | {"index": "an index of documents", "pairs.jsonl": "pairs"}),
    "guides/how-many-queries.md": Page({"eval": "the folder eval", "scores.csv": "scores of queries"}),
    "guides/hub.md": Page(
        _DOCS
        | {
            "all-MiniLM-L6-v2": "a sentence encoder with prompts",
            "mine": "static-mini",
            "pairs.csv": "graded pairs",
        }
    ),
    "guides/hybrid.md": Page(
        {"index": "an index of documents", "queries.jsonl": "queries of the documents"}, _INDEX
    ),
    "guides/improve-search.md": Page(
        {"folder": "a collection", "index": "an index of Python's documentation", "queries.jsonl": "queries"}
    ),
    "guides/integrations.md": Page(_MODEL),
    "guides/lancedb.md": Page(
        {"index": "an index of documents", "more.jsonl": "more documents"}, "from sentemb import SearchIndex"
    ),
    "guides/pairs.md": Page({"all-MiniLM-L6-v2": "static-mini", "pairs.jsonl": "pairs"}),
    "guides/retrieval.md": Page({"questions": "a collection"}),
    "guides/scale.md": Page(
        {"mine": "static-mini", "my-set": "a collection", "pairs.jsonl": "pairs", "vectors": "vectors"}
    ),
    "guides/search-how-it-works.md": Page({"documents.jsonl": "Python's documentation"}),
    "guides/search.md": Page(
        {"documents.jsonl": "documents", "more.jsonl": "more documents", "new.jsonl": "more documents"}
    ),
    "guides/serve.md": Page(_MODEL | {"documents": "an index of documents"}),
    "guides/train.md": Page(
        _MODEL | {"my_losses.py": "a loss", "pairs.csv": "graded pairs", "sentences.txt": "sentences"}
    ),
    "guides/troubleshooting.md": Page({"docs.csv": "a table with two columns"}),
    "guides/upgrade-index.md": Page(
        {"better": "a sentence encoder", "index": "an index of Python's documentation"},
        "from sentemb import SearchIndex",
    ),
}
"""The pages that need something."""

_INSTALLS = "it installs packages"
_MINUTES = "it takes minutes"
_NO_HUB = "it needs the hub"
CHECKED: dict[str, dict[str, str]] = {
    "*": {
        "hf ": _NO_HUB,
        "ln ": _INSTALLS,
        "make ": _INSTALLS,
        "pip ": _INSTALLS,
        "python benchmarks/": _MINUTES,
        "source ": _INSTALLS,
        "srun ": "it needs a cluster",
        "torchrun ": "it starts processes that import everything",
    },
    "guides/coming-from.md": {"from sentence_transformers": "it needs model2vec"},
    "guides/compress.md": {"sentemb compress all-MiniLM-L6-v2": "it exports to two runtimes for a minute"},
    "guides/experiments.md": {
        "sentemb experiment survival": _MINUTES,
        "sentemb experiment few-shot-per-class ce": _MINUTES,
        "sentemb experiment mine.toml": _MINUTES,
    },
    "guides/gpu.md": {
        "CUDA_VISIBLE_DEVICES=1 sentemb adapt": _MINUTES,
        "import sentemb": "it needs a GPU",
        "python -c": "it imports torch in a process of its own",
    },
    "guides/how-many-queries.md": {"sentemb judge": "it waits for answers"},
    "guides/hub.md": {
        "from sentence_transformers import": _NO_HUB,
        "import sentemb": _NO_HUB,
        "sentemb eval sts intfloat/": _NO_HUB,
    },
    "guides/install.md": {"grep ": _INSTALLS, "python3 -m venv": _INSTALLS},
    "guides/machines.md": {"sentemb doctor": "it tries the kernels of three models for ten seconds"},
    "guides/models.md": {"sentemb eval sts MODEL": "MODEL stands for a model"},
    "guides/retrieval.md": {
        "from sentemb import": "it needs data sets",
        "sentemb eval retrieval mine": "it needs data sets",
        "sentemb eval retrieval other.trec": "it needs data sets",
    },
    "guides/scale.md": {
        "sentemb data overlap": "it needs seven data sets",
        "sentemb encode corpus.jsonl": "it needs a Ray cluster",
        "sentemb encode docs.jsonl": "its workers start for half a minute",
        "sentemb index build vectors --output lancedb:s3": "it needs object storage",
        "sentemb plan": _MINUTES,
    },
    "guides/serve.md": {
        "from langchain_openai": "it needs langchain-openai",
        "from llama_index": "it needs llama-index",
        "sentemb serve all-MiniLM-L6-v2 --ray": "it needs a Ray cluster",
    },
    "objectives/after-simcse.md": {"sentemb train": _MINUTES, "sentemb eval sts": _MINUTES},
    "objectives/back-translation.md": {"sentemb data back-translate": _NO_HUB, "sentemb train bt": _NO_HUB},
    "objectives/frozen.md": {"python training/": _MINUTES, "sentemb eval sts": "it needs seven data sets"},
    "objectives/mlm.md": {"sentemb train mlm": _MINUTES},
}
"""What is not run: beginnings of steps by page, * for every page, and why."""

SMALLER: dict[str, dict[str, str]] = {
    "guides/adapt.md": {
        "--base static-mini": "--base static-mini --steps 2",
        '"adapted")': '"adapted", max_steps=2)',
        "eval retrieval static-mini mine": "eval retrieval static-mini sg-bert-mini",
        "compare static-mini mine": "compare static-mini sg-bert-mini",
    },
    "guides/choose.md": {
        "--texts docs.jsonl": "--texts docs.jsonl --queries 20",
        '"docs.jsonl")': '"docs.jsonl", count=20)',
    },
    "guides/distill.md": {
        "sg-bert-mini": "all-MiniLM-L6-v2",
        " -o mine-static": " -o mine-static --steps 2",
        " -o small": " -o small --steps 2",
        "eval sts": "eval sts --sets pairs.csv",
        "dimension=128": "dimension=8, steps=2",
        "layers=3": "layers=3, max_steps=2",
    },
    "guides/train.md": {
        "--data stsb-sentences": "--data sentences.txt --dev pairs.csv",
        " --data-dir data": "",
        "--max-steps 100 --eval-steps 50": "--max-steps 2 --eval-steps 1",
        "--base all-MiniLM-L6-v2": "--base all-MiniLM-L6-v2 --max-steps 2",
        "my_losses.py:MyLoss": "my_losses.py:MyLoss --max-steps 2",
    },
}
"""What is run instead of parts of steps, so that they take seconds."""

DIFFERS: dict[str, dict[str, str]] = {
    "guides/adapt.md": {
        "Verdict: ": "another verdict: few documents",
        "mine is ": "another model",
        "next: sentemb index build": "the base is returned",
        "topic: ": "few documents share terms",
    },
    "guides/choose.md": {"Verdict: ": "another verdict: few documents"},
    "guides/distill.md": {"next: ": "another teacher"},
    "guides/train.md": {"dev Spearman": "another verdict: two steps"},
    "guides/pairs.md": {"better than the base": "another verdict: few pairs"},
    "guides/retrieval.md": {"hybrid:static-mini is better": "another verdict: few questions"},
    "guides/upgrade-index.md": {
        "- map: ": "another map is best",
        "- new documents are": "the index was upgraded before",
    },
}
"""Beginnings of printed lines that the small inputs cannot give, and why."""


PAGE_NAMES = sorted(
    path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if steps_of(path.read_text("utf-8"))
)


def _steps(page: str) -> list[Step]:
    return steps_of((DOCS / page).read_text(encoding="utf-8"))


def _reason(page: str, step: Step) -> str | None:
    """Why a step is not run."""
    reasons = CHECKED["*"] | CHECKED.get(page, {})
    return next((reason for start, reason in reasons.items() if step.text.startswith(start)), None)


NOT_RUN = [(page, step) for page in PAGE_NAMES for step in _steps(page) if _reason(page, step)]


@pytest.mark.parametrize(
    ("page", "step"), NOT_RUN, ids=[f"{page}: {step.text[:40]}" for page, step in NOT_RUN]
)
def test_what_is_not_run_names_what_exists(page: str, step: Step) -> None:
    if step.is_python:
        check_program(step.text)
        return
    words = step.words
    if "sentemb" in words and (words[0] == "sentemb" or words[words.index("sentemb") - 1] == "-m"):
        check_command(words[words.index("sentemb") + 1 :])
    if words[0] == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        named = ",".join(re.findall(r"(?:sentemb|\.)\[([\w,]+)\]", step.text))
        assert {*named.split(",")} - {""} <= project["optional-dependencies"].keys()
    if words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text("utf-8")
    if words[0] == "python" and words[1].endswith(".py"):
        assert (ROOT / words[1]).exists()


def test_every_beginning_is_that_of_a_step() -> None:
    for page, starts in CHECKED.items():
        texts = [step.text for name in PAGE_NAMES if page in ("*", name) for step in _steps(name)]
        assert all(any(text.startswith(start) for text in texts) for start in starts), page
    for page, parts in SMALLER.items():
        assert all(any(part in step.text for step in _steps(page)) for part in parts), page
    assert {*PAGES} <= {*PAGE_NAMES}


class Session:
    """One page being worked through: its folder, its names in Python, and its server."""

    def __init__(self, page: str, folder: Path, sentemb: Command, stack: ExitStack) -> None:
        self.page = page
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "__main__"}
        self._sentemb = sentemb
        self._stack = stack
        self._address = PORT

    def run(self, step: Step) -> str:
        """Run a step and return what it printed."""
        text = step.text.replace(PORT, self._address)
        for printed, smaller in SMALLER.get(self.page, {}).items():
            text = text.replace(printed, smaller)
        step = step._replace(text=text)
        if step.is_python:
            exec(compile(step.text, self.page, "exec"), self.names)
            return ""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in step.variables.items():
                patch.setenv(name, value)
            if not step.is_sentemb:
                done = subprocess.run(["bash", "-c", step.text], capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                return done.stdout
            if step.words[1] == "serve" and not step.error:
                self._serve(step.words[1:])
                return ""
            code, printed, said = self._sentemb(*step.words[1:])
        assert code == (2 if step.error else 0), said
        return printed + said

    def _serve(self, words: list[str]) -> None:
        """Serve as printed, but on a free port, until the page ends."""
        arguments = (str(self.folder), processes.command, [*words, "--port", "0"])
        server = self._stack.enter_context(running(self.folder / "log", in_folder, *arguments))
        self._address = f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_page_runs_as_printed(
    page: str, tmp_path: Path, sentemb: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = PAGES.get(page, Page())
    if "data" in needs.inputs and not SHARED_DATA.is_dir():
        pytest.skip("no real data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    for name, kind in needs.inputs.items():
        INPUTS[kind](tmp_path / name)
    with ExitStack() as stack:
        session = Session(page, tmp_path, sentemb, stack)
        exec(needs.names, session.names)
        for step in _steps(page):
            if _reason(page, step):
                continue
            try:
                printed = session.run(step)
            except (Exception, SystemExit) as error:
                raise AssertionError(f"{page} does not run: {step.text}") from error
            missing = step.missing(printed, DIFFERS.get(page, ()))
            assert missing == [], f"{page}: {step.text}\nprinted\n{printed}"
