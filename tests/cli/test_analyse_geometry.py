"""`sentemb analyse geometry` and `map`: from records, a run and a base model to figures."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.report.analysis import read_training_path
from tests.cli.conftest import Command
from tests.training.test_parts import entry, make_run

NOUNS = "cat dog man woman birds children".split()


@pytest.fixture
def dev_file(tmp_path: Path) -> Path:
    rows = [
        f"the {a} sat {number}\tthe {b} sat {number}\t{5 if a == b else len(b) % 5}"
        for number, (a, b) in enumerate(product(NOUNS, NOUNS))
    ]
    path = tmp_path / "dev.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
    return path


@pytest.fixture
def trained(tmp_path: Path, dev_file: Path, tiny_encoder: SentenceTransformer) -> Path:
    """Create the output of a run: a model and the metrics of its dev set."""
    entries = [entry(0, 0.5, -0.2), entry(10, 0.4, -1.0), entry(20, 0.45, -1.5)]
    folder = make_run(tmp_path / "sg-tiny", entries, dev=str(dev_file))
    tiny_encoder.save_pretrained(str(folder), create_model_card=False)
    return folder


def test_records_of_a_run_and_its_base_become_figures(
    sentemb: Command, trained: Path, tiny_bert: Path, dev_file: Path, tmp_path: Path
) -> None:
    records, output = tmp_path / "records", tmp_path / "figures"
    code, _, err = sentemb("analyse", "geometry", tmp_path, "-o", output)
    assert code == 2 and "no record of the suite geometry" in err
    for arguments in ((tiny_bert, "--pooling", "mean"), (trained,)):
        code, out, err = sentemb("eval", "geometry", *arguments, "--data", dev_file, "-o", records)
        assert code == 0, err
        assert "**Geometry on dev dev**" in out and f"next: sentemb report {records}" in err
    code, out, err = sentemb("analyse", "geometry", records, "--run", trained, "-o", output)
    assert code == 0, err
    pictures = [output / f"dev-dev.{what}.png" for what in ("alignment-uniformity", "spectrum")]
    assert out.split() == [str(picture) for picture in pictures]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    other = make_run(tmp_path / "other", [entry(0, 0.5, -0.2)], dev="stsb")
    code, _, err = sentemb("analyse", "geometry", records, "--run", other, "-o", output)
    assert code == 2
    assert (
        "other does not have a geometry record on its dev set, stsb; write one with `sentemb eval geometry"
        in err
    )


def test_the_way_of_seeds_is_their_mean(tmp_path: Path) -> None:
    for seed, shift in ((1, 0.0), (2, 0.2)):
        entries = [entry(0, 0.5, -0.2), entry(10, 0.4 + shift, -1.0 - shift)]
        make_run(tmp_path / "sg" / f"seed-{seed}", entries, dev=str(tmp_path / "mine-dev.tsv"))
    path = read_training_path(tmp_path / "sg")
    assert path is not None and (path.name, path.dev) == ("sg", "mine-dev")
    np.testing.assert_allclose(path.points, [(-0.2, 0.5), (-1.1, 0.5)])
    assert read_training_path(tmp_path) is None
