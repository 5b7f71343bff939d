from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sentemb.evaluation.choosing.trust import measured_trust
from sentence_transformers import SentenceTransformer

from sentemb.data.pseudo_queries import MOST_DOCUMENTS
from sentemb.evaluation.choosing.choose import QUERIES
from sentemb.evaluation.comparison import DRAWS
from tests.cli.conftest import Command
from tests.conftest import WORDS

WriteFile = Callable[[str, str], Path]


@pytest.fixture
def documents(write_file: WriteFile) -> Path:
    """Sixty lines of eight words."""
    lines = [
        " ".join(WORDS[(7 * number + 5 * place * number) % len(WORDS)] for place in range(8))
        for number in range(1, 61)
    ]
    return write_file("docs.txt", "\n".join(dict.fromkeys(lines)) + "\n")


def test_table_verdict_record_and_next_command(
    sentemb: Command, documents: Path, tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    tiny_encoder.save(str(tmp_path / "tiny"))
    output = tmp_path / "choice.json"
    given = ("--texts", documents, "--draws", 200, "--output", output, "--leaks", documents)
    code, out, err = sentemb("choose", "bm25", tmp_path / "tiny", *given)
    assert code == 0, err
    assert "| place | system | score | 95 % interval |" in out
    assert "How far to trust this: " in out and measured_trust().sentence() in out
    assert "Verdict: take " in out
    # Adaptation needs a hundred documents.
    assert f"next: sentemb index build {documents} --model {tmp_path / 'tiny'} --output FOLDER" in err
    assert "docs.txt (" in err  # the documents are in what was named as a known set
    values = json.loads(output.read_text())
    assert {one["name"] for one in values["candidates"]} == {"bm25", "tiny"}
    code, _, err = sentemb("choose", "bm25", *given)
    assert code == 2 and "is there already" in err


def test_the_next_command_names_the_columns(sentemb: Command, documents: Path, tmp_path: Path) -> None:
    lines = documents.read_text().splitlines()
    rows = [json.dumps({"name": f"{line[:5]} {n}", "body": line}) for line in lines for n in range(5)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    given = ("--texts", tmp_path / "rows.jsonl", "--text-column", "body", "--title-column", "name")
    common = ("--draws", 200, "--leaks", "none", "--data-dir", tmp_path, "--max-length", 64)
    code, _, err = sentemb("choose", "sg-bert-mini", *given, *common)
    assert code == 0, err
    # The length is the model's limit here, and that of training texts in adapt.
    columns = f"--text-column body --title-column name --data-dir {tmp_path}"
    assert f"rows.jsonl {columns} --base sg-bert-mini --output" in " ".join(err.split())


def test_the_next_command_of_judged_queries_and_of_pairs(sentemb: Command, tmp_path: Path) -> None:
    folder = tmp_path / "judged"
    (folder / "qrels").mkdir(parents=True)
    texts = [f"the {noun} {verb} here" for noun in ("cat", "dog", "man") for verb in ("sat", "ran")]
    for name in ("corpus", "queries"):
        rows = [json.dumps({"_id": f"{number}", "text": text}) for number, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    lines = "".join(f"{number}\t{number}\t1\n" for number in range(len(texts)))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    scored = "".join(f"{text}\t{texts[0]}\t{number % 3}\n" for number, text in enumerate(texts))
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + scored)
    common = ("--draws", 100, "--leaks", "none")
    for systems, given, command in (
        (["bm25"], ["--judged", folder], f"index build {folder} --output FOLDER"),
        (["static-mini"], ["--judged", folder], f"index build {folder} --model static-mini --output FOLDER"),
        (["static-mini"], ["--pairs", tmp_path / "pairs.tsv"], "serve static-mini"),
    ):
        code, _, err = sentemb("choose", *systems, *given, *common)
        assert code == 0, err
        assert f"next: sentemb {command}" in " ".join(err.split())


def test_help_offers_what_is_taken(sentemb: Command) -> None:
    code, out, _ = sentemb("choose", "--help")
    told = "".join(out.split())  # lines are broken at hyphens, too
    assert code == 0 and "bm25;hybrid:MODEL" in told and "with--judgedalsohybrid-fitted:MODEL" in told
    assert "trec" not in told.lower() and "folderofruns" not in told
    # The command says defaults by itself, since it starts without what knows them.
    assert f"[default:({QUERIES});" in told and f"[default:({MOST_DOCUMENTS});" in told
    assert f"[default:{DRAWS};" in told


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("bm25",), "give exactly one of texts, judged and pairs (--texts, --judged, --pairs)"),
        (("bm25", "--texts", "docs.txt", "--confidence", "95"), "confidence is 95"),
        (("bm25", "--judged", "none", "--queries", "300"), "--queries (count) is for queries cut from"),
        (("bm25", "--pairs", "none", "--title-column", "name"), "with --pairs none are cut"),
        (("hybrid-fitted:static-mini", "--texts", "docs.txt"), "take hybrid:static-mini"),
        (("bm25", "--texts", "none.txt"), "none.txt"),
        (("no-such-model", "--texts", "docs.txt"), "no-such-model"),
        (("bm25", "--texts", "docs.txt", "--text-column", "body"), "body"),
        (("bm25", "--judged", "none"), "no data set and no folder is called 'none'"),
        (("bm25", "--texts", "docs.txt", "--leaks", "unknown"), "unknown"),
        (("bm25", "--texts", "docs.txt", "--output", "docs.txt"), "docs.txt"),
        (("bm25", "--texts", "docs.txt", "--output", "docs.txt/x.json"), "cannot be written"),
    ],
)
def test_user_errors_are_one_line(
    arguments: tuple[str, ...],
    problem: str,
    sentemb: Command,
    documents: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(documents.parent)
    before = documents.read_bytes()
    code, _, err = sentemb("choose", *arguments)
    assert code == 2
    assert problem in err.splitlines()[-1] and err.splitlines()[-1].startswith("sentemb: error: ")
    assert documents.read_bytes() == before
