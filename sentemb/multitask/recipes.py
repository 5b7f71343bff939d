"""Every row of the paper's Tables 1 to 10, as recipes.

The paper's comparisons in one table "differ only by the highlighted characteristics", but its tables differ
among each other in what they do not name: the row "3 Given" has the overall scores .664, .651, .637 and .610
in Tables 2, 4, 10 and 9. Here all that a table does not highlight is as in Table 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentemb.multitask.config import LOSS, MultiTaskConfig
from sentemb.multitask.tasks import TASKS
from sentemb.training.recipes import Default, Recipe
from sentemb.training.resolution import fill
from sentemb.training.values import unknown

PAPER = "Chen, Stanford CS224N"
STARTER = "code gpoesia/minbert-default-final-project, on which the paper builds"

_COMMON = {
    "base": Default("bert-base-uncased", f"{STARTER}"),
    "pooling": Default("cls", f"{PAPER}, section 4.1: hidden state of [CLS]"),
    "batch_size": Default(16, f"{PAPER}, section 5.3"),
    "epochs": Default(10, f"{PAPER}, section 5.3"),
    "learning_rate": Default(1e-5, f"{PAPER}, section 5.3"),
    "weight_decay": Default(0.0, f"{STARTER}, default of its AdamW"),
    "betas": Default((0.9, 0.999), f"{STARTER}, default of its AdamW"),
    "epsilon": Default(1e-6, f"{STARTER}, default of its AdamW"),
    "schedule": Default("constant", f"{PAPER}, section 7: a schedule is future work"),
    "warmup": Default(0.0, f"{PAPER}, section 7"),
    "clip": Default(0.0, f"{STARTER}: none"),
    "max_length": Default(512, f"{STARTER}: BERT's own limit"),
    "stopping": Default("none", f"{PAPER}, section 5.3: a fixed number of epochs"),
    "stopping_limit": Default(10, "not used without a rule"),
    "use_last": Default(False, f"{PAPER}, section 5.3: the best epoch on the dev sets"),
    "seeds": Default((11711,), f"{STARTER}"),
    "loss": Default(LOSS, f"{PAPER}, section 4.1"),
    "loss_options.temperature": Default(0.05, f"{PAPER}, section 5.3"),
    "loss_options.negatives": Default("signed", f"{PAPER}, section 4.1: their loss is maximized"),
    "sharing": Default("first-layer", f"{PAPER}, section 4.2"),
    "head_dropout": Default(0.3, f"{PAPER}, section 5.3"),
    "contrast": Default("before", f"{PAPER}, sections 4.1 and 4.2"),
    "contrast_data": Default(("given",), f"{PAPER}, table 2"),
    "contrast_epochs": Default(5, f"{PAPER}, section 5.3"),
    "nli_epochs": Default(3, f"{PAPER}, section 5.3"),
    "contrast_learning_rate": Default(2e-5, f"{PAPER}, table 10"),
}
_UNSUPERVISED = {
    "tasks": ("sentiment",),
    "sharing": "none",
    "contrast_supervised": False,
    "contrast_epochs": 10,
    "contrast_learning_rate": 1e-5,
    "paraphrase_share": 0.06,
}
_NO_CONTRAST = {"contrast": "none"}

ROWS: Mapping[str, Mapping[str, Any]] = {
    "table1-vanilla": {"tasks": ("sentiment",), "sharing": "none", **_NO_CONTRAST},
    "table1-contrast-first": {**_UNSUPERVISED, "contrast": "before"},
    "table1-supervised-first": {**_UNSUPERVISED, "contrast": "after"},
    "table1-fusion": {**_UNSUPERVISED, "contrast": "fused"},
    "table2-none": _NO_CONTRAST,
    "table2-nli": {"contrast_data": ("nli",)},
    "table2-given": {},
    **{f"table2-single-{task}": {"tasks": (task,)} for task in TASKS},
    "table3-all-different": {**_NO_CONTRAST, "sharing": "separate"},
    "table3-shared-heads": {**_NO_CONTRAST, "sharing": "full"},
    "table3-shared-first-layer": _NO_CONTRAST,
    "table4-quora-no-negatives": {"contrast_data": ("quora",), "loss_options.negatives": "ignored"},
    "table4-quora": {"contrast_data": ("quora",)},
    "table4-given": {},
    "table5-nli-given": {"contrast_data": ("nli", "given")},
    "table5-given-nli": {"contrast_data": ("given", "nli")},
    "table5-nli": {"contrast_data": ("nli",)},
    "table5-given": {},
    "table6-epoch-round-robin": {**_NO_CONTRAST, "task_schedule": "epoch-round-robin"},
    "table6-batch-round-robin": {**_NO_CONTRAST, "task_schedule": "batch-round-robin"},
    "table6-average": _NO_CONTRAST,
    # Its second row is that of "NLI before 3 Given" in Table 5.
    "table7-gradient-surgery": {"contrast_data": ("nli", "given"), "gradient_surgery": True},
    "table7-average": {"contrast_data": ("nli", "given")},
    "table8-1": {"contrast_data": ("nli",), "nli_epochs": 1},
    "table8-3": {"contrast_data": ("nli",), "nli_epochs": 3},
    "table9-2": {"contrast_epochs": 2},
    "table9-3": {"contrast_epochs": 3},
    "table10-1e-5": {"contrast_learning_rate": 1e-5},
    "table10-2e-5": {"contrast_learning_rate": 2e-5},
    "table10-3e-5": {"contrast_learning_rate": 3e-5},
}
"""What a row changes in the paper's best single model, Table 2's "3 Given"."""


def multitask_recipe(row: str) -> Recipe:
    """The recipe of a row."""
    if row not in ROWS:
        raise unknown("row", row, ROWS)
    table = row.partition("-")[0].replace("table", "table ")
    own = {name: Default(value, f"{PAPER}, {table}") for name, value in ROWS[row].items()}
    return Recipe(row, f"Several tasks: {row} of {PAPER}", _COMMON | own)


def resolve_multitask(
    row: str = "table2-given",
    *,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    assignments: Mapping[str, str] | None = None,
) -> MultiTaskConfig:
    """Fill a configuration: the row's values, over them the file, over that the flags.

    Args:
        row: A name of `ROWS`.
        file: TOML file with fields of `MultiTaskConfig` and a table `[loss_options]`.
        overrides: Field name to value; `None` means "not given".
        assignments: Field name, or `loss_options.NAME`, to text as the user wrote it.

    Returns:
        The configuration.

    Raises:
        InputError: Unknown row or field, a value of the wrong type, or no output.
    """
    return fill(
        MultiTaskConfig, multitask_recipe(row), file=file, overrides=overrides, assignments=assignments
    )
