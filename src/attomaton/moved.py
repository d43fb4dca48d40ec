"""Modules that have moved and names that have changed: the old ones work for one more release, and warn.

CONTRIBUTING.md holds the policy. An old module is a plain object that looks its names up where they stand
now, so nothing is loaded twice and a class has one identity under both names.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ROOT = "attomaton."

MOVED = {
    "hard.solvers.blocks": "hard.solvers.placement",
    "limit": "",
    "limit.automaton": "automaton.automaton",
    "limit.basis": "trajectory.basis",
    "limit.batch": "automaton.attention:Attention",
    "limit.by_query": "solved",
    "limit.choices": "choices.fit",
    "limit.compare": "automaton.compare",
    "limit.coverage": "runs.coverage",
    "limit.curves": "trajectory.curves",
    "limit.estimator": "automaton.estimator",
    "limit.evidence": "graphs.paths",
    "limit.expansion": "trajectory.expansion",
    "limit.explanation": "automaton.explanation",
    "limit.fast_forward": "trajectory.fast_forward",
    "limit.finite": "automaton.finite",
    "limit.flow": "trajectory.flow",
    "limit.flow.definition": "trajectory.flow.definition",
    "limit.flow.embedded": "trajectory.flow.embedded",
    "limit.flow.integrate": "trajectory.flow.integrate",
    "limit.flow.separable": "trajectory.flow.orthonormal",
    "limit.loss": "trajectory.loss",
    "limit.numbering": "choices.numbering",
    "limit.prediction": "automaton.prediction",
    "limit.residual": "trajectory.residual",
    "limit.residual.embedded": "trajectory.residual.embedded",
    "limit.residual.orthonormal": "trajectory.residual.orthonormal",
    "limit.residual.problem": "trajectory.residual.problem",
    "limit.rules": "automaton.rules",
    "limit.scoring": "automaton.scoring",
    "limit.sharpness": "trajectory.sharpness",
    "limit.showing": "automaton.views",
    "limit.shrinkage": "automaton.shrinkage",
    "limit.stability": "trajectory.stability",
    "limit.storage": "runs.storage",
    "corpora.jobs": "readers.jobs",
    "corpora.processes": "readers.processes",
    "corpora.readers": "readers",
    "corpora.readers.batches": "readers.batches",
    "corpora.readers.columns": "readers.columns",
    "corpora.readers.documents": "readers.corpus",
    "corpora.readers.fasta": "readers.fasta",
    "corpora.readers.files": "readers.files",
    "corpora.readers.footers": "corpora.columnar.footers",
    "corpora.readers.jsonlines": "readers.jsonlines",
    "corpora.readers.memory": "readers.memory",
    "corpora.readers.messages": "corpora.columnar.messages",
    "corpora.readers.pages": "corpora.columnar.pages",
    "corpora.readers.sources": "readers.sources",
    "corpora.readers.standard": "readers.standard",
    "corpora.readers.streams": "readers.streams",
    "corpora.readers.tables": "readers.tables",
    "corpora.readers.texts": "readers.texts",
    "corpora.readers.thrift": "corpora.columnar.thrift",
    "corpora.tokenize": "readers.tokenize",
    "engines.shards": "corpora.shards",
    "graphs.compiled": "compiled",
    "graphs.summation": "compiled.summation",
    "verify": "claims.mechanics",
    "verify.claims": "claims.mechanics",
    "verify.diagnose": "claims.diagnose",
    "verify.evidence": "claims.evidence",
    "verify.kept": "claims.kept",
    "verify.local": "claims.local",
    "verify.masses": "claims.masses",
    "verify.measures": "claims.measures",
    "verify.retrieval": "claims.retrieval",
    "verify.scan_snap": "claims.scansnap",
    "verify.verdicts": "claims.verdicts",
}
"""Old module → where its names are now: a module, or a class in one; empty for a folder that held none."""

RENAMED = {
    "BlockResidual": "OrthonormalResidual",
    "Blocks": "Placement",
    "SeparableFlow": "OrthonormalFlow",
    "Shown": "ContextView",
    "SpanResidual": "EmbeddedResidual",
    "bound_sharpness": "bound_orthonormal_sharpness",
    "find_edge": "find_orthonormal_edge",
    "separable_flow": "orthonormal_flow",
    "solve_blocks": "solve_orthonormal",
    "solve_span": "solve_embedded",
    "unless_identity": "unless_orthonormal",
}
"""Names that changed with their module."""


class MovedModule(ModuleType):
    """A module under its old name. ``attomaton.verify`` was a module that could be called, and still can."""

    def __getattr__(self, name: str) -> Any:
        """The name from its new home."""
        target = MOVED[self.__name__.removeprefix(ROOT)]
        if not target or name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, inside = target.partition(":")
        home = import_module(ROOT + module)
        return getattr(getattr(home, inside) if inside else home, RENAMED.get(name, name))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call ``verify`` as before."""
        return self.__getattr__("verify")(*arguments, **options)


class MovedFinder(MetaPathFinder, Loader):
    """Finds modules under their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The old module, if there was one of this name."""
        del path, target
        old = fullname.removeprefix(ROOT)
        if old == fullname or old not in MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=any(other.startswith(f"{old}.") for other in MOVED))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module that looks its names up in their new home."""
        return MovedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Say where the names are now."""
        target = MOVED[module.__name__.removeprefix(ROOT)]
        if target:
            warnings.warn(
                f"{module.__name__} has moved to {ROOT}{target.replace(':', '.')}; the old name goes with "
                "the next release",
                DeprecationWarning,
                stacklevel=2,
            )


def find_renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module some of whose names have changed: old name → new name."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is called {names[name]} now; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], names[name])

    return find


def find_elsewhere(module: str, home: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module some of whose names stand in another one now."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(home), name)
        warnings.warn(
            f"{module}.{name} has moved to {home}; the old place goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return found

    return find


def find_moved() -> None:
    """Let old names be imported; asked only for names that nothing else finds."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
