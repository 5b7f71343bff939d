"""Data sets and texts: the catalogue, the readers, the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.data.augmented import add_copies, read_copies
    from sentemb.data.batches import ClassBalancedBatches, class_balanced_batches
    from sentemb.data.catalogue import Entry, entries, get
    from sentemb.data.columns import load_columns
    from sentemb.data.contamination import Contamination, HeldOut, find_contamination, load_held_out
    from sentemb.data.extremes import Extremes, draw_extremes
    from sentemb.data.label_values import score_classes
    from sentemb.data.labelled import LabelledTexts, UnlabelledTexts, load_labelled, load_unlabelled
    from sentemb.data.labelled_own import read_labelled
    from sentemb.data.nli import Triple, TripleCounts, read_triples
    from sentemb.data.overlap import Overlap, find_overlap
    from sentemb.data.paraphrases import (
        PairCounts,
        PairSplit,
        clean_pairs,
        load_pairs,
        paraphrase_components,
        split_pairs,
    )
    from sentemb.data.provenance import describe_source
    from sentemb.data.sampling import (
        cap_per_class,
        few_shot_per_class,
        few_shot_sets,
        imbalanced,
        stratified_sample,
    )
    from sentemb.data.splits import lacon_train_split, scl_dev_split, sg_bert_dev_split
    from sentemb.data.sts import (
        STS_SETS,
        ScoredPairs,
        Subset,
        load_scored_pairs,
        open_scored_pairs,
        read_scored_pairs,
    )
    from sentemb.data.text import Record, read_records
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "augmented": ["add_copies", "read_copies"],
            "batches": ["ClassBalancedBatches", "class_balanced_batches"],
            "catalogue": ["Entry", "entries", "get"],
            "columns": ["load_columns"],
            "contamination": ["Contamination", "HeldOut", "find_contamination", "load_held_out"],
            "extremes": ["Extremes", "draw_extremes"],
            "label_values": ["score_classes"],
            "labelled": ["LabelledTexts", "UnlabelledTexts", "load_labelled", "load_unlabelled"],
            "labelled_own": ["read_labelled"],
            "nli": ["Triple", "TripleCounts", "read_triples"],
            "overlap": ["Overlap", "find_overlap"],
            "paraphrases": [
                "PairCounts",
                "PairSplit",
                "clean_pairs",
                "load_pairs",
                "paraphrase_components",
                "split_pairs",
            ],
            "provenance": ["describe_source"],
            "sampling": [
                "cap_per_class",
                "few_shot_per_class",
                "few_shot_sets",
                "imbalanced",
                "stratified_sample",
            ],
            "splits": ["lacon_train_split", "scl_dev_split", "sg_bert_dev_split"],
            "sts": [
                "STS_SETS",
                "ScoredPairs",
                "Subset",
                "load_scored_pairs",
                "open_scored_pairs",
                "read_scored_pairs",
            ],
            "text": ["Record", "read_records"],
        },
    )

__all__ = [
    "STS_SETS",
    "ClassBalancedBatches",
    "Contamination",
    "Entry",
    "Extremes",
    "HeldOut",
    "LabelledTexts",
    "Overlap",
    "PairCounts",
    "PairSplit",
    "Record",
    "ScoredPairs",
    "Subset",
    "Triple",
    "TripleCounts",
    "UnlabelledTexts",
    "add_copies",
    "cap_per_class",
    "class_balanced_batches",
    "clean_pairs",
    "describe_source",
    "draw_extremes",
    "entries",
    "few_shot_per_class",
    "few_shot_sets",
    "find_contamination",
    "find_overlap",
    "get",
    "imbalanced",
    "lacon_train_split",
    "load_columns",
    "load_held_out",
    "load_labelled",
    "load_pairs",
    "load_scored_pairs",
    "load_unlabelled",
    "open_scored_pairs",
    "paraphrase_components",
    "read_copies",
    "read_labelled",
    "read_records",
    "read_scored_pairs",
    "read_triples",
    "scl_dev_split",
    "score_classes",
    "sg_bert_dev_split",
    "split_pairs",
    "stratified_sample",
]
