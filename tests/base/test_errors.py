"""What is said of packages that a plain install leaves out."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from attomaton.base.errors import EXTRA_PACKAGES, MissingExtra, needing
from attomaton.cli.installation import MODULES

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("module", EXTRA_PACKAGES)
def test_the_extra_that_is_named_brings_the_package(module):
    named = {re.split(r"[\[>]", one)[0] for one in EXTRAS[EXTRA_PACKAGES[module][1]]}
    assert module in {MODULES.get(one, one) for one in named}


@pytest.mark.parametrize("module", EXTRA_PACKAGES)
def test_a_missing_package_is_named(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    package, extra = EXTRA_PACKAGES[module]
    said = re.escape(f"this needs {package}: pip install 'attomaton[{extra}]'")
    with pytest.raises(MissingExtra, match=f"^{said}$"), needing("this"):
        __import__(f"{module}.inner")


def test_other_modules_are_not_ours_to_explain():
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere'") as told, needing("this"):
        import nowhere  # noqa: F401  # pyright: ignore[reportMissingImports]
    assert not isinstance(told.value, MissingExtra)
