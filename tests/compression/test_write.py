from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb._files import read_json
from sentemb.compression import compress
from sentemb.compression.config import Storage
from sentemb.compression.static_model import write_static
from sentemb.compression.variants import Original, variants_of
from sentemb.compression.write import QualityDropError, VariantReports
from sentemb.data.sts import ScoredPairs, Subset
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.evaluation import evaluate_pairs
from sentemb.modules import load
from sentemb.modules.cards import bundled_folder
from tests.compression.conftest import make_tokenizer
from tests.conftest import WORDS

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript", "openvino")),
    reason="needs the extra compress",
)


def drawn(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    plain = [word for word in WORDS if not word.startswith("#")]
    return [" ".join(generator.choice(plain, size=generator.integers(3, 9))) for _ in range(count)]


@pytest.fixture
def pairs() -> ScoredPairs:
    first, second = drawn(40, 1), drawn(40, 2)
    gold = np.array([len({*a.split()} & {*b.split()}) for a, b in zip(first, second, strict=True)], float)
    return ScoredPairs("own", "dev", first, second, gold, (Subset("own", 0, 40),))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, _tiny_encoder: SentenceTransformer) -> dict[str, Path]:
    """Every variant of the tiny model."""
    variants, missing = variants_of(Original(_tiny_encoder, drawn(60, 0)))
    assert not missing
    found = {}
    for variant in variants:
        found[variant.name] = tmp_path_factory.mktemp(variant.name)
        variant.build(found[variant.name])
    return found


def vectors_of(folder: Path) -> Vectors:
    return load_encoder(folder).encode(drawn(30, 3))


def nearness(first: Vectors, second: Vectors) -> float:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(((first * second).sum(axis=1) / lengths).min())


def test_every_variant_is_made(folders: dict[str, Path]) -> None:
    assert " ".join(folders) == (
        "model float16 bf16 onnx int8-onnx openvino int8-openvino layers-2 layers-1 dimensions-8 "
        "int8-vectors binary-vectors"
    )


@pytest.mark.parametrize(
    ("name", "least"),
    [("float16", 0.99999), ("bf16", 0.999), ("int8-onnx", 0.995), ("int8-vectors", 0.999)],
)
def test_rounded_variants_give_nearly_the_same_vectors(
    folders: dict[str, Path], name: str, least: float
) -> None:
    assert least < nearness(vectors_of(folders[name]), vectors_of(folders["model"])) < 1.0000001


def test_converted_networks_compute_the_same(folders: dict[str, Path]) -> None:
    for backend in ("onnx", "openvino"):
        assert np.allclose(vectors_of(folders[backend]), vectors_of(folders["model"]), atol=1e-5)
        assert not any(folders[backend].glob("*.safetensors"))
    for name in ("onnx", "int8-onnx"):
        graph = (folders[name] / "onnx" / "model.onnx").read_bytes()
        assert b".py" not in graph  # no places of source files
    assert nearness(vectors_of(folders["int8-onnx"]), vectors_of(folders["int8-openvino"])) > 0.9999


def test_plain_libraries_read_what_was_written(folders: dict[str, Path]) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folders["onnx"] / "onnx" / "model.onnx"))
    encoder: Any = load_encoder(folders["model"])
    features = encoder.model.preprocess(["the cat sat", "a dog ran in park"])
    names = [one.name for one in session.get_inputs()]
    found = session.run(None, {name: features[name].numpy() for name in names})[0]
    wanted = encoder.model[0](dict(features))["token_embeddings"]
    real = features["attention_mask"].numpy().astype(bool)
    assert np.allclose(found[real], wanted.detach().numpy()[real], atol=1e-5)
    for name in ("float16", "layers-2", "dimensions-8"):
        plain = SentenceTransformer(str(folders[name]), device="cpu").encode(drawn(30, 3))
        assert np.allclose(plain, vectors_of(folders[name]), atol=1e-5)


def test_shorter_and_binary_vectors_are_those_of_the_model(folders: dict[str, Path]) -> None:
    whole = vectors_of(folders["model"])
    first = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    assert np.allclose(first, vectors_of(folders["dimensions-8"]), atol=1e-5)
    assert np.array_equal(vectors_of(folders["binary-vectors"]), np.where(whole > 0, 1, -1))
    found = {name: load_encoder(folder).fingerprint for name, folder in folders.items()}
    assert len({*found.values()}) == len(found)


def test_a_damaged_graph_is_one_line(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(folders["onnx"], folder)
    (folder / "onnx" / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(InputError, match=r"model\.onnx cannot be read"):
        load_encoder(folder)


def test_a_converted_network_is_not_trained_but_its_vectors_can_be_rounded(
    folders: dict[str, Path], pairs: ScoredPairs, tmp_path: Path
) -> None:
    model: Any = load(folders["onnx"])
    with pytest.raises(InputError, match="cannot be trained"):
        model.train()
    write(folders["onnx"], pairs, "int8-vectors", tmp_path / "out")
    assert np.allclose(vectors_of(tmp_path / "out"), vectors_of(folders["int8-vectors"]), atol=1e-5)


def write(model: Path, pairs: ScoredPairs, wanted: str, output: Path, **options: Any) -> VariantReports:
    """Write a variant, whatever it loses."""
    given: dict[str, Any] = {"only": [wanted], "tolerance": 100, **options}
    return compress(model, drawn(60, 0), pairs=[pairs], wanted=wanted, output=output, **given)


def test_the_written_folder_scores_as_the_table_says(
    folders: dict[str, Path], pairs: ScoredPairs, tmp_path: Path
) -> None:
    model, output = folders["model"], tmp_path / "out"
    about = {"model": "tiny", "command": "sentemb compress tiny", "terms": {"license": "mit"}}
    row = write(model, pairs, "int8-vectors", output, about=about).find("int8-vectors")
    card = (output / "README.md").read_text()
    assert all(part in card for part in ("license: mit", "sentemb compress tiny", 'sentemb.load("out")'))
    assert row.sts is not None and row.vector_bytes == 16
    first, second = (evaluate_pairs(one, [pairs]).score("own") for one in (model, output))
    assert row.sts.size == pytest.approx(second - first, abs=1e-6)
    assert read_json(output / "compression.json")["model"] == "tiny"


def test_a_variant_that_loses_too_much_is_not_written(
    folders: dict[str, Path], pairs: ScoredPairs, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with pytest.raises(
        QualityDropError, match=r"binary-vectors loses more than 0 points: -\d+\.\d\d STS"
    ) as told:
        gold = gold_of(folders["model"], pairs)
        write(folders["model"], gold, "binary-vectors", output, tolerance=0)
    assert told.value.found.find("binary-vectors").quality_drop > 0
    assert not output.exists()


def gold_of(folder: Path, pairs: ScoredPairs) -> ScoredPairs:
    """The same pairs, scored by the model itself, so that every change of it is a loss."""
    first, second = (load_encoder(folder).encode(texts) for texts in (pairs.first, pairs.second))
    cosines = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    return ScoredPairs("own", "dev", pairs.first, pairs.second, cosines.astype(float), pairs.subsets)


def write_words(folder: Path, storage: Storage) -> Path:
    """A static model of random word vectors."""
    words = [word for word in WORDS if not word.startswith("#")]
    tokenizer = make_tokenizer(["[UNK]", *words])
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 32)).astype(np.float32)
    folder.mkdir(exist_ok=True)
    write_static(folder, tokenizer, table, storage=storage)
    return folder


def test_a_static_model_is_priced_as_its_files_are(pairs: ScoredPairs, tmp_path: Path) -> None:
    model = write_words(tmp_path / "words", "int8")
    reports = write(model, pairs, "dimensions-8", tmp_path / "small", only=())
    assert [row.name for row in reports.rows] == [
        *("model", "dimensions-16", "dimensions-8", "int8-vectors", "binary-vectors")
    ]
    whole, half, _, rounded, _ = reports.rows
    assert rounded.bytes < 1.5 * whole.bytes and rounded.vector_bytes < whole.vector_bytes
    assert whole.bytes == (model / "model.safetensors").stat().st_size
    assert half.bytes < whole.bytes
    assert read_json(tmp_path / "small" / "config.json")["embedding_dtype"] == "int8"
    assert nearness(vectors_of(tmp_path / "small"), vectors_of(model)[:, :8]) > 0.99


def test_a_static_model_keeps_its_prompts_and_its_numbers(pairs: ScoredPairs, tmp_path: Path) -> None:
    model: Any = load(write_words(tmp_path / "words", "float32"))
    model.prompts, model.default_prompt_name = {"query": "the cat "}, "query"
    model.half().save_pretrained(str(tmp_path / "half"))
    reports = write(tmp_path / "half", pairs, "int8", tmp_path / "small", only=())
    assert load(tmp_path / "small").prompts["query"] == "the cat "
    assert nearness(vectors_of(tmp_path / "small"), vectors_of(tmp_path / "half")) > 0.999
    sizes = {row.name: row.bytes for row in reports.rows}
    assert sizes["int8"] < sizes["model"] and sizes["dimensions-16"] < sizes["model"]
    assert reports.find("int8").quality_drop < 1


def test_a_student_is_priced_and_written_as_its_folder_is(
    folders: dict[str, Path], pairs: ScoredPairs, tmp_path: Path
) -> None:
    student, output = write_words(tmp_path / "static", "int8"), tmp_path / "out"
    (student / "run" / "checkpoints").mkdir(parents=True)
    (student / "run" / "checkpoints" / "model.safetensors").write_bytes(b"half a run")
    reports = write(folders["model"], pairs, "student", output, student=student, only=["float16"])
    row = reports.find("student")
    assert [one.name for one in reports.rows] == ["model", "float16", "student"]
    assert row.sts is not None
    assert row.sts.scores[1] == pytest.approx(evaluate_pairs(student, [pairs]).score("own"), abs=1e-6)
    assert row.bytes == (student / "model.safetensors").stat().st_size
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (output / name).read_bytes() == (student / name).read_bytes()
    assert not (output / "run").exists()


def test_a_student_may_be_a_bundled_model_and_checkpoints_of_the_model_do_not_count(
    folders: dict[str, Path], pairs: ScoredPairs, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(folders["model"], tmp_path / "trained"))
    (model / "checkpoint-10").mkdir()
    for name in ("checkpoint-10/model.safetensors", "optimizer.bin"):
        (model / name).write_bytes(b"x" * 10_000)
    found = compress(model, drawn(60, 0), pairs=[pairs], student=Path("static-mini"), only=["float16"])
    student = bundled_folder("static-mini")
    assert student is not None
    for name, folder in (("model", model), ("student", student)):
        row = found.find(name)
        assert row.sts is not None or name == "model"
        assert row.bytes == (folder / "model.safetensors").stat().st_size


def test_an_unknown_variant_is_one_line(folders: dict[str, Path], pairs: ScoredPairs) -> None:
    with pytest.raises(InputError, match="this model does not have a variant 'int4'"):
        compress(folders["model"], drawn(60, 0), pairs=[pairs], only=["int4"])
