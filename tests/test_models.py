"""Every kind of encoder goes through every verb, or is refused in one line that says why."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb.adaptation import adapt
from sentemb.compression import compress, distill_layers, distill_static
from sentemb.data.documents import Document
from sentemb.data.sts import ScoredPairs, Subset
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation import evaluate_pairs
from sentemb.modules import load
from sentemb.training import resolve, train
from tests.models_matrix import MODELS
from tests.models_networks import WORDS, write_network
from tests.models_others import OTHERS, Other
from tests.models_page import PAGE, page

NAMES = [model.name for model in MODELS]
TEXTS = ["a cat sat on the mat", "birds", "two dogs ran quickly in the park with a man"]
STEP = {"max_steps": 2, "batch_size": 8, "max_length": 24, "precision": "float32"}
needs_runtimes = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript", "openvino")),
    reason="needs the extra compress",
)


def drawn(count: int, *, seed: int, shortest: int = 3) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, size=generator.integers(shortest, 12))) for _ in range(count)]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every model of the matrix."""
    root = tmp_path_factory.mktemp("models")
    for model in MODELS:
        (root / model.name).mkdir()
        model.write(root / model.name)
    return {model.name: root / model.name for model in MODELS}


@pytest.fixture(scope="session")
def pairs() -> ScoredPairs:
    first, second = drawn(30, seed=1), drawn(30, seed=2)
    gold = np.array([len({*a.split()} & {*b.split()}) for a, b in zip(first, second, strict=True)], float)
    return ScoredPairs("own", "dev", first, second, gold, (Subset("own", 0, 30),))


@pytest.fixture(scope="session")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sentences") / "sentences.txt"
    path.write_text("\n".join(drawn(600, seed=3)))
    return path


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    return [Document(text, f"{row}") for row, text in enumerate(drawn(120, seed=4, shortest=8))]


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_encodes_as_sentence_transformers_and_is_saved_as_it_is(
    folders: dict[str, Path], pairs: ScoredPairs, tmp_path: Path, model: Any
) -> None:
    encoder = load_encoder(folders[model.name], device="cpu")
    vectors = encoder.encode(TEXTS)
    plain = SentenceTransformer(str(folders[model.name]), device="cpu")
    # In some architectures a text's vector depends on padding, so that two vectors are right.
    right = [plain.encode(TEXTS, batch_size=size) for size in (1, len(TEXTS))]
    assert any(np.allclose(vectors, one, rtol=0, atol=model.tolerance) for one in right)
    assert json.dumps(encoder.describe())
    (found,) = evaluate_pairs(encoder, [pairs]).datasets
    assert found.name == "own"

    encoder.model.save_pretrained(str(tmp_path / "again"), create_model_card=False)  # type: ignore[attr-defined]
    again = load_encoder(tmp_path / "again", device="cpu")
    np.testing.assert_array_equal(again.encode(TEXTS), vectors)
    assert again.fingerprint == load_encoder(tmp_path / "again", device="cpu").fingerprint


def test_a_decoder_without_a_padding_token_pads_with_its_end(tmp_path: Path) -> None:
    write_network(tmp_path, "gpt_neo", task="causal", pads=False)
    model = load(tmp_path, device="cpu")
    with pytest.raises(ValueError, match="padding token"):
        SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS)
    alone = np.stack([model.encode(text) for text in TEXTS])
    np.testing.assert_allclose(model.encode(TEXTS), alone, atol=1e-5)
    np.testing.assert_allclose(load_encoder(model).encode(TEXTS), alone, atol=1e-5)


TRAINED = (
    "bert-bf16 bert-fp16 bert-matryoshka weighted-layers bert-cnn t5 modernbert gpt2 qwen3-bf16 llama-raw "
    "static static-matryoshka words words-lstm router-static clip"
).split()


@pytest.mark.parametrize("name", TRAINED)
def test_trains_in_float32(folders: dict[str, Path], sentences: Path, tmp_path: Path, name: str) -> None:
    given = {**STEP, "eval_steps": 2, "data": str(sentences), "dev": "none", "learning_rate": 1e-6}
    given |= {"base": str(folders[name]), "output": str(tmp_path / "mine"), "loss_options": {"head": None}}
    train(resolve("simcse", overrides=given))
    before, after = load(folders[name], device="cpu"), load(tmp_path / "mine", device="cpu")
    weights = {key: value.float() for key, value in before.state_dict().items() if value.is_floating_point()}
    trained = after.state_dict()
    assert {trained[key].dtype for key in weights} == {torch.float32}
    # In 16 bits so small a step would be rounded away. A truncated table has another shape than before.
    same = [key for key in weights if trained[key].shape == weights[key].shape]
    assert not same or any(bool((trained[key] != weights[key]).any()) for key in same)
    assert after.encode(TEXTS).shape == before.encode(TEXTS).shape


@pytest.mark.parametrize("name", ["bag-of-words", "words-fixed"])
def test_without_trainable_weights_training_is_refused(
    folders: dict[str, Path], sentences: Path, tmp_path: Path, name: str
) -> None:
    given = {**STEP, "eval_steps": 2, "data": str(sentences), "dev": "none", "base": str(folders[name])}
    with pytest.raises(InputError, match="does not have trainable weights"):
        train(resolve("simcse", overrides={**given, "output": str(tmp_path / "mine")}))


@pytest.mark.parametrize("name", TRAINED)
def test_adapts(folders: dict[str, Path], documents: list[Document], tmp_path: Path, name: str) -> None:
    outcome = adapt(documents, str(folders[name]), tmp_path / "mine", teacher="none", **STEP)
    kept = load_encoder(outcome.output, device="cpu").encode(TEXTS)
    base = load_encoder(folders[name], device="cpu").encode(TEXTS)
    assert kept.shape == base.shape
    assert outcome.helped or np.array_equal(kept, base)


def test_a_recipe_that_pools_the_first_token_trains_a_decoder_by_its_own_pooling(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    given = {"data": "none", "output": str(tmp_path / "mine")}
    for name in ("llama-raw", "gpt2-raw"):
        assert resolve("simcse", overrides={**given, "base": str(folders[name])}).pooling is None
        with pytest.raises(
            InputError, match=r"is a decoder: its first token, which cls pooling uses, does not see"
        ):
            load(folders[name], pooling="cls", device="cpu")
    assert resolve("simcse", overrides={**given, "base": str(folders["bert-raw"])}).pooling == "cls"


def test_a_decoder_is_adapted_by_its_last_token(
    folders: dict[str, Path], documents: list[Document], tmp_path: Path
) -> None:
    outcome = adapt(documents, str(folders["llama-raw"]), tmp_path / "mine", teacher="none", **STEP)
    assert SentenceTransformer(str(outcome.output), device="cpu")[1].pooling_mode == "lasttoken"


@pytest.mark.parametrize("name", ["bert-bf16", "xlm-roberta", "gpt2", "qwen3"])
def test_a_static_student_agrees(
    folders: dict[str, Path], sentences: Path, tmp_path: Path, name: str
) -> None:
    options: dict[str, Any] = {"dimension": 8, "vocabulary": 1000, "steps": 2}
    student = distill_static(str(folders[name]), sentences, tmp_path / "mine", device="cpu", **options)
    assert student.agreement.cosine > 0.3
    assert SentenceTransformer(str(student.output), device="cpu").encode(TEXTS).shape == (3, 8)


def test_words_have_no_pieces_for_a_static_student(
    folders: dict[str, Path], sentences: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="needs a teacher with a fast tokenizer"):
        distill_static(str(folders["words"]), sentences, tmp_path / "mine", dimension=8, steps=2)


@pytest.mark.parametrize(
    "name",
    ["bert-matryoshka", "modernbert", "gpt-neo", "t5", "qwen3-bf16", "gemma3", "deberta-v2", "bert-cnn"],
)
def test_a_student_with_fewer_layers_is_made(
    folders: dict[str, Path], sentences: Path, tmp_path: Path, name: str
) -> None:
    student = distill_layers(
        str(folders[name]), sentences, tmp_path / "mine", layers=1, max_steps=2, batch_size=8
    )
    whole, smaller = load(folders[name], device="cpu"), SentenceTransformer(str(student.output), device="cpu")
    assert smaller[0].model.config.num_hidden_layers == 1
    assert smaller.encode(TEXTS).shape == whole.encode(TEXTS).shape


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("albert", "AlbertModel does not have a plain stack of layers"),
        ("weighted-layers", "it pools several layers"),
        ("words", "WordEmbeddings does not have a plain stack of layers"),
        ("static", "StaticEmbedding does not have a plain stack of layers"),
        ("router", "Router does not have a plain stack of layers"),
    ],
)
def test_without_layers_to_leave_out_is_one_line(
    folders: dict[str, Path], sentences: Path, tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        distill_layers(str(folders[name]), sentences, tmp_path / "mine", layers=1, batch_size=8)


SMALLER = {
    "bert-bf16": {"float16", "layers-1", "dimensions-8", "int8-vectors"},
    "modernbert": {"float16", "bf16", "layers-1"},
    "gpt-neo": {"float16", "layers-1"},
    "qwen3": {"layers-1"},
    "albert": {"float16", "bf16", "int8-vectors"},
    "weighted-layers": {"float16", "dimensions-8"},
    "bert-cnn": {"layers-1"},
    "bert-matryoshka": {"layers-1", "int8-vectors"},
    "static-matryoshka": {"int8", "int8-vectors"},
    "words-lstm": {"dimensions-8", "int8-vectors"},
    "bag-of-words": {"int8-vectors"},
    "router-static": {"dimensions-8", "int8-vectors"},
    "clip": {"dimensions-8", "int8-vectors"},
}


@pytest.mark.parametrize("name", SMALLER)
def test_smaller_forms_are_made(folders: dict[str, Path], pairs: ScoredPairs, name: str) -> None:
    found = compress(folders[name], drawn(40, seed=5), pairs=[pairs], only=sorted(SMALLER[name]))
    assert {row.name for row in found.rows} == {"model", *SMALLER[name]}
    (whole, *_) = found.rows
    # What is compared with is the model as its files keep it.
    assert whole.bytes == sum(path.stat().st_size for path in folders[name].rglob("*.safetensors"))


@needs_runtimes
@pytest.mark.parametrize("name", ["deberta-v2", "qwen3-bf16", "t5"])
def test_networks_are_converted(
    folders: dict[str, Path], pairs: ScoredPairs, tmp_path: Path, name: str
) -> None:
    texts = drawn(40, seed=5)
    compress(
        folders[name],
        texts,
        pairs=[pairs],
        wanted="int8-onnx",
        only=["onnx"],
        output=tmp_path / "mine",
        tolerance=99,
    )
    found = load_encoder(tmp_path / "mine", device="cpu").encode(texts)
    whole = load_encoder(folders[name], device="cpu").encode(texts)
    assert np.corrcoef(found.ravel(), whole.ravel())[0, 1] > 0.95


@needs_runtimes
def test_a_variant_that_fails_is_a_reason_and_not_the_end(
    folders: dict[str, Path], pairs: ScoredPairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr("sentemb.compression.onnx_graphs.export_onnx", fail)
    found = compress(folders["bert"], drawn(40, seed=5), pairs=[pairs])
    assert "layers-1" in {row.name for row in found.rows}
    assert found.missing["int8-openvino"] == "RuntimeError: no such operator"


@pytest.mark.parametrize("name", ["weighted-layers"])
def test_a_graph_of_the_last_layer_is_not_made_of_a_model_that_pools_several(
    folders: dict[str, Path], pairs: ScoredPairs, name: str
) -> None:
    with pytest.raises(InputError, match=r"not have a variant 'onnx'.*(pools several layers|not installed)"):
        compress(folders[name], drawn(40, seed=5), pairs=[pairs], only=["onnx"])


@pytest.mark.parametrize("other", OTHERS, ids=[other.name for other in OTHERS])
def test_another_kind_of_model_is_refused_in_words_that_lead_somewhere(tmp_path: Path, other: Other) -> None:
    folder = tmp_path / other.folder
    folder.mkdir()
    other.write(folder)
    with pytest.raises(InputError, match=other.message) as caught:
        load(folder, device="cpu")
    assert other.hint in str(caught.value.hint)
    assert "save or download the model again" not in str(caught.value)


@needs_runtimes
def test_the_page_of_supported_models_is_up_to_date(folders: dict[str, Path]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(folders), "run python -m tests.models_page"
