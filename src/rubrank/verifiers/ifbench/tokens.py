"""Sentences and tokens as the public IFBench checkers see them, for `compat="upstream"`.

    >>> public_sentences('1. Mix it. Dr. Ray said "so." Then\\nwait... what')
    ['1.', 'Mix it.', 'Dr. Ray said "so".', 'Then wait...', 'what']
    >>> public_tokens("Don't stop (yet).")
    ['Do', "n't", 'stop', '(', 'yet', ')', '.']

The public checkers split sentences by rules: at every `.`, `?` and `!` that does not belong to a title, a number, an
address or an abbreviation of single letters, whatever follows. Their tokens come from the Penn Treebank tokenizer of
NLTK, which first splits sentences in another way, learned from newspapers. Both are rebuilt here from their behaviour.
Not covered: what the second splitter learned about single words, which decides some abbreviations before a capital.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache, partial

from rubrank.texts.lexicon import word_list
from rubrank.verifiers.ifeval.common import instruction

ifbench = partial(instruction, family="ifbench")
"""`@ifbench(name)` registers the verifier of an IFBench instruction."""

ASCII_PUNCTUATION = string.punctuation
_NO_PUNCTUATION = str.maketrans("", "", ASCII_PUNCTUATION)
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")


def without_punctuation(text: str) -> str:
    """Return the text without ASCII punctuation; what stood on both sides of a mark is joined."""
    return text.translate(_NO_PUNCTUATION)


def trim(word: str) -> str:
    """Return the word without ASCII punctuation and spaces at its ends."""
    return word.strip(ASCII_PUNCTUATION + " ")


def count_within(keyword: str, text: str) -> int:
    """Count the keyword, also inside words, ignoring case."""
    keyword = keyword.strip().lower()
    if not keyword:
        return 0
    return text.lower().count(keyword)


def count_whole(keyword: str, text: str) -> int:
    """Count the keyword as a word (or words) of its own, ignoring case."""
    keyword = keyword.strip().lower()
    text = text.lower()
    if not keyword:
        return 0
    count = 0
    at = text.find(keyword)
    while at >= 0:
        end = at + len(keyword)
        if _in_one_word(text[at - 1 : at], keyword[0]) or _in_one_word(
            text[end : end + 1], keyword[-1]
        ):
            at = text.find(keyword, at + 1)
        else:
            count += 1
            at = text.find(keyword, end)
    return count


def _in_one_word(neighbour: str, edge: str) -> bool:
    """Tell whether a character and the edge of a keyword form one word. In scripts without spaces they never do."""
    if _UNSPACED.match(edge):
        return False
    return _is_word_character(neighbour) and _is_word_character(edge)


def _is_word_character(char: str) -> bool:
    return char.isalnum() or char == "_"


# ---- sentences ------------------------------------------------------------------------------------------------------

# Stand-ins during splitting: a full stop that ends nothing; an end of a sentence without a mark.
_INNER_STOP = "\x01"
_BARE_END = "\x02"
_STARTER = r"(?:Mrs?|Ms|Dr|Prof|Capt|Cpt|Lt|(?:He|She|It|They|Their|Our|We|But|However|That|This)\s|Wherever)"
_ENDING_ABBREVIATION = re.compile(
    rf"((?<![A-Za-z.])[A-Z]\.[A-Z]\.(?:[A-Z]\.)?|(?<=\s)(?:Inc|Ltd|Jr|Sr|Co)\.) (?={_STARTER})"
)
_NO_END = re.compile(
    r"(?:Mrs?|Ms|St|Dr|Ph\.D)\.|\.(?=com|net|org|io|gov|edu|me)|(?<=\d)\.(?=\d)"
    r"|[A-Za-z]\.[A-Za-z]\.(?:[A-Za-z]\.)?|(?<=\s)[A-Za-z]\.|(?<=\s)(?:Inc|Ltd|Jr|Sr|Co)\."
)
_ELLIPSIS = re.compile(r"\.{2,}")
_QUOTED_ENDS = (".”", '."', '!"', '?"')
_SENTENCE = re.compile(rf"[^.?!{_BARE_END}]*(?:[.?!]|{_BARE_END}|\Z)")


@lru_cache(maxsize=64)
def public_sentences(text: str) -> list[str]:
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
        sentences.pop()
    return sentences


# ---- tokens ---------------------------------------------------------------------------------------------------------

_CHUNK = re.compile(r"\S+")
_AFTER_END = ")\";}]*:@'({[!?"  # what may follow the end of a sentence without a space
_INNER_END = re.compile(rf".*[.?!](?=[{re.escape(_AFTER_END)}])")
_CLOSING = re.compile(r"[\"')\]}]+(?:\s+|(?=--)|\Z)")
_LIST_LABELS = "abixyz"  # single letters that the splitter takes for the label of an item rather than for an initial
_NUMBER = re.compile(r"-?[.,]?\d[\d,.\-]*\Z")


def _newspaper_sentences(text: str) -> list[str]:
    """Return the sentences that the tokenizer starts from."""
    chunks = list(_CHUNK.finditer(text))
    starts = [0]
    ends: list[int] = []
    for i, chunk in enumerate(chunks):
        following = chunks[i + 1] if i + 1 < len(chunks) else None
        end = _possible_end(chunk[0], following is not None)
        if not end or not _breaks(chunk[0], end, following[0] if following else ""):
            continue
        ends.append(chunk.start() + end)
        if following and end == len(chunk[0]):
            starts.append(following.start())
        else:
            starts.append(ends[-1])
    ends.append(len(text.rstrip()))
    return _move_closing_quotes(text, starts, ends)


def _possible_end(chunk: str, has_following: bool) -> int:
    """Return the last place in a chunk between spaces where a sentence could end; 0 if there is none."""
    if has_following and chunk[-1] in ".?!":
        return len(chunk)
    if "." not in chunk and "?" not in chunk and "!" not in chunk:
        return 0
    inner = _INNER_END.match(chunk)
    return inner.end() if inner else 0


def _breaks(chunk: str, end: int, following: str) -> bool:
    """Tell whether a sentence ends there."""
    head = chunk[:end]
    if "?" in head or "!" in head:
        return True
    after = chunk[end:] or following
    if head.endswith(".."):
        return _starts_sentence(after)
    stem = _last_piece(head).lstrip("`&#-,;:").rstrip(".").lower()
    abbreviations = word_list("newspaper_abbreviations")
    if len(stem) == 1 and stem.isalpha():
        if stem in abbreviations:
            return False
        is_label = stem in _LIST_LABELS and not after[0].islower()
        return is_label or _starts_sentence(after)
    if stem in abbreviations or stem.rpartition("-")[2] in abbreviations:
        return _starts_sentence(after)
    if _NUMBER.match(stem):
        return not after[0].islower() and after[0] not in ";:,.!?"
    return True


def _last_piece(head: str) -> str:
    """Return what follows the last bracket, quote or colon; an apostrophe belongs to the piece."""
    at = max(head.rfind(mark) for mark in _AFTER_END)
    if at < 0:
        return head
    return head[at:] if head[at] == "'" else head[at + 1 :]


def _starts_sentence(after: str) -> bool:
    """Tell whether the next word, by its capital and its kind, is the first of a sentence."""
    if not after[0].isupper():
        return False
    return after.rstrip(ASCII_PUNCTUATION).lower() in word_list("newspaper_starters")


def _move_closing_quotes(text: str, starts: list[int], ends: list[int]) -> list[str]:
    """Return the sentences, with closing quotes and brackets given back to the sentence that they close."""
    sentences: list[str] = []
    moved_to = 0
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


_SINGLE = r"\.{2,}|--|[;@#$%&?!()\[\]{}<>*\"“”‘’«»„`\x01]|[:,](?!\d)"
_PIECES = re.compile(rf"{_SINGLE}|(?:(?!{_SINGLE})\S)+")
_OPENING_QUOTE = re.compile(r"(?:^|(?<=[\s(\[{<]))\"")
_OPENING_QUOTE_MARK = "\x01"  # any rare character: the two kinds of quote differ from here on
_QUOTES = {_OPENING_QUOTE_MARK: "``", '"': "''"}
_FULL_STOP = re.compile(r"(?<!\.)\.(?=[\])}>\"'»”’ ]*\Z)")
_CONTRACTION = re.compile(r"(?i)(.+?)(n't|'ll|'re|'ve|'[smd]|')\Z")
_OPENING = re.compile(r"(?i)'(?![mtsdn])\w\b")
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
def public_tokens(text: str) -> list[str]:
    """Return the tokens of the public tokenizer, including punctuation marks. The list is cached: do not change it."""
    tokens: list[str] = []
    for sentence in _newspaper_sentences(text):
        tokens += _tokenize(sentence)
    return tokens


def _tokenize(sentence: str) -> list[str]:
    stop = _FULL_STOP.search(sentence)
    head = sentence[: stop.start()] if stop else sentence
    if '"' in sentence:
        head = _OPENING_QUOTE.sub(_OPENING_QUOTE_MARK, head)
    tokens: list[str] = []
    for piece in _PIECES.findall(head):
        tokens += _split_contraction(piece)
    if stop:
        tokens += [".", *sentence[stop.end() :].replace(" ", "")]
    return [_QUOTES.get(token, token) for token in tokens]


def _split_contraction(piece: str) -> list[str]:
    """`don't` becomes `do`, `n't`; `'quoted'` becomes `'`, `quoted`, `'`."""
    cut = _FUSED.get(piece.lower())
    if cut:
        return [piece[:cut], piece[cut:]]
    if "'" not in piece:
        return [piece]
    tokens: list[str] = []
    if _OPENING.match(piece):
        tokens.append("'")
        piece = piece[1:]
    parts = _CONTRACTION.match(piece)
    tokens += [parts[1], parts[2]] if parts else [piece]
    return tokens
