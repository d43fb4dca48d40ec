"""Models that show attention patterns only: they are audited, without what needs weights."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attomaton.base.errors import InvalidSamples, UnreadableModel, UnsupportedOption
from attomaton.heads import Audit, Head, PatternModel, audit_heads, open_model, useful_rungs
from attomaton.heads.transformer import Transformer
from tests.heads import made

RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, 61, length) for length in (30, 7, 25, 31, 9, *[28] * 20)]
HOW = Audit(window=6, per_document=5, longest=20, length=8)
OPT = {"hidden_size": 32, "ffn_dim": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 61}


def make_opt(**changes):
    """A model of a family that is not read here."""
    transformers = pytest.importorskip("transformers")
    config = transformers.OPTConfig(
        **OPT, max_position_embeddings=64, word_embed_proj_dim=32, pad_token_id=1, **changes
    )
    torch.manual_seed(0)
    model = transformers.OPTForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def attentions(model, ids):
    with torch.no_grad():
        return model.eval()(torch.as_tensor(ids), output_attentions=True).attentions


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_a_model_of_another_family_is_watched_as_it_runs(kind):
    model = make_opt(attn_implementation=kind)
    model.train()
    ids = RNG.integers(0, 61, (3, 12))
    opened = open_model(model)
    assert isinstance(opened, PatternModel)
    assert opened.shape.heads[-1] == Head(1, 3)
    assert (opened.shape.n_tokens, opened.shape.longest) == (61, 64)
    seen = opened.watch(ids)
    assert model.config._attn_implementation == kind
    assert model.training
    model.set_attn_implementation("eager")
    for ours, theirs in zip(seen.patterns, attentions(model, ids), strict=True):
        assert torch.equal(ours, theirs)
    assert seen.logits.shape == (3, 12, 61)


def test_the_audit_climbs_and_leaves_out_what_needs_weights():
    audit = audit_heads(make_opt(), DOCUMENTS, causal="all", how=HOW)
    assert audit.seeking.judged == [None] * 8
    assert audit.table()["seeks"].null_count == 8
    assert audit.causal is None
    for words in ("model_type is 'opt'", "Causal value is left out", "weights"):
        assert words in str(audit)
    assert np.isfinite(audit.ladder.shares).all()


def test_patterns_alone_give_the_ladder_of_the_weights():
    original = made.make("llama")
    ours, theirs = (
        audit_heads(model, DOCUMENTS, how=HOW, random=0)
        for model in (open_model(original), PatternModel.from_transformers(original))
    )
    np.testing.assert_allclose(ours.ladder.shares, theirs.ladder.shares, atol=1e-5)
    np.testing.assert_allclose(ours.seeking.excess.value, theirs.seeking.excess.value, atol=1e-6)


def test_an_iterator_is_read_in_the_order_of_the_documents():
    original = make_opt(attn_implementation="eager")
    items = (attentions(original, document[None]) for document in DOCUMENTS)
    ours = PatternModel.from_iterator(items, n_tokens=61)
    audits = [audit_heads(model, DOCUMENTS, causal="all", how=HOW) for model in (ours, original)]
    np.testing.assert_allclose(audits[0].ladder.shares, audits[1].ladder.shares, atol=1e-5)
    np.testing.assert_array_equal(audits[0].first, audits[1].first)
    with pytest.raises(InvalidSamples, match=r"end after .* documents.*it is read once"):
        audit_heads(ours, DOCUMENTS, how=HOW)


def uniform(ids, heads=2):
    length = ids.shape[1]
    flat = torch.ones(length, length).tril()
    return [(flat / flat.sum(1, keepdim=True)).expand(len(ids), heads, length, length)] * 2


def test_a_function_is_a_model():
    model = PatternModel.from_function(uniform, n_tokens=61)
    audit = audit_heads(model, DOCUMENTS, how=HOW)
    assert len(audit.heads) == 4
    assert np.allclose(audit.ladder.shares, 0)
    assert model.watch(DOCUMENTS[0][None]).logits.isnan().all()


WRONG = {
    "looks ahead": (lambda ids: [torch.full((len(ids), 1, 8, 8), 1 / 8)], "later tokens"),
    "scores": (lambda _: [torch.eye(8)[None, None] * 3], "no probabilities"),
    "less than zero": (lambda _: [torch.eye(8)[None, None] * -1], "no probabilities"),
    "no number": (lambda _: [torch.eye(8)[None, None] * torch.nan], "not finite"),
    "short": (lambda _: [torch.eye(4)[None, None]], r"shape \(1, 1, 4, 4\) and not"),
    "flat": (lambda _: [torch.eye(8)], "yields no attention"),
    "nothing": (lambda _: [], "yields no attention.*eager"),
    "raises": (lambda _: 1 / 0, "cannot be run on token ids .division"),
    "heads": (lambda _: [torch.eye(8).expand(1, n, 8, 8) for n in (1, 2)], "the same number of heads"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_attention_is_refused(what):
    function, words = WRONG[what]
    with pytest.raises(UnreadableModel, match=words):
        PatternModel.from_function(function, n_tokens=9)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "there are no patterns"),
        ([3], "is a int; give arrays"),
        ([()], "has no layers.*eager"),
        ([torch.eye(8)], "layers of shape"),
        ([torch.eye(5).expand(1, 1, 5, 5)] * 30, "document 0 cover 5 tokens.*longest=5"),
    ],
)
def test_an_iterator_of_something_else_is_refused(items, words):
    with pytest.raises(InvalidSamples, match=words):
        audit_heads(PatternModel.from_iterator(iter(items), n_tokens=61), DOCUMENTS, how=HOW)


def test_what_needs_weights_says_so():
    model, ids = open_model(make_opt()), DOCUMENTS[0][None]
    with pytest.raises(UnsupportedOption, match=r"edits.*model_type is 'opt'.*leave that out"):
        model.watch(ids, edit_patterns=lambda _, pattern: pattern)
    with pytest.raises(UnsupportedOption, match="token scores need the weights"):
        model.score_tokens(Head(0, 0), ids[0], ids[0])
    with pytest.raises(UnsupportedOption, match="writes need"):
        model.write_logits(Head(0, 0), ids[0])
    with pytest.raises(UnsupportedOption, match="utility"):
        audit_heads(model, DOCUMENTS, rungs=lambda texts: useful_rungs(texts, n_tokens=61), how=HOW)


def test_models_that_are_not_causal_are_refused():
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**small, vocab_size=31))
    with pytest.raises(UnreadableModel, match="attends to later tokens; give a causal model"):
        open_model(bert)
    t5 = transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=31, d_model=16, num_layers=1, num_heads=2, d_ff=16, d_kv=8)
    )
    with pytest.raises(UnreadableModel, match="encoder and a decoder"):
        open_model(t5)
    mamba = transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=31, hidden_size=16, num_hidden_layers=1, state_size=4)
    )
    with pytest.raises(UnreadableModel, match="Mamba"):
        open_model(mamba)


@pytest.mark.parametrize(
    "make",
    [
        lambda t, small: t.ViTModel(t.ViTConfig(**small, image_size=8, patch_size=4)),
        lambda t, small: t.CLIPModel(t.CLIPConfig(text_config=small, vision_config=small)),
    ],
    ids=["ViT", "CLIP"],
)
def test_models_of_images_are_refused(make):
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    with pytest.raises(UnreadableModel, match=r"Model .*; give a causal model that takes input_ids"):
        open_model(make(transformers, small))


def test_advice_to_a_model_in_memory_can_be_followed():
    model, ids = open_model(make_opt()), DOCUMENTS[0][None]
    with pytest.raises(UnsupportedOption, match=r"model_type is 'opt'.*of the type .*llama") as refused:
        model.score_tokens(Head(0, 0), ids[0], ids[0])
    left_out = audit_heads(model, DOCUMENTS, random=1, how=HOW).left_out
    assert "model_type is 'opt'); give your own models with random heads" in left_out
    for words in (str(refused.value), left_out):
        assert "load it with transformers" not in words


def test_a_model_that_cannot_be_switched_says_what_to_do():
    model = make_opt(attn_implementation="sdpa")
    stuck = SimpleNamespace(
        config=model.config, get_input_embeddings=model.get_input_embeddings, state_dict=model.state_dict
    )
    with pytest.raises(UnreadableModel, match=r"loaded with 'sdpa'.*attn_implementation='eager'"):
        PatternModel.from_transformers(stuck)


class Traced:
    """Like an nnsight model: the module inside, and loaded when it is needed."""

    def __init__(self, module, name):
        self.__dict__[name] = module
        self.dispatched = False

    def trace(self):
        raise AssertionError

    def dispatch(self):
        self.dispatched = True


@pytest.mark.parametrize("name", ["_module", "_model"])
def test_an_nnsight_model_is_the_module_inside(name):
    traced = Traced(made.make("qwen3"), name)
    assert isinstance(open_model(traced), Transformer)
    assert traced.dispatched
    assert isinstance(open_model(Traced(make_opt(), name)), PatternModel)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch
def test_a_compiled_or_parallel_model_is_the_module_inside():
    model = made.make("qwen3")
    for wrapped in (torch.compile(model), torch.nn.DataParallel(model)):
        assert isinstance(open_model(wrapped), Transformer)


def test_a_model_without_weights_is_refused():
    for model in (made.make("qwen3"), make_opt()):
        with pytest.raises(UnsupportedOption, match="device meta"):
            open_model(model.to("meta"))


class Hooked(torch.nn.Module):
    """Like a HookedTransformer with a setting that is not read."""

    cfg = SimpleNamespace(n_layers=2, n_heads=2, d_vocab=61, n_ctx=32, device="cpu", use_qk_norm=True)

    def run_with_cache(self, ids, names_filter):
        names = ["blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern", "blocks.0.hook_resid_pre"]
        layers = dict(zip(names, [*uniform(ids), None], strict=True))
        return torch.zeros(*ids.shape, 61), {name: layers[name] for name in names if names_filter(name)}


def test_a_lens_model_with_other_settings_is_watched_as_it_runs():
    model = open_model(Hooked())
    assert isinstance(model, PatternModel)
    assert "use_qk_norm" in model.reason
    assert len(audit_heads(model, DOCUMENTS, how=HOW).heads) == 4
