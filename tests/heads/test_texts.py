"""Corpora as token ids of a model."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.corpora import Reading
from attomaton.heads.audit.contexts import show_head
from attomaton.heads.audit.documents import list_documents
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.texts import read_for
from tests.heads import made
from tests.heads.made_gguf import learn_tokens

TEXTS = [f"Once upon a time there's {n} girl{'s' * (n % 3)} and a dog." for n in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    made.write(place / "model", "llama", vocab_size=300)
    learn_tokens(300).save(str(place / "model" / "tokenizer.json"))
    (place / "texts.txt").write_text("\n".join(TEXTS))
    (place / "texts.json").write_text(json.dumps(TEXTS))
    return place


def ids_of(read):
    return [np.asarray(ids).tolist() for ids in list_documents(read)]


def test_texts_in_every_form_have_the_ids_of_the_models_tokenizer(folder):
    wanted = [learn_tokens(300).encode(text, add_special_tokens=False).ids for text in TEXTS]
    model = folder / "model"
    tokenizer = learn_tokens(300)
    fast = SimpleNamespace(backend_tokenizer=tokenizer)  # as tokenizers of transformers have it
    lens = SimpleNamespace(tokenizer=fast)
    for read in (
        read_for([model], TEXTS),
        read_for([str(model)], tuple(TEXTS)),
        read_for([model], folder / "texts.json"),
        read_for([model], folder / "texts.txt", reading=Reading(documents="line")),
        read_for([object()], TEXTS, tokenizer=model / "tokenizer.json"),
        read_for([object()], TEXTS, tokenizer=fast),
        read_for([object()], iter(TEXTS), tokenizer=tokenizer),
        read_for([lens], TEXTS),
        read_for([object()], at.read_corpus(TEXTS, tokenizer=str(model / "tokenizer.json"))),
        read_for([object()], wanted),
        read_for([object()], map(np.array, wanted)),
    ):
        assert ids_of(read) == wanted


def test_no_more_is_read_than_a_limit_needs(folder, tmp_path):
    model, texts = folder / "model", TEXTS[:3]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({"text": text}), encoding="utf-8")
    (tmp_path / "3.jsonl").write_text("{", encoding="utf-8")  # would be refused
    whole = ids_of(read_for([model], texts))
    for corpus in (tmp_path, TEXTS, [*texts, 3]):
        assert ids_of(read_for([model], corpus, limit=3)) == whole
    with pytest.raises(UnreadableSource, match=r"3\.jsonl"):
        read_for([model], tmp_path)


def test_text_without_a_tokenizer_is_refused():
    with pytest.raises(UnsupportedOption, match="nothing says which id"):
        read_for([object()], TEXTS)
    with pytest.raises(UnsupportedOption, match="is no fast tokenizer"):
        read_for([object()], TEXTS, tokenizer=object())


def test_a_path_and_texts_are_all_that_an_audit_needs(folder):
    how = AuditSettings(window=4)
    audit = at.audit_heads(folder / "model", TEXTS, settings=how)
    ids = ids_of(read_for([folder / "model"], TEXTS))
    same = audit_heads(str(folder / "model"), ids, settings=how)
    assert same.first.tolist() == audit.first.tolist()
    assert same.seeking.table().equals(audit.seeking.table())
    assert set(audit.ladder.names) - set(same.ladder.names) == {"delimiters", "sentence start"}
    shown = show_head(folder / "model", TEXTS, "L1H1", settings=how, examples=1)
    assert "Ġ" in str(shown)


def test_texts_begin_and_ids_do_not(tmp_path):
    from tokenizers.processors import TemplateProcessing

    tokenizer = learn_tokens(300)
    special = [("<|end|>", tokenizer.token_to_id("<|end|>"))]
    tokenizer.post_processor = TemplateProcessing(single="<|end|> $A <|end|>", special_tokens=special)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    wanted = [tokenizer.encode(text).ids[:-1] for text in TEXTS]
    assert wanted[0][0] == special[0][1]
    for read in (
        read_for([object()], TEXTS, tokenizer=tokenizer),
        read_for([tmp_path], TEXTS),
        read_for([tmp_path], wanted),
    ):
        assert ids_of(read) == wanted
    plain = at.read_corpus(TEXTS, tokenizer=str(tmp_path / "tokenizer.json"))
    assert ids_of(plain) == [ids[1:] for ids in wanted]
    assert ids_of(read_for([tmp_path], plain)) == [ids[1:] for ids in wanted]


def test_frames_datasets_and_records_are_read_as_corpora(folder):
    import pandas as pd
    import pyarrow as pa

    wanted = ids_of(read_for([folder / "model"], TEXTS))
    for given in (
        pd.DataFrame({"text": TEXTS}),
        pa.table({"text": TEXTS}),
        [{"text": text} for text in TEXTS],
    ):
        assert ids_of(read_for([folder / "model"], given)) == wanted
    with pytest.raises(UnreadableSource, match="document 0 is NoneType"):
        read_for([folder / "model"], [None, *TEXTS])


def test_a_head_is_shown_on_texts_by_the_tokenizer_of_a_model_in_memory():
    how = AuditSettings(window=4, per_document=2)
    model = made.make("llama", vocab_size=300)
    shown = show_head(model, TEXTS, "L1H1", tokenizer=learn_tokens(300), settings=how, examples=1)
    assert shown.vocabulary is not None
