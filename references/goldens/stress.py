"""Texts that tokenizers disagree about, and a small corpus to train tokenizers on."""

import random

PLAIN = "The small dog ran over the old bridge, and nobody saw where it went."

TEXTS = [
    # Nothing, spaces, ends of lines.
    "", " ", "  ", "   ", " " * 17, "\n", "\n\n", "\r\n", "\r", "\t", " \n ", "\n \n", " \t\r\n x", "a\n", "a \n b",
    "a\n\n\nb",
    "a\r\n\r\nb", "a\t\tb", "a  b", "a   b", " a", "a ", " a ", "  a  ", "a\u000bb\u000cc",
    "\u00a0", "a\u00a0b", "a\u00a0 \u00a0b", "a\u2003b\u2009c\u3000d", "a\u202fb", "a\u2028b\u2029c", "a\u0085b",
    "a\u1680b",
    "a\u180eb", "a\u200bb", "a\u2060b", "a\ufeffb", "\ufeffa", "a\u00adb", "a\u200cb\u200dc",
    "a\u001cb\u001db\u001eb\u001fc",
    # Words, contractions, case.
    "a", "A", "Hello", " Hello", "Hello world", PLAIN, PLAIN.upper(), "snake_case camelCase kebab-case __init__",
    "it's we're they've I'm she'll he'd don't", "IT'S WE'RE THEY'VE I'M SHE'LL HE'D DON'T",
    "it\u2019s we\u2019re don\u2019t",
    "it'\u017f THEY'\u017f", "'s 't 're", "''s '' 'x", "o'clock rock'n'roll",
    "\u0130stanbul \u0131\u0131 \u01c4\u01c5\u01c6",
    "Stra\u00dfe STRASSE \u1e9e", "\ufb01n \ufb02y \ufb06op",
    "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 \u03a3\u0399\u03a3\u03a5\u03a6\u039f\u03a3",
    # Numbers.
    "0", "12", "123", "1234", "12345", "1234567890123", "1,234.56", "3.14159", "-1e-5", "0x1F", "1st 2nd", "v2.0.1",
    "\u0661\u0662\u0663", "\u0967\u0968\u0969\u096a", "\u00bd \u00b2 \u2167 \u2460 \u3289", "\uff11\uff12\uff13",
    "a1b2c3", "1a 2b", "2026-11-30T12:34:56Z",
    # Composed and decomposed.
    "caf\u00e9", "cafe\u0301", "\u00c5ngstr\u00f6m", "A\u030angstro\u0308m", "CAF\u00c9 caf\u00e9", "n\u0303 \u00f1",
    "\u1e69 s\u0323\u0307 s\u0307\u0323",
    "\u1100\u1161\u11a8 \uac01", "a\u0300\u0301\u0302\u0303\u0304\u0305", "\u0301a", "\u212b \u2126 \u212a",
    "\u2460\ufe0f", "\u0344 \u0340",
    # Scripts.
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u4eca\u65e5\u306f\u826f\u3044\u5929\u6c17\u3067\u3059\u306d\u3002",
    "\u30ab\u30bf\u30ab\u30ca \uff76\uff80\uff76\uff85", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u202eabc\u202c \u200fx", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0915\u094d\u0937 \u0915\u094d\u200d\u0937", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
    "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0", "\u1797\u17b6\u179f\u17b6\u1781\u17d2\u1798\u17c2\u179a",
    "\u1208\u1275\u12ee\u1335\u12eb",
    "mixed \u4e2d\u6587and\u65e5\u672c\u8a9ewords \u0438 \u0441\u043b\u043e\u0432\u0430123",
    "\U00020000\U0002a6df \u9fa6\u9fff", "\u3400 \uf900",
    # Letters and digits that came with Unicode 14 to 17: tables of character classes differ in age.
    "\u1c89\u1c8a x\ua7cb\ua7cdy", "\U0002ebf0\U00031350", "\U000105c0\U000105c9 \U00010d4a",
    "\U0001e5f1\U0001e5f2 5\U0001ccf35",
    "\U00016ea0\U00016ebb \ua7ce", "\U00011de0\U00011de1 7", "\U000323b0 \U00010940",
    # Emoji.
    "\U0001f600", "x\U0001f600y", "\U0001f600\U0001f601\U0001f602",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f44d\U0001f3fd",
    "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\u2764\ufe0f \u2764",
    "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\U0001f9d1\U0001f3fe\u200d\U0001f680 lands", "\U0001fae8\U0001fae9",
    # Punctuation and symbols.
    "!", "?!", "...", "\u2026", "!!!???", "a,b;c:d", "(a)[b]{c}<d>", "\u00abguillemets\u00bb \u201equotes\u201c",
    "\u2014 \u2013 -", "$5 \u20ac6 \u00a37 \u00a58", "50% \u00b13 \u2260 \u221e",
    "a/b\\c|d", "#tag @name", "&amp; &lt;", "~`^_=+*", "\u2200x\u2203y: x\u2208\u211d \u2227 y\u2264x\u00b2",
    "\u25a0\u25cf\u2605", "\u3001\u3002\uff01\uff1f",
    # Code, addresses.
    "def f(x):\n    return x**2  # square\n", "if (a != b) {\n\tc += 1;\n}\r\n", "    indented\n        more\n",
    "\tif x:\n\t\tpass",
    "https://example.org/a/b?c=d&e=%20f#g", "user.name+tag@example.co.uk", "C:\\Users\\x\\file.txt",
    "/usr/lib/x86_64-linux-gnu",
    "<html><body class=\"x\">&nbsp;</body></html>", "{\"key\": [1, 2.5, null], \"k2\": \"v\"}",
    "SELECT * FROM t WHERE a='b';", "x=1;y=2;;z",
    # Long.
    "a" * 101, "ab" * 55, "z" * 120, "\u4e2d" * 30, "1" * 40, "=" * 80, "-" * 33 + "\n" + "." * 41,
    "Donau" + "dampfschiff" * 12, " x" * 60,
    # Control characters and what is no text.
    "\u0000", "a\u0000b", "\u0001\u0002\u0007\u0008\u001b[31mred\u001b[0m", "\u007f", "\u0080\u009f", "\ufffd",
    "a\ufffd\ufffdb", "\ufffe \uffff", "\U0010ffff",
    "\ue000 \uf8ff", "\U000f0000", "\ufdd0", "\u00ff\u00fe\u0100",
    # Text that spells special tokens, whole and nearly.
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endoftext|",
    "<|ENDOFTEXT|>", "<|im_start|>user\nhi<|im_end|>\n",
    "<s>", "</s>", "<s>a</s>", " <s> a </s> ", "<S>", "<unk>", "<pad> x", "a <mask> b", "a<mask>b", "[CLS] a [SEP]",
    "[MASK] [UNK] [PAD]", "[ CLS ]", "<|begin_of_text|>a",
    "<0x41>", "<0x0A>", "\u2581", "\u2581a", "a\u2581b", " \u2581 ", "a  <left>  b", "a  <right>  b",
    "dog dogs hotdog dog.", "\u0120a \u010a",
    "Ignore this </s><s> and go on",
]  # fmt: skip

SENTENCES = [
    PLAIN,
    "A grey cat slept on the warm stone while the rain fell on the garden.",
    "They're sure it's late; we'll go, and I've said so twice. Don't wait!",
    "In 2026 there were 1234 boats, 56 more than the year before (about 4.8 %).",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 2))",
    "Der kleine Hund lief \u00fcber die alte Br\u00fccke. Stra\u00dfe, M\u00fcnchen, \u00c4rger.",
    "Le caf\u00e9 \u00e9tait ferm\u00e9, mais la for\u00eat \u00e9tait \u00e0 deux pas.",
    "\u041c\u0430\u043b\u0435\u043d\u044c\u043a\u0430\u044f \u0441\u043e\u0431\u0430\u043a\u0430 \u0431\u0435\u0436\u0430\u043b\u0430 \u0447\u0435\u0440\u0435\u0437 \u043c\u043e\u0441\u0442.",
    "\u5c0f\u72d7\u8dd1\u8fc7\u4e86\u65e7\u6865\u3002\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
    "\u5c0f\u3055\u306a\u72ac\u304c\u53e4\u3044\u6a4b\u3092\u6e21\u3063\u305f\u3002",
    "\u0627\u0644\u0643\u0644\u0628 \u0627\u0644\u0635\u063a\u064a\u0631 \u0639\u0628\u0631 \u0627\u0644\u062c\u0633\u0631.",
    "\u091b\u094b\u091f\u093e \u0915\u0941\u0924\u094d\u0924\u093e \u092a\u0941\u0932 \u092a\u093e\u0930 \u0915\u0930 \u0917\u092f\u093e\u0964",
    "https://example.org/path?x=1 and mail@example.org",
]


def corpus():
    """The sentences, and others made of their words, so that words are more frequent than sentences."""
    generator = random.Random(1)
    words = [word for sentence in SENTENCES for word in sentence.split()]
    return SENTENCES * 3 + [" ".join(generator.choices(words, k=12)) for _ in range(300)]


CORPUS = corpus()
