"""Constraints that Chinese prompts state: length, keywords, format, language, beginning and end.

    >>> for constraint in compile_chinese("写一篇不少于300字的文章。不要出现“可能”。"):
    ...     print(constraint.verifier, dict(constraint.params))
    WordCount {'relation': 'at least', 'count': 300}
    keywords:forbidden_words {'forbidden_words': ['可能']}

A clause that holds only under a condition (如果, 否则), or for a part of the answer (每段, 标题), states nothing about
the whole response and is left out.

In a pattern, a name in braces is a list of data/words.tsv: {至少} is 至少|不少于|…, {数} is a number in digits
or characters, {单位} is what is counted (字, 句话, 段). Two of the lists also capture quotations, each in a group:

    list             matches               group
    {短语}           “谢谢”                phrase, without the quotation marks
    {多个关键词}     “森林”、“河流”        keywords, which `_read_keywords` splits

Several rules look at a few characters around a match (8 to 30). Chinese needs few characters for a clause, and words
farther away belong to another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rubrank.drafting.rules import Constraint
from rubrank.drafting.sentences import pattern, read_group
from rubrank.verifiers.shared.answer_languages import find_request
from rubrank.verifiers.shared.language import find_language_code
from rubrank.verifiers.shared.numbers import read_han


def compile_chinese(prompt: str) -> list[Constraint]:
    """Return all constraints of a Chinese prompt, in its order, each with its sentence as evidence."""
    constraints: list[Constraint] = []
    for clause in _find_clauses(prompt):
        for rule in (find_counts, find_words, find_format, find_language):
            constraints += [replace(constraint, evidence=clause) for constraint in rule(clause)]
    return constraints


# ---- clauses -------------------------------------------------------------------------------------------------------

_LONGEST_SENTENCE = 200  # characters; a longer one is material
_SENTENCE_END = re.compile(r"(?<=[。！？；;])|\n+")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Quotations of more than 30 characters, and whole sentences, are material, not keywords.
_QUOTED_MATERIAL = re.compile(
    r'“[^”]{30,}”|"[^"]{30,}"|「[^」]{30,}」|"""[^"]*"""|“[^”]{4,}[。！？][^”]*”'
)
# 把下面的句子翻译成英文：…  The rest of the line is material.
# {处理文本}: 翻译|译成|改写|…
_GIVEN_TEXT = pattern(
    r"({处理文本}[^。：:\n]{0,30}[：:])[^\n]+"
    r"|((?:这句话|下面的句子|以下句子|这段话|下面的话)[^。：:\n]{0,20}[：:])[^\n]+"
)
_CONDITION = pattern(r"{条件}")  # 如果, 否则
_PART = pattern(r"{部分}")  # 每, 标题, 第一
_REQUEST = pattern(r"{要求}")  # 请, 必须, 写
# 老师要求不少于600字, 有人说不要超过五百字: somebody else's demand
_REPORTED = pattern(
    r"{别人}(?:里|中|上)?[^，。；]{0,6}(?:说|要求|让|规定|认为|建议|写着|觉得)|据说|听说"
)
_OWN_WISH = re.compile(r"请(?!问)|帮我|替我|给我|麻烦你|你(?:要|来|需)")
# …吗？, 是否…: a question, which asks for no form
_QUESTION = re.compile(r"[？?]\s*$|是否|有没有|能否判断")
# 请…吗？ asks for something; so does 回答控制在80字以内：什么是黑洞？
_DEMAND = re.compile(r"^(?:回答|用|以)[^：:？?]{2,30}[：:]|请(?!问)")
# A prompt that asks for several things one after another states lengths of its parts.
_STEPS = re.compile(
    r"(?:首先|先)[^。]{2,200}(?:然后|再|最后|其次)|然后|最后(?=[请再将把用根结写生给])|其次"
)
# 全文, 总字数: the sentence speaks of the whole response
_WHOLE = re.compile(r"全文|总字数|整体|整篇|总体|总共|回答|回复|输出|全部")


def _find_clauses(prompt: str) -> Iterator[str]:
    """Yield the sentences that ask something of the whole response."""
    has_steps = _STEPS.search(prompt) is not None
    text = _QUOTED_MATERIAL.sub("〈〉", _CODE.sub("〈〉", prompt))
    text = _GIVEN_TEXT.sub(lambda match: f"{match[1] or match[2]}〈〉", text)
    for sentence in _SENTENCE_END.split(text):
        sentence = sentence.strip()
        if len(sentence) > _LONGEST_SENTENCE or not _REQUEST.search(sentence):
            continue
        if _CONDITION.search(sentence):
            continue
        if _REPORTED.search(sentence) and not _OWN_WISH.search(sentence):
            continue
        if _QUESTION.search(sentence) and not _DEMAND.search(sentence):
            continue
        if has_steps and not _WHOLE.search(sentence):
            continue
        yield sentence


# ---- counts --------------------------------------------------------------------------------------------------------

_RELATION_BEFORE = {
    "at least": pattern("{至少}"),
    "at most": pattern("{至多}"),
    "less than": pattern("{少于}"),
    "more than": pattern("{多于}"),
    "around": pattern("{大约}"),
    "exactly": pattern("{恰好}"),
}
# 300字以上, 300字以内
_RELATION_AFTER = {"at least": pattern("{以上}"), "at most": pattern("{以内}")}
# 不少于300字, 300到400字, 三句话以内. {关系}: 不少于, 超过, 大约 …; {后置关系}: 以上, 以内 …
_COUNT = pattern(
    r"(?P<before>{关系})?\s*(?:有|为|在|于)?\s*"
    r"(?P<low>{数})\s*(?:字|句|个字|词)?\s*(?:[-—~～到至]\s*(?P<high>{数})\s*)?(?:个)?\s*"
    r"(?P<unit>{单位})(?:数)?\s*(?P<after>{后置关系}|左右|上下)?"
)
# 字数要求：300到400, without a unit. With one (字数控制在300到400字) it is read by _COUNT.
_RANGE_WITHOUT_UNIT = pattern(
    r"字数\s*(?:要求|限制|控制)?\s*(?:在|为|是|：|:)?\s*"
    r"(?P<low>{数})\s*[-—~～到至]\s*(?P<high>(?>{数}))(?!\d|\s*个?\s*{单位})"
)


def _read_number(numeral: str) -> int:
    return int(numeral) if numeral.isdigit() else int(read_han(numeral))


def _find_relation(before: str | None, after: str | None) -> str | None:
    """Return the relation that the words around a number state; None: a number alone."""
    for relation, relation_pattern in _RELATION_BEFORE.items():
        if before and relation_pattern.fullmatch(before):
            return relation
    for relation, relation_pattern in _RELATION_AFTER.items():
        if after and relation_pattern.fullmatch(after):
            return relation
    return "around" if after else None


# 这300字, 原文300字: before the length of a text that the prompt speaks of
_GIVEN_LENGTH_BEFORE = re.compile(
    r"(?:这|那|以上|以下|上述|下面|前|后|上面|原文|长达|达|超过了|一共|共有)\s*(?:的)?$"
)
# 一份一句话简介, 他的一句话: one phrase
_ONE_PHRASE_BEFORE = re.compile(r"[一1]份?$|的$")
# Words before a number alone that make it a request: 用三句话, 分两段, 列出五点, 分三条
_ASKS_FOR_SENTENCES = re.compile(r"用|以|写|概括|总结|输出|回答|一共|共")
_ASKS_FOR_PARAGRAPHS = re.compile(r"分|写|共|用|以|成|为")
_ASKS_FOR_POINTS = re.compile(r"列|分|给出|写|输出|总结|提供|归纳|用|以|建议|提出")
_ASKS_FOR_LIST = re.compile(r"分|列")
# 三条新闻: news, comments and rules are counted with the same word as points.
_NOT_POINTS = re.compile(r"新闻|评论|规定|短信|消息")
_QUOTATION = re.compile(r"“[^”]*”|「[^」]*」|『[^』]*』|\"[^\"]*\"")


def find_counts(clause: str) -> Iterator[Constraint]:
    """Yield constraints on the number of characters, words, sentences, paragraphs or points."""
    # “请用三句话回答”: a quoted number asks for nothing. Quotations are filled with a sign that no pattern below
    # matches, not removed, so that a position in `unquoted` is the same in `clause`.
    unquoted = _QUOTATION.sub(lambda match: "□" * len(match[0]), clause)
    for match in _COUNT.finditer(unquoted):
        low = _read_number(match["low"])
        relation = _find_relation(match["before"], match["after"])
        unit = match["unit"].removeprefix("个")
        before = clause[max(0, match.start() - 12) : match.start()]
        same_clause = clause[max(0, match.start() - 30) : match.start()].rpartition("，")[2]
        if "每" in clause[: match.start()] or _PART.search(same_clause):
            continue
        # 这300字, 原文300字: the length of something in the prompt
        if relation is None and _GIVEN_LENGTH_BEFORE.search(before):
            continue
        if unit in ("汉字", "字", "词", "字符"):
            if low < 10 and relation is None:
                continue  # 一字, 两个字: a word is meant
            params = _make_count_params(low, match["high"], relation or "around")
            if unit == "字符":
                params["unit"] = "characters"
            yield Constraint("WordCount", params)
            continue
        params = _make_count_params(low, match["high"], relation or "exactly")
        if unit in ("句话", "句"):
            # 写一句, 一份一句话简介: one phrase, not the length of the response
            is_single_phrase = low < 2 and (unit == "句" or _ONE_PHRASE_BEFORE.search(before))
            asks_for_sentences = _ASKS_FOR_SENTENCES.search(before) and not is_single_phrase
            if relation is not None or asks_for_sentences:
                yield Constraint("SentenceCount", params)
        elif unit in ("段", "段落", "自然段", "段话"):
            if relation is not None or (low >= 2 and _ASKS_FOR_PARAGRAPHS.search(before)):
                yield Constraint("ParagraphCount", params)
        else:  # 条, 点, 要点
            asks_for_points = _ASKS_FOR_LIST if unit == "条" else _ASKS_FOR_POINTS
            if asks_for_points.search(before) and not _NOT_POINTS.search(clause):
                yield Constraint("EntryCount", params)
    for match in _RANGE_WITHOUT_UNIT.finditer(unquoted):
        if not _PART.search(clause[: match.start()]):
            params = {"low": _read_number(match["low"]), "high": _read_number(match["high"])}
            yield Constraint("WordCount", params)


def _make_count_params(low: int, high: str | None, relation: str) -> dict[str, object]:
    """Return the parameters of a counting verifier: a range if there is a second number, else relation and count."""
    if high:
        return {"low": low, "high": _read_number(high)}
    return {"relation": relation, "count": low}


# ---- words, beginning and end --------------------------------------------------------------------------------------

# 不要出现“可能”, 禁止使用词语：“大概”、“也许”
_FORBIDDEN = pattern(
    r"{不要}(?:再)?(?:出现|使用|包含|提及|提到|含有|用到?|带有?|说|写)?(?:任何)?(?:关键词|词语"
    r"|词汇|字眼|词|字|表述)?[：:]?\s*{多个关键词}"
)
# 必须包含关键词“森林”和“河流”
_INCLUDED = pattern(
    r"(?:必须|需要?|要|请|应当?|都要|中)?(?:包含|包括|含有|出现|使用|用上|用到|提到|提及|带有|加入|嵌入)(?:以下)?(?:这?[一二两三四五六七八九十几\d]?个?)?(?:关键词"
    r"|词语|词汇|词|字|句子|句)?[：:]?\s*{多个关键词}"
)
# 以“谢谢”结尾
_END = pattern(
    r"以\s*{短语}\s*(?:这?句?话|一?词|二字|两字)?(?:作为|为|来)?(?:结尾|结束|收尾|作结|结语)"
)
# 以“从前”开头
_START = pattern(
    r"以\s*{短语}\s*(?:这?句?话|一?词|二字|两字)?(?:作为|为|来)?(?:开头|开始|开篇|起始)"
)
# 结尾必须是“…”, 最后一句话是“…”
_END_IS = pattern(
    r"(?:结尾|末尾|结束语|最后一句话?)(?:处)?(?:必须|要|应该?|需要?|请)?(?:是|为|写上|写|用|使用)[：:]?\s*{短语}"
)
# 开头必须是“…”, 第一句话是“…”
_START_IS = pattern(
    r"(?:开头|第一句话?|开篇)(?:处)?(?:必须|要|应该?|需要?|请)?(?:是|为|写上|写|用|使用)[：:]?\s*{短语}"
)
# “森林”一词至少出现3次; "about three times" cannot be decided
_FREQUENCY = pattern(
    r"{短语}\s*(?:这?一?[个]?(?:词语?|字|短语))?\s*(?:必须|要|应当?|需要?|在文中|在全文中)?"
    r"(?P<before>{明确关系})?(?:出现|使用|用到?|提到)"
    r"(?P<before>{明确关系})?(?:了)?\s*(?P<count>{数})\s*次(?P<after>{后置关系})?"
)
# 不要使用任何逗号, 不得出现阿拉伯数字
_NO_MARK = re.compile(
    r"(?:不要|不能|不得|不可以?|禁止|避免|不允许|不使用|不用|没有|无)(?:使用|出现|包含|用|带|有)?(?:任何)?(?P<mark>逗号"
    # not 问号不…, 数字错误: the sentence goes on about something else
    r"|感叹号|问号|数字|阿拉伯数字|表情符号|emoji)(?!不|错)"
)
# The kinds of `ForbiddenContent`. It has none for 标点符号; 英文 may mean the language. So these are not read.
_MARK_KINDS = {
    "逗号": "comma",
    "感叹号": "exclamation",
    "问号": "question",
    "数字": "digits",
    "阿拉伯数字": "digits",
    "表情符号": "emoji",
    "emoji": "emoji",
}


# 标签, 字段 and 格式 after a quotation show that it is no keyword; 之一 offers a choice.
_NO_KEYWORD_AFTER = re.compile(
    r"字段|标签|标志|符号|标记|格式|模板|等|任意|之一|开头|结尾|两部分|部分"
)
_NEGATED_BEFORE = re.compile(r"不[要能得]?$")
# A part that has its own beginning and end: the 每段 of 每段以“谢谢”结尾
_PART_WITH_ENDS = re.compile(r"段|句|标题|题目|行|每")


def find_words(clause: str) -> Iterator[Constraint]:
    """Yield constraints on words: forbidden, included, first and last ones, counted ones, and marks."""
    forbidden: list[str] = []
    for match in _FORBIDDEN.finditer(clause):
        # 不要用“谢谢”结尾 forbids an ending, not the word.
        if "结尾" not in clause[match.end() : match.end() + 8]:
            forbidden += _read_keywords(match["keywords"])
    if forbidden:
        yield Constraint("keywords:forbidden_words", {"forbidden_words": forbidden})
    included: list[str] = []
    for match in _INCLUDED.finditer(clause):
        # Some words name a part only together with what follows them ({部分}, such as 均 before 要). In 均要包含“森林”
        # the match begins at 要, so the search goes on for two characters, to the end of 均要.
        nearby = clause[max(0, match.start() - 14) : match.start() + 2]
        # A negation before a comma belongs to something else: 不超过20字，且必须包含…
        before = re.split(r"[，,；;]", nearby)[-1]
        after = clause[match.end() : match.end() + 8]
        is_negated = re.search(r"[不勿别]|避免|禁止|是否|没有", before)
        if is_negated or _NO_KEYWORD_AFTER.search(after) or _PART.search(before):
            continue
        keywords = _read_keywords(match["keywords"])
        included += [keyword for keyword in keywords if keyword not in forbidden]
    if included:
        yield Constraint("keywords:existence", {"keywords": included})

    ends = [*_find_demands(_END, clause), *_END_IS.finditer(clause)]
    starts = [*_find_demands(_START, clause), *_START_IS.finditer(clause)]
    for match in ends:
        yield Constraint("startend:end_checker", {"end_phrase": match["phrase"]})
    for match in starts:
        yield Constraint("Regex", {"pattern": rf"^\s*[\"“「]?{re.escape(match['phrase'])}"})

    for match in _FREQUENCY.finditer(clause):
        relation = _find_relation(read_group(match, "before"), match["after"]) or "exactly"
        count = _read_number(match["count"])
        params = {"keyword": match["phrase"], "relation": relation, "frequency": count}
        yield Constraint("keywords:frequency", params)
    for match in _NO_MARK.finditer(clause):
        yield Constraint("ForbiddenContent", {"kinds": [_MARK_KINDS[match["mark"]]]})


def _read_keywords(text: str) -> list[str]:
    """Return the keywords without their quotation marks: ["森林", "河流"] for “森林”、“河流”."""
    return re.findall(r"[“\"「『'‘]([^”\"」』'’\n]{1,20})[”\"」』'’]", text)


def _find_demands(demand: re.Pattern[str], clause: str) -> list[re.Match[str]]:
    """Return the matches of a pattern, without those that are negated (不以…) or about a part (每段以…)."""
    demands: list[re.Match[str]] = []
    for match in demand.finditer(clause):
        # An earlier demand says nothing about this one: the 这句话 of 以“从前”这句话开头，以“谢谢”结尾 names no part.
        before = _START.sub("", _END.sub("", clause[: match.start()]))
        if not _NEGATED_BEFORE.search(before) and not _PART_WITH_ENDS.search(before[-10:]):
            demands.append(match)
    return demands


# ---- format and language -------------------------------------------------------------------------------------------

# 以JSON格式输出
_JSON = re.compile(r"(?:以|用|按照?|采用|输出|返回|为)[^，。]{0,12}json", re.IGNORECASE)
# JSON that is given or that a program handles: 根据以下JSON回答, 以下JSON格式的数据. Not 按以下JSON格式输出.
_ABOUT_JSON = re.compile(
    r"解析|读取|代码|函数|转(?:换|化)?(?:成|为)|接口|字段|文件"
    r"|(?:以下|下面)json(?!(?:格式|结构|形式)(?!的))",
    re.IGNORECASE,
)
# 用表格对比; 列表格式 is no table
_TABLE = re.compile(r"(?:以|用|做成|整理成|列成)[^，。]{0,8}(?<!列)表格")
# 用无序列表
_BULLETS = re.compile(r"(?:用|以|采用)(?:无序|项目符号)列表")


def find_format(clause: str) -> Iterator[Constraint]:
    """Yield constraints on the format: JSON, a table, bullet points."""
    if _JSON.search(clause) and not _ABOUT_JSON.search(clause):
        yield Constraint("FormatRequirement", {"format": "json"})
    if _TABLE.search(clause) and not _PART.search(clause):
        yield Constraint("FormatRequirement", {"format": "table", "only": False})
    if _BULLETS.search(clause):
        yield Constraint("FormatRequirement", {"format": "bullets", "only": False})


# 全文用英语书写
_WRITTEN_IN = re.compile(
    r"(?:全文|全部|整篇|通篇|回答|回复)(?:都|均|必须|要|请|需|应)*(?:用|以|使用)"
    r"(?P<language>[英法德日韩俄]|西班牙|意大利|葡萄牙|阿拉伯)(?:文|语)"
    r"(?:书写|撰写|写作|写|作答|回答|回复|输出|呈现)"
)
# A translation is the task itself; other clauses speak of names, words or a bilingual text.
_OTHER_USE_OF_LANGUAGE = re.compile(
    r"翻译|译成|译为|官方语言|母语|名称|单词|和英文|中英|双语|英文名|一份"
)


def find_language(clause: str) -> Iterator[Constraint]:
    """Yield the language of the response."""
    if _OTHER_USE_OF_LANGUAGE.search(clause):
        return
    # 请用英语回答：什么是机器学习？  The question after the colon asks for no language.
    languages = find_request(re.split(r"[：:]", clause)[0]).asked
    written_in = _WRITTEN_IN.search(clause)
    if written_in and not languages:
        language = find_language_code(written_in["language"] + "语")
        yield Constraint("language:response_language", {"language": language})
    elif len(languages) == 1 and not _PART.search(clause):
        yield Constraint("language:response_language", {"language": next(iter(languages))})
