"""GGUF files (llama.cpp) as models: their settings, and their weights under the names of ``transformers``."""

# `read_gguf` opens a file with `open_gguf`, makes the settings with `parse_gguf`, and builds the model from
# them and `GGUFWeights`, which renames and unpacks a tensor when it is used.

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel, needing
from attomaton.base.tables import Float64
from attomaton.corpora.budgets import brief, open_regular
from attomaton.heads.parts import Rotary
from attomaton.heads.reading.configs import Settings, parse_settings
from attomaton.heads.reading.families import build_model
from attomaton.heads.reading.files import adding_path
from attomaton.heads.reading.gguf_header import HeaderReader, StoredTensor
from attomaton.heads.reading.values import IN_MEMORY
from attomaton.heads.transformer import Transformer

SAME_NAMES = ("llama", "olmo2", "phi3", "qwen2", "qwen3")
# Supported architectures of GGUF files → their `model_type`.
ARCHITECTURES = {"gemma3": "gemma3_text", **{name: name for name in SAME_NAMES}}

# Key, after the architecture → its name in a configuration.
CONFIG_FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
}

# Other keys that are read, or that matter only for kinds of scaling that are refused.
READ_FIELDS = (
    "expert_count",
    "rope.dimension_count",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
)

# Keys that repeat what the shapes of the tensors say, or that do not change a forward pass.
HARMLESS_FIELDS = ("attention.value_length", "mm.tokens_per_image", "rope.scaling.finetuned", "vocab_size")

# Key → the value that changes nothing.
NEUTRAL_FIELDS: dict[str, Any] = {
    "attention.causal": True,
    "attention.scale": 0.0,
    "embedding_scale": 1.0,
    "expert_used_count": 0,
    "logit_scale": 1.0,
    "residual_scale": 1.0,
    "rope.scale_linear": 1.0,
    "rope.scaling.attn_factor": 1.0,
    "use_parallel_residual": False,
}

MODEL_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}

# Name of a module in a layer → its name in `transformers`.
LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}

# Architecture → names that differ from `LAYER_NAMES`.
OWN_NAMES = {"gemma3": {"ffn_norm": "pre_feedforward_layernorm"}, "phi3": {"ffn_up": "mlp.gate_up_proj"}}

GEMMA_27B_LAYERS = 62  # the number of layers of Gemma 3 27B, and of no smaller Gemma 3


class BlockFormat(NamedTuple):
    """How numbers are stored: their type in the gguf package, and the numbers and bytes in a block."""

    kind: Any
    size: int
    n_bytes: int


@dataclass(frozen=True, eq=False)
class GGUFFile:
    """A GGUF file: ``fields`` and ``tensors`` in its header by name, and ``content`` mapped into memory.

    A field is a number, a text, a list of texts or a numpy array of numbers.
    """

    path: Path
    fields: dict[str, Any] = field(repr=False)
    tensors: dict[str, StoredTensor] = field(repr=False)
    content: Any = field(repr=False)

    @property
    def architecture(self) -> str:
        return str(self.fields.get("general.architecture"))

    def get(self, key: str) -> Any:
        """The field of the architecture with this key, or None."""
        return self.fields.get(f"{self.architecture}.{key}")

    def texts(self, key: str) -> list[str] | None:
        """The field with this key, if it is a list of texts."""
        value = self.fields.get(key)
        return cast("list[str]", value) if isinstance(value, list) else None

    def numbers(self, key: str) -> Float64 | None:
        """The field with this key, if it is an array of numbers."""
        value = self.fields.get(key)
        return cast("Any", value).astype(np.float64) if isinstance(value, np.ndarray) else None

    def blocks_of(self, name: str) -> BlockFormat:
        with needing("a GGUF file"):
            import gguf
        library: Any = gguf
        stored = self.tensors[name]
        try:
            kind = library.GGMLQuantizationType(stored.kind)
            return BlockFormat(kind, *library.GGML_QUANT_SIZES[kind])
        except (KeyError, ValueError) as error:
            raise UnreadableModel(
                f"tensor {brief(name)!r} has the type {stored.kind}, which the installed gguf package does "
                "not know; update the package, or give a file with another quantisation, such as Q8_0"
            ) from error

    def stop(self, name: str) -> int:
        """The byte after the last one of this tensor, whose rows consist of whole blocks."""
        stored = self.tensors[name]
        blocks = self.blocks_of(name)
        stop = stored.start + prod(stored.shape) // blocks.size * blocks.n_bytes
        if stored.shape[-1] % blocks.size or stop > len(self.content):
            raise UnreadableModel(f"tensor {brief(name)!r}, {list(stored.shape)}, does not fit in the file")
        return stop

    def check_layout(self) -> None:
        """Refuse tensors that share bytes: together they could need many times the memory of the file."""
        previous = ""  # the tensor that ends last of those before, and its end
        end = 0
        for name, stored in sorted(self.tensors.items(), key=lambda item: item[1].start):
            stop = self.stop(name)
            if stored.start < min(stop, end):  # an empty tensor shares no byte
                raise UnreadableModel(f"tensors {brief(previous)!r} and {brief(name)!r} overlap")
            if stop > end:
                previous, end = name, stop

    def read(self, name: str) -> Tensor:
        """The numbers of this tensor as float32."""
        stored = self.tensors[name]
        blocks = self.blocks_of(name)
        packed = np.frombuffer(self.content, np.uint8, self.stop(name) - stored.start, stored.start)
        try:
            with needing("a GGUF file"):
                from gguf import quants
            with np.errstate(all="ignore"):  # numbers that are not finite are refused when they are used
                rows = packed.reshape(-1, stored.shape[-1] // blocks.size * blocks.n_bytes)
                numbers = cast("Any", quants).dequantize(rows, blocks.kind)
        except (NotImplementedError, ValueError, AssertionError) as error:
            raise UnreadableModel(
                f"tensor {brief(name)!r} of type {blocks.kind.name} cannot be converted to floats; give a "
                "file with another quantisation, such as Q8_0"
            ) from error
        return torch.as_tensor(np.array(numbers, np.float32).reshape(stored.shape))


def open_gguf(path: str | PathLike[str]) -> GGUFFile:
    """The header of a GGUF file; no tensor is read."""
    file = Path(path)
    with adding_path(file, "is not a readable GGUF file"), open_regular(file) as stream:
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        header = HeaderReader(content)
        magic = header.number("4s")
        version = header.number("I")
        if magic != b"GGUF":
            raise UnreadableModel("it does not begin with GGUF")
        if version not in (2, 3):
            raise UnreadableModel(f"its version is {version}; supported are versions 2 and 3, little-endian")
        n_tensors, n_fields = header.count("tensors"), header.count("keys")
        fields = header.mapping(n_fields, "key", lambda: header.value(header.number("I")))
        tensors = header.mapping(n_tensors, "tensor", header.tensor)
        alignment = fields.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20:
            raise UnreadableModel(
                f"general.alignment is {brief(repr(alignment))}; it must be a number of bytes"
            )
        first = -(-header.position // alignment) * alignment  # tensors begin at the next multiple
        located = {name: replace(tensor, start=tensor.start + first) for name, tensor in tensors.items()}
        return GGUFFile(file, fields, located, content)


def read_gguf(path: str | PathLike[str], *, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model of a GGUF file, with weights in float32: four bytes per number."""
    file = open_gguf(path)
    with adding_path(file.path, "cannot be read as a model"):
        file.check_layout()
        return build_model(parse_gguf(file), GGUFWeights(file), str(path), dtype)


def parse_gguf(file: GGUFFile) -> Settings:
    """The settings of the model in a file; a key that may change the model, and is not read, is refused."""
    kind = file.architecture
    if kind not in ARCHITECTURES:
        raise UnreadableModel(
            f"its architecture is {brief(kind)!r}; supported in GGUF files are {', '.join(ARCHITECTURES)}; "
            f"for another, {IN_MEMORY} (transformers opens GGUF files with gguf_file=)"
        )
    if file.get("expert_count"):
        raise UnreadableModel("it is a mixture of experts, which is not supported")
    config = {name: value for name, value in _make_config(file).items() if value is not None}
    settings = parse_settings(config)
    _check_keys(file)
    return replace(settings, rotary=_adapt_rotary(file, settings))


# The configuration that `transformers` would have for the file; None for missing values.
def _make_config(file: GGUFFile) -> dict[str, Any]:
    architecture = file.architecture
    config: dict[str, Any] = {"model_type": ARCHITECTURES[architecture]}
    config |= {name: file.get(key) for key, name in CONFIG_FIELDS.items()}
    if isinstance(config["num_key_value_heads"], np.ndarray):
        raise UnreadableModel("its layers differ in the number of key heads, which is not supported")
    if config["num_key_value_heads"] is None:
        config["num_key_value_heads"] = config["num_attention_heads"]
    table = file.tensors.get("token_embd.weight")
    config["vocab_size"] = table.shape[0] if table is not None and table.shape else None
    config["tie_word_embeddings"] = "output.weight" not in file.tensors
    config["attention_bias"] = "blk.0.attn_output.bias" in file.tensors
    # llama.cpp's converter writes null as 0, for Phi-4
    if architecture == "phi3" and config["sliding_window"] == 0:
        config["sliding_window"] = None
    scaling = file.get("rope.scaling.type")
    if scaling not in (None, "none"):
        config["rope_scaling"] = {"rope_type": scaling, "factor": file.get("rope.scaling.factor")}
    if "rope_factors_long.weight" in file.tensors:
        config["rope_scaling"] = {"rope_type": "longrope"}
    if architecture == "gemma3":
        config["rope_local_base_freq"] = file.get("rope.freq_base_swa")
        heads, dim = config["num_attention_heads"], config["hidden_size"]
        config["query_pre_attn_scalar"] = config["head_dim"]
        is_27b = config["num_hidden_layers"] == GEMMA_27B_LAYERS
        if is_27b and type(heads) is int and heads > 0 and type(dim) is int:
            config["query_pre_attn_scalar"] = dim // heads  # only this model does so; no key says it
    return config


# RoPE of the settings with what a GGUF file stores elsewhere: how many coordinates of a head are rotated,
# and a factor for each pair of coordinates, by which its angle is divided.
def _adapt_rotary(file: GGUFFile, settings: Settings) -> Rotary | None:
    rotary = settings.rotary
    n_rotated = file.get("rope.dimension_count")
    if rotary is None:
        return None
    if n_rotated is not None:
        if type(n_rotated) is not int or not 0 < n_rotated <= settings.width or n_rotated % 2:
            raise UnreadableModel(
                f"rope.dimension_count is {brief(repr(n_rotated))}; it must be even and at most "
                f"{settings.width}"
            )
        rotary = replace(rotary, width=n_rotated, divisors=rotary.divisors[: n_rotated // 2])
    if "rope_freqs.weight" not in file.tensors:
        return rotary
    factors = file.read("rope_freqs.weight").flatten()  # Llama 3.1 and later
    if len(factors) != rotary.width // 2 or not bool((factors.isfinite() & (factors > 0)).all()):
        raise UnreadableModel(f"tensor 'rope_freqs.weight' does not have {rotary.width // 2} numbers above 0")
    divisors = rotary.divisors or (1.0,) * len(factors)
    products = (divisor * float(factor) for divisor, factor in zip(divisors, factors, strict=True))
    return replace(rotary, divisors=tuple(products))


# Raise an error if a key of the architecture was not read and may change what the model computes.
def _check_keys(file: GGUFFile) -> None:
    read_keys = {*CONFIG_FIELDS, *READ_FIELDS, *HARMLESS_FIELDS}
    if file.architecture == "gemma3":
        read_keys.add("rope.freq_base_swa")
    for key, value in file.fields.items():
        name = key.removeprefix(f"{file.architecture}.")
        # keys without the architecture in front describe the file or the tokenizer
        if name == key or name in read_keys or (name in NEUTRAL_FIELDS and value == NEUTRAL_FIELDS[name]):
            continue
        raise UnreadableModel(
            f"{brief(key)} is {brief(repr(value))}, which is not supported and may change what the model "
            f"computes; {IN_MEMORY}"
        )


class GGUFWeights(Mapping[str, Tensor]):
    """The tensors of a GGUF file under the names and in the form of ``transformers``, read on demand."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._names: dict[str, str] = {}
        for stored in file.tensors:
            if stored == "rope_freqs.weight":
                continue
            name = _rename(file.architecture, stored)
            if name in self._names:
                raise UnreadableModel(
                    f"tensors {brief(self._names[name])!r} and {brief(stored)!r} have the same role"
                )
            self._names[name] = stored

    def __getitem__(self, name: str) -> Tensor:
        stored = self._names[name]
        weight = self._file.read(stored)
        if self._file.architecture == "llama" and (".attn_q." in stored or ".attn_k." in stored):
            key = "attention.head_count_kv" if ".attn_k." in stored else "attention.head_count"
            return _unpermute(weight, self._file.get(key) or self._file.get("attention.head_count"), stored)
        if self._file.architecture == "gemma3" and stored.endswith("norm.weight"):
            return weight - 1  # transformers adds 1
        return weight

    def __contains__(self, name: object) -> bool:
        return name in self._names  # without reading the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _rename(architecture: str, name: str) -> str:
    # "blk.3.attn_q.weight" → "model.layers.3.self_attn.q_proj.weight"
    stem, _, ending = name.rpartition(".")
    if stem in MODEL_NAMES:
        return f"{MODEL_NAMES[stem]}.{ending}"
    block, _, name_in_block = stem.partition(".")
    layer, _, module = name_in_block.partition(".")
    renamed = OWN_NAMES.get(architecture, {}).get(module) or LAYER_NAMES.get(module)
    if block != "blk" or renamed is None:
        raise UnreadableModel(f"tensor {brief(name)!r} does not belong to a model of this architecture")
    return f"model.layers.{layer}.{renamed}.{ending}"


# Undo llama.cpp's permutation for RoPE, which interleaves the halves of each head.
def _unpermute(weight: Tensor, heads: Any, name: str) -> Tensor:
    if type(heads) is not int or heads < 1 or len(weight) % (2 * heads):
        raise UnreadableModel(f"tensor {brief(name)!r} has {len(weight)} rows for {brief(repr(heads))} heads")
    # row 2 i + half of a head → row i of that half
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
