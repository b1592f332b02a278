"""IFBench `words:`, `count:`, `ratio:`, `sentence:`: which words stand where, how many there are, what sentences hold.

    words:words_position(keyword="vibrant")                the second word and the second to last word are "vibrant"
    count:word_count_range(min_words=57, max_words=61)     "The response must contain between 57 and 61 words."
    ratio:overlap(reference_text="…", percentage=72)       "Maintain a trigram overlap of 72% (±2%) …"
    sentence:keyword(word="giraffe", N=7)                  "… must include keyword giraffe in the 7-th sentence."

Most have two readings, "fixed" and "upstream" (the public checker, faults included): see `instructions/__init__.py`.
For the "fixed" reading "don't" and "well-known" are one word each, and a paragraph ends a sentence. In `words:` the
public checker removes ASCII punctuation and splits at spaces, so that a lone dash is a word. If two kinds of sentences
should be in a ratio and neither occurs, the "fixed" reading fails and the "upstream" reading passes: 0 = 0.

Each verifier is named like its instruction, and its parameters (N, small_n) like those of the public data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, groupby, islice, pairwise

from rubrank._plain import word_set
from rubrank.texts.text import Text
from rubrank.texts.words import could_be_verb, count_syllables, is_emoji, word_list
from rubrank.verifiers.shared.instruction import (
    ASCII_PUNCTUATION,
    Count,
    check_word_at,
    compare_count,
    count_within,
    count_word,
    forbid_repeats,
    ifbench,
    is_increasing,
    remove_accents,
    remove_punctuation,
    require_none,
    select_sentences,
    trim,
)
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
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
        word[0] if compat == "upstream" else remove_accents(word[0])[:1] for word in words
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
        letters = set(remove_accents(text.raw.lower()))
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
    words = split_public_tokens(text.raw[:2000]) if compat == "upstream" else text.words
    first = words[0].lower() if words else ""
    is_verb = could_be_verb(first)
    if compat == "upstream":
        # The tagger goes by the last three letters: these two endings outweigh the capital of a name.
        has_verb_ending = first.endswith(("ing", "ify"))
        precedes_object = len(words) > 1 and words[1].lower() in _AFTER_VERB
        is_known = first in word_list("auxiliaries") or first in word_list("tagged_verbs")
        is_verb = is_known or (is_verb and (has_verb_ending or precedes_object))
    return is_verb, f"the first word is {first!r}, {'a' if is_verb else 'no'} verb as far as known"


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
        `texts.words.count_syllables`; numbers in digits count 0.
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
    return check_word_at(text, keyword, n, m, compat)


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
        words = [word for word in split_public_tokens(text.raw) if any(map(str.isalnum, word))]
    if len(words) < 2:
        return False, f"{len(words)} words found"
    second = words[1]
    before_last = words[-2]
    is_right = {second.casefold(), before_last.casefold()} == {keyword.strip().casefold()}
    return is_right, f"second word {second!r}, second to last {before_last!r}, {keyword!r} required"


# ---- how many words, names, numbers and marks ------------------------------------------------------------------------

_WORD_RUN = re.compile(r"\w+")  # "don't" has two
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")  # "1,250.5" is one number
_DIGITS = re.compile(r"\d+")
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_LATIN = re.compile("[A-Za-z]")
# The kind of a sentence by its last mark.
_SENTENCE_KINDS = {
    ".": "declarative",
    "。": "declarative",
    "?": "interrogative",
    "？": "interrogative",
    "!": "exclamatory",
    "！": "exclamatory",
}
# What may follow the last mark of a sentence: spaces, closing quotes and brackets, emphasis, joiners of emoji.
_AFTER_MARK = " \t\n\"'”’»)]}*_~`\u200d\ufe0f"


@ifbench("count:word_count_range")
def word_count_range(
    text: Text, *, min_words: Count, max_words: Count, compat: Compat = "fixed"
) -> Answer:
    """Between `min_words` and `max_words` words, both included.

    Passes: 60 words for 57 to 61.
    Fails: 56 words.
    Upstream counts runs of letters and digits, so "don't" is two.
    Not covered: words of scripts without spaces, where every character counts as one.
    """
    words = _WORD_RUN.findall(text.raw) if compat == "upstream" else text.words
    count = len(words)
    reason = f"{count} words found, {min_words} to {max_words} required"
    return min_words <= count <= max_words, reason


@ifbench("count:unique_word_count")
def unique_word_count(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At least `N` different words, ignoring case.

    Passes: "To be or not" for 4.
    Fails: "to be or not to be" for 5.
    Upstream takes what stands between spaces, so a lone dash is a word, too.
    Not covered: inflected forms ("run", "runs") are different words.
    """
    if compat == "upstream":
        words = {trim(word) for word in text.raw.lower().split()}
    else:
        words = {word.casefold() for word in text.words}
    return compare_count(len(words), "different word", "at least", N)


@ifbench("count:conjunctions")
def conjunctions(text: Text, *, small_n: Count, compat: Compat = "fixed") -> Answer:
    """At least `small_n` different coordinating conjunctions (for, and, nor, but, or, yet, so).

    Passes: "salt and pepper, but no sugar" for 2.
    Fails: "and … And … and" for 2.
    Upstream tells "And", "and" and "and," apart, so there it passes.
    Not covered: whether "for", "so" and "yet" join anything where they stand.
    """
    coordinators = word_list("coordinators")
    if compat == "upstream":
        present = {word for word in text.raw.split() if trim(word).lower() in coordinators}
    else:
        present = {word.lower() for word in text.words} & coordinators
    return compare_count(len(present), "different conjunction", "at least", small_n)


@ifbench("count:person_names")
def person_names(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At least `N` different names of the fifty that the prompt lists (Emma, Liam, Sophia …).

    Passes: "Emma met Liam." for 2.
    Fails: "Emma met Emma." for 2; "emma".
    Upstream finds them inside words as well ("Ella" in "Ellabell").
    Not covered: other names, and whether the word names a person ("Grace" always does).
    """
    names = word_list("person_names")
    if compat == "upstream":
        present = frozenset(name for name in names if name in text.raw)
    else:
        present = names.intersection(_WORD_RUN.findall(text.raw))
    return compare_count(len(present), "different listed name", "at least", N)


@ifbench("count:numbers")
def numbers(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `N` numbers written in digits.

    Passes: "1,250.5 of 3" for 2.
    Fails: "1, 2, 3" for 2. The number of a list item counts.
    Upstream removes punctuation first, which glues "2024-05" into one number.
    Not covered: numbers in words ("three").
    """
    if compat == "upstream":
        present = _DIGITS.findall(remove_punctuation(text.raw))
    else:
        present = _NUMBER.findall(text.raw)
    return compare_count(len(present), "number", "exactly", N)


@ifbench("count:punctuation")
def punctuation(text: Text) -> Answer:
    """Each of . , ! ? ; : and an interrobang (?!, !? or ‽); the ! and ? of one interrobang count for it alone.

    Passes: "Yes, no; so: a! b? c?! d."
    Fails: the same without the semicolon.
    Not covered: other marks (dashes, quotation marks, brackets), which "every standard punctuation mark" may or may not
        mean.
    """
    interrobang = next((mark for mark in ("?!", "!?", "‽") if mark in text.raw), None)
    if interrobang is None:
        return False, "no interrobang found"
    rest = text.raw.replace(interrobang, "", 1)
    return require_none([mark for mark in ".,!?;:" if mark not in rest], "absent mark")


@ifbench("count:words_japanese")
def words_japanese(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """Every `N`th word (between spaces) is in Japanese: it holds kana or kanji and no Latin letter.

    Passes: "one two 三 four five 六" for 3.
    Fails: "one two three". Fewer than N words fail.
    Upstream passes fewer than N words, lets a number stand for a Japanese word, and counts a lone dash as a word.
    Not covered: Japanese without spaces is one word; kanji may be Chinese.
    """
    if N < 1:
        return False, f"every {N}th word cannot be found"
    words = text.raw.split()
    if compat == "fixed":
        words = [word for word in words if any(char.isalnum() for char in word)]
    nth_words = [trim(word) for word in words[N - 1 :: N]]
    if compat == "upstream":
        plain_words = [word for word in nth_words if word and not word.isdigit()]
        wrong = [word for word in plain_words if not _JAPANESE.search(word)]
    else:
        wrong = [word for word in nth_words if not _JAPANESE.search(word) or _LATIN.search(word)]
        if not nth_words:
            return False, f"{len(words)} words found, so there is no {N}th"
    return require_none(wrong, f"{N}th word that is not Japanese")


@ifbench("count:pronouns")
def pronouns(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At least `N` pronouns: personal, possessive and reflexive ones, also inside "it's"; who, someone and the like.

    Passes: "I know you; she told everyone." for 4.
    Fails: "Dogs bark."
    Upstream recognises personal pronouns only, and treats "it's" as "its" and ignores "I'm".
    Not covered: this, that, which, one — often no pronouns.
    """
    listed = word_list("personal_pronouns")
    if compat == "upstream":
        words = remove_punctuation(text.raw.replace("/", " ").lower()).split()
    else:
        listed |= word_list("other_pronouns")
        words = _list_base_words(text)
    return compare_count(sum(word in listed for word in words), "pronoun", "at least", N)


def _list_base_words(text: Text) -> list[str]:
    """Return the words in lower case, up to an apostrophe: "it's" counts as "it"."""
    return [word.lower().replace("’", "'").partition("'")[0] for word in text.words]


@ifbench("count:keywords_multiple", version=2)
def keywords_multiple(
    text: Text, *, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str
) -> Answer:
    """The five keywords exactly once, twice, three, five and seven times, ignoring case.

    Passes: "a b b c c c d d d d d e e e e e e e" for a, b, c, d, e.
    Fails: any other count. "door" in "doorway" does not count.
    Not covered: inflected forms, which count as other words.
    """
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    counts = [count_word(text.raw, keyword) for keyword in keywords]
    return counts == [1, 2, 3, 5, 7], f"the keywords occur {counts} times"


# ---- ratios ----------------------------------------------------------------------------------------------------------


@ifbench("ratio:stop_words")
def stop_words(text: Text, *, percentage: float, compat: Compat = "fixed") -> Answer:
    """English stop words (articles, pronouns, prepositions, auxiliaries …) are at most `percentage` % of the words.

    Passes: "Cats chase mice" for 0.
    Fails: "The cat is on the mat" for 50 (4 of 6).
    Upstream cuts "don't" into two stop words.
    Not covered: other languages; lists of stop words differ, this one has about 150.
    """
    if compat == "upstream":
        words = [word.lower() for word in _WORD_RUN.findall(text.raw)]
    else:
        words = _list_base_words(text)
    if not words:
        return False, "no words found"
    listed = word_list("stop_words")
    share = 100 * sum(word in listed for word in words) / len(words)
    return share <= percentage, f"{share:.1f}% stop words found, at most {percentage:g}% required"


@ifbench("ratio:sentence_type")
def sentence_type(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Twice as many declarative sentences (ending in a full stop) as questions.

    Passes: "A. B. C?"
    Fails: "A. B?"; no question at all. A mark followed by a closing quote, bracket, emoji or asterisks still counts.
    Upstream requires the mark at the very end, and passes a text with neither full stops nor question marks.
    Not covered: questions without a question mark.
    """
    kinds = _count_kinds(text, compat)
    declarative = kinds["declarative"]
    questions = kinds["interrogative"]
    is_two_to_one = declarative == 2 * questions and (questions > 0 or compat == "upstream")
    reason = (
        f"{declarative} declarative and {questions} interrogative sentences found, 2 to 1 required"
    )
    return is_two_to_one, reason


@ifbench("ratio:sentence_balance", version=2)
def sentence_balance(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Equal numbers of declarative sentences, questions and exclamations, by their last mark.

    Passes: "A. B? C!"
    Fails: "A. B. C?"; a text without any mark, which upstream passes. As in `ratio:sentence_type`, closing quotes and
        the like may follow the mark.
    Not covered: marks that say something else than the sentence.
    """
    kinds = _count_kinds(text, compat)
    names = ("declarative", "interrogative", "exclamatory")
    counts = [kinds[name] for name in names]
    is_balanced = len(set(counts)) == 1 and (counts[0] > 0 or compat == "upstream")
    listed = ", ".join(f"{kinds[name]} {name}" for name in names)
    return is_balanced, f"{listed} sentences found, equal numbers required"


def _count_kinds(text: Text, compat: Compat) -> Counter[str]:
    """Count the kinds of sentences by their last mark: "declarative", "interrogative", "exclamatory" or "other"."""
    kinds: Counter[str] = Counter()
    for sentence in select_sentences(text, compat):
        end = len(sentence)
        if compat == "fixed":
            while end and (sentence[end - 1] in _AFTER_MARK or is_emoji(sentence[end - 1])):
                end -= 1
        mark = sentence[:end][-1:]
        # The public checker knows ASCII marks only.
        is_known = compat == "fixed" or mark.isascii()
        kinds[_SENTENCE_KINDS.get(mark, "other") if is_known else "other"] += 1
    return kinds


@ifbench("ratio:overlap", version=3)
def overlap(
    text: Text, *, reference_text: str, percentage: float, compat: Compat = "fixed"
) -> Answer:
    """`percentage` % (±2) of the different trigrams of the answer occur in the reference: three words in a row.

    Passes: the reference itself for 100.
    Fails: a text without common word triples for 10.
    Upstream compares three characters in a row.
    Not covered: answers of fewer than three words, which fail.
    """
    if compat == "upstream":
        answer_trigrams = _list_trigrams(text.raw)
        reference_trigrams = _list_trigrams(reference_text)
    else:
        answer_trigrams = _list_trigrams([word.lower() for word in text.words])
        reference_trigrams = _list_trigrams([word.lower() for word in Text(reference_text).words])
    if not answer_trigrams:
        return False, "the answer has no trigram"
    share = 100 * len(answer_trigrams & reference_trigrams) / len(answer_trigrams)
    reason = f"{share:.1f}% of the trigrams overlap, {percentage:g}% ± 2 required"
    return abs(share - percentage) <= 2, reason


def _list_trigrams(units: Sequence[str]) -> set[tuple[str, str, str]]:
    """Return the different runs of three words, or of three characters of a string."""
    return set(zip(units, units[1:], units[2:], strict=False))


@ifbench("ratio:sentence_words", version=3)
def sentence_words(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Three sentences of the same number of characters, and no word twice.

    Passes: "Cats nap. Dogs run. Owls fly."
    Fails: two sentences; lengths 9, 9, 10; "Cats nap. Cats run. Owls fly."
    upstream: sentences as the public splitter cuts them.
    Not covered: forms of one word ("cat", "cats") differ.
    """
    sentences = select_sentences(text, compat)
    sizes = [len(sentence.strip()) for sentence in sentences]
    if len(sizes) != 3 or len(set(sizes)) > 1:
        return False, f"the sentences have {sizes[:10]} characters, three equal numbers required"
    return forbid_repeats([word.casefold() for word in text.words])


# ---- sentences -------------------------------------------------------------------------------------------------------


@ifbench("sentence:alliteration_increment", version=2)
def alliteration_increment(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The longest run of words with one first letter grows from sentence to sentence.

    Passes: "We go. Big bears nap. Six silly snakes hiss." (1, 2, 3).
    Fails: equal or shorter runs.
    Upstream adds up all runs of a sentence.
    Not covered: sounds ("cat", "kite"); a single sentence passes.
    """
    sizes: list[int] = []
    for sentence in select_sentences(text, compat):
        if compat == "upstream":
            words = [word.lstrip(ASCII_PUNCTUATION + " ") for word in sentence.lower().split()]
            first_letters = [word[0] for word in words if word]
        else:
            first_letters = [word[0].casefold() for word in Text(sentence).words]
        runs = [len(list(run)) for _, run in groupby(first_letters)]
        if compat == "upstream":
            sizes.append(sum(run for run in runs if run > 1))
        else:
            sizes.append(max(runs, default=0))
    return is_increasing(sizes), f"the sentences have alliterations of {sizes[:20]} words"


@ifbench("sentence:keyword", version=2)
def keyword(text: Text, *, word: str, N: Count, compat: Compat = "fixed") -> Answer:
    """The `N`th sentence holds `word` as a word of its own, ignoring case.

    Passes: "One. A giraffe!" for giraffe, 2.
    Fails: fewer sentences; "giraffes", which upstream accepts.
    Not covered: inflected forms.
    """
    sentences = select_sentences(text, compat)
    if not 1 <= N <= len(sentences):
        return False, f"{len(sentences)} sentences found, so there is no sentence {N}"
    sentence = sentences[N - 1]
    count = count_within(sentence, word) if compat == "upstream" else count_word(sentence, word)
    return count > 0, f"{word!r} {'is' if count else 'is not'} in sentence {N}"


@ifbench("sentence:increment", version=2)
def increment(text: Text, *, small_n: Count, compat: Compat = "fixed") -> Answer:
    """Each sentence has exactly `small_n` words more than the one before.

    Passes: "I sing. You all dance." for 1.
    Fails: any other step; a single sentence, which upstream passes.
    Not covered: headings and list items, which count as sentences.
    """
    sizes: list[int] = []
    for sentence in select_sentences(text, compat):
        is_public = compat == "upstream"
        words = remove_punctuation(sentence).split() if is_public else Text(sentence).words
        sizes.append(len(words))
    if len(sizes) < 2 and compat == "fixed":
        return False, "fewer than two sentences found"
    is_right = all(next_size - size == small_n for size, next_size in pairwise(sizes))
    return is_right, f"the sentences have {sizes[:20]} words, each {small_n} more required"
