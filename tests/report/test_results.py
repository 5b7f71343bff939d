"""Tables of records: seeds in one row, averages over whole suites, and what must not be compared."""

from __future__ import annotations

from sentemb.evaluation.schema import Record, Score
from sentemb.evaluation.suites import STS, TRANSFER
from sentemb.report.results import geometry_table, sts_table, transfer_table
from tests.records import data_set, make_record


def sts(model: str, start: float, *, seed: int | None = None, sets=STS.sets, text: str = "") -> Record:
    return make_record(
        "sts",
        model,
        [data_set(name, 4927, content=text) for name in sets],
        [(name, "spearman", start + place) for place, name in enumerate(sets)],
        seed=seed,
    )


def test_seeds_of_a_method_are_a_row_and_the_average_is_over_the_whole_suite() -> None:
    table = sts_table([sts("raw", 40), sts("tuned-seed-1", 50, seed=1), sts("tuned-seed-2", 52, seed=2)])
    years = (f"STS{year}" for year in range(12, 17))
    assert table.header == ("model", "seeds", *years, "STS-B", "SICK-R 4,927", "average")
    assert table.rows[0][:3] == ("raw", "–", "40.00") and table.rows[0][-1] == "43.00"
    assert table.rows[1][:3] == ("tuned", "2", "51.00 ± 1.41") and table.rows[1][-1] == "54.00 ± 1.41"


def test_seeds_apart_have_a_row_each() -> None:
    table = sts_table([sts("tuned-seed-1", 50, seed=1), sts("raw", 40)], seeds_apart=True)
    assert table.header[:2] == ("model", "seed")
    assert [row[:2] for row in table.rows] == [("tuned-seed-1", "1"), ("raw", "–")]
    assert "seed" not in sts_table([sts("raw", 40)], seeds_apart=True).header


def test_a_set_that_one_run_lacks_has_no_mean_and_there_is_no_average_over_fewer_sets() -> None:
    table = sts_table([sts("a-seed-1", 50, seed=1), sts("a-seed-2", 50, seed=2, sets=STS.sets[:-1])])
    assert table.rows[0][-2:] == ("–", "–") and table.rows[0][2].startswith("50.00")
    assert "average" not in sts_table([sts("a", 50, sets=STS.sets[:3])]).header


def test_rows_on_other_pairs_are_not_to_be_compared() -> None:
    notes = sts_table([sts("a", 50), sts("b", 51, text="other")]).notes
    assert any(note.startswith("sts12: the rows were evaluated on different pairs") for note in notes)
    assert any(
        note.startswith("sts12: the protocol wmean is not defined")
        for note in sts_table([sts("a", 1)], protocol="wmean").notes
    )


def test_transfer_tables_count_encoders_and_classifiers() -> None:
    def accuracy(model: str, seed: int, value: float) -> Record:
        sets = [data_set(name) for name in TRANSFER.sets]
        scores = [(name, "accuracy", value) for name in TRANSFER.sets]
        return make_record("transfer", model, sets, scores, seed=seed, protocol="simcse")

    runs = [("raw", 1, 70.0), ("raw", 2, 72.0), ("tuned-seed-1", 1, 80.0), ("tuned-seed-2", 1, 84.0)]
    table = transfer_table([accuracy(*one) for one in runs], "simcse")
    assert table.header == ("model", "seeds", "MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC", "average")
    assert table.rows[0][:3] == ("raw", "– x 2", "71.00 ± 1.41")
    assert table.rows[1][:3] == ("tuned", "2 x 1", "82.00 ± 2.83") and table.rows[1][-1] == "82.00 ± 2.83"
    assert transfer_table([accuracy("raw", 1, 70.0)], "sg-bert").rows == ()


def test_geometry_has_intervals_of_single_runs_and_deviations_over_seeds() -> None:
    def geometry(model: str, seed: int | None, shift: float) -> Record:
        values = {"alignment": 0.2, "uniformity": -2.0, "anisotropy": 0.1, "effective_rank": 1.5}
        scores = [
            Score(dataset="stsb", metric=name, value=value + shift, low=value - 1, high=value + 1)
            for name, value in values.items()
        ]
        fields = {"seed": seed, "dimension": 3, "details": {"confidence": 0.95, "sentences": 40}}
        return make_record("geometry", model, [data_set("stsb")], scores, **fields)

    table = geometry_table(
        [geometry("raw", None, 0), geometry("a-seed-1", 1, 0.25), geometry("a-seed-2", 2, 0.75)]
    )
    alignment, uniformity = "0.200 [-0.800, 1.200]", "-2.000 [-3.000, -1.000]"
    others = "0.100 [-0.900, 1.100]", "1.5 [0.5, 2.5] of 3"
    assert table.rows[0] == ("raw", "–", alignment, uniformity, *others)
    assert table.rows[1][:3] == ("a", "2", "0.700 ± 0.354") and table.rows[1][-1] == "2.0 ± 0.4 of 3"
    assert "95 % intervals" in table.notes[1] and "± is the standard deviation" in table.notes[0]
