"""Every marker has cases that hold it, cases that do not, and cases that look like it and are not."""

from __future__ import annotations

import doctest

import numpy as np
import pyromark
import pytest
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.control import markdown
from rubrank.fusion.control.markdown import MARKERS, markdown_counts, markdown_density

CASES: dict[str, list[tuple[str, int]]] = {
    "heading": [
        ("# One", 1),
        ("# One\n\n###### Six", 2),
        ("Setext\n===\n\nAnother\n---", 2),
        ("> # quoted\n\n- # in a list", 2),
        ("#", 1),
        ("# One #", 1),
        ("#hashtag", 0),
        ("####### Seven", 0),
        ("\\# escaped", 0),
        ("```\n# comment\n```", 0),
        ("    # comment", 0),
        ("<h1>raw</h1>", 0),
        ("plain", 0),
    ],
    "bold": [
        ("**a** and __b__", 2),
        ("***a***", 1),
        ("**a *b* c**", 1),
        ("a**b**c", 1),
        ("**two\nlines**", 1),
        ("** a **", 0),
        ("2 ** 3 ** 4", 0),
        ("snake__case__name", 0),
        ("\\*\\*a\\*\\*", 0),
        ("`**a**`", 0),
        ("**open", 0),
        ("**two\n\nparagraphs**", 0),
        ("<strong>a</strong><b>a</b>", 0),
        ("![**a**](b)", 0),
    ],
    "italic": [
        ("*a* and _b_", 2),
        ("***a***", 1),
        ("**a *b* c**", 1),
        ("*a*b", 1),
        ("2 * 3 * 4", 0),
        ("snake_case_name", 0),
        ("* item *", 0),
        ("`*a*`", 0),
        ("\\*a\\*", 0),
        ("<em>a</em>", 0),
        ("**a**", 0),
    ],
    "table_row": [
        ("|a|b|\n|-|-|\n|1|2|\n|3|4|", 3),
        ("a | b\n--|--\n1 | 2", 2),
        ("|a|\n|-|", 1),
        ("> |a|b|\n> |-|-|\n> |1|2|", 2),
        ("|a|b|\n|:-|-:|\n|`\\|`|2|", 2),
        ("|a|b|\n|1|2|", 0),
        ("|a|b|\n|-|\n|1|2|", 0),
        ("```\n|a|b|\n|-|-|\n```", 0),
        ("a | b", 0),
        ("<table><tr><td>1</td></tr></table>", 0),
    ],
    "code_block": [
        ("```\na\n```", 1),
        ("~~~python\na\n~~~", 1),
        ("    indented", 1),
        ("```\nunclosed", 1),
        ("````\n```\n````", 1),
        ("- a\n\n  ```\n  b\n  ```", 1),
        ("text\n    continued", 0),
        ("```inline```", 0),
        ("<pre><code>a</code></pre>", 0),
    ],
    "inline_code": [
        ("`a` and ``b ` c``", 2),
        ("```inline```", 1),
        ("**`a`**", 1),
        ("|`a`|\n|-|\n|`b`|", 2),
        ("`<code>`", 1),
        ("a ` b", 0),
        ("\\`a\\`", 0),
        ("```\n`a`\n```", 0),
        ("    `a`", 0),
        ("<code>a</code>", 0),
        ("![`a`](b)", 0),
    ],
    "ordered_item": [
        ("1. a\n2. b", 2),
        ("7) a", 1),
        ("1. a\n   - b\n   - c\n2. d", 2),
        ("- a\n  1. b\n  2. c\n- d", 2),
        ("> 1. a\n> 2. b", 2),
        ("1. a\n\n   b\n\n2. c", 2),
        ("1. 1. 1. a", 3),
        ("In\n1999. A year", 0),
        ("1.a", 0),
        ("1\\. a", 0),
        ("1234567890. a", 0),
        ("- a", 0),
        ("<ol><li>a</li></ol>", 0),
    ],
    "unordered_item": [
        ("- a\n- b", 2),
        ("* a\n+ b", 2),
        ("1. a\n   - b\n   - c\n2. d", 2),
        ("- a\n  1. b\n  2. c\n- d", 2),
        ("- a\n  - b\n    - c\n- d", 4),
        ("> - a\n>   - b", 2),
        ("- [ ] task\n- [x] done", 2),
        ("-", 1),
        ("-a", 0),
        ("\\- a", 0),
        ("- - -", 0),
        ("1. a", 0),
        ("<ul><li>a</li></ul>", 0),
    ],
    "blockquote": [
        ("> a\n> b\nlazy", 1),
        ("> a\n\n> b", 2),
        ("> a\n>> b", 2),
        ("- > a", 1),
        (">a", 1),
        ("a > b", 0),
        ("\\> a", 0),
        ("```\n> a\n```", 0),
        ("<blockquote>a</blockquote>", 0),
    ],
    "horizontal_rule": [
        ("---", 1),
        ("***\n\n___\n\n- - -", 3),
        ("a\n\n---\n\nb", 1),
        ("> ---", 1),
        ("a\n---", 0),
        ("--", 0),
        ("---a", 0),
        ("|a|\n|---|", 0),
        ("```\n---\n```", 0),
        ("<hr />", 0),
    ],
    "link": [
        ("[a](b) and [c](<d> 'e')", 2),
        ("[a][r] [r]\n\n[r]: /u", 2),
        ("<https://a.b> <c@d.e>", 2),
        ("[![i](u)](v)", 1),
        ("[**a**](b)", 1),
        ("[a]()", 1),
        ("![i](u)", 0),
        ("https://a.b", 0),
        ("[a] (b)", 0),
        ("[a][unknown]", 0),
        ("\\[a](b)", 0),
        ("`[a](b)`", 0),
        ('<a href="b">c</a>', 0),
        ("array[i](x", 0),
    ],
}


@folded(("marker", "text", "count"), [(m, *case) for m, cases in CASES.items() for case in cases])
def test_marker(marker, text, count):
    assert markdown_counts([text])[0, MARKERS.index(marker)] == count


def test_docstrings_run():
    assert doctest.testmod(markdown).failed == 0


def test_cases_cover_every_marker():
    assert tuple(CASES) == MARKERS


def test_front_matter_is_a_rule_and_a_heading():
    counts = dict(zip(MARKERS, markdown_counts(["---\ntitle: a\n---\n"])[0], strict=True))
    assert (counts["horizontal_rule"], counts["heading"]) == (1, 1)


def test_a_whole_response():
    text = "# Plan\n\n1. **Read** the `file`\n   - *carefully*\n2. Write\n\n> [Source](u)\n\n---\n\n```\n# no\n```\n"
    assert markdown_counts([text])[0].tolist() == [1, 1, 1, 0, 1, 1, 2, 1, 1, 1, 1]


# --- the parser's own event stream is the oracle: slow, and without any reading of HTML ---

PARSER = pyromark.Markdown(options=pyromark.Options.ENABLE_TABLES)
BARE = {"Strong": "bold", "Emphasis": "italic", "TableHead": "table_row", "TableRow": "table_row"}
NAMED = {"Heading": "heading", "CodeBlock": "code_block", "BlockQuote": "blockquote", "Link": "link"}


def counts_by_events(text: str) -> list[int]:
    counts = dict.fromkeys([*MARKERS, None], 0)
    lists: list[bool] = []
    images = 0
    for event in PARSER.events(text):
        what, value = next(iter(event.items())) if isinstance(event, dict) else (event, None)
        name = next(iter(value)) if isinstance(value, dict) else value
        if name == "Image":
            images += 1 if what == "Start" else -1
        elif name == "List" and what == "Start":
            lists.append(value["List"] is not None)
        elif name == "List":
            lists.pop()
        if not images:
            counts[marker_of(what, name, lists)] += 1
    return [counts[marker] for marker in MARKERS]


def marker_of(what: str, name: str | None, lists: list[bool]) -> str | None:
    if what in ("Rule", "Code"):
        return {"Rule": "horizontal_rule", "Code": "inline_code"}[what]
    if what != "Start":
        return None
    if name == "Item":
        return "ordered_item" if lists[-1] else "unordered_item"
    return BARE.get(name) or NAMED.get(name)


# fmt: off
PIECES = [
    "#", "*", "**", "***", "_", "__", "`", "```", "~~~", "- ", "1. ", "2) ", "> ", "|", "|-|", "---", "===", "=",
    "[", "]", "(", ")", "![", "[a]", "<c@d.e>", "<https://x>", "a", "b", "em", "字", "é", "א", "\\", ":", "'", '"',
    "<", "</", ">", "&lt;", "&#60;", "<em>", "</em>", "<strong>", "<string>", "<pre>", "</pre>", "<pre><code>", "<tr>",
    "<li>", "<ul>", "</ul>", "<ol>", "</ol>", "<ol ", "<a href=", "<h1>", "<hr />", "<blockquote>", "<div>", "</div>",
    "<script>", "</script>", "<style>", "</style>", "<!--", "-->", "<?", "?>", "<!x", "<![CDATA[", "]]>",
]
# fmt: on
SPACES = ["\n", "\n", "\n\n", "\r", "\r\n", " ", "  ", "    ", "\t", "\0", "\u200b", "\u200f", "[a]: /u\n"]
sources = st.lists(st.sampled_from(PIECES + SPACES), max_size=40).map("".join)


@pytest.mark.slow
@examples(500)
@given(st.lists(sources, max_size=8))
def test_counting_tags_equals_counting_events(texts):
    assert markdown_counts(texts).tolist() == [counts_by_events(text) for text in texts]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_equals_events(text):
    assert markdown_counts([text])[0].tolist() == counts_by_events(text)


@given(st.text(st.characters()))
def test_never_raises_and_never_negative(text):
    assert (markdown_counts([text]) >= 0).all()
    assert np.isfinite(markdown_density([text])).all()
    assert np.isfinite(markdown_density([text], per="100 words")).all()


blocks = st.sampled_from(["# a", "```\nb\n```", "|a|\n|-|\n|b|", "***", "plain **c**", "x\n---", "<https://d.e>"])


@given(st.lists(blocks, max_size=6), st.lists(blocks, max_size=6))
def test_blocks_add_up(first, second):
    one, two, both = markdown_counts(["\n\n".join(part) for part in (first, second, [*first, *second])])
    assert (one + two == both).all()


@given(st.lists(sources, max_size=6))
def test_batch_equals_one_by_one(texts):
    singles = [markdown_counts([text])[0].tolist() for text in texts]
    assert markdown_counts(texts).tolist() == singles


# --- shapes, densities, errors ---


def test_leading_shape_is_kept():
    assert markdown_counts([]).shape == (0, 11)
    assert markdown_counts([["# a", "b", ""], ["c", "d", "**e**"]]).shape == (2, 3, 11)
    assert markdown_counts(np.array([["# a", "b"]]))[0, 0, 0] == 1


def test_density_per_line_skips_blank_lines():
    assert markdown_density(["# a\n\n \t\nb\r\nc\n# d"])[0, 0] == 2 / 4


def test_density_per_100_words():
    assert markdown_density(["**a** b c d"], per="100 words")[0, 1] == 25


def test_density_of_nothing_is_zero():
    assert (markdown_density(["", " \n\n"]) == 0).all()
    assert (markdown_density(["", " \n\n"], per="100 words") == 0).all()


def test_density_without_words_is_finite():
    assert markdown_density(["---"], per="100 words")[0, MARKERS.index("horizontal_rule")] == 100


@pytest.mark.parametrize("function", [markdown_counts, markdown_density])
def test_a_single_text_is_refused(function):
    with pytest.raises(InvalidInput, match=r"got str '# a'.*\[text\]"):
        function("# a")


def test_unknown_unit_is_refused():
    with pytest.raises(UnknownName, match=r"per must be one of '100 words', 'line'; got 'lines'. Did you mean 'line'"):
        markdown_density(["a"], per="lines")  # type: ignore[arg-type]


# --- hostile input ---


@folded("char", [">", "[", "*", "_", "`", "- ", "1. ", "![", "[a](", "<", "<em>", "|", "> - ", "\ud800"])
def test_deep_nests(char):
    assert (markdown_counts([char * 10_000]) >= 0).all()


def test_depth_is_counted():
    assert markdown_counts([">" * 10_000 + "a"])[0, MARKERS.index("blockquote")] == 10_000


@pytest.mark.slow
@folded("opening", [">", "1. ", "- ", "> - ", " > "])
@folded("newline", ["\n", "\r"])
def test_deep_containers_with_many_lines_take_linear_time(opening, newline):
    # As it stands the parser takes about a minute for this; only the depth beyond 1,000 on one line is given up.
    text = opening * 100_000 + "a" + newline + ("a" + newline) * 100_000
    counts = markdown_counts([text])[0]
    assert counts.sum() == 1000


def test_long_texts_are_not_rewritten_below_the_limit():
    text = "\n\n".join(["- * 1. > a", "* b *c*", "***", "> " * 999 + "d"] * 100)
    assert len(text) > 20_000
    assert markdown_counts([text])[0].tolist() == counts_by_events(text)


@pytest.mark.parametrize("text", ["plain words. " * 80_000, "*a " * 330_000, "<a " * 330_000, "|a|\n|-|\n" * 120_000])
def test_a_megabyte(text):
    assert np.isfinite(markdown_density([text])).all()


def test_surrogates_nul_and_directions_do_not_hide_markers():
    text = "# \ud800a\n\n**\0b**\n\n*\u200bשלום*\r\n\r\n`\udfff`\n\n- \ufeffc"
    assert markdown_counts([text])[0].tolist() == [1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0]


def test_deep_lists():
    text = "".join("  " * depth + "- x\n" for depth in range(150))
    assert markdown_counts([text])[0, MARKERS.index("unordered_item")] == 150


@folded("char", [chr(code) for code in range(0x10000) if chr(code).isspace()])
def test_every_space_of_unicode_makes_a_blank_line(char):
    texts = [f"# a\n{char}\nb", f"# a\n \t{char}"]
    assert markdown_density(texts)[:, 0].tolist() == [0.5, 1.0]
