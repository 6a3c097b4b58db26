#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the fixtures of the tokenizer tests: hard strings and their reference ids.

    pip install tokenizers sentencepiece gguf
    tools/make_tokenizer_fixtures.py --model models/SmolLM2-135M-Instruct.Q4_1.gguf

Writes into tests/data/tokenizer/:
  strings.json            more than 2,000 strings
  smollm2.ids.json        ids of the default model's tokenizer, rebuilt from the GGUF's vocabulary and
                          merges with single digits and byte-level splitting
  NAME.tokenizer.json     small tokenizers trained on the text below, one per construct family
  NAME.ids.json           their ids and decoded texts
  NAME.model, NAME.vocab.json   SentencePiece models, as a file and as GGUF's arrays
An ids file holds, for the strings numbered start, start+step, ...: "plain" (control tokens in the
text are found), "untrusted" (they are not; only where that differs), "decoded" (null where equal to
the string) and "special" (ids with BOS and EOS of the first string).
"""
import argparse
import io
import json
import random
import unicodedata
from pathlib import Path

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

HERE = Path(__file__).resolve().parent.parent
OUT = HERE / "tests" / "data" / "tokenizer"

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>",
           "<filename>", "<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>",
           "<jupyter_start>", "<jupyter_text>", "<jupyter_code>", "<jupyter_output>",
           "<jupyter_script>", "<empty_output>", "<s>", "</s>", "<unk>", "<|eot_id|>"]
USER = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<mask>", "WORD", "\n\n\n"]

WORDS = ["café", "naïve", "Ångström", "Žluťoučký", "kůň", "façade", "über", "Łódź", "señor",
         "İstanbul", "ığdır", "tiếng", "Việt", "ﬁnance", "ﬀ", "Ⅷ", "½", "ſtreet", "K", "Ω", "é́̂"]
SCRIPTS = ["中文字符", "日本語テスト", "ひらがなとカタカナ", "한국어 문장", "العربية من اليمين", "עִבְרִית שלום",
           "हिन्दी में", "ภาษาไทย", "русский язык", "Ελληνικά", "ქართული", "አማርኛ", "தமிழ்", "ﾊﾝｶｸ",
           "ＦＵＬＬ　ｗｉｄｔｈ", "𝒜𝓁𝓅𝒽𝒶", "𐍈", "🂡", "‮right‬ to left"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "❤️", "☺", "🧑🏿‍🚀", "🤦🏼‍♂️", "©️", "🫶"]
SPACES = [" ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u1680", "\u2003", "\u2009", "\u200b", "\u2028",
          "\u2029", "\u202f", "\u205f", "\u3000", "\u180e", "\ufeff", "\x0b", "\x0c", "\x85", "\x1c",
          "\x1f"]
DIGITS = ["0", "7", "42", "123", "2024", "31415", "1000000", "12345678901234567890", "3.14159",
          "1,234,567.89", "0x7F", "1e-9", "٣٤٥", "१२३", "²³", "①②", "Ⅳ", "𝟙𝟚", "x1y22z333", "5G"]
CODE = ["for (int i = 0; i < n; ++i) {\n\treturn x[i] += 1;\n}\n", "def f(a, b=None):\n    pass\n",
        "SELECT * FROM t WHERE id='1';", "{\"key\": [1, 2, {\"a\": null}]}\n", "<div class=\"a\">b</div>",
        "a->b::c<d>(e)...", "https://example.org/a?b=c&d=%20e#f", "me@example.org", "C:\\dir\\file.txt",
        "#!/bin/sh\nset -e\n\n\n  exit 0", "$x^2 + \\frac{1}{2}$", "foo_bar__baz", "camelCaseHTTPServer"]
CONTRACTIONS = ["I'm", "you're", "we've", "he'll", "she'd", "it's", "don't", "IT'S", "WE'VE", "'S",
                "o'clock", "'tis", "rock'n'roll", "’s", "it’s", "'ſ", "'LL", "'reX", "''s", "a'  b"]
ENGLISH = """The little river runs past the mill and under the old stone bridge. In spring the water is
high and brown; in summer children build dams of stones and mud. "Where does it go?" asked the
youngest. "To the sea," said her brother, who had never seen the sea but was sure of it. They walked
on for 12 miles, counted 347 sheep, and were home again by 6:30. Nobody had noticed that they'd been
away, because everyone was busy: the baker was baking, the smith was hammering, and the teacher wasn't
teaching, since it was Sunday. Numbers such as 1, 22, 333 and 4444 stood on the doors of the houses.
def add(first, second):
    return first + second  # the sum of both
"""


def mixed(rng, parts):
    return "".join(rng.choice(parts) for _ in range(rng.randint(2, 9)))


def random_characters(rng):
    """Characters that every Unicode table in use knows (assigned in Unicode 3.2)."""
    out = []
    while len(out) < rng.randint(1, 12):
        c = chr(rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x3000),
                            rng.randrange(0x3000, 0xA000), rng.randrange(0xAC00, 0xD7A4)]))
        if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs", "Co"):
            out.append(c)
    return "".join(out)


def make_strings():
    rng = random.Random(20240601)
    strings = ["", " ", "a", "Hello, world!", " Hello", "Hello ", "  two  spaces  "]
    for word in WORDS:
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            strings += [unicodedata.normalize(form, word), " x" + unicodedata.normalize(form, word) + "y"]
    strings += SCRIPTS + EMOJI + DIGITS + CODE + CONTRACTIONS
    strings += [f"{a} {b}" for a in SCRIPTS for b in rng.sample(SCRIPTS + EMOJI, 4)]
    strings += [e * n for e in EMOJI for n in (2, 5)] + [f"a{e}b {e} c" for e in EMOJI]
    strings += [f"{a}{d}{b}" for d in DIGITS for a, b in (("", " "), ("n=", ";"), (" ", "a"), ("-", "%"))]
    for space in SPACES:
        for n in (1, 2, 3, 5):
            run = space * n
            strings += [run, "a" + run + "b", run + "b", "a" + run, "." + run + "1"]
    strings += ["".join(rng.choice(SPACES) for _ in range(rng.randint(2, 8))) + rng.choice(["", "x", "."])
                for _ in range(150)]
    for code in list(range(32)) + list(range(127, 160)):
        strings += [chr(code), f"a{chr(code)}b", f"{chr(code)}{chr(code)} {chr(code)}"]
    for token in SPECIAL + USER:
        strings += [token, f"a{token}b", f" {token} ", f"{token}{token}", f"1{token}2", f"é{token}中",
                    f"{token}\n", f"x  {token}  y", token[:-1], token[1:], f"_{token}_", f"{token}'s"]
    strings += [f"{c}" * n for c in "aA.!=-_ \n0" for n in (7, 49, 130)]
    strings += [f"{a} {b}{c}" for a, b, c in zip(CONTRACTIONS, CODE * 2, DIGITS)]
    strings += [random_characters(rng) for _ in range(300)]
    parts = WORDS + SCRIPTS + EMOJI + SPACES * 3 + DIGITS + CONTRACTIONS + SPECIAL[:3] + USER + \
        ENGLISH.split() + [" "] * 30 + list(".,;:!?()[]{}'\"-–—…")
    strings += [mixed(rng, parts) for _ in range(800)]
    sentences = ENGLISH.replace("\n", " ").split(". ")
    strings += sentences + [s.upper() for s in sentences]
    return list(dict.fromkeys(strings))


def training_text(strings):
    return [ENGLISH] * 20 + ["".join(CODE)] * 5 + strings


def dump(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (OUT / name).write_text(text + "\n", encoding="utf-8")


def reference(tokenizer, strings, start, step):
    chosen = strings[start::step]
    plain, untrusted, decoded = [], [], []
    for text in chosen:
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        raw = tokenizer.encode(text, add_special_tokens=False).ids
        back = tokenizer.decode(ids, skip_special_tokens=False)
        plain.append(ids)
        untrusted.append(None if raw == ids else raw)
        decoded.append(None if back == text else back)
    tokenizer.encode_special_tokens = False
    return {"start": start, "step": step, "plain": plain, "untrusted": untrusted, "decoded": decoded,
            "special": tokenizer.encode("Hello, world!").ids}


def smollm2(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([t for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def bytes_split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_trainer(size=640):
    return trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                               show_progress=False)


def llama3_like(text):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = bytes_split(LLAMA3)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text, byte_trainer())
    t.add_special_tokens(["<s>", "</s>", "<|eot_id|>", "<|endoftext|>"])
    bos = t.token_to_id("<s>")
    t.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False),
         processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", bos)])])
    return t


def qwen2_like(text):
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = bytes_split(QWEN2)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text, byte_trainer())
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken(s, normalized=False) for s in ("<think>", "</think>", "<tool_call>", "</tool_call>")])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def gpt2_like(text):
    """Prefix space, and added tokens with every flag."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text, byte_trainer(520))
    t.add_special_tokens(["<|endoftext|>", AddedToken("<mask>", lstrip=True), AddedToken("<s>", rstrip=True)])
    t.add_tokens([AddedToken("WORD", single_word=True), AddedToken("<think>", lstrip=True, rstrip=True),
                  AddedToken("\n\n\n"), AddedToken("</think>", rstrip=True, normalized=False)])
    eos = t.token_to_id("<|endoftext|>")
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", eos), ("<s>", t.token_to_id("<s>")))
    return t


def tekken_like(text):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = bytes_split(TEKKEN)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text, byte_trainer(520))
    t.add_special_tokens(["<s>", "</s>"])
    return t


def llama2_like(text):
    """A SentencePiece export: spaces as markers, byte fallback, the whole text as one piece."""
    vocabulary = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # for training only
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=760, limit_alphabet=150,
                                                    special_tokens=vocabulary, show_progress=False))
    data = json.loads(t.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if a["id"] < 3]
    data["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(data))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.add_tokens([AddedToken("<think>", normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                     special_tokens=[("<s>", 1)])
    return t


def metaspace_like(text):
    """Characters with an unknown token; most normalizers; Metaspace, Digits and Punctuation."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(),
                                         normalizers.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.Punctuation("contiguous")])
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=500, limit_alphabet=120,
                                                    special_tokens=["<unk>", "<s>"], show_progress=False))
    t.add_tokens(["</think>"])
    return t


def behaviours_like(text):
    """Every split behaviour, inverted too, in one sequence."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.NFD()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\s+"), "merged_with_next"),
        pre_tokenizers.Split("-", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[.!?]"), "contiguous"),
        pre_tokenizers.Split(Regex(r"[\w\s]+|[^\w]"), "removed", invert=True),
        pre_tokenizers.Split("a", "isolated")])
    t.decoder = decoders.Fuse()
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=450, limit_alphabet=120,
                                                    special_tokens=["<unk>"], show_progress=False))
    return t


def whitespace_like(text):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.NFKD()
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.Fuse()
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=400, limit_alphabet=120,
                                                    special_tokens=["<unk>"], show_progress=False))
    return t


def sentencepiece_models(text, strings):
    for name, kind, size in (("spm_bpe", "bpe", 900), ("spm_unigram", "unigram", 800)):
        blob = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([line for t in text for line in t.split("\n") if line.strip()]),
            model_writer=blob, model_type=kind, vocab_size=size, byte_fallback=True, hard_vocab_limit=False,
            character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
            split_digits=True, max_sentence_length=100000, num_threads=1, minloglevel=2)
        (OUT / f"{name}.model").write_bytes(blob.getvalue())
        sp = sentencepiece.SentencePieceProcessor(model_proto=blob.getvalue())
        n = sp.get_piece_size()
        kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
                 for i in range(n)]
        dump(f"{name}.vocab.json", {"tokens": [sp.id_to_piece(i) for i in range(n)],
                                    "scores": [sp.get_score(i) for i in range(n)], "types": kinds})
        chosen = [s for s in strings[::4] if "\0" not in s]
        plain = [sp.encode(s) for s in chosen]
        decoded = [sp.decode(ids) for ids in plain]
        dump(f"{name}.ids.json", {"strings": chosen, "plain": plain,
                                  "decoded": [None if d == s else d for d, s in zip(decoded, chosen)]})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="the default model's GGUF file")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    strings = make_strings()
    assert len(strings) > 2000, len(strings)
    dump("strings.json", strings)
    result = reference(smollm2(arguments.model), strings, 0, 1)
    result["decoded"] = None  # byte-level: checked against the strings
    dump("smollm2.ids.json", result)
    text = training_text(strings)
    makers = [llama3_like, qwen2_like, gpt2_like, tekken_like, llama2_like, metaspace_like,
              behaviours_like, whitespace_like]
    for number, make in enumerate(makers):
        tokenizer = make(text)
        name = make.__name__
        data = json.loads(tokenizer.to_str())
        if name == "gpt2_like":  # the older spelling of merges
            data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
        dump(f"{name}.tokenizer.json", data)
        dump(f"{name}.ids.json", reference(tokenizer, strings, number, 8))
    sentencepiece_models(training_text(strings[::7]), strings)
    print(len(strings), "strings")


if __name__ == "__main__":
    main()
