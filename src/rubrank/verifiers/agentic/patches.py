"""Unified diffs, applied in memory: strict about what they say, careful about where they point.

    apply(parse(diff), {"a.py": "x = 1\\n"}) → {"a.py": "x = 2\\n"}

Counts in the hunk headers must be right, context must match to the letter (with `fuzz` up to that many lines at
either end of the context may differ), hunks come in order; a hunk may have moved, and the nearest match wins, but as
with git one for line 1 stays at the beginning and one without context after it at the end. No file system is touched.
Names that lead out of the tree, into `.git`, symbolic links and submodules are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_MOST_HUNKS = 2_000
_MOST_STEPS = 3_000_000  # lines looked at while searching for moved hunks: about a second
_MOST_FILES = 10_000
_LONGEST_PART, _LONGEST_NAME = 255, 1_000  # bytes, and characters: what file systems take, and the sandbox
_MODES = ("new file mode ", "deleted file mode ", "old mode ", "new mode ", "index ")
_INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_NO_NEWLINE = "\\ No newline at end of file"


class PatchError(ValueError):
    """The patch cannot be read or does not fit; the message says where."""


@dataclass
class Hunk:
    """One change: the lines before and after it, with the context at both ends."""

    start: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    lead: int = 0
    """Context lines at the beginning."""
    trail: int = 0
    """Context lines at the end."""


@dataclass
class FilePatch:
    """All changes of one file; None as the name of a side that does not exist."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)
    kind: str = ""
    """git's word: "rename" or "copy"; names that merely differ mean neither."""


def parse(diff: str) -> list[FilePatch]:
    """The patches of a unified diff, plain or git's; text around them is skipped."""
    lines = diff.split("\n")
    patches: list[FilePatch] = []
    i, total = 0, 0
    while i < len(lines):
        if lines[i].startswith("diff --git "):
            i, patch = _git_header(lines, i)
            patches += [patch] if patch else []
        elif lines[i].startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ "):
            _named(patches, _side(lines[i][4:], "a/"), _side(lines[i + 1][4:], "b/"))
            i += 2
        elif lines[i].startswith("@@ "):
            if not patches or (patches[-1].old is None and patches[-1].new is None):
                raise PatchError(f"line {i + 1}: a hunk before any file name")
            i, hunk = _hunk(lines, i)
            patches[-1].hunks.append(hunk)
            total += 1
        else:
            i += 1
        if total > _MOST_HUNKS:
            raise PatchError(f"more than {_MOST_HUNKS} hunks")
    return _complete(patches)


def _named(patches: list[FilePatch], old: str | None, new: str | None) -> None:
    """Names from ---/+++: they belong to git's header just read, or begin a file of their own."""
    if patches and patches[-1].old is None and patches[-1].new is None and not patches[-1].hunks:
        patches.pop()
    last = patches[-1] if patches else None
    if last is not None and not last.hunks and {last.old, last.new} & {old, new}:
        last.old, last.new = (last.old if old else None), (last.new if new else None)
    else:
        patches.append(FilePatch(old, new))


def _complete(patches: list[FilePatch]) -> list[FilePatch]:
    found = [p for p in patches if p.old is not None or p.new is not None]
    if not found:
        raise PatchError("no file is named: '--- a/name' and '+++ b/name' are needed")
    for patch in found:
        if not patch.hunks and patch.old is not None and patch.new is not None and not patch.kind:
            raise PatchError(f"{patch.new}: no hunk")
        for name in (patch.old, patch.new):
            if name is not None:
                check_name(name)
    return found


def check_name(name: str) -> None:
    """Refuse names that lead out of the tree, or that no file can have."""
    parts = PurePosixPath(name).parts
    bad = not parts or name.startswith(("/", "~")) or ".." in parts or "\\" in name or "\0" in name or ":" in parts[0]
    if bad or any(_is_git(part) for part in parts):
        raise PatchError(f"the path {name[:200]!r} is refused: it leads out of the tree or into .git")
    long = len(name) > _LONGEST_NAME or any(len(part.encode("utf-8", "replace")) > _LONGEST_PART for part in parts)
    if long or not name.isprintable() or "/".join(parts) != name:
        raise PatchError(f"the path {name[:200]!r} is refused: no file of a tree has such a name")


def _is_git(part: str) -> bool:
    """.git, also as file systems that forgive much would read it."""
    plain = part.translate(_INVISIBLE).lower().rstrip(" .").partition(":")[0]
    return plain in (".git", "git~1")


def _git_header(lines: list[str], i: int) -> tuple[int, FilePatch | None]:
    """git's extended header: new, deleted, renamed and copied files."""
    names = _git_names(lines[i][len("diff --git ") :])
    patch = FilePatch(*names)
    i += 1
    while i < len(lines) and lines[i] and not lines[i].startswith(("--- ", "@@ ", "diff --git ")):
        word, line = lines[i].partition(" ")[0], lines[i]
        if line.startswith(_MODES) and line.endswith((" 120000", " 160000")):
            what = "symbolic links" if line.endswith("120000") else "submodules"
            raise PatchError(f"line {i + 1}: {what} are refused")
        if word in ("GIT", "Binary"):
            raise PatchError(f"line {i + 1}: binary patches are not supported")
        if line.startswith("new file mode"):
            patch.old = None
        elif line.startswith("deleted file mode"):
            patch.new = None
        elif word in ("rename", "copy") and line.split(" ", 2)[1:2] in (["from"], ["to"]):
            side = "old" if line.split(" ", 2)[1] == "from" else "new"
            setattr(patch, side, _unquote(line.split(" ", 2)[2]))
            patch.kind = word
        i += 1
    return i, patch


def _git_names(rest: str) -> tuple[str | None, str | None]:
    """ "a/x b/x" → x, x; unclear names (with spaces, renamed) are left to the lines below."""
    half = (len(rest) - 1) // 2
    left, right = rest[:half], rest[half + 1 :]
    if left[:2] == "a/" and right[:2] == "b/" and left[2:] == right[2:]:
        return left[2:], right[2:]
    parts = rest.split(" b/", 1)
    return (parts[0].removeprefix("a/"), parts[1]) if len(parts) == 2 else (None, None)


def _side(name: str, prefix: str) -> str | None:
    name = _unquote(name.split("\t", 1)[0].rstrip("\r "))
    return None if name == "/dev/null" else name.removeprefix(prefix)


def _unquote(name: str) -> str:
    """git writes unusual names in quotes, with octal bytes."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    plain = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8) & 255), name[1:-1])
    return plain.replace('\\"', '"').replace("\\\\", "\\").encode("latin-1", "replace").decode("utf-8", "replace")


def _hunk(lines: list[str], i: int) -> tuple[int, Hunk]:
    """One hunk, whose counts must be right."""
    match = _HUNK.match(lines[i])
    if not match:
        raise PatchError(f"line {i + 1}: {lines[i][:60]!r} is not a hunk header")
    start, old, _, new = (int(part) if part else 1 for part in match.groups())
    hunk, header, changed = Hunk(start - 1 if old else start), i, False
    while len(hunk.before) < old or len(hunk.after) < new:
        i += 1
        line = lines[i] if i < len(lines) else "end"
        if line == _NO_NEWLINE:
            _no_newline(lines, i, hunk)
            continue
        changed |= _add(hunk, line, changed, header, i)
        if len(hunk.before) > old or len(hunk.after) > new:
            break
    if (len(hunk.before), len(hunk.after)) != (old, new):
        raise PatchError(f"line {header + 1}: the hunk's header says -{old} +{new} lines, its body differs")
    i += 1
    _no_newline(lines, i, hunk)
    while i < len(lines) and lines[i] == _NO_NEWLINE:
        i += 1
    if (
        i < len(lines)
        and lines[i][:1] in ("+", "-", " ")
        and lines[i].strip()
        and not lines[i].startswith(("--- ", "-- "))
    ):
        raise PatchError(f"line {i + 1}: more lines than the hunk's header (line {header + 1}) says")
    return i, hunk


def _add(hunk: Hunk, line: str, changed: bool, header: int, i: int) -> bool:
    """One line of a hunk; True if it is a change. A wholly empty line is an empty context line."""
    sign, content = (line[:1] or " "), line[1:]
    if sign == " ":
        hunk.before.append(content + "\n")
        hunk.after.append(content + "\n")
        hunk.lead += not changed
        hunk.trail += 1
        return False
    if sign not in "+-" or line == "end":
        raise PatchError(f"line {i + 1}: {line[:40]!r} inside the hunk of line {header + 1}")
    (hunk.before if sign == "-" else hunk.after).append(content + "\n")
    hunk.trail = 0
    return True


def _no_newline(lines: list[str], i: int, hunk: Hunk) -> None:
    """The mark after the last line speaks of the side, or both sides, that line belongs to."""
    if i >= len(lines) or lines[i] != _NO_NEWLINE:
        return
    last = lines[i - 1][:1] or " "
    for side, signs in ((hunk.before, " -"), (hunk.after, " +")):
        if last in signs and side:
            side[-1] = side[-1].removesuffix("\n")


def apply(patches: list[FilePatch], files: Mapping[str, str], *, fuzz: int = 0) -> dict[str, str]:
    """The files after all patches; the given ones are not changed."""
    tree, steps = dict(files), [_MOST_STEPS]
    for patch in patches:
        if patch.old and patch.new and not patch.kind:  # "--- x.orig" and "+++ x" speak of one file
            patch.old = patch.new = patch.new if patch.new in tree else patch.old
        name = patch.new or patch.old or ""
        if patch.old is None and patch.new in tree:
            raise PatchError(f"{name}: to be created, but it exists")
        if patch.old is not None and patch.old not in tree:
            raise PatchError(f"{patch.old}: no such file")
        if patch.new not in (None, patch.old) and patch.new in tree:
            raise PatchError(f"{name}: the new name exists")
        text = _apply_hunks(patch, tree[patch.old] if patch.old else "", fuzz, steps)
        if patch.new is None and text:
            raise PatchError(f"{name}: to be deleted, but {text.count(chr(10)) or 1} lines would remain")
        if patch.old is not None and patch.kind != "copy":
            del tree[patch.old]
        if patch.new is not None:
            tree[patch.new] = text
    _refuse_clashes(tree, files)
    return tree


def _refuse_clashes(tree: Mapping[str, str], before: Mapping[str, str]) -> None:
    """A name cannot be a file and a folder; a tree cannot grow without end."""
    if len(tree) > max(_MOST_FILES, len(before)):
        raise PatchError(f"more than {_MOST_FILES} files")
    for name in tree.keys() - before.keys():
        for above in PurePosixPath(name).parents:
            if str(above) in tree:
                raise PatchError(f"{name}: {above} is a file, not a folder")
    folders = {str(above) for name in tree for above in PurePosixPath(name).parents}
    for name in tree.keys() - before.keys():
        if name in folders:
            raise PatchError(f"{name}: is a folder, not a file")


def _apply_hunks(patch: FilePatch, text: str, fuzz: int, steps: list[int]) -> str:
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    result: list[str] = []
    done, shift = 0, 0
    for number, hunk in enumerate(patch.hunks, 1):
        place = _place(lines, hunk, done, hunk.start + shift, fuzz, steps)
        if place is None:
            raise PatchError(f"{patch.new or patch.old}: hunk {number} (line {hunk.start + 1}) does not match the file")
        at, head, tail = place
        shift = at - head - hunk.start
        result += lines[done:at] + hunk.after[head : len(hunk.after) - tail]
        done = at + len(hunk.before) - head - tail
    return "".join(result + lines[done:])


def _place(
    lines: list[str], hunk: Hunk, first: int, wanted: int, fuzz: int, steps: list[int]
) -> tuple[int, int, int] | None:
    """Where the hunk goes, and how many context lines were given up at its head and tail."""
    for loss in range(fuzz + 1):
        head, tail = min(loss, hunk.lead), min(loss, hunk.trail)
        needle, target = hunk.before[head : len(hunk.before) - tail], wanted + head
        if not needle:  # nothing to look for: it can only fill an empty file
            return (0, head, tail) if not lines and not hunk.before else None
        at_start, at_end = loss == 0 and hunk.start == 0, loss == 0 and hunk.trail == 0
        if at_start or at_end:  # as git has it: line 1 is the first, and a hunk without context after it is the last
            target = 0 if at_start else len(lines) - len(needle)
            whole = len(needle) == len(lines) or not (at_start and at_end)
            found = target if whole and target >= first and lines[target : target + len(needle)] == needle else None
        else:
            found = _nearest(lines, needle, first, target, steps)
        if found is not None:
            return found, head, tail
    return None


def _nearest(lines: list[str], needle: list[str], first: int, target: int, steps: list[int]) -> int | None:
    if target >= first and lines[target : target + len(needle)] == needle:
        return target
    return min(_matches(lines, needle, first, steps), key=lambda at: abs(at - target), default=None)


def _matches(lines: list[str], needle: list[str], first: int, steps: list[int]) -> Iterator[int]:
    """All places of the needle from `first` on (Knuth, Morris and Pratt: linear, whatever the lines are)."""
    steps[0] -= len(lines) - first + len(needle)
    if steps[0] < 0:
        raise PatchError("the search for moved hunks takes too long")
    back, k = [0] * len(needle), 0
    for i in range(1, len(needle)):
        while k and needle[i] != needle[k]:
            k = back[k - 1]
        k += needle[i] == needle[k]
        back[i] = k
    k = 0
    for i in range(first, len(lines)):
        while k and (k == len(needle) or lines[i] != needle[k]):
            k = back[k - 1]
        k += lines[i] == needle[k]
        if k == len(needle):
            yield i - k + 1
