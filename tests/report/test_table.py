"""One table in markdown and in LaTeX, and the pivot that makes it."""

from __future__ import annotations

import pandas as pd
import pytest

from sentemb.report.table import Table, escape_latex, mean_cell, pivot

GROUPED = Table(
    "Scores",
    ("method", "pooling", "STS12"),
    (("raw", "cls", "1.0"), ("SG", "cls", "2.0"), ("raw", "mean", "3.0"), ("x", "–", "–")),
    ("a note",),
    best=frozenset({(1, 2)}),
    names=2,
    groups=("bert_mini", "bert_mini", "big", ""),
    top=frozenset({(2, 2)}),
)


def test_groups_are_a_column_of_markdown() -> None:
    assert GROUPED.markdown().splitlines() == [
        *("**Scores**", "", "| base | method | pooling | STS12 |", "|---|---|---|---:|"),
        "| bert_mini | raw | cls | 1.0 |",
        "| bert_mini | SG | cls | **2.0** |",
        "| big | raw | mean | 3.0 |",
        *("| – | x | – | – |", "", "- a note"),
    ]


def test_groups_are_parts_of_a_table_in_latex() -> None:
    assert GROUPED.latex().splitlines()[3:-1] == [
        *(r"\begin{tabular}{llr}", r"\toprule", r"method & pooling & STS12 \\", r"\midrule"),
        r"\multicolumn{3}{l}{\textit{bert\_mini}} \\",
        r"\quad raw & cls & 1.0 \\",
        r"\quad SG & cls & \textbf{2.0} \\",
        *(r"\midrule", r"\multicolumn{3}{l}{\textit{big}} \\", r"\quad raw & mean & \underline{3.0} \\"),
        *(r"\midrule", r"x & -- & -- \\", r"\bottomrule", r"\end{tabular}"),
        r"\par\footnotesize a note",
        r"\par\footnotesize underlined: the best of all",
    ]
    lines = Table("Scores", ("method", *"abcdefgh"), (("x", *["1.00 ± 0.50"] * 8),)).latex().splitlines()
    assert lines[3] == r"\scriptsize\setlength{\tabcolsep}{2pt}"
    assert lines[8] == "x & " + " & ".join([r"1.00$_{\pm 0.50}$"] * 8) + r" \\"


def test_names_that_look_like_markup_stay_names() -> None:
    table = Table("a\nb", ("<b>x",), (("a|b <!-- /report:sts -->",), ("< 0.01",)))
    lines = table.markdown().splitlines()
    assert lines[0] == "**a b**"
    assert lines[2:] == [r"| \<b>x |", "|---|", r"| a\|b \<!-- /report:sts --> |", "| < 0.01 |"]
    assert escape_latex("x --y –") == "x -{}-y --"
    assert escape_latex("a_b & 50 % \\x{y} <z> ~^#$") == (
        r"a\_b \& 50 \% \textbackslash{}x\{y\} $<$z$>$ \textasciitilde{}\textasciicircum{}\#\$"
    )


@pytest.mark.parametrize(
    ("values", "cell"), [([], "–"), ([1.005], "1.00"), ([1.0, 3.0], "2.00 ± 1.41"), ([-0.001], "-0.00")]
)
def test_a_cell_is_the_mean_with_the_sample_deviation(values: list[float], cell: str) -> None:
    assert mean_cell(values) == cell


@pytest.mark.parametrize(("complete", "partial"), [(True, "–"), (False, "4.00")])
def test_a_pivot_has_a_row_for_each_key_and_a_dash_for_incomplete_cells(complete: bool, partial: str) -> None:
    runs = [("b", "x", 1.0), ("b", "x", 3.0), ("b", "y", 4.0), ("a", "y", 5.0), ("a", "z", 9.0)]
    frame = pd.DataFrame(runs, columns=["method", "set", "value"])
    order = {"y": "Y", "x": "X"}
    made = pivot(frame, title="T", rows={"method": "m"}, column="set", order=order, complete=complete)
    assert made == Table("T", ("m", "Y", "X"), (("b", partial, "2.00 ± 1.41"), ("a", "5.00", "–")))
