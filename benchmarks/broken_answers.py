"""How many broken answers the gates catch: answers cut, looped, leaked, swapped, emptied or garbled, from good ones.

    python benchmarks/broken_answers.py                    # the half for development: caught by kind
    python benchmarks/broken_answers.py --half hold-out    # the other half: other prompts, and never read
    python benchmarks/broken_answers.py --fresh            # texts written by hand (broken_answers.yaml)
    python benchmarks/broken_answers.py --set second       # later texts by hand (broken_answers_sets.yaml)
    python benchmarks/broken_answers.py --misses           # and what was not caught

Broken answers are made from ../shared/data by a seeded generator. The halves are told apart by a hash of the prompt.
"Caught" means that at least one hard gate gives 0; a gate that abstains does not catch.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from gates import GATES, READERS, GoodAnswer, bind_verifier

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import is_heading, is_item, split_code
from rubrank.texts.text import split_sentences
from rubrank.verifiers.shared.language import detect_language

FRESH = Path(__file__).with_name("broken_answers.yaml")
SETS = Path(__file__).with_name("broken_answers_sets.yaml")
SOURCES = ("good_answers", "m_ifeval", "arena_hard_v2")
EACH = 100  # broken answers of each kind


class Broken(NamedTuple):
    """A broken answer, and what was done to it."""

    kind: str
    prompt: str
    response: str


def find_half(prompt: str) -> str:
    """The half that a prompt belongs to."""
    return ("development", "hold-out")[hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest()[0] % 2]


def read_half(half: str) -> list[GoodAnswer]:
    """The good answers of a half."""
    answers = [answer for source in SOURCES for answer in READERS[source]()]
    return [answer for answer in answers if find_half(answer.rollout.question) == half]


# ---- cut ------------------------------------------------------------------------------------------------------------

_SENTENCE_END = re.compile(r"[.!?。！？:：;；,，)）\]}\"'”*`|>\s]")


def cut_text(text: str, rng: random.Random) -> str | None:
    """Prose cut within a sentence."""
    if "```" in text or len(text) < 200:
        return None
    for _ in range(20):
        at = rng.randrange(len(text) // 5, len(text) - 10)
        line = text[text.rfind("\n", 0, at) + 1 : at]
        # Nobody can tell that a whole sentence was cut, so that at least one letter must be missing from it.
        goes_on = not _SENTENCE_END.match(text[at - 1]) and text[at] not in "\n.!?。！？"
        if goes_on and len(line) > 30 and not is_heading(line):
            return text[:at]
    return None


def cut_list(text: str, rng: random.Random) -> str | None:
    """A list cut within an entry, or behind the sign of one."""
    lines = text.splitlines()
    items = [i for i, line in enumerate(lines) if is_item(line) and len(line) > 30]
    if "```" in text or len(items) < 4:
        return None
    last = rng.choice(items[2:])
    at = rng.randrange(8, len(lines[last]) - 5)
    entry = lines[last][:at].rstrip(" .。,，")
    if lines[last][len(entry)] in ".!?。！？":
        return None  # a whole sentence is left
    return "\n".join([*lines[:last], entry])


def cut_table(text: str, rng: random.Random) -> str | None:
    """A table cut within a row."""
    lines = text.splitlines()
    rows = [i for i, line in enumerate(lines) if line.startswith("|") and line.count("|") > 3]
    if len(rows) < 5:
        return None
    last = rng.choice(rows[3:])
    cells = lines[last].split("|")
    return "\n".join([*lines[:last], "|".join(cells[: rng.randrange(2, len(cells) - 1)]) + rng.choice(("", "|"))])


def cut_after_colon(text: str, rng: random.Random) -> str | None:
    """An answer that ends with the colon before a list, code or an example."""
    lines = text.splitlines()
    ends = [i for i, line in enumerate(lines[:-1]) if line.rstrip("* ").endswith((":", "：")) and len(line) > 25]
    ends = [i for i in ends if not is_heading(lines[i]) and sum(map(len, lines[:i])) > 40]
    if not ends:
        return None
    return "\n".join(lines[: rng.choice(ends) + 1])


def take_block(text: str, tags: tuple[str, ...]) -> str | None:
    """The longest fenced block in one of these languages."""
    blocks = [code for tag, code in split_code(text)[1] if tag.lower() in tags and len(code) > 150]
    return max(blocks, key=len, default=None)


def cut_in_line(code: str, rng: random.Random) -> str | None:
    """Code cut within a line."""
    for _ in range(20):
        at = rng.randrange(len(code) // 4, len(code) - 5)
        if code[at] != "\n" and not code[at - 1].isspace() and code[at - 1] not in ";})>":
            return code[:at]
    return None


def cut_fence(text: str, rng: random.Random) -> str | None:
    """Text with a code fence, cut within the code."""
    start = text.find("```")
    end = text.find("```", start + 3)
    if start < 0 or end - start < 60:
        return None
    return text[: rng.randrange(start + 30, end - 5)]


def cut_code(*tags: str) -> Callable[[str, random.Random], str | None]:
    """Code without a fence, cut."""

    def cut(text: str, rng: random.Random) -> str | None:
        code = take_block(text, tags)
        return cut_in_line(code, rng) if code else None

    return cut


def cut_latex(text: str, rng: random.Random) -> str | None:
    """An answer cut within a formula."""
    formulas = list(re.finditer(r"\\\[.+?\\\]|\\\(.+?\\\)|\$\$.+?\$\$|\\begin\{(\w+)\}.+?\\end\{\1\}", text, re.DOTALL))
    formulas = [formula for formula in formulas if len(formula[0]) > 15]
    if not formulas or text.startswith("```"):
        return None
    formula = rng.choice(formulas)
    return text[: rng.randrange(formula.start() + 4, formula.end() - 3)]


# ---- looped ---------------------------------------------------------------------------------------------------------


def pick_sentences(text: str, count: int, rng: random.Random) -> list[str] | None:
    """Neighbouring sentences of prose."""
    lines = [line for line in text.splitlines() if len(line) > 60 and not re.match(r"[#|`\d*-]", line)]
    sentences = [sentence for line in lines for sentence in split_sentences(line) if 12 < len(sentence) < 250]
    if "```" in text or len(set(sentences)) < count + 2:
        return None
    start = rng.randrange(len(sentences) - count)
    picked = sentences[start : start + count]
    return picked if len(set(picked)) == count else None


def join_sentences(sentences: list[str]) -> str:
    """Sentences as a paragraph: Chinese ones without spaces."""
    return ("" if re.search("[\u4e00-\u9fff]", sentences[0]) else " ").join(sentences)


def loop_sentence(text: str, rng: random.Random) -> str | None:
    """One sentence again and again."""
    picked = pick_sentences(text, 1, rng)
    if not picked:
        return None
    return text[: len(text) // 2] + "\n" + join_sentences(picked * rng.randrange(8, 40))


def loop_alternating(text: str, rng: random.Random) -> str | None:
    """Two sentences in turn."""
    picked = pick_sentences(text, 2, rng)
    if not picked:
        return None
    return join_sentences(picked * rng.randrange(6, 25))


def loop_shuffled(text: str, rng: random.Random) -> str | None:
    """Two or three sentences in any order."""
    picked = pick_sentences(text, rng.choice((2, 3)), rng)
    if not picked:
        return None
    return join_sentences(rng.choices(picked, k=rng.randrange(15, 40)))


def loop_one_opening(text: str, rng: random.Random) -> str | None:
    """Three sentences with one opening, in turn or in any order."""
    picked = pick_sentences(text, 3, rng)
    if not picked:
        return None
    is_chinese = re.search("[\u4e00-\u9fff]", picked[0]) is not None
    opening = picked[0][:6] if is_chinese else " ".join(picked[0].split()[:4]) + " "
    alike = [opening + sentence[6:] if is_chinese else opening + " ".join(sentence.split()[3:]) for sentence in picked]
    times = rng.randrange(15, 40)
    return join_sentences((alike * times)[:times] if rng.random() < 0.5 else rng.choices(alike, k=times))


def loop_paragraph(text: str, rng: random.Random) -> str | None:
    """The last paragraphs again and again."""
    paragraphs = [part for part in text.split("\n\n") if len(part) > 150 and not part.startswith(("|", "`"))]
    if not paragraphs or "```" in text:
        return None
    return text + "\n\n" + "\n\n".join([rng.choice(paragraphs)] * rng.randrange(4, 9))


def loop_words(text: str, rng: random.Random) -> str | None:
    """A few words without end."""
    words = text.split()
    if len(words) < 60:
        return None
    start = rng.randrange(20, len(words) - 10)
    phrase = " ".join(words[start : start + rng.randrange(1, 5)])
    return " ".join(words[:start]) + " " + " ".join([phrase] * rng.randrange(40, 120))


# ---- leaked, swapped, garbled ---------------------------------------------------------------------------------------


def add_template(text: str, rng: random.Random) -> str | None:
    """A chat template that was not cut off: the model goes on as the user, and answers itself."""
    more = text[: rng.randrange(80, 300)]
    turns = (
        ("<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
        ("\n\nUser: ", "\n\nAssistant: "),
        ("\n\n### Human: ", "\n\n### Assistant: "),
        (" [/INST] ", " [INST] "),
        ("\n\nHuman: ", "\n\nAssistant: "),
        ("<end_of_turn>\n<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n"),
        ("\n### Instruction:\n", "\n### Response:\n"),
        ("<|eot_id|><|start_header_id|>user<|end_header_id|>\n", "<|eot_id|>"),
    )
    first, second = rng.choice(turns)
    return text + first + "Can you tell me more about that?" + second + more


def break_encoding(text: str, rng: random.Random) -> str | None:
    """UTF-8 read as something else."""
    if sum(not char.isascii() for char in text) < 20:
        return None
    return text.encode().decode(rng.choice(("cp1252", "latin-1", "gbk")), "ignore")


def break_letters(text: str, rng: random.Random) -> str | None:
    """The second half in random letters."""
    if not text.isascii() or len(text) < 300:
        return None
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(3, 10))) for _ in range(80)]
    return text[: len(text) // 3] + " " + " ".join(words)


MAKERS: dict[str, Callable[[str, random.Random], str | None]] = {
    "cut: text": cut_text,
    "cut: list": cut_list,
    "cut: table": cut_table,
    "cut: after a colon": cut_after_colon,
    "cut: in a fence": cut_fence,
    "cut: Python": cut_code("python", "py"),
    "cut: C, Java, JavaScript …": cut_code("c", "cpp", "c++", "java", "javascript", "js", "go", "rust", "csharp"),
    "cut: SQL": cut_code("sql"),
    "cut: HTML": cut_code("html", "xml"),
    "cut: JSON": cut_code("json"),
    "cut: LaTeX": cut_latex,
    "loop: one sentence": loop_sentence,
    "loop: two in turn": loop_alternating,
    "loop: any order": loop_shuffled,
    "loop: one opening": loop_one_opening,
    "loop: paragraph": loop_paragraph,
    "loop: words": loop_words,
    "leak: chat template": add_template,
    "garbled: encoding": break_encoding,
    "garbled: letters": break_letters,
}
FOREIGN = ("模型", "результат", "方法", "วิธีการ", "문제", "すべて", "следующий", "النتيجة", "समस्या", "הבא")


def swap_languages(answers: list[GoodAnswer], rng: random.Random) -> Iterator[Broken]:
    """Answers in another language than their prompts; foreign words within sentences."""
    by_language: dict[str, list[GoodAnswer]] = defaultdict(list)
    for answer in answers:
        code, sure = detect_language(answer.rollout.answer)
        is_prose = "```" not in answer.rollout.answer  # code and JSON in a fence have no language
        if (
            is_prose
            and sure > 0.9
            and len(answer.rollout.answer) > 200
            and detect_language(answer.rollout.question)[0] == code
        ):
            by_language[code].append(answer)
    main = [code for code in ("en", "zh", "fr") if len(by_language[code]) > 50]
    for _ in range(EACH):
        expected, actual = rng.sample(main, 2)
        prompt = rng.choice(by_language[expected]).rollout.question
        yield Broken("swapped: whole", prompt, rng.choice(by_language[actual]).rollout.answer)
    for _ in range(EACH):
        expected, actual = rng.sample(main, 2)
        first = rng.choice(by_language[expected]).rollout
        second = rng.choice(by_language[actual]).rollout.answer
        yield Broken("swapped: second half", first.question, first.answer[: len(second) // 2] + "\n\n" + second)
    for _ in range(EACH):
        rollout = rng.choice(by_language[rng.choice(main)]).rollout
        inside = list(
            re.finditer(r"(?<=[a-zà-ÿ]) (?=[a-zà-ÿ]{3})|(?<=[\u4e00-\u9fff])(?=[\u4e00-\u9fff])", rollout.answer)
        )
        if len(inside) < 20:
            continue
        response = rollout.answer
        words = [word for word in FOREIGN if detect_language(word)[0] != detect_language(response)[0]]
        for place in sorted(rng.sample(inside, 3), key=lambda match: -match.start()):
            response = f"{response[: place.start()]} {rng.choice(words)} {response[place.end() :]}"
        yield Broken("swapped: words", rollout.question, response)


def make_broken(half: str, seed: int) -> Iterator[Broken]:
    """The broken answers of a half: up to `EACH` of every kind."""
    answers = read_half(half)
    rng = random.Random(f"{seed} {half}")
    for kind, maker in MAKERS.items():
        count = 0
        for answer in rng.sample(answers, len(answers)):
            response = maker(answer.rollout.answer, rng)
            if response:
                yield Broken(kind, answer.rollout.question, response)
                count += 1
            if count == EACH:
                break
    yield from swap_languages(answers, rng)
    wordings = read_wordings("development" if half == "development" else "fresh")
    plain = [answer for answer in answers if len(answer.rollout.answer) > 200]
    for kind in ("leak: thoughts", "empty"):
        for wording in wordings[kind]:
            rollout = rng.choice(plain).rollout
            response = f"{wording} {rollout.answer}" if kind == "leak: thoughts" else wording
            yield Broken(kind, rollout.question, response)


def read_wordings(part: str) -> dict[str, list[str]]:
    """The wordings of one part of the YAML file: development or fresh."""
    parts: dict[str, Any] = yaml.safe_load(FRESH.read_text("utf-8"))
    return parts[part]


def make_fresh() -> Iterator[Broken]:
    """Texts written by hand; a prompt may be given with them."""
    for kind, texts in read_wordings("fresh").items():
        for text in texts:
            if isinstance(text, dict):
                yield Broken(kind, text["prompt"], text["text"])
            else:
                yield Broken(kind, "Explain how tides work, with an example.", text)


def read_set(name: str) -> Iterator[Broken]:
    """One of the later sets written by hand."""
    for kind, cases in yaml.safe_load(SETS.read_text("utf-8"))[name].items():
        for case in cases:
            yield Broken(kind, case["prompt"], case["text"])


def main() -> None:
    """Print how many are caught, by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("development", "hold-out"), default="development")
    parser.add_argument("--fresh", action="store_true", help="measure the texts written by hand")
    parser.add_argument("--set", choices=("first", "second"), help="measure a later set written by hand")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", help="only kinds that begin like this")
    parser.add_argument("--misses", action="store_true", help="print what was not caught")
    options = parser.parse_args()
    gates = {name: bind_verifier(name) for name in GATES}
    sizes: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    abstained: Counter[str] = Counter()
    if options.set:
        broken_answers = read_set(options.set)
    elif options.fresh:
        broken_answers = make_fresh()
    else:
        broken_answers = make_broken(options.half, options.seed)
    for broken in broken_answers:
        if options.kinds and not broken.kind.startswith(tuple(options.kinds)):
            continue
        rollout = Rollout.model_validate({"prompt": broken.prompt, "response": broken.response})
        values = [gate(rollout)[0] for gate in gates.values()]
        sizes[broken.kind] += 1
        caught[broken.kind] += 0 in values
        abstained[broken.kind] += 0 not in values and None in values
        if options.misses and 0 not in values:
            print(f"{broken.kind}: {broken.prompt[:60]!r} … {broken.response[:100]!r} … {broken.response[-100:]!r}")
    print("| kind | broken | caught | share | gate abstains |\n|---|---|---|---|---|")
    for kind, size in sizes.items():
        print(f"| {kind} | {size} | {caught[kind]} | {caught[kind] / size:.0%} | {abstained[kind]} |")
    print(f"| all | {sizes.total()} | {caught.total()} | {caught.total() / sizes.total():.0%} | {abstained.total()} |")


if __name__ == "__main__":
    main()
