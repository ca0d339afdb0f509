"""Small tokenizers of every model kind, cut as families of models cut text."""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# What GPT-2, Qwen2 and Llama 3 split by.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
# In the manner of DeepSeek's: scripts by range, marks apart.
SCRIPTS = [
    r"\p{N}{1,3}",
    r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|\s+",
]
END = "<|endoftext|>"


def byte_level(corpus, special, pre, normalizer=None, ignore_merges=False, size=500):
    """Byte-level BPE. `special` are its special tokens."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def whole_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def cuts(*pre):
    """No merges, and another id for every byte but the first of a piece: ids show each place where text is cut."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *("##" + byte for byte in alphabet)]
    model = models.BPE({piece: id for id, piece in enumerate(pieces)}, [], continuing_subword_prefix="##")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*pre, whole_bytes()])
    return lambda _corpus: tokenizer


def gpt2(corpus):
    tokenizer = byte_level(corpus, [END], pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def prefix_space(corpus):
    """RoBERTa's way: a space before the text, `<s>` and `</s>` around it, a mask that takes the space before it."""
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    tokenizer = byte_level(corpus, special, pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def digits(corpus):
    pre = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return byte_level(corpus, [END, "<|im_start|>", "<|im_end|>"], pre_tokenizers.Sequence(pre))


def qwen2(corpus):
    pre = pre_tokenizers.Sequence([split(QWEN2), whole_bytes()])
    return byte_level(corpus, [END, "<|im_start|>", "<|im_end|>"], pre, normalizers.NFC())


def llama3(corpus):
    begin = "<|begin_of_text|>"
    pre = pre_tokenizers.Sequence([split(LLAMA3), whole_bytes()])
    tokenizer = byte_level(corpus, [begin, "<|end_of_text|>"], pre, ignore_merges=True)
    template = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1", special_tokens=[(begin, 0)]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def scripts(corpus):
    pre = pre_tokenizers.Sequence([*map(split, SCRIPTS), whole_bytes()])
    return byte_level(corpus, ["<s>", "</s>"], pre)


def sentence_piece(corpus, normalizer=None, pre=None):
    """BPE over characters, bytes for those it does not know."""
    special = ["<unk>", "<s>", "</s>"]
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special + pieces, limit_alphabet=90, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return only_special(tokenizer, special)


def only_special(tokenizer, special):
    """The byte pieces are vocabulary, not special tokens: the trainer knows no other way to reserve them."""
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] in special]
    return Tokenizer.from_str(json.dumps(file))


def llama2(corpus):
    spaces = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    return sentence_piece(corpus, normalizers.Sequence(spaces))


def metaspace(scheme, cut):
    return lambda corpus: sentence_piece(corpus, pre=pre_tokenizers.Metaspace(prepend_scheme=scheme, split=cut))


def word_piece(corpus, lowercase):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        corpus, trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def unigram(corpus):
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r" {2,}"), " "), normalizers.Strip(left=False, right=True)]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.train_from_iterator(
        corpus,
        trainers.UnigramTrainer(vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


def words(corpus):
    """Whole words, and added tokens with every flag."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    plain = [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    tokenizer.normalizer = normalizers.Sequence(plain)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.Whitespace()])
    trainer = trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<unk>", "<s>"], show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens([
        AddedToken("<left>", lstrip=True, normalized=False),
        AddedToken("<right>", rstrip=True, normalized=False),
        AddedToken("dog", single_word=True),
        AddedToken("CAF\u00c9", normalized=True),
    ])
    return tokenizer


KINDS = {
    "bpe-gpt2": gpt2,
    "bpe-prefix-space": prefix_space,
    "bpe-digits": digits,
    "bpe-qwen2": qwen2,
    "bpe-llama3": llama3,
    "bpe-scripts": scripts,
    "bpe-llama2": llama2,
    "bpe-metaspace-first": metaspace("first", False),
    "bpe-metaspace-always": metaspace("always", True),
    "bpe-metaspace-never": metaspace("never", False),
    "wordpiece-uncased": lambda corpus: word_piece(corpus, True),
    "wordpiece-cased": lambda corpus: word_piece(corpus, False),
    "unigram": unigram,
    "wordlevel": words,
    "cuts-gpt2": cuts(split(GPT2)),
    "cuts-qwen2": cuts(split(QWEN2)),
    "cuts-llama3": cuts(split(LLAMA3)),
    "cuts-scripts": cuts(*map(split, SCRIPTS)),
    "cuts-words": cuts(pre_tokenizers.Whitespace()),
    "cuts-bert": cuts(pre_tokenizers.BertPreTokenizer()),
    "cuts-unicode": cuts(pre_tokenizers.UnicodeScripts(), pre_tokenizers.Digits(), pre_tokenizers.Punctuation()),
    "cuts-metaspace": cuts(pre_tokenizers.Metaspace(prepend_scheme="first")),
}
