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
