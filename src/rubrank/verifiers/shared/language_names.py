"""Names of languages, and which language a prompt asks the answer to be in.

    >>> language_code("法语"), language_code("pt-BR")
    ('fr', 'pt')
    >>> target_languages("Translate the German notice below into French."), target_languages("How are you?")
    ({'fr'}, set())
    >>> find_request("若正确，请用英文回答；否则输出原文。")
    Request(asked=frozenset(), possible=frozenset({'en'}), whole=False)

A prompt asks surely ("Answer in French"), or it makes a language possible: in one branch of a condition, for a part of
the answer, after something else. Only what is asked surely, and for the whole, excludes the prompt's own language.
Not covered: a language asked for in a way that is not listed here, or by the name of a country.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rubrank.texts.prose import split_code
from rubrank.verifiers.shared.word_tables import read_words

# “…”, 「…」, «…», "…", 《…》
QUOTED = re.compile(
    '“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』|«[^»]{1,2000}»|"[^"\n]{1,500}"|《[^》]{1,200}》'
)
_CODES: dict[str, str] = {}  # code or name → code
for _code, _names in read_words("language_names").items():
    _CODES |= dict.fromkeys((_code, *_names), _code)
# Codes such as "de" are words of other languages, so prompts are not searched for them. The longest names come first.
_NAMES = [name for name in _CODES if len(name) > 2 or not name.isascii()]
_NAMES.sort(key=len, reverse=True)
_SPELLED = "|".join(re.escape(name).replace("\\-", "[ -]") for name in _NAMES if name < "\u3000")
# Names in scripts without spaces.
_DENSE = "|".join(name for name in _NAMES if name >= "\u3000")
NAMED = re.compile(rf"(?<![^\W\d_一-鿿])(?:{_SPELLED})(?![^\W\d_一-鿿])|{_DENSE}")

# ---- patterns in which a language is asked for ----------------------------------------------------------------------

# What follows its name shows whether the language is meant: not "in French restaurants".
_MEANT = (
    r"(?=\s*(?:$|[^\w\s]|(?:and|or|only|please|with|without|using|about|for|that|which|to|so|then|but|on|of|at|by|as|in"
    r"|from|language|text|prose|script|characters|alone|exclusively|et|y|und|oder|ou|o|e|bitte|por|per|simplifi\w*"
    r"|tradi[tc]\w*|s['’]il|uniquement|solamente|nur|только)\b|[\u3040-\u9fff\uac00-\ud7af]))"
)
# "in simple, fluent French"
_MANNER = (
    r"(?:(?:the|simple|plain|fluent|formal|informal|modern|proper|standard|natural|american|british|brazilian|mexican"
    r"|canadian|good|correct|perfect|idiomatic|everyday|easy|basic|clear)\s+){0,3}"
)
_LIST_JOINT = r"\s*(?:,|and|or|&|et|und|y|/)\s*"
# One language or several: "French and German". The group is the list.
_LANGUAGES = (
    rf"((?:{_SPELLED})(?:{_LIST_JOINT}(?:{_SPELLED}))*)(?![^\W\d_一-鿿])"
    rf"(?!{_LIST_JOINT}(?:{_SPELLED})(?![^\W\d_])){_MEANT}"
)
_DENSE_LANGUAGES = (
    rf"((?:{_DENSE})(?:\s*(?:和|与|及|或|、|/)\s*(?:{_DENSE}))*)"
    r"(?!名|字母|单词|标点|歌|书|课|报|考试|口语)"
)
_SAME_SENTENCE = r"[^.!?\n]{0,150}?"
# What an answer is made by, or is
_WRITE_WORDS = (
    "answer|respond|repl[yi]|response|writ(?:e|ten|ing)|rewrite|describe|summari[sz]e|speak|output|draft|compose|tell"
    "|express|put|phrase|give|generate|continue|explain|list|create|produce|provide|text|poem|story|letter|discuss"
    "|introduce|narrate|prepare|make|outline|present|analy[sz]e|compare|define|elaborate|talk|recite|sing|greet|name"
    "|paraphrase|report|comment|state|suggest|recommend|show|teach|essay|article|email|entire"
    "|everything|all"
)
# Requests for a translation
_TRANSLATING = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # translate the text into French; ins Deutsche; traduis en anglais; 翻译成法语; 英語に翻訳
        rf"\b(?:translat(?:e|ing|ion)|be translated|render)\b{_SAME_SENTENCE}\b(?:in|into|to)\s+{_MANNER}{_LANGUAGES}",
        rf"\bins\s+{_LANGUAGES}",
        rf"\b(?:tradu[ciz]|tradúce)\w*\b{_SAME_SENTENCE}\b(?:en|al|au|vers le|in|em|para o|para)\s+{_LANGUAGES}",
        rf"(?:译|譯|翻)(?:[^。！？\n]{{0,8}})(?:成|为|為|到)\s*{_DENSE_LANGUAGES}",
        rf"{_DENSE_LANGUAGES}(?:に(?:翻訳|訳)|로 번역)",
        "[英中汉日韩法德俄]译([英中汉日韩法德俄])",  # 英译中
    )
]
# 文章 (article), 新闻 (news), …: what 英文 (English) may describe
_CHINESE_PRODUCT = (
    "文章|作文|新闻|小说|论文|推文|主持稿|评论|邮件|诗|信|对话|版|文案|介绍|短文|歌词|报道|演讲|回答|回复|输出|翻译|译文|摘要|总结|故事"
    "|题|简历|台词|剧本|散文|日记|广告|标语|口号|说明"
)
_CHINESE_MAKE = "写|寫|生成|撰写|创作|扩写|改写|总结|输出|给出|提供|介绍|作成|書"
# Other requests for a language
_TARGETS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # answer, write, … in French; only in French; auf Deutsch; en français; in italiano; по-русски
        rf"\b(?:{_WRITE_WORDS})\w*\b{_SAME_SENTENCE}\bin(?:to)?\s+{_MANNER}{_LANGUAGES}",
        rf"\b(?:entirely|completely|exclusively|solely|fully|strictly|wholly|only|all)\s+in\s+{_MANNER}{_LANGUAGES}",
        rf"(?:^|[.!?;:\n]\s*|\bplease,?\s+)in\s+{_MANNER}{_LANGUAGES}(?=\s*[,:])",  # In French, describe …
        rf"[,;:(]\s*in\s+{_MANNER}{_LANGUAGES}(?=\s*(?:$|[.!?)\n]|please|only))",  # …, in French, please
        rf"\b(?:only|use|using|with)\s+(?:in |use )?(?:only )?{_MANNER}{_LANGUAGES}"
        r"(?=\s*(?:$|[^\w\s]|only\b|language\b|in\b|for\b|to\b|throughout\b|when\b))",
        r"\b(?:répon|respond|écri|rédige|escrib|contest|rispond|scriv|escrev|décri|describ|expli|antwort|schreib|parl)"
        rf"\w*\b{_SAME_SENTENCE}\b(?:en|in|em|auf)\s+{_LANGUAGES}",
        rf"(?:\bauf\s+|на |по[ -]){_LANGUAGES}",
        # 写成英文，用英文回答，给出英文翻译，英語で，영어로
        rf"(?:{_CHINESE_MAKE})(?:[^。！？\n]{{0,8}})(?:成|为|為)\s*(?:一[篇段封首份则个])?{_DENSE_LANGUAGES}",
        rf"(?<!不要)(?<!不能)(?<!不)(?<!别)(?<!勿)(?:用|以)\s*(?:简单的?|流利的?|正式的?|地道的?|纯)?{_DENSE_LANGUAGES}",
        rf"(?<!如何)(?<!怎么)(?<!怎样)(?:{_CHINESE_MAKE})(?:(?!关于|如何|怎)[^。！？\n]){{0,20}}?{_DENSE_LANGUAGES}(?:的|小)?(?:{_CHINESE_PRODUCT})",
        rf"(?:全部|内容|回答|回复|输出|文章|语言)(?:[^。！？\n]{{0,8}})(?:是|为|均为|都是|必须是|要求)\s*{_DENSE_LANGUAGES}",
        rf"(?:进行|开展){_DENSE_LANGUAGES}(?:对话|交流|沟通|写作)",
        rf"{_DENSE_LANGUAGES}(?:で|로|のみ|만)",
    )
]
# Questions about a language, not for it: "How do you say … in French?", "What does … mean?", "French grammar"
_ABOUT = re.compile(
    r"\bhow (?:do|does|would|can|should|to) \w+(?: \w+){0,8} in\b"
    r"|\bhow (?:do|does|would|can) \w+ say|\bhow to say\b"
    r"|\bwhat (?:is|does|do)\b[^.!?\n]{0,80}\b(?:mean|called|word)\b"
    r"|\b(?:grammar|verbs?|tenses?|pronounc\w+|conjugat\w+|spell\w*|words? for|vocabulary|phrases?|expressions?"
    r"|idioms?|proverbs?|alphabet|courses?|lessons?|exams?|class(?:es)?|learn\w*|stud(?:y|ying|ies)|proficien\w+"
    r"|fluen\w+)\b"
    r"|怎么说|怎么读|语法|是什么意思|学习|词汇",
    re.IGNORECASE,
)
# The single characters of 英译中
_CODE_OF_CHARACTER = {
    "英": "en",
    "中": "zh",
    "汉": "zh",
    "日": "ja",
    "韩": "ko",
    "法": "fr",
    "德": "de",
    "俄": "ru",
}
# "not in French"
_NOT = re.compile(
    r"\b(?:not|never|avoid|without|instead of|rather than|nicht|no|sin|sans|ne)\b|n['’]t\b",
    re.IGNORECASE,
)
# The material tells what was: "the letter was written in French".
_STATED = re.compile(
    r"\b(?:was|were|(?:has|have|had) been|originally|wrote|spoke|said|published|released|sang)\b",
    re.IGNORECASE,
)
# The language is asked for under a condition: "If it is correct, answer in French"
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|unless|otherwise|depending|in case|either|optionally|si|wenn|falls|sonst|se|caso|cuando)\b"
    r"|如果|若|倘|假如|的话[，,]|否则|当[^。\n]{1,60}时|时[，,]|もし|場合|なら|만약|경우|если",
    re.IGNORECASE,
)
# … or for a part of the answer: "first in French, then …", "with a title in French"
_PART = re.compile(
    r"\b(?:then|first(?! person)|secondly|finally|lastly|followed by|as well as|both|bilingual|side by side|along with"
    r"|together with|and (?:then )?(?:explain|comment|describe|discuss|analy[sz]e|add|include))\b"
    r"|\b(?:titles?|headings?|keywords?|terms?|names?|words?|phrases?|quotes?|greetings?|subtitles?|captions?|paragraph"
    r"|sentence|line|section|examples?|lyrics|parts?|half)\s+(?:\w+\s+){0,2}in(?:to)?\s"
    r"|先|再|然后|随后|最后|接着|同时|分别|另外|此外|并(?:将|把|用|给|附|以)|对照|双语|单词|词语|短语|关键词|标题|书名|名字|名称|术语",
    re.IGNORECASE,
)
# The answer has another part, whose language is open: "and explain your choices"
_MORE = re.compile(
    r"\b(?:explain|explanation|comment|notes?|glossary|why)\b|解释|说明|讲解|注释", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；;])|\n+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_MOST_CHARACTERS = 20_000  # of a prompt in which an instruction is looked for
_LONG_PROMPT = 3_000  # characters from which on only its beginning and its end are searched
_ENDS_OF_LONG_PROMPT = 800  # characters of each that are searched


@dataclass(frozen=True, slots=True)
class Request:
    """The languages that a prompt asks for."""

    asked: frozenset[str] = frozenset()
    """Surely."""
    possible: frozenset[str] = frozenset()
    """Under a condition, or for a part of the answer."""
    whole: bool = False
    """Is everything to be in the languages asked for, so that the prompt's own would be wrong?"""


def language_code(name: str) -> str:
    """Return the code of a language given by code or name: "French", "法语", "fr-FR" → "fr"."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    main = key.split("-")[0]
    return _CODES.get(key) or _CODES.get(main) or main


def named_languages(text: str) -> frozenset[str]:
    """Return all languages whose names occur in the text."""
    return frozenset(
        language_code(name).split("-")[0] for name in NAMED.findall(text[:_MOST_CHARACTERS].lower())
    )


def target_languages(prompt: str) -> set[str]:
    """Return the languages that the prompt surely asks for."""
    return set(find_request(prompt).asked)


@lru_cache(maxsize=1024)
def find_request(prompt: str) -> Request:
    """Return what the prompt asks for outside quotations and code; nothing if it only speaks about a language."""
    parts = prompt[:_MOST_CHARACTERS].split('"""')
    if len(parts) > 2:
        # What stands between triple quotes is material.
        unquoted = "\n\n".join(parts[::2])
    else:
        unquoted = prompt[:_MOST_CHARACTERS]
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
        if any(_find_targets(paragraph, pattern) for pattern in _TRANSLATING)
    ]
    if not translating and _ABOUT.search(instructions):
        return Request(possible=named_languages(instructions))
    requested: set[str] = set()
    possible: set[str] = set()
    asks_for_more = False
    for paragraph in translating or paragraphs:
        for sentence in filter(None, _SENTENCE_END.split(paragraph)):
            targets: set[str] = set()
            for pattern in (*_TRANSLATING, *_TARGETS):
                targets |= _find_targets(sentence, pattern)
            # What stands behind a colon is to be translated, and says nothing about the language.
            before_colon = re.split("[:：]", sentence, maxsplit=1)[0]
            if targets and (_CONDITION.search(before_colon) or _PART.search(before_colon)):
                possible |= targets
            requested |= targets - possible
            if not targets and _MORE.search(sentence):
                asks_for_more = True
    whole = bool(requested) and not possible and not asks_for_more
    return Request(frozenset(requested), frozenset(possible - requested), whole)


def _find_targets(sentence: str, pattern: re.Pattern[str]) -> set[str]:
    """Return the languages that a sentence asks for in the way of this pattern."""
    targets: set[str] = set()
    for match in pattern.finditer(sentence):
        if match[1] == "polish":  # the verb
            continue
        around = sentence[max(0, match.start() - 12) : match.end()]
        if _NOT.search(around) or _STATED.search(around):
            continue
        names = NAMED.findall(match[1].lower().replace(" chinese", "-chinese"))
        for name in names or [match[1]]:
            targets.add(_CODE_OF_CHARACTER.get(name) or language_code(name).split("-")[0])
    return targets
