"""Settings and fixtures for all tests."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "laws",
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("gate laws", settings.get_profile("laws"), max_examples=50)
settings.register_profile("gate", settings.get_profile("laws"), max_examples=25)
settings.register_profile(
    "random", settings.get_profile("laws"), max_examples=400, derandomize=False, print_blob=True
)
"""Other examples each time, for `.ci/run --full`: ``pytest tests/laws --hypothesis-profile=random``."""


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Properties are tried on 200 examples where slow tests run; in the gate laws on 50, others on 25."""
    if isinstance(collector, pytest.Module) and not collector.config.getoption("--hypothesis-profile"):
        in_gate = "gate laws" if collector.path.is_relative_to(LAWS) else "gate"
        settings.load_profile(in_gate if "not slow" in collector.config.option.markexpr else "laws")


if "ATTOMATON_NATIVE" in os.environ:  # another build of the kernels, such as one that checks every index
    checked = importlib.util.spec_from_file_location("attomaton.base.native", os.environ["ATTOMATON_NATIVE"])
    assert checked is not None
    assert checked.loader is not None
    sys.modules[checked.name] = importlib.util.module_from_spec(checked)
    checked.loader.exec_module(sys.modules[checked.name])

ROOT = Path(__file__).parents[1]
LAWS = ROOT / "tests" / "laws"
DATA = Path(os.environ.get("ATTOMATON_DATA", ROOT / "../shared/data"))


@pytest.fixture(scope="session")
def wikitext() -> Path:
    folder = DATA / "wikitext-2"
    if not folder.is_dir():
        pytest.skip("no real corpora here: set ATTOMATON_DATA (listed in tests/SKIPS.md)")
    return folder


@pytest.fixture(scope="session")
def tinystories() -> Path:
    """A thousand stories, a JSON list of texts."""
    file = DATA / "tinystories" / "tinystories_1000.json"
    if not file.is_file():
        pytest.skip("no real corpora here: set ATTOMATON_DATA (listed in tests/SKIPS.md)")
    return file


@pytest.fixture(scope="session")
def clickstream() -> Path:
    """Visits to a site, one user a line, no page twice."""
    file = DATA / "clickstream" / "msnbc_dedup_first_visit.txt"
    if not file.is_file():
        pytest.skip("no real corpora here: set ATTOMATON_DATA (listed in tests/SKIPS.md)")
    return file


@pytest.fixture(scope="session")
def stories_model() -> Path:
    """A Llama of 260,032 parameters that writes stories; its tokenizer tok512.bin lies beside ``hf``."""
    folder = DATA / "models" / "stories260K"
    if not folder.is_dir():
        pytest.skip("no real models here: set ATTOMATON_DATA (listed in tests/SKIPS.md)")
    return folder


@pytest.fixture(scope="session")
def sort_model() -> Path:
    """A minGPT that sorts six letters of three."""
    file = DATA / "models" / "gpt-nano-sort" / "gpt-nano-sort-model.json"
    if not file.is_file():
        pytest.skip("no real models here: set ATTOMATON_DATA (listed in tests/SKIPS.md)")
    return file
