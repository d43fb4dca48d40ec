"""The reference shows every public name, with an example that runs, and explains its parameters.

That the examples run is the doctests' business: pytest collects those of all of ``src``.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from doctest import DocTestParser
from pathlib import Path
from typing import get_args, get_type_hints

from scipy.sparse import csc_array

import attomaton as at
from attomaton.automaton.ov_maps.automaton import WritingAutomaton
from attomaton.choices import Contrast, LogitFit
from attomaton.choices.checks import CrossValidation, GoodnessOfFit, Intransitivity
from attomaton.corpora.readers.corpus import ReadingOptions
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.spark import SparkEngine
from attomaton.solvers.norms.interior import InteriorPoint
from attomaton.solvers.norms.solve import FactoredSolution
from attomaton.solvers.soft.tied import TieScores

LATER = {
    one.__name__: one
    for one in (
        Contrast,
        CrossValidation,
        DuckDBEngine,
        FactoredSolution,
        GoodnessOfFit,
        InteriorPoint,
        Intransitivity,
        LogitFit,
        ReadingOptions,
        SparkEngine,
        TieScores,
        WritingAutomaton,
        csc_array,
    )
}
"""Classes that annotations name and that are loaded by whoever needs them."""

NOT_HERE = {"SparkEngine": "needs Java and a session; tests/engines/test_spark.py runs it"}
"""Examples that the doctests leave out, and why."""

DOCS = Path(__file__).parents[2] / "docs"


LAST = "## Named in signatures and tutorials only"
DIRECTIVES, WORKBENCH = (
    re.findall(r"^::: (\S+)$", part, re.MULTILINE)
    for part in (DOCS / "reference.md").read_text(encoding="utf-8").split(LAST)
)
"""The names that the page shows, and those of its last section, which need no example."""


def find(name: str) -> object:
    """What a dotted name on the page stands for."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
            for part in parts[length:]:
                found = getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return found
    raise LookupError(name)


def members(name: str, found: object) -> Iterator[tuple[str, object]]:
    """The name itself, or what a module defines: what mkdocstrings shows under it."""
    if not inspect.ismodule(found):
        yield name, found
        return
    for inner, value in vars(found).items():
        own = getattr(value, "__module__", None) == found.__name__
        if own and not inner.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            yield f"{name}.{inner}", value


SHOWN = {name: value for directive in DIRECTIVES for name, value in members(directive, find(directive))}
CLASSES = {name: value for name, value in SHOWN.items() if inspect.isclass(value)}
DATACLASSES = {name: value for name, value in CLASSES.items() if is_dataclass(value)}


def methods(kind: type) -> dict[str, object]:
    """The public methods that a class defines itself; functions that are defaults of fields are none."""
    stored = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    plain = {name: getattr(value, "__func__", value) for name, value in vars(kind).items()}
    return {
        name: value
        for name, value in plain.items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in stored
    }


def documented() -> Iterator[tuple[str, object]]:
    """Everything shown, and the methods of the classes among it."""
    for name, value in SHOWN.items():
        yield name, value
        if inspect.isclass(value):
            yield from ((f"{name}.{method}", function) for method, function in methods(value).items())


def example(thing: object) -> str:
    """The code of a docstring's example."""
    return "".join(one.source for one in DocTestParser().get_examples(thing.__doc__ or ""))


def section(thing: object, title: str) -> list[str] | None:
    """The names that a section of a numpydoc docstring explains; None if there is none."""
    text = inspect.cleandoc(thing.__doc__ or "")
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        return None
    heads = re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", found[1], re.MULTILINE)
    return [name.strip(" *") for head in heads for name in head.split(",")]


def mentions(thing: object, names: list[str]) -> bool:
    """Whether the text of a docstring names all of these."""
    return all(f"``{name}``" in (thing.__doc__ or "") for name in names)


def parameters(thing: object) -> list[str]:
    """The names a function or constructor takes, without the object itself; errors take a message."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return []
    return [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]


def mentioned(annotation: object) -> Iterator[type]:
    """The public classes of attomaton that an annotation names; markup for notebooks is nobody's input."""
    ours = inspect.isclass(annotation) and annotation.__module__.startswith("attomaton.")
    if (
        ours
        and not annotation.__name__.startswith("_")
        and annotation.__module__ != "attomaton.base.printing"
    ):
        yield annotation
    for part in get_args(annotation):
        for one in part if isinstance(part, list) else [part]:
            yield from mentioned(one)


def annotated(kind: type) -> list[object]:
    """A class and its properties: what has annotations beside its methods."""
    values = [value for name, value in vars(kind).items() if not name.startswith("_")]
    computed = [one.fget if isinstance(one, property) else getattr(one, "func", None) for one in values]
    return [kind, *filter(inspect.isfunction, computed)]


ROOMS = [f"attomaton.{path.parent.name}" for path in Path(at.__file__).parent.glob("*/__init__.py")]
DOORS = [importlib.import_module(room) for room in ("attomaton", *ROOMS) if room != "attomaton.cli"]

MOST_NAMES = 200
"""Public names, over all doors."""


def test_reference_and_workbench_show_what_the_doors_name():
    public = {id(getattr(door, name)) for door in DOORS for name in door.__all__}
    assert len({name for door in DOORS for name in door.__all__}) <= MOST_NAMES
    modules = ["errors", "synthetic"]  # their members are shown one by one, or with them
    shown = {directive: id(find(directive)) for directive in [*DIRECTIVES, *WORKBENCH]}
    values = set(shown.values())
    hidden = {name for door in DOORS for name in door.__all__ if id(getattr(door, name)) not in values}
    assert hidden <= {*modules}
    private = [find(name) for name, value in shown.items() if value not in public]
    assert [value for value in private if not inspect.isclass(value)] == []  # results, protocols and errors
    assert not {*DIRECTIVES} & {*WORKBENCH}


def test_what_is_taken_and_returned_is_shown_too():
    known = {id(value) for value in [*SHOWN.values(), *map(find, WORKBENCH)]}
    missing = set()
    for _, thing in documented():
        for part in annotated(thing) if inspect.isclass(thing) else [thing]:
            kinds = [
                kind for hint in get_type_hints(part, localns=LATER).values() for kind in mentioned(hint)
            ]
            missing |= {f"{kind.__module__}.{kind.__name__}" for kind in kinds if id(kind) not in known}
    assert missing == set()


def test_nothing_is_shown_twice():
    assert len(set(DIRECTIVES)) == len(DIRECTIVES)
    assert len({id(value) for value in SHOWN.values()}) == len(SHOWN)


def test_every_public_name_has_an_example():
    public = {id(value) for door in DOORS for value in [getattr(door, name) for name in door.__all__]}
    assert [name for name, thing in SHOWN.items() if id(thing) in public and not example(thing)] == []


def test_every_shown_name_and_method_is_explained():
    assert [name for name, thing in documented() if not thing.__doc__] == []


def test_examples_stand_in_their_section():
    """Outside it they would be set as quoted text."""
    texts = {name: inspect.cleandoc(thing.__doc__ or "") for name, thing in documented()}
    outside = [name for name, text in texts.items() if ">>>" in text.partition("\nExamples\n--------\n")[0]]
    assert outside == []


def test_examples_run():
    left_out = [name for name, thing in documented() if "+SKIP" in (thing.__doc__ or "")]
    assert [name.rpartition(".")[2] for name in left_out] == list(NOT_HERE)


def test_a_section_of_parameters_names_all_of_them_and_no_others():
    told = {name: (section(thing, "Parameters"), thing) for name, thing in documented()}
    assert [
        name for name, (found, one) in told.items() if found is not None and found != parameters(one)
    ] == []


def test_a_section_of_attributes_names_all_fields_and_no_others():
    """Those of the class itself will do: its parent explains the others."""
    wrong = []
    for name, kind in DATACLASSES.items():
        given = [field.name for field in fields(kind) if field.init]
        own = [field for field in given if field in inspect.get_annotations(kind)]
        if section(kind, "Attributes") not in (None, given, own):
            wrong.append(name)
    assert wrong == []


def test_what_has_many_parts_explains_each():
    """A sentence can explain one or two; more have a section, or a text that names each."""
    functions = {name: thing for name, thing in SHOWN.items() if inspect.isfunction(thing)}
    bare = [
        name
        for name, one in functions.items()
        if len(parameters(one)) > 2 and not (section(one, "Parameters") or mentions(one, parameters(one)))
    ]
    made = {name: kind for name, kind in DATACLASSES.items() if "__init__" in vars(kind)}
    bare += [
        name
        for name, kind in made.items()
        if len(parameters(kind)) > 1
        and not (
            section(kind, "Attributes") or section(kind, "Parameters") or mentions(kind, parameters(kind))
        )
    ]
    assert bare == []
