"""Texts: patterns, distances, tries, tokens."""

import contextlib
import io

from . import TEXTS, package


@package("MarkupSafe", "C")
def markupsafe():
    import markupsafe

    def call():
        for text in TEXTS[:10]:
            markupsafe.escape("<b>" + text) + markupsafe.Markup("<i>")
    return call


@package("regex", "C")
def regex():
    import regex

    pattern = regex.compile(r"(?P<word>\w+)(?:\s+(?P<word>\w+))*|\p{Lu}{e<=1}")

    def call():
        for text in TEXTS[:5]:
            pattern.match(text).captures("word")
            regex.sub(r"(\d+)", lambda found: found[1] * 2, text)
            regex.findall(r"(?b)(?:number1){e<=1}", text)
        with contextlib.suppress(regex.error):
            regex.compile("(unclosed")
        regex.purge()
    return call


@package("google-re2", "C++", "/_re2")
def re2():
    import re2

    quiet = re2.Options()
    quiet.log_errors = False

    def call():
        pattern = re2._Regexp(r"(\w+) number (\d+)", quiet)
        pattern.search(TEXTS[3]).groups()
        pattern.sub("x", TEXTS[3])
        with contextlib.suppress(re2.error):
            re2._Regexp("(unclosed", quiet)
    return call


@package("RapidFuzz", "C++, Cython")
def rapidfuzz():
    from rapidfuzz import distance, fuzz, process

    def call():
        fuzz.WRatio(TEXTS[1], TEXTS[20])
        process.extract("text number 7", TEXTS, limit=3)
        distance.Levenshtein.editops("kitten", "sitting").as_list()
        distance.JaroWinkler.similarity("one", "two")
    return call


@package("Levenshtein", "C++, Cython")
def Levenshtein():
    import Levenshtein

    def call():
        Levenshtein.distance("kitten", "sitting")
        Levenshtein.editops("kitten", "sitting")
        Levenshtein.median(TEXTS[:5])
        with contextlib.suppress(TypeError):
            Levenshtein.median([1, 2])
    return call


@package("jellyfish", "Rust")
def jellyfish():
    import jellyfish

    def call():
        jellyfish.jaro_winkler_similarity("martha", "marhta")
        jellyfish.metaphone("Thompson")
        jellyfish.soundex("Robert")
        jellyfish.damerau_levenshtein_distance("kitten", "sitting")
    return call


@package("pyahocorasick", "C", "/ahocorasick")
def ahocorasick():
    import ahocorasick

    def call():
        found = ahocorasick.Automaton()
        for number, word in enumerate(("he", "her", "hers", "she")):
            found.add_word(word, (number, word))
        found.make_automaton()
        list(found.iter("ushers and heroes"))
        found.get("she")
        with contextlib.suppress(KeyError):
            found.get("missing")
        list(found.keys())
    return call


@package("marisa-trie", "C++, Cython", "/marisa_trie.")
def marisa_trie():
    import marisa_trie

    def call():
        found = marisa_trie.Trie(TEXTS)
        found.prefixes(TEXTS[3])
        found.keys("text number 1")
        marisa_trie.BytesTrie(zip(TEXTS, (b"v" for _ in TEXTS))).get(TEXTS[1])
        with contextlib.suppress(KeyError):
            found["missing"]
    return call


@package("tokenizers", "Rust", calls=200)
def tokenizers():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[UNK]": 0, **{word: number for number, word in enumerate("text number of some words each not long".split(), 1)}}

    def call():
        made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.Whitespace()
        made.encode(TEXTS[2]).tokens
        made.encode_batch(TEXTS[:4])
        Tokenizer.from_str(made.to_str())
    return call


@package("sentencepiece", "C++", calls=100)
def sentencepiece():
    import sentencepiece as sp

    model = io.BytesIO()
    sp.SentencePieceTrainer.train(sentence_iterator=iter(TEXTS * 4), model_writer=model, vocab_size=40, minloglevel=2, num_threads=1)
    kept = model.getvalue()

    def call():
        made = sp.SentencePieceProcessor(model_proto=kept)
        made.decode(made.encode(TEXTS[2]))
        made.encode(TEXTS[:3], out_type=str)
    return call


@package("charset-normalizer", "mypyc", calls=50)
def charset_normalizer():
    import charset_normalizer

    texts = ["Bsеки човек има право на образование. ".encode("cp1251") * 4, "Où est le café déjà vu?".encode("latin1") * 4]

    def call():
        for text in texts:
            charset_normalizer.from_bytes(text).best()
    return call


@package("tree-sitter", "C", "/tree_sitter")
def tree_sitter():
    import tree_sitter
    import tree_sitter_python

    language = tree_sitter.Language(tree_sitter_python.language())
    parser = tree_sitter.Parser(language)

    def call():
        parsed = parser.parse(b"def f(x):\n    return x + 1\n")
        [child.type for child in parsed.root_node.children[0].children]
        cursor = tree_sitter.QueryCursor(tree_sitter.Query(language, "(identifier) @name"))
        cursor.captures(parsed.root_node)
        parsed.walk().goto_first_child()
        with contextlib.suppress(tree_sitter.QueryError):
            tree_sitter.Query(language, "(missing) @name")
    return call


@package("pytokens", "mypyc", "__mypyc.")
def pytokens():
    import pytokens

    def call():
        list(pytokens.tokenize("def f(x):\n    return f'{x}' + \"a\"\n"))
        with contextlib.suppress(pytokens.TokenizeError):
            list(pytokens.tokenize("'unclosed"))
    return call


@package("safetensors", "Rust")
def safetensors():
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load, save

    tensors = {"a": np.arange(100.0), "b": np.ones((3, 4), np.int8)}

    def call():
        load(save(tensors))
        with contextlib.suppress(SafetensorError):
            load(b"junk" * 10)
    return call
