"""The table of the verbs of `sentemb`, each with the place of its code and an example."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """Verb that is imported on use.

    Attributes:
        target: `module:name` below `sentemb.cli`; a plain function, or a `typer.Typer` app.
        help: Its line in `sentemb --help`.
        example: Arguments of `sentemb`, shown at the end of the verb's help.
    """

    target: str
    help: str
    example: str


class Group(NamedTuple):
    """Verbs under one word, such as `sentemb index build`."""

    help: str
    verbs: dict[str, Verb]


SECTIONS = {
    "Your documents": ("quickstart", "choose", "adapt", "distill", "compress"),
    "Train": ("train", "tune", "experiment", "classify"),
    "Evaluate": ("eval", "compare", "report", "analyse", "card"),
    "Search and serve": ("index", "encode", "serve", "plan"),
    "Data and machine": ("data", "doctor"),
}
"""The order and the headings of the verbs in `sentemb --help`."""
_GROUPS = {
    "eval": "Evaluate encoders.",
    "analyse": "Analyze layers, geometry and maps of encoders.",
    "data": "Find, check and make data sets.",
    "index": "Build, change and search a semantic index.",
}
_VERBS = (
    ("quickstart", "quickstart:quickstart", "Try search, training and evaluation, without a download."),
    ("train", "train:app", "Train an encoder by a recipe, such as sg-opt or simcse."),
    ("adapt", "adapt:adapt", "Fine-tune an encoder on your own documents, without labels."),
    ("eval sts", "evaluate:sts", "Score encoders on STS sets or on your own scored pairs."),
    ("eval transfer", "evaluate:transfer", "Train SentEval's classifiers on frozen sentence vectors."),
    ("eval retrieval", "evaluate:retrieval", "Score search: encoders, BM25, hybrids and saved runs."),
    ("eval geometry", "evaluate:geometry", "Measure alignment, uniformity and spectrum of encoders."),
    ("eval all", "evaluate:all_suites", "Evaluate encoders on every suite, encoding each text once."),
    ("choose", "choose:choose", "Rank encoders for your own documents, without labels."),
    ("experiment", "experiment:experiment", "Train and compare methods: the papers' tables or your own."),
    ("tune", "tune:tune", "Tune the options of a recipe by validation score."),
    ("compare", "report:compare", "Compare encoders on the same items, with intervals and p-values."),
    ("report", "report:report", "Make tables, figures and comparisons of records."),
    ("compress", "compress:compress", "Make a model smaller or faster, with a measured quality drop."),
    ("card", "report:card", "Write evaluation results into a model card."),
    ("distill", "distill:distill", "Distill an encoder into a smaller, faster student."),
    ("plan", "plan:plan", "Estimate time, disk and memory for a corpus of any size."),
    ("encode", "encode:encode", "Encode a corpus of any size into files."),
    ("serve", "serve:serve", "Serve models and indexes over HTTP, with a search page."),
    ("classify", "classify:classify", "Classify texts with a trained classifier."),
    ("analyse layers", "analyse:layers", "Score every layer with every pooling in one forward pass."),
    ("analyse geometry", "analyse:geometry", "Draw alignment, uniformity and spectra from records."),
    ("analyse map", "analyse:pair_map", "Draw a t-SNE map of the most and the least similar pairs."),
    ("analyse classes", "analyse:class_map", "Draw a t-SNE map of texts and label vectors."),
    ("doctor", "doctor:doctor", "Check versions, kernels and reproducibility on this machine."),
    ("data list", "data:list_entries", "List the data sets of the catalogue and their location."),
    ("data info", "data:info", "Show the details of one data set."),
    ("data fetch", "data:fetch", "Download data sets from the hub into the data folder."),
    ("data verify", "data:verify", "Check the row counts of the data sets in the data folder."),
    ("data split-pairs", "pairs:split_pairs", "Split labelled pairs into train, dev and test."),
    ("data nli-triples", "pairs:nli_triples", "Make triples from labelled NLI pairs."),
    ("data mine-negatives", "pairs:mine_negatives", "Add hard negatives to pairs."),
    ("data overlap", "overlap:overlap", "Find texts of test sets in training texts."),
    ("data back-translate", "augment:back_translate", "Back-translate texts, to get positives."),
    ("data noisy-copies", "augment:noisy_copies", "Sample noisy copies of labelled rows."),
    ("index build", "index:build", "Encode documents and build an index."),
    ("index add", "index:add", "Encode more documents and add them."),
    ("index update", "index:update", "Replace documents by their ids, or add them."),
    ("index delete", "index:delete", "Delete documents by their ids."),
    ("index compact", "index:compact", "Merge changes and free disk space."),
    ("index upgrade", "index:upgrade", "Change the model of an index."),
    ("index fit", "index:fit", "Fit the hybrid weight on your queries and qrels."),
    ("index move", "index:move", "Copy an index to LanceDB, or back to a folder."),
    ("index search", "index:search", "Find the best documents for a query."),
    ("index info", "index:info", "Show the contents and settings of an index."),
)
_EXAMPLES = """
quickstart --output quickstart
train simcse --base bert-mini --data sentences.txt --output my-encoder
adapt docs.jsonl --base static-mini --output mine
eval sts bert-mini static-mini --output records
eval transfer static-mini --output records
eval retrieval static-mini bm25 hybrid:static-mini --sets my-folder
eval geometry bert-mini sg-bert-mini --output records
eval all static-mini --output records
choose bm25 static-mini hybrid:static-mini --texts docs.jsonl
experiment --list
tune scl train.csv --grid learning_rate=2e-5,1e-4 --output tuned
compare bert-mini sg-bert-mini --records records
report records --output report.html
compress mine --texts docs.jsonl
card mine --records records
distill all-MiniLM-L6-v2 --texts docs.jsonl --output static
plan 1e8 --texts docs.jsonl --model static-mini
encode docs.jsonl --model static-mini --output vectors
serve --index index
classify my-classifier texts.csv
analyse layers bert-mini --output layers
analyse geometry records --output figures
analyse map bert-mini sg-bert-mini --output map.png
analyse classes my-classifier --data sst2 --output classes.png
doctor static-mini
data list
data info stsb
data fetch stsb --data-dir data
data verify --data-dir data
data split-pairs pairs.csv --output parts
data nli-triples nli.csv --output triples.jsonl
data mine-negatives pairs.jsonl --model static-mini --output triples.jsonl
data overlap sentences.txt --sets sts
data back-translate sentences.txt --forward opus-mt-en-de --backward opus-mt-de-en -o pairs.jsonl
data noisy-copies train.csv --forward opus-mt-en-de --backward opus-mt-de-en -o copies.jsonl
index build docs.jsonl --model static-mini --output index
index add index more.jsonl
index update index new.jsonl
index delete index id-17 id-18
index compact index
index upgrade index --model mine
index fit index --queries queries.jsonl --qrels qrels.tsv
index move index --to lancedb:folder
index search index 'your question' --mode hybrid
index info index
"""


def _table() -> dict[str, Verb | Group]:
    examples = _EXAMPLES.strip().splitlines()
    table: dict[str, Verb | Group] = {}
    for words, target, text in _VERBS:
        (example,) = (line for line in examples if line.startswith(f"{words} ") or line == words)
        first, _, second = words.partition(" ")
        verb = Verb(target, text, example)
        if not second:
            table[first] = verb
            continue
        group = table.setdefault(first, Group(_GROUPS.get(first, ""), {}))
        assert isinstance(group, Group)
        group.verbs[second] = verb
    return table


VERBS = _table()
