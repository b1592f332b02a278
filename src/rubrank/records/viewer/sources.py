"""The files of a run as plain local files that may still grow.

    part = part_of(Path("records.jsonl.gz")); part.advance(); part.local, part.size

A folder is all its records files, in the order of their names, numbers read as numbers: records.2 before records.10.
What is compressed, or Parquet, is unpacked into a temporary file as it grows; memory stays small whatever its size.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rubrank._files import explain_read_errors, import_zstandard, require_file, suffix_error
from rubrank.errors import InvalidInput
from rubrank.records.files import SUFFIXES, record_files

_BLOCK = 1 << 22
_AT_ONCE = 1 << 26  # bytes that one call of `advance` unpacks
_CHECKED = 256  # bytes before the end of what was read, to see that they are still the same


def paths_of(source: Path) -> list[Path]:
    """The records files of a file, a folder, a pattern, or a name that is rotated."""
    return record_files(source, missing_ok=True)


def check_source(source: Path) -> Path:
    """The path, if there is something to look at; raises if not."""
    if not source.exists() and not paths_of(source):
        require_file(source)
    if source.is_dir() and not paths_of(source):
        allowed = f"a folder with files that end in {', '.join(SUFFIXES)}"
        raise InvalidInput("view", "RECORDS", allowed, f"{source}, which has none", "")
    if source.is_file() and not source.name.endswith(SUFFIXES):
        raise suffix_error(source, SUFFIXES, owner="view", what="RECORDS")
    return source


def part_of(path: Path) -> RecordsPart:
    """The part of a run that a file is."""
    if path.name.endswith(".jsonl"):
        return RecordsPart(path)
    return _Parquet(path) if path.suffix == ".parquet" else _Packed(path)


class RecordsPart:
    """A plain file."""

    def __init__(self, path: Path) -> None:
        self.path = self.local = path
        self.size = 0
        """Bytes of `local` that can be read."""
        self.done = True
        """Was everything that is there at present unpacked?"""
        self.total = 0
        """Bytes of the file itself."""
        self.problem = ""
        """Why it cannot be read on; what was read stays."""
        self._inode: int | None = None

    def advance(self) -> bool:
        """Look what is there now; False: it is another file than before, or shorter, and must be read anew."""
        found = self.path.stat()
        same = self._inode in (None, found.st_ino) and found.st_size >= self.total
        self._inode, self.total = found.st_ino, found.st_size
        return same and self._more()

    def _more(self) -> bool:
        self.size = self.total
        return True

    def before(self, end: int) -> bytes:
        """The last bytes before a place: as long as they are the same, so is the file."""
        with self.local.open("rb") as file:
            file.seek(max(0, end - _CHECKED))
            return file.read(min(end, _CHECKED))

    def close(self) -> None:
        """Give back what was taken."""


class _Spooled(RecordsPart):
    """A file whose lines are in a temporary one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._spool = tempfile.NamedTemporaryFile(prefix="rubrank-view-", suffix=".jsonl")  # noqa: SIM115
        self.local, self._read = Path(self._spool.name), 0
        """How far the file itself was read."""

    def close(self) -> None:
        self._spool.close()


class _Packed(_Spooled):
    """A compressed file; new members and frames are appended by loggers."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        new = partial(zlib.decompressobj, 31) if path.suffix == ".gz" else _zstd(path)
        self._unpack = _unpacking(new)

    def _more(self) -> bool:
        budget = _AT_ONCE
        try:
            with explain_read_errors(self.path), self.path.open("rb") as file:
                file.seek(self._read)
                while not self.problem and budget > 0 and (block := file.read(_BLOCK)):
                    self._read += len(block)
                    for made in self._unpack(block):
                        self._spool.write(made)
                        budget -= len(made) + 1
        except InvalidInput as error:
            self.problem = str(error)
        self._spool.flush()
        self.size, self.done = self._spool.tell(), bool(self.problem) or self._read >= self.total
        return True


class _Parquet(_Spooled):
    """A file that `write_records` made, complete when it appears; its records become lines."""

    def _more(self) -> bool:
        import polars

        if not self.problem and (self._read == 0 or not self.done):
            try:
                whole = polars.scan_parquet(self.path, glob=False).select("record")
                some = whole.slice(self._read, 1000).collect()["record"]
            except polars.exceptions.PolarsError as error:
                self.problem, self.done = f"{self.path}: {str(error).splitlines()[0]}", True
                return True
            self._spool.writelines(line.encode() + b"\n" for line in some)
            self._spool.flush()
            self._read += len(some)
            self.size, self.done = self._spool.tell(), len(some) < 1000
        return True


def _unpacking(new: Callable[[], Any]) -> Callable[[bytes], Iterator[bytes]]:
    """A function from compressed blocks to what is in them, over any number of members or frames."""
    state = new()

    def unpack(block: bytes) -> Iterator[bytes]:
        nonlocal state
        while block:
            yield state.decompress(block)
            if not state.eof:
                break
            block, state = state.unused_data.lstrip(b"\0"), new()

    return unpack


def _zstd(path: Path) -> Callable[[], Any]:
    packer = import_zstandard(path)
    return lambda: packer.ZstdDecompressor().decompressobj()


def read_at(part: RecordsPart, offset: int, length: int) -> bytes:
    """Some bytes of a part."""
    descriptor = os.open(part.local, os.O_RDONLY)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)
