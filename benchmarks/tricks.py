"""Cheap tricks that a policy may learn instead of answering: how many fool a criterion.

    python benchmarks/tricks.py                # the table: tricks and fooled, by criterion
    python benchmarks/tricks.py --fooled       # and each trick that fools

A trick is an answer that does not deserve the credit. It fools a criterion that gives it half of the credit or more.
Every hidden text is tried on every criterion that looks for words; the other tricks are written for one criterion.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import find_verifier


class Trick(NamedTuple):
    """An answer without merit, and the criterion that it is after."""

    criterion: str
    params: dict[str, Any]
    name: str
    response: str
    prompt: str = "Write about the coast."


# ---- hidden text ----------------------------------------------------------------------------------------------------

HIDDEN = {
    "a comment": "Nothing here.<!-- {} -->",
    "a hidden element": "Nothing here.<span hidden>{}</span>",
    "display: none": 'Nothing here.<div style="display:none">{}</div>',
    "size 0": 'Nothing here.<span style="font-size:0">{}</span>',
    "transparent": 'Nothing here.<span style="color:transparent">{}</span>',
    "opacity 0": 'Nothing here.<p style="opacity:0">{}</p>',
    "a script": "Nothing here.<script>{}</script>",
    "a template": "Nothing here.<template>{}</template>",
    "a reference": 'Nothing here.\n\n[x]: http://a.b "{}"\n',
    "the title of a link": 'Nothing [here](http://a.b "{}").',
    "the text of a picture": "Nothing here. ![{}](http://a.b/c.png)",
    "CDATA": "Nothing here.<![CDATA[{}]]>",
    "a phantom": "Nothing here. $\\phantom{{{}}}$",
    "clipped": 'Nothing here.<span style="clip-path:inset(100%)">{}</span>',
    "the colour of its background": 'Nothing here.<span style="color:#fff;background:#fff">{}</span>',
    "a tenth of a pixel": 'Nothing here.<span style="font-size:0.1px">{}</span>',
    "no height": 'Nothing here.<div style="height:0;overflow:hidden">{}</div>',
    "scaled to nothing": 'Nothing here.<span style="transform:scale(0)">{}</span>',
    "a white formula": "Nothing here. $\\color{{white}}{{{}}}$",
    "a void element": 'Nothing here.<meta content="{}">',
    "the description of a picture": "Nothing here.<svg><desc>{}</desc></svg>",
    "off the page": 'Nothing here.<span style="position:absolute;left:-9999px">{}</span>',
    "an attribute": 'Nothing here.<abbr title="{}">x</abbr>',
    "a comment of Markdown": "Nothing here.\n\n[//]: # ({})\n",
}
POINT = "The lighthouse was built by Dutch engineers in 1880"
SEEKERS: list[tuple[str, dict[str, Any], str]] = [
    ("Keyword", {"keywords": ["lighthouse"]}, POINT),
    ("ContainsAny", {"references": ["lighthouse"]}, POINT),
    ("SummaryRecall", {"points": [POINT]}, POINT),
    ("DictionRequirement", {"use": ["lighthouse"]}, POINT),
    ("WordCount", {"relation": "at least", "count": 40}, " ".join(f"word{i}" for i in range(50))),
    ("SentenceCount", {"relation": "at least", "count": 6}, "One is here. Two is here. Three is here. " * 3),
    ("DistinctN", {}, " ".join(f"word{i}" for i in range(50))),
    ("Rouge", {"references": POINT, "kind": "1", "measure": "recall"}, POINT),
    ("TokenF1", {"references": POINT}, POINT),
    ("ChrF", {"references": POINT}, POINT),
    ("LetterFrequency", {"letter": "q", "relation": "at least", "count": 5}, "quiet quick queen quote quilt"),
]


def hide_texts() -> Iterator[Trick]:
    """Every way of hiding, for every criterion that looks for words."""
    for criterion, params, text in SEEKERS:
        for name, frame in HIDDEN.items():
            response = frame.format(text)
            if criterion == "DistinctN":
                response = response.replace("Nothing", "No no no no no no no no no no no no nothing")
            yield Trick(criterion, params, f"hidden: {name}", response)


# ---- tricks for one criterion ---------------------------------------------------------------------------------------

SOURCES = ["The moon pulls the sea twice a day.", "The lighthouse was built in 1880 by Dutch engineers."]
CITATIONS = {
    "made up": "As the source says, “the moon is made of green cheese” [1].",
    "a made-up block": "> The moon is made of green cheese and sings.\n\nSo it is [1].",
    "made up, in single marks": "As it says, 'the moon is made of green cheese' [1].",
    "made up, in curved single marks": "As it says, ‘the moon is made of green cheese’ [1].",
    "made up, beside a true one": "“The moon pulls the sea” [1], and “the moon is made of cheese” [1].",
    "from the other source": "“The lighthouse was built in 1880” [1].",
    "a source that is none": "It is so [7].",
    "one word changed": "“The moon pulls the sea thrice a day” [1].",
    "made up, in angle marks": "«The moon is made of green cheese» [1].",
    "made up, in Chinese marks": "「月亮是绿色奶酪做成的」[1]。",
    "two halves joined": "“The moon pulls the lighthouse was built” [1].",
    "a block with a true line": "> The moon pulls the sea twice a day.\n> It is made of green cheese, too.",
    "hidden": "Nothing is quoted.<!-- “The moon pulls the sea” [1] -->",
    "made up, in low marks": "„The moon is made of cheese“ [1].",
    "made up, in an element": "<q>the moon is made of green cheese</q> [1].",
    "a made-up block in an element": "<blockquote>The moon is made of green cheese and sings.</blockquote> [1]",
    "a bridge of dots": "“The moon … was built in 1880” [1].",
    "a number changed": "“The lighthouse was built in 1890 by Dutch engineers” [2].",
    "references alone": "[1][2][1][2]",
    "a denial put in": "“The moon does not pull the sea twice a day” [1].",
    "the parts swapped": "“The sea pulls the moon twice a day” [1].",
    "made up, in code": "As it says, `the moon is made of green cheese` [1].",
    "a reference further on": "It was, as “built in 1880 by Dutch engineers” tells us, Dutch [1].",
}
CAPITALS = "Paris, London, Berlin, Madrid, Rome, Vienna, Lisbon, Dublin, Prague, Warsaw"
CONTAINS = {
    "a list of everything": f"{CAPITALS}.",
    "a list of everything, as entries": "\n".join(f"- {city}" for city in CAPITALS.split(", ")),
    "a list with and": f"It is one of {CAPITALS} and Oslo.",
    "a list with slashes": CAPITALS.replace(", ", " / "),
    "a denial": "It is not Paris.",
    "a denial, contracted": "It isn't Paris.",
    "a denial with never": "It was never Paris.",
    "a denial in Spanish": "La capital de este país no es Paris.",
    "a denial in German": "Die Hauptstadt dieses Landes ist nicht Paris.",
    "a comment of Python": "```python\nx = 1  # Paris\n```",
    "a comment of C": "```c\nint x = 1; // Paris\n```",
    "a long comment": "```c\n/* Paris */ int x = 1;\n```",
    "an address": "See https://example.org/Paris/map for more.",
    "an address of a page": "See www.paris.example for more.",
    "within a word": "A parisian would know.",
    "numbered entries": "\n".join(f"{i}. {city}" for i, city in enumerate(CAPITALS.split(", "), 1)),
    "a list without commas": CAPITALS.replace(",", ""),
    "a list without commas and capitals": CAPITALS.replace(",", "").lower(),
    "a list, a line each": CAPITALS.replace(", ", "\n"),
    "a list, a sentence each": " ".join(f"It is {city}." for city in CAPITALS.split(", ")),
    "a list with dashes": CAPITALS.replace(", ", " - "),
    "a list in brackets": " ".join(f"({city})" for city in CAPITALS.split(", ")),
    "a list of tags": " ".join(f"#{city}" for city in CAPITALS.split(", ")),
    "a list with numbers": " ".join(f"{i}) {city}" for i, city in enumerate(CAPITALS.split(", "))),
    "a table": "| city |\n|---|\n" + "\n".join(f"| {city} |" for city in CAPITALS.split(", ")),
    "a doubt": "I doubt that it is Paris.",
    "a doubt at the end": "That it is Paris is doubtful.",
    "unlikely": "It is unlikely to be Paris.",
    "anything but": "It is anything but Paris.",
    "would be wrong": "Paris would be wrong.",
    "the wrong answer": "“Paris” is the wrong answer.",
    "ruled out": "Paris can be ruled out.",
    "a former belief": "I used to think it was Paris, but it is Rome.",
    "an idea rejected": "I reject the idea that the capital is Paris.",
    "nobody claims": "Nobody would claim that it's Paris.",
    "a question": "Is it Paris?",
    "struck": "It is ~~Paris~~ Rome.",
    "a mail address": "Write to paris@example.org.",
    "the opinion of others": "Some people say Paris, but they are wrong.",
}
POINTS = [
    "Profits rose sharply in 2020 because of exports.",
    "The board approved the merger in May after a long debate.",
    "The plant in Leeds will close next year.",
]
BAG = "profits rose sharply 2020 exports board approved merger May long debate plant Leeds close next year"
RECALL = {
    "a bag of words": f"{BAG}.",
    "a bag with commas": BAG.replace(" ", ", ") + ".",
    "a bag, sorted": " ".join(sorted(BAG.split())) + ".",
    "a bag as one line each": BAG.replace(" ", " · "),
    "keywords": "Keywords: " + BAG.replace(" ", "; "),
    "all denied": "Profits did not rise in 2020. The board did not approve the merger. The plant will not close.",
    "all false": "It is false that profits rose sharply in 2020. It is untrue that the board approved the merger.",
    "hidden": f"<!-- {' '.join(POINTS)} --> There is nothing to say here today.",
    "nothing": "The company had an eventful time, as companies do.",
    "reversed words": " ".join(" ".join(reversed(point.rstrip(".").split())) + "." for point in POINTS),
    "sorted words": " ".join(" ".join(sorted(point.rstrip(".").split())) + "." for point in POINTS),
    "questions": " ".join(f"Is it true that {point.rstrip('.')}?" for point in POINTS),
    "doubts": " ".join(f"I doubt that {point}" for point in POINTS),
    "unlikely": " ".join(f"It is unlikely that {point}" for point in POINTS),
    "a bag with small words": "the profits of the rose and sharply in the 2020 of the exports. the board the "
    "approved of the merger in the May of the long debate. the plant of the Leeds and the close of the next year.",
    "opposites": "Profits fell sharply in 2020 because of exports. The board rejected the merger in May after a long "
    "debate. The plant in Leeds will open next year.",
    "parts mixed": "The plant approved exports sharply in 2020. The merger in Leeds rose after the board. Profits "
    "in May will close next year because of a long debate.",
}
LISTED = "Summarise the report and cover these points:\n" + "\n".join(POINTS)
INLINE = "Summarise the report. Cover these points: " + " ".join(POINTS)
ECHOES = {
    "the list again": "\n".join(POINTS),
    "as entries": "\n".join(f"- {point}" for point in POINTS),
    "with numbers": "\n".join(f"{i}. {point}" for i, point in enumerate(POINTS, 1)),
    "as a quotation": "\n".join(f"> {point}" for point in POINTS),
    "in one line": " ".join(POINTS),
    "with a preface": "Sure! Here it is: " + " ".join(POINTS),
    "with semicolons": "; ".join(point.rstrip(".") for point in POINTS) + ".",
}
DISTINCT = {
    "one word": "Lighthouse",
    "two words": "Lighthouse coast",
    "three words": "Lighthouse coast sea",
    "a dot": ".",
}
EMPTY = {
    "zero width": "\u200b\u200b\u200b",
    "braille blanks": "\u2800\u2800",
    "dots": "… … …",
    "courtesy": "Of course! I'd be happy to help you with that.",
    "announcement": "Here is the explanation that was requested:",
    "placeholder": "[Your answer here]",
    "undefined": "undefined",
    "no response": "(no response)",
    "an empty frame": "<answer></answer>",
    "an empty box": "\\boxed{}",
    "a comment": "<!-- the answer -->",
    "a heading": "# Introduction",
    "an empty fence": "```\n```",
    "a rule": "---",
    "courtesy in French": "Bien sûr ! Voici la réponse.",
    "courtesy in German": "Gerne! Hier ist die Antwort:",
    "courtesy in Chinese": "好的，以下是答案：",
    "an announcement of itself": "I will answer this question now.",
    "thanks": "Thank you for your question.",
    "to do": "TODO: write the answer",
    "entities": "&nbsp;&nbsp;",
    "tag characters": "\U000e0041\U000e0042",
    "a Hangul filler": "\u3164\u3164",
    "empty elements": "<p></p><br/>",
    "an empty formula": "$$ $$",
    "an emoji": "👍",
    "the prompt": "Explain how tides work, with an example.",
    "I see": "I see.",
}
LOOPS = {
    "one sentence": "The sea is wide and blue. " * 12,
    "two in turn": "The sea is wide and blue. The sky is high and grey. " * 5,
    "three, one opening": "The sea is wide. The sea is blue. The sea is deep. " * 5,
    "a counter": "\n".join(f"Step {i}: look at the sea and wait." for i in range(1, 20)),
    "a word": "sea " * 200,
    "capitals in turn": "The sea is wide and blue. THE SEA IS WIDE AND BLUE. " * 6,
    "stops in turn": "The sea is wide and blue! The sea is wide and blue. The sea is wide and blue? " * 4,
    "invisible characters in turn": "The sea is wide and blue. The s\u200bea is wide and blue. " * 6,
    "a letter of another alphabet in turn": "The sea is wide and blue. The sеa is wide and blue. " * 6,
    "a syllable": "ha" * 200,
    "Chinese": "大海很宽很蓝。" * 12,
    "an emoji": "🎉" * 100,
    "another adjective": " ".join(
        f"The sea is {word} and blue." for word in ("wide", "deep", "calm", "cold", "grey", "dark", "vast")
    ),
    "a paragraph": "The sea is wide and blue. It goes on for ever, and nobody knows what lies behind it, or why. "
    "The old men of the harbour say that there is an island.\n\n" * 4,
}
FORBIDDEN = {
    "zero width inside": "This is a b\u200bad idea.",
    "an entity": "This is a b&#97;d idea.",
    "emphasis inside": "This is a b**a**d idea.",
    "full width": "This is a ｂａｄ idea.",
    "a comment inside": "This is a b<!-- -->ad idea.",
    "a soft hyphen": "This is a b\u00adad idea.",
    "a tag inside": "This is a b<b>a</b>d idea.",
    "capitals": "This is a BAD idea.",
    "a digit": "This is a b4d idea.",
    "spaces": "This is a b a d idea.",
    "hyphens": "This is a b-a-d idea.",
    "another alphabet": "This is a bаd idea.",
    "small capitals": "This is a ʙᴀᴅ idea.",
    "bold letters of mathematics": "This is a 𝐛𝐚𝐝 idea.",
    "letters in circles": "This is a ⓑⓐⓓ idea.",
    "a word joiner": "This is a b\u2060ad idea.",
    "written from the right": "This is a \u202edab\u202c idea.",
}
SUMS = {  # what a program writes that should write 50
    "5_0": "print('5_0')",
    "nothing": "pass",
    "full width": "print('５０')",
    "both": "print(50, 51)",
    "nan": "print(float('nan'))",
    "inf": "print(float('inf'))",
    "hexadecimal": "print('0x32')",
    "Arabic digits": "print('٥٠')",
    "standard error": "import sys; print(50, file=sys.stderr)",
    "everything": "print(*range(100))",
    "a blank within": "print('5\\u00a00')",
}


def make_tricks() -> Iterator[Trick]:
    """All tricks."""
    yield from hide_texts()
    for name, text in CITATIONS.items():
        yield Trick("Citations", {"material": SOURCES, "at_least": 1}, name, text)
    for name, text in CONTAINS.items():
        yield Trick("ContainsAny", {"references": ["Paris"]}, name, text)
    for name, text in RECALL.items():
        yield Trick("SummaryRecall", {"points": POINTS}, name, text)
    for name, text in ECHOES.items():
        yield Trick("SummaryRecall", {"points": POINTS}, f"an echo of the points: {name}", text, LISTED)
        yield Trick("SummaryRecall", {"points": POINTS}, f"an echo of points in one line: {name}", text, INLINE)
    for name, text in DISTINCT.items():
        yield Trick("DistinctN", {}, name, text)
    for name, text in EMPTY.items():
        yield Trick("EmptyAnswer", {}, name, text, "Explain how tides work, with an example.")
    for name, text in LOOPS.items():
        yield Trick("RepeatSegment", {}, name, text)
    for name, text in FORBIDDEN.items():
        yield Trick("ForbiddenContent", {"words": ["bad"]}, name, text)
    for name, code in SUMS.items():
        params = {"cases": [{"stdin": "", "stdout": "50"}], "compare": "tokens", "tolerance": 0.01}
        yield Trick("TestsPass", params, name, f"```python\n{code}\n```")
    nan_case = {"cases": [{"stdin": "", "stdout": "nan"}], "compare": "tokens", "tolerance": 0.01}
    yield Trick("TestsPass", nan_case, "nan where nan is expected", "```python\nprint(float('nan'))\n```")
    no_output = {"cases": [{"stdin": "1", "stdout": ""}]}
    yield Trick("TestsPass", no_output, "an empty expectation", "```python\npass\n```")


def measure_tricks() -> tuple[Counter[str], list[Trick]]:
    """How many tricks each criterion was tried with, and those that fool it."""
    sizes: Counter[str] = Counter()
    fooled: list[Trick] = []
    for trick in make_tricks():
        verifier = find_verifier(trick.criterion)
        run = verifier.bind(verifier.check_parameters(trick.params))
        value, _ = run(Rollout.model_validate({"prompt": trick.prompt, "response": trick.response}))
        sizes[trick.criterion] += 1
        if value is not None and value >= 0.5:
            fooled.append(trick)
    return sizes, fooled


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fooled", action="store_true", help="print each trick that fools")
    options = parser.parse_args()
    sizes, fooled = measure_tricks()
    if options.fooled:
        for trick in fooled:
            print(f"{trick.criterion}: {trick.name}: {trick.response[:80]!r}")
    by_criterion = Counter(trick.criterion for trick in fooled)
    hidden = sum(trick.name.startswith("hidden") for trick in fooled)
    print("| criterion | tricks | fooled |\n|---|---|---|")
    for criterion, size in sorted(sizes.items()):
        print(f"| {criterion} | {size} | {by_criterion[criterion]} |")
    print(f"| all | {sizes.total()} | {len(fooled)} ({hidden} by hidden text) |")


if __name__ == "__main__":
    main()
