"""The language model of one layer: causal, and PyTorch's own encoder layer."""

import pytest
import torch

from attomaton.base.errors import UnsupportedOption
from attomaton_experiments.scansnap_model.language_model import LanguageLayer, LanguageModel, encode_positions

SMALL = LanguageModel(n_tokens=11, width=8, hidden=6, dropout=0.5, window=7)


def drawn(model=SMALL):
    torch.manual_seed(0)
    return LanguageLayer(model)


def test_future_tokens_do_not_change_the_past():
    layer = drawn().eval()
    tokens = torch.randint(11, (4, 7))
    changed = tokens.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    logits, attention = layer(tokens)
    others, _ = layer(changed)
    torch.testing.assert_close(logits[:, :4], others[:, :4])
    assert not torch.allclose(logits[:, 4:], others[:, 4:])
    assert torch.equal(attention, attention.tril())
    torch.testing.assert_close(attention.sum(2), torch.ones(4, 7))


def test_the_layer_is_that_of_pytorch():
    layer = drawn().eval()
    theirs = torch.nn.TransformerEncoderLayer(8, 1, 6, 0.5, batch_first=True).eval()
    own = {name: value for name, value in layer.state_dict().items() if name in theirs.state_dict()}
    theirs.load_state_dict(own)
    inputs = torch.randn(3, 7, 8)
    torch.testing.assert_close(layer.encode(inputs)[0], theirs(inputs, src_mask=layer.mask))


def test_without_positions_the_order_of_earlier_tokens_does_not_matter():
    tokens = torch.tensor([[1, 2, 3, 4], [3, 1, 2, 4]])
    for positions in (True, False):
        model = LanguageModel(n_tokens=11, width=8, hidden=6, window=7, positions=positions)
        one, other = drawn(model).eval()(tokens)[0][:, -1]
        assert torch.allclose(one, other, atol=1e-6) is not positions


def test_positions_are_sines_and_cosines():
    codes = encode_positions(5, 6)
    torch.testing.assert_close(codes[:, 0], torch.arange(5).sin())
    torch.testing.assert_close(codes[:, 3], (torch.arange(5) * 10_000 ** (-2 / 6)).cos())
    with pytest.raises(UnsupportedOption, match="even"):
        LanguageModel(n_tokens=3, width=5)
