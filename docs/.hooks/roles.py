"""Cross-references in docstrings (``:func:`~package.name```) as links; mkdocstrings cannot read them.

A name that the page does not show becomes code without a link.
"""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|attr):`(?:([^`<]+) <)?(~?)([\w.]+)>?`")


class Roles(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Walk all modules once they are loaded, so that names can be found."""
        visit(pkg)


def visit(thing: griffe.Object) -> None:
    """Rewrite the docstring of a thing and of all in it."""
    if thing.docstring is not None:
        thing.docstring.value = ROLE.sub(lambda match: link(match, thing), thing.docstring.value)
    for member in thing.members.values():
        if isinstance(member, griffe.Object):
            visit(member)


def link(match: "re.Match[str]", thing: griffe.Object) -> str:
    """The HTML that mkdocs-autorefs turns into a link, where it knows the target."""
    title, short, name = match.groups()
    shown = title or (name.rpartition(".")[2] if short else name.lstrip("."))
    return f'<autoref optional identifier="{find(name, thing)}"><code>{shown}</code></autoref>'


def find(name: str, thing: griffe.Object) -> str:
    """The whole path of a name as it is written inside a thing."""
    if name.startswith(("attomaton.", "attomaton_experiments.")):
        return name
    if name.startswith("."):
        return f"{thing.module.parent.path}{name}" if thing.module.parent else name
    first, _, rest = name.partition(".")
    try:
        return ".".join(filter(None, [thing.resolve(first), rest]))
    except griffe.NameResolutionError:
        return name
