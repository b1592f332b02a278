"""Parses unified diffs and applies them to files in memory. No file system is touched.

    apply_patches(parse_diff(diff), {"a.py": "x = 1\\n"}) → {"a.py": "x = 2\\n"}

The line counts of hunk headers must be right. Context must match exactly; with `fuzz`, that many lines at either end of
the context may differ. Hunks come in order. A hunk may have moved: the nearest match is used. As in git, a hunk for
line 1 must match at the beginning, and a hunk without context after it must match at the end. Names that lead out of
the tree or into `.git`, symbolic links and submodules are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# @@ -12,7 +12,8 @@: the first line and the number of lines, before and after; no number means 1
_HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
# a/x "b/\303\251", "a/\303\251" b/x: the names of a git header if at least one is in quotes, where \" is no end
_QUOTED_NAMES = re.compile(r'(?P<old>"(?:[^"\\]|\\.)*"|[^"]+(?= ")) (?P<new>.+)')
_MOST_HUNKS = 2_000
_MOST_FILES = 10_000
_LONGEST_PART = 255  # bytes that file systems accept for one part of a path
_LONGEST_NAME = 1_000  # characters that the sandbox accepts for a path
_MODE_LINES = ("new file mode ", "deleted file mode ", "old mode ", "new mode ", "index ")
# Zero-width and direction marks, which some file systems ignore in names
_INVISIBLE = dict.fromkeys(
    [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
# "\ No newline at end of file", in the language of the tool; git accepts any text of this length after "\ "
_NO_NEWLINE = re.compile(r"\\ .{9,}")


class PatchError(ValueError):
    """The patch cannot be parsed or does not fit the files; the message says where."""


@dataclass
class Hunk:
    """One change: the old and the new lines, with the context at both ends."""

    start: int
    """Index of the first old line, from 0."""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    lead: int = 0
    """Context lines at the beginning."""
    trail: int = 0
    """Context lines at the end."""


@dataclass
class FilePatch:
    """All changes of one file. `old` is None if the file is created, `new` is None if it is deleted."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)
    kind: str = ""
    """What git calls it: "rename", "copy" or "". Names can also differ without a rename ("x.orig" and "x")."""
    changes_mode: bool = False
    """Has git's header a new mode (chmod)? Such a patch needs no hunk. Modes themselves are not kept."""

    @property
    def is_unnamed(self) -> bool:
        """Is neither name known? So it is below a git header from which the names cannot be told."""
        return self.old is None and self.new is None


def parse_diff(diff: str) -> list[FilePatch]:
    """Parse a unified diff, plain or written by git. Text around the patches is skipped. Raises PatchError."""
    lines = diff.split("\n")
    patches: list[FilePatch] = []
    i = 0
    hunk_count = 0
    while i < len(lines):
        if lines[i].startswith("diff --git "):
            i, patch = _parse_git_header(lines, i)
            patches.append(patch)
        elif lines[i].startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ "):
            _add_names(
                patches, _parse_name(lines[i][4:], "a/"), _parse_name(lines[i + 1][4:], "b/")
            )
            i += 2
        elif lines[i].startswith("@@ "):
            if not patches or patches[-1].is_unnamed:
                raise PatchError(f"line {i + 1}: a hunk before any file name")
            i, hunk = _parse_hunk(lines, i)
            patches[-1].hunks.append(hunk)
            hunk_count += 1
        else:
            i += 1
        if hunk_count > _MOST_HUNKS:
            raise PatchError(f"more than {_MOST_HUNKS} hunks")
    named_patches = [patch for patch in patches if not patch.is_unnamed]
    if not named_patches:
        raise PatchError("no file is named: '--- a/name' and '+++ b/name' are needed")
    for patch in named_patches:
        is_created_or_deleted = patch.old is None or patch.new is None
        needs_hunk = not (is_created_or_deleted or patch.kind or patch.changes_mode)
        if needs_hunk and not patch.hunks:
            raise PatchError(f"{patch.new}: no hunk")
        for name in (patch.old, patch.new):
            if name is not None:
                check_name(name)
    return named_patches


def _add_names(patches: list[FilePatch], old: str | None, new: str | None) -> None:
    """Add the names of a ---/+++ pair, which belong to the git header before them or begin a new file."""
    last = patches[-1] if patches else None
    if last is not None and not last.hunks:
        # "diff --git p q r s": a header from which the names cannot be told. The pair replaces it.
        if last.is_unnamed:
            patches.pop()
        else:
            # "diff --git a/x b/x", then "--- a/x" and "+++ b/x" or "/dev/null": the pair repeats a name of the header.
            # None is no name: two files that are created one after the other have only that in common.
            header_names = {last.old, last.new} - {None}
            if old in header_names or new in header_names:
                if old is None:
                    last.old = None
                if new is None:
                    last.new = None
                return
    patches.append(FilePatch(old, new))


def check_name(name: str) -> None:
    """Refuse names that lead out of the tree or into .git, and names that no file can have."""
    parts = PurePosixPath(name).parts or ("",)
    # How file systems may read the parts: in other case, without invisible characters, without NTFS streams (".git:x").
    as_stored = [
        part.translate(_INVISIBLE).lower().rstrip(" .").partition(":")[0] for part in parts
    ]
    is_bad = (
        name.startswith(("/", "~"))
        or ".." in parts
        or "\\" in name
        or ":" in parts[0]  # a Windows drive
        or ".git" in as_stored
        or "git~1" in as_stored  # the short name of .git on NTFS
        or len(name) > _LONGEST_NAME
        or any(len(part.encode("utf-8", "replace")) > _LONGEST_PART for part in parts)
        or not name.isprintable()
        or "/".join(parts) != name
    )
    if is_bad:
        raise PatchError(
            f"the path {name[:200]!r} is refused: it leads out of the tree or into .git, or no file can have it"
        )


def _parse_git_header(lines: list[str], i: int) -> tuple[int, FilePatch]:
    """Parse git's extended header of new, deleted, renamed and copied files. Returns the index of the next line."""
    names = lines[i].removeprefix("diff --git ")
    # If both names are the same, each is one half: so they can be told apart even if they contain spaces.
    half = (len(names) - 1) // 2
    left = names[:half]
    right = names[half + 1 :]
    old, separator, new = names.partition(" b/")
    quoted = _QUOTED_NAMES.fullmatch(names) if '"' in names else None
    if quoted:
        old = _unquote_name(quoted["old"]).removeprefix("a/")
        new = _unquote_name(quoted["new"]).removeprefix("b/")
        patch = FilePatch(old, new)
    elif left[:2] == "a/" and right[:2] == "b/" and left[2:] == right[2:]:
        patch = FilePatch(left[2:], right[2:])  # "a/x b/x"
    elif separator:
        patch = FilePatch(old.removeprefix("a/"), new)
    else:
        patch = FilePatch(None, None)  # it cannot be told; the lines below name the files
    i += 1
    while i < len(lines) and lines[i] and not lines[i].startswith(("--- ", "@@ ", "diff --git ")):
        line = lines[i]
        word = line.partition(" ")[0]
        if line.startswith(_MODE_LINES) and line.endswith((" 120000", " 160000")):
            what = "symbolic links" if line.endswith("120000") else "submodules"
            raise PatchError(f"line {i + 1}: {what} are refused")
        if word in ("GIT", "Binary"):
            raise PatchError(f"line {i + 1}: binary patches are not supported")
        if line.startswith("new file mode"):
            patch.old = None
        elif line.startswith("deleted file mode"):
            patch.new = None
        elif line.startswith("new mode "):
            patch.changes_mode = True
        elif line.startswith(("rename from ", "copy from ")):
            patch.old = _unquote_name(line.split(" ", 2)[2])
            patch.kind = word
        elif line.startswith(("rename to ", "copy to ")):
            patch.new = _unquote_name(line.split(" ", 2)[2])
            patch.kind = word
        i += 1
    return i, patch


def _parse_name(name: str, prefix: str) -> str | None:
    """Return the name after "--- " or "+++ ", without a time stamp; None if that side does not exist."""
    name = _unquote_name(name.split("\t", 1)[0].rstrip("\r "))
    return None if name == "/dev/null" else name.removeprefix(prefix)


def _unquote_name(name: str) -> str:
    """Decode a name that git put in quotes, with bytes in octal, because of unusual characters."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    # Each octal number, such as \303, becomes the character with that number: in Latin-1 these are the bytes.
    characters = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8) & 255), name[1:-1])
    characters = characters.replace('\\"', '"').replace("\\\\", "\\")
    return characters.encode("latin-1", "replace").decode("utf-8", "replace")


def _parse_hunk(lines: list[str], i: int) -> tuple[int, Hunk]:
    """Parse the hunk whose header is line i. Returns the index of the line after it."""
    header = i
    match = _HUNK_HEADER.match(lines[header])
    if not match:
        raise PatchError(f"line {header + 1}: {lines[header][:60]!r} is not a hunk header")
    start, old_count, _, new_count = (int(part) if part else 1 for part in match.groups())
    # With no old lines, `start` is the line after which to insert.
    hunk = Hunk(start - 1 if old_count else start)
    sign = ""  # of the last line: " " for context, "-" or "+"
    has_change = False
    i += 1
    while i < len(lines):
        line = lines[i]
        if _NO_NEWLINE.match(line):
            # It is about the line before it, which has no end of line then; "" if there is no line before it.
            if sign in (" ", "-"):
                hunk.before[-1] = hunk.before[-1].removesuffix("\n")
            if sign in (" ", "+"):
                hunk.after[-1] = hunk.after[-1].removesuffix("\n")
            i += 1
            continue
        is_complete = len(hunk.before) >= old_count and len(hunk.after) >= new_count
        if is_complete or line[:1] not in ("", " ", "+", "-"):
            break
        sign = line[:1] or " "  # some tools strip the space of an empty context line
        content = line[1:] + "\n"
        if sign in (" ", "-"):
            hunk.before.append(content)
        if sign in (" ", "+"):
            hunk.after.append(content)
        if sign == " ":
            hunk.trail += 1
            if not has_change:
                hunk.lead += 1
        else:
            hunk.trail = 0
            has_change = True
        i += 1
    if (len(hunk.before), len(hunk.after)) != (old_count, new_count):
        raise PatchError(
            f"line {header + 1}: the hunk's header says -{old_count} +{new_count} lines, its body differs"
        )
    next_line = lines[i] if i < len(lines) else ""
    # "--- " begins the next file, "-- " the signature of a mail.
    begins_something_else = next_line.startswith(("--- ", "-- "))
    if next_line[:1] in ("+", "-", " ") and next_line.strip() and not begins_something_else:
        raise PatchError(
            f"line {i + 1}: more lines than the hunk's header (line {header + 1}) says"
        )
    return i, hunk


def apply_patches(
    patches: list[FilePatch], files: Mapping[str, str], *, fuzz: int = 0
) -> dict[str, str]:
    """Return the files after all patches. `files` itself is not changed. Raises PatchError if a patch does not fit."""
    tree = dict(files)
    for patch in patches:
        old = patch.old
        new = patch.new
        if old and new and not patch.kind:
            # "--- x.orig" and "+++ x" mean one file: the one that exists. So do "--- a/x" and "+++ a/x", which are read
            # as "x" and "a/x": they may have been written for either name.
            old = new if new in tree else old
            new = old
        name = new or old or ""
        if old is None and new in tree:
            raise PatchError(f"{name}: to be created, but it exists")
        if old is not None and old not in tree:
            raise PatchError(f"{old}: no such file")
        if new not in (None, old) and new in tree:
            raise PatchError(f"{name}: the new name exists")
        text = _apply_hunks(patch.hunks, name, tree[old] if old else "", fuzz)
        if new is None and text:
            raise PatchError(
                f"{name}: to be deleted, but {text.count(chr(10)) or 1} lines would remain"
            )
        if old is not None and patch.kind != "copy":
            del tree[old]
        if new is not None:
            tree[new] = text
    if len(tree) > max(_MOST_FILES, len(files)):
        raise PatchError(f"more than {_MOST_FILES} files")
    folders = {str(folder) for name in tree for folder in PurePosixPath(name).parents}
    in_both = sorted(folders & tree.keys())
    if in_both:
        raise PatchError(f"{in_both[0]}: would be both a file and a folder")
    return tree


def _apply_hunks(hunks: list[Hunk], name: str, text: str, fuzz: int) -> str:
    """Return the text of the file `name` after all hunks. Raises PatchError if one does not match."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    if not lines[-1]:
        lines.pop()
    result: list[str] = []
    # Each different line stands for one character here, so that hunks are found by searching a string.
    codes: dict[str, str] = {}

    def encode(block: list[str]) -> str:
        return "".join(codes.setdefault(line, chr(len(codes))) for line in block)

    content = encode(lines)
    done = 0  # lines of the old text that are already in the result
    shift = 0  # by how many lines the last hunk had moved: the next one has probably moved as far
    for number, hunk in enumerate(hunks, 1):
        place = _find_place(content, encode(hunk.before), hunk, done, hunk.start + shift, fuzz)
        if place is None:
            raise PatchError(
                f"{name}: hunk {number} (line {hunk.start + 1}) does not match the file"
            )
        at, head, tail = place
        shift = at - head - hunk.start
        result += lines[done:at]
        result += hunk.after[head : len(hunk.after) - tail]
        done = at + len(hunk.before) - head - tail
    return "".join(result + lines[done:])


def _find_place(
    content: str, before: str, hunk: Hunk, first: int, expected: int, fuzz: int
) -> tuple[int, int, int] | None:
    """Find where the hunk matches, from line `first` on; None if it does not.

    `content` and `before` are the file and the old lines of the hunk, one character for each line. Returns the line,
    and how many context lines were ignored at the head and at the tail of the hunk.
    """
    for ignored in range(fuzz + 1):
        head = min(ignored, hunk.lead)
        tail = min(ignored, hunk.trail)
        needle = before[head : len(before) - tail]
        if not needle:  # nothing to search for: the hunk can only fill an empty file
            return (0, head, tail) if not content and not before else None
        # As in git: a hunk for line 1 matches at the beginning only, one without context after it at the end only.
        # Once context is ignored, it may match anywhere.
        is_for_beginning = ignored == 0 and hunk.start == 0
        is_for_end = ignored == 0 and hunk.trail == 0
        place = -1
        if is_for_beginning and is_for_end:
            if first == 0 and content == needle:
                place = 0
        elif is_for_beginning:
            if first == 0 and content.startswith(needle):
                place = 0
        elif is_for_end:
            last_place = len(content) - len(needle)
            if last_place >= first and content.endswith(needle):
                place = last_place
        else:
            place = _find_nearest(content, needle, first, expected + head)
        if place >= 0:
            return place, head, tail
    return None


def _find_nearest(content: str, needle: str, first: int, target: int) -> int:
    """Find the place of the needle that is nearest to the target, from `first` on; -1 if there is none."""
    after = content.find(needle, max(first, target))
    # Reversed, because `find` takes linear time for any text, and `rfind` does not.
    earlier = content[first : max(first, target + len(needle) - 1)]
    from_end = earlier[::-1].find(needle[::-1])
    if from_end < 0:
        return after
    before = first + len(earlier) - from_end - len(needle)
    is_nearer = after < 0 or target - before <= after - target
    return before if is_nearer else after
