"""Recipes: a name for everything that decides a run, each value with its source.

A source that begins with "code" is what the released code does, read in it or observed by running it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sentemb.training.values import unknown

SIMCSE_PAPER = "Gao et al., EMNLP 2021"
SIMCSE_CODE = "code princeton-nlp/SimCSE@49fa580"
SG_PAPER = "Kim et al., ACL 2021"
SG_CODE = "code galsang/SG-BERT@23d5ebe"
CS224N_PAPER = "Chen, Stanford CS224N"
CS224N_CODE = "code gpoesia/minbert-default-final-project, on which the paper builds"


class Default(NamedTuple):
    """A default and where it comes from.

    Args:
        value: The value.
        source: Table or section of the paper, or the released code.
    """

    value: Any
    source: str


@dataclass(frozen=True)
class Recipe:
    """The defaults of one method.

    Args:
        name: What the user calls it.
        summary: One line.
        defaults: Field of `TrainConfig`, or `loss_options.NAME`, to its default.
        released: Values that differ under `preset = "released"`.
    """

    name: str
    summary: str
    defaults: Mapping[str, Default]
    released: Mapping[str, Default] = field(default_factory=dict)

    def values(self, preset: str) -> dict[str, Any]:
        """The defaults as plain values.

        Args:
            preset: `paper` or `released`.

        Returns:
            Field name to value, the options of the loss, or of another part, in one dict.
        """
        chosen = self.sources(preset)
        plain: dict[str, Any] = {"recipe": self.name, "preset": preset, "loss_options": {}}
        for key, default in chosen.items():
            table, _, option = key.rpartition(".")
            (plain.setdefault(table, {}) if table else plain)[option] = default.value
        return plain

    def sources(self, preset: str) -> dict[str, Default]:
        """The defaults with their sources.

        Args:
            preset: `paper` or `released`.

        Returns:
            Field name, or `loss_options.NAME`, to default.
        """
        return {**self.defaults, **(self.released if preset == "released" else {})}


_SIMCSE_COMMON = {
    "base": Default("bert-base-uncased", f"{SIMCSE_PAPER}, section 6.1"),
    "weight_decay": Default(0.0, f"{SIMCSE_CODE}, library default"),
    "betas": Default((0.9, 0.999), f"{SIMCSE_CODE}, library default"),
    "epsilon": Default(1e-8, f"{SIMCSE_CODE}, library default"),
    "schedule": Default("linear", f"{SIMCSE_CODE}, library default"),
    "warmup": Default(0.0, f"{SIMCSE_CODE}, library default"),
    "clip": Default(1.0, f"{SIMCSE_CODE}, library default"),
    "max_length": Default(32, f"{SIMCSE_CODE}, run scripts; evaluation does not truncate"),
    "eval_steps": Default(250, f"{SIMCSE_PAPER}, appendix A"),
    "stopping": Default("none", f"{SIMCSE_PAPER}, appendix A: the best dev checkpoint of the whole run"),
    "stopping_limit": Default(10, "not used without a rule"),
    "use_last": Default(False, f"{SIMCSE_PAPER}, appendix A: best STS-B dev score"),
    "seeds": Default((42,), f"{SIMCSE_CODE}, library default; the paper reports one run"),
    "loss": Default("SimCSELoss", f"{SIMCSE_PAPER}, equations 4 and 5"),
    "loss_options.temperature": Default(0.05, f"{SIMCSE_PAPER}, appendix D"),
}
_SIMCSE_SCRIPT = {"eval_steps": Default(125, f"{SIMCSE_CODE}, run scripts")}

_SG_COMMON = {
    "base": Default("bert-base-uncased", f"{SG_PAPER}, section 4.1"),
    "data": Default("stsb-sentences", f"{SG_PAPER}, section 4.2: all STS-B sentences, repeats kept"),
    "pooling": Default("cls", f"{SG_PAPER}, section 3.1"),
    "batch_size": Default(16, f"{SG_PAPER}, table 8"),
    "epochs": Default(1, f"{SG_PAPER}, table 8"),
    "learning_rate": Default(5e-5, f"{SG_PAPER}, table 8"),
    "weight_decay": Default(0.01, f"{SG_CODE}: effective on all but biases and LayerNorm"),
    "betas": Default((0.9, 0.9), f"{SG_PAPER}, table 8"),
    "epsilon": Default(1e-6, f"{SG_CODE}, default of its AdamW"),
    "schedule": Default("linear", f"{SG_CODE}"),
    "warmup": Default(0.1, f"{SG_CODE}"),
    "clip": Default(1.0, f"{SG_CODE}: global norm, projection head included"),
    "max_length": Default(128, f"{SG_CODE}"),
    "eval_steps": Default(50, f"{SG_PAPER}, table 8"),
    "stopping": Default("drops", f"{SG_CODE}: drops against the previous score, never reset"),
    "stopping_limit": Default(10, f"{SG_PAPER}, table 8: endurance"),
    "use_last": Default(False, "the best dev checkpoint; the released code scores the last weights"),
    "seeds": Default((1,), f"{SG_PAPER}, table 8: 1, 2, 3, 4, 1234, 2345, 3456, 7890"),
    "loss": Default("SelfGuidedLoss", f"{SG_PAPER}, section 3"),
    "loss_options.temperature": Default(0.01, f"{SG_PAPER}, table 8: tau"),
    "loss_options.drift_weight": Default(0.1, f"{SG_PAPER}, table 8: lambda"),
}
_SG_RELEASED = {
    "use_last": Default(True, f"{SG_CODE}: prints the scores of the last weights"),
    "loss_options.preset": Default("released", f"{SG_CODE}: mean views, dropout in the frozen encoder, ..."),
}

# Section 4.2's data have back-translations only once they are made: `sentemb data back-translate`.
_BT_COMMON = {
    **{key: default for key, default in _SG_COMMON.items() if key != "data"},
    "columns": Default(("text", "back_translation"), "what `sentemb data back-translate` writes"),
    "loss": Default("BackTranslationLoss", f"{SG_PAPER}, appendix A.2"),
}

_CS224N_COMMON = {
    "base": Default("bert-base-uncased", CS224N_CODE),
    "pooling": Default("cls", f"{CS224N_PAPER}, section 4.1: hidden state of [CLS]"),
    "batch_size": Default(16, f"{CS224N_PAPER}, section 5.3; 32 and 64 were tried"),
    "learning_rate": Default(2e-5, f"{CS224N_PAPER}, table 10: the best of three"),
    "weight_decay": Default(0.0, f"{CS224N_CODE}, default of its AdamW"),
    "betas": Default((0.9, 0.999), f"{CS224N_CODE}, default of its AdamW"),
    "epsilon": Default(1e-6, f"{CS224N_CODE}, default of its AdamW"),
    "schedule": Default("constant", f"{CS224N_PAPER}, section 7: a schedule is future work"),
    "warmup": Default(0.0, f"{CS224N_PAPER}, section 7"),
    "clip": Default(0.0, f"{CS224N_CODE}: none"),
    "max_length": Default(512, f"{CS224N_CODE}: BERT's own limit"),
    "eval_steps": Default(1000, "not stated in steps; the paper evaluates after each epoch"),
    "stopping": Default("none", f"{CS224N_PAPER}, section 5.3: a fixed number of epochs"),
    "stopping_limit": Default(10, "not used without a rule"),
    "use_last": Default(False, f"{CS224N_PAPER}, section 5.3: the best weights on the dev sets"),
    "seeds": Default((11711,), CS224N_CODE),
    "loss_options.temperature": Default(0.05, f"{CS224N_PAPER}, section 5.3"),
    "loss_options.head": Default("two-layer", f"{CS224N_PAPER}, section 4.1: thrown away after training"),
}


def _self_guided(name: str, objective: str, summary: str, source: str) -> Recipe:
    chosen = {**_SG_COMMON, "loss_options.objective": Default(objective, f"{SG_PAPER}, {source}")}
    return Recipe(name, summary, chosen, _SG_RELEASED)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "simcse",
            "SimCSE without labels: two dropout views of each sentence",
            {
                **_SIMCSE_COMMON,
                "data": Default("simcse-wiki", f"{SIMCSE_PAPER}, section 6.1: a million Wikipedia sentences"),
                "pooling": Default("cls", f"{SIMCSE_PAPER}, section 6.3: MLP in training only"),
                "batch_size": Default(64, f"{SIMCSE_PAPER}, appendix A"),
                "epochs": Default(1, f"{SIMCSE_PAPER}, appendix A"),
                "learning_rate": Default(3e-5, f"{SIMCSE_PAPER}, appendix A; 1e-5 for large models"),
            },
            _SIMCSE_SCRIPT,
        ),
        Recipe(
            "simcse-supervised",
            "SimCSE with pairs, or triples with hard negatives",
            {
                **_SIMCSE_COMMON,
                "data": Default(
                    "simcse-nli", f"{SIMCSE_PAPER}, section 4: entailed and contradicting hypotheses"
                ),
                "pooling": Default("cls-mlp", f"{SIMCSE_PAPER}, section 6.3: MLP kept"),
                "loss_options.head": Default(None, "the MLP is part of the model"),
                "batch_size": Default(512, f"{SIMCSE_PAPER}, appendix A"),
                "epochs": Default(3, f"{SIMCSE_PAPER}, appendix A"),
                "learning_rate": Default(5e-5, f"{SIMCSE_PAPER}, appendix A; 1e-5 for large models"),
            },
            _SIMCSE_SCRIPT,
        ),
        Recipe(
            "simcse-nli",
            "NLI triples under a two-layer head of the loss: contrastive pre-training of CS224N",
            {
                **_CS224N_COMMON,
                "data": Default("simcse-nli", f"{CS224N_PAPER}, section 5.1: SimCSE's file of triples"),
                "epochs": Default(3, f"{CS224N_PAPER}, table 8"),
                "loss": Default("SimCSELoss", f"{CS224N_PAPER}, section 4.4: as SimCSE"),
            },
        ),
        Recipe(
            "quora",
            "Labelled pairs: paraphrases are positives, the contrast of other pairs is maximised",
            {
                **_CS224N_COMMON,
                "data": Default("cs224n-quora", f"{CS224N_PAPER}, section 5.1"),
                "label": Default("label", f"{CS224N_PAPER}, section 4.1: 1 for paraphrases"),
                "epochs": Default(5, f"{CS224N_PAPER}, section 5.3"),
                "loss": Default("ParaphraseContrastLoss", f"{CS224N_PAPER}, section 4.1"),
                "loss_options.negatives": Default("signed", f"{CS224N_PAPER}, section 4.1: maximized"),
            },
        ),
        _self_guided(
            "sg", "base", "Self-guided: the sentence against one layer's view, NT-Xent", "section 3.1"
        ),
        _self_guided("sg-opt1", "opt1", "Self-guided, views are negatives beside sentences", "section 3.2"),
        _self_guided("sg-opt2", "opt2", "Self-guided, only views are negatives", "section 3.2"),
        _self_guided("sg-opt", "opt3", "Self-guided with all layers' views: SG-OPT", "section 3.2"),
        Recipe(
            "bt",
            "Texts against their back-translations, NT-Xent: Contrastive (BT)",
            {
                **_BT_COMMON,
                "loss_options.objective": Default("base", f"{SG_PAPER}, appendix A.2: NT-Xent"),
                "loss_options.view_encoder": Default(
                    "trained", f"{SG_CODE}; CERT (Fang and Xie, 2020); A.2 does not say"
                ),
            },
            _SG_RELEASED,
        ),
        Recipe(
            "bt-sg-opt",
            "Texts against all layers' views of their back-translations: BT + SG-OPT",
            {
                **_BT_COMMON,
                "loss_options.objective": Default("opt3", f"{SG_PAPER}, table 7"),
                "loss_options.view_encoder": Default(
                    "frozen", f"{SG_PAPER}, section 6: the back-translation into BERT_F"
                ),
            },
            _SG_RELEASED,
        ),
    )
}


def get_recipe(name: str) -> Recipe:
    """Look a recipe up.

    Args:
        name: Its name.

    Returns:
        The recipe.

    Raises:
        InputError: There is none of this name.
    """
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]
