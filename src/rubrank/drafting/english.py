"""Constraints that English prompts state: length, format, keywords, case, language, beginning and end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rubrank.drafting.constraint import Constraint, count_constraint
from rubrank.drafting.sentences import Quantity, Sentence

Rule = Callable[[Sentence, Sequence[Sentence]], Iterator[Constraint]]
"""Yields the constraints of one sentence; it also sees all sentences of the prompt."""

# What a response is called. "Essay" and "story" are responses only if the prompt asks for one.
RESPONSE = (
    r"(?:(?:entire|whole|full|complete|final|overall)\s+)?(?:response|answer|reply|output|text|essay|story|poem"
    r"|letter"
    r"|e-?mail|article|post|blog post|song|summary|paragraph|report|review|speech|script|resume|cover letter"
    r"|riddle|joke"
    r"|haiku|limerick|rap|pitch|proposal|itinerary|advertisement|ad|document|critique|tweet|caption|description"
    r"|explanation|content|message|conversation|dialogue|plan|outline|rubric|template|list|note|piece|writing)"
)
_DIRECTIVE = re.compile(
    r"\b(?:should|must|need(?:s)? to|has to|have to|shall|ought to|can't|cannot|can not|may not|make sure"
    r"|ensure|please"
    r"|be sure|don't|do not|avoid|refrain|without|never|limit(?:ed)? to|keep (?:it|your|the)|required?"
    r"|requirement|want|need"
    r"|would like|i'd like|let's|are allowed|is allowed|aren't allowed|allowed|forbidden|prohibited|restrict"
    r"|remember to"
    r"|can you|could you|would you|will you|length|limit|note that|it is important|in your|your)\b",
    re.IGNORECASE,
)
_IMPERATIVE = re.compile(
    r"^\W*(?:\d+[.)]\s*|[-*•]\s*|(?:then|also|and|but|now|next|first|firstly|second|finally|additionally|lastly"
    r"|instead|"
    r"in addition|in particular|moreover|furthermore|otherwise|again|here|ok|okay|hi|hello|hey)\b[,:]?\s+)*"
    r"(?:(?:in|for|with|within|using|at|throughout|before|after|as|to|from|on|when|while|given"
    r"|based)\b[^,.]{0,80},\s*)?"
    r"(?:kindly\s+|just\s+|only\s+|always\s+|briefly\s+|concisely\s+)?"
    r"(?:write|compose|draft|create|give|generate|make|produce|provide|answer|respond|reply|explain|describe"
    r"|summari[sz]e"
    r"|list|tell|use|include|end|finish|conclude|begin|start|wrap|put|highlight|add|mention|format|return"
    r"|output|say|repeat"
    r"|separate|mark|label|keep|limit|do|don't|rewrite|rephrase|paraphrase|translate|elaborate|expand|discuss|outline"
    r"|construct|design|develop|prepare|present|show|state|suggest|name|pick|choose|select|complete|continue|convert"
    r"|craft|enclose|ensure|exclude|insert|italicize|bold|capitalize|organi[sz]e|structure|divide|split|break"
    r"|place|have"
    r"|contain|feature|incorporate|employ|utili[sz]e|express|brainstorm|come|come up|help|define|compare"
    r"|analy[sz]e|avoid"
    r"|hallucinate|imagine|pretend|act|be|stick|type|print|render|sing|narrate|recount|report|submit|propose"
    r"|turn|edit"
    r"|identify|maintain|nest|alternate|copy|no|not|without|reproduce|precede|follow|surround|count|fill|share"
    r"|argue|think|consider|find|read|take|plan|build|solve|calculate|show|ask|invent|role-?play|simulate)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^\W*(?:what|how|why|when|where|who|whose|which|is|are|was|were|does|did|do|has|have|if)\b[^?]*\?\s*$",
    re.IGNORECASE,
)
_ABOUT_OTHERS = re.compile(
    r"^\W*(?:i|we|he|she|they|it|this|there|my|his|her|our|their)\s+(?:'m|'ve|am|are|is|was|were|have|has|had"
    r"|wrote|got"
    r"|did|read|used|work|live|think|know|just|said|noticed|see|saw|made)\b(?!.*\b(?:please|need|want|should"
    r"|must|like you)\b)",
    re.IGNORECASE,
)


_CODE_LINE = re.compile(
    r"^\s*(?:#\s*(?:include|define)|//|/\*|import |from \w+ import|def |class |return |\w*error:|\$ |>>>"
    r"|at \w+\.\w+|<\w+)"
    r"|[{};]\s*$",
    re.IGNORECASE,
)


def is_request(sentence: Sentence) -> bool:
    """Does the sentence ask something of the response, rather than tell or ask about something?"""
    text = sentence.text
    if _CODE_LINE.search(sentence.original):
        return False
    if _ABOUT_OTHERS.search(text):
        return False
    if _QUESTION.search(text) and not re.search(r"\b(?:your|you write|please)\b", text, re.IGNORECASE):
        return False
    return bool(_DIRECTIVE.search(text) or _IMPERATIVE.search(text) or len(text.split()) <= 12)


def _is_about_a_part(text: str, start: int, end: int) -> bool:
    """Does the clause around a quantity speak of every paragraph, or of one: "each section has 50 words"?"""
    before = re.split(r"[.;:,]|\band\b|\bbut\b", text[:start])[-1][-70:]
    after = re.split(r"[.;,:]", text[end:])[0][:40]
    per_part = (
        r"\b(?:each|every|per|both|all (?:the )?(?:sentences|paragraphs|lines|items|sections|answers|responses))\b"
    )
    first_part = (
        r"\b(?:first|second|third|last|final|opening|closing|introductory|concluding)\s+"
        r"(?:sentence|paragraph|section|part|line|half)\b"
    )
    named_part = (
        r"\b(?:sentences?|paragraphs?|lines?|bullet points?|titles?|headings?|sections?|description|introduction"
        r"|conclusion|abstract|stanzas?|verses?)\s+"
        r"(?:of|with|that|should|must|has|have|containing|contains?|is|are|be)\b[^,]{0,30}$"
    )
    return bool(
        re.search(per_part, before, re.IGNORECASE)
        or re.match(
            r"\s*(?:each\b(?! separated| of which is separated)|apiece|per\b|in each|for each|every\b)",
            after,
            re.IGNORECASE,
        )
        or re.search(first_part, before, re.IGNORECASE)
        or re.search(named_part, before, re.IGNORECASE)
    )


# ---- how long ------------------------------------------------------------------------------------------------------

_LENGTH = re.compile(
    r"⟨(?P<q>q\d+)⟩[- ]?\s?(?:(?P<kind>[\w'/-]+)\s(?:[\w'-]+\s)?)?(?P<unit>words?|sentences?|paragraphs?"
    r"|characters?|stanzas?)\b"
    r"(?P<after>[^.]{0,45})",
    re.IGNORECASE,
)
_LENGTH_NUMBER_LAST = re.compile(
    r"\b(?:number of (?P<unit>words|sentences|paragraphs|characters)|(?P<count>word|sentence"
    r"|character) (?:count|limit|length))\b"
    r"(?P<between>[^.⟨]{0,60})⟨(?P<q>q\d+)⟩(?!\s*(?:times|bullet))",
    re.IGNORECASE,
)
_PLAIN_KINDS = re.compile(
    r"^(?:short|long|full|complete|total|simple|brief|english|very|concise|different|distinct|separate"
    r"|well-written|clear|\w+-length)$",
    re.IGNORECASE,
)
_GIVEN_MATERIAL = re.compile(
    r"\b(?:this|these|following|attached|above|below|given|original|my|his|her|their)\s*$", re.IGNORECASE
)
_FOREIGN_AFTER = re.compile(
    r"^(?:(?!\band\b)[^,;]){0,40}\b(?:caps|capitals?|capitalized|uppercase|upper case)\b|^\s*(?:or phrases in"
    r"|that (?:rhyme|start|begin|end|contain|mean|describe|have|are)|starting|beginning|ending|containing"
    r"|from the|from this"
    r"|of (?:the|this|each)|you (?:find|see|know)|i |as|about me|long each|each|per|apart|above|below|later"
    r"|before|after"
    r"|mean|means|is |are |was |were )",
    re.IGNORECASE,
)


def lengths(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Words, sentences, paragraphs and characters of the response."""
    text = sentence.text
    for match in _LENGTH.finditer(text):
        quantity = sentence.quantity(match["q"])
        unit = match["unit"].lower().rstrip("s")
        kind = match["kind"]
        if kind and not _PLAIN_KINDS.match(kind):
            continue
        if _is_about_a_part(text, match.start(), match.end("unit")) or _FOREIGN_AFTER.search(match["after"]):
            continue
        if _GIVEN_MATERIAL.search(text[: match.start()]):
            continue
        if quantity.relation == "plain" and not _is_size_of_response(text, match, quantity):
            continue
        yield from _length(unit, quantity, sentence, prompt)
    for match in _LENGTH_NUMBER_LAST.finditer(text):
        if re.search(r"capital|each|every|per\b|⟨s", match["between"], re.IGNORECASE):
            continue
        unit = (match["unit"] or match["count"]).lower().rstrip("s")
        quantity = sentence.quantity(match["q"])
        if quantity.relation == "plain" and re.search(r"\blimit|maximum|max\b", match[0], re.IGNORECASE):
            quantity = Quantity("at most", quantity.low, quantity.high)
        yield from _length(unit, quantity, sentence, prompt)


def _is_size_of_response(text: str, match: re.Match[str], quantity: Quantity) -> bool:
    """A number alone: "a 300 word essay", "in two sentences"; not "these two words", "two sentences that …"."""
    before = text[: match.start()].rstrip()
    if re.search(
        r"\b(?:the|those|both|any|all|other|between|of|her|its|than|another|next|last)$", before, re.IGNORECASE
    ):
        return bool(re.search(r"\b(?:length|total|maximum|minimum|limit) of$", before, re.IGNORECASE))
    unit = match["unit"].lower()
    if unit.startswith("word"):
        if quantity.number < 10:
            return bool(re.search(r"\b(?:in|with|using|exactly)$", before, re.IGNORECASE))
        return True
    return bool(
        re.search(
            r"\b(?:in|into|with|using|of|write|give|provide|compose|a|be|use|exactly|contain|contains|have|has)$",
            before,
            re.IGNORECASE,
        )
        or unit == "paragraph"
    )


def _length(unit: str, quantity: Quantity, sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    evidence = sentence.original
    if unit == "word":
        public = ("length_constraints:number_words", "num_words")
        yield count_constraint(quantity, evidence, public=public, general="WordCount", plain="around")
    elif unit == "sentence":
        public = ("length_constraints:number_sentences", "num_sentences")
        yield count_constraint(quantity, evidence, public=public, general="SentenceCount")
    elif unit == "character":
        yield count_constraint(
            quantity, evidence, public=None, general="WordCount", plain="around", extra={"unit": "characters"}
        )
    elif unit == "paragraph" and not _has_divider(prompt) and not _names_first_word(prompt):
        yield count_constraint(quantity, evidence, public=None, general="ParagraphCount")


# ---- paragraphs, sections, two responses ---------------------------------------------------------------------------

_DIVIDER = re.compile(r"(?<!\*)\*\*\*(?!\*)|\b(?:three|3) asterisks?\b|markdown divider", re.IGNORECASE)
_PARTS = re.compile(
    r"⟨(?P<q>q\d+)⟩\s+(?:\w+\s){0,2}?(?:paragraphs?|sections?|parts?|stanzas?|verses?|chapters?|pieces|q and as"
    r"|q&as)\b",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(
    r"\b(?:(?P<ordinal>first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|final|\d+(?:st|nd"
    r"|rd|th))\s+paragraph"
    r"|paragraph\s+(?:number\s+)?(?P<number>⟨q\d+⟩|\d+))(?!\w)[^.]{0,60}?"
    r"\b(?:start|begin|starting|beginning|starts"
    r"|begins)s?\b\s+(?:off\s+)?with\s+(?:the\s+)?(?:exact\s+)?(?:word\s+)?:?\s*"
    r"(?:⟨(?P<string>s\d+)⟩|(?P<word>[^\W\d_][\w'-]*))",
    re.IGNORECASE,
)
_START_PARAGRAPH = re.compile(
    r"\b(start|begin)(?:ing)?\s+((?:the\s+)?(?:\w+\s+paragraph|paragraph\s+(?:⟨q\d+⟩"
    r"|\d+)))\s+(?=with\b)",
    re.IGNORECASE,
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _has_divider(prompt: Sequence[Sentence]) -> bool:
    return any(_DIVIDER.search(sentence.original) for sentence in prompt)


def _names_first_word(prompt: Sequence[Sentence]) -> bool:
    return any(_find_first_word(sentence) for sentence in prompt)


def _find_first_word(sentence: Sentence) -> re.Match[str] | None:
    """ "Start the second paragraph with" is read as "the second paragraph start with"."""
    return _FIRST_WORD.search(_START_PARAGRAPH.sub(r"\2 \1 ", sentence.text))


def divided_paragraphs(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Paragraphs or parts that are separated by ***."""
    if not _DIVIDER.search(sentence.original):
        return
    position = prompt.index(sentence)
    dividers = [index for index, other in enumerate(prompt) if other.original.strip() == "***"]
    asks_for_form = any(re.search(r"\b(?:format|form)\b", other.text, re.IGNORECASE) for other in prompt[:position])
    if len(dividers) >= 2 and asks_for_form:
        if dividers[0] == position:
            params = {"num_paragraphs": len(dividers) + 1}
            yield Constraint("length_constraints:number_paragraphs", params, sentence.original)
        return
    for nearby in (sentence, *reversed(prompt[max(0, position - 3) : position]), *prompt[position + 1 : position + 2]):
        for match in _PARTS.finditer(nearby.text):
            quantity = nearby.quantity(match["q"])
            if quantity.relation in ("plain", "exactly"):
                yield Constraint(
                    "length_constraints:number_paragraphs", {"num_paragraphs": quantity.number}, nearby.original
                )
                return
            if quantity.relation == "at least":
                yield Constraint(
                    "length_constraints:number_paragraphs", {"num_paragraphs": quantity.number}, nearby.original
                )
                return


def first_word_of_paragraph(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """ "Paragraph 2 must start with the word …", together with how many paragraphs there are."""
    match = _find_first_word(sentence)
    if not match:
        return
    total = None
    for nearby in prompt:
        for part in re.finditer(r"⟨(q\d+)⟩[- ](?:\w+\s){0,2}?paragraphs?\b", nearby.text, re.IGNORECASE):
            if total is None and nearby.quantity(part[1]).relation in ("plain", "exactly"):
                total = nearby.quantity(part[1]).number
    if total is None:
        return
    if match["number"]:
        token = match["number"].strip("⟨⟩")
        nth = sentence.quantity(token).number if token in sentence.quantities else int(token)
    elif match["ordinal"].lower() in ("last", "final"):
        nth = total
    elif match["ordinal"][0].isdigit():
        nth = int(re.sub(r"\D", "", match["ordinal"]))
    else:
        nth = _ORDINALS.index(match["ordinal"].lower()) + 1
    word = sentence.string(match["string"]) if match["string"] else match["word"]
    if 1 <= nth <= total and len(word.split()) == 1:
        params = {"num_paragraphs": total, "nth_paragraph": nth, "first_word": word.strip(".,!?").lower()}
        yield Constraint("length_constraints:nth_paragraph_first_word", params, sentence.original)


_SECTION_NAME = re.compile(
    r"\b(?:mark|marked|marking|label|labell?ed|labell?ing|note|noted|denote|denoted|indicate|indicated|start"
    r"|starts|starting|begin|begins"
    r"|beginning|named|titled|called|separated|separate|use|using|divide|divided)\b[^.]{0,60}?\b(?:with|as|by"
    r"|into|the|:)\s*:?\s*"
    r"(?:⟨(?P<string>s\d+)⟩|(?P<word>[A-Za-z]+)\s+(?:X\b|#?⟨(?P<one>q\d+)⟩|1\b|#))",
    re.IGNORECASE,
)


def sections(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Sections that begin with "Section 1", "Day 2" and so on."""
    names = []
    for match in _SECTION_NAME.finditer(sentence.text):
        if match["string"]:
            label = re.match(r"([A-Za-z]+)\s*(?:X|\d+|#\d*)\.?:?$", sentence.string(match["string"]))
            if label:
                names.append(label[1])
        elif match["word"].lower() not in ("at", "least", "the", "exactly", "than", "most", "to", "about", "around"):
            if match["one"] and sentence.quantity(match["one"]).number != 1:
                continue
            names.append(match["word"])
    pairs = re.findall(r"⟨(s\d+)⟩", sentence.text)
    labels = [re.match(r"(\w+) (\d+)$", sentence.string(token)) for token in pairs]
    numbered = [label for label in labels if label]
    if (
        len(numbered) >= 2
        and numbered[0][2] == "1"
        and numbered[1][2] == "2"
        and re.search(r"section|part", sentence.text, re.I)
    ):
        names.append(numbered[0][1])
    listed = re.search(r"\b([A-Z][A-Za-z]{2,}) 1\b[^.\n]{0,20}\b\1 2\b", sentence.original)
    if listed and not names and re.search(r"section|part|mark|label|begin", sentence.text, re.IGNORECASE):
        names.append(listed[1])
    if not names:
        return
    position = prompt.index(sentence)
    candidates = [sentence, *reversed(prompt[:position]), *prompt[position + 1 :]]
    for nearby in candidates:
        for part in re.finditer(
            r"⟨(q\d+)⟩[- ](?:[\w-]+\s){0,3}?(?:sections?|parts?|chapters?|paragraphs?|scenes?|days?|audiences?"
            r"|advertisements?"
            r"|versions?|stanzas?|verses?|steps?|entries)\b|⟨(?P<only>q\d+)⟩ section",
            nearby.text,
            re.IGNORECASE,
        ):
            quantity = nearby.quantity(part[1] or part["only"])
            if quantity.relation in ("plain", "exactly", "at least"):
                params: dict[str, object] = {"section_spliter": names[0], "num_sections": quantity.number}
                if quantity.relation == "at least":
                    params["relation"] = "at least"
                yield Constraint("detectable_format:multiple_sections", params, sentence.original)
                return


_SIX_ASTERISKS = re.compile(r"(?<!\*)\*{6}(?!\*)|\b(?:six|6) (?:asterisks?|asterisk symbols|stars)\b", re.IGNORECASE)


def two_responses(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Two responses separated by ******."""
    if _SIX_ASTERISKS.search(sentence.original) and not re.search(r"\bfirst repeat\b", sentence.text, re.IGNORECASE):
        yield Constraint("combination:two_responses", {}, sentence.original)


# ---- keywords and letters ------------------------------------------------------------------------------------------

_PASSIVE = r"(?:be (?:used|included|mentioned|found|present|in|seen|part)|appear|occur|show up|exist|feature)"
_MUST_USE = (
    r"(?:us(?:e|ing|es)|includ(?:e|ing|es)|contain(?:ing|s)?|mention(?:ing|s)?|appear(?:ing|s)?|has"
    r"|employ(?:ing)?|utiliz(?:e|ing)"
    r"|insert(?:ing)?|featur(?:e|ing)|incorporat(?:e|ing)|add(?:ing)?|repeat(?:ing)?|work in|with (?:these"
    r"|the following))"
)
_NOT = (
    r"(?:(?:do(?:es)? not|don't|never|not)(?! (?:forget|fail|hesitate|worry|only|just))|does not|doesn't"
    r"|should not|shouldn't|must not|mustn't|cannot|can't|can not|may not|avoid|without"
    r"|refrain from|exclude|excluding|no|isn't|aren't|are not|is not|won't|will not|not to)"
)
_USE = (
    r"(?:us(?:e|ing|es|ed)|includ(?:e|ing|es|ed)|contain(?:ing|s|ed)?|mention(?:ing|s|ed)?|say(?:ing|s)?"
    r"|hav(?:e|ing)|writ(?:e|ing)|appear(?:ing|s)?"
    r"|employ(?:ing)?|utiliz(?:e|ing)|insert(?:ing)?|occur|featur(?:e|ing)|put(?:ting)?|incorporat(?:e|ing)"
    r"|be (?:used|included|mentioned|found|present|in)|show up|exist|use of|add(?:ing)?|repeat(?:ing)?|be in)"
)
_WORD = (
    r"(?:the\s+)?(?:following\s+|exact\s+|specific\s+|any\s+of\s+the\s+|any\s+)*"
    r"(?:key\s?words?|words?|terms?|phrases?|names?|expressions?|lines?|sentences?)"
)
_STRINGS = r"(?P<strings>\[?\(?⟨s\d+⟩(?:(?:\s*(?:,|;|/|and|or|&|nor|as well as)\s*)+⟨s\d+⟩)*\]?\)?)"
_BARE = r"(?P<bare>\[?[^\W_][\w'-]*(?:(?:\s*(?:,\s*(?:and|or|nor)?|and|or|&|nor)\s*)[^\W_][\w'-]*)*\]?)"

_FORBIDDEN = re.compile(
    rf"\b{_NOT}\s+(?:\w+\s){{0,3}}?(?:{_USE}\s+)?(?:\w+\s){{0,2}}?(?:{_WORD}\s*)?:?\s*{_STRINGS}"
    rf"(?P<after>[^.]{{0,60}})"
    rf"|{_WORD}\s+{_STRINGS.replace('strings', 'strings2')}\s+(?:\w+\s){{0,3}}?{_NOT}\s+"
    rf"(?:\w+\s){{0,2}}?{_PASSIVE}(?P<after2>[^.]{{0,60}})",
    re.IGNORECASE,
)
_FORBIDDEN_BARE = re.compile(
    rf"\b{_NOT}\s+(?:\w+\s){{0,3}}?{_USE}\s+(?:the\s+|any\s+of\s+the\s+|following\s+|these\s+"
    rf"|any\s+)*(?:key\s?words?|words?)\s*:?\s+{_BARE}"
    rf"|{_WORD}\s+{_BARE.replace('bare', 'bare2')}\s+(?:(?:should|must|can|may|do|does|are"
    rf"|is)\s*)?{_NOT}\s+(?:\w+\s){{0,2}}?{_PASSIVE}"
    rf"|\b(?:avoid|exclude|without|omit)\s+(?:{_USE}\s+)?(?:the\s+)?(?:following\s+)?(?:key\s?words?"
    rf"|words?)\s*:?\s+{_BARE.replace('bare', 'bare3')}",
    re.IGNORECASE,
)
_INCLUDE = re.compile(
    rf"\b{_MUST_USE}\s+(?:\w+\s){{0,4}}?(?:{_WORD})\s*(?:of\s+|like\s+)?:?\s*{_STRINGS}(?P<after>[^.]{{0,60}})"
    rf"|{_WORD}\s*:?\s*{_STRINGS.replace('strings', 'strings2')}\s+(?:\w+\s){{0,2}}?(?:should|must|need to"
    rf"|has to|have to)\s+(?:\w+\s)?(?:be (?:used|included|mentioned|in|present)|appear"
    rf"|occur)(?P<after2>[^.]{{0,60}})",
    re.IGNORECASE,
)
_INCLUDE_SHORT = re.compile(
    rf"\b(?:mention|include|including|incorporate|must contain|should contain"
    rf"|contains)\s+(?:the\s+)?{_STRINGS}(?P<after>[^.]{{0,60}})",
    re.IGNORECASE,
)
_INCLUDE_BARE = re.compile(
    rf"\b{_USE}\s+(?:\w+\s){{0,3}}?(?:the\s+)?(?:following\s+|these\s+)?key\s?words?\s*:?\s+{_BARE}"
    rf"|\b{_USE}\s+(?:the\s+)(?:following\s+)?words?\s*:?\s+{_BARE.replace('bare', 'bare2')}(?=\s+(?:somewhere"
    rf"|in (?:your|the|it)|throughout)|\s*[.;]|$)"
    rf"|\bkey\s?words?\s*:\s+{_BARE.replace('bare', 'bare3')}",
    re.IGNORECASE,
)
_FREQUENCY = re.compile(
    r"(?:\b(?:key\s?word|word|term|phrase|name)s?\s*:?\s+)?(?:⟨(?P<string>s\d+)⟩|\b(?:key\s?word"
    r"|word)s?\s+(?P<word>[^\W\d_][\w'-]*))"
    r"(?P<middle>(?:\s+(?!⟨s)[\w'⟨⟩-]+,?){0,9}?)\s+(?:for\s+)?⟨(?P<q>q\d+)⟩\s+(?:or more\s+)?times?\b",
    re.IGNORECASE,
)
_FREQUENCY_FIRST = re.compile(
    r"⟨(?P<q>q\d+)⟩\s+(?:times?|mentions?|instances?|occurrences?|uses?)\s+(?:of\s+)?(?:the\s+)?(?:key\s?word"
    r"|word|term|phrase|name)?\s*⟨(?P<string>s\d+)⟩",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"\bletters?\s+(?:⟨(?P<string>s\d+)⟩"
    r"|(?P<letter>[A-Za-z#!?@])\b)(?P<middle>(?:\s+(?!letter)[\w'⟨⟩\"()/-]+,?){0,10}?)\s+(?:for\s+)?⟨"
    r"(?P<q>q\d+)⟩\s+times?\b",
    re.IGNORECASE,
)
_LETTER_FIRST = re.compile(
    r"⟨(?P<q>q\d+)⟩\s+(?:times?\s+(?:the\s+)?letter\s+|(?:letter\s+|instances of (?:the )?letter\s+"
    r"|occurrences of (?:the )?letter\s+))"
    r"(?:⟨(?P<string>s\d+)⟩|(?P<letter>[A-Za-z])(?:'s)?\b)",
    re.IGNORECASE,
)
_NO_LETTER = re.compile(
    rf"\b{_NOT}\s+(?:\w+\s){{0,3}}?(?:{_USE}\s+)?(?:the\s+|any\s+)?letters?\s+(?:⟨(?P<string>s\d+)⟩"
    rf"|(?P<letter>[A-Za-z])\b)"
    rf"|\bletter\s+(?:⟨(?P<string2>s\d+)⟩"
    rf"|(?P<letter2>[A-Za-z])\b)\s+(?:\w+\s){{0,2}}?{_NOT}\s+(?:\w+\s){{0,2}}?{_USE}",
    re.IGNORECASE,
)
_PUNCTUATION_TIMES = re.compile(
    r"⟨(?P<q>q\d+)⟩\s+(?P<mark>exclamation (?:marks?|points?)|question marks?|hash(?:tag)?s?|emojis?"
    r"|semicolons?|colons?)\b",
    re.IGNORECASE,
)
_MARKS = {"exclamation": "!", "question": "?", "semicolon": ";", "colon": ":", "hash": "#"}
# Words that follow "the word" without being the word that is meant.
_NO_KEYWORDS = (
    "the a an in of to and or is are be as at on by for with from that this it your you response answer them any more",
    "like such exactly least most only once twice times word words used not all each every about which related these",
    "those should must can may will shall do does has have keyword keywords following below above before after other",
    "than if except limit count choice choices their his her its we they i",
)
_STOP_WORDS = frozenset(word for line in _NO_KEYWORDS for word in line.split())


def _split_bare(text: str) -> list[str]:
    """ "startup and capsule" → both words; nothing if a word cannot be meant as a keyword."""
    words = [word for word in re.split(r"\s*(?:,|\band\b|\bor\b|&|\bnor\b)\s*", text.strip("[] ")) if word]
    if not words or any(word.lower() in _STOP_WORDS for word in words):
        return []
    return words


def _are_words(strings: Sequence[str]) -> bool:
    """Keywords are words or short phrases, not marks or whole sentences."""
    return bool(strings) and all(re.search(r"\w", string) and len(string.split()) <= 12 for string in strings)


def keywords(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Words that must appear, must not appear, or appear a number of times."""
    text = sentence.text
    if re.search(r"\b(?:verse|chapter|headline|title|example sentences?|subject line)s?\b", text, re.IGNORECASE):
        return  # a word of a part of the response
    counted: set[str] = set()
    for constraint in _frequencies(sentence):
        counted.add(str(constraint.params["keyword"]).lower())
        yield constraint
    forbidden: list[str] = []
    for match in _FORBIDDEN.finditer(text):
        part = match["strings"] or match["strings2"]
        after = match["after"] or match["after2"] or ""
        if re.match(
            r"\s*(?:in (?:your|the) (?:title|first)|⟨q\d+⟩ times|more than|at the (?:end|beginning|start))",
            after,
            re.IGNORECASE,
        ):
            continue
        if re.search(
            r"\bletters?\b|\bother (?:than|words)|\bonly\b|\bno other\b|\bnothing\b|\bfollow\b|\bafter\b"
            r"|\bafterwards\b|\bif you\b|\bbefore\b",
            match[0],
            re.IGNORECASE,
        ):
            continue
        strings = sentence.strings_in(part)
        if _are_words(strings) and not any(string.lower() in counted for string in strings):
            forbidden += strings
    if not forbidden:
        for match in _FORBIDDEN_BARE.finditer(text):
            forbidden += _split_bare(match["bare"] or match["bare2"] or match["bare3"])
    if forbidden:
        yield Constraint(
            "keywords:forbidden_words", {"forbidden_words": list(dict.fromkeys(forbidden))}, sentence.original
        )
    included: list[str] = []
    for match in [*_INCLUDE.finditer(text), *_INCLUDE_SHORT.finditer(text)]:
        groups = match.groupdict()
        start = text[max(0, match.start() - 40) : match.start()]
        clause = re.split(r"[.;,]|\band\b", text[: match.end()])[-1]
        if re.search(r"\b(?:end|finish|conclude|start|begin)\w*\b", clause, re.IGNORECASE):
            continue
        if re.search(
            rf"\b{_NOT}\s+(?:\w+\s){{0,3}}$|\b(?:option|title|section|marker|key|column)\b", start, re.IGNORECASE
        ):
            continue
        after = match["after"] or groups.get("after2") or ""
        if re.match(
            r"\s*(?:⟨q\d+⟩ times|in (?:the|every|each) (?:first|last|second|third|title|sentence|⟨)"
            r"|as the (?:first|last)|at the (?:start|beginning|end)|for ⟨q)",
            after,
            re.IGNORECASE,
        ):
            continue
        if re.search(
            r"\bone of|\bend\w* with|\beither\b|\bsuch as|\bfor example|\beg\b|\blike\b|\bie\b|\bat least one\b",
            match[0],
            re.IGNORECASE,
        ):
            continue
        strings = sentence.strings_in(match["strings"] or groups.get("strings2") or "")
        if "strings2" not in groups and any(len(string.split()) > 3 or not string[0].isalpha() for string in strings):
            continue
        strings = [string for string in strings if string.lower() not in counted and string not in forbidden]
        if _are_words(strings) and not any(
            string.upper() in ("P.S.", "P.P.S", "P.S", "P.P.S.", "PS") for string in strings
        ):
            included += strings
    if not included:
        for match in _INCLUDE_BARE.finditer(text):
            start = text[max(0, match.start() - 40) : match.start()]
            if re.search(rf"\b{_NOT}\s+(?:\w+\s){{0,3}}$", start, re.IGNORECASE) or re.match(
                r"\s*⟨q\d+⟩ times", text[match.end() :]
            ):
                continue
            words = _split_bare(match["bare"] or match["bare2"] or match["bare3"] or "")
            included += [word for word in words if word.lower() not in counted and word not in forbidden]
    if included:
        yield Constraint("keywords:existence", {"keywords": list(dict.fromkeys(included))}, sentence.original)


def _frequencies(sentence: Sentence) -> Iterator[Constraint]:
    text = sentence.text
    matches = [*_FREQUENCY.finditer(text), *_FREQUENCY_FIRST.finditer(text)]
    for match in matches:
        groups = match.groupdict()
        word = sentence.string(groups["string"]) if groups.get("string") else groups.get("word") or ""
        middle = groups.get("middle") or ""
        before = text[max(0, match.start() - 25) : match.start()]
        if (
            re.search(r"\bletters?\s+$", before, re.I)
            or re.search(r"\bletters?\b|\bcapital|\bcaps\b", middle, re.IGNORECASE)
            or re.search(r"\bsentence\b", middle, re.IGNORECASE)
        ):
            continue
        if not _are_words([word]) or word.lower() in _STOP_WORDS or word.lower().startswith("with"):
            continue
        quantity = sentence.quantity(groups["q"] or "")
        negated = re.search(r"\b(?:not|never|n't)\b", middle + before, re.IGNORECASE)
        for relation, number in _bounds(_with_negation(quantity, bool(negated))):
            params = {"keyword": word, "relation": relation, "frequency": number}
            yield Constraint("keywords:frequency", params, sentence.original)


def _with_negation(quantity: Quantity, negated: bool) -> Quantity:
    """ "not more than twice" is "at most twice"."""
    if not negated:
        return quantity
    opposite = {"more than": "at most", "less than": "at least", "at least": "less than", "at most": "more than"}
    relation = opposite.get(quantity.relation, quantity.relation)
    return Quantity(relation, quantity.low, quantity.high)  # type: ignore[arg-type]


def _bounds(quantity: Quantity) -> list[tuple[str, int]]:
    """The relations and numbers that say the same; a range has two."""
    if quantity.relation == "between":
        return [("at least", quantity.low), ("at most", quantity.high)]
    return [("exactly" if quantity.relation == "plain" else quantity.relation, quantity.number)]


def letters(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """How often a letter appears, or that it does not."""
    text = sentence.text
    has_count = False
    for match in [*_LETTER.finditer(text), *_LETTER_FIRST.finditer(text)]:
        letter = sentence.string(match["string"]) if match["string"] else match["letter"]
        if len(letter) != 1:
            continue
        has_count = True
        quantity = sentence.quantity(match["q"])
        for relation, number in _bounds(quantity):
            params = {"letter": letter.lower(), "let_relation": relation, "let_frequency": number}
            yield Constraint("keywords:letter_frequency", params, sentence.original)
    if has_count:
        return
    for match in _NO_LETTER.finditer(text):
        token = match["string"] or match["string2"]
        letter = sentence.string(token) if token else match["letter"] or match["letter2"]
        if len(letter) == 1:
            params = {"letter": letter.lower(), "let_relation": "less than", "let_frequency": 1}
            yield Constraint("keywords:letter_frequency", params, sentence.original)
    for match in _PUNCTUATION_TIMES.finditer(text):
        mark = _MARKS.get(match["mark"].split()[0].rstrip("s").lower())
        quantity = sentence.quantity(match["q"])
        if mark and quantity.relation in ("at least", "at most", "more than", "less than"):
            params = {"letter": mark, "let_relation": quantity.relation, "let_frequency": quantity.number}
            yield Constraint("keywords:letter_frequency", params, sentence.original)


# ---- punctuation, case ---------------------------------------------------------------------------------------------

_NO_COMMA = re.compile(
    rf"\b(?:{_NOT}|refrain|free of|devoid of|zero)\b(?:\s+[\w']+){{0,7}}?\s+commas?\b(?!\s*(?:separated|delimited|-))"
    rf"|\bcommas?\s+(?:\w+\s){{0,3}}?(?:{_NOT}|forbidden|prohibited)\b|\bcomma-free\b|\bwithout (?:the use of "
    rf"|using )?(?:any )?(?:⟨s\d+⟩ )?commas?\b",
    re.IGNORECASE,
)
_LOWER = re.compile(
    r"\b(?:all|only|entirely|completely|in|use|using|just"
    r"|with)\s+(?:in\s+)?(?:the\s+)?(?:all\s+)?(?:english\s+)?(?:and\s+)?(?:all\s+)?"
    r"(?:only\s+)?lower[- ]?cased?\b(?:\s+(?:letters?|english|text|only))?"
    r"|\blower[- ]?case (?:letters )?(?:only|english)\b|\b(?:no|without(?: any)?"
    r"|without using(?: any)?) (?:capital(?:ized)?|upper[- ]?case)\s*(?:letters?|words?|characters?)?\b"
    r"|\b(?:do not|don't|never|avoid|refrain from) (?:us(?:e|ing) |includ(?:e|ing) )?(?:any )?(?:capital"
    r"|upper[- ]?case)(?:ization| letters?)?\b"
    r"|\bcapital letters? (?:is|are) (?:not allowed|forbidden|prohibited)|\b(?:not|n't) (?:contain|include|use"
    r"|have) (?:any )?(?:capital|upper[- ]?case)"
    r"|\ball (?:of )?(?:the |your )?letters\b[^.]{0,40}\blower[- ]?cased?|\bnot a single (?:letter"
    r"|word)\b[^.]{0,40}\bcapitali[sz]ed"
    r"|\bin lower[- ]?cases\b",
    re.IGNORECASE,
)
_UPPER = re.compile(
    r"\b(?:in|use|using|all|only|entirely|completely|with"
    r"|be)\s+(?:\w+\s+){0,2}?(?:in\s+)?(?:english\s+)?(?:and\s+)?(?:in\s+)?(?:all\s+)?(?:capital letters"
    r"|capitals|caps|upper[- ]?case(?: letters)?|capitalized letters)\b"
    r"|\b(?:no|without(?: any)?) lower[- ]?case(?: letters?)?\b|\ball[- ](?:caps|capitals|capital letters)\b"
    r"|\bcaps only\b|\bonly capital letters\b"
    r"|\ball (?:of )?(?:the |your )?(?:letters|words)\b[^.]{0,40}\b(?:capitali[sz]ed|upper[- ]?case)"
    r"|\bcapitali[sz]e (?:every|all|each)\b[^.]{0,20}\b(?:letters?|words?)",
    re.IGNORECASE,
)
_CAPITAL_WORDS = re.compile(
    r"\b(?:words?|phrases?|stress words?|terms?|acronyms?)\b(?:\s+[\w'()⟨⟩,]+){0,6}?\s*\b(?:all[- ])?(?:caps"
    r"|capitals?|capital letters|uppercase|upper case|capitalized)\b"
    r"|\b(?:all[- ]caps|capitali[sz]ed|fully capitali[sz]ed|all[- ]capital|upper[- ]?case|all-uppercase"
    r"|stress)\s+words?\b|\bcapitali[sz]e\b|\bwords? in (?:all )?caps\b",
    re.IGNORECASE,
)


def no_comma(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """No commas in the response."""
    match = _NO_COMMA.search(sentence.text)
    if match and not re.search(r"\b(?:separated by|only)\s+commas?|\bmissing commas?", match[0], re.IGNORECASE):
        yield Constraint("punctuation:no_comma", {}, sentence.original)


def letter_case(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """All in lower case, all in capitals, or a number of words in capitals."""
    text = sentence.text
    capital_words = _CAPITAL_WORDS.search(text)
    if capital_words:
        quantities = list(
            re.finditer(r"⟨(q\d+)⟩(?P<unit>\s+(?:\w+\s){0,2}?(?:words?|times?|phrases?|terms?|acronyms?)\b)?", text)
        )
        counts = [match for match in quantities if match["unit"] or abs(match.start() - capital_words.end()) < 60]
        for match in counts:
            quantity = sentence.quantity(match[1])
            if re.search(r"word", match["unit"] or "") and not _near(match, capital_words):
                continue
            before = text[max(0, match.start() - 45) : match.start()]
            counts_a_word = "time" in (match["unit"] or "") and re.search(r"⟨s\d+⟩|\bletter\b", before)
            if counts_a_word and not re.search(r"such as|like|eg", text):
                continue
            for relation, number in _bounds(quantity):
                params = {"capital_relation": relation, "capital_frequency": number}
                yield Constraint("change_case:capital_word_frequency", params, sentence.original)
            return
        whole = r"\b(?:all|every|each)(?: of)?(?: the| your)? (?:words?|letters?|text)|\bentire|\bwhole|\bonly"
        if (counts or not re.search(whole, text, re.IGNORECASE)) and not _LOWER.search(text):
            return
    if _is_about_part_of_speech(text):
        return
    lower = _LOWER.search(text)
    upper = _UPPER.search(text)
    if lower and not re.search(r"\b(?:no|without(?: any)?|not) lower", text, re.IGNORECASE):
        yield Constraint("change_case:english_lowercase", {}, sentence.original)
    elif upper and not re.search(
        r"\b(?:no|without|avoid|not|don't)\b[^,.]{0,25}(?:capital|upper|caps)", text, re.IGNORECASE
    ):
        yield Constraint("change_case:english_capital", {}, sentence.original)


def _near(first: re.Match[str], second: re.Match[str]) -> bool:
    return -40 < first.start() - second.start() < 60


def _is_about_part_of_speech(text: str) -> bool:
    """Is only a part in that case: the title, the first letter, names of variables?"""
    return bool(
        re.search(
            r"\b(?:title|headings?|headers?|subject|first letter|names? of|variable|column|key|keys|acronym"
            r"|label|labels|"
            r"initials?|section|speaker|function|each word|beginning of)\b[^.]{0,40}(?:case|caps|capital)"
            r"|(?:case|caps|capital\w*)[^.]{0,30}\b(?:title|headings?|names?|variables?|keys|keywords?|columns?"
            r"|speakers?)\b",
            text,
            re.IGNORECASE,
        )
        and not re.search(r"\b(?:entire|whole|all of) (?:response|answer|reply|output|text)", text, re.IGNORECASE)
    )


# ---- format --------------------------------------------------------------------------------------------------------

_BULLETS = re.compile(
    r"⟨(?P<q>q\d+)⟩\s+(?:[\w'-]+\s){0,3}?bullet(?:ed)?(?:[- ]?points?|s| list items| items"
    r"| lists)?\b(?P<after>[^.]{0,30})",
    re.IGNORECASE,
)
_BULLETS_LATER = re.compile(
    r"⟨(?P<q>q\d+)⟩\s+[^.⟨]{0,60}?\b(?:using|in|with|as"
    r"|in the form of)\s+(?:the\s+)?(?:a\s+)?(?:markdown\s+)?(?:list of )?bullet(?:ed)?[- ]?(?:points?|list|s)\b",
    re.IGNORECASE,
)
_HIGHLIGHT = re.compile(
    r"\b(?:highlight(?:ed|ing|s)?|italici[sz]e[ds]?|bold(?:ed|face)?|emphasi[sz]e[ds]?|italics?)\b", re.IGNORECASE
)
_SECTION_WORD = (
    r"(?:sections?|parts?|phrases?|words?|texts?|key ?words?|points?|pieces?|portions?|spans?|sentences?|titles?"
    r"|places?|items?|terms?|passages?)"
)
_MARKDOWN_HINT = re.compile(r"markdown|\*[^*\n]{1,60}\*|asterisk|highlighted (?:section|text)|⟨s\d+⟩", re.IGNORECASE)
_TITLE = re.compile(
    r"\btitles?\b[^.]{0,70}(?:double angular brackets|double angle brackets|angular brackets|<<)"
    r"|<<[^>\n]{0,80}>>|\b(?:double )?angular brackets?\b",
    re.IGNORECASE,
)
_JSON = re.compile(
    r"\b(?:in|as|into|using|to|a|with|valid|of|only|one|contains|the)\s+(?:a\s+|an\s+|the\s+)?(?:single\s+"
    r"|valid\s+|one\s+|pure\s+|raw\s+|proper\s+)*json\b(?!\s+(?:file|files|schema|library|parser|parsing|api"
    r"|data|web|token|and))"
    r"|\bjson (?:format|block|object|output|only|response|array|structure)\b|\bformat\b[^.]{0,40}\bjson\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"⟨(?P<q>q\d+)⟩\s+(?:[\w'-]+\s){0,3}?(?:place ?holders?|square[- ]bracketed \w+)\b"
    r"|\bplace ?holders?\b[^.]{0,60}?⟨(?P<q2>q\d+)⟩",
    re.IGNORECASE,
)
_TABLE = re.compile(
    r"\b(?:in|as|into|using|create|make|include|with|format|give me|provide|generate|draw"
    r"|present)\b[^.]{0,40}\b(?:markdown )?table\b(?! of contents)(?:\s+(?:format|form|with|that|of|showing"
    r"|comparing))?",
    re.IGNORECASE,
)


def bullets(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A number of bullet points."""
    text = sentence.text
    for match in [*_BULLETS.finditer(text), *_BULLETS_LATER.finditer(text)]:
        quantity = sentence.quantity(match["q"])
        if (
            _is_about_a_part(text, match.start(), match.end("q"))
            or "sub-bullet" in text
            or re.search(r"sub-?bullets?", match[0])
        ):
            continue
        if re.search(r"\bwords?\b|\bsentences?\b", match[0].split("bullet")[0], re.IGNORECASE):
            continue
        if quantity.relation in ("plain", "exactly"):
            yield Constraint(
                "detectable_format:number_bullet_lists", {"num_bullets": quantity.number}, sentence.original
            )
        else:
            yield count_constraint(quantity, sentence.original, public=None, general="BulletCount")
        return


def highlights(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Highlighted sections in Markdown."""
    text = sentence.text
    if not _HIGHLIGHT.search(text):
        return
    position = prompt.index(sentence)
    neighbours = " ".join(other.original for other in prompt[position : position + 3])
    if not (_MARKDOWN_HINT.search(neighbours)):
        return
    verb = _HIGHLIGHT.search(text)
    assert verb is not None
    match = re.search(
        rf"⟨(q\d+)⟩\s+(?:[\w'-]+\s+){{0,4}}?{_SECTION_WORD}\b", text[max(0, verb.start() - 60) :], re.IGNORECASE
    )
    if match and not re.search(r"bullet|paragraph", match[0]):
        quantity = sentence.quantity(match[1])
        relation = "at least" if quantity.relation in ("plain", "at least") else quantity.relation
        if relation == "between":
            return
        params: dict[str, object] = {"num_highlights": quantity.number}
        if relation != "at least":
            params["relation"] = relation
        yield Constraint("detectable_format:number_highlighted_sections", params, sentence.original)
    elif re.search(
        rf"\b(?:some|a|the|key|main|important|any)\b[^.]{{0,30}}{_SECTION_WORD}|{_SECTION_WORD}", text, re.IGNORECASE
    ) and re.search(r"(?<!\*)\*[^*\n]{1,60}\*(?!\*)", neighbours):
        yield Constraint("detectable_format:number_highlighted_sections", {"num_highlights": 1}, sentence.original)


def title(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A title in double angular brackets."""
    if _TITLE.search(sentence.original) and re.search(r"\b(?:title|name|bracket)", sentence.original, re.IGNORECASE):
        yield Constraint("detectable_format:title", {}, sentence.original)


def json_format(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """The whole response is JSON."""
    text = sentence.text
    if not _JSON.search(text):
        return
    asks = re.search(
        r"\b(?:wrap|format|output|respond|response|answer|reply|return|provide|give|structured|write|present"
        r"|put|generate|"
        r"entire|represent|convert|express|organi[sz]e)\w*\b",
        text,
        re.IGNORECASE,
    )
    is_other = re.search(
        r"\b(?:parse|parsing|read|reads|load|schema|deserialize|from (?:a |the )?json|this json|following json|"
        r"how (?:do|to|can)|function|script|code|program|endpoint|api|class|json (?:string|files?|input|data"
        r"|body|key))\b",
        text,
        re.IGNORECASE,
    )
    if asks and not is_other:
        yield Constraint("detectable_format:json_format", {}, sentence.original)


def placeholders(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Placeholders in square brackets."""
    for match in _PLACEHOLDER.finditer(sentence.text):
        quantity = sentence.quantity(match["q"] or match["q2"])
        relation = "at least" if quantity.relation == "plain" else quantity.relation
        if relation == "between":
            continue
        params: dict[str, object] = {"num_placeholders": quantity.number}
        if relation != "at least":
            params["relation"] = relation
        yield Constraint("detectable_content:number_placeholders", params, sentence.original)
        return
    whole = " ".join(other.text for other in prompt)
    if re.search(r"\binclude (?:a|one) placeholder", sentence.text, re.IGNORECASE) and "[" in whole:
        yield Constraint("detectable_content:number_placeholders", {"num_placeholders": 1}, sentence.original)


def postscript(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A postscript with a marker."""
    original = sentence.original
    if not re.search(
        r"\bpost ?-?script\b|\bnote starting with\b|\b(?:add|include|end|with|starting|starts|begin\w*|by|have"
        r"|write|append|using|marked)\b[^.]{0,50}P\.?\s?(?:P\.?\s?)?S\b",
        original,
        re.IGNORECASE,
    ):
        return
    marker = re.search(r"\bP\.\s?P\.\s?S\.?|\bP\.\s?S\.?|\bPPS\b|\bPS\b", original)
    if marker is None and not re.search(r"\bpost ?-?script\b", original, re.IGNORECASE):
        return
    text = "P.S." if marker is None else re.sub(r"\s", "", marker[0])
    if text in ("P.P.S.", "PPS"):
        text = "P.P.S"
    elif text in ("PS", "P.S"):
        text = "P.S."
    yield Constraint("detectable_content:postscript", {"postscript_marker": text}, sentence.original)


# ---- beginning, end, quotation, repetition -------------------------------------------------------------------------

_END = re.compile(
    rf"\b(?:end|finish|conclude|close|sign off|wrap up|terminate|finalize)(?:s|ing|es|ed)?\b(?:\s+(?:off"
    rf"|up))?(?:\s+(?:your|the|this|it|an|a|my|with|entire|whole|very|{RESPONSE}|response|answer)){{0,6}}?\s+"
    r"(?:with|by saying|by writing|using|on)\s+(?P<what>[^⟨.]{0,60}?):?\s*⟨(?P<string>s\d+)⟩"
    r"|\b(?:very )?(?:end|last (?:sentence|line|phrase|words?)|final (?:sentence|line|words?)"
    r"|very last (?:sentence|line))\s+of\s+(?:your|the)\s+(?:\w+\s){0,3}?(?:should|must|has to"
    r"|needs to)\s+(?:read|be|say)\s*(?:exactly)?:?\s*⟨(?P<string2>s\d+)⟩"
    r"|\b(?:very )?last (?:sentence|line|phrase) (?:should|must) (?:read|be|say):?\s*⟨(?P<string3>s\d+)⟩",
    re.IGNORECASE,
)
_END_BARE = re.compile(
    r"\b(?i:end|finish|conclude|close)(?:s|ing|es)?\b(?:\s+[\w']+){0,5}?\s+with\s+(?:this|the)\s+(?:exact\s+"
    r"|following\s+)*"
    r"(?:phrase|sentence|question|line|words|statement"
    r"|quote)\s*(?:exactly)?(?:of)?:?\s+(?P<phrase>[A-Z][^\n⟨]{3,150})"
    r"|\b(?i:(?:very )?end of your (?:entire )?\w+ (?:should|must) (?:read|be"
    r"|say)(?: exactly)?(?: like)?):\s*(?P<read>[^\n⟨]{3,150})",
)
_END_COLON = re.compile(
    r"\b(?i:end|finish|conclude)(?:s|ing|es)?\b(?:\s+\w+){0,5}?\s+with:?\s*(?:(?:the|this) (?:exact )?(?:phrase"
    r"|sentence|question))?:\s*(?P<phrase>[A-Z][^\n⟨]{1,150})?$"
)
_QUOTATION_MARKS = re.compile(
    r"\b(?:double )?(?:quotation|quote)s? ?marks?\b|\bdouble[- ]quot(?:es|ations?)\b|\bin quotes\b"
    r"|\bdouble quotations marks\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    rf"\b(?:wrap|enclose|put|surround|place|inside|within|around|with|in|be|wrapped"
    rf"|enclosed)\b[^.]{{0,60}}\b{RESPONSE}\b"
    rf"|\b{RESPONSE}\b[^.]{{0,60}}\b(?:wrap|wrapped|enclosed|surrounded|inside|within|in|with|around)\b"
    rf"|\beverything\b|\bwrap (?:it|this|that)\b|\bput (?:it|this)\b",
    re.IGNORECASE,
)
_REPEAT = re.compile(
    r"\b(?:repeat(?:ing)?|copy|restate|reproduce|say)\b[^.]{0,50}\b(?:request|prompt|question|sentence"
    r"|instruction|query|task|text|message|first line|what i said)s?\b"
    r"|\brepeat (?:it|this|what)\b[^.]{0,40}(?:exactly|word for word|verbatim|without)",
    re.IGNORECASE,
)
_REPEAT_CUE = re.compile(
    r"\b(?:first|before|word for word|without (?:any )?change|verbatim|exactly|beginning|then|prior)\b", re.IGNORECASE
)


def ending(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """The exact phrase with which the response ends."""
    text = sentence.text
    if re.search(
        r"\b(?:verse|chorus|stanza|chapter|slide|string|url|file|email address|regular expression)s?\b",
        text,
        re.IGNORECASE,
    ):
        return
    match = _END.search(text)
    if match:
        string = sentence.string(match["string"] or match["string2"] or match["string3"])
        what = match["what"] or ""
        if (
            re.search(r"postscript|\b(?:word|letter|title|emoji)\b|p\.?s\b|like|such as|eg", what, re.IGNORECASE)
            and "words" not in what
        ):
            if re.search(r"\bword\b", what):
                yield Constraint("last_word:last_word_answer", {"last_word": string}, sentence.original)
            return
        if (
            len(string) > 1
            and not re.match(r"P\.?\s?(P\.?)?\s?S", string)
            and not re.search(r"\b(?:each|every)\b", text[: match.start()][-60:], re.IGNORECASE)
        ):
            yield Constraint("startend:end_checker", {"end_phrase": string}, sentence.original)
        return
    position = prompt.index(sentence)
    bare = _END_BARE.search(text)
    if bare:
        yield Constraint(
            "startend:end_checker", {"end_phrase": (bare["phrase"] or bare["read"]).strip()}, sentence.original
        )
        return
    colon = _END_COLON.search(text)
    if colon:
        phrase = (colon["phrase"] or "").strip()
        if not phrase and position + 1 < len(prompt):
            phrase = prompt[position + 1].original.strip()
        if 1 < len(phrase) <= 150 and not phrase.startswith("P."):
            yield Constraint("startend:end_checker", {"end_phrase": phrase}, sentence.original)


def quotation(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """The whole response in double quotation marks."""
    text = sentence.text
    is_part = re.search(r"\b(?:each|every|single field|title|keyword|dialogue|speak|speech)\b", text, re.IGNORECASE)
    if _QUOTATION_MARKS.search(text) and _WHOLE.search(text) and not is_part:
        yield Constraint("startend:quotation", {}, sentence.original)


_OPTIONS = re.compile(
    r"\b(?:one of (?:the |these )?(?:following|options|phrases|below)|choose (?:from|one)|answer with|just say"
    r"|only say|reply with|respond with|answer)\b",
    re.IGNORECASE,
)


def constrained_options(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """One of a few fixed answers."""
    whole = " ".join(other.original for other in prompt)
    fixed = ("my answer is yes.", "my answer is no.", "my answer is maybe.")
    if fixed[0] in sentence.original.lower() and all(option in whole.lower() for option in fixed):
        yield Constraint("detectable_format:constrained_response", {}, sentence.original)
        return
    if not re.search(
        r"\bone of (?:the |these )?(?:following|options|phrases|answers|words|choices)|\bchoose (?:from|one)",
        sentence.text,
        re.IGNORECASE,
    ):
        return
    strings = sentence.strings_in(sentence.text)
    if len(strings) >= 2 and re.search(r"\b(?:answer|respond|reply|response)\b", sentence.text, re.IGNORECASE):
        contains = re.search(r"\b(?:contain|include|end with)\b", sentence.text, re.IGNORECASE)
        yield Constraint("ConstrainedResponse", {"options": strings, "whole": not contains}, sentence.original)


def response_language(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """The language of the response."""
    from rubrank.verifiers.shared.language_names import find_request

    original = sentence.original
    if re.search(
        r"\btranslat|\blabel|\b(?:song|movie|film|book) in\b|\b(?:every|each) \w+ word\b", original, re.IGNORECASE
    ):
        return  # the task itself, and the answer may say more than the translation
    if re.search(r"\b(?:english)\b", original, re.IGNORECASE) and not re.search(
        r"\b(?:only|entirely|exclusively)\b[^.]{0,15}\benglish\b|\benglish (?:only|language only)"
        r"|\benglish\b[^.]{0,30}no other language",
        original,
        re.IGNORECASE,
    ):
        return
    request = find_request(original)
    languages = request.asked
    if not languages:
        from rubrank.verifiers.shared.language_names import NAMED, language_code

        only = re.search(
            rf"\b(?:only|entirely|exclusively|completely|purely)\s+(?:(?:in|use|using|with|the"
            rf"|by)\s+)*(?P<a>{NAMED.pattern})|\b(?:use|using"
            rf"|in)\s+(?:only\s+)?(?:the\s+)?(?P<b>{NAMED.pattern})\s+(?:language|only)"
            rf"|\b(?:in|the)\s+(?P<c>{NAMED.pattern})\s*(?:language)?,?[^.]{{0,40}}\bno other languages?\b"
            rf"|(?P<d>{NAMED.pattern})[^.]{{0,25}}\bno other language",
            original,
            re.IGNORECASE,
        )
        if not only:
            return
        name = next(value for value in only.groupdict().values() if value)
        languages = frozenset({language_code(name.lower())})
    if len(languages) == 1:
        yield Constraint("language:response_language", {"language": next(iter(languages))}, original)


def repeat_prompt(prompt_text: str, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """The request must be repeated before the answer; what stands before that sentence is repeated."""
    for position, sentence in enumerate(prompt):
        text = sentence.text
        if not (_REPEAT.search(text) and _REPEAT_CUE.search(text)) or re.search(
            r"\b(?:do not|don't|never) repeat", text, re.IGNORECASE
        ):
            continue
        if re.search(r"\bchange the first word|\bindex\b|\bspan\b", " ".join(s.text for s in prompt), re.IGNORECASE):
            return
        start = prompt_text.replace("’", "'").replace("‘", "'").find(sentence.original[:40])
        quoted = re.search(r"\b(?:sentence|request|phrase|text|question)\b[^.⟨]{0,30}⟨(s\d+)⟩", text)
        if start > 0:
            repeated = prompt_text[:start].strip()
        elif quoted:
            repeated = sentence.string(quoted[1])
        else:
            after = [s.original for s in prompt[position + 1 :]]
            repeated = " ".join(after).strip()
        if repeated:
            yield Constraint("combination:repeat_prompt", {"prompt_to_repeat": repeated}, sentence.original)
        return


RULES: tuple[Rule, ...] = (
    lengths,
    divided_paragraphs,
    first_word_of_paragraph,
    sections,
    two_responses,
    keywords,
    letters,
    no_comma,
    letter_case,
    bullets,
    highlights,
    title,
    json_format,
    placeholders,
    postscript,
    ending,
    quotation,
    constrained_options,
    response_language,
)


def compile_english(prompt_text: str, prompt: Sequence[Sentence]) -> list[Constraint]:
    """All constraints of an English prompt, in its order."""
    constraints: list[Constraint] = []
    for sentence in prompt:
        if is_request(sentence):
            for rule in RULES:
                constraints += rule(sentence, prompt)
    constraints += repeat_prompt(prompt_text, prompt)
    return constraints
