"""IFBench `words:` — which words stand where: first letters, vowels, syllables, palindromes, positions.

    words:words_position(keyword="vibrant")    the second word and the second to last word are "vibrant"

"fixed" takes the words of `Text`; "upstream" removes ASCII punctuation and splits at spaces, so that a lone dash is a
word and "curly quotes" belong to theirs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from rubrank.texts.lexicon import could_be_verb, count_syllables, word_list
from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import ASCII_PUNCTUATION as MARKS
from rubrank.verifiers.ifbench.tokens import ifbench, public_sentences, public_tokens, trim, without_punctuation
from rubrank.verifiers.shared.relation import Count
from rubrank.verifiers.verifier import Answer, Compat

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_CLUSTER = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
_VERB_CONTEXT = frozenset({"that", "to", "me", "us", "you", "it", "them", "him", "whether", "how", "what", "why", "if"})


def _plain_words(text: Text, compat: Compat) -> Sequence[str]:
    """The words, small."""
    if compat == "upstream":
        return without_punctuation(text.raw).lower().split()
    return [word.lower() for word in text.words]


def _folded(text: str) -> str:
    """Small letters without accents."""
    return "".join(char for char in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(char))


@ifbench("words:alphabet")
def alphabet(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Each word starts with the letter after the one of the word before; a follows z. Any letter may be first.

    Passes: "Yes, Zoe ate bread." Fails: "A cat"; a number. Not covered: other alphabets than a to z (accents are
    ignored; upstream fails them).
    """
    words = _plain_words(text, compat)
    firsts = [word[0] if compat == "upstream" else _folded(word[0])[:1] for word in words]
    if not firsts or firsts[0] not in _ALPHABET:
        return False, f"the first word starts with no letter of a to z: {words[:1]}"
    start = _ALPHABET.index(firsts[0])
    for i, (word, first) in enumerate(zip(words, firsts, strict=True)):
        expected = _ALPHABET[(start + i) % 26]
        if first != expected:
            return False, f"word {i + 1}, {word!r}, should start with {expected!r}"
    return True, f"{len(words)} words follow the alphabet"


@ifbench("words:vowel")
def vowel(text: Text, *, compat: Compat = "fixed") -> Answer:
    """One paragraph whose words hold at most three different vowels of a, e, i, o, u.

    Passes: "A red hen has slept in tall grass" (a, e, i). Fails: four vowels; two paragraphs (upstream: two lines).
    Accents are ignored; upstream does not know accented vowels. Not covered: y, which is no vowel here.
    """
    parts = text.raw.strip().split("\n") if compat == "upstream" else text.paragraphs
    if len(parts) != 1:
        return False, f"{len(parts)} paragraphs found, 1 asked"
    found = sorted(set(text.raw.lower() if compat == "upstream" else _folded(text.raw)) & set("aeiou"))
    return len(found) <= 3, f"vowels found: {' '.join(found)}; at most 3 kinds asked"


@ifbench("words:consonants")
def consonants(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word has two consonants together; y is one.

    Passes: "Strong winds blow". Fails: "Strong winds are". Words without letters (numbers, dashes) are passed over;
    upstream fails them. Not covered: sounds ("x" is one letter), other scripts (fail).
    """
    words = text.raw.lower().split() if compat == "upstream" else _plain_words(text, compat)
    if compat == "fixed":
        words = [word for word in words if any(char.isalpha() for char in word)]
    without = next((word for word in words if not _CLUSTER.search(word)), None)
    if not words:
        return False, "no words found"
    return without is None, f"no consonant cluster in {without!r}" if without else "every word has a consonant cluster"


@ifbench("words:palindrome")
def palindrome(text: Text, *, compat: Compat = "fixed") -> Answer:
    """At least 10 different words of at least 5 letters that read the same backwards.

    Passes: level, radar, civic, kayak, madam, refer, rotor, stats, tenet, solos. Fails: nine of them and one again,
    which upstream passes; "12321", which upstream counts. Not covered: whether such a word exists.
    """
    found = [word for word in _plain_words(text, compat) if len(word) >= 5 and word == word[::-1]]
    n = len(found) if compat == "upstream" else len({word for word in found if word.isalpha() and len(set(word)) > 1})
    return n >= 10, f"{n} palindromes found, at least 10 asked"


@ifbench("words:prime_lengths")
def prime_lengths(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word has a prime number of letters (2, 3, 5, 7, 11 …); hyphens and apostrophes are no letters.

    Passes: "The lemon is red". Fails: "A lemon" (1), "Four" (4). Upstream counts a lone dash as a word of length 1. Not
    covered: lengths count characters, so a Chinese character is a word of length 1.
    """
    for word in _plain_words(text, compat):
        size = len(word) if compat == "upstream" else sum(char.isalnum() for char in word)
        if not _is_prime(size):
            return False, f"{word!r} has {size} characters"
    return True, "all lengths are prime"


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, min(int(n**0.5), 10_000) + 1))


@ifbench("words:start_verb")
def start_verb(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The first word is a verb form: a base form, an auxiliary, a form in -ing or -ed.

    Passes: "Explain it first.", "Building bridges …", "Is it so?" Fails: "The answer", "However". By a list of about
    500 base forms and endings, without the sentence: rare verbs fail, nouns that are also verbs ("Design matters")
    pass. Upstream uses a statistical tagger, which takes many capitalised base forms for names ("Build",
    "Conceive"); here that is approximated by the verbs it knows and by what follows ("Prove that …").
    Not covered: other languages.
    """
    if compat == "upstream":
        tokens = public_tokens(text.raw[:2000])
        first, second = ([token.lower() for token in tokens] + ["", ""])[:2]
        verb = _tagged_as_verb(first, second)
    else:
        first = text.words[0].lower() if text.words else ""
        verb = could_be_verb(first)
    return verb, f"the first word is {first!r}, {'a' if verb else 'no'} verb as far as known"


def _tagged_as_verb(first: str, second: str) -> bool:
    if first in word_list("auxiliaries") or first in word_list("tagged_verbs"):
        return True
    if first.endswith("ing") and could_be_verb(first):
        return True
    return could_be_verb(first) and second in _VERB_CONTEXT


@ifbench("words:repeats")
def repeats(text: Text, *, small_n: Count, compat: Compat = "fixed") -> Answer:
    """No word occurs more than `small_n` times, whatever its case.

    Passes: "no, no" for 2. Fails: "the … the … the" for 2. Not covered: forms of one word are different words.
    """
    word, n = max(Counter(_plain_words(text, compat)).items(), key=lambda item: item[1], default=("", 0))
    return n <= small_n, f"{word!r} occurs {n} times, at most {small_n} allowed"


@ifbench("words:odd_even_syllables")
def odd_even_syllables(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Words with an odd and an even number of syllables alternate, either kind first.

    Passes: "cats enjoy milk daily". Fails: "cats like milk"; fewer than two words (upstream passes). Syllables are
    counted by spelling, see `lexicon.count_syllables`; numbers in digits count 0. Not covered: languages other than
    English.
    """
    words = _plain_words(text, compat)
    parities = [count_syllables(word) % 2 for word in words]
    for i in range(len(words) - 1):
        if parities[i] == parities[i + 1]:
            return False, f"{words[i]!r} and {words[i + 1]!r} both have an {('even', 'odd')[parities[i]]} number"
    return len(words) > 1 or compat == "upstream", f"{len(words)} words alternate"


@ifbench("words:last_first", version=2)
def last_first(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The last word of each sentence is the first word of the next, whatever its case.

    Passes: "I like tea. Tea is warm." Fails: "I like tea. It is warm."; a single sentence, which upstream passes. Not
    covered: forms of the word ("tea", "teas") differ.
    """
    pairs = _edges_upstream(text.raw) if compat == "upstream" else _edges(text.sentences)
    if len(pairs) < 2 and compat == "fixed":
        return False, "fewer than two sentences found"
    for (_, last), (first, _) in pairwise(pairs):
        if not last or last != first:
            return False, f"a sentence ends in {last!r}, the next starts with {first!r}"
    return True, f"{len(pairs)} sentences are linked"


def _edges(parts: Sequence[str]) -> list[tuple[str, str]]:
    """First and last word of each part that has words."""
    found = [[word.casefold() for word in Text(part).words] for part in parts]
    return [(words[0], words[-1]) for words in found if words]


def _edges_upstream(raw: str) -> list[tuple[str, str]]:
    pairs = []
    for sentence in public_sentences(raw):
        first, last = sentence.lstrip(MARKS + " ").split(), sentence.rstrip(MARKS + " ").split()
        pairs.append((first[0].lower() if first else "", last[-1].lower() if last else ""))
    return pairs


@ifbench("words:paragraph_last_first")
def paragraph_last_first(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Each paragraph (a line that is not blank) ends with the word it starts with, whatever its case.

    Passes: "Tea is my tea." on every line. Fails: "Tea is good." Not covered: headings are paragraphs too; one of a
    single word passes.
    """
    lines = [line for line in text.raw.split("\n") if line.strip()]
    if compat == "upstream":
        found = [trim(line.strip().lower()).split() for line in lines]
        pairs = [(words[0], words[-1]) for words in found if words]
    else:
        pairs = _edges(lines)
    wrong = next(((first, last) for first, last in pairs if first != last), None)
    if wrong:
        return False, f"a paragraph starts with {wrong[0]!r} and ends with {wrong[1]!r}"
    return bool(pairs) or compat == "upstream", f"{len(pairs)} paragraphs end as they start"


@ifbench("words:no_consecutive")
def no_consecutive(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No two neighbouring words start with the same letter, whatever its case.

    Passes: "Cats like milk". Fails: "big bear", "the tea". Not covered: sounds ("cent", "sun" differ).
    """
    words = _plain_words(text, compat)
    for one, two in pairwise(words):
        if one[0] == two[0]:
            return False, f"{one!r} and {two!r} start with the same letter"
    return True, f"no neighbours among {len(words)} words share a first letter"


@ifbench("words:keywords_specific_position", version=3)
def keywords_specific_position(text: Text, *, keyword: str, n: Count, m: Count, compat: Compat = "fixed") -> Answer:
    """`keyword` is the `m`th word of the `n`th sentence, whatever its case.

    Passes: "One. I giggle." for giggle, 2, 2. Fails: any other place. Upstream counts punctuation marks as words and
    takes "1." for a sentence. Not covered: keywords of several words.
    """
    found, why = word_at(text, n, m, compat)
    return found is not None and _same(
        found, keyword
    ), why or f"word {m} of sentence {n} is {found!r}, {keyword!r} asked"


def word_at(text: Text, n: int, m: int, compat: Compat) -> tuple[str | None, str]:
    """The `m`th word of the `n`th sentence, or why there is none."""
    sentences = public_sentences(text.raw) if compat == "upstream" else text.sentences
    if not 1 <= n <= len(sentences):
        return None, f"{len(sentences)} sentences found, so there is no sentence {n}"
    words = public_tokens(sentences[n - 1]) if compat == "upstream" else Text(sentences[n - 1]).words
    if not 1 <= m <= len(words):
        return None, f"sentence {n} has {len(words)} words, so there is no word {m}"
    return words[m - 1], ""


def _same(word: str, keyword: str) -> bool:
    return word.casefold() == keyword.strip().casefold()


@ifbench("words:words_position", version=2)
def words_position(text: Text, *, keyword: str, compat: Compat = "fixed") -> Answer:
    """The second word and the second to last word are `keyword`, whatever its case.

    Passes: "The vibrant city is a vibrant place." Fails: "The vibrant city is vibrant." Upstream: Treebank words,
    so that "don't" is two. Not covered: keywords of several words.
    """
    words: Sequence[str] = text.words
    if compat == "upstream":
        words = [token for token in public_tokens(text.raw) if any(map(str.isalnum, token))]
    if len(words) < 2:
        return False, f"{len(words)} words found"
    second, before_last = words[1], words[-2]
    right = _same(second, keyword) and _same(before_last, keyword)
    return right, f"second word {second!r}, second to last {before_last!r}, {keyword!r} asked"
