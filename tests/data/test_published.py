"""STS in other languages: SemEval's own files, translated tables, and subsets of hub repositories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.catalogue import expand, get
from sentemb.data.fetch import count
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError

WriteFile = Callable[[str, str], Path]


@pytest.mark.parametrize("name", expand(["sts17", "stsb-multi-mt"]))
def test_real_sets_are_whole(shared_data: Path, name: str) -> None:
    for counted in count(get(name), shared_data):
        assert counted.problem is None and counted.rows == counted.expected


def test_values_stand_beside_their_scores(shared_data: Path) -> None:
    arabic = load_scored_pairs("sts17-ar-en", data_dir=shared_data)
    assert (arabic.first[0], arabic.second[0], arabic.gold[0]) == ("two men are crying", "رجلان يضحكان.", 1.4)
    assert [subset.name for subset in arabic.subsets] == ["sts17-ar-en"]
    english = load_scored_pairs("stsb", data_dir=shared_data)
    for name in ("stsb-de", "stsb-ja"):
        assert np.array_equal(load_scored_pairs(name, data_dir=shared_data).gold, english.gold)
    german = load_scored_pairs("stsb-de", split="dev", data_dir=shared_data)
    assert german.second[1] == "Ein Kind reitet auf einem Pferd."
    assert any("," in text for text in german.first)  # quoted in the file


def test_spanish_parts_come_in_the_official_order(write_file: WriteFile, tmp_path: Path) -> None:
    folder = "sts-es-test.2014"
    write_file(f"{folder}/STS.input.wikipedia.txt", "uno\tdos\ntres\tcuatro\n")
    write_file(f"{folder}/STS.gs.wikipedia.txt", "4.0\n0.6\n")
    write_file(f"{folder}/STS.input.news.txt", "cinco\tseis\n")
    write_file(f"{folder}/STS.gs.news.txt", "2\n")
    pairs = load_scored_pairs("sts14-es", data_dir=tmp_path, check_rows=False)
    assert pairs.first == ["uno", "tres", "cinco"] and pairs.gold.tolist() == [4.0, 0.6, 2.0]
    assert [(one.name, one.start, one.stop) for one in pairs.subsets] == [("wikipedia", 0, 2), ("news", 2, 3)]
    with pytest.raises(InputError, match=r"part wikipedia has 2 rows instead of 324: 322 missing"):
        load_scored_pairs("sts14-es", data_dir=tmp_path)
    write_file(f"{folder}/STS.gs.news.txt", "2\n3\n")
    with pytest.raises(InputError, match=r"STS.input.news.txt has 1 pairs but .*STS.gs.news.txt 2 scores"):
        load_scored_pairs("sts14-es", data_dir=tmp_path)


def test_scores_may_lie_in_a_second_download(write_file: WriteFile, tmp_path: Path) -> None:
    """As SemEval-2017 published: two archives, and more Turkish pairs than scores."""
    texts = "".join(f"one {number}\tbir {number}\n" for number in range(500))
    write_file("STS2017.eval.v1.1/STS.input.track6.tr-en.txt", texts)
    write_file("STS2017.gs/STS.gs.track6.tr-en.txt", "".join(f"{number / 50}\n" for number in range(250)))
    pairs = load_scored_pairs("sts17-tr-en", data_dir=tmp_path)
    assert (len(pairs), pairs.first[249], pairs.gold[249]) == (250, "one 249", 4.98)
    write_file("STS2017.eval.v1.1/STS.input.track5.en-en.txt", texts)
    write_file("STS2017.gs/STS.gs.track5.en-en.txt", "1\n" * 250)
    with pytest.raises(InputError, match="has 500 pairs but"):  # of no other track
        load_scored_pairs("sts17-en-en", data_dir=tmp_path)


def test_what_is_not_there_is_said(
    write_file: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    with pytest.raises(
        InputError,
        match=r"does not contain sts22-de .*download it with `sentemb data fetch sts22-de --data-dir",
    ):
        load_scored_pairs("sts22-de", data_dir=tmp_path)
    with pytest.raises(InputError, match="sts14-es is not on the hub; name the folder"):
        load_scored_pairs("sts14-es")
    write_file("STS17/STS.input.track1.ar-ar.txt", "a\tb\n")
    with pytest.raises(InputError, match=r"no such file: .*/STS17/STS\.gs\.track1\.ar-ar\.txt"):
        load_scored_pairs("sts17-ar-ar", data_dir=tmp_path)
    write_file("stsb-multi-mt/stsb-fr-dev.csv", "un,deux,3\nun,deux,x\n")
    with pytest.raises(InputError, match=r"no such file: .*stsb-fr-test.csv"):
        load_scored_pairs("stsb-fr", data_dir=tmp_path)
    with pytest.raises(
        InputError, match=r"stsb-fr-dev.csv:2: expected a number in column 'similarity_score', but found 'x'"
    ):
        load_scored_pairs("stsb-fr", split="dev", data_dir=tmp_path)
