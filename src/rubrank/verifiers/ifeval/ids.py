"""From the ids and keyword arguments of public data to a verifier and its parameters.

    >>> resolve("fr:change_case:french_capital")
    ('change_case:english_capital', 'fr')
    >>> public_params("fr:punctuation:no_comma", {"relation": None})[1]
    {'lang': 'fr'}

Public files put a language before the id (`en:`, `fr:`), name the language in the id (`french_capital`), and fill the
keyword arguments with nulls. All of that is removed here. An argument with a value that the verifier does not have is
left in and refused where parameters are checked; otherwise what it asks for would be ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from rubrank.verifiers.shared.instruction import Lang
from rubrank.verifiers.verifier import VERIFIERS, Verifier, find_verifier, is_verifier

_ALIASES = {
    "change_case:french_capital": "change_case:english_capital",
    "change_case:spanish_capital": "change_case:english_capital",
    "change_case:french_lowercase": "change_case:english_lowercase",
    "change_case:spanish_lowercase": "change_case:english_lowercase",
    "fr:detectable_format:no_digits": "fr:detectable_content:no_digits",
}
_LANGUAGE_CODES = {"french": "fr", "spanish": "es"}


def resolve(instruction_id: str) -> tuple[str, str]:
    """Return the verifier's name and the language of the instruction; an unknown id is returned as it is."""
    language, _, bare_id = instruction_id.partition(":")
    if language not in get_args(Lang):
        bare_id = instruction_id
        name_start = instruction_id.partition(":")[2].partition("_")[0]
        language = _LANGUAGE_CODES.get(name_start, "en")
    full_id = f"{language}:{bare_id}"
    full_id = _ALIASES.get(full_id, full_id)
    if full_id in VERIFIERS:
        return full_id, language
    return _ALIASES.get(bare_id, bare_id), language


def public_params(
    instruction_id: str, kwargs: Mapping[str, Any] | None
) -> tuple[Verifier, dict[str, Any]]:
    """Return the verifier of a public id, and the arguments that are not null."""
    is_verifier("keywords:existence")  # imports all families: `resolve` looks ids up among them
    name, language = resolve(instruction_id)
    verifier = find_verifier(name)
    params = {key: value for key, value in (kwargs or {}).items() if value is not None}
    if "lang" in verifier.parameters.model_fields and language in get_args(Lang):
        params.setdefault("lang", language)
    return verifier, params
