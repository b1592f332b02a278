"""Names of languages, and which language a prompt asks the answer to be in.

    >>> find_language_code("法语"), find_language_code("pt-BR")
    ('fr', 'pt')
    >>> find_request("Translate the German notice below into French.").asked
    frozenset({'fr'})
    >>> find_request("若正确，请用英文回答；否则输出原文。")
    Request(asked=frozenset(), possible=frozenset({'en'}), whole=False)

A prompt asks surely ("Answer in French"), or it makes a language possible: in one branch of a condition, for a part of
the answer, after something else. Only what is asked surely, and for the whole, excludes the prompt's own language.

`find_request` takes these steps: leave out code and quotations; of a long prompt, keep the beginning and the end; if a
paragraph asks for a translation, read only such paragraphs; then look at each sentence with the patterns below.

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
_CODES: dict[str, str] = {}  # code or name in small letters → code
for _code, _names in read_words("language_names").items():
    _CODES |= dict.fromkeys((_code, *_names), _code)
# Codes such as "de" are words of other languages, so prompts are not searched for them. The longest names come first.
_NAMES = [name for name in _CODES if len(name) > 2 or not name.isascii()]
_NAMES.sort(key=len, reverse=True)
# Names in scripts with spaces: french, brazilian[ -]portuguese
_SPACED_NAME = "|".join(
    re.escape(name).replace("\\-", "[ -]") for name in _NAMES if name < "\u3000"
)
# Names in scripts without spaces, from U+3000 on: 法语, フランス語
_UNSPACED_NAME = "|".join(name for name in _NAMES if name >= "\u3000")
# A name with spaces is a whole word, but Chinese characters may touch it: 用English回答
NAMED = re.compile(rf"(?<![^\W\d_一-鿿])(?:{_SPACED_NAME})(?![^\W\d_一-鿿])|{_UNSPACED_NAME}")

# ---- patterns in which a language is asked for ----------------------------------------------------------------------

# What follows a name if the language is meant: "in French, please", not "in French restaurants"
_FOLLOWED_BY = (
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
# One language or several: "French and German". The group is the whole list: no further name may follow it.
_SPACED_LANGUAGES = (
    rf"((?:{_SPACED_NAME})(?:{_LIST_JOINT}(?:{_SPACED_NAME}))*)(?![^\W\d_一-鿿])"
    rf"(?!{_LIST_JOINT}(?:{_SPACED_NAME})(?![^\W\d_])){_FOLLOWED_BY}"
)
# The same for 法语和德语, but not 法语歌 (a French song) or 英文字母 (letters)
_UNSPACED_LANGUAGES = (
    rf"((?:{_UNSPACED_NAME})(?:\s*(?:和|与|及|或|、|/)\s*(?:{_UNSPACED_NAME}))*)"
    r"(?!名|字母|单词|标点|歌|书|课|报|考试|口语)"
)
_SAME_SENTENCE = r"[^.!?\n]{0,150}?"
# Verbs that make an answer, and nouns for one
_WRITE_WORDS = (
    "answer|respond|repl[yi]|response|writ(?:e|ten|ing)|rewrite|describe|summari[sz]e|speak|output|draft|compose|tell"
    "|express|put|phrase|give|generate|continue|explain|list|create|produce|provide|text|poem|story|letter|discuss"
    "|introduce|narrate|prepare|make|outline|present|analy[sz]e|compare|define|elaborate|talk|recite|sing|greet|name"
    "|paraphrase|report|comment|state|suggest|recommend|show|teach|essay|article|email|entire"
    "|everything|all"
)
# Requests for a translation; the only group is what is translated into
_TRANSLATING = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # translate the text into French; ins Deutsche; traduis en anglais; 翻译成法语; 英語に翻訳
        rf"\b(?:translat(?:e|ing|ion)|be translated|render)\b{_SAME_SENTENCE}"
        rf"\b(?:in|into|to)\s+{_MANNER}{_SPACED_LANGUAGES}",
        rf"\bins\s+{_SPACED_LANGUAGES}",
        rf"\b(?:tradu[ciz]|tradúce)\w*\b{_SAME_SENTENCE}\b(?:en|al|au|vers le|in|em|para o|para)\s+{_SPACED_LANGUAGES}",
        rf"(?:译|譯|翻)(?:[^。！？\n]{{0,8}})(?:成|为|為|到)\s*{_UNSPACED_LANGUAGES}",
        rf"{_UNSPACED_LANGUAGES}(?:に(?:翻訳|訳)|로 번역)",
        "[英中汉日韩法德俄]译([英中日韩法德俄])",  # 英译中
    )
]
# 文章 (article), 新闻 (news), …: what 英文 (English) may describe
_CHINESE_PRODUCT = (
    "文章|作文|新闻|小说|论文|推文|主持稿|评论|邮件|诗|信|对话|版|文案|介绍|短文|歌词|报道|演讲|回答|回复|输出|翻译|译文|摘要|总结|故事"
    "|题|简历|台词|剧本|散文|日记|广告|标语|口号|说明"
)
# Verbs: 写 (write), 生成 (generate), 总结 (summarise) …
_CHINESE_MAKE = "写|寫|生成|撰写|创作|扩写|改写|总结|输出|给出|提供|介绍|作成|書"
# Other requests for a language. The only group is the list of languages, as in _TRANSLATING.
_TARGETS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # answer, write, … in French; only in French; auf Deutsch; en français; in italiano; по-русски
        rf"\b(?:{_WRITE_WORDS})\w*\b{_SAME_SENTENCE}\bin(?:to)?\s+{_MANNER}{_SPACED_LANGUAGES}",
        rf"\b(?:entirely|completely|exclusively|solely|fully|strictly|wholly|only|all)\s+in\s+{_MANNER}{_SPACED_LANGUAGES}",
        rf"(?:^|[.!?;:\n]\s*|\bplease,?\s+)in\s+{_MANNER}{_SPACED_LANGUAGES}(?=\s*[,:])",  # In French, describe …
        rf"[,;:(]\s*in\s+{_MANNER}{_SPACED_LANGUAGES}(?=\s*(?:$|[.!?)\n]|please|only))",  # …, in French, please
        rf"\b(?:only|use|using|with)\s+(?:in |use )?(?:only )?{_MANNER}{_SPACED_LANGUAGES}"
        r"(?=\s*(?:$|[^\w\s]|only\b|language\b|in\b|for\b|to\b|throughout\b|when\b))",
        r"\b(?:répon|respond|écri|rédige|escrib|contest|rispond|scriv|escrev|décri|describ|expli|antwort|schreib|parl)"
        rf"\w*\b{_SAME_SENTENCE}\b(?:en|in|em|auf)\s+{_SPACED_LANGUAGES}",
        rf"(?:\bauf\s+|на |по[ -]){_SPACED_LANGUAGES}",
        # 写成英文，用英文回答，给出英文翻译，英語で，영어로
        rf"(?:{_CHINESE_MAKE})(?:[^。！？\n]{{0,8}})(?:成|为|為)\s*(?:一[篇段封首份则个])?{_UNSPACED_LANGUAGES}",
        rf"(?<!不要)(?<!不能)(?<!不)(?<!别)(?<!勿)(?:用|以)\s*(?:简单的?|流利的?|正式的?|地道的?|纯)?{_UNSPACED_LANGUAGES}",
        rf"(?<!如何)(?<!怎么)(?<!怎样)(?:{_CHINESE_MAKE})(?:(?!关于|如何|怎)[^。！？\n]){{0,20}}?{_UNSPACED_LANGUAGES}(?:的|小)?(?:{_CHINESE_PRODUCT})",
        rf"(?:全部|内容|回答|回复|输出|文章|语言)(?:[^。！？\n]{{0,8}})(?:是|为|均为|都是|必须是|要求)\s*{_UNSPACED_LANGUAGES}",
        rf"(?:进行|开展){_UNSPACED_LANGUAGES}(?:对话|交流|沟通|写作)",
        rf"{_UNSPACED_LANGUAGES}(?:で|로|のみ|만)",
    )
]
# Questions about a language, not for it: "How do you say … in French?", "What does … mean?", "French grammar"
_ABOUT_LANGUAGE = re.compile(
    r"\bhow (?:do|does|would|can|should|to) \w+(?: \w+){0,8} in\b"
    r"|\bhow (?:do|does|would|can) \w+ say|\bhow to say\b"
    r"|\bwhat (?:is|does|do)\b[^.!?\n]{0,80}\b(?:mean|called|word)\b"
    r"|\b(?:grammar|verbs?|tenses?|pronounc\w+|conjugat\w+|spell\w*|words? for|vocabulary|phrases?|expressions?"
    r"|idioms?|proverbs?|alphabet|courses?|lessons?|exams?|class(?:es)?|learn\w*|stud(?:y|ying|ies)|proficien\w+"
    r"|fluen\w+)\b"
    r"|怎么说|怎么读|语法|是什么意思|学习|词汇",
    re.IGNORECASE,
)
# "not in French"
_DENIED = re.compile(
    r"\b(?:not|never|avoid|without|instead of|rather than|nicht|no|sin|sans|ne)\b|n['’]t\b",
    re.IGNORECASE,
)
# The material tells what was: "the letter was written in French".
_REPORTED = re.compile(
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
_FURTHER_PART = re.compile(
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
    """Codes of languages that it surely asks for."""
    possible: frozenset[str] = frozenset()
    """Codes of languages that it asks for under a condition, or for a part of the answer."""
    whole: bool = False
    """Is everything to be in the languages asked for, so that the prompt's own would be wrong?"""


def find_language_code(name: str) -> str:
    """Return the code of a language given by code or name: "French", "法语", "fr-FR" → "fr".

    Only Chinese has codes with a hyphen: "zh-hans" and "zh-hant". An unknown name is returned in small letters, without
    what follows a hyphen.
    """
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    main = key.split("-")[0]
    return _CODES.get(key) or _CODES.get(main) or main


def find_named_languages(text: str) -> frozenset[str]:
    """Return the codes of all languages whose names occur in the text; "zh" for both variants of Chinese."""
    return frozenset(
        find_language_code(name).split("-")[0]
        for name in NAMED.findall(text[:_MOST_CHARACTERS].lower())
    )


@lru_cache(maxsize=1024)
def find_request(prompt: str) -> Request:
    """Return the languages that the prompt asks for outside quotations and code.

    If it only speaks about languages ("French grammar"), those that it names are possible.
    """
    parts = prompt[:_MOST_CHARACTERS].split('"""')
    if len(parts) > 2:
        # What stands between triple quotes is material: every second part.
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
    if not translating and _ABOUT_LANGUAGE.search(instructions):
        return Request(possible=find_named_languages(instructions))
    asked: set[str] = set()
    possible: set[str] = set()
    has_further_part = False
    for paragraph in translating or paragraphs:
        for sentence in filter(None, _SENTENCE_END.split(paragraph)):
            targets: set[str] = set()
            for pattern in (*_TRANSLATING, *_TARGETS):
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
        if match[1] == "polish":  # the verb: the language has a capital
            continue
        # "not" and "was" count only right before the request or in it.
        around = sentence[max(0, match.start() - 12) : match.end()]
        if _DENIED.search(around) or _REPORTED.search(around):
            continue
        names = NAMED.findall(match[1].lower().replace(" chinese", "-chinese"))
        for name in names or [f"{match[1]}文"]:  # no name: the single character of 英译中
            targets.add(find_language_code(name).split("-")[0])
    return targets
