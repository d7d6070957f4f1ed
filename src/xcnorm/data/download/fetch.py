"""Fetching a file over HTTP, from whichever mirror gives the right one."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from xcnorm._version import __version__
from xcnorm.data.download.checks import is_web_page, mismatch
from xcnorm.data.download.disk import REMEDY, arriving
from xcnorm.data.download.progress import Progress, silent
from xcnorm.data.download.remote import RemoteFile
from xcnorm.errors import UserError
from xcnorm.files import disk_errors

_TRIES = 3
_HEAD = 512
_CHUNK = 1 << 20
_PAGE = "sent a web page instead of the file"


def fetch(file: RemoteFile, root: Path, *, progress: Progress = silent, timeout: float = 30.0) -> Path:
    """Fetch a file to its place below the data root, unless it is there already.

    The mirrors are asked in turn. What arrives is collected beside the final name, in a ``.part`` from which an
    interrupted download goes on, and is checked before it gets that name.

    Args:
        file: What is wanted.
        root: The folder that holds the data.
        progress: Is told of the bytes as they arrive.
        timeout: After how many seconds of silence a mirror is given up.

    Returns:
        Where it lies.

    Raises:
        UserError: No mirror gave the right file, a person has to fetch it, or it cannot be written.
    """
    target = root / file.path
    if _is_there(target, file):
        return target
    if not file.urls:
        manual = file.manual.replace("{root}", str(root))
        raise UserError(f"{file.path} cannot be fetched by a program: {manual}")
    with arriving(target, file.size) as handle:
        _ask_all(file, root, handle, progress, timeout)
        _Origin(handle).forget()
    return target


def _is_there(target: Path, file: RemoteFile) -> bool:
    with disk_errors(target, REMEDY):
        if not target.is_file():
            return False
        with target.open("rb") as handle:
            return mismatch(handle, file) is None


class _FailedError(Exception):
    """A mirror did not give the file.

    Args:
        reason: Why, in a few words.
        again: Whether asking the same mirror again may help.
        afresh: Whether what has arrived is of no use.
    """

    def __init__(self, reason: object, *, again: bool = False, afresh: bool = False) -> None:
        super().__init__(" ".join(str(reason).split()))
        self.again = again
        self.afresh = afresh


class _Origin:
    """Where a file without a published checksum began to arrive from, noted beside it.

    Nothing else would tell if the beginning of one mirror's file did not fit the end of another's, or of a later
    version.

    Args:
        handle: The ``.part``.
    """

    def __init__(self, handle: io.BufferedRandom) -> None:
        self._path = Path(f"{handle.name}.origin")

    def note(self, url: str, response: HTTPResponse) -> None:
        """Note which version of the file begins to arrive, if the mirror says."""
        version = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        if version and not version.startswith("W/"):  # a weak tag does not promise the same bytes
            self._path.write_text(f"{url}\n{version}", encoding="utf-8")

    def version(self, url: str) -> str:
        """The version that arrived from this mirror; empty if none did that can be asked for again."""
        try:
            began, version = self._path.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError):
            return ""
        return version if began == url else ""

    def forget(self) -> None:
        """Nothing has arrived, or everything."""
        self._path.unlink(missing_ok=True)


def _ask_all(file: RemoteFile, root: Path, handle: io.BufferedRandom, progress: Progress, timeout: float) -> None:
    reasons = []
    for url in file.urls:
        if not _has_checksum(file) and not _Origin(handle).version(url):
            _empty(handle)
        for _ in range(_TRIES):
            try:
                _ask(url, file, handle, progress, timeout)
                return
            except _FailedError as failure:
                reason = f"{urlsplit(url).netloc}: {failure}"
                if failure.afresh:
                    _empty(handle)
                if not failure.again:
                    break
        reasons.append(reason)
    raise UserError(
        f"could not fetch {file.path} ({'; '.join(reasons)}); try again later, or fetch it by hand from {file.urls[0]} "
        f"and run: xcnorm data download BENCHMARK --data {root} --from-folder FOLDER"
    )


def _has_checksum(file: RemoteFile) -> bool:
    return file.md5 is not None or file.sha256 is not None


def _empty(handle: io.BufferedRandom) -> None:
    if handle.seek(0, os.SEEK_END):
        handle.truncate(0)
    _Origin(handle).forget()


def _ask(url: str, file: RemoteFile, handle: io.BufferedRandom, progress: Progress, timeout: float) -> None:
    """Complete what is in the handle from one mirror, and check it."""
    start = handle.seek(0, os.SEEK_END)
    if start != file.size:  # else only the check was missing
        version = "" if _has_checksum(file) else _Origin(handle).version(url)
        with _open(url, start, timeout, version) as response:
            start, total = _span(response, start)
            _check_offer(response, total, file)
            if start == 0:
                _empty(handle)
                if not _has_checksum(file):
                    _Origin(handle).note(url, response)
            have = start
            whole = total if file.size is None else file.size
            for chunk in _chunks(response, timeout):
                if have == 0 and is_web_page(chunk):
                    raise _FailedError(_PAGE)
                have += len(chunk)
                if whole is not None and have > whole:
                    raise _FailedError(f"sends more than the {whole:,} bytes of the file", afresh=True)
                handle.write(chunk)
                progress(have, whole)
        if whole is not None and have < whole:
            raise _FailedError(f"broke off after {have:,} of {whole:,} bytes", again=True)
    handle.flush()
    if wrong := mismatch(handle, file):
        # The fault may lie in what was there before; if it all came from here, the mirror has another file.
        raise _FailedError(f"not the published file, {wrong}", again=start > 0, afresh=True)


def _open(url: str, start: int, timeout: float, version: str) -> HTTPResponse:
    request = Request(url, headers={"User-Agent": f"xcnorm/{__version__}"})
    if start:
        request.add_header("Range", f"bytes={start}-")
        if version:
            request.add_header("If-Range", version)  # a mirror with another version then sends that from its beginning
    try:
        response: HTTPResponse = build_opener(_Redirects).open(request, timeout=timeout)
    except HTTPError as error:
        error.close()
        beyond = error.code == 416 and start > 0  # what is there is longer than the mirror's file
        raise _FailedError(f"HTTP {error.code} {error.reason}", again=beyond, afresh=beyond) from error
    except (OSError, HTTPException) as error:
        raise _FailedError(getattr(error, "reason", error)) from error
    return response


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, but not from an encrypted connection to one that anybody on the way can alter."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in ({"https"} if req.type == "https" else {"http", "https"}):
            fp.close()
            raise _FailedError(f"redirects from {req.type} to {scheme}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _span(response: HTTPResponse, asked: int) -> tuple[int, int | None]:
    """Where the body starts in the file, and how long the file is if the mirror says so."""
    if response.status == 200:
        return 0, response.length
    if response.status != 206:
        raise _FailedError(f"HTTP {response.status} {response.reason}")
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != asked:
        raise _FailedError("sent other bytes than it was asked for", again=True, afresh=True)
    if found[2] != "*":
        return asked, int(found[2])
    return asked, None if response.length is None else asked + response.length


def _check_offer(response: HTTPResponse, total: int | None, file: RemoteFile) -> None:
    """Refuse before the first byte what cannot be the file, or could not be told from half of it."""
    if response.headers.get_content_type() == "text/html":
        raise _FailedError(_PAGE)
    if file.size is not None and total is not None and total > file.size:
        raise _FailedError(f"offers {total:,} bytes, not {file.size:,}")
    known = file.size is not None or _has_checksum(file)
    if not known and total is None and not response.chunked:
        raise _FailedError("does not say how long the file is")


def _chunks(response: HTTPResponse, timeout: float) -> Iterator[bytes]:
    """The body as it arrives; its first bytes together, so that they show what it is."""
    left = response.length
    read: Callable[[int], bytes] = response.read
    most = _HEAD
    while left is None or left > 0:
        try:
            chunk = read(most if left is None else min(most, left))
        except TimeoutError as error:
            raise _FailedError(f"silent for {timeout:g} s") from error
        except (OSError, HTTPException) as error:
            raise _FailedError(f"broke off ({error})", again=True) from error
        if not chunk:
            return
        yield chunk
        left = None if left is None else left - len(chunk)
        read, most = response.read1, _CHUNK
