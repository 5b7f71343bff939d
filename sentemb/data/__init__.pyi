from .augmented import add_copies, read_copies
from .batches import ClassBalancedBatches, class_balanced_batches
from .catalogue import Entry, entries, get
from .columns import load_columns
from .contamination import Contamination, HeldOut, find_contamination, load_held_out
from .extremes import Extremes, draw_extremes
from .files import Row
from .label_values import score_classes
from .labelled import LabelledTexts, Texts, load_labelled, load_unlabelled, read_labelled
from .nli import Triple, TripleCounts, read_triples
from .paraphrases import PairCounts, PairSplit, clean_pairs, load_pairs, paraphrase_components, split_pairs
from .sampling import cap_per_class, few_shot_per_class, few_shot_sets, imbalanced, stratified_sample
from .sources import describe_source, read_rows
from .splits import lacon_train_split, scl_dev_split, sg_bert_dev_split
from .sts import STS_SETS, ScoredPairs, Subset, load_scored_pairs, read_scored_pairs

__all__ = [
    "STS_SETS",
    "ClassBalancedBatches",
    "Contamination",
    "Entry",
    "Extremes",
    "HeldOut",
    "LabelledTexts",
    "PairCounts",
    "PairSplit",
    "Row",
    "ScoredPairs",
    "Subset",
    "Texts",
    "Triple",
    "TripleCounts",
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
    "get",
    "imbalanced",
    "lacon_train_split",
    "load_columns",
    "load_held_out",
    "load_labelled",
    "load_pairs",
    "load_scored_pairs",
    "load_unlabelled",
    "paraphrase_components",
    "read_copies",
    "read_labelled",
    "read_rows",
    "read_scored_pairs",
    "read_triples",
    "scl_dev_split",
    "score_classes",
    "sg_bert_dev_split",
    "split_pairs",
    "stratified_sample",
]
