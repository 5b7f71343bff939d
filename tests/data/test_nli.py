"""Triples of labelled pairs, with every row accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentemb.data import read_triples
from sentemb.errors import InputError

TABLE = """split,premise,hypothesis,label
train,A man eats.,A person eats.,entailment
train,A man eats.,Nobody eats.,contradiction
train,A man eats.,A cat eats.,contradiction
train,a  man eats.,Someone eats.,0
train,A man eats.,He eats bread.,neutral
train,A man eats.,A person eats.,entailment
train,A dog runs.,It moves.,entailment
train,A bird flies.,It sleeps.,2
train,A child plays.,It is loud.,entailment
train,A child plays.,It is loud.,contradiction
train,A child plays., ,entailment
test,A fish swims.,It moves.,entailment
test,A fish swims.,It flies.,contradiction
train,A fish swims.,It is red.,-
"""


def test_every_row_is_accounted_for(write_file) -> None:
    triples, counts = read_triples(write_file("nli.csv", TABLE), only={"split": "train"}, seed=1)
    assert [(one.anchor, one.positive) for one in triples] == [
        ("A man eats.", "A person eats."),
        ("A man eats.", "Someone eats."),
    ]
    assert {one.negative for one in triples} == {"Nobody eats.", "A cat eats."}
    assert counts.other_labels == {"neutral": 1, "-": 1}
    assert (counts.rows, counts.triples, counts.blank, counts.repeated) == (12, 2, 1, 1)
    assert (counts.contradictory, counts.no_contradiction, counts.no_entailment) == (2, 1, 1)
    assert counts.unused == 0
    dropped = 2 + counts.blank + counts.repeated + counts.contradictory
    assert counts.rows == dropped + 2 * counts.triples + counts.no_contradiction + counts.no_entailment
    assert "2 triples from 12 rows; skipped: 1 '-', 1 'neutral' with other labels" in str(counts)


def test_the_seed_draws_the_contradiction(write_file) -> None:
    rows = "".join(f"A man eats.,He is {i}.,contradiction\n" for i in range(9))
    source = write_file("nli.csv", f"premise,hypothesis,label\nA man eats.,He lives.,entailment\n{rows}")
    drawn = {read_triples(source, seed=seed)[0][0].negative for seed in range(20)}
    assert len(drawn) > 3
    triples, counts = read_triples(source, seed=3)
    assert (triples, counts.unused) == (read_triples(source, seed=3)[0], 8)


def test_real_pairs(shared_data: Path) -> None:
    triples, counts = read_triples(shared_data / "nli" / "nli_pairs.tsv.gz", only={"source": "cad-snli"})
    assert counts.rows == 11327
    assert len(triples) == counts.triples > 1000
    others = sum(counts.other_labels.values()) + counts.blank + counts.repeated + counts.contradictory
    alone = counts.no_contradiction + counts.no_entailment + counts.unused
    negatives = len({(one.anchor, one.negative) for one in triples})
    assert counts.rows == others + alone + counts.triples + negatives


def test_a_set_of_the_catalogue_by_the_names_of_its_classes(shared_data: Path) -> None:
    message = "0 triples from 32 rows; skipped: 3 'neutral' with other labels, .* 19 entailments without"
    with pytest.raises(InputError, match=message):
        read_triples("fewglue-cb", data_dir=shared_data)


def test_user_errors_are_named(write_file) -> None:
    source = write_file("nli.csv", TABLE)
    with pytest.raises(InputError, match="does not have a column 'gold_label'"):
        read_triples(source, columns=("premise", "hypothesis", "gold_label"))
    with pytest.raises(InputError, match="name the columns of premise, hypothesis and label"):
        read_triples(source, columns=("premise", "hypothesis"))
    with pytest.raises(InputError, match="does not yield a triple: 0 triples from 2 rows"):
        read_triples(write_file("few.csv", "premise,hypothesis,label\na,b,neutral\nc,d,entailment\n"))
