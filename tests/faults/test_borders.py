"""Compiled code never trusts a file or a caller: what does not fit is refused where it comes in."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import attomaton as at
from attomaton.base.errors import (
    CorruptRun,
    EmptyContext,
    InvalidSamples,
    MismatchedParts,
    TokenOutOfRange,
)
from attomaton.corpora.documents import Chunk
from attomaton.engines.partitions import EdgePartitions, open_edges
from attomaton.graphs.choices import CHOICE_SCHEMA
from attomaton.graphs.components import ORDER_SCHEMA
from attomaton.graphs.robustness import measure_robustness
from attomaton.graphs.windows import Links, link_repeats, window_edges
from attomaton.solvers.hard.problem import OrderProblem
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.theories.scansnap.classes import CorpusClasses
from tests.drawn import components_of
from tests.faults import resigned
from tests.faults.resigning import (
    change_record,
    find_checkpoints,
    rename_step,
    set_array,
    set_value,
    sign_checkpoints,
    sign_parts,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    return resigned.make_run(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def run(whole_run, tmp_path):
    return Path(shutil.copytree(whole_run, tmp_path / "run"))


@pytest.mark.parametrize("value", [-1, 10**6, 2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("edges", "query"),
        ("edges", "winner"),
        ("edges", "loser"),
        ("nodes", "query"),
        ("nodes", "token"),
        ("nodes", "component"),
        ("order", "query"),
        ("order", "above"),
        ("order", "below"),
        ("choices", "query"),
        ("choices", "winner"),
    ],
)
def test_a_signed_run_with_one_index_out_of_range_does_not_load(run, table, column, value):
    """Smallest case of the issue: order.below beyond the components ended report and export by a signal."""
    set_value(run, table, column, 3, min(value, 2**31 - 1))
    with pytest.raises(
        CorruptRun, match=rf"contain a complete automaton \(.*the tables? .*{table}.*write the run again"
    ):
        at.Automaton.load(run)


@pytest.mark.parametrize(
    ("table", "column", "row", "value"),
    [
        ("edges", "support", 0, 0),
        ("edges", "support", 0, 2**63 - 1),
        ("edges", "support", 0, None),
        ("order", "support", 0, -3),
        ("choices", "count", 0, 0),
        ("choices", "tokens", 0, []),
        ("choices", "tokens", 0, [0, 0]),
        ("choices", "tokens", 0, [-1, 2**31 - 1]),
        ("choices", "multiplicities", 0, [1]),
        ("nodes", "hard", 0, float("nan")),
        ("nodes", "soft", 5, float("inf")),
        ("order", "multiplier", 2, float("nan")),
    ],
)
def test_a_signed_run_with_a_value_that_cannot_be_does_not_load(run, table, column, row, value):
    set_value(run, table, column, row, value)
    with pytest.raises(CorruptRun, match=rf"the tables? .*{table}"):
        at.Automaton.load(run)


def test_a_signed_run_whose_order_is_a_cycle_does_not_load(run):
    """It ended in an assertion of compiled code; sorted and in range, only a search finds it."""
    auto = at.Automaton.load(run)
    first = auto.components.order.slice(0, 1).to_pylist()[0]
    back = {**first, "above": first["below"], "below": first["above"]}
    rows = sorted([*auto.components.order.to_pylist(), back], key=lambda row: (row["above"], row["below"]))
    order = pa.Table.from_pylist(rows, ORDER_SCHEMA)
    with pytest.raises(MismatchedParts, match="the order has a cycle"):
        at.Components(auto.components.edges, auto.components.nodes, order)


@pytest.mark.parametrize("value", [-5, 10**6, 2**63 - 1])
@pytest.mark.parametrize(
    "column", ["query", "realisable", "unrealisable", "nodes", "components", "edges", "order", "choices"]
)
def test_a_signed_run_with_an_index_that_cannot_be_does_not_load(run, column, value):
    if "realisable" in column and value > 0:
        value = 2**63 - 1  # there may be a million samples without any edge
    set_value(run, "queries", column, 2, value)
    with pytest.raises(CorruptRun, match="write the run again"):
        at.Automaton.load(run)


def test_a_signed_run_with_an_array_that_does_not_fit_does_not_load(run):
    set_array(run, "hard/weights", np.zeros((3, 4)))
    with pytest.raises(CorruptRun, match="does not contain a complete automaton"):
        at.Automaton.load(run)


@pytest.mark.parametrize("borders", [[], [0], [0, 5, 5, 15], [0, 99], [1, 15], "0", None, [0, 2**70], {}])
def test_a_signed_run_whose_parts_begin_elsewhere_does_not_load(run, borders):
    change_record(run, lambda record: record.update(borders=borders))
    with pytest.raises(CorruptRun, match="write the run again"):
        at.Automaton.load(run)


@pytest.mark.parametrize("size", [2**62, 10**9, -1, 3, 1.5, "19", None, True])
def test_a_signed_run_with_another_number_of_tokens_does_not_load(run, size):
    """With 2^62 tokens the score matrix alone asked for all memory."""
    change_record(run, lambda record: record.update(n_tokens=size))
    with pytest.raises(CorruptRun, match="does not contain a complete automaton"):
        at.Automaton.load(run)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True, [1]])
def test_a_signed_run_whose_certificate_is_no_number_does_not_load(run, value):
    change_record(run, lambda record: record["certificates"]["hard"].update(gap=value))
    with pytest.raises(CorruptRun, match=r"gap is .* in manifest\.json"):
        at.Automaton.load(run)


def test_the_constructor_of_samples_checks_what_it_is_given():
    good = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])
    again = at.Samples(good.values, good.starts, good.stops, good.labels, 3)
    assert list(again) == list(good)
    assert at.Samples([0, 1], [0], [2], [1], 2).values.dtype == np.int32
    with pytest.raises(TokenOutOfRange, match=r"token 7 at the label of sample 0 is not in 0 … 2"):
        replace(good, labels=np.array([7, 1], np.int32))
    with pytest.raises(TokenOutOfRange, match="token -1 at index 0 of values"):
        replace(good, values=np.array([-1, 0, 0, 0, 0]))
    with pytest.raises(InvalidSamples, match=r"the context of sample 1 is values\[3:99\], but there are 5"):
        replace(good, stops=np.array([3, 99]))
    with pytest.raises(InvalidSamples, match=r"values\[-2:3\]"):
        replace(good, starts=np.array([-2, 3]))
    with pytest.raises(EmptyContext, match="sample 0 has an empty context"):
        replace(good, starts=np.array([3, 3]))
    with pytest.raises(InvalidSamples, match="2 starts, 2 stops and 1 labels"):
        replace(good, labels=np.array([0]))
    with pytest.raises(InvalidSamples, match="n_tokens is 4611686018427387904"):
        replace(good, n_tokens=2**62)
    with pytest.raises(InvalidSamples, match="starts must be a one-dimensional array of whole numbers"):
        replace(good, starts=np.array([0.0, np.nan]))


def test_the_constructor_of_edges_checks_what_it_is_given():
    edges = at.extract_edges(at.Samples.from_lists([[1, 0, 2], [0, 1, 2], [1, 2]], [0, 0, 1]))
    rows = edges.rows
    with pytest.raises(MismatchedParts, match="must increase from row to row, but row 1 does not"):
        replace(edges, rows=rows.take([1, 0, 2]))
    with pytest.raises(MismatchedParts, match="must increase from row to row"):
        replace(edges, rows=rows.take([0, 0, 1]))
    with pytest.raises(MismatchedParts, match="winner in the edge table is 1 in row 2, outside 0 … 0"):
        replace(edges, n_tokens=1, rows=rows.set_column(0, "query", pa.array([0, 0, 0], pa.int32())))
    with pytest.raises(MismatchedParts, match="the wrong columns; it needs query: int32"):
        replace(edges, rows=rows.drop_columns(["support"]))
    with pytest.raises(MismatchedParts, match="a token beats itself"):
        replace(edges, rows=rows.set_column(2, "loser", pa.array([0, 0, 0], pa.int32())))


def test_the_constructor_of_choices_looks_into_lists_that_arrow_trusts():
    offsets = pa.py_buffer(np.array([0, 2**40, 4], np.int64))
    tokens = pa.Array.from_buffers(
        pa.large_list(pa.int32()), 2, [None, offsets], children=[pa.array([0, 1, 0, 1], pa.int32())]
    )
    plain = [pa.array([2, 2], pa.int32()), pa.array([0, 1], pa.int32())]
    arrays = [*plain, tokens, tokens, pa.array([1, 1], pa.int64())]
    with pytest.raises(MismatchedParts, match="the choice table is not valid"):
        at.ChoiceTable(pa.Table.from_arrays(arrays, schema=CHOICE_SCHEMA))


def test_an_empty_list_column_with_an_offset_beyond_its_values_is_empty():
    """Arrow's full check passes it, and Arrow's own flatten ends the process."""
    offsets = pa.py_buffer(np.array([1], np.int64))
    values = [pa.array([], pa.int32())]
    tokens = pa.Array.from_buffers(pa.large_list(pa.int32()), 0, [None, offsets], children=values)
    plain = [pa.array([], pa.int32()), pa.array([], pa.int32())]
    arrays = [*plain, tokens, tokens, pa.array([], pa.int64())]
    assert len(at.ChoiceTable(pa.Table.from_arrays(arrays, schema=CHOICE_SCHEMA))) == 0


def test_a_solver_of_ones_own_must_return_as_many_numbers_as_were_asked_for():
    """The certificate's compiled loop read beyond them."""

    class Short:
        def solve_order(self, _):
            return np.zeros(1), np.zeros(1)

    components = components_of(at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1]))
    with pytest.raises(MismatchedParts, match=r"positions has shape \(1,\), not \(3\)"):
        at.solve_graph_svm(components, solver=Short())


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"below": [1, 9]}, "the component below an edge is 9"),
        ({"above": [-4, 1]}, "the component above an edge is -4"),
        ({"below": [1, 0]}, "form a cycle"),
        ({"group": [0, 0, 1]}, "joins two groups"),
        ({"group": [0, 0, 2**62]}, "numbered 0, 1, 2"),
        ({"sizes": [1, 0, 1]}, "has no tokens"),
        ({"sizes": [1, 1]}, "must have equal lengths"),
    ],
)
def test_order_problems_are_checked(changed, match):
    parts = {"sizes": [1, 2, 1], "above": [0, 1], "below": [1, 2], "group": [0, 0, 0], **changed}
    with pytest.raises(MismatchedParts, match=match):
        OrderProblem(**{name: np.array(part) for name, part in parts.items()})


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"alternative": [0, 1, 0, 7]}, "alternative is 7 in row 3, outside 0 … 1"),
        ({"winner": [0, -1]}, "winner is -1"),
        ({"offsets": [0, 9, 4]}, "offsets of choice sets must rise from 0 to 4"),
        ({"component": [0, 1]}, "alternatives of two components"),
        ({"component": [0, 2**62]}, "component is 4611686018427387904"),
        ({"count": [1.0, np.nan]}, "count is nan"),
        ({"alternative": [0, 1, 0, 0]}, "does not contain its winner exactly once"),
    ],
)
def test_luce_problems_are_checked(changed, match):
    parts = {"alternative": [0, 1, 0, 1], "offsets": [0, 2, 4], "log_multiplicity": [0.0] * 4}
    parts |= {"winner": [0, 1], "count": [3.0, 1.0], "component": [0, 0], **changed}
    with pytest.raises(MismatchedParts, match=match):
        LuceProblem(**{name: np.array(part) for name, part in parts.items()})


def test_pieces_of_text_are_checked():
    ids, documents = np.array([0, 1, 0, 2], np.int32), np.array([0, 4])
    piece = Chunk(ids, documents, 0, 3)
    with pytest.raises(TokenOutOfRange, match="a token of the chunk is 2 in row 3, outside 0 … 1"):
        Chunk(ids, documents, 0, 2)
    with pytest.raises(InvalidSamples, match="offsets of documents must rise from 0 to 4"):
        Chunk(ids, np.array([0, 2**40, 4]), 0, 3)
    with pytest.raises(InvalidSamples, match="the head of a chunk is -1"):
        Chunk(ids, documents, -1, 3)
    with pytest.raises(MismatchedParts, match="a boolean for each of 3 tokens"):
        link_repeats(piece, 2, np.ones(2, bool))
    kept = np.ones(3, bool)
    links = link_repeats(piece, 2, kept)
    short = Links(links.before[:1], links.after[:1], links.realisable, links.unrealisable)
    with pytest.raises(MismatchedParts, match="must have equal lengths"):
        list(window_edges(piece, short, window=2, selected=kept, max_keys=10))
    fewer = Links(links.before, links.after, 0 * links.realisable, links.unrealisable)
    assert (
        len(list(window_edges(piece, fewer, window=2, selected=kept, max_keys=10))) == 1
    )  # it went on for ever


def test_edges_that_lead_nowhere_are_said():
    """Sorted and in range, but of another corpus: components.rows alone gave some other node."""
    one = components_of(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1], n_tokens=4))
    other = at.extract_edges(at.Samples.from_lists([[0, 3, 2], [3, 0, 2]], [0, 3], n_tokens=4))
    mixed = replace(one, edges=other)
    with pytest.raises(MismatchedParts, match="not a node"):
        measure_robustness(mixed)


def test_classes_of_sequences_are_checked():
    classes = CorpusClasses.from_table([3, 3], [4, 5], [[0.5, 0.5, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0, 0]])
    with pytest.raises(InvalidSamples, match="tokens is 6 in row 0, outside 0 … 5"):
        replace(classes, tokens=np.array([6, 1, 0, 2], np.int32))
    with pytest.raises(InvalidSamples, match="offsets of classes must rise from 0 to 4"):
        replace(classes, offsets=np.array([0, 9, 4]))


def test_a_vocabulary_has_a_token_for_each_id():
    auto = at.learn([0, 1, 0, 2, 0, 1])
    with pytest.raises(MismatchedParts, match="the vocabulary has 2 tokens, but the components have 3"):
        at.Automaton(auto.components, auto.hard, auto.soft, at.Vocabulary(("a", "b")))


def test_edges_in_files_are_checked_as_they_are_read(tmp_path):
    from attomaton.corpora.shards import Shards
    from attomaton.engines.duckdb import DuckDBEngine

    ids = np.array([0, 1, 0, 2, 1, 0, 2, 2, 1, 0], np.int32)
    shards = Shards.write(tmp_path / "tokens", ids, np.array([0, len(ids)]), n_tokens=3)
    DuckDBEngine(shards, work=tmp_path / "work").edges()
    [folder] = {path.parent for path in (tmp_path / "work").rglob("edges.json")}
    sign_parts(folder, "winner", 10**6)
    parts = open_edges(folder, {})
    assert isinstance(parts, EdgePartitions)
    with pytest.raises(MismatchedParts, match="winner in the edge table is 1000000"):
        parts.load()


@pytest.fixture(scope="module")
def whole_training(tmp_path_factory):
    return resigned.make_training(tmp_path_factory.mktemp("trained"))


def test_a_checkpoint_beyond_the_last_step_is_refused(tmp_path):
    """The loop waited for a step that had passed: it trained for ever."""
    run = resigned.make_training(tmp_path, stop_after=32)
    rename_step(find_checkpoints(run)[-1], 1_000)
    sign_checkpoints(run)
    with pytest.raises(CorruptRun, match="the checkpoint after step 1000 belongs to another run"):
        resigned.train_on(run)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("corpus_of_trial", np.array([0, 5])),
        ("corpora/0/labels", np.array([0, 1, 99], np.int32)),
        ("corpora/0/stops", np.array([3, 6, 10**9])),
        ("weights", np.zeros((2, 2))),
        ("steps", np.array([0, 0, 0, 0, 0, 0])),
    ],
)
def test_a_signed_trace_that_does_not_fit_is_refused(whole_training, tmp_path, name, array):
    from attomaton.base.artifacts import read_arrays, write_arrays
    from attomaton.training.trace import Trace

    arrays, about = read_arrays(whole_training / "training" / "trace.safetensors")
    write_arrays(tmp_path / "trace.safetensors", {**arrays, name: array}, about)
    with pytest.raises(CorruptRun, match="is not a complete trace"):
        Trace.load(tmp_path / "trace.safetensors")


def ask(module: str, *arguments: object) -> dict:
    """What a campaign prints, from a process of its own, where nothing has started threads yet."""
    command = [sys.executable, "-m", f"tests.faults.{module}", *map(str, arguments)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode} after {done.stderr[-500:]}"
    return json.loads(done.stdout)


SIZES = [pytest.param(1, id="gate"), pytest.param(200, id="campaign", marks=pytest.mark.slow)]


@pytest.mark.costly("a process of its own, which may be killed by what it reads")
@pytest.mark.parametrize("times", SIZES)
@pytest.mark.parametrize(("kind", "count"), [("run", 20), ("trace", 15), ("checkpoint", 15)])
def test_nothing_that_was_altered_and_signed_ends_badly(kind, count, times):
    told = ask("resigned", kind, count * times, "--seed", times)
    assert told["failures"] == {}
    assert told["trials"] == count * times
    assert told["kinds"]["refused"] > told["trials"] / 4
    assert told["kinds"]["fine"] > 0  # a change that fits is no fault


@pytest.mark.slow  # fuzzes every kernel
@pytest.mark.parametrize("times", [1, 100])
def test_every_kernel_is_called_through_its_border_and_none_dies(times):
    told = ask("kernels", 300 * times, "--seed", times)
    assert told["tracebacks"] == {}
    assert told["not reached"] == []
    assert told["kernels"] >= 39
