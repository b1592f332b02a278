"""IFEval: how the answer begins, ends and is wrapped; commas; two answers in one."""

from __future__ import annotations

import re

from rubrank.texts.prose import COMMAS
from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.common import Lang, instruction
from rubrank.verifiers.shared.relation import compare_count
from rubrank.verifiers.verifier import Answer, Compat

_COMMAS = {"en": ",", "fr": ",", "es": ",", "ja": "、"}


@instruction("punctuation:no_comma")
def no_comma(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """No comma of any script.

    Passes: "First this then that." Fails: "First, that", "先这样，再那样", "1,000". Not covered: semicolons.
    upstream: only the comma of the language of the instruction.
    """
    commas = _COMMAS[lang] if compat == "upstream" else COMMAS
    count = sum(text.raw.count(comma) for comma in commas)
    return compare_count(count, "comma", "exactly", 0)


_QUOTES = {
    "en": (('"', '"'),),
    "es": (('"', '"'),),
    "fr": (('"', '"'), ("'", "'"), ("«", "»")),
    "ja": (("「", "」"),),
}
_ALL_QUOTES = (
    ('"', '"'),
    ("“", "”"),
    ("„", "“"),
    ("„", "”"),
    ("«", "»"),
    ("»", "«"),
    ("「", "」"),
    ("『", "』"),
    ("＂", "＂"),
)


@instruction("startend:quotation")
def quotation(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The whole answer stands in double quotation marks, straight or curly, or those of the language.

    Passes: '"Hello."', "“Hello.”". Fails: '"Hello." she said', '""'. Not covered: whether the quotes inside pair up.
    upstream: straight double quotes only (French also ' and « », Japanese 「 」); nothing between them is enough.
    """
    body = text.raw.strip()
    pairs = _QUOTES[lang] if compat == "upstream" else _ALL_QUOTES
    found = len(body) > 1 and any(body.startswith(a) and body.endswith(b) for a, b in pairs)
    if compat == "fixed":
        found = found and bool(body[1:-1].strip())
    return found, f"begins with “{body[:1]}” and ends with “{body[-1:]}”"


@instruction("startend:end_checker", version=2)
def end_checker(text: Text, *, end_phrase: str, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The answer ends with the phrase, in any case; quotes, Markdown signs and one full stop after it are free.

    Passes: "… **Peace!**" for "Peace!". Fails: "Peace! Bye." for "Peace!". Not covered: rewordings.
    upstream: only straight double quotes after it are dropped; in Spanish one full stop too.
    """
    body, phrase = text.raw.strip(), end_phrase.strip()
    if compat == "upstream":
        if lang == "ja":
            right = body.strip("」』").endswith(phrase.strip("」』"))
        else:
            ending = body.strip('"').lower()
            right = (ending.removesuffix(".") if lang == "es" else ending).endswith(phrase.lower())
    else:
        loose = "*_`~\"'“”«»」』)> \t\n"
        ending = _folded_line(body[-4 * len(phrase) - 200 :].rstrip(loose))
        wanted = _folded_line(phrase.rstrip(loose))
        endings = (ending, ending[:-1].rstrip(loose) if ending[-1:] in (".", "。") else ending)
        right = any(one.endswith(wanted) for one in endings)
    return right, f"ends with “{body[-60:]}”"


@instruction("combination:repeat_prompt")
def repeat_prompt(text: Text, *, prompt_to_repeat: str, compat: Compat = "fixed") -> Answer:
    """The answer begins with the request word for word (case and line breaks aside), and goes on after it.

    Passes: "Name a lake.\\nWest Lake." for "Name a lake." Fails: "Sure! Name a lake. …", the request alone.
    upstream: white space must agree too, and nothing needs to follow.
    Not covered: whether what follows answers the request.
    """
    if compat == "upstream":
        right = text.raw.strip().lower().startswith(prompt_to_repeat.strip().lower())
        return right, "begins with the request" if right else "does not begin with the request"
    body, wanted = _folded_line(text.raw), _folded_line(prompt_to_repeat)
    if not body.startswith(wanted):
        return False, "does not begin with the request"
    goes_on = bool(body[len(wanted) :].strip("\"'”»」 *_"))
    return goes_on, "repeats the request and goes on" if goes_on else "repeats the request and says nothing more"


def _folded_line(text: str) -> str:
    return " ".join(text.split()).casefold()


_SIX = re.compile(r"(?<!\*)\*{6}(?!\*)")


@instruction("combination:two_responses")
def two_responses(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Two different answers with `******` between them.

    Passes: "Yes.\\n******\\nNo." Fails: the same answer twice, three answers, five asterisks.
    upstream: six asterisks within more also divide, and answers that differ in case or spaces are two.
    Not covered: answers that differ in wording only.
    """
    parts = text.raw.split("******") if compat == "upstream" else _SIX.split(text.raw)
    if not all(part.strip() for part in parts[1:-1]):
        return False, "an empty answer between two dividers"
    answers = [part.strip() for part in parts if part.strip()]
    if len(answers) != 2:
        return compare_count(len(answers), "answer", "exactly", 2)
    same = answers[0] == answers[1] if compat == "upstream" else _folded_line(answers[0]) == _folded_line(answers[1])
    return not same, "twice the same answer" if same else "two different answers"
