"""Which language a text is in: `detect_language("Wo ist der Bahnhof?")` gives `("de", …)`.

Three steps, the first that decides wins. The script: most scripts are written by one language. Tell-tale letters and
words: for Arabic, Cyrillic and Devanagari, and for short texts in Latin letters, where small common words say more than
letter statistics. The statistics of whatlang otherwise. Addresses, code and Markdown signs are not looked at.

Codes are those of ISO 639-1 (639-3 for a few languages that have none). Not covered: dialects, romanised text (Hindi in
Latin letters), Chinese variants (both are "zh"), texts in many languages at once (the largest part wins).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import whatlang

_ENOUGH = 10_000  # characters looked at; more changes nothing but the time
_ENOUGH_LATIN = 4_000  # the small words of half a page
_NO_PROSE = re.compile(r"```[^`]*```|https?://\S+|www\.\S+|\S{1,64}@\S+")
_LETTERS = re.compile(r"[^\W\d_]+")
_IN_NAMES = re.compile(  # Casa de la Luna, La Cucina: they tell where a name is from
    r"(?<=[^\W_] )(?:(?:de|del|la|las|los|le|les|da|do|dos|di|du|des|von|van|der|den|al) ){1,3}(?=[A-ZÀ-Þ])"
    r"|(?<=[,:] )(?:La|Le|Les|El|Los|Il|Da|De|Die|Der|Das|Den)(?= [A-ZÀ-Þ])"
)
_NOT_DEVANAGARI = re.compile("[^\u0900-\u0963\u0966-\u097f]+")

# First and last letter of the scripts that matter, and the language they mean when only one writes them.
_SCRIPTS: dict[str, tuple[str, str]] = {
    "Latin": ("A-Za-z\u00c0-\u024f\u1e00-\u1eff", ""),
    "Cyrillic": ("\u0400-\u052f", ""),
    "Arabic": ("\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff", ""),
    "Devanagari": ("\u0900-\u0963\u0966-\u097f", ""),
    "Han": ("\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f", "zh"),
    "Kana": ("\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d", "ja"),
    "Hangul": ("\uac00-\ud7af\u1100-\u11ff\u3130-\u318f", "ko"),
    "Greek": ("\u0370-\u03ff\u1f00-\u1fff", "el"),
    "Hebrew": ("\u0590-\u05ff", "he"),
    "Armenian": ("\u0530-\u058f", "hy"),
    "Georgian": ("\u10a0-\u10ff", "ka"),
    "Thai": ("\u0e00-\u0e7f", "th"),
    "Lao": ("\u0e80-\u0eff", "lo"),
    "Khmer": ("\u1780-\u17ff", "km"),
    "Burmese": ("\u1000-\u109f", "my"),
    "Ethiopic": ("\u1200-\u137f", "am"),
    "Bengali": ("\u0980-\u09ff", "bn"),
    "Gurmukhi": ("\u0a00-\u0a7f", "pa"),
    "Gujarati": ("\u0a80-\u0aff", "gu"),
    "Oriya": ("\u0b00-\u0b7f", "or"),
    "Tamil": ("\u0b80-\u0bff", "ta"),
    "Telugu": ("\u0c00-\u0c7f", "te"),
    "Kannada": ("\u0c80-\u0cff", "kn"),
    "Malayalam": ("\u0d00-\u0d7f", "ml"),
    "Sinhala": ("\u0d80-\u0dff", "si"),
}
_OWN_SCRIPT = frozenset(code for _, code in _SCRIPTS.values() if code)
_SCRIPT_OF = {code: name for name, (_, code) in _SCRIPTS.items() if code}  # languages not in Latin letters
_SCRIPT_OF |= dict.fromkeys(("ru", "uk", "be", "bg", "sr", "mk", "kk", "srp"), "Cyrillic") | dict.fromkeys(
    ("ar", "fa", "ur"), "Arabic"
)
_SCRIPT_OF |= dict.fromkeys(("hi", "mr", "ne"), "Devanagari")
_ONE_OF = re.compile("|".join(f"(?P<{name}>[{letters}])" for name, (letters, _) in _SCRIPTS.items()))

# Letters that only some languages of a script have; the first language whose letters are frequent enough is taken.
_TELLING: dict[str, tuple[tuple[str, str, float], ...]] = {
    "Cyrillic": (
        ("be", "ўЎ", 0.004),
        ("uk", "іїєґІЇЄҐ", 0.02),
        ("mk", "ѓќѕЃЌЅ", 0.001),
        ("sr", "јљњћђЈЉЊЋЂ", 0.02),
        ("kk", "әғқңөұүһӘҒҚҢӨҰҮ", 0.02),
        ("ru", "ыэёЫЭЁ", 0.008),
        ("bg", "ъЪ", 0.006),
    ),
    "Arabic": (("ur", "ٹڈڑںےھہ", 0.02), ("fa", "پچژگیک", 0.03), ("ar", "ةىأإي", 0.005)),
}
_TELLING_WORDS: dict[str, dict[str, str]] = {
    "Devanagari": {
        "hi": "है हैं का की के में और से को यह वह पर भी नहीं था थी थे हो कर एक लिए तो मैं हम आप ने ही जो क्या कि गया",
        "mr": "आहे आहेत आणि मध्ये च्या ची चा चे हे ही हा नाही होते होता होती केले केली झाले असे तर या त्या मी तुम्ही आपण साठी एक",
        "ne": "छ छन् र को का मा लाई हो थियो गर्न गर्ने भएको पनि छैन यो त्यो तपाईं तपाईंको हामी म यस लागि गरेको हुन्छ भने तथा",
    }
}

# Small words of languages in Latin letters: the ones that a text of two lines can hardly avoid.
_SMALL_WORDS = {
    "en": "the of and to in is that it for on with as are was be this by from at or an have not you your but they we "
    "can which will their has my me i what how if about so do more all would there been who when up out no our he she",
    "fr": "le la les de des du et en un une est que qui dans pour par sur pas plus avec ce cette il elle nous vous je "
    "sont au aux ne se sa son ses ou mais votre vos notre leur être ont été à où ça l d qu c s n j",
    "es": "el la los las de del y en un una es que por para con no se su sus al lo como más pero este esta o le ha son "
    "fue ser está muy también entre sobre cuando hay nos mi tu porque desde si ya",
    "pt": "o a os as de do da dos das e em um uma é que por para com não se seu sua ao no na nos nas mais mas como ou "
    "foi ser são está você também ele ela isso este esta pelo pela quando muito já",
    "it": "il lo la i gli le di del della dei delle e in un una è che per con non si su al alla da dal come più ma o "
    "sono questo questa nel nella anche ha essere suo sua ci mi loro quando dei",
    "de": "der die das und ist in den von zu mit sich des auf für nicht ein eine dem im es als auch an werden aus er "
    "hat dass sie nach wird bei einer um am sind noch wie einem über so zum haben oder ich wir zur",
    "nl": "de het een en van in is dat op te zijn met voor niet aan er om ook als dan bij of uit nog naar worden door "
    "wordt maar hebben deze dit heeft kan hun meer we je ik ze",
    "sv": "och att det i en är som på för av med den till har inte om ett de var sig från vi kan men så eller när jag",
    "da": "og at det i en er som på for af med den til har ikke om et de var sig fra vi kan men så eller når jeg også",
    "no": "og at det i en er som på for av med den til har ikke om et de var seg fra vi kan men så eller når jeg også",
    "fi": "ja on ei se että hän ovat oli joka mutta kun myös niin kuin tai jos olla voi sen ole ne tämä mitä minä "
    "sinä me te he kanssa sekä mukaan hyvin",
    "pl": "i w na z do się nie jest to że o jak po co dla od za przez są ale tym może tak być oraz który która przy",
    "cs": "a v na se je že to s z do o i k ve pro jako za by jsou ale po od který která nebo jeho být tak při",
    "tr": "ve bir bu da de için ile olarak çok daha en gibi o ne var olan kadar sonra ancak her veya ben değil ise",
    "vi": "và của là có được cho trong với các những một không người này để khi đã từ đến tôi bạn ra vào nhưng cũng",
    "id": "yang dan di untuk dengan ini itu dari dalam tidak pada akan adalah ke juga atau bisa anda kami saya oleh",
    "sw": "na ya wa kwa ni katika za la kuwa hii cha pia hiyo kama au yake vya yangu lakini sana kila wetu yetu huu "
    "wake watu kwamba mimi sisi hilo hivyo wao baada zaidi kutoka ndiyo hakuna mtu siku yako kufanya tafadhali wengine "
    "hapa sasa je kwenye nchini mwaka habari asante ndani wewe yeye hata bila",
    "ro": "și de la în a cu pe care nu este un o mai din că pentru sunt prin ca sau fi al ale lui dar după",
    "hu": "a az és hogy nem is egy van de meg ez csak már el mint még vagy ha volt azt kell lehet",
    "tl": "ang ng sa na mga ay at para ito ko mo hindi siya ako kung may isang niya namin kami ka lang",
    "so": "waa iyo in ka ku oo uu la ay ah ee si waxaa ayaa waxa aan soo",
    "sq": "dhe të në e një për me që nga është i nuk ka si kjo ky janë por më do",
    "cy": "y yr a i o yn ar ac am mae wedi oedd gan hyn bod fod eu ei",
    "af": "die en van in is het dat nie vir met op te om sy was wat hulle aan ook sal kan",
    "ca": "el la els les de del i en un una és que per amb no se al com més però aquest aquesta o són",
    "et": "ja on ei see et ta oli mis kui aga ka või ning oma mida siis seda kes",
    "lt": "ir yra kad į su iš kaip tai buvo bet ne už jis ar taip apie",
    "hr": "i je u na se da su za od ne kao što to s a koji koja bi ili ali",
    "sl": "in je v na se da so za od ne kot kar to s ki bi ali pa tudi",
    "sk": "a v na sa je že to s z do o i k vo pre ako za by sú ale po od ktorý alebo",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _code, _words in _SMALL_WORDS.items():
    for _word in set(_words.split()):
        _LANGUAGES_OF.setdefault(_word, []).append(_code)
_MANY = 80  # letters from which statistics alone may say that a text is not in the language expected
_NO_KANA = 20  # Chinese characters in a row that no Japanese text has
_NO_ISO = {"cmn": "zh", "pes": "fa", "nep": "ne", "mar": "mr", "nob": "no", "heb": "he", "yid": "yi"}  # of whatlang


@lru_cache(maxsize=1024)
def detect_language(text: str) -> tuple[str, float]:
    """The language's code and how sure that is (0 to 1); ("", 0.0) for a text without letters."""
    prose = _NO_PROSE.sub(" ", text[:_ENOUGH]) or text[:_ENOUGH]
    counts = _count_scripts(prose)
    total = sum(counts.values())
    if not total:
        return _by_statistics(prose)
    script = _main_script(counts)
    share = counts[script] / total
    if script == "Han" and counts.get("Kana", 0) > 0.05 * counts["Han"]:
        return "ja", (counts["Han"] + counts["Kana"]) / total
    if one := _SCRIPTS[script][1]:
        return one, share
    found, sure = _WITHIN[script](prose, counts[script])
    return found, sure * share


def is_other(text: str, languages: Collection[str]) -> bool:
    """Is the text surely in none of these languages? Names, dates and single words prove nothing.

    Another script proves it. Within one script different small words do, if two or more speak for another language and
    far more than for these, or one with clear statistics; without them the letters must be many and the statistics
    very clear. Whatever the words say, statistics that point to one of these languages leave a doubt.
    """
    found, sure = detect_language(text)
    if not found or found in languages:
        return False
    letters = sum(map(str.isalpha, text))
    if found == "zh" and "ja" in languages:  # a short text may do without kana
        return letters >= _NO_KANA
    if all(_SCRIPT_OF.get(code, "Latin") != _SCRIPT_OF.get(found, "Latin") for code in languages):
        return found in _SCRIPT_OF or sure >= 0.5  # Latin letters may be names and terms
    if found in _SCRIPT_OF:
        return sure >= 0.7
    return _is_other_latin(text, languages, found, sure if letters >= _MANY else 0.9 * sure)


def _is_other_latin(text: str, languages: Collection[str], found: str, sure: float) -> bool:
    prose = _NO_PROSE.sub(" ", text[:_ENOUGH_LATIN])
    words = set(_LETTERS.findall(_IN_NAMES.sub(" ", prose).lower()))
    hits = Counter(code for word in words for code in _LANGUAGES_OF.get(word, ()))
    known = max((hits[code] for code in languages), default=0)
    if _by_statistics(prose)[0] in languages:
        return False
    if hits[found] > 2 * known and all(code in _SMALL_WORDS or code in _SCRIPT_OF for code in languages):
        return hits[found] >= 2 or sure >= 0.6
    return sure >= 0.9 and hits[found] >= known


def written_by_one(language: str) -> bool:
    """Has the language a script of its own (or shared by a family of which Chinese and Japanese are the only one)?"""
    return language in _OWN_SCRIPT


def detectable(language: str) -> bool:
    """Can `detect_language` ever answer this?"""
    return language.lower().split("-")[0] in _known_languages()


@lru_cache(maxsize=65536)
def _script(char: str) -> str | None:
    found = _ONE_OF.match(char)
    return found.lastgroup if found else None


def _count_scripts(prose: str) -> dict[str, int]:
    if prose.isascii():
        return {"Latin": 1} if any(map(str.isalpha, prose)) else {}
    counts: dict[str, int] = {}
    for char, n in Counter(prose).items():
        if name := _script(char):
            counts[name] = counts.get(name, 0) + n
    return counts


def _main_script(counts: dict[str, int]) -> str:
    """The script of most of the text. A letter of a script without spaces says as much as three that spell."""
    weight = {"Han": 3, "Kana": 2, "Hangul": 2}
    return max(counts, key=lambda name: counts[name] * weight.get(name, 1))


def _latin(prose: str, _: int) -> tuple[str, float]:
    words = _LETTERS.findall(prose[:_ENOUGH_LATIN].lower())
    hits = Counter(code for word in words for code in _LANGUAGES_OF.get(word, ()))
    ranked = hits.most_common(2)
    if ranked and ranked[0][1] >= 0.12 * len(words):
        second = ranked[1][1] if len(ranked) > 1 else 0
        # Neighbours share their small words (Danish and Norwegian, Spanish and Catalan): then letters decide.
        if second <= 0.85 * ranked[0][1]:
            return ranked[0][0], min(1.0, 3 * ranked[0][1] / len(words))
    found, sure = _by_statistics(prose)
    if (not found or sure < 0.1) and ranked:
        return ranked[0][0], ranked[0][1] / len(words)
    return found, sure


def _by_letters(script: str, prose: str, letters: int) -> tuple[str, float]:
    for code, telling, least in _TELLING[script]:
        if sum(map(prose.count, telling)) >= least * letters:
            return code, 0.9
    return _by_statistics(prose)


def _by_words(prose: str, _: int) -> tuple[str, float]:
    words = Counter(_NOT_DEVANAGARI.split(prose))
    hits = {code: sum(words[w] for w in small.split()) for code, small in _TELLING_WORDS["Devanagari"].items()}
    best = max(hits, key=hits.__getitem__)
    return (best, hits[best] / sum(hits.values())) if hits[best] else _by_statistics(prose)


_WITHIN = {
    "Latin": _latin,
    "Cyrillic": lambda prose, n: _by_letters("Cyrillic", prose, n),
    "Arabic": lambda prose, n: _by_letters("Arabic", prose, n),
    "Devanagari": _by_words,
}


def _by_statistics(prose: str) -> tuple[str, float]:
    try:
        found: Any = whatlang.detect(prose.encode("utf-8", "ignore").decode())  # its stubs know no attributes
    except ValueError:  # no letters that it knows
        return "", 0.0
    name = str(found.lang)
    found.to_iso()
    iso = str(found.lang)
    return _NO_ISO.get(name) or (name if iso == "unknown" else iso), float(found.confidence)


@lru_cache(maxsize=1)
def _known_languages() -> frozenset[str]:
    own = {code for _, code in _SCRIPTS.values() if code} | set(_SMALL_WORDS) | set(_TELLING_WORDS["Devanagari"])
    telling = {code for rows in _TELLING.values() for code, _, _ in rows}
    return frozenset(own | telling | {"az", "jv", "ka", "lv", "sn", "tk", "uz", "zu", "eo", "la", "yi"})
