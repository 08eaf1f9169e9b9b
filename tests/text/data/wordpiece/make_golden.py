"""Writes `vocab.txt` and `golden.json`: what the peers make of some texts.

    python make_golden.py PATH_OF_THE_ORIGINALS/tokenization.py

needs transformers 4, whose `BertTokenizer` is the last in Python, and what the
original imports: tensorflow, tensorflow_hub, sentencepiece, six.
"""

import collections
import importlib.util
import json
import pathlib
import random
import sys

from transformers.models.bert.tokenization_bert import (
    BasicTokenizer,
    BertTokenizer,
)

FOLDER = pathlib.Path(__file__).parent
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [
    "",
    " \t\n",
    "The unaffable man's running, wasn't he?",
    "北京是中国的首都，人口2154万。",
    "ALBERT在GLUE上的得分是89.4%！",
    "Café déjà vu naïve Ångström ĐĐ ŁŁ",
    "Cafe\u0301 a\u0323\u0307 e\u200d\u0301 \u0301x",
    "Straße ẞ ﬁn İstanbul ıŞIK",
    "ΟΔΟΣ ΑΣ'Σ Σ Σ\u0345 ΑΣ\u00adΑ",
    "한국어 \u1112\u1161\u11ab 日本語カタカナ ﾊﾝｶｸ ＡＢＣ！",
    "👍🏽 🇩🇪 a🤔b 𝔘𝔫𝔦",
    "a\x00b\ufffdc\x0bd\x7fe\u200bf\u00adg\ufeffh",
    "a\x1cb\x85c\u2028d\u2029e\u3000f\xa0g",
    "\ue000x\uffffy\U000e0041z\u0378",
    "x^2 + $3 = `code` ~ <b> «q» „z“ …",
    "豈更車 𠀀𪛖 〇々",
    "நொ কো \u302e\U0001d165\U0001d16d \u0f73",
    "[MASK] x[MASK]y [mask] [CLS][SEP] [UNK] [PAD] [ MASK ] [unused1]",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "é" * 100,
    "e\u0301" * 101,
    "a" * 200,
    "a" * 201,
    "中" * 201,
]
ALPHABET = (
    "aAbBeEzZ ,.019-'\"(£é\u0301\u0323´¨…ﬁßİıΣσςΑα\u0345ʰ:\u00ad\u200d"
    "한국\u1112\u1161\u11ab日本ＡＢ，\u0651🤔𩸽\ufffd \t\n\x00\x1c\x85\xa0"
    "\u2028\u3000\ufeff\uf900\u302e\U0001d165\ue000\uffff"
)
HUGGING_FACE = [
    {},
    {"do_lower_case": False},
    {"strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"tokenize_chinese_chars": False},
]
ORIGINAL = [{}, {"do_lower_case": False}]


def main():
    generator = random.Random(0)
    texts = TEXTS + [
        "".join(generator.choices(ALPHABET, k=generator.randrange(1, 16)))
        for _ in range(100)
    ]
    path = FOLDER / "vocab.txt"
    path.write_text("".join(f"{p}\n" for p in vocabulary(texts)), "utf-8")

    golden = []
    for options in HUGGING_FACE:
        tokenizer = BertTokenizer(str(path), **options)
        pieces = [" ".join(tokenizer.tokenize(text)) for text in texts]
        golden.append({"rules": "hugging_face", **options, "pieces": pieces})
    original = load_original(sys.argv[1])
    for options in ORIGINAL:
        tokenizer = original.FullTokenizer(str(path), **options)
        pieces = [" ".join(tokenizer.tokenize(text)) for text in texts]
        golden.append({"rules": "google", **options, "pieces": pieces})
    described = {"texts": texts, "tokenizers": golden}
    (FOLDER / "golden.json").write_text(json.dumps(described, indent=0) + "\n")


def vocabulary(texts):
    """Returns special pieces and what is frequent in the texts' words."""
    counts = collections.Counter()
    for lower in (True, False):
        basic = BasicTokenizer(do_lower_case=lower, strip_accents=lower)
        for word in {w for text in texts for w in basic.tokenize(text)}:
            for start in range(len(word)):
                mark = "##" if start else ""
                for end in range(start + 1, min(start + 5, len(word)) + 1):
                    counts[mark + word[start:end]] += 1
    # The rarest single characters stay unknown.
    frequent = [piece for piece, _ in counts.most_common(900)]
    pieces = ["[PAD]", *(f"[unused{i}]" for i in range(1, 9)), *SPECIAL]
    return list(dict.fromkeys([*pieces, *frequent]))


def load_original(path):
    spec = importlib.util.spec_from_file_location("tokenization", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tokenization"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
