"""``transformers`` models that run their own code: what is seen of them, and that they stay as they were."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnreadableModel, UnsupportedOption
from attomaton.heads import (
    AuditSettings,
    Head,
    HeadAudit,
    audit_heads,
    open_model,
    useful_rungs,
)
from attomaton.heads.audit.causal import replace_heads
from attomaton.heads.audit.ceiling import OwnScores
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.replacing import LabelledContexts
from attomaton.heads.live import LiveModel
from attomaton.heads.reading.families import read_object
from tests.heads import architectures, made
from tests.heads.made import make_opt

RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, 61, length) for length in (30, 7, 25, 31, 9, *[28] * 20)]
HOW = AuditSettings(window=6, per_document=5, longest=20, length=8)
IDS = RNG.integers(3, 61, (3, 12))
ARCHITECTURES = [
    *(
        "gemma2",
        "gemma4_text",
        "qwen3_moe",
        "gpt_oss",
        "olmo3",
        "opt",
        "deepseek_v3",
        "jamba",
        "zamba2",
        "phi",
    ),
    *("gpt_neo", "gptj", "codegen", "falcon", "falcon:alibi", "bloom", "mpt", "xglm", "openai-gpt", "jetmoe"),
]
SIZES = {"window": 6, "per_document": 5, "longest": 20}


def outputs(model):
    with torch.no_grad():
        return model(torch.as_tensor(IDS)).logits


def state(model):
    """All that a run may change in a model."""
    configs = [module.config for module in model.modules() if hasattr(module, "config")]
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    usual = [config._attn_implementation for config in configs]
    modes = torch.is_grad_enabled(), torch._C._len_torch_function_stack()
    return usual, [module.training for module in model.modules()], hooks, modes


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rows_logits_and_edits_are_those_of_the_model(name):
    model = architectures.make(name)
    live = LiveModel.of(model)
    ids = torch.as_tensor(IDS)
    with torch.no_grad():
        eager = model(ids, output_attentions=True, use_cache=False, return_dict=True)
    theirs = [pattern for pattern in eager.attentions if pattern is not None]
    assert len(theirs) == live.shape.n_layers
    seen = live.watch(IDS, edit_patterns=lambda _, pattern: pattern, edit_outputs=lambda _, outputs: outputs)
    assert torch.equal(seen.logits, eager.logits)
    positions, rows = torch.tensor([[3, 11], [2, 4], [10, 10]]), {}

    def write(layer, number, seen):
        rows[layer, number] = seen

    live.record(IDS, positions, write, random=[live.rotate(seed=0)])
    for layer, pattern in enumerate(theirs):
        torch.testing.assert_close(seen.patterns[layer], pattern, atol=1e-5, rtol=0)
        index = positions[:, None, :, None]
        torch.testing.assert_close(rows[layer, 0], torch.take_along_dim(pattern, index, 2), atol=1e-5, rtol=0)
    uniform = live.watch(IDS, edit_patterns=lambda _, pattern: torch.ones_like(pattern).tril() / 12)
    assert (uniform.logits - eager.logits).abs().max() > 1e-3


@pytest.mark.parametrize("name", made.CONFIGS)
def test_two_passes_agree(name):
    """attomaton's forward pass and the model's code: rows, random heads, scores of inputs, causal value."""
    model = made.make(name)
    live, reference = open_model(model), read_object(model)
    drawn = [one.rotate(seed=3) for one in (live, reference)]
    assert not drawn[0].shares_rotations
    for ours, theirs in [(live, reference), drawn]:
        for own, other in zip(ours.watch(IDS).patterns, theirs.watch(IDS).patterns, strict=True):
            torch.testing.assert_close(own, other, atol=1e-5, rtol=0)
    recorded = [
        record(one, DOCUMENTS, random=[beside], reads_of=range(15), **SIZES)
        for one, beside in zip((live, reference), drawn, strict=True)
    ]
    for own, other in zip(*([part.rows, *part.random] for part in recorded), strict=True):
        np.testing.assert_allclose(own.attention, other.attention, atol=1e-5)
    np.testing.assert_allclose(recorded[0].reads.means, recorded[1].reads.means, atol=1e-4)
    contexts = LabelledContexts.of(DOCUMENTS[9:], length=8, n_tokens=live.shape.n_tokens)
    causal = [replace_heads(one, contexts) for one in (live, reference)]
    np.testing.assert_allclose(causal[0].pattern.value, causal[1].pattern.value, atol=1e-6)
    np.testing.assert_allclose(causal[0].ablation.value, causal[1].ablation.value, atol=1e-6)
    if name.split()[0] in (
        "gpt_neo",
        "phi3",
        "gemma3_text",
    ):  # beyond windows, keys have the least score of a row
        return
    scores = [OwnScores(one, recorded[1].reads).score(recorded[1].rows) for one in (*drawn, live, reference)]
    scores = [score - score[:, :, :6].mean(-1, keepdims=True) for score in scores]
    for own, other in (scores[:2], scores[2:]):
        np.testing.assert_allclose(own, other, atol=2e-4)


def test_heads_that_share_keys_read_them_through_one_rotation(monkeypatch):
    """Although one of them hardly depends on some units: their rotation is that of attomaton's own pass."""
    monkeypatch.setattr("attomaton.heads.units.COUPLED", 0.9)  # then nearly every unit is read by one head
    model = architectures.make("llama")
    live, reference = LiveModel.of(model), read_object(model)
    keys = [group for group in live._layouts[0] if group.keys]
    assert [(group.heads, len(group.units)) for group in keys] == [((0, 1), 8), ((2, 3), 8)]
    drawn = [one.rotate(seed=3).watch(IDS).patterns for one in (live, reference)]
    for own, other in zip(*drawn, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "zero"), [("gemma3_text", -1.0), ("qwen3", 0.0)])
def test_units_without_a_gain_are_rotated_with_their_head(name, zero):
    """Their norm scales the other units, so that the draws are those of attomaton's own pass."""
    model = made.make(name)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_norm.weight[:3] = zero
            layer.self_attn.k_norm.weight[2:5] = zero
    drawn = [one.rotate(seed=3).watch(IDS).patterns for one in (LiveModel.of(model), read_object(model))]
    for own, other in zip(*drawn, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["llama", "bloom"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_model_is_left_as_it_was(name, attention):
    attention = "eager" if name == "bloom" else attention
    model = architectures.make(name, attention=attention).eval()
    model.lm_head.train()
    before, logits = state(model), outputs(model)
    live = open_model(model)
    audit_heads(live, DOCUMENTS, causal="top", settings=HOW)
    assert state(model) == before
    assert torch.equal(outputs(model), logits)
    for error in (KeyboardInterrupt, ValueError):

        def fail(*_, error=error):
            raise error

        with pytest.raises(error):
            live.record(IDS, torch.zeros(3, 1, dtype=torch.int64), fail)
        with pytest.raises(error):
            live.record(IDS, torch.zeros(3, 1, dtype=torch.int64), print, reads=fail)
        with pytest.raises(error):
            live.watch(IDS, edit_outputs=fail)
        assert state(model) == before
        assert torch.equal(outputs(model), logits)


@pytest.mark.parametrize("name", ["llama", "bloom"])
def test_a_model_interrupted_at_random_moments_is_left_as_it_was(name):
    """Ctrl-C at 20 moments of the runs of an audit: rows, random heads, edits, scores of inputs."""
    model = architectures.make(name, attention="sdpa" if name == "llama" else "eager")
    live, handlers = LiveModel.of(model), [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    drawn, before, logits = live.rotate(seed=0), state(model), outputs(model)
    positions, texts = torch.tensor([[3, 11], [2, 4], [10, 10]]), np.arange(2)
    keys, inputs = np.array([[3, 1, 0, 0], [2, 4, 0, 0]]), np.zeros((6, 32), np.float32)

    def run():
        live.record(IDS, positions, lambda *_: None, random=[drawn])
        live.watch(IDS, edit_patterns=lambda _, pattern: pattern)
        drawn.score_inputs(1, inputs, keys, np.array([[0, 1, 3, 3], [0, 1, 2, 2]]), texts)

    seconds = []
    for _ in range(4):  # the first run compiles
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    whole, stopped = min(seconds), 0  # other processes may have slowed some runs
    for moment in np.random.default_rng(0).uniform(0, whole, 20):
        timer = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            run()
            timer.join()
        except KeyboardInterrupt:
            stopped += 1
        assert state(model) == before
        assert torch.equal(outputs(model), logits)
    assert stopped >= 10
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.parametrize("name", ["llama", "falcon"])
def test_threads_share_a_model(name):
    """Two audits of a model give equal answers, and whoever else runs it meanwhile is told."""
    model = architectures.make(name)
    live, expected, seen, refused = LiveModel.of(model), LiveModel.of(model).watch(IDS), [], []

    def meanwhile():
        seen.append(live.watch(IDS))

    def run():
        try:
            outputs(model)
        except UnsupportedOption as error:
            refused.append(str(error))

    def edit(layer, pattern):
        if layer == 0:
            threads.extend(threading.Thread(target=one) for one in (meanwhile, run))
            for thread in threads:
                thread.start()
            threads[1].join()
        return pattern

    threads = []
    seen.append(live.watch(IDS, edit_patterns=edit))
    threads[0].join()
    assert all(torch.equal(one.logits, expected.logits) for one in seen)
    assert refused == [
        "this model is being audited in another thread; run it after the audit, or audit a copy"
    ]


def test_half_precision_is_run_as_it_is():
    model = architectures.make("llama").to(torch.bfloat16)
    live = open_model(model)
    ids = torch.as_tensor(IDS)
    seen, whole = live.watch(IDS), LiveModel.of(architectures.make("llama")).watch(IDS)
    with torch.no_grad():
        assert torch.equal(seen.logits, model(ids).logits.float())
    assert seen.patterns[0].dtype == torch.float32
    for half, pattern in zip(seen.patterns, whole.patterns, strict=True):
        assert (half - pattern).abs().max() < 0.1
    assert audit_heads(live, DOCUMENTS, settings=HOW).seeking.judged.count(None) == 0


class Quantised(torch.nn.Module):
    """A linear map whose weight is stored as integers."""

    def __init__(self, linear):
        super().__init__()
        self.scale = linear.weight.abs().max().item() / 127
        self.register_buffer("weight", (linear.weight.detach() / self.scale).round().to(torch.int8))

    def forward(self, read):
        return read @ (self.weight.to(read.dtype) * self.scale).T


def test_quantised_weights_are_not_rotated_and_it_is_said(tmp_path):
    model = architectures.make("llama")
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(layer.self_attn, name, Quantised(getattr(layer.self_attn, name)))
    audit = audit_heads(model, DOCUMENTS, settings=HOW, random=3)
    assert audit.null == "inputs"
    for words in (
        "cannot be changed (quantised",
        "random=8",
        "3 draws of random heads that share one rotation",
    ):
        assert words in str(audit)
    assert {null.n_draws for null in (*audit.null_types, audit.seeking.null) if len(null.values)} == {3}
    same = HeadAudit.load(audit.save(tmp_path / "heads.parquet"))
    assert same.table().equals(audit.table())


def test_random_heads_that_cannot_be_made_are_left_out():
    audit = audit_heads(architectures.make("diffllama"), DOCUMENTS, settings=HOW)
    assert audit.seeking.judged == [None] * len(audit.heads)
    assert "attends more than once when it is called" in audit.left_out


@pytest.mark.parametrize(
    "name",
    [
        "gemma2",
        "gemma3_text",
        "qwen3_moe",
        "mixtral",
        "gpt_oss",
        "deepseek_v3",
        "olmo3",
        "falcon",
        "bloom",
        "jamba",
        "opt",
    ],
)
def test_the_whole_audit_ends(name):
    audit = audit_heads(architectures.make(name, attention="eager"), DOCUMENTS, causal="top", settings=HOW)
    assert audit.left_out == ""
    assert np.isfinite(audit.causal.pattern.value).all()
    assert None not in audit.seeking.judged
    assert (audit.withheld.max() > 0.05) == (name == "gpt_oss")


def test_the_whole_audit_of_a_model_that_is_not_read():
    live = open_model(make_opt(attn_implementation="sdpa"))
    assert (live.shape.heads[-1], live.shape.n_tokens, live.shape.longest) == (Head(1, 3), 61, 64)
    audit = audit_heads(live, DOCUMENTS, causal="all", settings=HOW)
    assert (audit.left_out, audit.causal is None, None in audit.seeking.judged) == ("", False, False)
    with pytest.raises(UnsupportedOption, match=r"the weights of OPT.*model_type is 'opt'"):
        live.score_tokens(Head(0, 0), IDS[0], IDS[0])
    with pytest.raises(UnsupportedOption, match="what a head writes"):
        live.write_logits(Head(0, 0), IDS[0])


def test_utility_is_that_of_the_other_pass():
    model = made.make("llama")
    rungs = lambda texts: useful_rungs(texts, n_tokens=61, window=4)  # noqa: E731
    audits = [
        audit_heads(one, DOCUMENTS, rungs=rungs, random=0, settings=HOW)
        for one in (model, read_object(model))
    ]
    np.testing.assert_allclose(audits[0].ladder.shares, audits[1].ladder.shares, atol=1e-4)


def test_a_model_without_logits_names_the_class_that_has_them():
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=30, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    with pytest.raises(UnreadableModel, match=r"LlamaModel has no logits; .* AutoModelForCausalLM"):
        open_model(transformers.LlamaModel(config))


def test_models_that_are_not_causal_are_refused():
    import transformers

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
    with pytest.raises(UnreadableModel, match=r"Mamba.*another model if it has no attention"):
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
    import transformers

    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    with pytest.raises(UnreadableModel, match=r"Model .*; give a causal model that reads input_ids"):
        open_model(make(transformers, small))


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
    assert isinstance(open_model(traced), LiveModel)
    assert traced.dispatched


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch
def test_a_compiled_or_parallel_model_is_the_module_inside():
    model = made.make("qwen3")
    for wrapped in (torch.compile(model), torch.nn.DataParallel(model)):
        assert open_model(wrapped).model is model


def test_a_model_without_weights_is_refused():
    for model in (made.make("qwen3"), make_opt()):
        with pytest.raises(UnsupportedOption, match="device meta"):
            open_model(model.to("meta"))


def test_a_type_asks_for_attomatons_own_pass():
    model = made.make("llama")
    assert open_model(model, dtype="float64").dtype == torch.float64
    held = SimpleNamespace(config=model.config, state_dict=model.state_dict)  # no code to run
    assert torch.equal(open_model(held).watch(IDS).logits, read_object(model).watch(IDS).logits)
