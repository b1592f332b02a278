"""What the public checkers of instructions see: the language, Japanese words, sentences and Treebank tokens.

    >>> split_public_sentences('1. Mix it. Dr. Ray said "so." Then\\nwait... what')
    ['1.', 'Mix it.', 'Dr. Ray said "so".', 'Then wait...', 'what']
    >>> split_newspaper_sentences("Dr. No? Yes! It cost 3.50. **Done.**")
    ['Dr. No?', 'Yes!', 'It cost 3.50.', '**Done.', '**']
    >>> split_public_tokens("Don't stop (yet).")
    ['Do', "n't", 'stop', '(', 'yet', ')', '.']

`compat="upstream"` uses these, so that verdicts can be compared with published ones.
- langdetect and janome are used if they are installed (`pip install rubrank[upstream]`); otherwise the verifiers use
  our own detector and rules. The public checkers run langdetect without a seed, so on a few words it guesses
  differently each time. Here it has a seed.
- `split_public_sentences`: IFBench splits at every `.`, `?` and `!` that does not belong to a title, a number, an
  address or an abbreviation of single letters, whatever follows.
- `split_newspaper_sentences` and `split_public_tokens`: IFEval counts the sentences of NLTK's splitter, which was
  trained on newspapers (Kiss and Strunk, 2006), and both benchmarks use its Penn Treebank tokenizer, which starts from
  these sentences. Their behaviour is rebuilt here without their data. Not covered: what the splitter learned about
  single words, which decides some abbreviations before a capital; lists of abbreviations and of first words replace it.

What looks odd in the results ('**Done.', '**') is what the public checkers do.
"""

from __future__ import annotations

import re
import string
import threading
from functools import lru_cache
from typing import Any

from rubrank._plain import replace_surrogates
from rubrank.texts.words import word_list
from rubrank.verifiers.shared.language import detect_language

_SEED = 1  # any number: langdetect draws random numbers
_MOST_CHARACTERS = 10_000  # that janome reads: it is slow, and hardly any answer is longer
_THREAD = threading.local()  # holds the `tokenizer` of janome


# ---- langdetect and janome ------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _load_detector_factory() -> Any:
    """Return a new factory of detectors with a fixed seed, which leaves langdetect's own alone; None if absent."""
    try:
        from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
    except ImportError:
        return None
    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.seed = _SEED
    return factory


def has_langdetect() -> bool:
    """Is langdetect installed?"""
    return _load_detector_factory() is not None


@lru_cache(maxsize=4096)
def detect_public_language(text: str) -> str:
    """Return the language as langdetect names it ("zh-cn"); "" if it finds none.

    If langdetect is not installed, our own detector answers, with the same names.
    """
    factory = _load_detector_factory()
    if factory is None:
        detected, _ = detect_language(text)
        return "zh-cn" if detected == "zh" else detected
    from langdetect.lang_detect_exception import LangDetectException

    detector = factory.create()
    detector.append(text)
    try:
        return str(detector.detect())
    except LangDetectException:
        return ""


def has_janome() -> bool:
    """Is janome installed?"""
    return _load_tokenizer() is not None


def _load_tokenizer() -> Any:
    """Return the tokenizer of this thread, because it keeps state while it works; None if janome is absent."""
    if not hasattr(_THREAD, "tokenizer"):
        try:
            from janome.tokenizer import Tokenizer
        except ImportError:
            _THREAD.tokenizer = None
        else:
            _THREAD.tokenizer = Tokenizer()
    return _THREAD.tokenizer


@lru_cache(maxsize=256)
def split_japanese_tokens(text: str) -> tuple[tuple[str, str], ...]:
    """Return the words of a Japanese text, each with its part of speech ("名詞", "助詞" …); () if janome is absent.

    Only the first 10,000 characters are read.
    """
    tokenizer = _load_tokenizer()
    if tokenizer is None:
        return ()
    return tuple(
        (token.surface, token.part_of_speech.partition(",")[0])
        for token in tokenizer.tokenize(replace_surrogates(text[:_MOST_CHARACTERS]))
    )


# ---- sentences as IFBench splits them -------------------------------------------------------------------------------

# Characters that no text has stand in while a text is split.
_INNER_STOP = "\x01"  # for a full stop that ends no sentence
_BARE_END = "\x02"  # for an end of a sentence without a mark, as behind "U.S."
_STARTER = r"(?:Mrs?|Ms|Dr|Prof|Capt|Cpt|Lt|(?:He|She|It|They|Their|Our|We|But|However|That|This)\s|Wherever)"
# "U.S. He said": an abbreviation before a word that starts a sentence
_ENDING_ABBREVIATION = re.compile(
    rf"((?<![A-Za-z.])[A-Z]\.[A-Z]\.(?:[A-Z]\.)?|(?<=\s)(?:Inc|Ltd|Jr|Sr|Co)\.) (?={_STARTER})"
)
# Full stops that end no sentence: "Dr.", "site.com", "3.5", "U.S.A.", "Inc."
_NO_END = re.compile(
    r"(?:Mrs?|Ms|St|Dr|Ph\.D)\.|\.(?=com|net|org|io|gov|edu|me)|(?<=\d)\.(?=\d)"
    r"|[A-Za-z]\.[A-Za-z]\.(?:[A-Za-z]\.)?|(?<=\s)[A-Za-z]\.|(?<=\s)(?:Inc|Ltd|Jr|Sr|Co)\."
)
_ELLIPSIS = re.compile(r"\.{2,}")
_QUOTED_ENDS = (".”", '."', '!"', '?"')
# What is left ends sentences: up to a mark, a stand-in, or the end of the text.
_SENTENCE = re.compile(rf"[^.?!{_BARE_END}]*(?:[.?!]|{_BARE_END}|\Z)")


@lru_cache(maxsize=64)
def split_public_sentences(text: str) -> list[str]:
    """Return the sentences of the public splitter, each on one line. The list is cached: do not change it."""
    flat = f" {text} ".replace("\n", " ").replace(_INNER_STOP, " ").replace(_BARE_END, " ")
    flat = _ELLIPSIS.sub(lambda dots: _INNER_STOP * len(dots[0]) + _BARE_END, flat)
    flat = _ENDING_ABBREVIATION.sub(
        lambda match: match[1].replace(".", _INNER_STOP) + _BARE_END, flat
    )
    flat = _NO_END.sub(lambda match: match[0].replace(".", _INNER_STOP), flat)
    for end in _QUOTED_ENDS:
        flat = flat.replace(end, end[::-1])  # `so."` becomes `so".`
    sentences = [
        part.replace(_INNER_STOP, ".").rstrip(_BARE_END).strip() for part in _SENTENCE.findall(flat)
    ]
    while sentences and not sentences[-1]:
        sentences.pop()  # behind the last mark there is nothing
    return sentences


# ---- sentences and tokens as NLTK splits them -----------------------------------------------------------------------

_CHUNK = re.compile(r"\S+")  # what stands between spaces
_AFTER_END = ")\";}]*:@'({[!?"  # what may follow the end of a sentence without a space
_INNER_END = re.compile(rf".*[.?!](?=[{re.escape(_AFTER_END)}])")  # "done." of "done.)"
_CLOSING = re.compile(r"[\"')\]}]+(?:\s+|(?=--)|\Z)")  # marks that close a sentence after its end
_LIST_LABELS = "abixyz"  # single letters that the splitter takes for the label of an item rather than for an initial
_NUMBER = re.compile(r"-?[.,]?\d[\d,.\-]*\Z")  # "3.50", "-1,000"


def split_newspaper_sentences(text: str, language: str = "en") -> list[str]:
    """Return the sentences of NLTK's splitter; line breaks end none. Language: "fr", otherwise English."""
    chunks = list(_CHUNK.finditer(text))
    # Where each sentence starts and ends in the text
    starts = [0]
    ends: list[int] = []
    for i, chunk in enumerate(chunks):
        following = chunks[i + 1] if i + 1 < len(chunks) else None
        # The last place in the chunk where a sentence could end: "done." or the "done." of "done.)".
        if following and chunk[0][-1] in ".?!":
            end = len(chunk[0])
        else:
            inner = _INNER_END.match(chunk[0])
            if inner is None:
                continue
            end = inner.end()
        after = chunk[0][end:] or (following[0] if following else "")
        if not _ends_sentence(chunk[0][:end], after, language):
            continue
        ends.append(chunk.start() + end)
        if following and end == len(chunk[0]):
            starts.append(following.start())
        else:
            starts.append(ends[-1])
    ends.append(len(text.rstrip()))

    # Closing quotes and brackets at the start of a sentence belong to the one before it.
    sentences: list[str] = []
    moved_to = 0  # where the marks end that the previous sentence has taken
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        start = max(start, moved_to)
        if i + 1 < len(starts):
            closing = _CLOSING.match(text, starts[i + 1], ends[i + 1])
            if closing:
                end = closing.start() + len(closing[0].rstrip())
                moved_to = closing.end()
        sentence = text[start:end].rstrip()
        sentences.append(sentence.lstrip() if i else sentence)
    return [sentence for sentence in sentences if sentence]


def _ends_sentence(head: str, after: str, language: str) -> bool:
    """Does a sentence end between the head of a chunk, which ends with a mark, and what comes after it?"""
    if "?" in head or "!" in head:
        return True
    if head.endswith(".."):
        return _starts_sentence(after, language)
    # What follows the last bracket, quote or colon; an apostrophe belongs to it.
    at = max(head.rfind(mark) for mark in _AFTER_END)
    last_piece = head[at:] if head[at : at + 1] == "'" else head[at + 1 :]
    stem = last_piece.lstrip("`&#-,;:").rstrip(".").lower()
    abbreviations = _read_word_list("newspaper_abbreviations", language)
    if len(stem) == 1 and stem.isalpha():
        if stem in abbreviations:
            return False
        is_label = stem in _LIST_LABELS and not after[0].islower()
        return is_label or _starts_sentence(after, language)
    if stem in abbreviations or stem.rpartition("-")[2] in abbreviations:
        return _starts_sentence(after, language)
    if _NUMBER.match(stem):
        return not after[0].islower() and after[0] not in ";:,.!?"
    return True


def _read_word_list(name: str, language: str) -> frozenset[str]:
    """Return a list of words for French, or else for English."""
    return word_list(f"{name}_fr" if language == "fr" else name)


def _starts_sentence(after: str, language: str) -> bool:
    """Is the next word the first of a sentence? It has a capital, and is in the list of first words ("The")."""
    if not after[0].isupper():
        return False
    return after.rstrip(string.punctuation).lower() in _read_word_list(
        "newspaper_starters", language
    )


# Marks that are separate tokens: "...", "--", brackets, quotes; a comma or colon unless a digit follows (3,50)
_SINGLE = r"\.{2,}|--|[;@#$%&?!()\[\]{}<>*\"“”‘’«»„`\x01]|[:,](?!\d)"
# A mark, or anything up to the next space or mark
_PIECES = re.compile(rf"{_SINGLE}|(?:(?!{_SINGLE})\S)+")
_OPENING_QUOTE = re.compile(r"(?:^|(?<=[\s(\[{<]))\"")
_OPENING_QUOTE_MARK = "\x01"  # stands in for an opening quote, which looks like a closing one
# How the Treebank writes opening and closing quotes
_QUOTES = {_OPENING_QUOTE_MARK: "``", '"': "''"}
# The full stop at the end of a sentence, with closing marks behind it
_FULL_STOP = re.compile(r"(?<!\.)\.(?=[\])}>\"'»”’ ]*\Z)")
# "do" and "n't", "we" and "'ll"
_CONTRACTION = re.compile(r"(?i)(.+?)(n't|'ll|'re|'ve|'[smd]|')\Z")
# An apostrophe that opens a quotation of one letter: 'x'. "'s" and "'n" are contractions.
_OPENING_APOSTROPHE = re.compile(r"(?i)'(?![mtsdn])\w\b")
# Words that the tokenizer cuts in two, and where.
_FUSED = {
    "cannot": 3,
    "gonna": 3,
    "gotta": 3,
    "gimme": 3,
    "lemme": 3,
    "wanna": 3,
    "d'ye": 1,
    "more'n": 4,
    "'tis": 2,
    "'twas": 2,
}


@lru_cache(maxsize=64)
def split_public_tokens(text: str) -> list[str]:
    """Return the tokens of the public tokenizer, including punctuation marks. The list is cached: do not change it."""
    tokens: list[str] = []
    for sentence in split_newspaper_sentences(text):
        stop = _FULL_STOP.search(sentence)
        head = sentence[: stop.start()] if stop else sentence
        if '"' in sentence:
            head = _OPENING_QUOTE.sub(_OPENING_QUOTE_MARK, head)
        for piece in _PIECES.findall(head):
            tokens += _split_contraction(piece)
        if stop:
            tokens += [".", *sentence[stop.end() :].replace(" ", "")]
    return [_QUOTES.get(token, token) for token in tokens]


def _split_contraction(piece: str) -> list[str]:
    """Split a piece without spaces into tokens: `don't` becomes `do`, `n't`; `cannot` becomes `can`, `not`."""
    cut = _FUSED.get(piece.lower())
    if cut:
        return [piece[:cut], piece[cut:]]
    if "'" not in piece:
        return [piece]
    tokens: list[str] = []
    if _OPENING_APOSTROPHE.match(piece):
        tokens.append("'")
        piece = piece[1:]
    parts = _CONTRACTION.match(piece)
    tokens += [parts[1], parts[2]] if parts else [piece]
    return tokens
