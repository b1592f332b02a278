"""Sentences and words as the public checkers count them, without their trained data.

The checkers of IFEval split sentences with an unsupervised model (Kiss and Strunk, 2006) and words with the
conventions of the Penn Treebank. What they do is known; their data is not needed for it: a full stop, question mark or
exclamation mark ends a sentence at the end of a word, unless the word is an abbreviation, an initial before a name, an
ellipsis, or a number before a small letter. Line breaks end nothing, and a curly quote after the full stop hides it.

    >>> count_sentences("Dr. No? Yes! It cost 3.50. **Done.**")
    5

That is five because `**` after the last full stop stands alone: a quirk worth keeping when verdicts are compared. Not
covered: the model's statistics of which words begin sentences; common ones stand in for them (`_STARTERS`).
"""

from __future__ import annotations

import re

from rubrank._plain import word_set

_AFTER = frozenset("?!)\";}]*:@'({[")  # what may follow the end of a sentence without a space
_CLOSING = frozenset("\"')]}")  # what then still belongs to the sentence
_NOT_IN_WORD = re.compile(r"[?!)\";}\]*:@'({\[]|--")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.\-]*")
_WORD = re.compile(r"[^\W\d_]+")


_ENGLISH = word_set(
    "mr mrs ms messrs dr drs prof rev hon sen sens rep reps gov gen col lt capt cmdr maj sgt adm st ste jr sr esq "
    "inc ltd co cos corp bros dept univ assn vs no nos vol fig jan feb mar apr jun jul aug sep sept oct nov dec "
    "mon tues wed thurs fri ave blvd rd mt ft a.m p.m u.s u.k u.n u.s.a n.y n.j d.c l.a ph.d m.d b.a m.a b.c a.d "
    "ala ariz ark calif colo conn del fla ga ill ind kan ky la mass md mich minn miss mo mont neb nev okla ore pa "
    "tenn tex va vt wash wis wyo e.u r.i s.c n.c n.h n.m w.va"
)
_FRENCH = word_set(
    "m mm mr mme mmes mlle mlles dr dre drs dres prof pr me mgr st ste cap lt col gén etc cf vs rép i.e c.-à-d ex e.g "
    "apr av j.c j.-c a.d env janv févr fév mar avr juil sept oct nov déc svp p.v tél adj q.v p pp resp tel v vol art "
    "nb n.b p.s ps p.p.s p.-s p-s no n.d.l.r bd boul éd fig"
)
_ABBREVIATIONS = {"en": _ENGLISH, "fr": _FRENCH}

_STARTERS = {
    "en": word_set(
        "the this that these those there they their he she his it its in on at if as and but so for we you i what when "
        "while where however moreover meanwhile although though because since some many most one another "
        "such even also then now still yet instead despite according after before during with without under"
    ),
    "fr": word_set(
        "le la les l il elle ils elles on nous vous je ce cette ces cet cela c un une des du de en dans mais et or "
        "donc car pour par sur si quand comme alors ainsi cependant toutefois pourtant enfin puis après avant selon"
    ),
}


def count_sentences(text: str, language: str = "en") -> int:
    """Sentences in the manner of the public checkers."""
    tokens = text.split()
    last = len(tokens) - 1
    breaks, rest = 0, bool(tokens)
    for i, token in enumerate(tokens):
        if "." not in token and "?" not in token and "!" not in token:
            rest = True
            continue
        end = _end_within(token, i == last)
        if end < 0 or not _is_break(token[:end], token[end:], tokens[i + 1] if i < last else "", language):
            rest = True
            continue
        breaks += 1
        rest = not _CLOSING.issuperset(token[end:])
    return breaks + rest


def _end_within(token: str, is_last: bool) -> int:
    """Where a sentence could end in the token: after its last end mark that something may follow; -1 if nowhere."""
    for at in range(len(token) - 1, -1, -1):
        if token[at] in ".?!" and (token[at + 1] in _AFTER if at + 1 < len(token) else not is_last):
            return at + 1
    return -1


def _is_break(before: str, after: str, following: str, language: str) -> bool:
    if "?" in before or "!" in before:
        return True
    word = _NOT_IN_WORD.split(before)[-1].lstrip("-#&,;`")
    next_word = "" if after else following
    if word.endswith(".."):
        return _starts_sentence(next_word, language)
    kind = word[:-1].lower()
    if _NUMBER.fullmatch(kind):
        return not next_word[:1].islower()
    known = _ABBREVIATIONS.get(language, _ENGLISH)
    if len(kind) == 1 and kind.isalpha():
        return kind not in known and not _goes_on(next_word, language)
    return not (kind in known or kind.rpartition("-")[2] in known) or _starts_sentence(next_word, language)


def _starts_sentence(word: str, language: str) -> bool:
    """Is it a capitalised word that often opens a sentence?"""
    if not word[:1].isupper():
        return False
    first = _WORD.match(word)
    return first is not None and first[0].lower() in _STARTERS.get(language, _STARTERS["en"])


def _goes_on(word: str, language: str) -> bool:
    """Does the word continue the sentence after an initial: a small letter, or a name?"""
    return word[:1].islower() or (word[:1].isupper() and not _starts_sentence(word, language))


# What separates words whatever stands beside it; a comma or colon before a digit does not ("1,000", "9:30").
_APART = re.compile(r"[\s\"«»“”„‘’`;@#$%&?!\[\](){}<>]+|\.\.\.|--|''|[:,](?!\d)")
_TAIL = re.compile(r"(?s:.)('[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)")
_TWO_WORDS = frozenset(("CANNOT", "GIMME", "GONNA", "GOTTA", "LEMME", "WANNA"))


def count_capital_words(text: str) -> int:
    """Treebank words in capitals: `DON'T` and `CANNOT` are two each, `I` is one, `**NOTE:**` is one."""
    return sum(map(_capitals, _APART.split(text)))


def _capitals(piece: str) -> int:
    if not piece or piece.islower():
        return 0
    if "'" in piece:
        piece = piece.strip("'")
        for size in (2, 3):
            if _TAIL.fullmatch(piece[-size - 1 :]):
                return int(piece[:-size].isupper()) + int(piece[-size:].isupper())
    return (2 if piece.strip("*_.-,") in _TWO_WORDS else 1) if piece.isupper() else 0
