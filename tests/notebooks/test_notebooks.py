"""The notebooks run, what they show is so, and they are committed as they ran."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jupyter_client import KernelManager
    from nbformat import NotebookNode

from tests.notebooks.execute import METADATA, NOTEBOOKS, execute

# Run in the notebook's kernel after its last cell.
CHECKS = {
    "01_quickstart": """
import numpy as np

others = ~np.eye(len(sentences), dtype=bool)
assert np.allclose(raw[~others], 1, atol=1e-5)
assert centred[others].std() > 1.5 * raw[others].std()
most_similar = np.argsort(np.triu(similarities, 1), axis=None)[-3:]
assert {divmod(int(place), len(sentences)) for place in most_similar} == {(0, 1), (3, 4), (6, 7)}
assert len(index) == len(documents) > 150
for hits, answer in zip(
    index.search(queries, k=2), ["shutil.copytree", "statistics.median", "time.sleep"], strict=True
):
    assert answer in [hit.id for hit in hits]
""",
    "02_train_embeddings": """
before = scores["before training"].score(test.name)
for name, one in curves.items():
    assert one["step"].tolist() == list(range(0, STEPS + 1, 4))
    correlations = one["eval_dev_spearman_cosine"].tolist()
    assert correlations[-1] > correlations[0] + 0.02, (name, correlations)
    uniformities = one["eval_dev_uniformity"].tolist()
    assert uniformities[-1] < uniformities[0] - 0.2, (name, uniformities)
    assert scores[name].score(test.name) > before + 2
    assert not set(pd.read_csv(DEV)["sentence1"]) & set(test.first)
assert (change > 0).mean() > 0.5
""",
    "03_write_a_loss": """
assert loop_difference < 1e-12
assert gradient_is_right
assert odd_batches.notna().all(axis=None)
assert len(steps) == STEPS
assert curve["eval_dev_uniformity"].iloc[-1] < curve["eval_dev_uniformity"].iloc[0] - 0.5
assert curve["eval_dev_spearman_cosine"].iloc[-1] > curve["eval_dev_spearman_cosine"].iloc[0] + 0.02
assert steps["uniformity"].iloc[-4:].mean() < steps["uniformity"].iloc[:4].mean()
""",
    "04_semantic_search": """
assert recalls["HNSW"][9] > 0.95
assert recalls["IVF-PQ"][9] > 0.85
assert measured.loc["flat", "recall@10"] == 1
assert measured.loc["HNSW", "recall@10"] > 0.95
assert same_answers
assert "was built with" in refusal
assert "rain" in flat.search("heavy rain and flooding", k=1)[0].text
sizes = [loaded[name].manifest.bytes_per_vector for name in ("IVF-PQ", "flat", "HNSW")]
assert sizes == sorted(sizes)
""",
    "05_your_documents": """
assert len(documents) > 200
assert {one.given for one in choice.candidates} == {*MODELS}
assert choice.best.name != "bert-mini"
assert adapted.gain.ndcg.mean > 0
assert fitted.judged and fitted.queries == len(known) >= 10
assert min(shares.values()) > 0.2
assert max(shares, key=shares.get) != "keyword"
""",
    "06_is_it_better": """
low, high = large.headline.interval
assert low < large.headline.size < high
widths = [high - low for low, high in intervals]
assert widths[0] > 2 * widths[-1]
assert all(low < 0 < high for low, high in intervals[:2])
assert seeds.runs == (1, 3) and seeds.headline.p >= seeds.headline.p_seeds
assert min(corrected) >= min(p_values)
assert any(p < 0.05 for p in p_values)
assert all(p >= 0.05 for p in corrected)
""",
}


def test_every_notebook_has_a_check() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(CHECKS)


@pytest.fixture(scope="module")
def nbformat() -> Any:
    """The package, which takes four seconds to import."""
    return pytest.importorskip("nbformat", reason="the notebooks need pip install 'sentemb[notebooks]'")


@pytest.fixture(scope="module")
def kernel(nbformat: Any) -> Iterator[KernelManager]:
    """One kernel for all notebooks: importing takes longer than most of their cells."""
    from jupyter_client import KernelManager

    manager = KernelManager(kernel_name="python3")
    yield manager
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_it_says(
    path: Path, tmp_path: Path, kernel: KernelManager, nbformat: Any
) -> None:
    notebook = execute(path, tmp_path, then=CHECKS[path.stem], kernel=kernel)
    streams = [output for output in outputs(notebook) if output["output_type"] == "stream"]
    assert [output["text"] for output in streams if output["name"] == "stderr"] == []
    # Nothing new or gone since the outputs were committed.
    assert kinds(notebook) == kinds(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_as_it_ran(path: Path, nbformat: Any) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < 300_000
    assert notebook.metadata == METADATA
    first, *rest = notebook.cells
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert not any(re.search(r"^# ", cell.source, re.M) for cell in rest if cell.cell_type == "markdown")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.metadata == {} for cell in notebook.cells)
    for output in outputs(notebook):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr"
        assert "widget" not in str(output.get("data", {}).keys())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_names_no_place_of_the_machine_that_made_it(path: Path) -> None:
    text = re.sub(r'"image/png": "[^"]*"', "", path.read_text(encoding="utf-8"))
    assert not re.search(r"(?<![\w.])/(tmp|home|root|work|usr|opt|var|Users|private)\b", text)
    assert not re.search(r"site-packages|[A-Z]:\\\\|ipykernel_\d", text)


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def kinds(notebook: NotebookNode) -> list[list[str]]:
    """For each cell the types of what it shows."""
    return [
        [",".join(sorted(output.get("data", {"stream": None}))) for output in cell.get("outputs", [])]
        for cell in notebook.cells
    ]
