from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentemb.data import catalogue
from sentemb.errors import InputError
from sentemb.evaluation import evaluate_pairs, evaluate_retrieval
from sentemb.evaluation.mteb import TASKS, export_mteb
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import MULTILINGUAL
from tests.evaluation.conftest import lengths, make_pairs

# Required by MTEB 2's TaskResult, and by its check of every entry of `scores`.
TASK_FIELDS = set("dataset_revision task_name mteb_version scores evaluation_time kg_co2_emissions".split())
SCORE_FIELDS = set("pearson spearman cosine_pearson cosine_spearman main_score hf_subset languages".split())


@pytest.fixture(scope="module")
def record() -> Record:
    sizes = {"stsb": 1379, "sickr": 4927, "sickr-mteb": 9927, "mine": 20}
    return evaluate_pairs(lengths, [make_pairs(name, "test", (size,)) for name, size in sizes.items()])


def test_files_are_those_that_mteb_reads(record: Record, tmp_path: Path) -> None:
    exported = export_mteb(record, tmp_path, model_name="org/my model")
    folder = tmp_path / "results" / "org__my-model" / record.fingerprint.replace(":", "-")[:40]
    assert list(exported.files) == [folder / "STSBenchmark.json", folder / "SICK-R.json"]
    task = json.loads(exported.files[0].read_text())
    assert set(task) == TASK_FIELDS
    assert task["task_name"] == "STSBenchmark"
    assert task["dataset_revision"] == "b0fddb56ed78048fa8b90373c8a3cfc37b684831"
    assert list(task["scores"]) == ["test"]
    (entry,) = task["scores"]["test"]
    assert set(entry) == SCORE_FIELDS
    assert entry["hf_subset"] == "default"
    assert entry["languages"] == ["eng-Latn"]
    spearman, pearson = (record.score("stsb", metric) / 100 for metric in ("spearman", "pearson"))
    assert entry["main_score"] == entry["cosine_spearman"] == pytest.approx(spearman, abs=1e-15)
    assert entry["cosine_pearson"] == pytest.approx(pearson, abs=1e-15)
    meta = json.loads((folder / "model_meta.json").read_text())
    assert meta["name"] == "org/my model"
    assert meta["revision"] == folder.name
    assert meta["embed_dim"] == 4


def test_only_mtebs_populations_go_under_mtebs_names(record: Record, tmp_path: Path) -> None:
    exported = export_mteb(record, tmp_path)
    assert exported.skipped == {
        "sickr": "sickr has 4,927 pairs, but MTEB's SICK-R has 9,927: evaluate sickr-mteb instead",
        "mine": "mine does not have an equivalent task in MTEB",
    }
    sick = json.loads(exported.files[1].read_text())
    assert sick["scores"]["test"][0]["main_score"] == pytest.approx(record.score("sickr-mteb") / 100)


def test_truncated_sets_and_other_splits_stay_at_home(tmp_path: Path) -> None:
    for pairs, problem in (
        (make_pairs("stsb", "test", (1378,)), "stsb has 1,378 pairs, but MTEB's STSBenchmark has 1,379"),
        (make_pairs("stsb", "dev", (1500,)), "split dev"),
        (make_pairs("sickr", "test", (4927,)), "evaluate sickr-mteb"),
    ):
        with pytest.raises(InputError, match=problem):
            export_mteb(evaluate_pairs(lengths, [pairs]), tmp_path)
    assert not (tmp_path / "results").exists()


def test_names(record: Record, tmp_path: Path) -> None:
    for name in ("model", "/model", "org/", "a/b/c"):
        with pytest.raises(InputError, match="organization/model"):
            export_mteb(record, tmp_path, model_name=name)
    assert "local__lengths" in str(export_mteb(record, tmp_path).files[0])
    hub = record.model_copy(update={"model": "org/model"})
    assert "org__model" in str(export_mteb(hub, tmp_path).files[0])


def test_the_tracks_of_2017_are_languages_of_one_task(tmp_path: Path) -> None:
    names = ["sts17-ar-en", "sts17-es-en-wmt", "sts17-en-en"]
    sets = [make_pairs(name, "test", (250,)) for name in names]
    record = evaluate_pairs(lengths, sets, suite=MULTILINGUAL)
    exported = export_mteb(record, tmp_path)
    (path,) = exported.files
    task = json.loads(path.read_text())
    assert (path.name, task["task_name"]) == ("STS17.json", "STS17")
    entries = {one["hf_subset"]: one for one in task["scores"]["test"]}
    assert {name: one["languages"] for name, one in entries.items()} == {
        "en-ar": ["eng-Latn", "ara-Arab"], "en-en": ["eng-Latn"]
    }  # fmt: skip
    assert entries["en-ar"]["main_score"] == record.score("sts17-ar-en", "spearman") / 100
    assert list(exported.skipped) == ["sts17-es-en-wmt"]
    for name, task in TASKS.items():
        config = catalogue.get(name).config
        assert task.subset == (config or "default")


def test_scifact_goes_out_as_mtebs_task(shared_data: Path, tmp_path: Path) -> None:
    record = evaluate_retrieval("bm25", ["scifact", "cisi"], data_dir=shared_data)
    exported = export_mteb(record, tmp_path)
    assert exported.skipped == {"cisi": "cisi does not have an equivalent task in MTEB"}
    (entry,) = json.loads(exported.files[0].read_text())["scores"]["test"]
    assert entry["main_score"] == entry["ndcg_at_10"] == pytest.approx(record.score("scifact") / 100)
    assert entry["recall_at_100"] == pytest.approx(record.score("scifact", "recall@100") / 100)
    other = evaluate_retrieval("bm25", ["scifact"], data_dir=shared_data, exclude_same_ids=True)
    with pytest.raises(InputError, match="are not all documents of"):
        export_mteb(other, tmp_path)
