"""Constraints that Chinese prompts state: length, keywords, format, language, beginning and end.

    >>> for constraint in compile_chinese("写一篇不少于300字的文章。不要出现“可能”。"):
    ...     print(constraint.verifier, dict(constraint.params))
    WordCount {'relation': 'at least', 'count': 300}
    keywords:forbidden_words {'forbidden_words': ['可能']}

A clause that holds only under a condition (如果, 否则), or for a part of the answer (每段, 标题), states nothing about
the whole response and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rubrank.drafting.constraint import Constraint
from rubrank.verifiers.shared.language_names import find_request, language_code
from rubrank.verifiers.shared.numerals import read_han

# ---- clauses -------------------------------------------------------------------------------------------------------

_SENTENCE_END = re.compile(r"(?<=[。！？；;])|\n+")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Quotations of more than 30 characters, and whole sentences, are material, not keywords.
_MATERIAL = re.compile(
    r'“[^”]{30,}”|"[^"]{30,}"|「[^」]{30,}」|"""[^"]*"""|“[^”]{4,}[。！？][^”]*”'
)
# 把下面的句子翻译成英文：…  The rest of the line is material.
_GIVEN_TEXT = re.compile(
    r"((?:翻译|译成|改写|润色|修改|总结|概括|判断|分析|分类|改正|纠正|语病|点评|评价)[^。：:\n]{0,30}[：:])[^\n]+"
    r"|((?:这句话|下面的句子|以下句子|这段话|下面的话)[^。：:\n]{0,20}[：:])[^\n]+"
)
_CONDITION = re.compile(
    r"如果|若(?!干)|倘若|假如|否则|(?:当|在)[^，。]{1,40}(?:时|的情况下|之后)[，,]|只有当|的话[，,]|不然|情况下"
)
_PART = re.compile(
    r"每|开头|中间|结尾|版|步骤|对于|各(?:自|个|段|部分|点)|分别|均(?=不|为|在|要)|标题|题目|第[一二三四五六七八九十\d]|首先|先(?=用|把|将|给|生|写|列|输)"
    r"|然后|最后|其中|开头要|结尾要|小结|摘要(?=不|要|在|控)|提问|理由|原因|解释(?=不|要|在|控)|上联|下联|名字|简介|台词|备注|段落要"
)
_REQUEST = re.compile(
    r"请|要求|需要|需(?=在|要|用|包|控|以)|必须|务必|应(?:当|该)?|不要|不能|不得|不可|禁止|避免|勿|别(?=用|出|使)|控制在|限制|写|生成|输出|回答|用"
    r"|给出|撰写|创作|总结|概括|改写|扩写|续写|列出|介绍|描述|帮我|给我|字数|篇幅|包含|以|整理成|做成"
)
# 老师要求不少于600字, 有人说不要超过五百字: somebody else's demand
_REPORTED = re.compile(
    r"(?:有人|别人|老师|老板|公司|学校|领导|编辑|教授|客户|朋友|同事|他|她|他们|专家|网上|合同|规定|杂志社?|平台)(?:里|中|上)?[^，。；]{0,6}"
    r"(?:说|要求|让|规定|认为|建议|写着|觉得)|据说|听说"
)
_OWN_WISH = re.compile(r"请(?!问)|帮我|替我|给我|麻烦你|你(?:要|来|需)")
_QUESTION = re.compile(r"[？?]\s*$|是否|有没有|能否判断")
# 回答控制在80字以内：什么是黑洞？
_DEMAND_BEFORE_QUESTION = re.compile(r"(?:回答|用|以)[^：:？?]{2,30}[：:]")
# A prompt that asks for several things one after another states lengths of its parts.
_STEPS = re.compile(
    r"(?:首先|先)[^。]{2,200}(?:然后|再|最后|其次)|然后|最后(?=[请再将把用根结写生给])|其次"
)
_WHOLE = re.compile(r"全文|总字数|整体|整篇|总体|总共|回答|回复|输出|全部")


def _find_clauses(prompt: str) -> Iterator[str]:
    """The sentences that ask something of the whole response."""
    has_steps = _STEPS.search(prompt) is not None
    text = _MATERIAL.sub("〈〉", _CODE.sub("〈〉", prompt))
    text = _GIVEN_TEXT.sub(lambda match: f"{match[1] or match[2]}〈〉", text)
    for sentence in _SENTENCE_END.split(text):
        sentence = sentence.strip()
        if (
            not sentence
            or len(sentence) > 200
            or not _REQUEST.search(sentence)
            or _CONDITION.search(sentence)
        ):
            continue
        if _REPORTED.search(sentence) and not _OWN_WISH.search(sentence):
            continue
        if (
            _QUESTION.search(sentence)
            and not re.search("请(?!问)", sentence)
            and not _DEMAND_BEFORE_QUESTION.match(sentence)
        ):
            continue
        if has_steps and not _WHOLE.search(sentence):
            continue
        yield sentence


# ---- counts --------------------------------------------------------------------------------------------------------

_NUMBER = r"(?:\d{1,6}|[零一二两三四五六七八九十百千万]{1,8})"
_AT_LEAST = r"不少于|不低于|至少|最少|不得少于|不能少于|不应少于|多于或等于|不小于"
_AT_MOST = (
    r"不超过|不多于|不得超过|不能超过|不要超过|不大于|至多|最多"
    r"|不能多于|不得多于|不要多于|不可超过|上限为?|少于或等于"
)
_LESS_THAN = r"少于|低于|小于"
_MORE_THAN = r"多于|超过|大于|高于"
_AROUND = r"大约|约|大概|左右|约为"
_EXACTLY = r"恰好|正好|刚好|仅|只"
_AFTER_AT_LEAST = r"以上|及以上|起步"
_AFTER_AT_MOST = r"以内|之内|以下|及以下|内(?![容])"
_COUNT = re.compile(
    rf"(?P<before>{_AT_LEAST}|{_AT_MOST}|{_LESS_THAN}|{_MORE_THAN}|{_AROUND}|{_EXACTLY})?\s*(?:有|为|在|于)?\s*"
    rf"(?P<low>{_NUMBER})\s*(?:字|句|个字|词)?\s*(?:[-—~～到至]\s*(?P<high>{_NUMBER})\s*)?(?:个)?\s*"
    rf"(?P<unit>汉字|字(?!母|段|符|典|体|形)|字符|词(?!语|汇|性)|句话|句(?!子成)|个?段落?(?!话|时|子)|个?自然段|段话|条|点(?!钟|半|\d|前|后|的|以|左)|个要点)"
    rf"(?:数)?\s*(?P<after>{_AFTER_AT_LEAST}|{_AFTER_AT_MOST}|左右|上下)?"
)
_NUMBER_LATER = re.compile(
    rf"字数\s*(?:要求|限制|控制)?\s*(?:在|为|是|：|:)?\s*(?P<low>{_NUMBER})\s*[-—~～到至]\s*(?P<high>{_NUMBER})(?!\d)"
)


def _read_number(numeral: str) -> int:
    return int(numeral) if numeral.isdigit() else int(read_han(numeral))


def _find_relation(before: str | None, after: str | None) -> str | None:
    """The relation that the words around a number state; None: a number alone."""
    if before:
        for relation, pattern in (
            ("at least", _AT_LEAST),
            ("at most", _AT_MOST),
            ("less than", _LESS_THAN),
            ("more than", _MORE_THAN),
            ("around", _AROUND),
            ("exactly", _EXACTLY),
        ):
            if re.fullmatch(pattern, before):
                return relation
    if after:
        if re.fullmatch(_AFTER_AT_LEAST, after):
            return "at least"
        return "at most" if re.fullmatch(_AFTER_AT_MOST, after) else "around"
    return None


_MATERIAL_BEFORE = re.compile(
    r"(?:这|那|以上|以下|上述|下面|前|后|上面|原文|长达|达|超过了|一共|共有)\s*(?:的)?$"
)
_ASKS_FOR_SENTENCES = re.compile(r"用|以|写|概括|总结|输出|回答|一共|共")
_ASKS_FOR_PARAGRAPHS = re.compile(r"分|写|共|用|以|成|为")
_ASKS_FOR_POINTS = re.compile(r"列|分|给出|写|输出|总结|提供|归纳|用|以|建议|提出")
_ASKS_FOR_LIST = re.compile(r"分|列")
# 三条新闻: news, comments and rules are counted with the same word as points.
_NOT_POINTS = re.compile(r"新闻|评论|规定|短信|消息")


_QUOTED_WORDS = re.compile(r"“[^”]*”|「[^」]*」|『[^』]*』|\"[^\"]*\"")


def _find_counts(clause: str) -> Iterator[Constraint]:
    # “请用三句话回答”: a quoted number asks for nothing.
    unquoted = _QUOTED_WORDS.sub(lambda match: "〈" + "〇" * (len(match[0]) - 2) + "〉", clause)
    for match in _COUNT.finditer(unquoted):
        low = _read_number(match["low"])
        relation = _find_relation(match["before"], match["after"])
        unit = match["unit"].removeprefix("个")
        before = clause[max(0, match.start() - 12) : match.start()]
        same_clause = clause[max(0, match.start() - 30) : match.start()].rpartition("，")[2]
        is_about_a_part = "每" in clause[: match.start()] or _PART.search(same_clause)
        # 这300字, 原文300字: the length of something in the prompt
        is_about_material = relation is None and _MATERIAL_BEFORE.search(before)
        if is_about_a_part or is_about_material:
            continue
        if unit in ("汉字", "字", "词", "字符"):
            if low < 10 and relation is None:
                continue  # 一字, 两个字: a word is meant
            params = _count_params(low, match["high"], relation or "around")
            if unit == "字符":
                params["unit"] = "characters"
            yield Constraint("WordCount", params, clause)
        elif unit in ("句话", "句"):
            if relation is None:
                is_single_phrase = low < 2 and (unit == "句" or re.search(r"[一1]份?$|的$", before))
                if is_single_phrase or not _ASKS_FOR_SENTENCES.search(before):
                    continue
            yield Constraint(
                "SentenceCount", _count_params(low, match["high"], relation or "exactly"), clause
            )
        elif unit in ("段", "段落", "自然段", "段话"):
            is_stated = relation is not None or (low >= 2 and _ASKS_FOR_PARAGRAPHS.search(before))
            if not is_stated:
                continue
            yield Constraint(
                "ParagraphCount", _count_params(low, match["high"], relation or "exactly"), clause
            )
        elif unit in ("条", "点", "要点"):
            if _NOT_POINTS.search(clause) or not _ASKS_FOR_POINTS.search(before):
                continue
            if unit == "条" and not _ASKS_FOR_LIST.search(before):
                continue
            yield Constraint(
                "EntryCount", _count_params(low, match["high"], relation or "exactly"), clause
            )
    for match in _NUMBER_LATER.finditer(clause):
        if not _PART.search(clause[: match.start()]):
            yield Constraint(
                "WordCount",
                _count_params(_read_number(match["low"]), match["high"], "between"),
                clause,
            )


def _count_params(low: int, high: str | None, relation: str) -> dict[str, object]:
    if high:
        return {"low": low, "high": _read_number(high)}
    return {"relation": relation, "count": low}


# ---- words, beginning and end --------------------------------------------------------------------------------------

_STRING = r"[“\"「『'‘《](?P<phrase>[^”\"」』'’》\n]{1,30})[”\"」』'’》]"
_QUOTED = r"[“\"「『'‘][^”\"」』'’\n]{1,20}[”\"」』'’]"
_STRINGS = rf"(?P<strings>{_QUOTED}(?:\s*(?:、|，|,|和|与|及|或者?|以及)?\s*{_QUOTED})*)"
_FORBIDDEN = re.compile(
    rf"(?:不要|不能|不得|不可以?|禁止|避免|切勿|勿|请勿|不允许|不许|不应|不准|别)(?:再)?(?:出现|使用|包含|提及|提到|含有|用到?|带有?|说|写)?(?:任何)?(?:关键词|词语"
    rf"|词汇|字眼|词|字|表述)?[：:]?\s*{_STRINGS}"
)
_INCLUDED = re.compile(
    rf"(?:必须|需要?|要|请|应当?|都要|中)?(?:包含|包括|含有|出现|使用|用上|用到|提到|提及|带有|加入|嵌入)(?:以下)?(?:这?[一二两三四五六七八九十几\d]?个?)?(?:关键词"
    rf"|词语|词汇|词|字|句子|句)?[：:]?\s*{_STRINGS}"
)
_END = re.compile(
    rf"以\s*{_STRING}\s*(?:这?句?话|一?词|二字|两字)?(?:作为|为|来)?(?:结尾|结束|收尾|作结|结语)"
)
_START = re.compile(
    rf"以\s*{_STRING}\s*(?:这?句?话|一?词|二字|两字)?(?:作为|为|来)?(?:开头|开始|开篇|起始)"
)
# 结尾必须是“…”, 最后一句话是“…”
_END_IS = re.compile(
    rf"(?:结尾|末尾|结束语|最后一句话?)(?:处)?(?:必须|要|应该?|需要?|请)?(?:是|为|写上|写|用|使用)[：:]?\s*{_STRING}"
)
_START_IS = re.compile(
    rf"(?:开头|第一句话?|开篇)(?:处)?(?:必须|要|应该?|需要?|请)?(?:是|为|写上|写|用|使用)[：:]?\s*{_STRING}"
)
# “森林”一词至少出现3次
_FREQUENCY = re.compile(
    rf"{_STRING}\s*(?:这?一?[个]?(?:词语?|字|短语))?\s*(?:必须|要|应当?|需要?|在文中|在全文中)?"
    rf"(?P<before>{_AT_LEAST}|{_AT_MOST}|{_LESS_THAN}|{_MORE_THAN}|{_EXACTLY})?(?:出现|使用|用到?|提到)"
    rf"(?P<before_2>{_AT_LEAST}|{_AT_MOST}|{_LESS_THAN}|{_MORE_THAN}|{_EXACTLY})?(?:了)?\s*(?P<count>{_NUMBER})\s*次"
    rf"(?P<after>{_AFTER_AT_LEAST}|{_AFTER_AT_MOST})?"
)
_NO_MARK = re.compile(
    r"(?:不要|不能|不得|不可以?|禁止|避免|不允许|不使用|不用|没有|无)(?:使用|出现|包含|用|带|有)?(?:任何)?(?P<mark>逗号|感叹号|问号|标点符号|标点|数字|阿拉伯数字|英文字母"
    r"|英文|表情符号|emoji)(?!不|错)"
)
_MARK_KINDS = {
    "逗号": "comma",
    "感叹号": "exclamation",
    "问号": "question",
    "数字": "digits",
    "阿拉伯数字": "digits",
    "表情符号": "emoji",
    "emoji": "emoji",
}


def _read_strings(text: str) -> list[str]:
    return re.findall(r"[“\"「『'‘]([^”\"」』'’\n]{1,20})[”\"」』'’]", text)


def _find_words(clause: str) -> Iterator[Constraint]:
    forbidden: list[str] = []
    for match in _FORBIDDEN.finditer(clause):
        is_about_a_part = _PART.search(clause[max(0, match.start() - 10) : match.start()])
        is_about_the_end = "结尾" in clause[match.end() : match.end() + 8]
        if not is_about_a_part and not is_about_the_end:
            forbidden += _read_strings(match["strings"])
    if forbidden:
        yield Constraint("keywords:forbidden_words", {"forbidden_words": forbidden}, clause)
    included = []
    for match in _INCLUDED.finditer(clause):
        # A negation before a comma belongs to something else: 不超过20字，且必须包含…
        before = re.split(r"[，,；;]", clause[max(0, match.start() - 14) : match.start() + 2])[-1]
        after = clause[match.end() : match.end() + 8]
        is_negated = re.search(r"[不勿别]|避免|禁止|是否|没有", before)
        is_no_keyword = re.search(
            r"字段|标签|标志|符号|标记|格式|模板|等|任意|之一|开头|结尾|两部分|部分", after
        )
        if is_negated or is_no_keyword or _PART.search(before):
            continue
        included += [
            string for string in _read_strings(match["strings"]) if string not in forbidden
        ]
    if included:
        yield Constraint("keywords:existence", {"keywords": included}, clause)
    if not re.search(r"段|句|标题|题目|行|每", clause.partition("以")[0][-10:]):
        for match in _END.finditer(clause):
            if not re.search(r"不[要能得]?$", clause[: match.start()]):
                yield Constraint("startend:end_checker", {"end_phrase": match["phrase"]}, clause)
        for match in _START.finditer(clause):
            if not re.search(r"不[要能得]?$", clause[: match.start()]):
                yield Constraint(
                    "Regex", {"pattern": rf"^\s*[\"“「]?{re.escape(match['phrase'])}"}, clause
                )
    for match in _END_IS.finditer(clause):
        yield Constraint("startend:end_checker", {"end_phrase": match["phrase"]}, clause)
    for match in _START_IS.finditer(clause):
        yield Constraint("Regex", {"pattern": rf"^\s*[\"“「]?{re.escape(match['phrase'])}"}, clause)
    for match in _FREQUENCY.finditer(clause):
        relation = _find_relation(match["before"] or match["before_2"], match["after"]) or "exactly"
        params = {
            "keyword": match["phrase"],
            "relation": relation,
            "frequency": _read_number(match["count"]),
        }
        yield Constraint("keywords:frequency", params, clause)
    for match in _NO_MARK.finditer(clause):
        if match["mark"] in _MARK_KINDS:
            yield Constraint("ForbiddenContent", {"kinds": [_MARK_KINDS[match["mark"]]]}, clause)


# ---- format and language -------------------------------------------------------------------------------------------

_JSON = re.compile(
    r"(?:以|用|按照?|采用|输出|返回|为)[^，。]{0,12}(?:json|JSON)(?:格式|形式|的格式|的形式|字符串)?[^，。]{0,4}(?:输出|返回|给出|回答|回复|展示|呈现)?"
)
_TABLE = re.compile(
    r"(?:以|用|做成|整理成|生成|输出|列成|制作)[^，。]{0,8}(?:markdown|Markdown)?(?<!列)表格(?:的?形式|的?格式)?(?:输出|展示|呈现|列出|给出|回答|总结|对比)?"
)
_BULLETS = re.compile(r"(?:用|以|采用)(?:无序|项目符号)列表")


def _find_format(clause: str) -> Iterator[Constraint]:
    asks_for_json = _JSON.search(clause) and re.search(r"输出|返回|回答|回复|格式|给出", clause)
    is_about_code = re.search(
        r"解析|读取|代码|函数|转(?:换|化)?(?:成|为)|接口|字段|文件|以下json|下面json", clause
    )
    if asks_for_json and not is_about_code:
        yield Constraint("FormatRequirement", {"format": "json"}, clause)
    if (
        _TABLE.search(clause)
        and re.search(r"(?:以|用|做成|整理成|列成)[^，。]{0,8}(?<!列)表格", clause)
        and not _PART.search(clause)
    ):
        yield Constraint("FormatRequirement", {"format": "table", "only": False}, clause)
    if _BULLETS.search(clause):
        yield Constraint("FormatRequirement", {"format": "bullets", "only": False}, clause)


_WRITTEN_IN = re.compile(
    r"(?:全文|全部|整篇|通篇|回答|回复)(?:都|均|必须|要|请|需|应)*(?:用|以|使用)(?P<language>[英法德日韩俄]|西班牙|意大利|葡萄牙|阿拉伯)"
    r"(?:文|语)(?:书写|撰写|写作|写|作答|回答|回复|输出|呈现)"
)


def _find_language(clause: str) -> Iterator[Constraint]:
    if re.search(r"翻译|译成|译为|官方语言|母语|名称|单词|和英文|中英|双语|英文名|一份", clause):
        return
    # 请用英语回答：什么是机器学习？  The question after the colon asks for no language.
    request = find_request(re.split(r"[：:]", clause)[0])
    written_in = _WRITTEN_IN.search(clause)
    if written_in and not request.asked:
        yield Constraint(
            "language:response_language",
            {"language": language_code(written_in["language"] + "语")},
            clause,
        )
    elif len(request.asked) == 1 and not _PART.search(clause):
        yield Constraint(
            "language:response_language", {"language": next(iter(request.asked))}, clause
        )


def compile_chinese(prompt: str) -> list[Constraint]:
    """All constraints of a Chinese prompt, in its order."""
    constraints: list[Constraint] = []
    for clause in _find_clauses(prompt):
        constraints += _find_counts(clause)
        constraints += _find_words(clause)
        constraints += _find_format(clause)
        constraints += _find_language(clause)
    return constraints
