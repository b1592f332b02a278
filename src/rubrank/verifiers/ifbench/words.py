"""IFBench `words:`: which words stand where: first letters, vowels, syllables, palindromes, positions.

    words:words_position(keyword="vibrant")    the second word and the second to last word are "vibrant"

"fixed" takes the words of `Text`; "upstream" removes ASCII punctuation and splits at spaces, so that a lone dash is a
word and "curly quotes" belong to theirs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice, pairwise

from rubrank._plain import word_set
from rubrank.texts.lexicon import could_be_verb, count_syllables, word_list
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import (
    ASCII_PUNCTUATION,
    ifbench,
    remove_punctuation,
    require_none,
    select_sentences,
    trim,
)
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
from rubrank.verifiers.shared.relation import Count
from rubrank.verifiers.verifier import Answer, Compat

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_CONSONANT_CLUSTER = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
# Words that follow a verb: "Prove that …", "Tell me …".
_AFTER_VERB = word_set("that to me us you it them him whether how what why if")


def _lower_words(text: Text, compat: Compat) -> list[str]:
    """Return the words in lower case."""
    if compat == "upstream":
        return remove_punctuation(text.raw).lower().split()
    return [word.lower() for word in text.words]


def _remove_accents(text: str) -> str:
    """Return the text in lower case, without accents."""
    return "".join(
        char
        for char in unicodedata.normalize("NFKD", text.lower())
        if not unicodedata.combining(char)
    )


@ifbench("words:alphabet")
def alphabet(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Each word starts with the letter after the one of the word before; a follows z. Any letter may be first.

    Passes: "Yes, Zoe ate bread."
    Fails: "A cat"; a number.
    Upstream fails letters with accents, which are otherwise read without them.
    Not covered: other alphabets than a to z.
    """
    words = _lower_words(text, compat)
    first_letters = [
        word[0] if compat == "upstream" else _remove_accents(word[0])[:1] for word in words
    ]
    if not first_letters or first_letters[0] not in _ALPHABET:
        return False, f"the first word starts with no letter of a to z: {words[:1]}"
    start = _ALPHABET.index(first_letters[0])
    expected = islice(cycle(_ALPHABET), start, None)
    pairs = zip(words, first_letters, expected, strict=False)
    return require_none(
        [word for word, first, letter in pairs if first != letter], "word out of order"
    )


@ifbench("words:vowel")
def vowel(text: Text, *, compat: Compat = "fixed") -> Answer:
    """One paragraph whose words hold at most three different vowels of a, e, i, o, u.

    Passes: "A red hen has slept in tall grass" (a, e, i).
    Fails: four vowels; two paragraphs (upstream: two lines). Accents are ignored.
    Upstream does not count vowels with accents.
    Not covered: y, which is no vowel here.
    """
    if compat == "upstream":
        paragraphs = len(text.raw.strip().split("\n"))
        letters = set(text.raw.lower())
    else:
        paragraphs = len(text.paragraphs)
        letters = set(_remove_accents(text.raw))
    if paragraphs != 1:
        return False, f"{paragraphs} paragraphs found, 1 required"
    vowels = sorted(letters & set("aeiou"))
    return len(vowels) <= 3, f"vowels found: {' '.join(vowels)}; at most 3 kinds required"


@ifbench("words:consonants")
def consonants(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word has two consonants together; y is one.

    Passes: "Strong winds blow".
    Fails: "Strong winds are". Words without letters (numbers, dashes) are passed over.
    Upstream fails words without letters.
    Not covered: sounds ("x" is one letter), other scripts (fail).
    """
    if compat == "upstream":
        words = text.raw.lower().split()
    else:
        words = [word.lower() for word in text.words if any(char.isalpha() for char in word)]
    if not words:
        return False, "no words found"
    without_cluster = [word for word in words if not _CONSONANT_CLUSTER.search(word)]
    return require_none(without_cluster, "word without a consonant cluster")


@ifbench("words:palindrome")
def palindrome(text: Text, *, compat: Compat = "fixed") -> Answer:
    """At least 10 different words of at least 5 letters that read the same backwards.

    Passes: level, radar, civic, kayak, madam, refer, rotor, stats, tenet, solos.
    Fails: nine of them and one again, which upstream passes; "12321", which upstream counts.
    Not covered: whether such a word exists.
    """
    palindromes = [
        word for word in _lower_words(text, compat) if len(word) >= 5 and word == word[::-1]
    ]
    if compat == "upstream":
        count = len(palindromes)
    else:
        count = len({word for word in palindromes if word.isalpha() and len(set(word)) > 1})
    return count >= 10, f"{count} palindromes found, at least 10 required"


@ifbench("words:prime_lengths")
def prime_lengths(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word has a prime number of letters (2, 3, 5, 7, 11 …); hyphens and apostrophes are not letters.

    Passes: "The lemon is red".
    Fails: "A lemon" (1), "Four" (4).
    Upstream counts a lone dash as a word of length 1.
    Not covered: lengths count characters, so a Chinese character is a word of length 1.
    """
    wrong: list[str] = []
    for word in _lower_words(text, compat):
        size = len(word) if compat == "upstream" else sum(char.isalnum() for char in word)
        # The bound keeps the check fast for absurdly long words.
        largest_divisor = min(int(size**0.5), 10_000)
        if size < 2 or not all(size % divisor for divisor in range(2, largest_divisor + 1)):
            wrong.append(word)
    return require_none(wrong, "word of another length")


@ifbench("words:start_verb", version=2)
def start_verb(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The first word is a verb form: a base form, an auxiliary, a form in -ing or -ed.

    Passes: "Explain it first.", "Building bridges …", "Is it so?"
    Fails: "The answer", "However". By a list of about 500 base forms and endings, without the sentence: rare verbs
        fail, nouns that are also verbs ("Design matters") pass.
    Upstream uses a statistical tagger, which takes many capitalised base forms for names ("Build", "Conceive"); here
        that is approximated by the verbs it knows, by endings ("Identify") and by what follows ("Prove that …").
    Not covered: other languages.
    """
    if compat == "upstream":
        tokens = [token.lower() for token in split_public_tokens(text.raw[:2000])]
        first, second = (*tokens, "", "")[:2]
        is_verb = _is_tagged_as_verb(first, second)
    else:
        first = text.words[0].lower() if text.words else ""
        is_verb = could_be_verb(first)
    return is_verb, f"the first word is {first!r}, {'a' if is_verb else 'no'} verb as far as known"


def _is_tagged_as_verb(first: str, second: str) -> bool:
    """Would the public checker's tagger take the first word for a verb? An approximation."""
    if first in word_list("auxiliaries") or first in word_list("tagged_verbs"):
        return True
    if not could_be_verb(first):
        return False
    # The tagger goes by the last three letters: these two endings outweigh the capital of a name.
    return first.endswith(("ing", "ify")) or second in _AFTER_VERB


@ifbench("words:repeats")
def repeats(text: Text, *, small_n: Count, compat: Compat = "fixed") -> Answer:
    """No word occurs more than `small_n` times, ignoring case.

    Passes: "no, no" for 2.
    Fails: "the … the … the" for 2.
    Not covered: forms of one word are different words.
    """
    counts = Counter(_lower_words(text, compat))
    word, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    return count <= small_n, f"{word!r} occurs {count} times, at most {small_n} allowed"


@ifbench("words:odd_even_syllables")
def odd_even_syllables(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Words with an odd and an even number of syllables alternate, either kind first.

    Passes: "cats enjoy milk daily".
    Fails: "cats like milk"; fewer than two words (upstream passes). Syllables are counted by spelling, see
        `lexicon.count_syllables`; numbers in digits count 0.
    Not covered: languages other than English.
    """
    words = _lower_words(text, compat)
    parities = [count_syllables(word) % 2 for word in words]
    if len(words) < 2 and compat == "fixed":
        return False, "fewer than two words found"
    pairs = zip(words, pairwise(parities), strict=False)
    return require_none(
        [word for word, pair in pairs if len(set(pair)) < 2], "word of the same parity as the next"
    )


@ifbench("words:last_first", version=2)
def last_first(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The last word of each sentence is the first word of the next, ignoring case.

    Passes: "I like tea. Tea is warm."
    Fails: "I like tea. It is warm."; a single sentence, which upstream passes.
    Not covered: forms of the word ("tea", "teas") differ.
    """
    if compat == "upstream":
        edges = []
        for sentence in split_public_sentences(text.raw):
            from_start = sentence.lstrip(ASCII_PUNCTUATION + " ").lower().split()
            to_end = sentence.rstrip(ASCII_PUNCTUATION + " ").lower().split()
            edges.append((from_start[0] if from_start else "", to_end[-1] if to_end else ""))
    else:
        edges = _list_edge_words(text.sentences)
        if len(edges) < 2:
            return False, "fewer than two sentences found"
    wrong = [last for (_, last), (first, _) in pairwise(edges) if not last or last != first]
    return require_none(wrong, "last word that does not begin the next sentence")


def _list_edge_words(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the first and last word of each part that has words."""
    edges: list[tuple[str, str]] = []
    for part in parts:
        words = Text(part).words
        if words:
            edges.append((words[0].casefold(), words[-1].casefold()))
    return edges


@ifbench("words:paragraph_last_first")
def paragraph_last_first(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Each paragraph (a line that is not blank) ends with the word it starts with, ignoring case.

    Passes: "Tea is my tea." on every line.
    Fails: "Tea is good."
    Not covered: headings are paragraphs too; one of a single word passes.
    """
    lines = [line for line in text.raw.split("\n") if line.strip()]
    if compat == "upstream":
        split_lines = [trim(line.strip().lower()).split() for line in lines]
        edges = [(words[0], words[-1]) for words in split_lines if words]
    else:
        edges = _list_edge_words(lines)
    if not edges and compat == "fixed":
        return False, "no paragraphs found"
    wrong = [first for first, last in edges if first != last]
    return require_none(wrong, "paragraph that does not end as it starts")


@ifbench("words:no_consecutive")
def no_consecutive(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No two neighbouring words start with the same letter, ignoring case.

    Passes: "Cats like milk".
    Fails: "big bear", "the tea".
    Not covered: sounds ("cent", "sun" differ).
    """
    words = _lower_words(text, compat)
    wrong = [f"{word} {follower}" for word, follower in pairwise(words) if word[0] == follower[0]]
    return require_none(wrong, "neighbours with the same first letter")


@ifbench("words:keywords_specific_position", version=3)
def keywords_specific_position(
    text: Text, *, keyword: str, n: Count, m: Count, compat: Compat = "fixed"
) -> Answer:
    """`keyword` is the `m`th word of the `n`th sentence, ignoring case.

    Passes: "One. I giggle." for giggle, 2, 2.
    Fails: any other place.
    Upstream counts punctuation marks as words and takes "1." for a sentence.
    Not covered: keywords of several words.
    """
    word, problem = word_at(text, n, m, compat)
    if word is None:
        return False, problem
    reason = f"word {m} of sentence {n} is {word!r}, {keyword!r} required"
    return _is_same_word(word, keyword), reason


def word_at(text: Text, n: int, m: int, compat: Compat) -> tuple[str | None, str]:
    """Return the `m`th word of the `n`th sentence, or None and the reason why there is none."""
    sentences = select_sentences(text, compat)
    if not 1 <= n <= len(sentences):
        return None, f"{len(sentences)} sentences found, so there is no sentence {n}"
    sentence = sentences[n - 1]
    words = split_public_tokens(sentence) if compat == "upstream" else Text(sentence).words
    if not 1 <= m <= len(words):
        return None, f"sentence {n} has {len(words)} words, so there is not a word {m}"
    return words[m - 1], ""


def _is_same_word(word: str, keyword: str) -> bool:
    return word.casefold() == keyword.strip().casefold()


@ifbench("words:words_position", version=2)
def words_position(text: Text, *, keyword: str, compat: Compat = "fixed") -> Answer:
    """The second word and the second to last word are `keyword`, ignoring case.

    Passes: "The vibrant city is a vibrant place."
    Fails: "The vibrant city is vibrant."
    Upstream: Treebank words, so that "don't" is two.
    Not covered: keywords of several words.
    """
    words: Sequence[str] = text.words
    if compat == "upstream":
        words = [
            token
            for token in split_public_tokens(text.raw)
            if any(char.isalnum() for char in token)
        ]
    if len(words) < 2:
        return False, f"{len(words)} words found"
    second = words[1]
    before_last = words[-2]
    is_right = _is_same_word(second, keyword) and _is_same_word(before_last, keyword)
    return is_right, f"second word {second!r}, second to last {before_last!r}, {keyword!r} required"
