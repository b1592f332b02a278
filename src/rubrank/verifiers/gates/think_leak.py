"""ThinkLeak: does the answer contain thinking, or turns that the model wrote for the user (1 = fine, 0 = stopped)?

`think_leak` looks for these signs, in this order:
- tokens: tags of thinking, tokens of chat templates, channels ("analysis…assistantfinal…");
- turns: the model goes on as the user and answers itself ("User: … Assistant: …");
- thinking aloud at the beginning, where an answer would speak to the user;
- a label of thinking, steps of an agent, or many lines such as "Wait, …", unless the prompt asks for thoughts.

Thinking aloud is a matter of points. `_find_signs` lists the signs in the first 600 characters, and a sign that weighs
2 is listed twice. One point is no proof; from three on, the answer fails:

    "Okay, let me think about this. The user wants a poem."
    "okay"                1    a word with which thinking begins
    "let me … think"      1    a plan to think
    "the user"            3    the user in the third person (2), who wants something (1)

The phrases of each kind ("user", "self", "think" …) are in data/thinking_words.tsv; its first lines explain the kinds.
Labels and requests of prompts are in data/gate_phrases.tsv.
"""

from __future__ import annotations

import re
from functools import cache

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import remove_code, strip_decoration
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.word_tables import compile_phrases, read_table, read_words
from rubrank.verifiers.verifier import BINARY, Answer, verifier

# Tags of thinking and tokens of chat templates, with the slash of a closing tag or without. Not <table>.
_TAG = re.compile(
    r"""
    </?(?:think|thinking|thought|thoughts|reasoning|seed:think|analysis|scratchpad|reflection|inner_monologue|cot
        |start_of_turn|end_of_turn)>
    | <\|[a-z_]{2,30}\|>                          # <|im_end|>
    | ◁/?think▷ | \[/?THINK\] | \[/?INST\] | <</?SYS>>
    | <\|?(?:user|assistant|system)\|?>(?=\s)     # <user>, <|assistant|>
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Names of channels that remain when their tokens are dropped: "analysisWe need to …assistantfinal…".
_CHANNELS = re.compile(
    r"""
    \A\W{0,3}(?:analysis|commentary)(?=[A-Z\u4e00-\u9fff]|\s*\n)
    | assistant(?:final|commentary|analysis)(?=\W|[A-Z\u4e00-\u9fff]|$)
    """,
    re.VERBOSE,
)
# A label at the beginning that announces thinking: "**Thinking Process:**", 思考过程：.
_LABEL = compile_phrases("thinking_label", before=r"\W{0,4}", after=r"(?:\W{0,3}[:：]|\]|\*\*\n)")
# The lines of an agent: "Thought: …", "Action 2: …", "Observation: …".
_STEPS = compile_phrases("agent_step", before=r"(?m)^\W{0,4}", after=r"(?: ?\d+)?\W{0,3}[:：]")
# Lines that begin with "Wait,", "Hmm", 等等.
_SELF_TALK = compile_phrases("self_talk", before=r"\n[ \t]*", after="[,，.。…!！ —-]")
# The prompt asks for fiction or for thinking aloud, which looks like a leak.
_FICTION_ASKED = compile_phrases("fiction_asked")
# The same, and prompts that ask for thoughts or steps; then labels, steps and monologues are no leak.
_THOUGHTS_ASKED = compile_phrases("fiction_asked", "thoughts_asked")
# The prompt asks for a conversation, or is about one; then turns of speakers are no leak.
_CONVERSATION_ASKED = compile_phrases("conversation_asked")
# "Question:" and "Answer:" at the start of a line, and prompts that ask for such a list.
_NEXT_QUESTION = compile_phrases("next_question", before=r"(?m)^[ \t*]*", after=r"[ \t*]*[:：]")
_ITS_ANSWER = compile_phrases("its_answer", before=r"(?m)^[ \t*]*", after=r"[ \t*]*[:：]")
_QUESTIONS_ASKED = compile_phrases("questions_asked")

# The name of a side and its colon at the start of a line: "**User:**", "### Human:". Its groups: "user" or "assistant",
# whichever side is named, and "heading" for the signs of a heading.
_SIDES = "|".join(
    f"(?P<{side}>{'|'.join(map(re.escape, words))})"
    for side, words in read_words("dialogue_marks").items()
)
_TURN_MARK = re.compile(rf"(?mi)^[ \t]*(?P<heading>#{{2,4}} )?\**(?:{_SIDES})\**[ \t]*[:：]\**")

# The limits were set by hand; docs/gates.md has the share of good answers that they stop.
_OPENING_CHARACTERS = 600  # characters at the beginning that are searched for thinking aloud
_NEAR_CHARACTERS = 60  # a verb within so many characters belongs to its subject
_POINTS_TO_FAIL = 3
_MOST_SELF_TALK = 3  # lines such as "Wait, …"; a song or a dialogue may have a few
_SHORT_ANSWER = 400  # characters; a longer first answer is an article with questions as headings
_SENTENCE_BREAK = re.compile(r"(?<=[.!?…:])\s+|[。！？\n]+")
# What stands between words such as "Okay, so, hmm".
_SEPARATOR = re.compile(r"[\s,，.。…!！:—~-]+")
# A character of a script that puts no spaces between words: Kana, Han, Hangul, Thai.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


@verifier("ThinkLeak", family="gate", domain=BINARY, version=6, layer="global_quality")
def think_leak(rollout: Rollout) -> Answer:
    """No thinking is left in the answer, and the model does not go on as the user.

    Passes: thoughts in their tags or field, and a clean answer after them.
    Fails: a thinking tag or a chat-template token in the answer (not in code, nor when the prompt speaks of
        it); "analysis…assistantfinal…"; turns of a conversation ("User: … Assistant: …", "### Human:") that
        the prompt does not ask for; an answer that opens by thinking aloud: about the user ("The user wants
        …", 用户要求…, El usuario quiere …), about the prompt ("The question asks me to …"), about its plans
        ("Okay, so I need to …"), or with a label ("**Thinking Process:**"); steps of an agent ("Thought: …
        Action: …"); four or more lines that start with "Wait", "Hmm", "等等". Labels, plans and steps are fine
        where the prompt asks for thoughts or fiction.
    Not covered: reasoning steps meant for the reader.
    """
    prose = remove_code(rollout.answer)
    prompt = " ".join(message.content for message in rollout.prompt).lower()
    for tag in _TAG.findall(prose):
        if tag.lower().strip("</>|◁▷[]") not in prompt:
            return False, f"{tag!r} in the answer"
    channel = _CHANNELS.search(prose[:200_000])
    if channel:
        return False, f"a channel of the model in the answer: {channel[0]!r}"
    turns = _find_turns(prose, prompt)
    if turns:
        return False, turns
    opening = strip_decoration(prose[: 2 * _OPENING_CHARACTERS])[:_OPENING_CHARACTERS]
    signs = _find_signs(opening, prompt)
    if len(signs) >= _POINTS_TO_FAIL:
        return False, f"the answer opens by thinking aloud: {', '.join(signs[:3])}"
    if _THOUGHTS_ASKED.search(prompt):
        return True, "no thinking left in the answer"
    label = _LABEL.match(prose.lstrip())
    if label:
        return False, f"the answer opens with a label of thinking: {label[0][:60]!r}"
    steps = {match["phrase"].lower() for match in _STEPS.finditer(prose[:100_000])}
    if len(steps) >= 2:
        return False, f"steps of an agent: {sorted(steps)}"
    self_talk = len(_SELF_TALK.findall("\n" + prose))
    if self_talk > _MOST_SELF_TALK:
        return False, f"{self_talk} lines of talking to itself"
    return True, "no thinking left in the answer"


# ---- turns ----------------------------------------------------------------------------------------------------------


def _find_turns(prose: str, prompt: str) -> str | None:
    """Return a defect if the model goes on as the user and answers itself, unless a conversation was asked for."""
    if _CONVERSATION_ASKED.search(prompt):
        return None
    # A turn of the user, and a turn of the assistant after it.
    user_turn = None
    for mark in _TURN_MARK.finditer(prose[:200_000]):
        if mark["user"]:
            user_turn = mark
        elif user_turn:
            return f"turns of a conversation: {user_turn[0].strip()!r}, {mark[0].strip()!r}"
    # A heading such as "### Human:" is sure enough without an answer, unless the text begins with it.
    if user_turn and user_turn["heading"] and user_turn.start() > 0:
        return f"a turn of the user: {user_turn[0].strip()!r}"

    # After a short answer the model asks itself the next question, as in a list of examples.
    question = _NEXT_QUESTION.search(prose, 1)
    if question is None or _QUESTIONS_ASKED.search(prompt):
        return None
    first_answer = prose[: question.start()].strip()
    is_short = 0 < len(first_answer) < _SHORT_ANSWER
    if is_short and "?" not in first_answer and _ITS_ANSWER.search(prose, question.end()):
        return f"the next question, and its answer: {question[0].strip()!r}"
    return None


# ---- thinking aloud -------------------------------------------------------------------------------------------------


def _find_signs(opening: str, prompt: str) -> list[str]:
    """Return the signs of thinking aloud in the opening of an answer; a sign that weighs 2 is listed twice."""
    text = opening.lower().replace("’", "'")
    # If the prompt asks for fiction, a character may think aloud; if it is about users, so may the answer be.
    is_fiction = _FICTION_ASKED.search(prompt) is not None
    is_about_users = _compile_words("user").search(prompt) is not None or "user" in prompt
    signs: list[str] = []

    # The first words: "Okay, so, hmm".
    end = 0
    while word := _compile_words("talk").match(text, end):
        separator = _SEPARATOR.match(text, word.end())
        if not separator:
            break  # a longer word: the "so" of "some"
        end = separator.end()
    first_words = text[:end]
    rest = text[end:]
    if first_words and not is_fiction:
        signs.append(first_words.strip(" ,.…!，。！"))
        hesitates = _compile_words("hesitation").match(first_words) is not None
        consents = _compile_words("consent").match(first_words) is not None
        has_plan = bool(_find_plan(rest[:_NEAR_CHARACTERS], 0))
        has_need = _compile_words("need").match(rest) is not None
        # "Hmm, let me think …", "Okay, I need to …"
        if (hesitates and has_plan) or (has_need and (hesitates or consents)):
            signs += ["plans before it answers"] * 2

    # Thinking aloud has no "you": sentences such as "Let me check that for you" speak to the user, and are left out.
    you = _compile_words("you", detect_language(opening)[0])
    sentences = []
    for sentence in _SENTENCE_BREAK.split(rest):
        match = you.search(sentence)
        is_word = match and (
            _UNSPACED.search(match[0]) or not sentence[match.end() :][:1].isalpha()
        )
        if not is_word:
            sentences.append(sentence)

    # The first three of the others
    names_user = False
    for sentence in sentences[:3]:
        # The user in the third person, with which a sentence begins: "The user wants …". Only the first such counts.
        user = _compile_words("user").search(sentence)
        task = _compile_words("task").search(sentence)
        if user and _is_at_start(user) and not names_user:
            names_user = True
            weight = 1 if is_about_users else 2
            if _compile_words("wants").search(
                sentence[user.start() : user.end() + _NEAR_CHARACTERS]
            ):
                weight += 1
            signs += [user[0]] * weight
        # The task, in words not of the prompt: "The question asks …".
        elif task and _is_at_start(task) and task[0].strip(":") not in prompt:
            signs += [task[0]] * 2
        # "We are asked to find …" may open a solution in a textbook. "I've been asked to …" is said only in thoughts.
        if _compile_words("told").search(sentence[:_NEAR_CHARACTERS]):
            signs.append("it is asked to")
        if _compile_words("asked").search(sentence[:_NEAR_CHARACTERS]) and not is_fiction:
            signs += ["it is asked to"] * _POINTS_TO_FAIL
        signs += _find_plan_signs(sentence, prompt, is_fiction, is_about_users)

    # All sentences of the opening.
    if not is_fiction:
        # "Draft:", "my answer should"
        drafts: set[str] = set()
        for sentence in sentences:
            drafts.update(match[0] for match in _compile_words("draft").finditer(sentence))
        signs += sorted(draft for draft in drafts if draft.strip(" :：") not in prompt)[:2]
    return signs


def _find_plan_signs(
    sentence: str, prompt: str, is_fiction: bool, is_about_users: bool
) -> list[str]:
    """Return the signs of a plan, which weighs more in a sentence that mentions the user, the prompt or the task.

    In fiction a plan ("I must answer her") counts only if it does.
    """
    mentions_user = _compile_words("user").search(sentence) is not None and not is_about_users
    mentions_prompt = (
        _compile_words("prompt").search(sentence) is not None and "prompt" not in prompt
    )
    if mentions_user or mentions_prompt:
        return _find_plan(sentence, 2)
    mentions_task = any(_compile_words(kind).search(sentence) for kind in ("task", "meta"))
    if is_fiction and not mentions_task:
        return []
    return _find_plan(sentence, int(mentions_task))


def _is_at_start(phrase: re.Match[str]) -> bool:
    """Does the phrase begin its sentence, with at most a word or two before it?"""
    most_before = 2 if _UNSPACED.search(phrase[0]) else 16
    return phrase.start() <= most_before


def _find_plan(sentence: str, weight: int) -> list[str]:
    """Return the signs of a plan in a sentence; none if there is no plan.

    There are 2 + weight signs (at most 3) for a plan to reply ("I should answer"), 1 + weight for a plan to think ("let
    me think"), and weight for any other ("I need to", "let's").
    weight: 0, 1 if the sentence is about the task, 2 if it is about the user or the prompt.
    """
    plan = _compile_words("self").search(sentence)
    if plan is None:
        return []
    near = sentence[plan.end() : plan.end() + _NEAR_CHARACTERS]
    if _UNSPACED.search(plan[0]):
        # In Japanese and Korean the verb comes last.
        near = sentence[max(0, plan.start() - 20) : plan.end() + 20]
    reply = _compile_words("reply").search(near)
    think = _compile_words("think").search(near)
    if reply:
        return [f"{plan[0]} … {reply[0]}"] * min(_POINTS_TO_FAIL, 2 + weight)
    if think:
        return [f"{plan[0]} … {think[0]}"] * (1 + weight)
    return [plan[0]] * weight


@cache
def _compile_words(kind: str, language: str | None = None) -> re.Pattern[str]:
    """Return a pattern for the phrases of a kind in data/thinking_words.tsv, of all languages or one.

    Where words have spaces between them, a phrase begins with a whole word.
    """
    spaced: list[str] = []
    unspaced: list[str] = []
    for row_kind, row_language, phrases in read_table("thinking_words"):
        if row_kind == kind and language in (None, row_language):
            for phrase in phrases.split(", "):
                if _UNSPACED.search(phrase):
                    unspaced.append(re.escape(phrase))
                else:
                    spaced.append(re.escape(phrase))
    # The longest first, since the first alternative that fits wins. (?!) matches nothing.
    spaced.sort(key=len, reverse=True)
    unspaced.sort(key=len, reverse=True)
    return re.compile(
        rf"(?<![\w'’])(?:{'|'.join(spaced) or '(?!)'})|(?:{'|'.join(unspaced) or '(?!)'})"
    )
