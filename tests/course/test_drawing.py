"""The drawing of the lessons shows what it was given."""

from course.drawing import BLUE, VERMILION, Piece, bars

LOOKS = {"library": BLUE, "kernel": VERMILION}


def test_a_piece_begins_where_the_last_one_ends_or_where_it_says():
    rows = {
        "eager": [("library", 3), Piece("kernel", 2, "gelu")],
        "compiled": [Piece("library", 1, start=4)],
    }
    picture = bars(rows, LOOKS, unit="MiB", alt="In words.", ends=["5", "1"])
    [axes] = picture.figure.axes
    boxes = [(p.get_x(), p.get_width(), round(p.get_y())) for p in axes.patches]
    assert boxes == [(0, 3, 0), (3, 2, 0), (4, 1, 1)]
    assert [text.get_text() for text in axes.texts] == ["gelu", "5", "1"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["eager", "compiled"]
    assert axes.yaxis.get_view_interval()[0] > axes.yaxis.get_view_interval()[1]
    assert str(picture) == "Figure. In words."
    assert "png;base64" in picture._repr_html_()
