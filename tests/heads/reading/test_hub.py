"""The hub, played by a stand-in: one commit is fetched, and of it only what is needed."""

import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from attomaton.base.errors import MissingExtra, UnreadableModel
from attomaton.heads.opening import open_model
from tests.heads import made

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one model; ``asked`` keeps what was asked of it."""
    made.write(tmp_path / "there", "gpt2")
    (tmp_path / "there" / "run_me.py").write_text("raise SystemExit")
    (tmp_path / "there" / "pytorch_model.bin").write_bytes(b"pickle")
    asked = []

    def download(repository, name, *, revision):
        asked.append((repository, name, revision))
        target = tmp_path / "cache" / name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "there" / name, target)
        return str(target)

    class Api:
        def model_info(self, repository, *, revision):
            asked.append((repository, "info", revision))
            return SimpleNamespace(sha=COMMIT if revision == "main" else None)

        def list_repo_files(self, *_, **__):
            return [one.name for one in (tmp_path / "there").iterdir()]

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Api, hf_hub_download=download))
    return SimpleNamespace(asked=asked, there=tmp_path / "there")


def test_a_commit_is_fetched_as_it_is(hub):
    model = open_model("owner/name", revision=COMMIT)
    assert model.name == f"owner/name@{COMMIT}"
    assert hub.asked == [("owner/name", one, COMMIT) for one in ("config.json", "model.safetensors")]
    assert model.watch(np.array([[1, 2]])).logits.shape == (1, 2, 61)


def test_a_branch_is_settled_first_and_named(hub):
    assert open_model("owner/name", revision="main").name == f"owner/name@{COMMIT}"
    assert {revision for _, name, revision in hub.asked if name != "info"} == {COMMIT}


def test_a_revision_without_a_commit_is_refused(hub):
    with pytest.raises(UnreadableModel, match="has no commit"):
        open_model("owner/name", revision="v0")


def test_a_model_that_is_not_supported_is_not_fetched(hub):
    (hub.there / "config.json").write_text('{"model_type": "bloom"}')
    with pytest.raises(UnreadableModel, match="supported are"):
        open_model("owner/name", revision=COMMIT)
    assert [name for _, name, _ in hub.asked] == ["config.json"]


def test_what_the_library_raises_is_told(hub):
    (hub.there / "model.safetensors").unlink()
    with pytest.raises(UnreadableModel, match=r"cannot be downloaded.*check the spelling"):
        open_model("owner/name", revision=COMMIT)


def test_ids_that_are_none_are_refused_before_anything_is_asked(hub):
    for wrong in ("a/b/c", "../x", "a b/c", "https://x/y", ""):
        with pytest.raises(UnreadableModel):
            open_model(wrong, revision=COMMIT)
    with pytest.raises(UnreadableModel, match="for a model on the hub, a commit, branch"):
        open_model("owner/name")
    assert hub.asked == []


def test_the_extra_is_named_where_the_library_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises((MissingExtra, ModuleNotFoundError)):
        open_model("owner/name", revision=COMMIT)
