"""What the `sentemb` command can do: the one table of its verbs, each with the place of its code."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb that is imported when it is used.

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

VERBS: dict[str, Verb | Group] = {
    "quickstart": Verb(
        "quickstart:quickstart",
        "Try search, training and evaluation, without a download.",
        "quickstart --output quickstart",
    ),
    "train": Verb(
        "train:app",
        "Train an encoder by a recipe, such as sg-opt or simcse.",
        "train simcse --base bert-mini --data sentences.txt --output my-encoder",
    ),
    "adapt": Verb(
        "adapt:adapt",
        "Fine-tune an encoder on your own documents, without labels.",
        "adapt docs.jsonl --base static-mini --output mine",
    ),
    "eval": Group(
        "Evaluate encoders.",
        {
            "sts": Verb(
                "evaluate:sts",
                "Score encoders on STS sets or on your own scored pairs.",
                "eval sts bert-mini static-mini --output records",
            ),
            "transfer": Verb(
                "evaluate:transfer",
                "Train SentEval's classifiers on frozen sentence vectors.",
                "eval transfer static-mini --output records",
            ),
            "retrieval": Verb(
                "evaluate:retrieval",
                "Score search: encoders, BM25, hybrids and saved runs.",
                "eval retrieval static-mini bm25 hybrid:static-mini --sets my-folder",
            ),
            "geometry": Verb(
                "evaluate:geometry",
                "Measure alignment, uniformity and spectrum of encoders.",
                "eval geometry bert-mini sg-bert-mini --output records",
            ),
            "all": Verb(
                "evaluate:all_suites",
                "Evaluate encoders on every suite, encoding each text once.",
                "eval all static-mini --output records",
            ),
        },
    ),
    "choose": Verb(
        "choose:choose",
        "Rank encoders for your own documents, without labels.",
        "choose bm25 static-mini hybrid:static-mini --texts docs.jsonl",
    ),
    "experiment": Verb(
        "experiment:experiment",
        "Train and compare methods: the papers' tables or your own.",
        "experiment --list",
    ),
    "tune": Verb(
        "tune:tune",
        "Tune the options of a recipe by validation score.",
        "tune scl train.csv --grid learning_rate=2e-5,1e-4 --output tuned",
    ),
    "compare": Verb(
        "compare:compare",
        "Compare encoders on the same items, with intervals and p-values.",
        "compare bert-mini sg-bert-mini --records records",
    ),
    "report": Verb(
        "report:report",
        "Make tables, figures and comparisons of records.",
        "report records --output report.html",
    ),
    "compress": Verb(
        "compress:compress",
        "Make a model smaller or faster, with a measured quality drop.",
        "compress mine --texts docs.jsonl",
    ),
    "card": Verb("card:card", "Write evaluation results into a model card.", "card mine --records records"),
    "distill": Verb(
        "distill:distill",
        "Distill an encoder into a smaller, faster student.",
        "distill all-MiniLM-L6-v2 --texts docs.jsonl --output static",
    ),
    "plan": Verb(
        "plan:plan",
        "Estimate time, disk and memory for a corpus of any size.",
        "plan 1e8 --texts docs.jsonl --model static-mini",
    ),
    "encode": Verb(
        "encode:encode",
        "Encode a corpus of any size into files.",
        "encode docs.jsonl --model static-mini --output vectors",
    ),
    "serve": Verb(
        "serve:serve", "Serve models and indexes over HTTP, with a search page.", "serve --index index"
    ),
    "classify": Verb(
        "classify:classify", "Classify texts with a trained classifier.", "classify my-classifier texts.csv"
    ),
    "analyse": Group(
        "Analyze layers, geometry and maps of encoders.",
        {
            "layers": Verb(
                "analyse_layers:layers",
                "Score every layer with every pooling in one forward pass.",
                "analyse layers bert-mini --output layers",
            ),
            "geometry": Verb(
                "analyse_geometry:geometry",
                "Draw alignment, uniformity and spectra from records.",
                "analyse geometry records --output figures",
            ),
            "map": Verb(
                "analyse_maps:pair_map",
                "Draw a t-SNE map of the most and the least similar pairs.",
                "analyse map bert-mini sg-bert-mini --output map.png",
            ),
            "classes": Verb(
                "analyse_maps:class_map",
                "Draw a t-SNE map of texts and label vectors.",
                "analyse classes my-classifier --data sst2 --output classes.png",
            ),
        },
    ),
    "doctor": Verb(
        "doctor:doctor",
        "Check versions, kernels and reproducibility on this machine.",
        "doctor static-mini",
    ),
    "data": Group(
        "Find, check and make data sets.",
        {
            "list": Verb(
                "data:list_entries", "List the data sets of the catalogue and their location.", "data list"
            ),
            "info": Verb("data:info", "Show the details of one data set.", "data info stsb"),
            "fetch": Verb(
                "data:fetch",
                "Download data sets from the hub into the data folder.",
                "data fetch stsb --data-dir data",
            ),
            "verify": Verb(
                "data:verify",
                "Check the row counts of the data sets in the data folder.",
                "data verify --data-dir data",
            ),
            "split-pairs": Verb(
                "pairs:split_pairs",
                "Split labelled pairs into train, dev and test.",
                "data split-pairs pairs.csv --output parts",
            ),
            "nli-triples": Verb(
                "pairs:nli_triples",
                "Make triples from labelled NLI pairs.",
                "data nli-triples nli.csv --output triples.jsonl",
            ),
            "mine-negatives": Verb(
                "pairs:mine_negatives",
                "Add hard negatives to pairs.",
                "data mine-negatives pairs.jsonl --model static-mini --output triples.jsonl",
            ),
            "overlap": Verb(
                "overlap:overlap",
                "Find texts of test sets in training texts.",
                "data overlap sentences.txt --sets sts",
            ),
            "back-translate": Verb(
                "augment:back_translate",
                "Back-translate texts, to get positives.",
                "data back-translate sentences.txt --forward Helsinki-NLP/opus-mt-en-de --backward "
                "Helsinki-NLP/opus-mt-de-en -o "
                "pairs.jsonl",
            ),
            "noisy-copies": Verb(
                "augment:noisy_copies",
                "Sample noisy copies of labelled rows.",
                "data noisy-copies train.csv --forward Helsinki-NLP/opus-mt-en-de --backward "
                "Helsinki-NLP/opus-mt-de-en -o "
                "copies.jsonl",
            ),
        },
    ),
    "index": Group(
        "Build, change and search a semantic index.",
        {
            "build": Verb(
                "index_build:build",
                "Encode documents and build an index.",
                "index build docs.jsonl --model static-mini --output index",
            ),
            "add": Verb(
                "index_changes:add", "Encode more documents and add them.", "index add index more.jsonl"
            ),
            "update": Verb(
                "index_changes:update",
                "Replace documents by their ids, or add them.",
                "index update index new.jsonl",
            ),
            "delete": Verb(
                "index_changes:delete", "Delete documents by their ids.", "index delete index id-17 id-18"
            ),
            "compact": Verb(
                "index_changes:compact", "Merge changes and free disk space.", "index compact index"
            ),
            "upgrade": Verb(
                "index_upgrade:upgrade", "Change the model of an index.", "index upgrade index --model mine"
            ),
            "fit": Verb(
                "index_fit:fit",
                "Fit the hybrid weight on your queries and qrels.",
                "index fit index --queries queries.jsonl --qrels qrels.tsv",
            ),
            "move": Verb(
                "index_move:move",
                "Copy an index to LanceDB, or back to a folder.",
                "index move index --to lancedb:folder",
            ),
            "search": Verb(
                "index:search",
                "Find the best documents for a query.",
                "index search index 'your question' --mode hybrid",
            ),
            "info": Verb("index:info", "Show the contents and settings of an index.", "index info index"),
        },
    ),
}
