"""Does a sentence claim the truth? "The capital of France is Paris." claims Paris; "It is not Paris" does not.

>>> claims("The capital of France is Paris.", "Paris"), claims("Some say Paris, but it is Lyon.", "Paris")
(True, False)

A claim is the truth in one of two places: at the end of a clause behind a word for "is" (or a colon), or at the
beginning of the sentence before one. What is denied, hedged ("Paris or Lyon"), or only mentioned is no claim.

If the question is known, more counts: a truth that the question does not name, and that nothing in its sentence denies,
hedges, compares or sets beside others ("Lady Gaga performed the halftime show in 2017.").
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from functools import cache

from rubrank._plain import clean, word_list, word_set
from rubrank.texts.sentences import split_sentences
from rubrank.verifiers.paper.language import load_converter
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.statements import ALTERNATIVE, RETRACTION, is_denied
from rubrank.verifiers.shared.word_tables import read_table

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_LONGEST = 600  # characters of a sentence that may claim something


def normalise(text: str) -> str:
    """The text without case, width, punctuation, articles, and in Simplified characters."""
    text = unicodedata.normalize("NFKC", clean(text)).casefold()
    if not text.isascii():
        text = load_converter("t2s").convert(text)
    letters = ""
    for char in text.replace("'", ""):
        letters += char if char.isalnum() or unicodedata.category(char)[0] in "SM" else " "
    without_articles = " ".join(_ARTICLES.sub(" ", letters).split())
    return without_articles or " ".join(letters.split()) or text.strip()


# Words for "is" and the like, and the signs that stand for them; what follows may be claimed.
_IS = (
    r"(?:\b(?:is|are|was|were|be|been|being|it['’]?s|that['’]?s|he['’]?s|she['’]?s|named|called|as|means?"
    r"|equals?|became"
    r"|est|sont|était|c['’]est|s['’]appelle|es|son|era|fue|se llama|é|são|foi|chama-se|è|sono|fu|si chiama|ist|sind|war"
    r"|heißt|lautet|was|heet|är|var|heter|er|on|oli|to|jest|był|była|je|byl|är|este|dır|adalah|ialah|là|ni|είναι"
    r"|это|является|называется|был|была|has|have|had|get|gets|got|find|obtain|contains?|wrote|by|in|at|on|during)"
    r"|[은는이가](?=\s)|是|为|為|叫做?|名叫|称为|等于|即|乃|は|が|คือ|هي|هو|היא|הוא|[:：=＝—–→-])"
)
# Small words and marks that may stand between "is" and the truth: "is certainly the city of **".
_SMALL = (
    r"(?:[\s*_\"“‘'`「『《«(（$]|\b(?:the|a|an|of|city|town|called|named|definitely|certainly|likely|probably|clearly"
    r"|indeed|actually|therefore|thus|la|le|les|el|los|las|il|lo|der|die|das|den|o|os|as|un|une|una|ein|eine|um|uma|het"
    r"|de|d['’]|l['’]|approximately|about|simply|just|obviously|known as)\b)*"
)
_CLAIM_BEFORE = re.compile(rf"{_IS}{_SMALL}\Z", re.IGNORECASE)
# What it is may stand before its name: "is the German composer …", 是唐代诗人….
_DESCRIBED_BEFORE = re.compile(
    r"\b(?:is|was|are|were|est|es|é|è|ist|war)\s+(?:the|a|an|la|le|el|il|o|der|die|das|un|une|una|ein"
    r"|eine)\s+(?:(?!(?:not|or|and|than"
    r"|of|from|to|near|outside|like|unlike|before|after|without|with|for|by|but|no|ou|oder|et|und|de"
    r"|von)\b)[^\W\d_]+\s+){1,4}\Z"
    r"|(?:是|为)[^，。；、！？或和与及不非没比跟同,.;\s]{1,10}\Z",
    re.IGNORECASE,
)
# Nothing but marks, "so" or "therefore", and small words stands before the truth.
_START_BEFORE = re.compile(
    rf"\A[\s*_\"“‘'`「『《«(（#>-]*(?:(?:so|therefore|thus|hence|well|yes|sure|okay|因此|所以|那么|由此可见"
    rf"|よって|따라서)"
    rf"[\s,，:：]*)?{_SMALL}\Z",
    re.IGNORECASE,
)
_CLOSE = r"[\s*_\"”’'`」』》»)）$]*"
# The clause ends behind the truth: with the text, a full stop, or a word that begins another clause.
_END = re.compile(
    rf"{_CLOSE}(?:\Z|[.。．!！;；\n?？](?:\W|\Z)|[.。．!！;；]|です|だ(?!\w)|である|でした|입니다|이다|예요"
    rf"|이에요|है|है।|dir\b|dır\b|dur\b"
    r"|(?:[,，、]?\s*(?:because|since|as|which|who|whose|where|for|so|and it|and the|given|due|with|in|on|at"
    r"|from|not|rather"
    r"|instead|but|although|though|whereas|while|by|parce|car|puisque|qui|où|en|porque|pois|ya que|que|weil|da"
    r"|denn|das|die"
    r"|perché|che|потому|который|так как|поскольку)\b)|[,，]?\s*(?:因为|由于|而不是|而非|不是|它|其|这|位于|なぜなら))",
    re.IGNORECASE,
)
# Behind the truth as the subject: "Paris is …", "Newton discovered …", 鲁迅写的.
_COPULA_AFTER = re.compile(
    rf"{_CLOSE}(?:\s(?:is|are|was|were|has|had|est|es|é|è|ist|war|är|er|jest|adalah|là|это)\b|\s?[—–:：]\s|是|为"
    r"|は|が|[写作创著发画唱导建][^，。]{0,3}的"
    r"|이|가|은|는|\s(?:wrote|discovered|invented|painted|won|became|founded|composed)\b)",
    re.IGNORECASE,
)
# The sentence only supposes or reports: "might", "some say", "used to be".
_DOUBT = re.compile(
    r"\b(?:either|might|may be|could be|perhaps|not sure|unsure|whether|i guess|maybe|some (?:say|think|believe|claim)"
    r"|people (?:say|think)"
    r"|many (?:say|think|believe)|often (?:said|thought|confused)|commonly (?:said|thought)|if |unless|doubt"
    r"|used to be|formerly|was once|no longer|as "
    r"opposed|peut-être"
    r"|quizás?|tal vez|vielleicht|entweder|talvez|forse|возможно|может быть|或许|也许|可能|有人说|有人认为"
    r"|かもしれ|어쩌면|아마)",
    re.IGNORECASE,
)


def claims(answer: str, truth: str, question: str = "") -> bool:
    """Does the first or the last sentence claim the truth, and nothing take it back?"""
    sentences = [
        sentence for sentence in split_sentences(answer) if any(map(str.isalnum, sentence))
    ]
    if not sentences or _numbers_another(answer[:4000], truth, question):
        return False
    if _sentence_claims(sentences[-1], truth, question):
        return True
    later = " ".join(sentences[1:])[:4000]
    if RETRACTION.search(later):
        return _mentions(sentences[-1:], truth, question)
    if _sentence_claims(sentences[0], truth, question):
        return True
    return _mentions(list(dict.fromkeys([*sentences[:2], *sentences[-1:]])), truth, question)


def _numbers_another(answer: str, truth: str, question: str) -> bool:
    """Does the answer offer another number for the same thing: "section 107 … section 144 was used, too"?

    The thing must be named in the question. Years are left out: an answer may tell what happened in other years.
    """
    truth = truth.strip(" .。")
    if not truth.isdigit() or len(truth) == 4:
        return False
    question_words = {word for word, _, _ in _split_words(question)}
    numbered = [(_fold_accents(noun), number) for noun, number in _NUMBERED.findall(answer)]
    nouns = [
        noun
        for noun, number in numbered
        if number == truth and any(_share_stem(noun, w) for w in question_words)
    ]
    for noun, number in numbered:
        if (
            number != truth
            and number not in question_words
            and any(_share_stem(noun, other) for other in nouns)
        ):
            return True
    return False


def _sentence_claims(sentence: str, truth: str, question: str) -> bool:
    sentence = _simplify(sentence[:_LONGEST])
    truth = _simplify(truth).strip(" .。")
    if not truth or _DOUBT.search(sentence):
        return False
    if truth.isdigit() and question and _has_rival_number(sentence, [truth], question):
        return False
    if truth.isdigit() and re.search(
        rf"(?<!\d){truth}\.\s[^\W\d_]", sentence
    ):  # "3. března": a day or an ordinal
        return False
    # The truth as whole words; its own words may be joined by hyphens.
    left = r"(?<!\w)" if _is_spaced(truth[0]) else ""
    right = r"(?!\w)" if _is_spaced(truth[-1]) else ""
    words = r"[\s\-‐]+".join(map(re.escape, truth.replace("-", " ").split()))
    matches = itertools.islice(re.finditer(left + words + right, sentence), 20)
    return any(_is_claim(sentence, match.start(), match.end(), question) for match in matches)


def _simplify(text: str) -> str:
    text = unicodedata.normalize("NFKC", clean(text))
    if not text.isascii():
        text = load_converter("t2s").convert(text)
    return " ".join(text.casefold().split())


def _is_spaced(char: str) -> bool:
    """Is it a letter of a script that puts spaces between words?"""
    if "\u0e00" <= char <= "\u0e7f" or "\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af":
        return False
    return char.isalnum()


def _is_claim(sentence: str, start: int, end: int, question: str) -> bool:
    """Is what stands at this place claimed? It must end a clause behind "is", or begin the sentence before it."""
    before = sentence[:start]
    after = sentence[end:]
    if is_denied(sentence, start) or _NOT.match(after) or _is_hedged(before, after):
        return False
    ends_clause = _END.match(after) is not None or _is_apposition(after, question)
    is_named = _CLAIM_BEFORE.search(before[-80:]) or _DESCRIBED_BEFORE.search(before[-120:])
    if is_named and ends_clause:
        return True
    begins_sentence = _START_BEFORE.match(before) is not None
    return begins_sentence and (_COPULA_AFTER.match(after) is not None or ends_clause)


# A denial right behind the truth: "Paris is not …", 巴黎不是.
_NOT = re.compile(
    rf"{_CLOSE}\s*(?:(?:is|was|are|were|has|would|does|did)\s?(?:not|n['’]t)\b|isn['’]?t|wasn['’]?t|n['’]est pas"
    rf"|no (?:es|fue)\b"
    r"|não (?:é|foi)\b|non (?:è|fu)\b|ist (?:nicht|falsch)|is (?:niet|geen|wrong|incorrect|false)|не\b|不是|并非"
    r"|不对|ではな|じゃな|[가이은는] 아[니닙]"
    r"|değil|bukan|không phải|नहीं|\?)",
    re.IGNORECASE,
)


def _is_hedged(before: str, after: str) -> bool:
    """Is another result offered beside it: "X or Y", "Y or X", "X/Y"?"""
    if ALTERNATIVE.match(after.lstrip("*_\"”’'`」』》» )）")):
        return True
    return re.search(rf"(?:{ALTERNATIVE.pattern})\Z", before[-30:], re.IGNORECASE) is not None


_SMALL_WORDS = word_set("""
    the a an which who la le el der die das il o su son its it they he she of i naturally obviously
""")


def _is_apposition(after: str, question: str) -> bool:
    """ ", the capital of …": a comma and small words; or a comma and a name that the question itself gives."""
    match = re.match(rf"{_CLOSE}[,，]\s*([^,，.。;；!?]{{1,80}})", after)
    if match is None:
        return False
    phrase = match[1].strip().casefold()
    if phrase.split(maxsplit=1)[:1] and phrase.split(maxsplit=1)[0] in _SMALL_WORDS:
        return True
    return len(phrase) > 2 and phrase in _simplify(question)


# ---- mentions in answers to a known question -----------------------------------------------------------------------

_MOST_WORDS = 400
_DROPPED = word_set("a an the The")  # "A" may be a name
# Words of denial anywhere in the clause.
_NEGATION = re.compile(
    r"\b(?:not|never|neither|nor|cannot|without|except|excluding|instead|rather|unlike|incorrect\w*|wrong\w*|false\w*"
    r"|mistaken\w*|unknown|unclear|unable|sorry|nicht|keine?[rnms]?|pas|jamais|não|nunca|никогда|не|нет|není|nebyl\w*"
    r"|nejsou|nejsem|nelze|nemohu|nie|niet|geen|inte|ikke|değil|bukan|không)\b|n['’]t\b"
    r"|不是|并非|並非|而非|没有|沒有|不属于|不在|无法|不清楚|ではな|じゃな|아니",
    re.IGNORECASE,
)
# What stands before a thing that is only compared with, or only helps to find another.
_RELATED = re.compile(
    r"(?:\b(?:than|near|unlike|like|outside|besides|beside|versus|vs|against|between|before|after|from|alongside|beyond"
    r"|(?:north|south|east|west|outside|instead|ahead|because|regardless) of|similar to|compared (?:to|with)"
    r"|relative to|als|que|mezi|než|nedaleko|poblíž|po|před)|比|像|除了|不同于|相比)[\s\"“'‘「《(*_]*\Z",
    re.IGNORECASE,
)
# A capital letter or a digit follows at once, so that the name or number may go on.
_NEXT_NAME = re.compile(r"(?:[\s'’]{1,2}|-|‐|\.)(?:[A-ZÀ-ÖØ-ÞА-Я]|\d)")
_START = re.compile(r"[\s*_\"“‘'#>-]*(?:The\s)?")
_VERB = re.compile(
    r"[*_\"”]*\s(?!(?:and|or|of|in|at|on|with|to|from|for|as|than|but|nor|not|near|by|who|which|that|vs|is|was|are)\b)"
    r"[a-z]{3,}\s"
)
_SHORT_WORDS = word_set("yes no true false none zero one two")


@cache
def _number_words(language: str) -> dict[str, str]:
    """English number words, and those of another language, without accents: "čtyřmi" → "4"."""
    english = word_list("""
        zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty
    """)
    words = {word: str(value) for value, word in enumerate(english)}
    for code, value, row in read_table("numerals"):
        if code == language and value.isdigit():
            words |= {_fold_accents(word): value for word in row.split()}
    return words


def _fold_accents(word: str) -> str:
    return "".join(
        char for char in unicodedata.normalize("NFKD", word.casefold()) if char.isalnum()
    )


_NUMBERED = re.compile(r"\b([^\W\d_]{4,30})\s(\d{1,9})\b(?![.,]\d)")  # section 107
_WORD = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:['’][^\W\d_]{1,2}\b)?")


# Languages whose nouns and names change their endings: Paříž, v Paříži.
_INFLECTED = word_set("cs sk pl ru uk be bg hr sr bs sl lt lv et fi hu tr el ro de la is")
# What stands between the parts of a list.
_PARTS = re.compile(
    r"\s*[,;、，]\s*(?:(?:and|und|et|y|e|a|и)\s)?\s*|\s+(?:and|und|et|y|a|и)\s+|\s*[和与及]\s*"
)


def _mentions(sentences: list[str], truth: str, question: str) -> bool:
    """Does one of the sentences answer the question with the truth, or with another form of it?"""
    language = detect_language(question)[0] if question.strip() else ""
    sentences = [_join_digits(sentence[:_LONGEST]) for sentence in sentences]
    for form in _list_forms(_join_digits(truth), question, language):
        is_number = len(form) == 1 and form[0].isdigit()
        is_short = len("".join(form)) < 2 or _SHORT_WORDS.issuperset(form)
        # One word may share its stem with another of the question: Tunis, "the Tunisian mathematician".
        is_in_question = _find_words(question[-20_000:], form, language if len(form) > 1 else "")
        if (is_short and not is_number) or is_in_question:
            continue
        if any(_answers_with(sentence, form, question, language) for sentence in sentences):
            return True
    return bool(question.strip()) and any(
        _lists_parts(sentence, truth, language) for sentence in sentences
    )


def _lists_parts(sentence: str, truth: str, language: str) -> bool:
    """Does the sentence list the parts of the truth ("A, B and C"), in any order, and no others?"""
    parts = [[word for word, _, _ in _split_words(part)] for part in _PARTS.split(truth)]
    if len(parts) < 2 or any(len("".join(part)) <= 3 for part in parts) or re.search(r"\d", truth):
        return False
    places = [place for part in parts for place in _find_words(sentence, part, language)[:1]]
    if len(places) < len(parts) or _NEGATION.search(sentence) or _DOUBT.search(sentence):
        return False
    listed = sentence[min(start for start, _ in places) :]
    return len(_PARTS.findall(listed)) <= len(parts) - 1


# The question asks for the full name; then a name without its middle names does not answer it.
_FULL_NAME_ASKED = re.compile(
    r"(?:full|birth|complete|middle|whole|real|given) name|born as|(?:celé|rodné|plné) (?:\w+ )?jméno|nom complet"
    r"|nombre completo|nome completo|vollständige[rn]? name|geburtsname|полное имя|全名|本名|原名",
    re.IGNORECASE,
)


def _list_forms(truth: str, question: str, language: str) -> list[list[str]]:
    """The words of the truth, and of its other forms: without a title that the question gives, or middle names."""
    truth = re.sub(r"(?<=\w{3})\s*\([^()]*\)\s*\Z", "", truth)  # "Stadion (Diaulos)"
    spelled = [match[0] for match in _WORD.finditer(truth)]
    words = [word for word, _, _ in _split_words(truth, language)]
    forms = [words]
    is_name = len(words) == len(spelled) >= 2 and all(
        word[0].isupper() and word.isalpha() for word in spelled
    )
    if is_name and len(words) >= 3 and not _FULL_NAME_ASKED.search(question):
        forms.append([words[0], words[-1]])
    if is_name and question.strip() and _find_words(question[-20_000:], words[:1], language):
        forms.append(words[1:])  # "Which president …?" "President Obama"
    return forms


def _join_digits(text: str) -> str:
    """The text with 7 000 as 7000, and 2nd as 2."""
    text = re.sub(
        r"(?<![\d.,])(\d{1,3})((?:[ \u00a0\u202f]\d{3})+)(?!\d)",
        lambda m: m[1] + re.sub(r"\D", "", m[2]),
        text,
    )
    return re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text)


def _answers_with(sentence: str, truth_words: list[str], question: str, language: str) -> bool:
    places = _find_words(sentence, truth_words, language)
    # Without a question, only the subject of the sentence counts: "Lady Gaga performed …".
    if (
        places
        and not question.strip()
        and not (_START.fullmatch(sentence[: places[0][0]]) and places[0][1] > 3)
    ):
        return False
    if places and not question.strip() and not _VERB.match(sentence, places[0][1]):
        return False
    if not places or _DOUBT.search(sentence) or sentence.rstrip(" \"”'").endswith(("?", "？")):
        return False
    start, end = places[0]
    before = sentence[:start]
    after = sentence[end:]
    if (
        is_denied(sentence, start, end)
        or _NOT.match(after)
        or _is_hedged(before, after)
        or _RELATED.search(before)
    ):
        return False
    clause = (
        re.split(r"[,;:，；：]\s", before)[-1]
        + sentence[start:end]
        + re.split(r"[,;:，；：。.]", after)[0]
    )
    if _NEGATION.search(clause):
        return False
    is_number = re.fullmatch(r"\d+(?:[.,]\d+)?", sentence[start:end]) is not None
    if _goes_on(sentence[start:end], after, question) or re.search(r"[A-Z]\w*(?:-|‐)\Z", before):
        return False
    if is_number and re.match(r"\.\s?[^\W\d_]", after):  # "3. března": a day or an ordinal
        return False
    if re.search(r"[^\W\d_][,、]\s?\Z", before) and re.match(
        r"\s?(?:[,、]|(?:and|or|und|et|a|y)\b)", after
    ):  # one of many
        return False
    return not _has_rival_number(sentence, truth_words, question)


def _goes_on(mention: str, after: str, question: str) -> bool:
    """Is the truth only the beginning of a longer name or number: "Paris Hilton" for Paris, "1.4.4.1" for 1.4?

    A number before a name is whole ("in 1944 Bohr", "3,5 TeV"). So is what stands before a number or behind a small
    letter, if the question gives the next word: "in October 1993" answers "In which month of 1993 …?".
    """
    next_name = _NEXT_NAME.match(after)
    if next_name is None:
        return False
    if after[0] != " ":
        return True
    starts_name = next_name[0][-1].isalpha()
    if mention[0].isdigit():
        return not starts_name
    if starts_name and mention[0].isupper():
        return True
    question_words = {word for word, _, _ in _split_words(question)}
    return _split_words(after[:100])[0][0] not in question_words


def _has_rival_number(sentence: str, truth_words: list[str], question: str) -> bool:
    """Is there another number that might be the answer: of as many digits, and not in the question?"""
    if len(truth_words) > 2 or not any(word.isdigit() for word in truth_words):
        return False
    length = max(len(word) for word in truth_words if word.isdigit())
    question_words = {word for word, _, _ in _split_words(question)}
    # "15 days" answers "How many days …?", whatever other numbers follow. What is in brackets explains.
    places = _find_words(sentence, truth_words)
    noun = re.match(r"\s([^\W\d_]{3,})", sentence[places[0][1] :]) if places else None
    if noun and any(_share_stem(_fold_accents(noun[1]), word) for word in question_words):
        return False
    sentence = _clause_that_repeats(sentence, places[0][0], question_words) if places else sentence
    for word, _, _ in _split_words(re.sub(r"\([^()]*\)", " ", sentence)):
        if (
            word.isdigit()
            and word not in truth_words
            and word not in question_words
            and (len(word) == 4) == (length == 4)
        ):
            return True
    return False


def _clause_that_repeats(sentence: str, place: int, question_words: set[str]) -> str:
    """The clause at the place if it repeats most of the question's words, else the whole sentence.

    Then the other clauses tell something else: "NATO's first office was set up in 1952, after it was founded in 1949."
    """
    start = max(sentence.rfind(", ", 0, place), 0)
    end = sentence.find(", ", place)
    clause = sentence[start : end if end >= 0 else len(sentence)]
    clause_words = [word for word, _, _ in _split_words(clause)]
    long_words = [word for word in question_words if len(word) >= 4]
    repeated = [
        word for word in long_words if any(_share_stem(word, other) for other in clause_words)
    ]
    return clause if len(repeated) >= 3 and len(repeated) >= 0.6 * len(long_words) else sentence


def _split_words(text: str, language: str = "") -> list[tuple[str, int, int]]:
    """The words, without case, accents and articles, numbers in digits, with their places in the text."""
    number_words = _number_words(language)
    words = []
    for match in _WORD.finditer(text):
        word = match[0]
        if word[0].isdigit():
            word = re.sub(r",(?=\d{3}(?!\d))", "", word)
        else:
            word = _fold_accents(word)
        if word and match[0] not in _DROPPED:
            words.append((number_words.get(word, word), match.start(), match.end()))
        if len(words) > _MOST_WORDS:
            break
    return words


def _find_words(text: str, truth_words: list[str], language: str = "") -> list[tuple[int, int]]:
    """Where the words stand in a row. The last may have an English plural or genitive. Han: as characters.

    In a `language` that inflects, words may have other endings. A date may stand in another order ("5 June 1944").
    """
    if not all(char.isascii() or _is_spaced(char) for char in "".join(truth_words)):
        start = text.find("".join(truth_words))
        return [] if start < 0 else [(start, start + len("".join(truth_words)))]
    words = _split_words(text, language)
    places = []
    n = len(truth_words)
    last = truth_words[-1]
    endings = (
        {last}
        if last.isdigit() or len(last) < 3
        else {last, f"{last}s", f"{last}es", last.removesuffix("s")}
    )
    is_date = (
        n == 3
        and sum(word.isdigit() for word in truth_words) == 2
        and any(len(word) == 4 for word in truth_words)
    )
    for i in range(len(words) - n + 1):
        row = [word for word, _, _ in words[i : i + n]]
        is_same = row[:-1] == truth_words[:-1] and row[-1] in endings
        is_same = is_same or (is_date and sorted(row) == sorted(truth_words))
        if is_same or (language in _INFLECTED and all(map(_share_stem, row, truth_words))):
            places.append((words[i][1], words[i + n - 1][2]))
    return places


def _share_stem(word: str, other: str) -> bool:
    """Are they forms of one word: únor, únoru; Rimington, Rimingtonová? The stem is half of it or more."""
    if word == other:
        return True
    if word[0] != other[0] or not (word.isalpha() and other.isalpha()):
        return False
    same_letters = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(word, other, strict=False)
    )
    stem = sum(1 for _ in same_letters)
    longer = max(len(word), len(other))
    # Czech June (červen, června) and July (červenec, července) share more than their stem.
    is_july = [form.startswith(("cervenec", "cervenc")) for form in (word, other)]
    is_short = longer - stem <= 2 or word == f"{other}ova"
    return stem >= 3 and 2 * stem > longer and is_short and is_july[0] == is_july[1]
