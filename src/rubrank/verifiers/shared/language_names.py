"""Names of languages, and which language a prompt asks the answer to be in.

    >>> language_code("法语"), language_code("pt-BR")
    ('fr', 'pt')
    >>> target_languages("Translate the German notice below into French."), target_languages("How are you?")
    ({'fr'}, set())

Not covered: a language asked for in a way that is not listed here, or by the name of a country.
"""

from __future__ import annotations

import re

from rubrank.texts.prose import split_code

# Names by which a language is asked for; the first is the code.
_NAMES = """
en english 英语 英文 英語 anglais inglés englisch | zh chinese mandarin 中文 汉语 漢語 华语 普通话 国语 chinois chino
zh-hans 简体 简体中文 simplified-chinese zh-cn | zh-hant 繁体 繁體 繁体中文 繁體中文 traditional-chinese zh-tw zh-hk
ja japanese 日语 日文 日本語 日語
ko korean 韩语 韩文 韓語 朝鲜语 한국어
fr french 法语 法文 法語 français
es spanish 西班牙语 西班牙語 español
de german 德语 德文 德語 deutsch
ru russian 俄语 俄文 俄語 русский
ar arabic 阿拉伯语 阿拉伯文 العربية
pt portuguese 葡萄牙语 português
it italian 意大利语 意大利文 italiano
vi vietnamese 越南语 越南文
th thai 泰语 泰文
id indonesian 印尼语 印度尼西亚语
tr turkish 土耳其语
nl dutch 荷兰语
pl polish 波兰语
sv swedish 瑞典语
da danish 丹麦语
no norwegian 挪威语
fi finnish 芬兰语
cs czech 捷克语
el greek 希腊语
he hebrew 希伯来语
hi hindi 印地语
uk ukrainian 乌克兰语
ro romanian 罗马尼亚语
hu hungarian 匈牙利语
bn bengali 孟加拉语
fa persian farsi 波斯语
ur urdu 乌尔都语
ta tamil 泰米尔语
te telugu 泰卢固语
mr marathi 马拉地语
ne nepali 尼泊尔语
sw swahili 斯瓦希里语
pa punjabi 旁遮普语
gu gujarati 古吉拉特语
kn kannada 卡纳达语
bg bulgarian 保加利亚语
la latin 拉丁语
ms malay 马来语
ml malayalam 马拉雅拉姆语
tl tagalog filipino
ko coréen
ja japonais
pt portugais
it italien
de allemand
ru russe
ar arabe
te télougou
ta tamoul
sw kiswahili
fi finnois
th thaï
vi vietnamien
ur ourdou
ne népalais
pa pendjabi
fa persan
bg bulgare
es espagnol
en englische englischer inglese inglês ingles английский английском 영어
fr francés frances französisch französische francese francês французском フランス語 프랑스어
de alemán aleman deutsche deutscher tedesco alemão немецком ドイツ語 독일어
es spanisch spanische spagnolo espanhol испанском スペイン語 스페인어
it italienisch italienische italiano итальянском イタリア語
pt portugués portugiesisch portoghese
zh chinesisch chinesische cinese chinês китайском 中国語 중국어
ja japanisch japonés giapponese японском 일본어
ru russisch ruso russo русском ロシア語
ko koreanisch coreano 韓国語
"""
LANGUAGE_NAMES: dict[str, str] = {}
for _group in re.split(r"[|\n]", _NAMES):
    for _name in _group.split():
        LANGUAGE_NAMES[_name] = _group.split()[0]
QUOTED = re.compile(
    '“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』|«[^»]{1,2000}»|"[^"\n]{1,500}"|《[^》]{1,200}》'
)
_BY_LENGTH = sorted((name for name in LANGUAGE_NAMES if len(name) > 2 or not name.isascii()), key=len, reverse=True)
_SPELLED = "|".join(re.escape(name).replace("\\-", "[ -]") for name in _BY_LENGTH if name < "\u3000")
_DENSE = "|".join(name for name in _BY_LENGTH if name >= "\u3000")
NAMED = re.compile(rf"(?<![^\W\d_一-鿿])(?:{_SPELLED})(?![^\W\d_一-鿿])|{_DENSE}")

# A name, or several; what follows a name shows whether the language is meant: not "in French restaurants".
_MEANT = (
    r"(?=\s*(?:$|[^\w\s]|(?:and|or|only|please|with|without|using|about|for|that|which|to|so|then|but|on|of|at|by|as|in"
    r"|from|language|text|prose|et|y|und|oder|ou|o|e|bitte|por|per|simplifi\w*|tradi[tc]\w*|s['’]il)\b|[\u3040-\u9fff\uac00-\ud7af]))"
)
_HOW = r"(?:(?:simple|plain|fluent|formal|modern|proper|standard|natural|american|british|brazilian|good)\s+){0,2}"
_SOME = rf"((?:{_SPELLED})(?:\s*(?:,|and|or|&|et|und|y|/)\s*(?:{_SPELLED}))*)(?![^\W\d_一-鿿]){_MEANT}"
_SOME_DENSE = rf"((?:{_DENSE})(?:\s*(?:和|与|及|或|、|/)\s*(?:{_DENSE}))*)(?!名|字母|单词|标点|歌|书|课|报|考试)"
_WITHIN = r"[^.!?\n]{0,150}?"
_WRITE = (
    "answer|respond|repl[yi]|response|writ(?:e|ten|ing)|rewrite|describe|summari[sz]e|speak|output|draft|compose|tell|express"
    "|put|phrase|give|generate|continue|explain|list|create|produce|provide|text|poem|story|letter"
)
_TRANSLATING = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:translat(?:e|ing|ion)|be translated|render)\b{_WITHIN}\b(?:in|into|to)\s+{_HOW}{_SOME}",
        rf"\bins\s+{_SOME}",
        rf"\b(?:tradu[ciz]|tradúce)\w*\b{_WITHIN}\b(?:en|al|au|vers le|in|em|para o|para)\s+{_SOME}",
        rf"(?:译|譯|翻)(?:[^。！？\n]{{0,8}})(?:成|为|為|到)\s*{_SOME_DENSE}",
        rf"{_SOME_DENSE}(?:に(?:翻訳|訳)|로 번역)",
        "[英中汉日韩法德俄]译([英中汉日韩法德俄])",  # 英译中
    )
]
_TARGETS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # answer, write, … in French; only in French; auf Deutsch; en français; in italiano; по-русски
        rf"\b(?:{_WRITE})\w*\b{_WITHIN}\bin(?:to)?\s+{_HOW}{_SOME}",
        rf"\b(?:only|use|using) (?:in |use )?(?:only )?(?:the )?{_SOME}(?=\s*(?:$|[^\w\s]|only\b|language\b))",
        r"\b(?:répon|respond|écri|rédige|escrib|contest|rispond|scriv|escrev|décri|describ)\w*\b"
        rf"{_WITHIN}\b(?:en|in|em)\s+{_SOME}",
        rf"(?:\bauf\s+|на |по[ -]){_SOME}",
        # 写成英文，用英文回答，给出英文翻译，英語で，영어로
        rf"(?:写|寫)(?:[^。！？\n]{{0,8}})(?:成|为|為)\s*{_SOME_DENSE}",
        rf"(?<!不要)(?<!不能)(?<!不)(?<!别)(?:用|以)\s*(?:简单的?|流利的?|正式的?)?{_SOME_DENSE}",
        rf"(?:给出|提供|写出)[^。！？\n]{{0,8}}{_SOME_DENSE}(?:翻译|译文|版)",
        rf"{_SOME_DENSE}(?:で|로)",
    )
]
_BLANK = re.compile(r"\n[ \t]*\n")
_ABOUT = re.compile(  # questions about a language, not for it
    r"\b(?:how (?:do|does|would|can) \w+ say|what (?:is|does|do)\b[^.!?\n]{0,80}\b(?:mean|called|word)|grammar|verbs?"
    r"|tenses?|pronounc\w+|conjugat\w+|spell\w*|words? for)\b|怎么说|怎么读|语法|是什么意思",
    re.IGNORECASE,
)
_OF_PAIR = {"英": "en", "中": "zh", "汉": "zh", "日": "ja", "韩": "ko", "法": "fr", "德": "de", "俄": "ru"}
_NOT = re.compile(
    r"\b(?:not|never|avoid|without|instead of|rather than|nicht|no|sin|sans|ne)\b|n['’]t\b", re.IGNORECASE
)
_MOST = 20_000  # characters of a prompt in which an instruction is looked for


def language_code(name: str) -> str:
    """The code of a language given by code or name: "French", "法语", "fr-FR" → "fr"."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    return LANGUAGE_NAMES.get(key) or LANGUAGE_NAMES.get(key.split("-")[0]) or key.split("-")[0]


def target_languages(prompt: str) -> set[str]:
    """The languages that the prompt asks for, outside quotations and code; none if it only speaks about one."""
    said = QUOTED.sub(" ", "\n".join(split_code(prompt[:_MOST])[0]))
    if not NAMED.search(said.lower()) and "译" not in said:
        return set()
    paragraphs = _BLANK.split(said)
    # Where one asks for a translation, the others are what is to be translated, and may speak of any language.
    asking = [p for p in paragraphs if any(_asked_in(p, pattern) for pattern in _TRANSLATING)]
    if not asking and _ABOUT.search(said):
        return set()
    return {
        code for p in asking or paragraphs for pattern in (*_TRANSLATING, *_TARGETS) for code in _asked_in(p, pattern)
    }


def _asked_in(paragraph: str, pattern: re.Pattern[str]) -> set[str]:
    found = set[str]()
    for match in pattern.finditer(paragraph):
        if match[1] != "polish" and not _NOT.search(paragraph[max(0, match.start() - 12) : match.end()]):  # the verb
            names = NAMED.findall(match[1].lower().replace(" chinese", "-chinese"))
            found |= {_OF_PAIR.get(name) or language_code(name).split("-")[0] for name in names or [match[1]]}
    return found
