"""Names of languages: their codes, and where a text names one. Requests for a language are in language_requests.py.

>>> find_language_code("法语"), find_language_code("pt-BR")
('fr', 'pt')
>>> find_named_languages("Is 法语 harder than English?") == {"fr", "en"}
True
"""

from __future__ import annotations

import re

from rubrank.verifiers.shared.word_tables import read_words

MOST_CHARACTERS = 20_000  # of a text in which names are looked for

# Quotations, in which a name says nothing about the text itself: “…”, 「…」, «…», "…", 《…》
QUOTED = re.compile(
    '“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』|«[^»]{1,2000}»|"[^"\n]{1,500}"|《[^》]{1,200}》'
)

_CODES: dict[str, str] = {}  # code or name in small letters → code
for _code, _names in read_words("language_names").items():
    _CODES |= dict.fromkeys((_code, *_names), _code)
# Codes such as "de" are words of other languages, so texts are not searched for them. The longest names come first.
_NAMES = [name for name in _CODES if len(name) > 2 or not name.isascii()]
_NAMES.sort(key=len, reverse=True)
# Names in scripts with spaces: french, brazilian[ -]portuguese
SPACED_NAME = "|".join(re.escape(name).replace("\\-", "[ -]") for name in _NAMES if name < "\u3000")
# Names in scripts without spaces, from U+3000 on: 法语, フランス語
UNSPACED_NAME = "|".join(name for name in _NAMES if name >= "\u3000")
# A name with spaces is a whole word ("frenchman" is none), but Chinese characters may touch it: 用English回答
NAMED = re.compile(rf"(?<![^\W\d_一-鿿])(?:{SPACED_NAME})(?![^\W\d_一-鿿])|{UNSPACED_NAME}")


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
        for name in NAMED.findall(text[:MOST_CHARACTERS].lower())
    )
