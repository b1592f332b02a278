"""Which language a text is in: `detect_language("Wo ist der Bahnhof?")` gives `("de", …)`.

Two steps, the first that decides wins. The script: most scripts are written by one language. Within a script that many
languages share, the statistics of py3langid, which were the best of those compared on short texts (figures in
docs/trusted_criteria.md); long texts that are full of one language's small words need no statistics. Addresses, code
and Markdown signs are not looked at. Text in Chinese characters alone is Japanese where forms are used that only Japan
has, and may be either where nothing shows it.

Codes are those of ISO 639-1 (639-3 for a few languages that have none). Not covered: dialects, romanised text (Hindi in
Latin letters), Chinese variants (both are "zh"), texts in many languages at once (the largest part wins).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import Any

_ENOUGH = 10_000  # characters looked at; more changes nothing but the time
_ENOUGH_LETTERS = 600  # characters for statistics
_NO_PROSE = re.compile(r"```[^`]*```|https?://\S+|www\.\S+|\S{1,64}@\S+|\\[A-Za-z]+|\b\w+(?:_\w+)+\b|\b\w+\(\)")
_LETTERS = re.compile(r"[^\W\d_]+")
_IN_NAMES = re.compile(  # Casa de la Luna, La Cucina: they tell where a name is from
    r"(?<=[^\W_] )(?:(?:de|del|la|las|los|le|les|da|do|dos|di|du|des|von|van|der|den|al) ){1,3}(?=[A-ZÀ-Þ])"
    r"|(?<=[,:] )(?:La|Le|Les|El|Los|Il|Da|De|Die|Der|Das|Den)(?= [A-ZÀ-Þ])"
)

# First and last letter of the scripts that matter, and the language they mean when only one writes them.
_SCRIPTS: dict[str, tuple[str, str]] = {
    "Latin": ("A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff", ""),
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
_WRITTEN_IN = {
    "Cyrillic": "ru uk be bg sr mk kk ky tg tt ba mn",
    "Arabic": "ar fa ur ps ug sdh ku",
    "Devanagari": "hi mr ne sa",
}
_SCRIPT_OF = {code: name for name, (_, code) in _SCRIPTS.items() if code}  # languages not in Latin letters
_SCRIPT_OF |= {code: script for script, codes in _WRITTEN_IN.items() for code in codes.split()}
_ONE_OF = re.compile("|".join(f"(?P<{name}>[{letters}])" for name, (letters, _) in _SCRIPTS.items()))
_ONLY = {name: re.compile(f"[{letters}\\s'’.,!?¿¡;:-]+") for name, (letters, _) in _SCRIPTS.items()}

# Characters that Chinese has and Japanese has not, and the reverse: common ones are enough.
_CHINESE = re.compile(
    "[们这吗呢吧么您她你说时个为对发经东车门问间长见现开关电书马业习买产亲从仅让计认记许论设访证词话该详语请读谁调谈谢转输过还进远"
    "运适选边钱银错难题风飞饭饮馆验给红级纪约组织终结统绝继续维罗职联华单卖变图团园圆场块坏处备复头夺奖妇妈孙們這嗎麼妳誰說對發經產"
    "會學國來點臺灣與價傳應戰單圖實賣廣氣團轉歸觀關驗權歡勞營榮櫻藥鹽圓黑總繼續戀讀發樂區醫當舊寫雙聲]"
)
_JAPANESE = re.compile(
    "[経済産駅発県沢対検価伝応戦単図実売広気団転帰観験権歓労営栄桜薬込畑峠働塩円総継続恋読楽挙枠匂辻凧笹搾栃繊郷録録顕険剣圏覚弾釈訳"
    "択択拝払仏仮児処処読両満瀬浅渋隣隆縄縁絵姉穂暦歴剤斎斉斎稲粋砕酔]"
)
_NO_KANA = 30  # Chinese characters in a row that no Japanese text has

# Small words of languages in Latin letters: those that a text of two lines can hardly avoid.
_SMALL_WORDS = {
    "en": "the of and to in is that it for on with as are was be this by from at or an a have not you your but they we "
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
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _code, _words in _SMALL_WORDS.items():
    for _word in set(_words.split()):
        _LANGUAGES_OF.setdefault(_word, []).append(_code)
# What the statistics tell apart and we do not.
_FOLDED = {
    "pcm": "en",
    "nn": "no",
    "nb": "no",
    "arz": "ar",
    "ary": "ar",
    "gom": "mr",
    "hbo": "he",
    "grc": "el",
    "wuu": "zh",
    "yue": "zh",
    "ext": "es",
    "an": "es",
    "ltg": "lv",
    "vec": "it",
    "lij": "it",
    "uzs": "uz",
    "ms": "id",
    "bs": "hr",
    "zxx": "",
}
SURE = 0.7
"""From here on the statistics were never wrong on the texts that they were compared on."""
_LITTLE = 0.05  # probability that leaves no doubt
_NAMES_ONLY = 4  # different words that begin small, below which a text may be names alone


@lru_cache(maxsize=1024)
def detect_language(text: str) -> tuple[str, float]:
    """The language's code and how sure that is (0 to 1); ("", 0.0) for a text without letters."""
    prose = _NO_PROSE.sub(" ", text[:_ENOUGH])
    counts = count_scripts(prose) or count_scripts(prose := text[:_ENOUGH])
    total = sum(counts.values())
    if not total:
        return "", 0.0
    script = _main_script(counts)
    share = counts[script] / total
    if script == "Han" and counts.get("Kana", 0) > 0.05 * counts["Han"]:
        return "ja", (counts["Han"] + counts["Kana"]) / total
    if script == "Han":
        return _of_characters(prose, share)
    if one := _SCRIPTS[script][1]:
        return one, share
    found, sure = _likeliest(prose, script)
    return found, sure * share


def is_other(text: str, languages: Collection[str]) -> bool:
    """Is the text surely in none of these languages? Names, dates and single words prove nothing.

    Another script proves it. Within one script the statistics must be clear: `SURE` for another language, next to
    nothing for these. Whatever they say, small words of these languages leave a doubt.
    """
    found, sure = detect_language(text)
    if not found or found in languages:
        return False
    if found in ("zh", "ja") and {"zh", "ja"} & set(languages):
        return _is_other_han(text, found)
    script = _SCRIPT_OF.get(found, "Latin")
    if all(_SCRIPT_OF.get(code, "Latin") != script for code in languages):
        return script != "Latin" or _is_prose(text, sure)  # Latin letters may be names and terms
    chances = _chances(_NO_PROSE.sub(" ", text[:_ENOUGH]), script)
    inside = sum(chances.get(_FOLDED.get(code, code), 0.0) for code in languages)
    if inside > _LITTLE or sure < SURE:
        return False
    return script != "Latin" or (_is_prose(text, sure) and not _known_words(text, found, languages))


def _is_prose(text: str, sure: float) -> bool:
    """Are there a few words that begin with a small letter? Names, titles and terms are not prose."""
    words = _LETTERS.findall(_IN_NAMES.sub(" ", _NO_PROSE.sub(" ", text[:_ENOUGH])))
    small = len({word for word in words if word[0].islower() and len(word) > 1})
    return small >= (_NAMES_ONLY if sure < 0.95 else 2) or len(words) >= 40


def _known_words(text: str, found: str, languages: Collection[str]) -> bool:
    """Do the small words speak for one of these languages rather than for the one found?"""
    words = set(_LETTERS.findall(_IN_NAMES.sub(" ", text[:_ENOUGH]).lower()))
    hits = Counter(code for word in words for code in _LANGUAGES_OF.get(word, ()))
    known = max((hits[code] for code in languages), default=0)
    return known > hits[found] if found in _SMALL_WORDS else False


def has_own_script(language: str) -> bool:
    """Has the language a script of its own (or shared by a family of which Chinese and Japanese are the only one)?"""
    return language in _OWN_SCRIPT


def script_of(language: str) -> str:
    """The script that a language is written in; "Latin" where none else is known."""
    return _SCRIPT_OF.get(language, "Latin")


def is_detectable(language: str) -> bool:
    """Can `detect_language` ever answer this?"""
    return language.lower().split("-")[0] in _known_languages()


@lru_cache(maxsize=65536)
def _script(char: str) -> str | None:
    found = _ONE_OF.match(char)
    return found.lastgroup if found else None


def count_scripts(prose: str) -> dict[str, int]:
    """Letters of each script."""
    if prose.isascii():
        return {"Latin": n} if (n := sum(map(str.isalpha, prose))) else {}
    counts: dict[str, int] = {}
    for char, n in Counter(prose).items():
        if name := _script(char):
            counts[name] = counts.get(name, 0) + n
    return counts


def _main_script(counts: dict[str, int]) -> str:
    """The script of most of the text. A letter of a script without spaces says as much as three that spell."""
    weight = {"Han": 3, "Kana": 2, "Hangul": 2}
    return max(counts, key=lambda name: counts[name] * weight.get(name, 1))


def _of_characters(prose: str, share: float) -> tuple[str, float]:
    """Chinese or Japanese, of a text without kana."""
    chinese, japanese = len(_CHINESE.findall(prose)), len(_JAPANESE.findall(prose))
    if japanese > chinese:
        return "ja", 0.8 * share
    return "zh", share if chinese else 0.6 * share


def _is_other_han(text: str, found: str) -> bool:
    """Is it surely Chinese and not Japanese, or the reverse? A short text may do without kana."""
    if found == "ja":
        counts = count_scripts(text[:_ENOUGH])
        return counts.get("Kana", 0) >= 3 or counts.get("Han", 0) >= _NO_KANA
    return len(_CHINESE.findall(text[:_ENOUGH])) >= 2 or sum(map(str.isalpha, text[:_ENOUGH])) >= _NO_KANA


def _likeliest(prose: str, script: str) -> tuple[str, float]:
    if script == "Latin" and (obvious := _by_small_words(prose)):
        return obvious
    chances = _chances(prose, script)
    best = max(chances, key=chances.__getitem__, default="")
    return (best, chances[best]) if best else ("", 0.0)


def _by_small_words(prose: str) -> tuple[str, float] | None:
    """The language of a text full of its small words, and of no other's."""
    words = _LETTERS.findall(prose[:4000].lower())
    hits = Counter(code for word in words for code in _LANGUAGES_OF.get(word, ()))
    ranked = hits.most_common(2)
    if not ranked or ranked[0][1] < max(10, 0.25 * len(words)):
        return None
    second = ranked[1][1] if len(ranked) > 1 else 0
    return (ranked[0][0], min(1.0, 3 * ranked[0][1] / len(words))) if second <= 0.5 * ranked[0][1] else None


def _chances(prose: str, script: str) -> dict[str, float]:
    """How likely each language of the script is, as the statistics have it."""
    letters = select_letters(prose, script)[:_ENOUGH_LETTERS]
    return _ranked(letters, script) if any(map(str.isalpha, letters)) else {}


def select_letters(prose: str, script: str) -> str:
    """What is written in one script, with its punctuation."""
    return " ".join(" ".join(_ONLY[script].findall(prose)).split())


@lru_cache(maxsize=1024)
def _ranked(letters: str, script: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for label, chance in _identifier().rank(letters.encode("utf-8", "ignore").decode()):
        code = _FOLDED.get(label, label)
        if code and _SCRIPT_OF.get(code, "Latin") == script:
            found[code] = found.get(code, 0.0) + float(chance)
    return found


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=1)
def _known_languages() -> frozenset[str]:
    labels = {_FOLDED.get(label, label) for label in _identifier().labels} - {""}
    return frozenset(labels | set(_SCRIPT_OF) | {"ms", "bs", "nb", "nn"})
