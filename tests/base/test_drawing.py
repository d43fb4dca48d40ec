"""Figures in the house style: the size and look of new axes, and captions that fit."""

from attomaton.base.drawing import house_axes, wrap_caption


def test_new_axes_have_the_style_and_the_size():
    with house_axes(height=1.0) as ax:
        ax.plot([0, 1], [1, 0])
    assert not ax.spines["top"].get_visible()
    assert ax.figure.get_size_inches().tolist() == [3.4, 1.0]


def test_a_caption_is_broken_where_a_line_is_full():
    caption = "Loss and norm of W by step, measured and predicted from the corpus alone"
    assert wrap_caption(caption) == [
        "Loss and norm of W by step, measured and predicted from the",
        "corpus alone",
    ]


def test_a_caption_is_not_broken_beside_an_equals_sign():
    caption = "Hard retrieval and soft composition beyond one layer: K = 6, d = 8, n = 6"
    lines = [line.replace("\u00a0", " ") for line in wrap_caption(caption)]
    assert lines == ["Hard retrieval and soft composition beyond one layer: K = 6,", "d = 8, n = 6"]
