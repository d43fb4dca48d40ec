"""Figures for papers: one style, vectors, real fonts, the column's width, the same bytes, colours for all."""

import itertools
import re
import zlib
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, strategies as st
from matplotlib import style
from matplotlib.figure import Figure

import attomaton as at
from attomaton.base.drawing import (
    FONT_SIZE,
    ONE_COLUMN,
    STYLE,
    TITLE_SIZE,
    TWO_COLUMNS,
    drawable,
    measure_text,
    paper_style,
)
from attomaton.base.errors import UnknownToken, UnsupportedOption, UnwritablePlace
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.report.page.packing import Packer
from attomaton.report.pictures import choose_tokens, draw_heat, gather_scores, write_figures
from attomaton.report.priority_graph import MOST_COMPONENTS, draw_graph, lay_out_boxes
from attomaton_experiments.figures.grids import GridFigure, draw_grids
from attomaton_experiments.figures.maps import MapPanel, draw_maps
from attomaton_experiments.figures.panels import Panel, draw_panels

SAMPLES = at.Samples.from_lists([[0, 1, 3], [1, 0, 3], [1, 2, 3], [2, 1]], [0, 1, 1, 2], n_tokens=4)
AUTO = at.learn(SAMPLES)
NAMES = ("$x$", "\u202eevil", "漢字", "l" * 10_000)
STEPS = np.arange(5.0)


def graphs_of(auto):
    packer = Packer(auto)
    return [packer.graph(place) for place in packer.by_samples]


def panels(path):
    values = np.random.default_rng(0).random((5, 3)) + 0.5
    drawn = Panel(
        "loss", STEPS, values, predicted=(STEPS, STEPS), published=(0.2, 0.4), log=True, log_axis=True
    )
    return draw_panels([drawn] * 3, path, caption="three panels")


def lines(path):
    shown = [Line(str(number), [1, 2, 3], [1, number, 3], number, number % 4) for number in range(5)]
    return draw_line_panels(
        [LinePanel("loss", shown), LinePanel("level", [Line("", [1], [2], 0)])], path, caption="lines"
    )


def maps(path):
    panel = MapPanel("step 0", np.eye(4), NAMES)
    return draw_maps([panel, panel], path, caption="maps")


def grids(path):
    grid = GridFigure("mass", ["a", "b"], ["x", "y"], [[0.1, None], [0.7, 1.0]], marked=[(0, 0)], borders=[1])
    return draw_grids([grid] * 3, path, caption="grids")


def graph(path):
    return draw_graph(graphs_of(AUTO)[0], NAMES.__getitem__, path)


def heat(path):
    return draw_heat(graphs_of(AUTO), NAMES.__getitem__, path)


DRAWN = {"panels": panels, "lines": lines, "maps": maps, "grids": grids, "graph": graph, "heat": heat}


def colours():
    with paper_style():
        return mpl.rcParams["axes.prop_cycle"].by_key()["color"]


@pytest.mark.slow  # draws each figure twice
@pytest.mark.parametrize("kind", DRAWN)
def test_a_figure_is_a_vector_with_real_fonts_in_the_columns_width_and_always_the_same(tmp_path, kind):
    before = dict(mpl.rcParams)
    png, pdf = DRAWN[kind](tmp_path / "figure")
    assert dict(mpl.rcParams) == before
    held = pdf.read_bytes()
    width = TWO_COLUMNS if kind == "grids" else ONE_COLUMN
    box = [float(one) for one in re.search(rb"/MediaBox \[ (.*?) \]", held)[1].split()]
    assert box[2] == pytest.approx(72 * width)
    assert b"/FontFile2" in held
    assert b"/Type3" not in held
    assert (b"/Subtype /Image" in held) == (kind in ("maps", "grids"))
    assert b"CreationDate" not in held
    assert png.stat().st_size < 1_000_000
    with mpl.rc_context({"font.size": 20, "lines.linewidth": 9, "savefig.bbox": "tight", "pdf.fonttype": 3}):
        again = DRAWN[kind](tmp_path / "again")
        assert mpl.rcParams["font.size"] == 20
    assert [path.read_bytes() for path in again] == [png.read_bytes(), held]


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are drawn."""
    figures = []
    monkeypatch.setattr(
        "attomaton.report.figures.new_figure", lambda _: figures.append(Figure()) or figures[-1]
    )
    return figures


def test_equal_lines_with_different_names_are_named_in_their_own_panels(drawn, tmp_path):
    one, other = Line("W", [1, 2], [1, 2], 0), Line("start", [1, 2], [2, 1], 0)
    draw_line_panels([LinePanel("a", [one]), LinePanel("b", [other])], tmp_path / "figure", caption="")
    (figure,) = drawn
    legends = [axis.get_legend() for axis in figure.axes]
    assert [legend.get_title().get_text() for legend in legends] == ["a", "b"]
    assert [text.get_text() for legend in legends for text in legend.get_texts()] == ["W", "start"]
    assert figure.legends == []


def test_panels_over_different_quantities_have_their_own_axes(drawn, tmp_path):
    short, long = Line("", [1, 2], [1, 2], 0), Line("", [1, 900], [2, 1], 0)
    panels = [LinePanel("a", [short], axis="t"), LinePanel("b", [long], axis="ratio")]
    draw_line_panels(panels, tmp_path / "figure", caption="")
    (figure,) = drawn
    assert [axis.get_xlabel() for axis in figure.axes] == ["t", "ratio"]
    assert figure.axes[0].get_xlim()[1] < 10 < figure.axes[1].get_xlim()[1]


def test_the_style_can_be_used_by_its_name():
    with style.context(STYLE):
        assert mpl.rcParams["figure.figsize"][0] == ONE_COLUMN
        assert mpl.rcParams["font.size"] == FONT_SIZE
        assert mpl.rcParams["figure.titlesize"] == TITLE_SIZE
        assert mpl.rcParams["pdf.fonttype"] == 42


def test_sizes_and_colours_are_said_in_the_style_only():
    """Beside it, only text that has to fit a cell or a map may have a size of its own."""
    rooms = "attomaton/report/*.py", "attomaton_experiments/figures/*.py"
    found = {
        path.name: re.findall(
            r"fontsize=(?!\"(?:x-)?small\"|size)\S+|#[0-9a-f]{6}\b", path.read_text("utf-8")
        )
        for room in rooms
        for path in Path(at.__file__).parents[1].glob(room)
    }
    assert {name: told for name, told in found.items() if told} == {"priority_graph.py": ["#d6e9f5"]}


SEEN = {  # Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
    "all colours": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
APART = 15.0
"""Distance in CIE Lab that two colours of lines keep for every reader; just noticeable is 2.3."""


def to_lab(names, seen):
    from matplotlib.colors import to_rgb

    rgb = np.array([to_rgb(name) for name in names])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.transpose(seen), 0, 1)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    xyz = linear @ np.transpose(to_xyz) / [0.95047, 1.0, 1.08883]
    root = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    x, y, z = root.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def closest(names, seen):
    table = to_lab(names, seen)
    return min(np.linalg.norm(table[a] - table[b]) for a, b in itertools.combinations(range(len(names)), 2))


@pytest.mark.parametrize("reader", SEEN)
def test_colours_stay_apart_for_every_reader(reader):
    assert closest(colours(), SEEN[reader]) > APART


def test_the_bar_can_fail():
    others = mpl.rcParamsDefault["axes.prop_cycle"].by_key()["color"][:7]
    assert min(closest(others, seen) for seen in SEEN.values()) < APART / 2


def test_maps_read_in_grey():
    with paper_style():
        shades = mpl.colormaps[mpl.rcParams["image.cmap"]](np.linspace(0, 1, 20))[:, :3]
    lightness = to_lab(shades, np.eye(3))[:, 0]
    assert (np.diff(lightness) < -1).all()
    heat_ends = to_lab(colours()[:2], np.eye(3))[:, 0]
    assert abs(heat_ends[0] - heat_ends[1]) > 5  # near in grey, so the numbers stand in the cells


def test_the_page_has_the_colours_of_the_figures():
    css = (Path(at.__file__).parent / "base/assets/style.css").read_text("utf-8")
    for name, colour in (("win", colours()[0]), ("lose", colours()[1])):
        assert set(re.findall(rf"--{name}: (#\w+);", css)) == {colour.lower()}


def test_a_graph_read_back_is_the_run():
    contexts = st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=5), min_size=1, max_size=8)

    @given(contexts, st.data())
    def check(contexts, data):
        labels = [data.draw(st.sampled_from(context)) for context in contexts]
        auto = at.learn(at.Samples.from_lists(contexts, labels, n_tokens=5))
        for graph in graphs_of(auto):
            for component, rows in enumerate(graph.members):
                number = auto.components.component(graph.query, int(graph.tokens[rows[0]]))
                assert auto.components.tokens(number).tolist() == graph.tokens[list(rows)].tolist()
                assert auto.components.heights[number] == graph.heights[component]
            assert sorted(itertools.chain(*graph.layers)) == list(range(len(graph.members)))
            rows, known = auto.components.rows(np.full(len(graph.tokens), graph.query), graph.tokens)
            assert known.all()
            for solution, scores in ((auto.hard, graph.hard), (auto.soft, graph.soft)):
                assert np.array_equal(solution.scores.column("score").to_numpy()[rows], scores)
            assert (graph.heights[graph.above] > graph.heights[graph.below]).all()

    check()


def test_a_wide_graph_is_cut_and_boxes_do_not_overlap():
    n_tokens = 200
    contexts = [[0, token, 199] for token in range(1, 199)]
    auto = at.learn(at.Samples.from_lists(contexts, [0] * 198, n_tokens=n_tokens))
    boxes, height = lay_out_boxes(graphs_of(auto)[0], lambda token: f"token {token}")
    notes = [box.label.text for box in boxes if box.label.component is None]
    assert notes == [f"+ {199 - MOST_COMPONENTS} more"]
    for box in boxes:
        assert 0 <= box.x <= box.x + box.label.width <= ONE_COLUMN + 1e-9
        assert box.y < height
    for one, other in itertools.combinations(boxes, 2):
        assert one.y != other.y or one.x + one.label.width <= other.x or other.x + other.label.width <= one.x


def test_scores_are_those_of_the_run():
    graphs = graphs_of(AUTO)
    tokens = choose_tokens(graphs)
    values = gather_scores(graphs, tokens)
    scores = {(row["query"], row["token"]): row["score"] for row in AUTO.hard.scores.to_pylist()}
    for (row, column), value in np.ndenumerate(values):
        expected = scores.get((graphs[column].query, int(tokens[row])))
        assert np.isnan(value) if expected is None else value == expected
    assert (np.diff(values[:, 0]) <= 0).all()


@given(st.text(max_size=30), st.integers(2, 20))
def test_any_token_can_be_drawn(text, most):
    shown = drawable(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    assert measure_text(shown) <= 0.1 * most


def test_pictures_of_a_run(tmp_path):
    auto = at.Automaton(AUTO.components, AUTO.hard, AUTO.soft, Vocabulary(NAMES, "word"))
    auto.save(tmp_path / "run")
    written = write_figures(tmp_path / "run", tmp_path / "deep" / "pictures")
    assert [path.name for path in written] == ["graph.png", "graph.pdf", "scores.png", "scores.pdf"]
    default = written[0].read_bytes()
    other = write_figures(tmp_path / "run", tmp_path / "other", query="\u202eevil")
    assert other[0].read_bytes() != default
    with pytest.raises(UnknownToken):
        write_figures(tmp_path / "run", tmp_path / "other", query="zebra")
    with pytest.raises(UnknownToken):
        write_figures(tmp_path / "run", tmp_path / "other", query="$x$")  # no query
    with pytest.raises(UnwritablePlace):
        write_figures(tmp_path / "run", tmp_path / "run" / "pictures")


def test_a_run_without_any_graph_has_no_picture(tmp_path):
    with pytest.warns(at.base.errors.NothingRealisable):
        at.learn(at.Samples.from_lists([[0, 1]], [2]), out=tmp_path / "run")
    with pytest.raises(UnsupportedOption):
        write_figures(tmp_path / "run", tmp_path / "pictures")


@pytest.mark.slow  # trains
def test_training_is_drawn_with_what_was_predicted(tmp_path):
    from typer.testing import CliRunner

    from attomaton.cli import app

    (tmp_path / "short.txt").write_text("a b a c a b a c b a c a b b a c a a b c a b a\n" * 2)
    run, text = str(tmp_path / "run"), str(tmp_path / "short.txt")
    for command in (
        ["learn", text, "--out", run, "--window", "3", "--quiet"],
        ["train", text, "--out", run, "--window", "3", "--steps", "100", "--quiet"],
    ):
        assert CliRunner().invoke(app, command).exit_code == 0
    written = write_figures(run, tmp_path / "pictures")
    assert [path.name for path in written[-2:]] == ["training.png", "training.pdf"]
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", written[-1].read_bytes(), re.DOTALL)
    drawn = b"".join(zlib.decompress(one) for one in streams if one[:1] == b"x")
    assert drawn.count(b" d\n") or b"] 0 d" in drawn  # dashes: the predicted curve
