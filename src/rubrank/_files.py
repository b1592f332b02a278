"""Read files as UTF-8 text, decompressed if necessary, and write them atomically.

    require_file("scores.csv")                           the path, or one clear error
    open_text("rollouts.jsonl.zst")                      lines of UTF-8, decompressed
    check_output_path("scores.parquet", SUFFIXES, …)     before any work: suffix, folder, free space, existing file
    with atomic_write(path) as temporary: …              the file appears when it is complete, or stays as it was

Errors are `InvalidInput` about the file.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rubrank.errors import InvalidInput

COMPRESSED = (".gz", ".zst")
"""Suffixes of compressed files, which are decompressed when they are read."""
_MIN_FREE_SPACE = 1 << 20  # bytes
# Temporary files are called .NAME.RANDOM.rubrank.tmp, such as ".scores.parquet.0a1b2c3d.rubrank.tmp".
# NAME is only the start of the target's name, because file names may have at most 255 bytes.
_MOST_NAME_CHARACTERS = 40
_ABANDONED_SECONDS = 86400.0  # age at which a temporary file is removed: its process was killed
# The phrases with which operating systems and libraries report a full disk.
_DISK_FULL = (
    "no space left",
    "disk quota exceeded",
    "file too large",
    "disk full",
    "database or disk is full",
)

# ------------------------------------------------------------------------------------------------------------- reading


def require_file(
    path: str | Path,
    error_type: type[InvalidInput] = InvalidInput,
    *,
    owner: str = "",
    what: str = "",
    remedy: str = "",
) -> Path:
    """Return the path of a file that can be read. Raises InvalidInput if it cannot be read.

    owner, what: if the path comes from another file (such as a file of judges), that file and the key in it.
    """
    path = Path(path)
    parameter = f"{what} {path}" if owner else "the file"
    owner = owner or str(path)[:300]
    allowed = "a file that can be read"
    try:
        if not path.is_dir():
            with path.open("rb"):
                return path
        allowed = "a file"
        got = "a folder"
    except FileNotFoundError:
        got = "no such file"
    except OSError as error:
        got = (error.strerror or str(error)).lower()
    except ValueError:  # a zero byte in the name
        owner = repr(str(path))
        parameter = "the file"
        got = "no such file"
    raise error_type(owner, parameter, allowed=allowed, got=got, remedy=remedy)


def data_suffix(path: str | Path) -> str:
    """Return the suffix in lower case, without that of a compression: "Scores.CSV.gz" → ".csv"."""
    path = Path(path)
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.suffix.lower()


def suffix_error(
    path: str | Path,
    suffixes: Sequence[str],
    *,
    owner: str = "",
    what: str = "the file",
    remedy: str = "",
    error_type: type[InvalidInput] = InvalidInput,
) -> InvalidInput:
    """Return the error about a file whose name ends in none of the suffixes."""
    listed = suffixes[-1]
    if len(suffixes) > 1:
        listed = f"{', '.join(suffixes[:-1])} or {listed}"
    got = repr(Path(path).name or str(path))
    return error_type(
        owner or str(Path(path)),
        what,
        allowed=f"a file that ends in {listed}",
        got=got,
        remedy=remedy,
    )


def open_bytes(path: Path) -> Any:
    """Open a file to read its bytes, decompressed if its name says that it is compressed."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return gzip.open(path, "rb")
    if suffix == ".zst":
        return io.BufferedReader(_ZstdReader(path.open("rb"), path))
    return path.open("rb")


class _ZstdReader(io.RawIOBase):
    """Reads a .zst file of one or more frames. A truncated frame raises EOFError, as in a .gz file.

    The reader of the zstandard package would end there without an error.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._new_frame = import_zstandard(path).ZstdDecompressor().decompressobj
        # The decompressor of the frame that is being read; None between frames
        self._frame: Any = None
        self._compressed = b""  # bytes of the file that no frame has taken yet
        self._data = b""  # decompressed bytes that nobody has read yet

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with decompressed bytes; returns how many, 0 at the end of the file."""
        while not self._data:
            if not self._compressed:
                self._compressed = self._file.read(1 << 16)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("Compressed file ended before the end of a frame")
                return 0
            frame = self._frame or self._new_frame()
            self._data = frame.decompress(self._compressed)
            self._compressed = frame.unused_data
            self._frame = None if frame.eof else frame
        chunk = self._data[: len(buffer)]
        self._data = self._data[len(chunk) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()


def import_zstandard(path: Path) -> Any:
    """Import the package that decompresses .zst. Raises InvalidInput about `path` if it is not installed."""
    try:
        import zstandard
    except ImportError:
        raise InvalidInput(
            str(path),
            "the file",
            allowed="in a format that the installed packages can read",
            got="a zstd file",
            remedy="Run `pip install zstandard`, or decompress the file.",
        ) from None
    return zstandard


def find_rotated(path: Path) -> list[Path]:
    """Find the parts of a file that a run wrote in parts, in order: records.000100.jsonl, … of records.jsonl."""
    # records.jsonl.gz has the stem "records" and the suffix ".jsonl.gz".
    compression = path.suffix if path.suffix in COMPRESSED else ""
    suffix = Path(path.name.removesuffix(compression)).suffix + compression
    stem = path.name.removesuffix(suffix)
    try:
        candidates = list(path.parent.glob(f"{glob.escape(stem)}.*{glob.escape(suffix)}"))
    except (OSError, ValueError):
        return []
    number_of_part: dict[Path, int] = {}
    for candidate in candidates:
        number = candidate.name[len(stem) + 1 : -len(suffix)]
        # Parts are numbered with six digits or more; records.2024.jsonl is another file.
        if number.isdecimal() and len(number) >= 6:
            number_of_part[candidate] = int(number)
    return sorted(number_of_part, key=lambda part: number_of_part[part])


@contextmanager
def open_text(path: str | Path) -> Iterator[IO[str]]:
    """Open a text file, decompressed, with line ends as they are; an error if it is not UTF-8 or damaged."""
    path = require_file(path)
    with explain_read_errors(path), open_bytes(path) as raw:
        yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def read_text(path: str | Path) -> str:
    """Return the whole content of a text file; see `open_text`."""
    with open_text(path) as file:
        return file.read()


@contextmanager
def explain_read_errors(
    path: str | Path, error_type: type[InvalidInput] = InvalidInput
) -> Iterator[None]:
    """Raise errors of decoding and decompression as errors about this file."""
    try:
        yield
    except UnicodeDecodeError:
        raise encoding_error(path, error_type=error_type) from None
    except Exception as error:
        # zstandard may not be installed, so its error class is checked by name.
        is_damage = (
            isinstance(error, EOFError | zlib.error | gzip.BadGzipFile)
            or type(error).__name__ == "ZstdError"
        )
        if not is_damage:
            raise
        raise error_type(
            str(path),
            "the file",
            allowed="readable to its end",
            got=str(error),
            remedy="Copy it again.",
        ) from None


def encoding_error(
    path: str | Path, where: str = "the file", error_type: type[InvalidInput] = InvalidInput
) -> InvalidInput:
    """Return the error about text that is not UTF-8."""
    return error_type(
        str(path),
        where,
        allowed="UTF-8 text",
        got="other bytes",
        remedy="Save it as UTF-8.",
    )


# ------------------------------------------------------------------------------------------------------------- writing


def check_output_path(
    path: str | Path,
    suffixes: Sequence[str] = (),
    *,
    inputs: Iterable[Any] = (),
    force: bool = False,
    verb: str = "",
    option: str = "output",
) -> Path:
    """Return the resolved path of an output. Raises InvalidInput, before any work is done, if it cannot be written.

    suffixes: those allowed; (): any. inputs: files that must never be overwritten. force: replace an existing file.
    verb, option: the command and the option that gave the path, for errors.
    """
    path = Path(path)
    owner = verb or "output"
    target = path.resolve()
    if _is_device(path):
        return target
    if suffixes and not path.name.lower().endswith(tuple(suffixes)):
        raise suffix_error(path, suffixes, owner=owner, what=option)
    if target.is_dir():
        raise InvalidInput(owner, option, allowed="a file", got=f"the folder {path}")
    for source in inputs:
        if not isinstance(source, str | Path):
            continue
        is_same_file = False
        # The source may be a pattern, or a name that does not exist.
        with suppress(OSError, ValueError):
            is_same_file = target.exists() and target.samefile(source)
        if is_same_file:
            raise InvalidInput(owner, option, allowed="another file than the input", got=str(path))
    if target.is_file() and not force:
        raise InvalidInput(
            owner,
            option,
            allowed="a new file",
            got=f"{path}, which exists",
            remedy="Use `force=true` to replace it.",
        )
    check_folder(path, owner=owner, what=option)
    return target


def check_folder(path: Path, *, owner: str, what: str) -> None:
    """Raise InvalidInput if the folder of a file cannot be written to or created, or its disk is full.

    owner, what: the command and its option, for the error.
    """
    if "\0" in str(path):
        raise InvalidInput(owner, what, allowed="a path", got=repr(str(path)))
    target = path.resolve()
    # Missing folders will be created in the nearest one that exists.
    folder = next((parent for parent in target.parents if parent.exists()), target.parent)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(owner, what, allowed="in a folder that can be written to", got=str(path))
    if shutil.disk_usage(folder).free < _MIN_FREE_SPACE:
        raise InvalidInput(
            owner,
            what,
            allowed="on a disk with room left",
            got=str(path),
            remedy="Free some space.",
        )


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces the target at the end; after an error the target is unchanged.

    Folders are created. A device such as /dev/stdout is written to directly. Temporary files of this target that killed
    processes left behind are removed after a day.
    """
    if _is_device(
        Path(path)
    ):  # before it is resolved: /dev/stdout may lead to a pipe, which has no path
        yield Path(path)
        return
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    start = f".{target.name[:_MOST_NAME_CHARACTERS]}"
    for abandoned in target.parent.glob(f"{glob.escape(start)}*.rubrank.tmp"):
        with suppress(OSError):  # another process may remove it at the same time
            if time.time() - abandoned.stat().st_mtime > _ABANDONED_SECONDS:
                abandoned.unlink()
    temporary = target.with_name(f"{start}.{secrets.token_hex(4)}.rubrank.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            # Without this a power cut can leave the new name with half of its content.
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except InvalidInput:
        raise
    except UnicodeEncodeError as error:
        raise InvalidInput(
            str(path),
            "the output",
            allowed="text without lone surrogates",
            got=ascii(error.object[max(0, error.start - 20) : error.end + 20]),
            remedy="Change the id or name, or write .jsonl, which escapes it.",
        ) from None
    except Exception as error:
        # Libraries report a full disk with different errors, so the message is checked.
        if not any(phrase in str(error).lower() for phrase in _DISK_FULL):
            raise
        raise InvalidInput(
            str(path),
            "the output",
            allowed="on a disk with room left",
            got="a full disk",
            remedy="What was there before is unchanged. Free some space, and run it again.",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    """Return whether it is a device or a pipe, such as /dev/stdout."""
    return path.exists() and not path.is_file() and not path.is_dir()
