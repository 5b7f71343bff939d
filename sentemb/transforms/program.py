"""`sentemb train flow` and `sentemb train whitening`: fit a transform and write the model folder, or nothing.

flow-bert-mini/         the model
├─ README.md            its card
└─ run/record.json      settings, versions, data, timings
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from sentemb._files import new_folder, refuse_unusable_output, write_json
from sentemb.data import describe_source
from sentemb.modules import load
from sentemb.modules.cards import ENCODER_TAGS, public_name
from sentemb.training.card import Card, encoder_code, run_name, write_card
from sentemb.training.config import FlowRunConfig, WhiteningRunConfig
from sentemb.training.progress import ConsoleProgress
from sentemb.training.ranks import refuse_several
from sentemb.training.record import describe_environment
from sentemb.transforms.append import add_flow, add_whitening
from sentemb.transforms.sentences import Sentences, load_sentences

_NAMES = {"flow": "BERT-flow", "whitening": "BERT-whitening"}
_CITATIONS = {
    "flow": """
@inproceedings{li-etal-2020-sentence,
  title = {On the Sentence Embeddings from Pre-trained Language Models},
  author = {Li, Bohan and Zhou, Hao and He, Junxian and Wang, Mingxuan and Yang, Yiming and Li, Lei},
  booktitle = {EMNLP 2020},
  pages = {9119--9130},
  year = {2020},
}""",
    "whitening": """
@misc{su-etal-2021-whitening,
  title = {Whitening Sentence Representations for Better Semantics and Faster Retrieval},
  author = {Su, Jianlin and Cao, Jiarun and Liu, Weijie and Ou, Yangyiwen},
  year = {2021},
  eprint = {2103.15316},
  archivePrefix = {arXiv},
}""",
}
_STEPS_PER_LINE = 50
_Fitted = tuple[SentenceTransformer, dict[str, Any], dict[str, float], dict[str, Any]]


def fit_transform(
    config: FlowRunConfig | WhiteningRunConfig, *, progress: ConsoleProgress | None = None
) -> Path:
    """Fit a transform and write the model folder, all of it or nothing."""
    refuse_several("a transform")
    output = Path(config.output)
    refuse_unusable_output(output, [], cache=config.cache_dir)
    with new_folder(output) as partial:
        model = load(config.base, pooling=config.pooling)  # type: ignore[arg-type]
        sentences = load_sentences(config.data, config.columns, data_dir=config.data_dir)
        if isinstance(config, FlowRunConfig):
            fitted = _flow(config, model, sentences, progress)
        else:
            fitted = _whitening(config, model, sentences)
        record = _record(config, sentences, *fitted)
        fitted[0].save(str(partial), create_model_card=False)
        write_json(partial / "run" / "record.json", record)
        write_card(partial / "README.md", lambda: _card(config, fitted[0], record))
    return output


def _flow(
    config: FlowRunConfig,
    model: SentenceTransformer,
    sentences: Sentences,
    progress: ConsoleProgress | None,
) -> _Fitted:
    curve: list[dict[str, float]] = []
    began = [time.perf_counter()]

    def note(step: int, steps: int, bits: float) -> None:
        if step == 1:
            began.append(time.perf_counter())
            if progress is not None:
                progress.begin(steps)
        if step == 1 or step % _STEPS_PER_LINE == 0 or step == steps:
            curve.append({"step": step, "bits_per_dimension": round(bits, 5)})
            if progress is not None:
                progress.advance(step)
                progress.show({"bits_per_dimension": bits}, step)

    try:
        fitted = add_flow(
            model,
            *sentences,
            config=config.flow,
            max_length=config.max_length,
            cache_dir=config.cache_dir,
            on_step=note,
            progress=True,
        )
    finally:
        if progress is not None:
            progress.close()
    began.append(time.perf_counter())
    seconds = {"encode": round(began[1] - began[0], 3), "fit": round(began[2] - began[1], 3)}
    return fitted, {"preset": config.preset, **config.flow.values()}, seconds, {"curve": curve}


def _whitening(config: WhiteningRunConfig, model: SentenceTransformer, sentences: Sentences) -> _Fitted:
    began = time.perf_counter()
    fitted = add_whitening(
        model,
        [*sentences.first, *(sentences.second or ())],
        dimensions=config.dimensions,
        max_length=config.max_length,
        cache_dir=config.cache_dir,
        progress=True,
    )
    seconds = {"encode_and_fit": round(time.perf_counter() - began, 3)}
    return fitted, {"kept_dimensions": fitted.get_embedding_dimension()}, seconds, {}


def _record(
    config: FlowRunConfig | WhiteningRunConfig,
    sentences: Sentences,
    model: SentenceTransformer,
    settings: dict[str, Any],
    seconds: dict[str, float],
    metrics: dict[str, Any],
) -> dict[str, Any]:
    data = describe_source(config.data, data_dir=config.data_dir, rows=len(sentences.first))
    return {
        "method": _NAMES[config.recipe],
        "base": config.base,
        "pooling": config.pooling or "the model's own",
        "max_length": config.max_length,
        "modules": [type(module).__name__ for module in model],
        "dimension": model.get_embedding_dimension(),
        "settings": settings,
        "data": data | {"pairs": sentences.second is not None},
        "seconds": seconds,
        "metrics": metrics,
        **describe_environment(),
    }


def _card(
    config: FlowRunConfig | WhiteningRunConfig, model: SentenceTransformer, record: dict[str, Any]
) -> str:
    data, name = record["data"], run_name(config.output)
    kind = "pairs" if data["pairs"] else "sentences"
    rows = {
        "Pooling": record["pooling"],
        "Fitted on": f"{public_name(config.data)}, {data['rows']} {kind}",
        "Dimensions": record["dimension"],
        **{key.replace("_", " ").capitalize(): value for key, value in record["settings"].items()},
    }
    summary = (
        f"A sentence encoder with {record['method']} applied to its vectors; the encoder's weights are "
        "unchanged."
    )
    code = encoder_code(name, model)
    citation = _CITATIONS[config.recipe]
    return Card(name, summary, code, rows, citation, config.base, tags=ENCODER_TAGS).text()
