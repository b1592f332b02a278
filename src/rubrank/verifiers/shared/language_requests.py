"""Which languages a prompt asks the answer to be in.

    >>> find_request("Translate the German notice below into French.").asked
    frozenset({'fr'})
    >>> find_request("若正确，请用英文回答；否则输出原文。")
    Request(asked=frozenset(), possible=frozenset({'en'}), whole=False)

A prompt asks surely ("Answer in French"), or it makes a language possible: in one branch of a condition, for a part of
the answer, after something else. Only what is asked surely, and for the whole, excludes the prompt's own language.

`find_request` takes these steps: leave out code and quotations; of a long prompt, keep the beginning and the end; if a
paragraph asks for a translation, read only such paragraphs; then look at each sentence with the patterns of
data/language_requests.tsv, which has an example and a counter-example of each.

Not covered: a language asked for in a way that is not listed there, or by the name of a country.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rubrank.texts.prose import split_code
from rubrank.verifiers.shared.language_names import (
    MOST_CHARACTERS,
    NAMED,
    QUOTED,
    SPACED_NAME,
    UNSPACED_NAME,
    find_language_code,
    find_named_languages,
)
from rubrank.verifiers.shared.word_tables import read_table

_LONG_PROMPT = 3_000  # characters from which on only its beginning and its end are searched
_ENDS_OF_LONG_PROMPT = 800  # characters of each that are searched
# Characters before a request in which "not" or "was" may stand ("Please do not answer in French"). Farther away, the
# word is likely to belong to something else.
_NEARBY = 12

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；;])|\n+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")

# What joins the names of a list: "French, German and Czech"
_JOINT = r"\s*(?:,|and|or|&|et|und|y|/)\s*"
# The parts of patterns that data/language_requests.tsv names in capitals.
_PARTS = {
    # One name or several, in a group: French; French and German
    "HAN_LANGUAGES": (
        rf"((?:{UNSPACED_NAME})(?:\s*(?:和|与|及|或|、|/)\s*(?:{UNSPACED_NAME}))*)"
        # not 法语歌 (a French song), 英文字母 (letters)
        r"(?!名|字母|单词|标点|歌|书|课|报|考试|口语)"
    ),
    "LANGUAGES": (
        rf"((?:{SPACED_NAME})(?:{_JOINT}(?:{SPACED_NAME}))*)"
        # The last name ends here ("Germanic" is none), and the list has no further name.
        rf"(?![^\W\d_一-鿿])(?!{_JOINT}(?:{SPACED_NAME})(?![^\W\d_]))"
        # What may follow if the language is meant: "in French, please", not "in French restaurants", and not
        # "in French-speaking Africa"
        r"(?![-‐‑]\w)(?=\s*(?:$|[^\w\s]"
        r"|(?:and|or|only|please|with|without|using|about|for|that|which|to|so|then|but|on|of|at|by|as|in|from"
        r"|language|text|prose|script|characters|alone|exclusively|et|y|und|oder|ou|o|e|bitte|por|per|simplifi\w*"
        r"|tradi[tc]\w*|s['’]il|uniquement|solamente|nur|только)\b"
        r"|[\u3040-\u9fff\uac00-\ud7af]))"
    ),
    # "in simple everyday French"
    "MANNER": (
        r"(?:(?:the|simple|plain|fluent|formal|informal|modern|proper|standard|natural|american|british|brazilian"
        r"|mexican|canadian|good|correct|perfect|idiomatic|everyday|easy|basic|clear)\s+){0,3}"
    ),
    "SAME_SENTENCE": r"[^.!?\n]{0,150}?",
    # How verbs that make an answer, and nouns for one, begin
    "WRITE": (
        "answer|respond|repl[yi]|response|writ(?:e|ten|ing)|rewrite|describe|summari[sz]e|speak|output|draft|compose"
        "|tell|express|put|phrase|give|generate|continue|explain|list|create|produce|provide|text|poem|story|letter"
        "|discuss|introduce|narrate|prepare|make|outline|present|analy[sz]e|compare|define|elaborate|talk|recite|sing"
        "|greet|name|paraphrase|report|comment|state|suggest|recommend|show|teach|essay|article|email|entire"
        "|everything|all"
    ),
    # 写 (write), 生成 (generate), 总结 (summarise) …
    "MAKE": "写|寫|生成|撰写|创作|扩写|改写|总结|输出|给出|提供|介绍|作成|書",
    # What is made: 文章 (article), 新闻 (news) …
    "PRODUCT": (
        "文章|作文|新闻|小说|论文|推文|主持稿|评论|邮件|诗|信|对话|版|文案|介绍|短文|歌词|报道|演讲|回答|回复|输出|翻译"
        "|译文|摘要|总结|故事|题|简历|台词|剧本|散文|日记|广告|标语|口号|说明"
    ),
}


def _read_patterns(kind: str) -> list[str]:
    """Return the patterns of one kind in data/language_requests.tsv."""
    patterns = []
    for row_kind, _, pattern, *_ in read_table("language_requests"):
        if row_kind == kind:
            for name, part in _PARTS.items():
                pattern = pattern.replace(name, part)
            patterns.append(pattern)
    return patterns


def _compile_one(kind: str) -> re.Pattern[str]:
    """Compile one pattern for all of a kind."""
    return re.compile("|".join(_read_patterns(kind)), re.IGNORECASE)


_TRANSLATIONS = [re.compile(pattern, re.IGNORECASE) for pattern in _read_patterns("translation")]
_REQUESTS = [re.compile(pattern, re.IGNORECASE) for pattern in _read_patterns("request")]
_ABOUT_LANGUAGE = _compile_one("about")
_DENIED = _compile_one("denied")
_REPORTED = _compile_one("reported")
_CONDITION = _compile_one("condition")
_PART = _compile_one("part")
_FURTHER_PART = _compile_one("further part")


@dataclass(frozen=True, slots=True)
class Request:
    """The languages that a prompt asks for."""

    asked: frozenset[str] = frozenset()
    """Codes of languages that it surely asks for."""
    possible: frozenset[str] = frozenset()
    """Codes of languages that it asks for under a condition, or for a part of the answer."""
    whole: bool = False
    """Is everything to be in the languages asked for, so that the prompt's own would be wrong?"""


@lru_cache(maxsize=1024)
def find_request(prompt: str) -> Request:
    """Return the languages that the prompt asks for outside quotations and code.

    If it only speaks about languages ("French grammar"), those that it names are possible.
    """
    parts = prompt[:MOST_CHARACTERS].split('"""')
    if len(parts) > 2:
        # What stands between triple quotes is material: every second part.
        unquoted = "\n\n".join(parts[::2])
    else:
        unquoted = prompt[:MOST_CHARACTERS]
    instructions = QUOTED.sub(" ", "\n".join(split_code(unquoted)[0]))
    if not NAMED.search(instructions.lower()) and "译" not in instructions:
        return Request()
    # A long prompt is mostly material, which may speak of any language: requests are at its ends.
    if len(instructions) > _LONG_PROMPT:
        instructions = (
            f"{instructions[:_ENDS_OF_LONG_PROMPT]}\n\n{instructions[-_ENDS_OF_LONG_PROMPT:]}"
        )
    paragraphs = _BLANK_LINE.split(instructions)
    # If one paragraph asks for a translation, the others are what is to be translated, and may speak of any language.
    translating = [
        paragraph
        for paragraph in paragraphs
        if any(_find_targets(paragraph, pattern) for pattern in _TRANSLATIONS)
    ]
    if not translating and _ABOUT_LANGUAGE.search(instructions):
        return Request(possible=find_named_languages(instructions))
    asked: set[str] = set()
    possible: set[str] = set()
    has_further_part = False
    for paragraph in translating or paragraphs:
        for sentence in filter(None, _SENTENCE_END.split(paragraph)):
            targets: set[str] = set()
            for pattern in (*_TRANSLATIONS, *_REQUESTS):
                targets |= _find_targets(sentence, pattern)
            if not targets:
                has_further_part = has_further_part or _FURTHER_PART.search(sentence) is not None
                continue
            # What stands behind a colon is to be translated, and says nothing about the language.
            before_colon = re.split("[:：]", sentence, maxsplit=1)[0]
            if _CONDITION.search(before_colon) or _PART.search(before_colon):
                possible |= targets
            else:
                # Once a sentence has tied a language to a condition, later ones are read under that condition, too.
                asked |= targets - possible
    whole = bool(asked) and not possible and not has_further_part
    return Request(frozenset(asked), frozenset(possible - asked), whole)


def _find_targets(sentence: str, pattern: re.Pattern[str]) -> set[str]:
    """Return the languages that a sentence asks for in the way of this pattern; its group 1 is the list of names."""
    targets: set[str] = set()
    for match in pattern.finditer(sentence):
        languages = match[1]
        if languages == "polish":  # the verb: the language has a capital
            continue
        request = sentence[max(0, match.start() - _NEARBY) : match.end()]
        if _DENIED.search(request) or _REPORTED.search(request):
            continue
        names = NAMED.findall(languages.lower())
        if not names:
            # 英译中 has only the first character of the name: 中 for 中文.
            names = [f"{languages}文"]
        targets |= {find_language_code(name).split("-")[0] for name in names}
    return targets
