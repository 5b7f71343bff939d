"""Commands that are right, and odd values for any of their options."""

from __future__ import annotations

import inspect
from typing import Any

from hypothesis import strategies as st

from sentemb import losses
from sentemb.cli.main import build
from sentemb.training.recipes import get_recipe
from tests.fuzz.damage import ODD_TEXT
from tests.fuzz.ground import TRAIN, TRANSFER

COMMANDS = (
    "eval sts {g}/bert --pooling mean --sets {g}/pairs.tsv -o out",
    "eval geometry {g}/bert --pooling mean --data {g}/pairs.tsv -o out",
    f"{TRANSFER} --data-dir {{g}}/sets -o out",
    "eval retrieval bm25 hybrid:{g}/bert --pooling mean --sets {g}/judged -o out",
    "eval all {g}/bert --pooling mean --data-dir {g}/sets --allow-missing --allow-count-mismatch -o out",
    f"train sg-opt {TRAIN} --data {{g}}/sentences.txt --dev none",
    f"train supcl-seq {TRAIN} --train {{g}}/labelled.csv --validation {{g}}/labelled.csv",
    "train mlm --base {g}/bert --batch-size 4 --corpus {g}/corpus.txt --length 16 --max-steps 2 "
    "--set validation_share=0.1 -o out",
    "train whitening --base {g}/bert --data {g}/corpus.txt -o out",
    "experiment {g}/experiment.toml --explain",
    "tune ce {g}/labelled.csv --grid learning_rate=0.001 --base {g}/bert -o out",
    "compare bert-cls bert-mean -r {g}/compared --draws 200",
    "report {g}/records --baseline bert-cls",
    "classify {g}/classifier {g}/unlabelled.csv -o out.csv --column text",
    "analyse layers {g}/bert --sets {g}/pairs.tsv -o out",
    "analyse map {g}/bert --data {g}/pairs.tsv --pooling mean --pairs 6 -o out.png",
    "data list --data-dir {g}/sets",
    "data split-pairs {g}/paraphrases.tsv -o out",
    "data nli-triples {g}/inferences.jsonl -o out.csv",
    "data mine-negatives {g}/positives.tsv -m {g}/bert --pooling mean -o out.csv "
    "--columns sentence1,sentence2",
    "data overlap {g}/texts.txt --sets {g}/pairs.tsv",
    "index build {g}/documents.jsonl -m {g}/bert --pooling mean --text-column text -o out",
    "index search {g}/index dog -m {g}/bert",
    "index search {g}/index dog --mode keyword",
    "index search {g}/index dog -m {g}/bert --mode hybrid",
    "index info {g}/index",
    "index fit {g}/index -m {g}/bert",
    "index upgrade {g}/index -m {g}/bert",
    "choose bm25 {g}/bert --pooling mean --texts {g}/corpus.txt --queries 20 --leaks none --draws 100 "
    "-o out.json",
    "adapt {g}/corpus.txt --base {g}/encoder --steps 2 --batch-size 4 -o out",
    "distill {g}/encoder --texts {g}/library.txt --steps 2 --dimension 8 -o out",
    "distill {g}/bert --pooling mean --texts {g}/library.txt --layers 1 --sentences 600 --steps 2 -o out",
    "encode {g}/documents.jsonl -m {g}/encoder --text-column text -o out",
    "index build {g}/shards --kind flat -o out",
    "plan 1e6 --texts {g}/sample.txt --model {g}/encoder --kind flat -o out.json",
    "serve {g}/encoder --index {g}/index --classifier {g}/classifier --port 0",
    "compress {g}/encoder --texts {g}/corpus.txt --sets {g}/pairs.tsv --only float16 --record out.json",
)
_ODD = st.one_of(
    ODD_TEXT.filter(lambda text: "\0" not in text),  # an argument cannot hold one
    st.sampled_from(
        [
            "nan", "inf", "-inf", "1e9", "10000000000000", "-5", "0.0", "1.5", "x", "1,1", "nan,1", ",",
            "1,,2", "a=b", "=1", "a=", "a.b.c=1", "-", "--", ".", "..", "/dev/null", "/proc/x", "~", "none",
            "auto", "all", "\udc80", "cuda", "cuda:7", "mean", "float16", "out/..", "x/../out",
            "{g}", "{g}/bert", "{g}/pairs.tsv", "{g}/documents.jsonl", "{g}/index", "{g}/records",
        ]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)  # fmt: skip
# A run that is asked to take long may.
_LONG = {"--max-steps", "--steps", "--epochs", "--seeds", "--help", "--version"}


def _options(words: list[str]) -> list[Any]:
    command: Any = build()
    context = None
    rest = list(words)
    while hasattr(command, "resolve_command"):
        context = command.make_context(command.name, ["x"], resilient_parsing=True)
        _, command, rest = command.resolve_command(context, rest)
    return [option for option in command.params if option.param_type_name == "option"]


def odd_settings(recipe: str) -> st.SearchStrategy[tuple[list[str], list[str]]]:
    """`--set` with odd values for any setting of a recipe and its loss, and what an error may name."""
    defaults = get_recipe(recipe).values("paper")
    loss = inspect.signature(getattr(losses, defaults["loss"])).parameters
    names = [name for name in defaults if f"--{name.replace('_', '-')}" not in _LONG]
    names += [f"loss_options.{name}" for name in loss if name != "model"]
    numbers = st.one_of(_ODD, st.floats(-2, 2).map(str), st.integers(-3, 99).map(str))

    def put(chosen: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
        given = [word for name, value in chosen for word in ("--set", f"{name}={value}")]
        named = [name.rpartition(".")[2] for name, _ in chosen] + [
            value for _, value in chosen if value.strip()
        ]
        return given, [*named, *(name.replace("_", " ") for name in named)]

    return st.lists(st.tuples(st.sampled_from(names), numbers), min_size=1, max_size=2).map(put)


def odd_command(command: str) -> st.SearchStrategy[tuple[list[str], list[str]]]:
    """A right command with odd options, and what an error may name: the options or their values."""
    words = command.split()
    options = [option for option in _options(words) if not _LONG & set(option.opts)]

    def add(chosen: list[tuple[Any, str]]) -> tuple[list[str], list[str]]:
        given, named = [], []
        for option, value in chosen:
            given += [option.opts[-1]] if option.is_flag else [option.opts[-1], value]
            named += [*option.opts, option.name or option.opts[-1], *([value] if value.strip() else [])]
        return words + given, named

    return st.lists(st.tuples(st.sampled_from(options), _ODD), min_size=1, max_size=2).map(add)
