"""What the `sentemb` command can do: the one table of its verbs, each with the place of its code."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb that is imported when it is used.

    Attributes:
        target: `module:name` below `sentemb.cli`; a plain function, or a `typer.Typer` app.
        help: Its line in `sentemb --help`.
    """

    target: str
    help: str


class Group(NamedTuple):
    """Verbs under one word, such as `sentemb index build`."""

    help: str
    verbs: dict[str, Verb]


VERBS: dict[str, Verb | Group] = {
    "quickstart": Verb("quickstart:quickstart", "Search, train and evaluate in minutes, without a download."),
    "train": Verb("train:app", "Train an encoder by a recipe, such as sg-opt or simcse."),
    "adapt": Verb("adapt:adapt", "Make an encoder better for your own documents, without labels."),
    "eval": Group(
        "Evaluate encoders.",
        {
            "sts": Verb("evaluate:sts", "Score encoders on STS sets or on your own scored pairs."),
            "transfer": Verb("evaluate:transfer", "Train SentEval's classifiers on frozen sentence vectors."),
            "retrieval": Verb("evaluate:retrieval", "Score search: encoders, BM25, hybrids and saved runs."),
            "geometry": Verb("evaluate:geometry", "Measure alignment, uniformity and spectrum of encoders."),
            "all": Verb(
                "evaluate:all_suites",
                "Evaluate encoders on every suite; each text is encoded once.",
            ),
        },
    ),
    "choose": Verb("choose:choose", "Rank encoders for your own documents, without labels."),
    "experiment": Verb("experiment:experiment", "Train and compare methods: the papers' tables or your own."),
    "tune": Verb("tune:tune", "Try options of a recipe by validation score and keep the best."),
    "compare": Verb("compare:compare", "Compare encoders on the items that their records keep."),
    "export": Verb("export:export", "Write result records in another program's format."),
    "report": Verb("report:report", "Make tables, figures and comparisons of records."),
    "compress": Verb("compress:compress", "Price smaller and faster forms of a model, and write one."),
    "card": Verb("card:card", "Write recorded results into the model card of a folder."),
    "distill": Verb("distill:distill", "Make a smaller, faster student of an encoder."),
    "plan": Verb("plan:plan", "Say what many texts will take: hours, bytes, commands."),
    "encode": Verb("encode:encode", "Encode a corpus of any size into files."),
    "serve": Verb("serve:serve", "Serve models and indexes over HTTP, with a search page."),
    "classify": Verb("classify:classify", "Name the class of each text."),
    "analyse": Group(
        "Look into encoders.",
        {
            "layers": Verb(
                "analyse_layers:layers", "Score every layer under every pooling, from one forward pass."
            ),
            "geometry": Verb(
                "analyse_geometry:geometry", "Draw recorded geometry: alignment, uniformity, spectra, runs."
            ),
            "map": Verb(
                "analyse_maps:pair_map", "Map the most and the least similar pairs to the plane by t-SNE."
            ),
            "classes": Verb(
                "analyse_maps:class_map", "Draw texts as dots and label vectors as stars, by t-SNE."
            ),
        },
    ),
    "doctor": Verb("doctor:doctor", "Show versions and kernels; check that vectors keep their bits."),
    "data": Group(
        "Find, check and make data sets.",
        {
            "list": Verb("data:list_entries", "List the data sets of the catalogue and where they are."),
            "info": Verb("data:info", "Show all that the catalogue knows of one data set."),
            "fetch": Verb("data:fetch", "Download data sets from the hub into the data folder."),
            "verify": Verb("data:verify", "Count the rows of the data sets that are here."),
            "split-pairs": Verb("pairs:split_pairs", "Divide labelled pairs into parts that share no text."),
            "nli-triples": Verb("pairs:nli_triples", "Make triples of labelled inference pairs."),
            "mine-negatives": Verb("pairs:mine_negatives", "Add hard negatives to pairs."),
            "overlap": Verb("overlap:overlap", "Count the texts of test sets that a training text has too."),
            "back-translate": Verb(
                "augment:back_translate", "Translate texts there and back, for positives."
            ),
            "noisy-copies": Verb("augment:noisy_copies", "Sample noisy copies of labelled rows."),
        },
    ),
    "index": Group(
        "Build, change and search a semantic index.",
        {
            "build": Verb("index_build:build", "Encode documents and index them."),
            "add": Verb("index_changes:add", "Encode more documents and add them."),
            "update": Verb("index_changes:update", "Replace documents by their ids, or add them."),
            "delete": Verb("index_changes:delete", "Delete documents by their ids."),
            "compact": Verb("index_changes:compact", "Merge changes and give space back."),
            "upgrade": Verb("index_upgrade:upgrade", "Change to another model."),
            "fit": Verb("index_fit:fit", "Weigh vectors and words in hybrid search."),
            "move": Verb("index_move:move", "Move to LanceDB, or back to a folder."),
            "search": Verb("index:search", "Find the best documents for a query."),
            "info": Verb("index:info", "Show what an index holds, after checking every byte."),
        },
    ),
}
