"""The reference shows every public name, each with an example that runs and with its parameters explained.

That the examples run is the doctests' business: pytest collects those of all of ``src``.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from doctest import DocTestParser
from pathlib import Path

import pytest

import attomaton as at

NOT_HERE = {"SparkEngine": "needs Java and a session; tests/engines/test_spark.py runs it"}
"""Examples that the doctests leave out, and why."""

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")


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


SHOWN = {
    name: value
    for directive in re.findall(r"^::: (\S+)", PAGE, re.MULTILINE)
    for name, value in members(directive, find(directive))
}
CLASSES = {name: value for name, value in SHOWN.items() if inspect.isclass(value)}


def methods(kind: type) -> dict[str, object]:
    """The public methods that a class defines itself."""
    stored = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    plain = {
        name: getattr(value, "__func__", value) for name, value in vars(kind).items() if name not in stored
    }
    return {name: value for name, value in plain.items() if inspect.isfunction(value) and name[0] != "_"}


def example(thing: object) -> str:
    """The code of a docstring's example."""
    return "".join(one.source for one in DocTestParser().get_examples(thing.__doc__ or ""))


def section(thing: object, title: str) -> list[str] | None:
    """The names that a section of a numpydoc docstring explains; None if there is none."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", inspect.getdoc(thing) or "", re.S | re.M)
    if found is None:
        return None
    heads = re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", found[1], re.MULTILINE)
    return [name.strip(" *") for head in heads for name in head.split(",")]


def parameters(function: object) -> list[str]:
    """The names a function takes, without the object itself; those of errors are nobody's business."""
    if inspect.isclass(function) and issubclass(function, BaseException):
        return []
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def test_every_public_name_is_in_the_reference():
    public = [*at.__all__, *at._LAZY]
    shown = [id(value) for value in SHOWN.values()]
    missing = [
        name for name in public if id(getattr(at, name)) not in shown and f"attomaton.{name}\n" not in PAGE
    ]
    assert missing == []
    assert len(at.__all__) <= 30


def test_nothing_is_shown_twice():
    names = re.findall(r"^::: (\S+)", PAGE, re.MULTILINE)
    twice = [name for name in names if names.count(name) > 1]
    assert twice == []
    assert len({id(value) for value in SHOWN.values()}) == len(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_every_shown_name_has_an_example(name):
    assert example(SHOWN[name])


@pytest.mark.parametrize("name", SHOWN)
def test_examples_run_and_stand_in_their_section(name):
    """Outside its section an example would be set as quoted text."""
    thing = SHOWN[name]
    for one in [thing, *methods(thing).values()] if inspect.isclass(thing) else [thing]:
        text = inspect.getdoc(one) or ""
        assert ">>>" not in text.partition("\nExamples\n--------\n")[0], one.__qualname__
        assert ("+SKIP" in text) == (one.__qualname__ in NOT_HERE), one.__qualname__


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_is_used_in_an_example(name):
    used = example(CLASSES[name])
    unused = [
        method
        for method, function in methods(CLASSES[name]).items()
        if not example(function) and not re.search(rf"(?:\.|def ){method}\(", used)
    ]
    assert unused == []


@pytest.mark.parametrize("name", SHOWN)
def test_a_section_of_parameters_names_all_of_them_and_no_others(name):
    thing = SHOWN[name]
    for function in [thing, *methods(thing).values()] if inspect.isclass(thing) else [thing]:
        told = section(function, "Parameters")
        assert told in (None, parameters(function)), function.__qualname__


@pytest.mark.parametrize("name", [name for name, value in CLASSES.items() if is_dataclass(value)])
def test_a_section_of_attributes_names_all_fields_and_no_others(name):
    given = [field.name for field in fields(CLASSES[name]) if field.init]
    own = [field for field in given if field in inspect.get_annotations(CLASSES[name])]
    assert section(CLASSES[name], "Attributes") in (None, given, own)


def test_what_has_many_parts_explains_each():
    """A sentence can explain one or two; from three parameters or two fields on there is a section."""
    functions = {name: value for name, value in SHOWN.items() if inspect.isfunction(value)}
    bare = [
        name for name, one in functions.items() if len(parameters(one)) > 2 and not section(one, "Parameters")
    ]
    bare += [
        name
        for name, kind in CLASSES.items()
        if is_dataclass(kind)
        and "__init__" in vars(kind)
        and len(parameters(kind)) > 1
        and not (section(kind, "Attributes") or section(kind, "Parameters"))
    ]
    assert bare == []
