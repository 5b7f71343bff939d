from .figures import (
    alignment_figure,
    band_figure,
    curve_figure,
    layer_figure,
    learning_curve_figure,
    png_of,
    spectrum_figure,
    svg_of,
)
from .labels import Label, read_labels
from .maps import heat_map_figure, label_map_figure, map_figure, pair_map_figure, project_to_plane
from .page import Chart, Estimate, ForestPlot, Page, Section, html_report, latex_report, markdown_report
from .results import geometry_table, relatedness_table, sts_table, transfer_table
from .table import ABSENT, Table, mean_cell

__all__ = [
    "ABSENT",
    "Chart",
    "Estimate",
    "ForestPlot",
    "Label",
    "Page",
    "Section",
    "Table",
    "alignment_figure",
    "band_figure",
    "curve_figure",
    "geometry_table",
    "heat_map_figure",
    "html_report",
    "label_map_figure",
    "latex_report",
    "layer_figure",
    "learning_curve_figure",
    "map_figure",
    "markdown_report",
    "mean_cell",
    "pair_map_figure",
    "png_of",
    "project_to_plane",
    "read_labels",
    "relatedness_table",
    "spectrum_figure",
    "sts_table",
    "svg_of",
    "transfer_table",
]
