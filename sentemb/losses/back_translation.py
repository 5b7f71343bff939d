"""Contrastive loss with back-translations: a baseline of SG-BERT, which also combines it with SG-OPT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeVar, get_args

from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.base import check_choice
from sentemb.losses.self_guided import Objective, SelfGuidedLoss, ViewCache
from sentemb.losses.views import View, encode_views

Side = Literal["trained", "frozen"]
"""Encoder of the back-translations: the trained BERT_T or the frozen BERT_F."""

_NAME = "BackTranslationLoss"
_Column = TypeVar("_Column")


class BackTranslationLoss(SelfGuidedLoss):
    """Contrastive loss of texts and their back-translations (Kim, Yoo and Lee, 2021, appendix A.2).

    `SelfGuidedLoss` with another positive: v_i is computed from the back-translation of sentence i instead of
    the sentence itself. The head, temperature, objectives, weight regulariser and frozen parts are the same.

    - `view_encoder="trained"` is Contrastive (BT) of tables 1 and 11: v_i = f(c'_i), where c'_i is BERT_T's
      own vector of the back-translation, and the objective is `base`, NT-Xent over the 2b vectors. The
      authors' code and CERT (Fang and Xie, 2020) do the same.
    - `view_encoder="frozen"` uses the views of BERT_F's layers, which is another reading of A.2 ("identical
      with our Contrastive (SG) model"). With `objective="opt3"` it is BT + SG-OPT of table 7.

    If a back-translation equals its original, the positive differs by dropout alone with BERT_T, and the
    loss is plain self-guidance with BERT_F.

    Inputs:
        text, back-translation; labels: none.

    Args:
        model: The encoder to train, with its pretrained weights: they are copied here.
        view_encoder: `trained` or `frozen`, see above.
        objective: `base` in A.2, `opt3` in table 7. The trained encoder returns one view, so `opt3` needs
            the frozen one.
        temperature, layers, drift_weight, projection_width, views, view_cache, gather_across_devices,
            preset: As for `SelfGuidedLoss`; `released` doubles the contrastive term of `base` as the authors'
            code does once it runs.

    Raises:
        InputError: An option is out of range, or the encoder is not a transformer.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls", max_length=128)
        >>> loss = BackTranslationLoss(encoder)
        >>> pairs = load_columns("back.csv", ["text", "back_translation"])
        >>> trainer = SentembTrainer(model=encoder, train_dataset=pairs, loss=loss)
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        objective: Objective = "base",
        view_encoder: Side = "trained",
        temperature: float = 0.01,
        layers: tuple[int, int | None] = (0, None),
        drift_weight: float = 0.1,
        projection_width: int | None = 4096,
        views: Literal["cached", "online"] = "cached",
        view_cache: ViewCache | None = None,
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        check_choice(self, "view_encoder", view_encoder, get_args(Side))
        if view_encoder == "trained" and objective == "opt3":
            raise InputError(
                f"{_NAME} with view_encoder='trained' has one view of each back-translation, but opt3 "
                "needs several",
                "set view_encoder='frozen', or objective='base'",
            )
        super().__init__(
            model,
            objective=objective,
            temperature=temperature,
            layers=layers,
            drift_weight=drift_weight,
            projection_width=projection_width,
            # BERT_F is then the reference of the weight regulariser alone.
            views="online" if view_encoder == "trained" else views,
            view_cache=view_cache,
            gather_across_devices=gather_across_devices,
            preset=preset,
        )
        self.view_encoder = view_encoder

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the weighted components `contrast` and, unless its weight is 0, `drift`."""
        columns = list(sentence_features)
        if len(columns) != 2:
            raise InputError(
                f"{_NAME} compares texts with their back-translations, but this batch has "
                f"{len(columns)} text column{'' if len(columns) == 1 else 's'}",
                "select both columns; `sentemb data back-translate` creates the second one",
            )
        if self.view_encoder == "frozen":
            return self.compute_loss_from_embeddings(self._both_sides(*columns), labels)
        outputs = encode_views(self.model, [View(column) for column in columns])
        texts, translations = (output["sentence_embedding"] for output in outputs)  # each (b, d)
        return self.compute_loss_from_embeddings([texts, translations.unsqueeze(1)], labels)

    def columns_of_views(self, columns: Sequence[_Column]) -> Sequence[_Column]:
        """Return the back-translations: BERT_F does not see the originals."""
        return columns[1:]
