"""ThinkLeak: does the answer contain thinking, or turns that the model wrote for the user (1 = fine, 0 = stopped)?

Three kinds of signs, each with its own function:
- tokens: tags of thinking, tokens of chat templates, channels ("analysis…assistantfinal…");
- turns: the model goes on as the user and answers itself ("User: … Assistant: …");
- thinking aloud at the beginning, where an answer would speak to the user. Features are counted there: the user in
  the third person, talk about the prompt, the model's plans to think or to reply, a word like "Hmm". One of them is no
  proof; from three on, the answer fails. The words are in data/thinking_words.tsv, labels and
  requests of prompts in data/gate_phrases.tsv.
"""

from __future__ import annotations

import re
from functools import cache

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import bare, without_code
from rubrank.texts.reasoning import TAGS
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.word_tables import compile_phrases, read_table, read_words
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_TAG_NAMES = "think|thinking|thought|thoughts|reasoning|seed:think|analysis|scratchpad|reflection|inner_monologue|cot"
# Tags of thinking and tokens of chat templates: </think>, <|im_end|>, [/INST], <<SYS>>.
_TAG = re.compile(
    rf"</?(?:{_TAG_NAMES}|start_of_turn|end_of_turn)>|<\|[a-z_]{{2,30}}\|>|◁/?think▷|\[/?THINK\]|\[/?INST\]|<</?SYS>>"
    r"|<\|?(?:user|assistant|system)\|?>(?=\s)",
    re.IGNORECASE,
)
# Names of channels that remain when their tokens are dropped: "analysisWe need to …assistantfinal…".
_CHANNELS = re.compile(
    r"\A\W{0,3}(?:analysis|commentary)(?=[A-Z\u4e00-\u9fff]|\s*\n)|assistant(?:final|commentary|analysis)(?=\W|[A-Z\u4e00-\u9fff]|$)"
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
_OPENING = 600  # characters of the beginning in which thinking aloud is looked for
_NEAR = 60  # characters within which a verb belongs to its subject
_SENTENCE = re.compile(r"(?<=[.!?…:])\s+|[。！？\n]+")
_SEPARATOR = re.compile(r"[\s,，.。…!！:—~-]+")
_CONTENT_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{2}|[^\W_]{4,}")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


@verifier("ThinkLeak", family="gate", domain=BINARY, version=5, layer="global_quality")
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
    prose = without_code(rollout.answer)
    prompt = " ".join(message.content for message in rollout.prompt).lower()
    leak = _find_token(rollout, prose, prompt) or _find_turns(prose, prompt)
    if leak:
        return False, leak
    signs = _count_signs(bare(prose[: 2 * _OPENING])[:_OPENING], prompt)
    if len(signs) >= 3:
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
    if self_talk >= 4:
        return False, f"{self_talk} lines of talking to itself"
    return True, "no thinking left in the answer"


def _find_token(rollout: Rollout, prose: str, prompt: str) -> str | None:
    """A thinking tag, a token of a chat template or a channel that the prompt does not speak of."""
    for tag in _TAG.findall(prose):
        if tag.lower().strip("</>|◁▷[]") not in prompt:
            return f"{tag!r} in the answer"
    if rollout.reasoning is not None:
        for opening, _ in TAGS:
            if opening in prose and opening not in prompt:
                return "a thinking tag in the answer"
    channel = _CHANNELS.search(prose[:200_000])
    return f"a channel of the model in the answer: {channel[0]!r}" if channel else None


# ---- turns ----------------------------------------------------------------------------------------------------------


@cache
def _turn_pattern() -> re.Pattern[str]:
    """A pattern for the name of a side and its colon at the start of a line: "**User:**", "### Human:"."""
    sides = read_words("dialogue_marks")
    names = "|".join(
        f"(?P<{side}>{'|'.join(map(re.escape, words))})" for side, words in sides.items()
    )
    return re.compile(rf"(?mi)^[ \t]*(?P<heading>#{{2,4}} )?\**(?:{names})\**[ \t]*[:：]\**")


def _find_turns(prose: str, prompt: str) -> str | None:
    """The model goes on as the user, and answers itself; a conversation was not asked for."""
    if _CONVERSATION_ASKED.search(prompt):
        return None
    user_turn = None
    for mark in _turn_pattern().finditer(prose[:200_000]):
        if mark["user"]:
            user_turn = mark
        elif user_turn:
            return f"turns of a conversation: {user_turn[0].strip()!r}, {mark[0].strip()!r}"
    if user_turn and user_turn["heading"] and user_turn.start() > 0:
        return f"a turn of the user: {user_turn[0].strip()!r}"
    return _find_next_question(prose, prompt)


_NEXT_QUESTION = compile_phrases("next_question", before=r"(?m)^[ \t*]*", after=r"[ \t*]*[:：]")
_ITS_ANSWER = compile_phrases("its_answer", before=r"(?m)^[ \t*]*", after=r"[ \t*]*[:：]")
_QUESTIONS_ASKED = compile_phrases("questions_asked")


def _find_next_question(prose: str, prompt: str) -> str | None:
    """After a short answer the model asks itself the next question, as in a list of examples."""
    question = _NEXT_QUESTION.search(prose, 1)
    if question is None or _QUESTIONS_ASKED.search(prompt):
        return None
    first_answer = prose[: question.start()].strip()
    is_short = 0 < len(first_answer) < 400
    if is_short and "?" not in first_answer and _ITS_ANSWER.search(prose, question.end()):
        return f"the next question, and its answer: {question[0].strip()!r}"
    return None


# ---- thinking aloud -------------------------------------------------------------------------------------------------


@cache
def _phrases(kind: str, language: str | None = None) -> re.Pattern[str]:
    """A pattern for the phrases of a kind, of all languages or one; where words have spaces, they begin with a word."""
    spelled: list[str] = []
    unspaced: list[str] = []
    for row_kind, row_language, phrases in read_table("thinking_words"):
        if row_kind == kind and language in (None, row_language):
            for phrase in phrases.split(", "):
                if _UNSPACED.search(phrase):
                    unspaced.append(re.escape(phrase))
                else:
                    spelled.append(re.escape(phrase))
    spelled.sort(key=len, reverse=True)
    unspaced.sort(key=len, reverse=True)
    return re.compile(
        rf"(?<![\w'’])(?:{'|'.join(spelled) or '(?!)'})|(?:{'|'.join(unspaced) or '(?!)'})"
    )


def _count_signs(opening: str, prompt: str) -> list[str]:
    """The signs of thinking aloud in the opening of an answer; a sign that weighs 2 is listed twice."""
    text = opening.lower().replace("’", "'")
    is_fiction = _FICTION_ASKED.search(prompt) is not None
    is_about_users = _phrases("user").search(prompt) is not None or "user" in prompt
    talk = _match_talk(text)
    after_talk = text[len(talk) :]
    signs: list[str] = []
    if talk and not is_fiction:
        signs += _find_talk_signs(talk, after_talk)
    language = detect_language(opening)[0]
    sentences = []
    for sentence in _SENTENCE.split(after_talk):
        if not _speaks_to_user(sentence, language):
            sentences.append(sentence)
    names_user = False
    for sentence in sentences[:3]:
        user_signs = [] if names_user else _find_user_signs(sentence, is_about_users)
        names_user = names_user or bool(user_signs)
        signs += user_signs or _find_task_signs(sentence, prompt)
        if _phrases("told").search(sentence[:60]):
            signs.append("it is asked to")
        if _phrases("asked").search(sentence[:60]) and not is_fiction:
            signs += ["it is asked to"] * 3
        signs += _find_plan_signs(sentence, prompt, is_fiction, is_about_users)
    # "Let me think about primes. … Hmm, 53?"
    if signs and not is_fiction and any(map(_begins_with_hesitation, sentences[1:])):
        signs += ["hesitates"] * 2
    if not is_fiction:
        drafts = {
            match[0] for sentence in sentences for match in _phrases("draft").finditer(sentence)
        }
        signs += sorted(draft for draft in drafts if draft.strip(" :：") not in prompt)[:2]
    if signs and _says_it_twice(opening, prompt):
        signs.append("the answer is said twice")
    return signs


def _find_talk_signs(talk: str, after_talk: str) -> list[str]:
    """Signs of an answer that begins with "Okay, so" or "Hmm": it counts, and more so before a plan."""
    signs = [talk.strip(" ,.…!，。！")]
    hesitates = _phrases("hesitation").match(talk) is not None
    consents = _phrases("consent").match(talk) is not None
    # "Hmm, let me think …"
    has_plan = bool(_find_plan(after_talk[:_NEAR], 0))
    # "Okay, I need to …"
    has_need = _phrases("need").match(after_talk) is not None
    if (hesitates and has_plan) or (has_need and (hesitates or consents)):
        signs += ["plans before it answers"] * 2
    return signs


def _begins_with_hesitation(sentence: str) -> bool:
    """Does the sentence begin with "Hmm," or a word like it? German "Um die" and Portuguese "Um dos" have no comma."""
    word = _phrases("hesitation").match(sentence)
    return word is not None and sentence.startswith((",", "，", "、", ".", "…", "—"), word.end())


def _find_user_signs(sentence: str, is_about_users: bool) -> list[str]:
    """Signs of a sentence that begins with the user in the third person: "The user wants …"."""
    user = _phrases("user").search(sentence[:40])
    if user is None or not _stands_first(user):
        return []
    weight = 1 if is_about_users else 2
    if _phrases("wants").search(sentence[user.start() : user.end() + _NEAR]):
        weight += 1
    return [user[0]] * weight


def _find_task_signs(sentence: str, prompt: str) -> list[str]:
    """Signs of a sentence that begins with the task, in words that the prompt has not: "The question asks …"."""
    task = _phrases("task").search(sentence)
    if task is None or not _stands_first(task) or task[0].strip(":") in prompt:
        return []
    return [task[0]] * 2


def _find_plan_signs(
    sentence: str, prompt: str, is_fiction: bool, is_about_users: bool
) -> list[str]:
    """Signs of a plan, which weighs more in a sentence that mentions the user, the prompt or the task."""
    mentions_user = _phrases("user").search(sentence) is not None and not is_about_users
    mentions_prompt = _phrases("prompt").search(sentence) is not None and "prompt" not in prompt
    if mentions_user or mentions_prompt:
        return _find_plan(sentence, 2)
    mentions_task = (
        _phrases("task").search(sentence) is not None
        or _phrases("user").search(sentence[:40]) is not None
        or _phrases("meta").search(sentence) is not None
    )
    if is_fiction and not mentions_task:
        return []
    return _find_plan(sentence, int(mentions_task))


def _says_it_twice(opening: str, prompt: str) -> bool:
    """Does a short answer follow whose words all stand in the first paragraph: thinking, then the answer?"""
    paragraphs = opening.lower().split("\n\n")
    if len(paragraphs) != 2 or len(opening) >= _OPENING:
        return False
    thinking, answer = paragraphs
    new_words = {word for word in _CONTENT_WORD.findall(answer) if word not in prompt}
    return bool(new_words) and all(word in thinking for word in new_words)


def _stands_first(phrase: re.Match[str]) -> bool:
    """Does the phrase begin its sentence, with at most a word or two before it?"""
    most_before = 2 if _UNSPACED.search(phrase[0]) else 16
    return phrase.start() <= most_before


def _speaks_to_user(sentence: str, language: str) -> bool:
    """Is there a "you"? Thinking aloud has none: "Let me check that for you" is an answer."""
    you = _phrases("you", language).search(sentence)
    if you is None:
        return False
    return _UNSPACED.search(you[0]) is not None or not sentence[you.end() : you.end() + 1].isalpha()


def _match_talk(text: str) -> str:
    """The words such as "Okay, so, hmm" with which thinking aloud begins; "" if there are none."""
    end = 0
    while True:
        talk = _phrases("talk").match(text, end)
        if not talk:
            return text[:end]
        separator = _SEPARATOR.match(text, talk.end())
        if not separator:
            return text[:end]
        end = separator.end()


def _find_plan(sentence: str, weight: int) -> list[str]:
    """Signs of a plan to think or to reply. weight: larger if the sentence is about the task, user or prompt."""
    plan = _phrases("self").search(sentence)
    if plan is None:
        return []
    near = sentence[plan.end() : plan.end() + _NEAR]
    if _UNSPACED.search(plan[0]):
        # In Japanese and Korean the verb comes last.
        near = sentence[max(0, plan.start() - 20) : plan.end() + 20]
    reply = _phrases("reply").search(near)
    think = _phrases("think").search(near)
    if reply:
        return [f"{plan[0]} … {reply[0]}"] * min(3, 2 + weight)
    if think:
        return [f"{plan[0]} … {think[0]}"] * (1 + weight)
    return [plan[0]] * weight
