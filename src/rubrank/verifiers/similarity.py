"""How close an answer is to a reference: shared tokens, ROUGE, BLEU, chrF, edit distance, embeddings.

    >>> tokenize("The Cat's tail, 西湖")
    ['the', 'cat', 's', 'tail', '西', '湖']

Tokens are words without case and punctuation; Chinese, Japanese and Thai characters count one by one, so that identical
texts score 1 in every script. Long texts are cut at `LONGEST` tokens: the cost of ROUGE-L is their product. All
verifiers read the answer as a reader sees it: hidden text, such as an HTML comment, earns nothing.

References come from the parameter `references` or from the data of the rollout; the best of several counts. ContainsAny
has most of the code, because naming a reference is not enough: it must be stated, not denied, asked or listed among
everything else.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import is_item, split_code
from rubrank.texts.text import split_sentences
from rubrank.verifiers.shared.answers import is_denied, read_answer
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.negation import find_denials, mask_expressions
from rubrank.verifiers.shared.word_tables import read_words
from rubrank.verifiers.truth import find_truths
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

LONGEST = 2_000  # tokens of a text that are compared
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
# A comment of code: "/* … */", "// …", "# …", "-- …".
_COMMENT = re.compile(r"(?s:/\*.{0,2000}?\*/)|(?m:(?:^|(?<=\s))(?://|#|--\s)[^\n]*)")
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|[\w.+-]{1,64}@[\w-]{1,63}\.\w\S*")
_STRUCK = re.compile(r"~~[^~\n]{1,500}~~")
# What stands between the entries of a list within a sentence: ",", "/", " - ", " 2.", "and".
_ENTRY_SEPARATOR = re.compile(
    r"[,，、;；/|#•·]|\s[-–—]\s|\)\s*\(|(?:^|\s)\d{1,3}[.)]|\b(?:and|or)\b|和"
)
_MANY_ENTRIES = 5  # so many entries in a list were put there to name everything
_SHORT_ENTRY = 4  # tokens; entries with more of them say something
_FEWEST_IN_BAG = 8  # tokens in a row without a small word ("the", "is") are a list without commas
_SMALL_WORDS = frozenset(word for words in read_words("small_words").values() for word in words)
_LANGUAGES_WITH_SMALL_WORDS = frozenset(read_words("small_words"))
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# What follows "Paris is not …" if Paris itself is denied; "Paris is not infrequently …" is something else.
_PREDICATE = re.compile(
    r"(?:the(?! least| slightest)|la|le|el|il|lo|o|der|die|das|de|het|right|true|richtig"
    r"|correct[oae]?|corrett[oa])\b|\Z",
    re.IGNORECASE,
)

References = str | tuple[str, ...]
_NO_REFERENCE = "no reference: give `references`, or one in the data"


def tokenize(text: str) -> list[str]:
    """Split a text into words, and into single characters in scripts without spaces; case and width are folded."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def list_grams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Return all runs of n tokens, in order."""
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _find_references(references: References | None, rollout: Rollout) -> tuple[str, ...]:
    """Return the references given as a parameter, or those in the data."""
    if references is None:
        references = rollout.metadata.get("reference", rollout.metadata.get("references"))
    if isinstance(references, str):
        return (references,)
    if isinstance(references, (list, tuple)):
        return tuple(map(str, references))
    return find_truths(None, rollout.metadata).values


def _measure_f1(overlap: int, size: int, reference_size: int) -> float:
    """Return the harmonic mean of precision and recall."""
    return 2.0 * overlap / (size + reference_size) if size + reference_size else 1.0


def _count_overlap(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Count the items that two bags have in common."""
    return (Counter(left) & Counter(right)).total()


@verifier("TokenF1", family="similarity", domain=UNIT)
def token_f1(
    rollout: Rollout, *, references: References | None = None, whole: bool = False
) -> Answer:
    """F1 of the tokens that the answer shares with a reference; the best of several references.

    The answer's result is read first ("The answer is …", \\boxed …); `whole` takes the entire answer.
    Passes (1): "Paris" for "paris."; 西湖 for 西湖.
    Part: "in Paris, France" for "Paris".
    Fails (0): no token in common.
    Missing: no reference in `references` or the data.
    Not covered: synonyms.
    """
    tokens = tokenize(_read_result(rollout, whole))

    def measure(text: str) -> float:
        reference = tokenize(text)
        overlap = _count_overlap(tokens, reference)
        return _measure_f1(overlap, len(tokens), len(reference)) if tokens else 0.0

    return _score_nearest("F1", rollout, references, measure)


def _score_nearest(
    name: str,
    rollout: Rollout,
    references: References | None,
    measure: Callable[[str], float],
) -> Answer:
    """Return the largest measure over the references; missing if there are none."""
    texts = _find_references(references, rollout)
    if not texts:
        return missing(_NO_REFERENCE)
    best = max(map(measure, texts))
    return best, f"{name} {best:.2f} with the nearest of {len(texts)} reference(s)"


def _read_result(rollout: Rollout, whole: bool) -> str:
    """Return the result that the answer gives ("The answer is …", \\boxed …); the whole answer if it marks none."""
    answer = rollout.text.shown.raw
    if whole:
        return answer
    return read_answer(answer).text or answer


@verifier("ContainsAny", family="similarity", version=6)
def contains_any(
    rollout: Rollout, *, references: References | None = None, need: Literal["any", "all"] = "any"
) -> Answer:
    """The answer contains one of the references (or all of them), as whole tokens and in order.

    Passes: "I think it was Paris." for ["Paris", "Lutetia"]; 西湖 in 杭州西湖.
    Fails: "Parisian" for "Paris"; one of two with `need="all"`; a reference that is only denied or doubted ("not
        Paris", "Paris is wrong", "I doubt that it is Paris"), only in a question, a comment, an address, hidden or
        struck text, or only in a list of five and more that were not asked for (every capital of Europe, with commas or
        without).
    Missing: no reference; a word of denial in the same clause of which it is not clear what it denies ("El puente no
        acabó en París").
    Not covered: another wrong statement about the reference (GroundTruthMatch).
    """
    texts = [text for text in _find_references(references, rollout) if tokenize(text)]
    if not texts:
        return missing(_NO_REFERENCE)
    # A list of everything is not an answer. But if several references are right, twice as many entries may be listed.
    most_entries = max(_MANY_ENTRIES - 1, 2 * len(texts)) if need == "any" else LONGEST
    statements = _select_statements(rollout, most_entries)
    contained = []
    unclear = []
    for text in texts:
        is_stated = _is_stated(text, statements)
        if is_stated:
            contained.append(text)
        elif is_stated is None:
            unclear.append(text)
    needed = len(texts) if need == "all" else 1
    passed = len(contained) >= needed
    if not passed and len(contained) + len(unclear) >= needed:
        return missing(f"a word of denial stands beside {unclear[0][:60]!r}: is it denied or not?")
    reason = f"{len(contained)} of {len(texts)} found"
    if contained:
        reason += f": {contained[0][:60]!r}"
    return passed, reason


def _select_statements(rollout: Rollout, most_entries: int) -> list[str]:
    """Return the sentences that state something: no comments, addresses, questions, or lists of many entries.

    most_entries: the longest list that still counts.
    """
    lines, blocks, _ = split_code(_STRUCK.sub(" ", rollout.text.shown.raw))
    # One token more than in other entries: the number or letter of the item.
    entries = [line for line in lines if is_item(line) and len(tokenize(line)) <= _SHORT_ENTRY + 1]
    if len(entries) > most_entries:
        lines = [line for line in lines if line not in entries]
    sentences = _drop_runs_of_short_sentences(lines, most_entries)
    for _, code in blocks:
        sentences += _COMMENT.sub(" ", code).splitlines()
    statements = []
    for sentence in sentences:
        statement = _ADDRESS.sub(" ", sentence)
        is_question = statement.rstrip("*_\"'”’)） ").endswith(("?", "？"))
        if is_question or _is_list(statement, most_entries):
            continue
        statements.append(statement)
    return statements


def _drop_runs_of_short_sentences(lines: Sequence[str], most_entries: int) -> list[str]:
    """Return the sentences, without runs of more than `most_entries` short ones: "Paris. London. Berlin. …"."""

    def is_short(sentence: str) -> bool:
        return 0 < len(tokenize(sentence)) <= _SHORT_ENTRY

    # A sentence may go over several lines. But if many lines are short, each is an entry.
    texts = ["\n".join(lines)]
    if sum(map(is_short, lines)) > most_entries:
        texts = list(lines)
    sentences: list[str] = []
    for text in texts:
        sentences += filter(tokenize, split_sentences(text))
    remaining: list[str] = []
    for run_is_short, run in groupby(sentences, key=is_short):
        run_sentences = list(run)
        if not run_is_short or len(run_sentences) <= most_entries:
            remaining += run_sentences
    return remaining


def _is_list(statement: str, most_entries: int) -> bool:
    """Are there too many short parts between commas, or many words and not one that connects them?"""
    short_entries = sum(
        0 < len(tokenize(part)) <= _SHORT_ENTRY for part in _ENTRY_SEPARATOR.split(statement)
    )
    if short_entries > most_entries:
        return True
    tokens = tokenize(statement)
    is_short = len(tokens) < max(_FEWEST_IN_BAG, 2 * most_entries)
    has_small_words = not _SMALL_WORDS.isdisjoint(tokens)
    if is_short or has_small_words or _HAS_UNSPACED.search(statement):
        return False
    # The small words of Polish, Russian, Hindi … are not in the table. There only many capitals show names in a row.
    language, confidence = detect_language(statement)
    if language in _LANGUAGES_WITH_SMALL_WORDS or confidence < 0.5:
        return True
    words = statement.split()
    capitalised = sum(word[0].isupper() for word in words)
    return 2 * capitalised > len(words)


def _is_stated(reference: str, statements: Sequence[str]) -> bool | None:
    """Does a statement hold the reference, and not only to deny it ("Paris is wrong")?

    Returns None if a reference stands in a clause with a word of denial of which it is not clear what it denies.
    """
    tokens = _join_tokens(reference)
    is_unclear = False
    for statement in statements:
        if tokens not in _join_tokens(statement):
            continue
        without_denials = statement  # without the clauses that have a word of denial
        for denial in find_denials(statement):
            without_denials = without_denials.replace(denial.part, " ")
            # It is clear what is denied if that is a verb ("did not open"), if it certainly is or is not the reference,
            # or if the reference is the subject of the denial ("Paris is not the capital").
            denies_subject = _PREDICATE.match(denial.denied) and not _is_held(
                reference, denial.part
            )
            is_clear = denial.denies_verb or denial.denies(reference) is not None or denies_subject
            if not is_clear and tokens in _join_tokens(denial.part):
                is_unclear = True
        if _is_held(reference, without_denials):
            return True
    return None if is_unclear else False


def _is_held(reference: str, statement: str) -> bool:
    """Does the statement hold the reference, and not call it wrong?"""
    if _join_tokens(reference) not in _join_tokens(statement):
        return False
    masked = mask_expressions(statement)
    matches = list(re.finditer(re.escape(reference), statement, re.IGNORECASE))
    # Without a match the reference is spelled in another way ("New\nYork"): its place is not known.
    return not matches or not all(is_denied(masked, *match.span()) for match in matches)


def _join_tokens(text: str) -> str:
    """Return the tokens with a mark around each, so that a search finds whole tokens in order."""
    return "\x00".join(["", *tokenize(text), ""])


def longest_common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    Bit i of `row` is 0 where the usual table of lengths grows at token i of `left`. One addition moves a whole row of
    that table to the next token of `right` (Hyyrö, 2004).
    """
    places: dict[str, int] = {}
    for i, token in enumerate(left):
        places[token] = places.get(token, 0) | (1 << i)
    all_bits = (1 << len(left)) - 1
    row = all_bits
    for token in right:
        hits = row & places.get(token, 0)
        row = ((row + hits) | (row - hits)) & all_bits
    return len(left) - row.bit_count()


@verifier("Rouge", family="similarity", domain=UNIT)
def rouge(
    rollout: Rollout,
    *,
    references: References | None = None,
    kind: Literal["1", "2", "L"] = "L",
    measure: Literal["f1", "recall", "precision"] = "f1",
) -> Answer:
    """ROUGE-1, -2 or -L against a reference, the best of several; no stemming, characters in unspaced scripts.

    Passes (1): the reference itself, in any script.
    Part: half of its words in order.
    Fails (0): nothing in common.
    Missing: no reference.
    Not covered: texts beyond 2,000 tokens are cut there.
    """
    tokens = tokenize(rollout.text.shown.raw)[:LONGEST]

    def measure_rouge(text: str) -> float:
        reference = tokenize(text)[:LONGEST]
        if not tokens:
            return 0.0
        if kind == "L":
            common = longest_common(tokens, reference)
            size = len(tokens)
            reference_size = len(reference)
        else:
            grams = list_grams(tokens, int(kind))
            reference_grams = list_grams(reference, int(kind))
            common = _count_overlap(grams, reference_grams)
            size = len(grams)
            reference_size = len(reference_grams)
        if measure == "f1":
            return _measure_f1(common, size, reference_size)
        total = reference_size if measure == "recall" else size
        return common / total if total else 0.0

    return _score_nearest(f"ROUGE-{kind} {measure}", rollout, references, measure_rouge)


@verifier("ChrF", family="similarity", domain=UNIT)
def chrf(
    rollout: Rollout,
    *,
    references: References | None = None,
    beta: Annotated[float, Field(gt=0, le=10)] = 2.0,
) -> Answer:
    """chrF: F-score of character n-grams (1 to 6, without spaces) against a reference, the best of several.

    Passes (1): the reference itself, spaces and line breaks aside.
    Part: another ending of the same words.
    Fails (0): nothing in common. `beta` weighs recall.
    Missing: no reference.
    Not covered: word order beyond six characters.
    """
    characters = _drop_spaces(rollout.text.shown.raw)

    def measure_chrf(text: str) -> float:
        reference = _drop_spaces(text)
        precisions = []
        recalls = []
        for n in range(1, 7):
            grams = list_grams(characters, n)
            reference_grams = list_grams(reference, n)
            if grams and reference_grams:
                common = _count_overlap(grams, reference_grams)
                precisions.append(common / len(grams))
                recalls.append(common / len(reference_grams))
        if not precisions:
            return float(characters == reference)
        precision = sum(precisions) / len(precisions)
        recall = sum(recalls) / len(recalls)
        if precision + recall == 0:
            return 0.0
        return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)

    return _score_nearest("chrF", rollout, references, measure_chrf)


def _drop_spaces(text: str) -> str:
    """Return the characters without white space, as many as `LONGEST` words have at five characters each."""
    return "".join(unicodedata.normalize("NFKC", text).split())[: 5 * LONGEST]


@lru_cache(maxsize=2)
def _load_model(path: str) -> Any:
    from model2vec import StaticModel

    return StaticModel.from_pretrained(path)


@verifier(
    "EmbeddingSimilarity",
    family="similarity",
    domain=UNIT,
    needs=lambda _: ("model2vec", "embeddings"),
)
def embedding_similarity(
    rollout: Rollout, *, model: str, references: References | None = None
) -> Answer:
    """Cosine of static embeddings (model2vec; `model` is a folder or a name on the hub) with the nearest reference.

    Passes (1): the reference itself.
    Part: a text on the same subject.
    Fails (0): an empty answer, or unlike anything. Negative cosines count as 0.
    Missing: no reference; model2vec not installed; a model that cannot be loaded.
    Not covered: a denial is close to what it denies.
    """
    texts = _find_references(references, rollout)
    if not texts:
        return missing(_NO_REFERENCE)
    answer = rollout.text.shown.raw
    if not answer.strip():
        return 0.0, "an empty answer"
    if answer in texts:
        return 1.0, "the reference itself"
    try:
        vectors = _load_model(model).encode([answer, *texts])
    except ImportError:
        return missing("model2vec is not installed: pip install 'rubrank[embeddings]'")
    except (
        Exception
    ) as error:  # a file that is missing or is not a model raises many kinds of errors
        return missing(f"the model {model!r} cannot be loaded: {type(error).__name__}")
    norms = (vectors**2).sum(1) ** 0.5
    cosines = vectors[1:] @ vectors[0] / (norms[1:] * norms[0] + 1e-12)
    best = float(min(1.0, max(0.0, cosines.max())))
    return best, f"cosine {best:.2f}"


@verifier("EditDistance", family="similarity", domain=UNIT, version=2)
def edit_distance(
    rollout: Rollout,
    *,
    references: References | None = None,
    unit: Literal["characters", "words"] = "characters",
    whole: bool = False,
) -> Answer:
    """1 − Levenshtein distance ÷ length of the longer text, to the nearest reference; case and width aside.

    The answer's result is read first; `whole` takes the entire answer.
    Passes (1): the reference itself.
    Part: "kitten" for "sitting" is 1 − 3/7.
    Fails (0): nothing in place; an empty answer.
    Missing: no reference.
    Not covered: moved passages count as removed and added; texts beyond 2,000 units are cut there.
    """
    units = _split_units(_read_result(rollout, whole), unit)

    def measure(text: str) -> float:
        reference = _split_units(text, unit)
        longest = max(len(units), len(reference))
        return 1.0 - levenshtein(units, reference) / longest if longest else 0.0

    return _score_nearest("similarity", rollout, references, measure)


def _split_units(text: str, unit: str) -> list[str]:
    """Return the first `LONGEST` words, or characters with single spaces between words, without case and width."""
    if unit == "words":
        return tokenize(text)[:LONGEST]
    return list(" ".join(unicodedata.normalize("NFKC", text).casefold().split()))[:LONGEST]


def levenshtein(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the fewest insertions, deletions and replacements that lead from one to the other.

    This is the bit-parallel algorithm of Myers (1999), which keeps a whole column of the usual table of distances in
    two integers: bits i of `up` and `down` say whether the distance grows or falls by 1 at item i of `left`. Each item
    of `right` leads to the next column. Names in the paper: up is Pv, down Mv, diagonal Xh, gain Ph, loss Mh.
    """
    if not left:
        return len(right)
    places: dict[str, int] = {}
    for i, item in enumerate(left):
        places[item] = places.get(item, 0) | (1 << i)
    all_bits = (1 << len(left)) - 1
    last_bit = 1 << (len(left) - 1)
    up = all_bits
    down = 0
    distance = len(left)
    for item in right:
        equal = places.get(item, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        gain = down | ~(diagonal | up)
        loss = up & diagonal
        distance += bool(gain & last_bit) - bool(loss & last_bit)
        gain = (gain << 1) | 1
        loss <<= 1
        up = (loss | ~(diagonal | gain)) & all_bits
        down = gain & diagonal & all_bits
    return distance


@verifier("Bleu", family="similarity", domain=UNIT, version=2)
def bleu(
    rollout: Rollout,
    *,
    references: References | None = None,
    order: Annotated[int, Field(ge=1, le=8)] = 4,
) -> Answer:
    """Sentence BLEU against the references: n-grams up to `order`, the brevity penalty, add-one smoothing from 2 on.

    Passes (1): a reference itself.
    Part: half of its words in order.
    Fails (0): no word in common; an empty answer.
    Missing: no reference.
    The smoothing is Lin and Och's (NLTK's method 2): from bigrams on, 1 is added to the number of common n-grams
    and to that of all, so that short answers keep some points: "the the the the" has 0.23 for "the cat is on the mat".
    Not covered: corpus BLEU; tokens are those of TokenF1 (characters in unspaced scripts), so figures differ from
        sacrebleu's.
    """
    texts = _find_references(references, rollout)
    if not texts:
        return missing(_NO_REFERENCE)
    tokens = tokenize(rollout.text.shown.raw)[:LONGEST]
    reference_tokens = [tokenize(text)[:LONGEST] for text in texts]
    if not tokens:
        return 0.0, "an empty answer"
    log_precisions = []
    for n in range(1, min(order, len(tokens)) + 1):
        grams = Counter(list_grams(tokens, n))
        # An n-gram counts at most as often as in the reference that has it most often.
        most_often: Counter[tuple[str, ...]] = Counter()
        for reference in reference_tokens:
            most_often |= Counter(list_grams(reference, n))
        common = (grams & most_often).total()
        smoothing = 1 if n > 1 else 0
        if common + smoothing == 0:
            return 0.0, "no word in common with a reference"
        log_precisions.append(math.log((common + smoothing) / (grams.total() + smoothing)))
    sizes = [len(reference) for reference in reference_tokens]
    nearest_size = min(sizes, key=lambda size: (abs(size - len(tokens)), size))
    brevity_penalty = min(1.0, math.exp(1 - nearest_size / len(tokens)))
    score = brevity_penalty * math.exp(sum(log_precisions) / len(log_precisions))
    return score, f"BLEU-{order} {score:.2f}"
