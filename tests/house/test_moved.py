"""Old module names work for one more release, and say where their names are now."""

import subprocess
import sys
import warnings
from importlib import import_module

import pytest

import attomaton
from attomaton.moved import MOVED

OLD = [name for name, target in MOVED.items() if target]


@pytest.fixture(autouse=True)
def forgotten():
    """Importing ``attomaton.verify`` puts the old module where the function is; put it back."""
    yield
    vars(attomaton).pop("verify", None)


@pytest.mark.parametrize("old", OLD)
def test_an_old_module_says_where_it_is(old):
    name = f"attomaton.{old}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the folder that it was in may have moved as well
        import_module(name.rpartition(".")[0])
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"{name} has moved to attomaton."):
        module = import_module(name)
    target, _, inside = MOVED[old].partition(":")
    home = import_module(f"attomaton.{target}")
    public = [key for key in dir(getattr(home, inside) if inside else home) if not key.startswith("_")]
    assert all(hasattr(module, key) for key in public)


@pytest.mark.parametrize(
    "code",
    [
        "import attomaton as at; from attomaton.limit import automaton; "
        "assert automaton.Automaton is at.Automaton",
        "from attomaton.limit.showing import Shown",
        "from attomaton.limit.flow.separable import SeparableFlow, separable_flow",
        "from attomaton.limit.residual.embedded import SpanResidual, solve_span; "
        "from attomaton.limit.residual.orthonormal import BlockResidual, solve_blocks",
        "from attomaton.limit.sharpness import bound_sharpness, find_edge; "
        "from attomaton.verify.measures import unless_identity",
        "from attomaton.limit.batch import predict_samples; import attomaton as at; "
        "s = at.Samples.from_lists([[0, 1, 2]], [0]); "
        "assert len(predict_samples(at.learn(s), s).bags.token) == 3",
        "import attomaton.verify.measures; import attomaton as at; assert callable(at.verify)",
        "from attomaton.verify import verify; import attomaton as at; assert verify.__name__ == 'verify'",
        "from attomaton.corpora.readers import Reading, read_corpus; import attomaton as at; "
        "assert read_corpus is at.read_corpus",
        "from attomaton.corpora import tokenize; import attomaton as at; "
        "assert tokenize.tokenize_corpus is at.tokenize_corpus",
        "from attomaton.corpora.readers.documents import Documents, read_text",
        "from attomaton.corpora.readers.batches import Skipped",
        "from attomaton.engines.shards import Shards; from attomaton.corpora import shards; "
        "assert Shards is shards.Shards",
        "from attomaton.corpora.shards import TokenizedCorpus, read_tokens",
        "from attomaton.graphs.windows import Piece",
        "from attomaton.hard.solvers.blocks import Blocks",
    ],
)
def test_old_imports_work(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        import_module("attomaton.limit.nothing")
    sys.modules.pop("attomaton.limit.loss", None)
    with pytest.warns(DeprecationWarning, match="moved"), pytest.raises(AttributeError):
        import_module("attomaton.limit.loss").nothing  # noqa: B018


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("attomaton.scansnap.flow", "Flow", "LayerFlow"),
        ("attomaton.claims.masses", "Contexts", "TrialContexts"),
    ],
)
def test_a_name_that_changed_says_what_it_is_called(module, old, new):
    home = import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{module}.{old} is called {new} now"):
        assert getattr(home, old) is getattr(home, new)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        home.nothing  # noqa: B018
