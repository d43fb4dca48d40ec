"""Identifiers are domain nouns, and a name at the top of a module occurs in one file of the library."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "src" / "attomaton"

GENERIC = frozenset(
    [
        "place",
        "places",
        "one",
        "ones",
        "own",
        "part",
        "parts",
        "told",
        "asked",
        "found",
        "held",
        "kept",
        "given",
        "made",
        "said",
        "there",
        "beside",
        "along",
        "across",
        "behind",
        "other",
        "others",
        "some",
        "mine",
        "turned",
        "piece",
        "thing",
        "what",
        "way",
        "rest",
        "known",
        "seen",
    ]
)
"""Words that name nothing: write position, path, row, index, offset, or the thing itself."""

FOREIGN = {"ones", "parts"}  # attributes of NumPy, PyTorch and pathlib

MOST: dict[str, float] = {}
"""Room → the largest share of generic identifiers, 0.001 by default. Lower these, never raise them."""

REPEATED = {
    **dict.fromkeys(
        ("begin", "diff", "learn", "train", "verify"), "a command and the function that it calls"
    ),
    "linalg": "the module of SciPy, whose type stubs leave some types unknown",
}
"""Names that two files may share, and what they name."""


def identifiers_of(tree):
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Attribute(attr=name) if name not in FOREIGN:
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name


def words_of(path):
    """The identifiers of a file of Python or C++."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return list(identifiers_of(ast.parse(text)))
    code = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', " ", text, flags=re.DOTALL)
    return re.findall(r"[A-Za-z_]\w*", code)


def is_generic(name):
    return name.strip("_").lower() in GENERIC


def test_generic_identifiers_become_fewer():
    names = defaultdict(list)
    for path in LIBRARY.rglob("*.py"):
        names[path.relative_to(LIBRARY).parts[0]] += words_of(path)
    for room, pattern in (("native", "*.[ch]pp"), ("src/attomaton_experiments", "*.py")):
        for path in (ROOT / room).rglob(pattern):
            names[Path(room).name] += words_of(path)
    shares = {room: sum(map(is_generic, words)) / len(words) for room, words in names.items()}
    worst = {room: Counter(filter(is_generic, names[room])).most_common(5) for room in names}
    wrong = {room: worst[room] for room, share in shares.items() if share > MOST.get(room, 0.001)}
    assert wrong == {}, "write position, path, row, index, offset, or the thing itself"


def top_names(path):
    """Functions, classes and constants at the top of a module, except private ones."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                text = getattr(name, "id", getattr(name, "name", None))
                if isinstance(text, str) and not text.startswith("_"):
                    yield text


def test_a_name_at_the_top_of_a_module_occurs_once():
    files = defaultdict(set)
    for path in LIBRARY.rglob("*.py"):
        if path.name != "__init__.py":
            for name in top_names(path):
                files[name].add(path.relative_to(LIBRARY).as_posix())
    repeated = {name: sorted(where) for name, where in files.items() if len(where) > 1}
    assert repeated.keys() == REPEATED.keys(), repeated
