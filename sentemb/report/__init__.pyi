from .curves import band_figure, curve_figure, layer_figure, learning_curve_figure
from .figures import png_of, svg_of
from .forest import Estimate, ForestPlot
from .geometry import alignment_figure, spectrum_figure
from .labels import Label, read_labels
from .maps import heat_map_figure, label_map_figure, map_figure, pair_map_figure, project_to_plane
from .page import Page
from .results import geometry_table, mean_cell, relatedness_table, sts_table, transfer_table
from .sections import Chart, Section, html_report, latex_report, markdown_report
from .table import ABSENT, Table

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
