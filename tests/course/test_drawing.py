"""The drawings of the lessons show what they were given."""

from course.drawing import BLUE, CROSS, VERMILION, Cell, Piece, bars, grid

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
