"""Small GGUF files of every architecture that is read, written as llama.cpp's converter writes them."""

import json

import gguf
import numpy as np

from attomaton.heads.reading.gguf import ARCHITECTURES, CONFIG_FIELDS, LAYER_NAMES, MODEL_NAMES, OWN_NAMES
from tests.heads import made

TEXTS = ["Once upon a time, there's 1999 girls.", "  two\n\n spaces\t\r\n", "naïve 漢字 o'clock I'LL x**2"]
END = "<|end|>"
ARCHITECTURE_CHANGES = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "gemma3": {"layer_types": ["sliding_attention"] * 2, "num_hidden_layers": 2, "query_pre_attn_scalar": 12},
    "phi3": {},
    "olmo2": {},
}


def learn_tokens(size=61):
    """A small byte-level BPE as ``tokenizers`` learns it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def write(path, kind, original, *, quantised=False, changes=None, tokenizer=None, **extra):
    """A GGUF file of a ``transformers`` model, as llama.cpp's converter writes it."""
    writer = gguf.GGUFWriter(path, kind)
    settings = original.config.to_dict() | (changes or {})
    for key, name in CONFIG_FIELDS.items():
        value = settings.get(name)
        if name == "rope_theta":
            scaling = settings["rope_parameters"]
            value = scaling.get("full_attention", scaling)["rope_theta"]
        if value is not None:
            add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
            add(f"{kind}.{key}", value)
    for name, value in extra.items():
        writer.add_key_value(name.replace("__", "."), *value)
    stems = {name: part for part, name in (LAYER_NAMES | OWN_NAMES.get(kind, {})).items()}
    if kind == "gemma3":
        stems["post_attention_layernorm"] = "post_attention_norm"
    if kind == "olmo2":
        stems["post_attention_layernorm"] = "post_attention_norm"
    if kind not in ("gemma3", "olmo2"):
        stems["post_attention_layernorm"] = "ffn_norm"
    whole = {name: stem for stem, name in MODEL_NAMES.items()}
    for name, tensor in original.state_dict().items():
        stem, _, ending = name.rpartition(".")
        if stem == "lm_head" and original.config.tie_word_embeddings:
            continue
        if stem in whole:
            stored = f"{whole[stem]}.{ending}"
        else:
            _, _, layer, part = stem.split(".", 3)
            stored = f"blk.{layer}.{stems[part]}.{ending}"
        values = tensor.detach().float().numpy()
        if kind == "llama" and part_of(stem) in ("q_proj", "k_proj"):
            heads = original.config.num_attention_heads
            heads = heads if part_of(stem) == "q_proj" else original.config.num_key_value_heads
            values = values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        if kind == "gemma3" and stored.endswith("norm.weight"):
            values = values + 1
        values = np.ascontiguousarray(values)
        if quantised and values.ndim == 2 and values.shape[1] % 32 == 0:
            packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q4_1)
            writer.add_tensor(stored, packed, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
        elif quantised and values.ndim == 2:
            writer.add_tensor(stored, values.astype(np.float16))
        else:
            writer.add_tensor(stored, values)
    if tokenizer is not None:
        add_tokens(writer, tokenizer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def part_of(stem):
    return stem.rpartition(".")[2]


def add_tokens(writer, tokenizer, pre="gpt-2"):
    record = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(record["vocab"], key=record["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == END else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in record["merges"]])


def make(kind):
    return made.make(ARCHITECTURES[kind], **ARCHITECTURE_CHANGES[kind])
