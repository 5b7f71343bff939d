from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

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
    assert "| place | system | behind the first | 80 % interval |" in out
    assert "Reliability: on " in out and "Evidence: the smallest difference that could have been" in out
    assert "Verdict: take " in out
    assert "sentemb adapt" not in err  # which needs a hundred documents
    assert "docs.txt (" in err  # the documents are in what was named as a known set
    values = json.loads(output.read_text())
    assert {one["name"] for one in values["candidates"]} == {"bm25", "tiny"}
    code, _, err = sentemb("choose", "bm25", *given)
    assert code == 2 and "already exists" in err


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
    told = " ".join(err.split())
    assert f"also: sentemb adapt {tmp_path}/rows.jsonl {columns} --base sg-bert-mini --output FOLDER" in told
    build = f"rows.jsonl {columns} --max-length 64 --model sg-bert-mini --output index"
    assert f"{build} && sentemb index search index 'your question'" in told.partition("next: ")[2]


def test_the_next_command_uses_the_best_and_ties_propose_queries_with_qrels(
    sentemb: Command, write_file: WriteFile, tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    tiny_encoder.save(str(tmp_path / "tiny"))
    letters = "bcdfghjklmnp"  # words that the encoder does not know; each is twice in one document
    words = [one + vowel + other for one in letters for vowel in "aeiou" for other in letters]
    starts = range(0, len(words), 12)
    lines = [" ".join([*words[at : at + 12], *reversed(words[at : at + 12])]) for at in starts]
    documents = write_file("words.txt", "\n".join(lines))
    common = ("--texts", documents, "--draws", 200, "--leaks", "none")
    code, out, err = sentemb("choose", tmp_path / "tiny", "bm25", *common)
    assert code == 0 and "Verdict: take bm25" in out, err
    search = "sentemb index search index 'your question' --mode keyword"
    assert err.splitlines()[-1] == f"next: sentemb index build {documents} --output index && {search}"
    code, out, err = sentemb("choose", "bm25", "hybrid:static-mini", *common)
    assert code == 0 and "not differ significantly" in out, out
    assert "also: sentemb index fit index --queries queries.jsonl --qrels qrels.tsv" in err


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
    build, search = f"index build {folder}", "sentemb index search index 'your question'"
    encoded = f"{build} --model static-mini --output index && {search}"
    for systems, given, command in (
        (["bm25"], ["--judged", folder], f"{build} --output index && {search} --mode keyword"),
        (["static-mini"], ["--judged", folder], encoded),
        (["hybrid-fitted:static-mini"], ["--judged", folder], f"{encoded} --mode hybrid"),
        (["static-mini"], ["--pairs", tmp_path / "pairs.tsv"], "serve static-mini"),
    ):
        code, _, err = sentemb("choose", *systems, *given, *common)
        assert code == 0, err
        assert err.splitlines()[-1] == f"next: sentemb {command}"
