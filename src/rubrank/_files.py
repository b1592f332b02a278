"""Files: read as UTF-8 text, written without harm to what was there, and SQLite that several processes may open.

open_text("rollouts.jsonl.zst")                     lines of UTF-8, decompressed; other bytes are one clear error
output_at("scores.parquet", SUFFIXES, inputs=[…])   before work begins: suffix, folder, room, what is there already
with replacing(path) as temporary: …                the file appears when it is complete, or stays as it was
connect("verdicts.sqlite", schema)                  a connection in WAL mode; no transactions of its own accord
set_aside("verdicts.sqlite")                        a damaged store → verdicts.sqlite.damaged, with what belongs to it
"""

from __future__ import annotations

import glob
import gzip
import io
import logging
import os
import secrets
import shutil
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rubrank.errors import InvalidInput

PACKED = (".gz", ".zst")
"""Suffixes of compressed files that are read as what is in them."""
_LEAST_ROOM = 1 << 20  # bytes; with less nothing can be written

# -------------------------------------------------------------------------------------------------------------- reading


def existing_file(
    path: str | Path,
    error_type: type[InvalidInput] = InvalidInput,
    *,
    owner: str = "",
    what: str = "",
    remedy: str = "",
) -> Path:
    """The path of a file that can be read; one message where it cannot.

    owner, what: the file and the key that name it, where it was not named by a user directly.
    """
    path = Path(path)
    who, which = (owner, f"{what} {path}") if owner else (str(path), "the file")
    try:
        folder = path.is_dir()
        if not folder:
            with path.open("rb"):
                return path
    except OSError as error:
        got = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
        raise error_type(who, which, "a file that can be read", got, remedy) from None
    except ValueError:  # a zero byte in the name
        raise error_type(repr(str(path)), "the file", "a file that can be read", "no such file", "") from None
    raise error_type(who, which, "a file", "a folder", remedy)


def unpacked_suffix(path: str | Path) -> str:
    """The suffix in small letters, without that of a compression: ".csv" of "Scores.CSV.gz"."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()


def wrong_suffix(
    path: str | Path,
    suffixes: Sequence[str],
    *,
    owner: str = "",
    what: str = "the file",
    remedy: str = "",
    error_type: type[InvalidInput] = InvalidInput,
) -> InvalidInput:
    """The one message about a file whose name ends in none of the suffixes."""
    *others, last = suffixes
    allowed = f"a file that ends in {', '.join(others) + ' or ' if others else ''}{last}"
    return error_type(owner or str(Path(path)), what, allowed, repr(Path(path).name or str(path)), remedy)


def open_bytes(path: Path) -> Any:
    """The bytes of a file, decompressed if its name says that it is compressed."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")  # closes the file itself, which a GzipFile over an open file does not
    return unpacked(path.open("rb"), path)


def unpacked(file: IO[bytes], path: Path) -> Any:
    """An open file as what is in it, by its name."""
    packed = path.suffix.lower()
    if packed == ".gz":
        return gzip.GzipFile(fileobj=file)
    return io.BufferedReader(_Zstd(file, path)) if packed == ".zst" else file


class _Zstd(io.RawIOBase):
    """What is in the frames of a .zst, one after another; a frame that was cut off is an error, as in a .gz.

    The package's own reader ends there without a word.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._new = file, zstandard_for(path).ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._packed = self._text = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            self._packed = self._packed or self._file.read(1 << 16)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("Compressed file ended before the end of a frame")
                return 0
            frame = self._frame or self._new()
            self._text = frame.decompress(self._packed)
            self._packed, self._frame = frame.unused_data, None if frame.eof else frame
        part = self._text[: len(buffer)]
        self._text = self._text[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


def rotated(path: Path) -> list[Path]:
    """The files of a run that begins a new one now and then: records.000100.jsonl and its kin of records.jsonl."""
    packed = path.suffix if path.suffix in PACKED else ""
    suffix = Path(path.name.removesuffix(packed)).suffix + packed
    stem, length = path.name.removesuffix(suffix), len(path.name) + 7
    try:
        some = list(path.parent.glob(f"{glob.escape(stem)}.*{glob.escape(suffix)}"))
    except (OSError, ValueError):
        return []
    found = [one for one in some if len(one.name) >= length and one.name[len(stem) + 1 : -len(suffix)].isdigit()]
    return sorted(found, key=lambda one: int(one.name[len(stem) + 1 : -len(suffix)]))


def zstandard_for(path: Path) -> Any:
    """The package that decompresses .zst; one clear error if it is not installed."""
    try:
        import zstandard
    except ImportError:
        remedy = "Run `pip install zstandard`, or decompress it."
        raise InvalidInput(str(path), "the file", "readable with what is installed", "zstd", remedy) from None
    return zstandard


@contextmanager
def open_text(path: str | Path) -> Iterator[IO[str]]:
    """The text of a file, decompressed, line ends as they are. Raises one clear error if it is not UTF-8 or damaged."""
    path = existing_file(path)
    with in_our_words_of(path), open_bytes(path) as raw:
        yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


@contextmanager
def in_our_words_of(path: str | Path, error_type: type[InvalidInput] = InvalidInput) -> Iterator[None]:
    """Errors of bytes that cannot be decoded or decompressed, as errors of this file."""
    try:
        yield
    except UnicodeDecodeError:
        raise not_utf8(path, error_type=error_type) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise error_type(str(path), "the file", "readable to its end", str(error), "Copy it again.") from None
    except Exception as error:
        if type(error).__name__ != "ZstdError":
            raise
        raise error_type(str(path), "the file", "readable to its end", str(error), "Copy it again.") from None


def not_utf8(path: str | Path, where: str = "the file", error_type: type[InvalidInput] = InvalidInput) -> InvalidInput:
    """The one message about text in another encoding."""
    return error_type(str(path), where, "UTF-8 text", "other bytes", "Save it as UTF-8.")


def read_text(path: str | Path) -> str:
    """All of a text file."""
    with open_text(path) as file:
        return file.read()


# -------------------------------------------------------------------------------------------------------------- writing


def output_at(
    path: str | Path,
    suffixes: Sequence[str] = (),
    *,
    inputs: Iterable[Any] = (),
    force: bool = False,
    verb: str = "",
    flag: str = "--output",
) -> Path:
    """Where to write, after everything that can be known before any work: raises if it could not be written.

    suffixes: allowed ones; none: any. inputs: files that must never be overwritten. force: replace what is there.
    verb, flag: who asks, and what its user wrote the path behind; both are named in errors.
    """
    path, owner = Path(path), verb or "output"
    if suffixes and not path.name.lower().endswith(tuple(suffixes)) and not _is_device(path):
        raise wrong_suffix(path, suffixes, owner=owner, what=flag)
    target = path.resolve()
    if target.is_dir():
        raise InvalidInput(owner, flag, "a file", f"the folder {path}", "")
    for source in inputs:
        if isinstance(source, str | Path) and _same_file(target, Path(source)):
            raise InvalidInput(owner, flag, "another file than the input", str(path), "")
    if target.exists() and target.is_file() and not force:
        raise InvalidInput(owner, flag, "a new file", f"{path}, which exists", "--force replaces it.")
    check_folder(path, owner=owner, what=flag)
    return target


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _same_file(target: Path, source: Path) -> bool:
    try:
        return target.exists() and target.samefile(source)
    except (OSError, ValueError):
        return False


def check_folder(path: Path, *, owner: str, what: str) -> None:
    """The folder of a file is there, or can be made, and has room. owner, what: named in errors."""
    if "\0" in str(path):
        raise InvalidInput(owner, what, "a path", repr(str(path)), "")
    target = path.resolve()
    folder = next((parent for parent in target.parents if parent.exists()), target.parent)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(owner, what, "in a folder that can be written to", str(path), "")
    if shutil.disk_usage(folder).free < _LEAST_ROOM:
        raise InvalidInput(owner, what, "on a disk with room left", str(path), "Free some space.")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file beside the target, which takes its place at the end; after an error the target is as it was.

    Folders are made. What is no regular file, such as /dev/stdout, is written to directly.
    """
    target = Path(path).resolve()
    if _is_device(target):
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with _full_disk_in_words(path):
            yield temporary
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


_FULL = ("no space left", "disk quota exceeded", "file too large", "disk full", "database or disk is full")


@contextmanager
def _full_disk_in_words(path: str | Path) -> Iterator[None]:
    """A disk that fills up, and text that no file can hold, as one clear error, whichever library met them."""
    try:
        yield
    except InvalidInput:
        raise
    except UnicodeEncodeError as error:
        got = ascii(error.object[max(0, error.start - 20) : error.end + 20])
        remedy = "Change the id or name, or write .jsonl, which escapes it."
        raise InvalidInput(str(path), "the output", "text without lone surrogates", got, remedy) from None
    except Exception as error:
        if not any(word in str(error).lower() for word in _FULL):
            raise
        remedy = "What was there before is as it was; free some space, and run it again."
        raise InvalidInput(str(path), "the output", "on a disk with room left", "a full disk", remedy) from None


# --------------------------------------------------------------------------------------------------------------- SQLite

PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_PAUSE = 0.01
_GLANCE = 4096
_HEADER = b"SQLite format 3\x00"
_BROKEN = ("malformed", "not a database", "disk image", "corrupt", "unsupported file format")

_log = logging.getLogger("rubrank")


class _Cursor(sqlite3.Cursor):
    """Rows are read while no process is forked; see `_Connection`."""

    connection: _Connection

    def fetchone(self) -> Any:
        with self.connection.alone:
            return super().fetchone()

    def fetchall(self) -> list[Any]:
        with self.connection.alone:
            return super().fetchall()

    def __next__(self) -> Any:
        with self.connection.alone:
            return super().__next__()


class _Connection(sqlite3.Connection):
    """One that a forked process does not inherit.

    There SQLite would believe that it holds the locks of its parent, and two processes would write over each other. So
    a fork waits until every connection is at rest, between transactions, and the child closes its copies.
    """

    def __init__(self, path: str | Path, *args: Any, **options: Any) -> None:
        self.path, self.alone, self._in_transaction = os.path.realpath(path), threading.RLock(), False
        with _opening:
            super().__init__(path, *args, **options)
            _connections.add(self)

    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def execute(self, *args: Any) -> sqlite3.Cursor:
        return self._alone(super().execute, *args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        return self._alone(super().executemany, *args)

    def executescript(self, *args: Any) -> sqlite3.Cursor:
        return self._alone(super().executescript, *args)

    def close(self) -> None:
        with _opening, self.alone:
            _connections.discard(self)
            super().close()

    def _alone(self, do: Callable[..., sqlite3.Cursor], *args: Any) -> sqlite3.Cursor:
        """The lock stays taken while a transaction is open."""
        self.alone.acquire()
        try:
            return do(*args)
        finally:
            was, self._in_transaction = self._in_transaction, self.in_transaction
            for _ in range(1 + was - self._in_transaction):
                self.alone.release()


_opening = threading.RLock()
_connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
_held: list[_Connection] = []
"""While a process is forked."""
_left: list[_Connection] = []
_unusable: set[str] = set()
"""Files whose connections were not at rest in time: a forked process leaves them alone."""
_REST = 10.0  # seconds


def _before_fork() -> None:
    end = time.monotonic() + _REST
    _opening.acquire()
    _held[:] = [db for db in list(_connections) if db.alone.acquire(timeout=max(end - time.monotonic(), 0.01))]


def _after_fork() -> None:
    for db in _held:
        db.alone.release()
    _held.clear()
    _opening.release()


def _in_child() -> None:
    at_rest = [db for db in _held if not db.in_transaction]
    _left.extend(db for db in _connections if db not in at_rest)  # closing them would undo what the parent is writing
    _unusable.update(db.path for db in _left)
    for db in at_rest:
        db.close()
    _connections.clear()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def connect(path: str | Path, schema: str = "") -> sqlite3.Connection:
    """Open a file, or make it, for its owner alone. schema: statements to run first, such as CREATE … IF NOT EXISTS."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if os.path.realpath(path) in _unusable:
        raise sqlite3.OperationalError("in use by the process that this one was forked from: start it with spawn")
    options: Any = {"isolation_level": None, "check_same_thread": False, "factory": _Connection}
    db = sqlite3.connect(path, timeout=PATIENCE, **options)
    try:
        _into_wal(db)
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(schema)
    except BaseException:
        db.close()
        raise
    return db


def open_store(path: Path, schema: str, what: str) -> sqlite3.Connection:
    """The same with its folder; a damaged file is set aside, and begun anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return connect(path, schema)
    except sqlite3.DatabaseError as error:
        if not is_damaged(path, error):
            raise
        set_aside(path, what)
        return connect(path, schema)


def _into_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait by itself where the mode of the file is changed by two at once."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)


def is_damaged(path: str | Path, error: Exception) -> bool:
    """Is this the error of a broken SQLite file? A file that never was one is left alone."""
    if not isinstance(error, sqlite3.DatabaseError) or not any(word in str(error) for word in _BROKEN):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(_GLANCE)
    except OSError:
        return False
    return start.startswith(_HEADER) or b"\x00" in start or _is_binary(start) or Path(f"{path}-wal").exists()


def _is_binary(start: bytes) -> bool:
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start < len(start) - 4  # a character may be cut off at the end
    return False


def set_aside(path: str | Path, what: str) -> Path:
    """Rename a broken store, so that a new one can be made; said in one line. Returns where it is now."""
    for number in range(1, 1000):
        aside = Path(f"{path}.damaged{'' if number == 1 else f'-{number}'}")
        if not aside.exists():
            break
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    _log.warning("%s: %s is damaged; it is renamed to %s, and a new one is started", what, path, aside.name)
    return aside
