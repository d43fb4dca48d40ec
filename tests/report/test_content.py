"""What does not fit into a page is shortened, and nothing else."""

import json

import attomaton as at
from attomaton.report.page import content
from attomaton.report.page.content import choose_queries, gather_page
from attomaton.report.page.packing import Packer


def test_only_a_token_that_does_not_fit_is_shown_by_its_id(monkeypatch):
    monkeypatch.setattr(content, "MOST_TOKEN_BYTES", 60)
    automaton = at.learn([["bee", "x" * 100, "cat"] * 4], window=3, tokenizer="word")
    packer = Packer(automaton)
    page = json.loads(gather_page(automaton, packer, choose_queries(packer, room=10**6), {}))
    names = [automaton.name(token) for token in range(automaton.n_tokens)]
    assert "x" * 100 in names[:-1]
    expected = [f"#{token}" if len(name) == 100 else name for token, name in enumerate(names)]
    assert page["tokens"]["texts"] == expected
