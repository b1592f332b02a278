"""What a sentence denies: "Profits did not rise" denies the rise; "not only did they rise" denies nothing.

>>> [denial] = find_denials("The board did not approve the merger.")
>>> denial.denies("The board approved the merger.")
True
>>> [denial] = find_denials("The board did not hesitate to approve the merger.")
>>> denial.denies("The board approved the merger.") is None
True
>>> find_denials("It is a no-brainer. 彼は必ず来ます。")
[]

A word of denial is called a cue. A sentence with a cue may deny a claim, or something else. It denies the claim for
sure if the cue stands next to a word of the claim: before "approve" or 批准, or (Japanese, Korean, Turkish, Hindi)
behind 完成し. Only small words (articles, auxiliaries, prepositions, pronouns) may stand between them. With any other
word between them ("not infrequently approved", "nicht eben langsam"), with a second cue, or after "or" ("believe it or
not") the meaning depends on the expression: the answer is None, and verifiers report a missing verdict.

A narrow denial denies only the words next to the cue: "Profits rose without delay" and "Profits not rarely rose" say
that they rose.

All words are in data/denial_words.tsv, by language and kind. These are the kinds:

    cue before           denies what follows                       not, never, failed to, 没有
    cue behind           denies what precedes                      … is false, नहीं, 않
    narrow cue before    denies only the next words                without, sans
    narrow cue behind    denies only the last words before it      없이, せず
    uncertain cue        may deny, but never decides alone         ne, aucun
    no denial            contains a cue and denies nothing         not only, no doubt, 必ず
    denied alone         right after a cue, it is denied alone     (not) rarely, (not) for
    small word           may stand between cue and denied word     the, was, of
    weakens cue          after it a cue may deny nothing           (believe it) or (not)
    yielding verb        if denied, what follows may be true       (did not) hesitate (to)

`find_denials` takes these steps: blank expressions that are no denial; split the sentence into clauses; in each clause,
find the narrow denials and blank them; then look for a cue that denies the whole clause.

Not covered: languages without words in the table; denials by an ending (Turkish onaylamadı); irony, doubt ("might"),
opposites ("fell" for "rose").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import NamedTuple

from rubrank._plain import word_set
from rubrank.verifiers.shared.language import detect_language, get_script
from rubrank.verifiers.shared.word_tables import read_table, write_pattern

_MOST_CHARACTERS = 2_000  # of a sentence; what is longer is a list or code, and only costs time
_MOST_WORDS = (
    100  # of a claim or a clause, because each word of one is compared with each of the other
)
_LEAST_CONFIDENCE = 0.5  # below it, Latin letters are read as English
_NEARBY = 30  # characters before a cue that are searched for the last word: the longest words have about as many
# Likeness by difflib, 0 to 1. From _SAME_STEM on, two words differ in their endings only: approve and approved have
# 0.93, open and opened 0.8. From _MAYBE_SAME_WORD on, they may be forms of one word: rise and rose have 0.75. Meet and
# merger have 0.6, though; so the rest of the clause must speak of the claim, too.
_SAME_STEM = 0.8
_MAYBE_SAME_WORD = 0.6
_IDEOGRAPH = re.compile("[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Denial:
    """A word of denial in a sentence, and the words around it."""

    part: str
    """The clause, or the cue of a narrow denial and its words, as they stand in the sentence."""
    denied: str
    """What is denied, if anything is: the words behind the cue, or before it (Japanese, Korean)."""
    language: str
    is_narrow: bool = False
    """Only `denied` is denied: "without delay"."""
    is_behind: bool = False
    """The cue stands behind what it denies."""
    is_unclear: bool = False
    """It cannot be told whether anything is denied: two cues, "or not", a cue in the middle of a Japanese clause."""
    denies_verb: bool = False
    """An English verb is denied: "did not open", "was not signed"."""

    def denies(self, claim: str) -> bool | None:
        """Is the claim denied? None if that cannot be told: the cue may belong to an expression beside the claim.

        The decision depends on the denied word that is nearest to the cue:

            denial                            claim                  nearest    result
            "did not approve the merger"      "approved the merger"  approve    True: a form of "approved"
            "did not go home"                 "went home"            go         True: nothing else in the clause
                                                                                can stand for "went"
            "did not hesitate to approve it"  "approved it"          hesitate   None: "approve" is in the clause
        """
        small_words = _read_phrases(self.language, "small word")
        if self.is_narrow:
            if self.language in ("zh", "ja"):
                is_in_claim = bool(self.denied) and self.denied.rstrip("はがをにでとも") in claim
            else:
                words = [word for word in _split_words(self.denied) if word not in small_words]
                is_in_claim = bool(words) and words[0] in _split_words(claim)
            return None if is_in_claim and self.is_unclear else is_in_claim
        if self.is_unclear:
            return None
        if self.language in ("zh", "ja"):
            return True if self._is_cue_beside(claim) else None

        words = _split_words(self.denied)
        if self.is_behind:
            words.reverse()
        # If there are only small words, the first of them is the nearest.
        nearest = next((word for word in words if word not in small_words), "".join(words[:1]))
        claim_words = _split_words(claim)[:_MOST_WORDS]
        if nearest in claim_words:
            return True

        # The nearest word may be another form of a lost word: one of the claim that the clause does not have.
        clause_words = _split_words(self.part)[:_MOST_WORDS]
        important_words = [word for word in claim_words if word not in small_words]
        lost_words = [word for word in important_words if word not in clause_words]
        likenesses = [_measure_likeness(nearest, word, self.language) for word in lost_words]
        likeness = max(likenesses, default=0.0)
        if likeness >= _SAME_STEM:
            return True
        if 2 * len(lost_words) > len(important_words):
            return None  # the clause is about something else
        if likeness >= _MAYBE_SAME_WORD:
            return True
        if not self.denies_verb:
            return None

        # An irregular verb: the denied verb stands for a lost word that no word of the clause is a form of.
        for word in lost_words:
            likenesses = [
                _measure_likeness(clause_word, word, "en") for clause_word in clause_words
            ]
            if max(likenesses, default=0.0) < _MAYBE_SAME_WORD:
                return True
        return None

    def _is_cue_beside(self, claim: str) -> bool:
        """Is what stands next to the cue in the claim? Japanese verbs may change all but their ideograph."""
        denied = self.denied
        if self.language == "ja":
            if denied[-2:] and denied[-2:] in claim:
                return True
            # The ideograph of a verb stands among the last characters before the cue: 食べられ(ない).
            return any(_IDEOGRAPH.match(sign) and sign in claim for sign in denied[-5:])
        small_words = _read_phrases("zh", "small word")
        # A Chinese word mostly has two characters.
        while denied and denied[:2] not in claim and denied[0] in small_words:
            denied = denied[1:]
        return bool(denied) and denied[:2] in claim


def _split_words(text: str) -> list[str]:
    """Split a text into words without case, elided articles (l'usine) and punctuation."""
    words = (word.strip('.,;:!?"()«»“”„*_-–—।،') for word in re.split(r"[\s'’]+", text.casefold()))
    return [word for word in words if word]


def _measure_likeness(left: str, right: str, language: str) -> float:
    """Measure how alike two words are, 0 to 1. Korean verbs keep their first syllable (사임했다, 사임하지)."""
    if language == "ko":
        return _MAYBE_SAME_WORD if left[:1] == right[:1] else 0.0
    if min(len(left), len(right)) < 4:
        return 0.0
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


# ---- denials of a sentence -------------------------------------------------------------------------------------------


def find_denials(sentence: str, language: str | None = None) -> list[Denial]:
    """Return the denials of a sentence, clause by clause. `language` if it is known."""
    sentence = sentence[:_MOST_CHARACTERS]
    language = language or _find_language(sentence)
    masked = mask_expressions(sentence, language)
    denials = []
    separators = [separator.span() for separator in _CLAUSE_BREAK.finditer(masked)]
    starts = [0, *(end for _, end in separators)]
    ends = [*(start for start, _ in separators), len(masked)]
    for start, end in zip(starts, ends, strict=True):
        clause = masked[start:end]
        for narrow in _find_narrow_denials(clause, language):
            part = sentence[start + narrow.start : start + narrow.end].strip()
            denials.append(
                Denial(
                    part,
                    narrow.denied.strip(),
                    language,
                    is_narrow=True,
                    is_unclear=narrow.is_unclear,
                )
            )
            # Its words are blanked, so that they are not read once more as the denial of the whole clause.
            blanks = " " * (narrow.end - narrow.start)
            clause = clause[: narrow.start] + blanks + clause[narrow.end :]
        denial = _find_clause_denial(sentence[start:end].strip(), clause, language)
        if denial:
            denials.append(denial)
    return denials


# What separates clauses: punctuation, and words such as "but"
_CLAUSE_BREAK = re.compile(
    # A comma before "that" ends no clause: "Es stimmt nicht, dass …".
    r",(?!\s*(?:dass|daß|что|що|że|že|dat|att|at)\b)|[;:，；：、。.!?！？]"
    r"|\b(?:(?<!anything )but|while|whereas|although|though|however|yet|because|since|which|who"
    r"|mais|pero|sino|aber|sondern|mas|ma|но|а)\b|但是?|而是|然而|却|虽然|因为|所以",
    re.IGNORECASE,
)


# What may follow a cue that stands at the end of a clause: closing marks, and the Japanese copula (です)
_CLAUSE_END = re.compile(r"(?:です|でした|だ|のだ|のです|んだ|んです)?[\s\"”」』)）*_]*\Z")


def _find_clause_denial(part: str, clause: str, language: str) -> Denial | None:
    """Return the denial of a whole clause; None if there is none.

    `part` is the clause, `clause` the same with blanks for expressions that deny nothing.
    """
    cues = _find_cues(language, "cue before", clause)
    if cues:
        return _read_denial_before(part, clause, language, cues)
    cues = _find_cues(language, "cue behind", clause)
    if cues:
        rest = clause[cues[0].end() :]
        if language == "hi":
            is_last = True  # the verb or its auxiliary follows
        elif language == "ko":
            is_last = " " not in rest.strip()
        else:
            is_last = _CLAUSE_END.match(rest) is not None
        denied = clause[: cues[0].start()].strip()
        is_unclear = len(cues) > 1 or not is_last
        return Denial(part, denied, language, is_behind=True, is_unclear=is_unclear)
    if _find_cues(language, "uncertain cue", clause):
        return Denial(part, "", language, is_unclear=True)
    return None


# Languages in which two different words of denial deny once: "no abre nunca", "никогда не".
_NEGATIVE_CONCORD = word_set("fr es pt it ru uk pl cs")
# Languages in which a word of denial may stand at the end: "Das Museum öffnet nicht."
_CUE_AT_END = word_set("de nl sv da no")


def _read_denial_before(part: str, clause: str, language: str, cues: list[re.Match[str]]) -> Denial:
    """Return the denial by cues that stand before what they deny."""
    texts = [cue[0].casefold() for cue in cues]
    is_double = len(cues) > 1
    if language in _NEGATIVE_CONCORD:
        is_double = len(set(texts)) < len(texts)  # "не мог не"
    is_weakened = any(_is_weakened(clause, cue, language) for cue in cues)
    cue = cues[-1]
    denied = clause[cue.end() :].strip()
    # "Er wusste nicht, dass …" tells what is so; "Es stimmt nicht, dass …" does not.
    is_before_that = denied.startswith(",") and " " not in cue[0]
    is_at_end = not denied and language in _CUE_AT_END
    if is_at_end:
        denied = clause[: cue.start()].strip()
    return Denial(
        part,
        denied,
        language,
        is_behind=is_at_end,
        is_unclear=is_double or is_weakened or is_before_that,
        denies_verb=language == "en" and _is_verb_denied(clause, cue),
    )


def _is_weakened(clause: str, cue: re.Match[str], language: str) -> bool:
    """Is the word before the cue one after which it may deny nothing: "believe it or not", "if not"?"""
    nearby = clause[max(0, cue.start() - _NEARBY) : cue.start()].casefold().rstrip()
    last_words = [nearby[-1:], nearby[-2:]] if language == "zh" else nearby.split()[-1:]
    return not _read_phrases(language, "weakens cue").isdisjoint(last_words)


# An auxiliary right before a cue, which then denies a verb: "did (not) often rise". Elsewhere "not often" is denied
# alone.
_AUXILIARY = re.compile(
    r"\b(?:do|does|did|is|are|was|were|am|be|been|has|have|had|will|would|can|could|may|might|shall|should|must)\s+\Z",
    re.IGNORECASE,
)
# "did " before "not", or the cue "didn't"; not "redo "
_DO = re.compile(r"\b(?:do|does|did)(?:\s+\Z|n['’]t\Z)", re.IGNORECASE)


def _is_verb_denied(clause: str, cue: re.Match[str]) -> bool:
    """Is an English verb denied: "did not open", "was not signed"; not "did not hesitate", "was not uninterested"?"""
    small_words = _read_phrases("en", "small word")
    words = (word for word in _split_words(clause[cue.end() :]) if word not in small_words)
    verb = next(words, "")
    denied_alone = _compile_phrases("en", "denied alone")
    if not verb or (denied_alone and denied_alone.fullmatch(verb)):
        return False
    if verb in _read_phrases("en", "yielding verb"):
        return False
    is_contracted = cue[0].casefold().endswith(("n't", "n’t"))
    before = clause[: cue.start()]
    if _DO.search(cue[0] if is_contracted else before):
        return True
    has_auxiliary = is_contracted or cue[0].casefold() == "cannot" or _AUXILIARY.search(before)
    if not has_auxiliary:
        return False
    return verb.endswith(("ed", "ing")) and not verb.startswith(("un", "in", "im", "dis"))


# ---- narrow denials --------------------------------------------------------------------------------------------------

# Cues of one word, which may deny the next word alone: "not rarely"; not "failed to"
_LONE_CUES = word_set(
    "not no nicht pas não non не ні nie niet inte ikke ne tidak tak bukan không chẳng لا ليس غير"
)
# The words behind a cue that it denies: up to two words of at most three letters, then one word ("any hesitation") or
# a name ("the Royal Bank"). Of "delay or fuss" it is only "delay".
_NEXT_WORDS = re.compile(
    r"\s*(?:[^\W\d_]{1,3}\s+){0,2}(?:[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*){0,3}|[\w'’-]+)"
)
# The same in Chinese, where a word mostly has two characters
_NEXT_CHARACTERS = re.compile(r"\w{1,2}")
# The words before a cue that it denies: one word (Korean 동의), or characters up to a particle and this particle
# (Japanese 許可を, but not all of 彼は許可を).
_LAST_WORDS = re.compile(r"\S+\s*\Z")
_LAST_CHARACTERS = re.compile(r"[^はがをにでともの\s]{1,8}[はがをにでとも]?\Z")


class _NarrowDenial(NamedTuple):
    """A cue that denies only a few words, and where it stands with them in its clause."""

    start: int
    end: int
    denied: str
    is_unclear: bool = False
    """Whether the words are denied at all cannot be told."""


def _find_narrow_denials(clause: str, language: str) -> list[_NarrowDenial]:
    """Find where only a few words are denied: "without delay", "not rarely", 동의 없이."""
    denials = []
    next_pattern = _NEXT_CHARACTERS if language == "zh" else _NEXT_WORDS
    for cue in _find_cues(language, "narrow cue before", clause):
        next_words = next_pattern.match(clause, cue.end())
        end = next_words.end() if next_words else cue.end()
        denials.append(_NarrowDenial(cue.start(), end, clause[cue.end() : end]))
    denied_alone = _compile_phrases(language, "denied alone")
    for kind in ("cue before", "uncertain cue"):
        for cue in _find_cues(language, kind, clause):
            is_verb_denied = language == "en" and _AUXILIARY.search(clause[: cue.start()])
            next_words = _NEXT_WORDS.match(clause, cue.end())
            if is_verb_denied or next_words is None or cue[0].casefold() not in _LONE_CUES:
                continue
            rest = clause[cue.end() :]
            # The last word belongs to the verb: "zieht das Meer nicht an".
            is_last = language in _CUE_AT_END and len(rest.split()) == 1
            if denied_alone and not is_last and denied_alone.match(rest.lstrip()):
                is_unclear = kind == "uncertain cue" or _is_weakened(clause, cue, language)
                denials.append(
                    _NarrowDenial(cue.start(), next_words.end(), next_words[0], is_unclear)
                )
    last_pattern = _LAST_WORDS if language == "ko" else _LAST_CHARACTERS
    for cue in _find_cues(language, "narrow cue behind", clause):
        # The patterns match at the end of a text, so it is cut at the cue.
        nearby = clause[max(0, cue.start() - _NEARBY) : cue.start()]
        last_words = last_pattern.search(nearby)
        denied = last_words[0] if last_words else ""
        denials.append(_NarrowDenial(cue.start() - len(denied), cue.end(), denied))
    return denials


# ---- the table of words ----------------------------------------------------------------------------------------------


@cache
def _read_phrases(language: str, kind: str) -> frozenset[str]:
    """Return the phrases of one kind in a language (see data/denial_words.tsv)."""
    lines = [row[2] for row in read_table("denial_words") if row[:2] == (language, kind)]
    return frozenset(phrase for line in lines for phrase in line.split(", "))


@cache
def _compile_phrases(language: str, kind: str) -> re.Pattern[str] | None:
    """Compile a pattern for the phrases of one kind in a language; None if it has none."""
    phrases = _read_phrases(language, kind)
    if not phrases:
        return None
    # A hyphen makes another word: "no-brainer", "non-profit".
    return re.compile(write_pattern(phrases, not_beside=r"\w-"), re.IGNORECASE)


def _find_cues(language: str, kind: str, clause: str) -> list[re.Match[str]]:
    """Return where the phrases of one kind stand in the clause."""
    pattern = _compile_phrases(language, kind)
    return list(pattern.finditer(clause)) if pattern else []


_LANGUAGES = frozenset(language for language, _, _ in read_table("denial_words"))


def _find_language(sentence: str) -> str:
    """Return the language of the sentence; English if the letters are Latin and it cannot be told."""
    language, confidence = detect_language(sentence)
    is_known = confidence >= _LEAST_CONFIDENCE and language in _LANGUAGES
    return language if is_known or get_script(language) != "Latin" else "en"


# A Chinese adverb of manner, 不可否认地: it ends with 地, which is no part of a noun (当地, 地区), and denies nothing
# unless it begins with a verb (不能顺利地).
_CHINESE_ADVERB = re.compile(
    "(?!不能|不会|不會|不是|不再|不曾|不愿|不肯|不想|不应|不该|不可能|不打算|未能|未曾|无法|無法|没有|沒有)[不无無未]"
    "[^，。；：、\\s]{1,5}(?<![当當土本各外基产產场場陆陸内內草园園工耕圣聖属屬民])地"
    "(?![区區方点點址产產铁鐵下上球图圖位名板])"
)


def mask_expressions(sentence: str, language: str | None = None) -> str:
    """Return the sentence with blanks for expressions that only look like denials; other letters keep their place."""
    language = language or _find_language(sentence)
    expressions = _compile_phrases(language, "no denial")
    if expressions:
        sentence = expressions.sub(lambda match: " " * len(match[0]), sentence)
    if language == "zh":
        sentence = _CHINESE_ADVERB.sub(lambda match: " " * len(match[0]), sentence)
    return sentence
