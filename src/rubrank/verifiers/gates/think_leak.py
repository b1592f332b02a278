"""ThinkLeak: is thinking left in the answer (1 = fine, 0 = the reward is stopped)?"""

from __future__ import annotations

import re

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import bare, without_code
from rubrank.texts.reasoning import TAGS
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_TAG_NAMES = "think|thinking|thought|thoughts|reasoning|seed:think|analysis|scratchpad|reflection|inner_monologue|cot"
_TEMPLATE_NAMES = (
    "im_start|im_end|channel|start|end|message|assistant|user|system|eot_id|endoftext|start_header_id"
    "|START_THINKING|END_THINKING|end_header_id|begin_of_text|return|call|constrain"
)
_TAG = re.compile(
    rf"<(?:/?(?:{_TAG_NAMES})>|\|(?:{_TEMPLATE_NAMES})\|>)|◁/?think▷|\[/?THINK\]",
    re.IGNORECASE,
)
_ABOUT_USER = re.compile(
    r"(?:(?:okay|ok|alright|hmm+|well|so|first)[,.… ]+)*(?:so[, ]+)?(?:the user (?:is|wants|asked|asks|has|said"
    r"|says|just|seems|"
    r"needs)|(?:we|i) (?:need|have|should|must) to (?:respond|answer|produce|write|comply"
    r"|output)\b.{0,80}\b(?:user|prompt|"
    r"instruction|constraint)|let me (?:analy[sz]e|think about|parse|re-?read) (?:the|this) (?:user|request"
    r"|prompt|question))"
    r"|user(?:'s)? (?:asks?|asked|wants?|request(?:s|ed)?|query|question|prompt|says?|needs?)\s*(?:[:：]|for\b"
    r"|me\b|us\b|to\b)"
    r"|(?:好的|嗯|好|首先|那么|现在)*[，,。 ]*(?:用户(?:让我|要求|想要|想|希望|问|需要|说|给|提)|我(?:需要|得"
    r"|应该)(?:先)?(?:理解|分析|确认)用户)",
    re.IGNORECASE,
)
_TO_ITSELF = re.compile(  # an answer about users that the prompt mentions does not open like this
    r"(?:okay|ok|alright|hmm+)[,.…，。 ]+(?:so[, ]+|well[, ]+)*the user\b"
    r"|(?:好的|好|嗯)[，,。… ]*(?:(?:现在|首先|那么)[，, ]*)?用户|(?:首先[，,])?用户(?:想让|希望|要求|让|要|问)我"
    r"|(?:so[, ]+)?the user (?:is asking|asks|asked|wants|needs) (?:me|us)\b|(?:so[, ]+)?we (?:need|have|must)\b"
    r"|user (?:asks?|asked|wants?)\s*:",
    re.IGNORECASE,
)
_OPENS = re.compile(  # how thinking begins, and an answer does not
    r"(?:okay|ok|alright|hmm+|right|well)[,.…]+ (?:so[,]? )?(?:i|we) (?:need|have|should|must|am|are|'m|'ve)(?: got)?"
    r"(?: to| been| trying| asked| this)\b"
    r"|(?:okay|ok|alright|hmm+|so|first|now)[,.…]+ (?:let me|let's) (?:think|see|figure|break|parse|start by"
    r"|re-?read|try to"
    r"|understand|work through|recall|consider)\b"
    r"|(?:first|so|now)[,]? i (?:need|have|should|must) to (?:figure|understand|determine|work out|make sure"
    r"|think|recall"
    r"|identify what|parse|clarify)\b"
    r"|let me (?:think|figure out|try to understand|break down what|work out what|re-?read)\b"
    r"|i(?:'m| am) (?:being asked|asked) to\b"
    r"|(?:首先|好的|好|嗯|那么|现在|好吧|唔|哦)[，,。…！ ]*(?:首先[，,]?)?"
    r"(?:让我(?:先|来|再|仔细|好好){0,3}|我(?!们)(?:需要|得|应该|要|先|必须|想|再|仔细|好好){1,3})"
    r"(?:弄清|搞清|理解|分析一下(?:题|问|用)|看看|看一下|确认|明确|回忆|想想|想一想|考虑|思考|理清|梳理|读|审题|搞明白|弄明白|解决这)(?!你|您)"
    r"|(?:嗯|唔)[，,。…]+(?:这道题|让我(?:想|看|先|再)|题目|首先[，,]?我(?!们))|(?:这道题|题目)(?:让我|要我)",
    re.IGNORECASE,
)
_LABELS = re.compile(
    r"(?:\W{0,4})(?:(?:my |internal |the )?(?:thinking|thought|reasoning) process|(?:internal|inner) monologue"
    r"|chain[- ]of[- ]thought"
    r"|thinking(?: out loud| aloud)?|scratchpad|internal reasoning|思考过程|思维过程|思维链|内心独白|推理过程|我的思考)"
    r"\W{0,3}[:：]",
    re.IGNORECASE,
)
_CHANNELS = re.compile(
    r"\A\W{0,3}(?:analysis|commentary)(?=[A-Z\u4e00-\u9fff]|\s*\n)|assistant(?:final|commentary|analysis)(?=\W|[A-Z\u4e00-\u9fff]|$)"
)
_STEPS = re.compile(
    r"(?m)^\W{0,4}(thought|action|observation|action input|思考|行动|观察)(?: ?\d+)?\W{0,3}[:：]", re.IGNORECASE
)
_SPOKEN_OF = re.compile(
    r"\b(?:think\w*|thoughts?|reason\w*|chain[- ]of|step[- ]by[- ]step|monologue|diary|story|character|react"
    r"|agent|action"
    r"|analysis|assistant|dialog\w*|screenplay|script)\b|思考|推理|思路|独白|思维|分析过程|行动|故事|小说|日记|剧本|对话|角色",
    re.IGNORECASE,
)
_MONOLOGUE = re.compile(  # the lookahead for the first letter makes it fast on ordinary lines
    r"(?i)\n[ \t]*(?=(?-i:[WHOANBwhoanb等不嗯]))"
    r"(?:wait|hmm+|okay|alright|hold on|no, wait|but wait|actually, wait|等等|等一下|不对|嗯)[,，.。…!！ —-]"
)
_SUNG = re.compile(
    r"\b(?:lyrics?|song|poem|verse|chorus|rap|story|dialog\w*|script|scene)\b|歌|诗|故事|对话|剧", re.IGNORECASE
)


@verifier("ThinkLeak", family="gate", domain=BINARY, version=2, layer="global_quality")
def think_leak(rollout: Rollout) -> Answer:
    """No thinking is left in the answer.

    Passes: thoughts in their tags or field, and a clean answer after them. Fails: a thinking tag or a chat-template
    token in the answer (not in code, nor when the prompt speaks of it); "analysis…assistantfinal…"; an answer that
    opens by speaking about "the user" (用户要求…; where the prompt itself is about users only if it talks to itself:
    "Okay, the user …"), to itself ("Okay, so I need to …", 首先，我需要弄清楚题目), or with a label ("**Thinking
    Process:**"); steps of an agent ("Thought: … Action: …"); four or more lines that start with "Wait", "Hmm",
    "等等". Labels, openings and steps are fine where the prompt asks for thoughts. Not covered: reasoning steps meant
    for the reader.
    """
    shown = without_code(rollout.answer)
    prompt = " ".join(message.content for message in rollout.prompt).lower()
    start = bare(shown[:2000])
    leak = (
        _find_tag(rollout, shown, prompt)
        or _find_talk_about_user(start, prompt)
        or _find_channel(shown)
        or _find_thoughts(shown, start, prompt)
    )
    if leak:
        return False, leak
    turns = len(_MONOLOGUE.findall("\n" + shown))
    if turns >= 4 and not _SUNG.search(rollout.question):
        return False, f"{turns} lines of talking to itself"
    return True, "no thinking left in the answer"


def _find_tag(rollout: Rollout, shown: str, prompt: str) -> str | None:
    """A thinking tag or a token of a chat template that the prompt does not speak of."""
    for tag in _TAG.findall(shown):
        if tag.lower().strip("</>|◁▷[]") not in prompt:
            return f"{tag!r} in the answer"
    if rollout.reasoning is not None:
        for opening, _ in TAGS:
            if opening in shown and opening not in prompt:
                return "a thinking tag in the answer"
    return None


def _find_talk_about_user(start: str, prompt: str) -> str | None:
    """The answer opens by talking about the user. If the prompt mentions users, it must also talk to itself."""
    match = _ABOUT_USER.match(start)
    prompt_has_users = "user" in prompt or "用户" in prompt
    if match is None or (prompt_has_users and not _TO_ITSELF.match(start)):
        return None
    return f"the answer speaks about the user: {match[0][:60]!r}"


def _find_channel(shown: str) -> str | None:
    """A model's channels that were not split: "analysis…assistantfinal…"."""
    channel = _CHANNELS.search(shown[:200_000])
    return f"a channel of the model in the answer: {channel[0]!r}" if channel else None


def _find_thoughts(shown: str, start: str, prompt: str) -> str | None:
    """A label, an opening or an agent's steps, which are fine if the prompt asks for thoughts."""
    opening = _LABELS.match(shown.lstrip()) or _OPENS.match(start)
    steps = {match[1].lower() for match in _STEPS.finditer(shown[:100_000])}
    if not opening and len(steps) < 2:
        return None
    if _SPOKEN_OF.search(prompt):
        return None
    if opening:
        return f"the answer opens with thinking: {opening[0][:60]!r}"
    return f"steps of an agent: {sorted(steps)}"
