"""What a sentence denies: "Profits did not rise" denies the rise; "not only did they rise" denies nothing.

>>> find_denials("The board did not approve the merger.")
[('The board did not approve the merger', 'approve the merger')]
>>> find_denials("董事会没有批准合并，但会议很长。")
[('董事会没有批准合并', '批准合并')]

A word of denial is looked for in some dozen languages; what stands behind it, to the end of the clause, is denied. Not
covered: irony, doubt ("might"), and opposites ("fell" for "rose").
"""

from __future__ import annotations

import re

_CUE = re.compile(
    r"\b(?:not(?! only\b| just\b| merely\b)|never|no longer|cannot|\w+n['’]t|neither|nor|without|failed to|fails "
    r"to|fail to|refus\w+ to"
    r"|den(?:y|ies|ied) that|(?:is|was|are|were) (?:false|untrue|wrong|incorrect|a myth) that|false that"
    r"|contrary to|hardly|no"
    r"|n['’]\w+ (?:pas|jamais|plus)|ne \w+ (?:pas|jamais|plus)|pas|jamais|sans|no|nunca|jamás|sin|não|nunca|sem"
    r"|nicht|kein\w*|nie"
    r"|ohne|non|mai|senza|niet|geen|nooit|inte|aldrig|ikke|не|ни|нет|без|никогда|nie|bez|değil|tidak|bukan|tanpa"
    r"|không)\b"
    r"|没有|沒有|并非|並非|并不|並不|不是|不会|不能|从未|從未|从不|未曾|未能|尚未|并未|否认|否認|拒绝|无法|無法"
    r"|未(?=[一-鿿])"
    r"|不(?=[一-鿿])(?!仅|但|过|同|断|久|少)|没(?=[一-鿿])",
    re.IGNORECASE,
)
_CUE_BEHIND = re.compile(r"(?:ませ|ない|なかった|ず|ぬ|않|못|아니|없)")  # Japanese and Korean deny behind the verb
_CLAUSE = re.compile(
    r"[,;:，；：、。.!?！？]|\b(?:but|while|whereas|although|though|however|yet|because|since|which|who|mais"
    r"|pero|sino|aber|sondern|mas"
    r"|ma|но|а)\b|但是?|而是|然而|却|虽然|因为|所以",
    re.IGNORECASE,
)


def find_denials(sentence: str) -> list[tuple[str, str]]:
    """The clauses that deny something, each with what it denies.

    That is what stands behind the word of denial, or before it in Japanese and Korean.
    """
    denials = []
    for clause in _CLAUSE.split(sentence[:2000]):
        cue = _CUE.search(clause)
        cue_behind = _CUE_BEHIND.search(clause)
        if cue:
            denials.append((clause.strip(), clause[cue.end() :].strip()))
        elif cue_behind:
            denials.append((clause.strip(), clause[: cue_behind.start()].strip()))
    return denials


def has_denial(sentence: str) -> bool:
    """Is there any word of denial?"""
    return _CUE.search(sentence) is not None or _CUE_BEHIND.search(sentence) is not None
