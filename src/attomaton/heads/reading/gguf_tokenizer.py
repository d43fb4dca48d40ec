"""The tokenizer in a GGUF file as a vocabulary: byte-level BPE, or the BPE of SentencePiece by its scores."""

# `read_tokenizer` writes the fields of the file as a tokenizer.json (`_define`): the merges of `_byte_level`
# or `_sentence_piece`, then the tokens that are never split, then the token at the beginning of a text.

from os import PathLike
from typing import Any

import numpy as np

from attomaton.base.errors import UnreadableModel, UnreadableSource, UnsupportedOption, needing
from attomaton.corpora.budgets import VOCABULARY_SIZE, brief
from attomaton.corpora.tokenizers.encoders import running
from attomaton.corpora.tokenizers.huggingface import HUGGING_FACE
from attomaton.corpora.tokenizers.subwords import subword_encoder
from attomaton.corpora.tokenizers.vocabulary import Vocabulary
from attomaton.heads.reading.files import adding_path
from attomaton.heads.reading.gguf import GGUFFile, open_gguf

# Regular expressions of the parts into which Llama 3 and Qwen 2 split a text, from their tokenizer.json.
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PUNCTUATION_AND_SPACE = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

LLAMA_3 = rf"{ENDINGS}|{WORDS}|\p{{N}}{{1,3}}|{PUNCTUATION_AND_SPACE}"
QWEN_2 = rf"{ENDINGS}|{WORDS}|\p{{N}}|{PUNCTUATION_AND_SPACE}"

GPT_2, GPT_2_DIGITS = "as GPT-2", "as GPT-2, digits apart"

# `tokenizer.ggml.pre` → how a text is split before merges: like GPT-2, or by a regular expression.
SPLITS = {
    **dict.fromkeys(("default", "gpt-2", "gpt2", "mpt", "olmo", "phi-2"), GPT_2),
    **dict.fromkeys(("codeshell", "command-r", "refact", "smollm", "starcoder"), GPT_2_DIGITS),
    **dict.fromkeys(("dbrx", "llama-bpe", "llama-v3", "llama3", "smaug-bpe"), LLAMA_3),
    **dict.fromkeys(("deepseek-r1-qwen", "qwen2"), QWEN_2),
}

NORMAL, CONTROL, USER = 1, 3, 4  # types of tokens in ``tokenizer.ggml.token_type``
MOST_MERGES = 1 << 20  # Gemma 3 has 515 thousand
MOST_ADDED = 1 << 16  # control and user tokens; Gemma 3 has 6 thousand
LONGEST_MERGED = 64  # longest token, in characters, whose merges are found from the scores of SentencePiece

OTHERWISE = "give the model's tokenizer.json with --tokenizer, or token ids"


def read_tokenizer(path: str | PathLike[str]) -> Vocabulary:
    file = open_gguf(path)
    with adding_path(file.path, "has no readable tokenizer"):
        try:
            definition = _define(file)
            return Vocabulary(subword_encoder(HUGGING_FACE, definition).tokens(), HUGGING_FACE, definition)
        except (UnreadableModel, UnreadableSource, UnsupportedOption) as error:
            raise UnreadableModel(f"{error}; {OTHERWISE}") from error


def _define(file: GGUFFile) -> str:
    with needing("the tokenizer of a GGUF file"):
        import tokenizers
    library: Any = tokenizers
    tokens = file.texts("tokenizer.ggml.tokens")
    if tokens is None or len(set(tokens)) != len(tokens) or len(tokens) > VOCABULARY_SIZE:
        raise UnreadableModel("tokenizer.ggml.tokens is not a list of different tokens")
    token_types = file.numbers("tokenizer.ggml.token_type")
    if token_types is None or len(token_types) != len(tokens):
        token_types = np.full(len(tokens), NORMAL, np.float64)
    if np.isin(token_types, (CONTROL, USER)).sum() > MOST_ADDED:
        raise UnreadableModel(f"more than {MOST_ADDED:,} of its tokens are control or user tokens")
    model = file.fields.get("tokenizer.ggml.model")
    if model == "gpt2":
        tokenizer = _byte_level(library, file, tokens)
    elif model == "llama":
        tokenizer = _sentence_piece(library, file, tokens)
    else:
        raise UnreadableModel(
            f"tokenizer.ggml.model is {brief(repr(model))}; 'gpt2' and 'llama' are supported"
        )
    for added_type in (CONTROL, USER):
        added = [
            library.AddedToken(tokens[index], special=added_type == CONTROL, normalized=False)
            for index in np.flatnonzero(token_types == added_type).tolist()
        ]
        with running("its tokens cannot be added"):
            tokenizer.add_tokens(added)
    begin: Any = file.fields.get("tokenizer.ggml.bos_token_id")
    has_begin = type(begin) is int and 0 <= begin < len(tokens)  # some converters write -1 for none
    if file.fields.get("tokenizer.ggml.add_bos_token") is True and has_begin:
        tokenizer.post_processor = library.processors.TemplateProcessing(
            single=["begin", "$A"],
            special_tokens=[{"id": "begin", "ids": [begin], "tokens": [tokens[int(begin)]]}],
        )
    return tokenizer.to_str()


def _byte_level(library: Any, file: GGUFFile, tokens: list[str]) -> Any:
    # the BPE of GPT-2 with the merges in the file, after the split that belongs to the model
    merges = file.texts("tokenizer.ggml.merges")
    pre = file.fields.get("tokenizer.ggml.pre", "default")
    if merges is None:
        raise UnreadableModel("tokenizer.ggml.merges is not a list")
    if not isinstance(pre, str) or pre not in SPLITS:
        raise UnreadableModel(f"tokenizer.ggml.pre is {brief(repr(pre))}; supported are {', '.join(SPLITS)}")
    split = SPLITS[pre]
    ids = {token: index for index, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    for pair in pairs:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= ids.keys():
            raise UnreadableModel(f"the merge {brief(' '.join(pair))!r} does not make one token of two")
    with running("its merges and tokens do not fit together"):
        model = library.models.BPE(vocab=ids, merges=pairs, ignore_merges=split == LLAMA_3)
    tokenizer = library.Tokenizer(model)
    pre_tokenizers = library.pre_tokenizers
    splitters = list[Any]()
    if split == GPT_2_DIGITS:
        splitters.append(pre_tokenizers.Digits(individual_digits=True))
    elif split != GPT_2:
        splitters.append(pre_tokenizers.Split(library.Regex(split), behavior="isolated"))
    use_regex = split in (GPT_2, GPT_2_DIGITS)  # the regular expression of GPT-2, built in
    splitters.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splitters)
    if split == QWEN_2:
        tokenizer.normalizer = library.normalizers.NFC()
    tokenizer.decoder = library.decoders.ByteLevel()
    return tokenizer


# The BPE of SentencePiece: a pair of tokens whose joint token has a better score is merged earlier.
def _sentence_piece(library: Any, file: GGUFFile, tokens: list[str]) -> Any:
    scores = file.numbers("tokenizer.ggml.scores")
    if scores is None or len(scores) != len(tokens):
        raise UnreadableModel("tokenizer.ggml.scores does not have a number for each token")
    ids = {token: index for index, token in enumerate(tokens)}
    unknown = file.fields.get("tokenizer.ggml.unknown_token_id", 0)
    merges: list[tuple[str, str]] = []
    # a merge makes each token, from the best score on, out of every pair of tokens that joins to it
    for index in np.argsort(-scores, kind="stable"):
        token = tokens[int(index)]
        pairs = [(token[:cut], token[cut:]) for cut in range(1, min(len(token), LONGEST_MERGED))]
        mergeable = [(left, right) for left, right in pairs if left in ids and right in ids]
        merges += sorted(mergeable, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        if len(merges) > MOST_MERGES:
            raise UnreadableModel(f"its tokens make more than {MOST_MERGES:,} merges")
    unknown_token = tokens[unknown] if type(unknown) is int and 0 <= unknown < len(tokens) else None
    with running("its tokens do not fit together"):
        model = library.models.BPE(
            vocab=ids, merges=merges, unk_token=unknown_token, fuse_unk=True, byte_fallback=True
        )
    tokenizer = library.Tokenizer(model)
    normalizers, decoders = library.normalizers, library.decoders
    normalisation = [normalizers.Replace(" ", "▁")]
    decoding = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if file.fields.get("tokenizer.ggml.add_space_prefix", True):
        normalisation.insert(0, normalizers.Prepend("▁"))
        decoding.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(normalisation)
    tokenizer.decoder = decoders.Sequence(decoding)
    return tokenizer
