"""What an instruction looks at: the text as a reader sees it, or as it was written.

select_text("keywords:existence", text, "fixed")       # text.shown: a word in a comment is not there
select_text("detectable_format:title", text, "fixed")  # the text itself: its signs are what is asked
select_text("keywords:existence", text, "upstream")    # the text itself, as the public checker has it
"""

from __future__ import annotations

import re

from rubrank.texts.text import Text

_OF_SIGNS = re.compile(
    r"(?:^|:)(?:detectable_format|detectable_content|format|custom|copy|repeat|new|combination|paragraphs)(?:$|:)"
    r"|number_paragraphs|number_sentences|nth_paragraph|startend:quotation"
)


def reads_signs(name: str) -> bool:
    """Is the instruction of this name about the signs themselves (Markdown, tags, brackets, copies)?"""
    return _OF_SIGNS.search(name) is not None


def select_text(name: str, text: Text, compat: object) -> Text:
    """The text that the instruction is checked on."""
    if compat == "upstream" or reads_signs(name):
        return text
    return text.shown
