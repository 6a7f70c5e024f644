"""Compiled stages on disk, by content: the key is a digest of everything that changes the output.

An entry is one file, written beside its place and renamed into it, so that a reader sees the whole of it or none; its
head holds a checksum, so that a file which a crash or a full disk cut short counts as absent and is made again. Two
writers of one key write the same bytes, and either may win.

The folder keeps to a limit, 4 GiB or what LEGO_MLIR_CACHE_LIMIT says: now and then a write removes the entries that
were not used for the longest time.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     cache = Cache(Path(folder))
...     k = key("ptx", b"define ...", "sm_80")
...     cache.read(k), cache.write(k, b".version 8.0"), cache.read(k)
(None, None, b'.version 8.0')
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import CacheError, CacheWarning, UsageError

if TYPE_CHECKING:
    from lego_mlir.aliases import Json

OWN: Final = 0o700
"""The mode of folders whose files are executed: for their owner alone."""
LIMIT: Final = "LEGO_MLIR_CACHE_LIMIT"
"""The environment variable that limits a cache, in bytes or as 500MB, 4GiB."""
_DEFAULT_LIMIT: Final = 4 << 30
_UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_LOOKED_AT: Final = 64
"""Writes, on average, for each that looks at the size of the whole folder."""
_DAY: Final = 86_400.0
_MAGIC: Final = b"lego-mlir cache entry 1\n"
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
# A folder that is right and cannot take more: compiling goes on without it.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def from_json(text: str | bytes) -> Json:
    """The data of a JSON text. Raises ValueError for other text, and for one that nests deeper than Python recurses."""
    try:
        data: Json = json.loads(text)
        return data
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def default_folder() -> Path:
    """Where compiled stages are kept: `$XDG_CACHE_HOME/lego-mlir`, else `~/.cache/lego-mlir`.

    Raises CacheError for a user without a home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "lego-mlir"
    except RuntimeError as error:
        raise CacheError(
            "this user has no home folder to keep compiled stages in; set XDG_CACHE_HOME, choose a folder with "
            "--cache-dir, or go without with --no-cache"
        ) from error


def limit() -> int:
    """The bytes that the cache may keep. Raises UsageError where LEGO_MLIR_CACHE_LIMIT is no size."""
    text = os.environ.get(LIMIT)
    return bytes_in(text, f"{LIMIT}={text!r}") if text else _DEFAULT_LIMIT


def bytes_in(text: str, given: str) -> int:
    """The bytes of a size such as 4GiB. Raises UsageError for other text, which the message calls as it was `given`.

    >>> bytes_in("500MB", ""), bytes_in("4 GiB", ""), bytes_in("1000", "")
    (500000000, 4294967296, 1000)
    """
    digits = text.strip().rstrip("BGIKMbgikm").rstrip()
    unit = text.strip()[len(digits) :].strip().upper()
    if not (digits.isascii() and digits.isdigit() and unit in _UNITS):
        raise UsageError(f"{given} is no size; write a number of bytes, or one such as 500MB or 4GiB")
    return int(digits) * _UNITS[unit]


def key(stage: str, given: bytes, *parts: str) -> str:
    """The digest of a stage's name, its input, what else changes its output, and this compiler's own code."""
    digest = hashlib.sha256()
    for part in (stage.encode(), given, *(part.encode() for part in parts), _own_code()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


# The rooms and files whose code decides what a stage makes.
_COMPILING: Final = ("hardware", "toolchain", "transforms", "runtime/cpu.py", "runtime/cpu_kernels.py")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@cache
def _own_code() -> bytes:
    """A digest of what turns modules into code: the package's version alone does not change while it is worked on."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    rooms = [package / name for name in _COMPILING]
    inside = (p for room in rooms for kind in ("*.py", "*.ll") for p in room.rglob(kind))
    for path in sorted({*inside, *(room for room in rooms if room.is_file())}):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries, made for its owner alone, because machine code is loaded from it.

    Raises CacheError for a folder that is none, or that others can write to; warns, once, of one that takes no more.
    """

    folder: Path

    def read(self, digest: str) -> bytes | None:
        """The bytes under this key, or None where there are none, or where the file is not whole."""
        path = self._path(digest)
        try:
            if not (_is_own(self.folder) and _is_own(path.parent)):
                return None
            stored = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._go_without(error)
            return None
        head, checksum = stored[: len(_MAGIC)], stored[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
        body = stored[len(_MAGIC) + _DIGEST_BYTES :]
        if head != _MAGIC or hashlib.sha256(body).digest() != checksum:
            return None
        self._mark_used(path)
        return body

    def write(self, digest: str, body: bytes) -> None:
        """Keep these bytes under this key, if the disk can take them."""
        path = self._path(digest)
        try:
            _make_own(self.folder)
            _make_own(path.parent)
            replace_file(path, _MAGIC + hashlib.sha256(body).digest() + body)
        except OSError as error:
            self._go_without(error)
            return
        if secrets.randbelow(_LOOKED_AT) == 0:
            self.trim(limit())

    def size(self) -> tuple[int, int]:
        """How many entries there are, and their bytes."""
        entries = self._entries()
        return len(entries), sum(size for _, size, _ in entries)

    def trim(self, most: int) -> tuple[int, int]:
        """Remove the entries that were not used for the longest time, until `most` bytes are left.

        Returns how many were removed, and their bytes. Another process may read or remove them meanwhile.
        """
        entries = sorted(self._entries(), key=lambda entry: entry[0])
        excess, removed, freed = sum(size for _, size, _ in entries) - most, 0, 0
        for _, size, path in entries:
            if freed >= excess:
                break
            with suppress(OSError):
                path.unlink()
                removed, freed = removed + 1, freed + size
        return removed, freed

    def _entries(self) -> list[tuple[float, int, Path]]:
        """When each entry was last used, to a day, its bytes, and its file."""
        found = []
        for path in self.folder.glob("??/*"):
            with suppress(OSError):  # another process removed it
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    found.append((status.st_mtime, status.st_size, path))
        return found

    def _mark_used(self, path: Path) -> None:
        with suppress(OSError):  # of a folder that is only read
            if time.time() - path.stat().st_mtime > _DAY:
                os.utime(path)

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]

    def _go_without(self, error: OSError) -> None:
        """Warn where the folder has no room or may not be written; raise CacheError where it cannot be one."""
        reason = error.strerror or str(error)
        if error.errno in _NO_ROOM:
            warnings.warn(
                f"the cache folder {self.folder} cannot be used ({reason}), so nothing is kept; make room, "
                "choose another with --cache-dir, or go without with --no-cache",
                CacheWarning,
                stacklevel=1,  # one place for every entry: the warning is shown once
            )
            return
        raise CacheError(
            f"the cache folder {self.folder} cannot be used ({reason}: {error.filename or self.folder}); make it a "
            "folder that you can write to, choose another with --cache-dir, or go without with --no-cache"
        ) from error


def _is_own(folder: Path) -> bool:
    """Whether the folder exists. Raises CacheError for one to which others can write: its files are executed."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return False
    if os.name == "posix" and (found.st_mode & _OTHERS_WRITE or found.st_uid not in (os.getuid(), 0)):
        raise CacheError(
            f"the cache folder {folder} can be written by other users (mode {stat.filemode(found.st_mode)}, "
            f"owner {found.st_uid}), who could make you run their code; chmod 700 {folder} if it is yours, "
            "choose another with --cache-dir, or go without with --no-cache"
        )
    return True


def _make_own(folder: Path) -> None:
    """Make a folder for its owner alone, and those above it as usual. Raises CacheError as `_is_own`."""
    if not _is_own(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=OWN, exist_ok=True)


def make_kept(folder: Path) -> None:
    """Make a folder of kept files and those above it; the default folder, if it is above, for its owner alone.

    Raises CacheError where others can write to the default folder, and OSError where a folder cannot be made.
    """
    default: Path | None = None
    with suppress(CacheError):  # of a user without a home, who chose the folder
        default = default_folder()
    if default is not None and default in (folder, *folder.parents):
        _make_own(default)
    folder.mkdir(parents=True, exist_ok=True)


def replace_file(path: Path, body: bytes) -> None:
    """Write a file whole or leave what was there: a temporary file beside it, flushed to disk, renamed into place."""
    temporary = path.with_name(f".{path.name[:40]}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask, as any new file
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise


@contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """A new file beside `path`, renamed into its place when the block ends; an exception leaves what was there."""
    temporary = path.with_name(f".{path.name[:40]}.{os.getpid()}.{secrets.token_hex(4)}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_folder(folder: Path) -> None:
    """Raise UsageError, before anything is computed, for a folder that is a file or would be in one."""
    found = folder
    while not found.exists() and found != found.parent:
        found = found.parent
    if not found.is_dir():
        raise UsageError(f"{found} is a file and no folder; choose another folder than {folder}")


def make_folder(folder: Path) -> None:
    """Make a folder of results and those above it. Raises UsageError where that fails."""
    require_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: the folder cannot be made ({error.strerror}); choose another") from error
