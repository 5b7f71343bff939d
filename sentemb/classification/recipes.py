"""Recipes of classifiers, each value with its source.

LaCon's experiments (section 3.1) set the optimization of everything that is compared there: learning rates
and batch sizes are from its grids, which it searched per data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentemb.classification.config import ClassifierConfig
from sentemb.errors import InputError
from sentemb.training.recipes import Default, Recipe
from sentemb.training.resolution import fill
from sentemb.training.values import unknown

DEVLIN = "Devlin et al., NAACL 2019"
CONSERT = "Yan et al., ACL 2021"
SCL_PAPER = "Gunel et al., ICLR 2021"
LACON = "Zhang et al., NAACL 2022"
SUPCL_PAPER = "Sedghamiz et al., Findings of EMNLP 2021"
SUPCL_CODE = "code hooman650/SupCL-Seq@320440f"

_COMMON = {
    "schedule": Default("linear", "library default"),
    "betas": Default((0.9, 0.999), "library default"),
    "epsilon": Default(1e-8, "library default"),
    "clip": Default(1.0, "library default"),
    "max_length": Default(128, "not stated; the usual length for GLUE"),
    "stopping": Default("none", "the best validation checkpoint of the whole run"),
    "stopping_limit": Default(3, "not used without a rule"),
    "use_last": Default(False, "the best validation checkpoint"),
    "seeds": Default((1,), "the papers use ten seeds"),
}
_OPTIMIZATION = ("base", "batch_size", "epochs", "learning_rate", "weight_decay", "schedule", "warmup")
_CE = {
    **_COMMON,
    "base": Default("bert-base-uncased", f"{DEVLIN}, section 3"),
    "pooling": Default("cls-mlp", f"{DEVLIN}, section 3: the pooled first token"),
    "loss": Default("CrossEntropyLoss", f"{DEVLIN}, section 4.1"),
    "head": Default("linear", f"{DEVLIN}, section 4.1"),
    "head_options.dropout": Default(0.1, f"{DEVLIN}, appendix A.3"),
    "batch_size": Default(32, f"{DEVLIN}, section 4.1"),
    "epochs": Default(3, f"{DEVLIN}, section 4.1"),
    "learning_rate": Default(2e-5, f"{DEVLIN}, section 4.1: 2e-5 to 5e-5"),
    "weight_decay": Default(0.01, f"{DEVLIN}, appendix A.2"),
    "warmup": Default(0.1, "code google-research/bert: run_classifier"),
}
_LACON = {
    **_COMMON,
    "base": Default("bert-base-uncased", f"{LACON}, section 3.1"),
    "batch_size": Default(32, f"{LACON}, section 3.1: 8 to 96"),
    "epochs": Default(10, f"{LACON}, section 3.1"),
    "learning_rate": Default(2e-5, f"{LACON}, section 3.1: 1e-5 to 3e-5"),
    "weight_decay": Default(0.0, f"{LACON}, section 3.1 names none; library default"),
    "warmup": Default(0.06, f"{LACON}, section 3.1"),
}
_LABEL_VECTORS = {
    **_LACON,
    "pooling": Default("cls", f"{LACON}, section 2.1"),
    "loss": Default("LaConLoss", f"{LACON}, equation 7"),
    "head_options.temperature": Default(0.1, f"{LACON}, section 4.4: 0.1 to 0.2"),
    "loss_options.ler_weight": Default(0.5, f"{LACON}, section 4.4: a wide plateau over 0.1 to 1"),
}
_BASELINE = f"{LACON}, section 3.2"
_SUPCL = {
    **_COMMON,
    "base": Default("bert-base-uncased", f"{SUPCL_PAPER}, section 3"),
    "pooling": Default("cls-mlp", f"{SUPCL_CODE}: the pooler's output"),
    "loss": Default("SupCLSeqLoss", f"{SUPCL_PAPER}, equation 2"),
    "loss_options.dropouts": Default((0.0, 0.1, 0.2), f"{SUPCL_PAPER}, table 4: most tasks"),
    "loss_options.temperature": Default(0.05, f"{SUPCL_PAPER}, table 4"),
    "batch_size": Default(128, f"{SUPCL_PAPER}, table 4: CoLA and MRPC"),
    "epochs": Default(5, f"{SUPCL_PAPER}, table 4: most tasks"),
    "learning_rate": Default(5e-5, f"{SUPCL_PAPER}, table 4: CoLA"),
    "weight_decay": Default(0.0, "not stated; library default"),
    "warmup": Default(0.0, "not stated; library default"),
    "head": Default("linear", f"{SUPCL_PAPER}, section 2"),
    "head_options.dropout": Default(0.1, f"{SUPCL_CODE}: the library's BERT head"),
    "probe_options.learning_rate": Default(1e-3, f"{SUPCL_CODE}, notebooks"),
    "probe_options.weight_decay": Default(0.01, f"{SUPCL_CODE}, notebooks"),
    "probe_options.warmup_steps": Default(50, f"{SUPCL_CODE}, notebooks; at most a tenth of the steps"),
    "probe_options.epochs": Default(5, f"{SUPCL_CODE}, notebooks: 3 to 5"),
    "probe_options.min_steps": Default(390, f"5 epochs of RTE, the smallest set {SUPCL_PAPER} gains on"),
}
_SUPCL_RELEASED = {
    "loss_options.preset": Default("released", f"{SUPCL_CODE}: views and scale as computed"),
    "batch_size": Default(32, f"{SUPCL_CODE}, notebooks"),
    "epochs": Default(3, f"{SUPCL_CODE}, notebooks"),
    "probe_options.min_steps": Default(0, f"{SUPCL_CODE}, notebooks"),
    "probe_options.encoder_dropout": Default(
        True, f"{SUPCL_CODE}: the frozen encoder stays in training mode"
    ),
}

CLASSIFIER_RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("ce", "Cross-entropy: BERT's fine-tuning", _CE),
        Recipe(
            "ce-cl",
            "Cross-entropy and a contrastive term between dropout views",
            {
                **_LACON,
                "pooling": _CE["pooling"],
                "loss": Default("CrossEntropyContrastLoss", _BASELINE),
                "head": _CE["head"],
                "head_options.dropout": _CE["head_options.dropout"],
                "loss_options.weight": Default(0.15, f"{CONSERT}: alpha"),
                "loss_options.temperature": Default(0.1, CONSERT),
            },
        ),
        Recipe(
            "scl",
            "Cross-entropy and supervised contrastive learning",
            {
                **_COMMON,
                "base": Default("roberta-large", f"{SCL_PAPER}, section 4.1"),
                "pooling": Default("cls-mlp", f"{SCL_PAPER}: RoBERTa's classification head"),
                "loss": Default("CrossEntropySupConLoss", f"{SCL_PAPER}, equations 1 to 3"),
                "head": Default("linear", f"{SCL_PAPER}, section 2"),
                "head_options.dropout": Default(0.1, f"{SCL_PAPER}, section 4.1"),
                "loss_options.temperature": Default(0.3, f"{SCL_PAPER}: tau, mostly the best there"),
                "loss_options.weight": Default(0.9, f"{SCL_PAPER}: lambda, mostly the best there"),
                "batch_size": Default(16, f"{SCL_PAPER}, section 4.1"),
                "epochs": Default(10, "not stated; that of RoBERTa's own fine-tuning on GLUE"),
                "learning_rate": Default(1e-5, f"{SCL_PAPER}, section 4.1"),
                "weight_decay": Default(0.0, f"{SCL_PAPER}, section 4.1: plain Adam"),
                "warmup": Default(0.06, "not stated; that of RoBERTa's own fine-tuning on GLUE"),
            },
        ),
        Recipe(
            "supcl-seq",
            "Supervised contrast of dropout views, then a linear head on the frozen encoder",
            _SUPCL,
            _SUPCL_RELEASED,
        ),
        Recipe(
            "supcl-seq-self",
            "Self-supervised contrast of dropout views, then a linear head on the frozen encoder",
            {
                **_SUPCL,
                "self_supervised": Default(True, f"{SUPCL_PAPER}, section 3.3"),
                "loss_options.dropouts": Default((0.1, 0.1), f"{SUPCL_PAPER}, section 3.3: as SimCSE's"),
            },
        ),
        Recipe(
            "lacon",
            "Label anchored contrastive learning, LaCon-vanilla",
            {**_LABEL_VECTORS, "head": Default("label", f"{LACON}, section 2.1")},
        ),
        Recipe(
            "lacon-fusion",
            "Label anchored contrastive learning with label fusion, LaCon-fusion",
            {**_LABEL_VECTORS, "head": Default("label-fusion", f"{LACON}, equation 9")},
        ),
        Recipe(
            "leam",
            "Label-aware attention and cross-entropy, also on the label vectors",
            {
                **_LACON,
                "pooling": Default("cls", "not used: the head reads the hidden states"),
                "loss": Default("LeamLoss", "Wang et al., ACL 2018"),
                "head": Default("leam", _BASELINE),
            },
        ),
        Recipe(
            "lsan",
            "Label-specific attention and cross-entropy",
            {
                **_LACON,
                "pooling": Default("cls", "not used: the head reads the hidden states"),
                "loss": Default("CrossEntropyLoss", f"{_BASELINE}: softmax in place of sigmoids"),
                "head": Default("lsan", _BASELINE),
            },
        ),
    )
}


def resolve_classifier(
    recipe: str,
    *,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    assignments: Mapping[str, str] | None = None,
) -> ClassifierConfig:
    """Fill a classifier's configuration: the recipe's defaults, over them the file, over that the flags.

    Args:
        recipe: Name in `CLASSIFIER_RECIPES`.
        file: TOML file with fields of `ClassifierConfig`.
        overrides: Field name to value; `None` means "not given".
        assignments: Field name, or `loss_options.NAME`, to text as the user wrote it.

    Returns:
        The configuration.

    Raises:
        InputError: Unknown recipe, field or preset, a value of the wrong type, or no output.
    """
    chosen = _recipe(recipe)
    config = fill(ClassifierConfig, chosen, file=file, overrides=overrides, assignments=assignments)
    if config.preset == "released" and not chosen.released:
        raise InputError(f"there is no released code for {recipe}", "leave the preset out")
    return config


def optimization_of(recipe: str) -> dict[str, Any]:
    """How a recipe trains, whatever its objective: what a fair comparison with it shares.

    Args:
        recipe: Name in `CLASSIFIER_RECIPES`.

    Returns:
        Base, batch size, epochs, learning rate and its course, and weight decay.

    Raises:
        InputError: There is no such recipe.
    """
    values = _recipe(recipe).values("paper")
    return {name: values[name] for name in _OPTIMIZATION}


def _recipe(name: str) -> Recipe:
    if name not in CLASSIFIER_RECIPES:
        raise unknown("recipe", name, CLASSIFIER_RECIPES)
    return CLASSIFIER_RECIPES[name]
