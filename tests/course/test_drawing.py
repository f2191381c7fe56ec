"""The drawings of the lessons show what they were given."""

import torch

from course.drawing import BLUE, CROSS, VERMILION, Cell, Piece, bars, grid
from course.fx_drawing import Box, figure_of

LOOKS = {"library": BLUE, "kernel": VERMILION}


def boxes(picture):
    """Return left, right and row of each piece or filled cell."""
    patches = picture.figure.axes[0].patches
    ends = [(p.get_x(), p.get_x() + p.get_width(), p.get_y()) for p in patches]
    return [
        (round(left, 3), round(right, 3), round(low + BLUE.height / 2))
        for left, right, low in ends
    ]


def words(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_a_piece_begins_where_the_last_one_ends_or_where_it_says():
    rows = {
        "eager": [("library", 3), Piece("kernel", 2, "gelu")],
        "compiled": [Piece("library", 1, start=4)],
    }
    picture = bars(rows, LOOKS, unit="MiB", alt="In words.", ends=["5", "1"])
    assert boxes(picture) == [(0, 3, 0), (3, 5, 0), (4, 5, 1)]
    assert words(picture) == ["gelu", "5", "1"]
    axes = picture.figure.axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["eager", "compiled"]
    assert axes.yaxis.get_view_interval()[0] > axes.yaxis.get_view_interval()[1]
    assert str(picture) == "Figure. In words."
    assert "png;base64" in picture._repr_html_()


def test_a_grid_has_a_column_for_each_name_and_leaves_missing_cells_empty():
    cells = {"first": {"a": "kernel", "b": Cell("library", "3")}, "second": {"c": "no"}}
    picture = grid(cells, {**LOOKS, "no": CROSS}, alt="", legend="outside lower left")
    axes = picture.figure.axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b", "c"]
    assert boxes(picture) == [(-0.47, 0.47, 0), (0.53, 1.47, 0)]
    assert [(*line.get_xdata(), *line.get_ydata()) for line in axes.lines] == [(2, 1)]
    assert words(picture) == ["3"]
    [legend] = picture.figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["library", "kernel", "no"]


def test_each_node_of_a_graph_stands_below_what_it_takes():
    def f(x, late):
        return x + x.sin().cos() * late

    nodes = list(torch.fx.symbolic_trace(f).graph.nodes)
    boxes = {node.name: Box(node.name, "white") for node in nodes}
    figure = figure_of(nodes, boxes, (2, 1))
    [axes] = figure.axes
    at = {text.get_text(): text.get_position() for text in axes.texts}
    depth = {name: y for name, (x, y) in at.items()}
    # An input stands just above its first user.
    wanted = {"x": 0, "sin": 1, "cos": 2, "late": 2, "mul": 3, "add": 4, "output": 5}
    assert depth == wanted
    # The edge from x to add passes three layers beside the boxes in them.
    edges = [patch.get_path() for patch in axes.patches if not patch.get_fill()]
    [long] = [edge for edge in edges if len(edge.vertices) == 1 + 3 * 4]
    for x, y in long.vertices[3:-1:3]:
        assert all(abs(x - left) > 0.4 for left, row in at.values() if row == y)
