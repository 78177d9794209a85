"""A client and a worker for ForgeQueue: one file, the standard library, Python 3.9 or newer.

Requests and answers are dictionaries with the fields of the HTTP API, as api-docs/gateway.json documents them. Durations
that this file adds are seconds.

``Client`` makes calls, ``AsyncClient`` makes the same calls for asyncio, ``Worker`` claims jobs and runs their handlers, and
``verify`` checks the signatures of webhooks and pushed jobs.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import datetime
import email.message
import email.utils
import functools
import hashlib
import hmac
import http.client
import inspect
import io
import json
import logging
import os
import queue
import random
import re
import secrets
import select
import signal
import socket
import ssl
import threading
import time
import traceback
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, Deque, Dict, Generator, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, TypedDict, TypeVar, Union

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "BatchAnswer", "CancelRequested", "Client", "DeadlineError", "Dedupe", "EndedError", "ForgeQueueError", "Job", "JobPatch", "JobSummary", "LeaseLost",
    "NoAnswerError", "Output", "OutputPage", "Page", "Permanent", "Problem", "RetryAfter", "RunningJob", "Snooze", "StatusError", "Stopping", "SubmitManyError",
    "SubmitRequest", "Submitted", "Throttled", "TimedOut", "Wait", "Worker", "pages", "verify",
]

T = TypeVar("T")

# ---- limits of the API, in bytes where nothing else is said

_MAX_BATCH_JOBS = 1000
_MAX_BATCH_BODY = 8 << 20
_MAX_PAYLOAD = 256 << 10
_MAX_RESULT = 256 << 10
_MAX_CHECKPOINT = 64 << 10
_MAX_SIGNAL_DATA = 64 << 10
_MAX_OUTPUT_CHUNK = 16 << 10
_MAX_OUTPUT_CHUNKS = 100
_MAX_LEASES = 1000
_MAX_CLAIM = 1000
_MAX_OUTCOMES = 1000
_MAX_TYPES = 100
_MAX_PAGE = 200
_MAX_DELAY = 366 * 24 * 3600.0
_MAX_BACKOFF = 7 * 24 * 3600.0
_MAX_AMOUNT = 1 << 50
_MAX_COSTS = 8
# Names of types and budgets.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")

# ---- limits of this client

_MAX_TRIES = 4
_TRY = 30.0
_CONNECT = 10.0
# The wait before a repeat is random, from 0 to the base, doubled with each repeat, to the cap.
_BACKOFF_BASE = 0.25
_BACKOFF_CAP = 5.0
# A longer Retry-After is not waited for: the caller gets the error at once.
_LONGEST_ASKED = 60.0
# How long the server is asked to delay an answer; and what is left of the caller's time for it to arrive.
_HELD = 20.0
_BEFORE_DEADLINE = 0.5
_MAX_ANSWER = 64 << 20
_EXCERPT = 200
_IDLE = 30.0
_MAX_IDLE = 32
# How long a budget is closed whose refusal does not say it, and at least.
_THROTTLED = 10.0
_SHORTEST_THROTTLED = 1.0

# ---- what the API has


class JobError(TypedDict, total=False):
    """An error of an attempt."""

    type: str
    message: str
    stack: str


class Retry(TypedDict, total=False):
    """How long a job waits after a failed attempt; curve is exponential, linear or constant."""

    base_ms: int
    cap_ms: int
    jitter: float
    curve: str


class Progress(TypedDict):
    """How far an attempt is: percent is 0 to 100; None is not known."""

    percent: Optional[float]
    message: Optional[str]


class _Key(TypedDict):
    key: str


class Dedupe(_Key, total=False):
    """A key that is unique among live jobs, and what becomes of a second job with it.

    ``on_live`` is keep (also if absent): the answer is the live one; replace: one that waits gets the new content, and one that runs
    a follower; extend: as replace, and it waits for delay_ms again, at the latest until ``max_delay_ms`` after the first submit; or
    fail: the job is refused.
    """

    on_live: str
    max_delay_ms: int


class JobPatch(TypedDict, total=False):
    """Changes of a job that waits. What is absent stays; tags and metadata are replaced as a whole. A past run_at is now."""

    priority: int
    payload: Any
    metadata: Dict[str, str]
    tags: List[str]
    queue: str
    run_at: str
    deadline: str
    max_attempts: int


class _Type(TypedDict):
    type: str


class SubmitRequest(_Type, total=False):
    """A job as its producer describes it. What is absent is the queue's setting, or the default.

    ``costs`` are what an attempt may use of budgets, by the name of the budget, at most 8: it starts when each of them has so much
    available. ``dedupe`` takes the place of ``dedupe_key``.
    """

    queue: str
    payload: Any
    priority: int
    run_at: str
    delay_ms: int
    deadline: str
    expires_after_ms: int
    max_wait_ms: int
    max_attempts: int
    timeout_ms: int
    retry: Retry
    tags: List[str]
    user: str
    metadata: Dict[str, str]
    dedupe_key: str
    dedupe: Dedupe
    key: str
    key_weight: float
    costs: Dict[str, int]
    after: List[Union[str, Dict[str, str]]]


class JobSummary(TypedDict):
    """A job without payload, result and stack. Times are RFC 3339 in UTC.

    ``costs`` are what an attempt may use of budgets, by the name of the budget; None for none.
    """

    id: str
    type: str
    queue: str
    user: Optional[str]
    state: str
    priority: int
    tags: List[str]
    metadata: Dict[str, str]
    attempt: int
    max_attempts: int
    epoch: int
    redrives: int
    run_at: Optional[str]
    deadline: Optional[str]
    timeout_ms: Optional[int]
    retry: Retry
    dedupe_key: Optional[str]
    key: Optional[str]
    key_weight: Optional[float]
    costs: Optional[Dict[str, int]]
    cancel_requested: bool
    worker_id: Optional[str]
    lease_expires_at: Optional[str]
    last_error: Optional[JobError]
    dead_reason: Optional[str]
    correlation_id: Optional[str]
    traceparent: Optional[str]
    created_at: str
    started_at: Optional[str]
    finished_at: Optional[str]
    workflow: Optional[Dict[str, str]]
    after: List[Dict[str, str]]
    blocked_by: Optional[int]
    waiting_for: List[str]
    wait_until: Optional[str]
    rerun_of: Optional[str]
    progress: Optional[Progress]


class Job(JobSummary):
    """A whole job."""

    payload: Any
    result: Any
    checkpoint: Any
    output: Optional[str]


class Output(TypedDict):
    """A piece of what a job has written: stream is out, err or log, and id its place. gap: output before it is no longer kept."""

    id: str
    stream: str
    text: str
    at: str
    gap: bool


class OutputPage(TypedDict):
    """A part of what a job has written, the oldest first. truncated: some of it is no longer kept; more: there is more after it."""

    items: List[Output]
    truncated: bool
    more: bool


class Submitted(JobSummary):
    """The answer to a submit.

    ``warnings`` are sentences such as "the queue is paused". ``deduplicated``: it is another live job with the same dedupe_key.
    ``replaced``: it is a live job with the same dedupe key, which has the new content now.
    ``replayed``: it is the remembered answer of its idempotency key, and nothing was stored now.
    """

    warnings: List[str]
    deduplicated: bool
    replaced: bool
    replayed: bool


class BatchResult(TypedDict):
    """One job of a batch: accepted, or refused with a problem document."""

    index: int
    status: int
    job: Optional[Dict[str, Any]]
    problem: Optional[Dict[str, Any]]


class BatchAnswer(TypedDict):
    """The answer to a batch, in the order sent."""

    results: List[BatchResult]
    accepted: int
    rejected: int
    replayed: bool


class Page(TypedDict):
    """One page of a list; it may be short or empty while it has a next_page_token."""

    items: List[Any]
    next_page_token: Optional[str]


# ---- errors


class ForgeQueueError(Exception):
    """What all errors of this module are."""


class Problem(ForgeQueueError):
    """A refusal by the server, with a code of the closed set in api-docs/errors.md.

    ``retry_after`` is how long to wait before another try, in seconds; None where waiting does not help. ``errors`` are the
    fields that were refused, ``policies`` the limits. ``request_id`` finds the line in the server's log.
    """

    def __init__(self, call: str, document: Mapping[str, Any]) -> None:
        self.document = dict(document)
        self.code: str = document["code"]
        self.status: int = document["status"]
        self.detail: str = document.get("detail") or ""
        after = document.get("retry_after_ms")
        self.retry_after: Optional[float] = None if after is None else max(after, 0) / 1000
        self.errors: List[Dict[str, str]] = document.get("errors") or []
        self.policies: List[Dict[str, Any]] = document.get("policies") or []
        self.request_id: str = document.get("request_id") or ""
        super().__init__(f"{call}: {self.status} {self.code}: {self.detail}")


class StatusError(ForgeQueueError):
    """An answer that is not of the API: usually from a proxy, or another server. ``body`` is its start."""

    def __init__(self, call: str, status: int, body: str, retry_after: Optional[float] = None, odd: bool = False) -> None:
        self.status, self.body, self.retry_after = status, body, retry_after
        super().__init__(f"{call}: status {status} {'with a body that is not the JSON expected' if odd else 'without a problem document'}: {body!r}")


class NoAnswerError(ForgeQueueError):
    """The server could not be reached, or its answer did not arrive. The call may have taken effect."""

    def __init__(self, message: str, written: bool = True) -> None:
        self._written = written
        super().__init__(message)


class DeadlineError(ForgeQueueError, TimeoutError):
    """The time that the caller has given is over. ``job`` is the job as it was last seen, if wait was called."""

    job: Optional[Job] = None


class EndedError(ForgeQueueError):
    """A job has ended otherwise than completed. ``reason`` is why it is a dead letter; None if it was cancelled."""

    def __init__(self, job: Job) -> None:
        self.job, self.state, self.reason = job, job["state"], job["dead_reason"]
        last = job["last_error"]
        super().__init__(f"job {job['id']} ended as {self.state}{f' ({self.reason})' if self.reason else ''}{': ' + last.get('message', '') if last else ''}")


class SubmitManyError(ForgeQueueError):
    """A batch of submit_many was refused as a whole, or had no answer; __cause__ says why.

    ``answer`` has the results of the batches before. Later jobs are not stored; those of the batch without an answer, perhaps.
    """

    def __init__(self, message: str, answer: BatchAnswer) -> None:
        self.answer = answer
        super().__init__(message)


class _Aborted(ForgeQueueError):
    """The call was ended by its own program."""


# ---- the connection


class _Abort:
    """Ends the calls of some threads from another one."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.sockets: Set[socket.socket] = set()

    def set(self) -> None:
        self.event.set()
        for held in list(self.sockets):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(held, socket.SHUT_RDWR)  # of TLS too, without its goodbye


_local = threading.local()


@contextlib.contextmanager
def _aborting(abort: Optional[_Abort]) -> Generator[None, None, None]:
    """The calls that this thread makes inside end with abort."""
    before = getattr(_local, "abort", None)
    _local.abort = abort
    try:
        yield
    finally:
        _local.abort = before


def _sleep(seconds: float) -> None:
    abort: Optional[_Abort] = getattr(_local, "abort", None)
    if abort is None:
        time.sleep(max(seconds, 0))
    elif abort.event.wait(max(seconds, 0)):
        raise _Aborted("the call was ended")


class _Reader(io.RawIOBase):
    """Reads from a socket until a moment."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock, self._end = sock, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)


class _Source:
    """What http.client.HTTPResponse reads from."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock, self._end = sock, end

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._end))


class _Connections:
    """Connections to one server, kept for a while when they are idle."""

    def __init__(self, url: urllib.parse.SplitResult, context: Optional[ssl.SSLContext]) -> None:
        self._host, self._port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        self._netloc = url.netloc
        self._context = (context or ssl.create_default_context()) if url.scheme == "https" else None
        self._lock = threading.Lock()
        self._idle: List[Tuple[float, socket.socket]] = []

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, sock in idle:
            sock.close()

    def exchange(self, method: str, target: str, headers: Dict[str, str], body: Optional[bytes], end: float, repeatable: bool) -> _Received:
        """Sends a request and reads the whole answer. Raises OSError and http.client.HTTPException."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._netloc}", *(f"{name}: {value}" for name, value in headers.items())]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        request = "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")
        kept = self._kept()
        if kept is not None:
            try:
                return self._exchange(kept, method, request, end)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                abort: Optional[_Abort] = getattr(_local, "abort", None)
                if not repeatable or (abort is not None and abort.event.is_set()):
                    raise
                # The server has closed the idle connection at this moment, which is no failure of the server.
        try:
            sock = self._connect(min(end - time.monotonic(), _CONNECT))
        except OSError as error:
            raise _NotConnected(str(error)) from error
        return self._exchange(sock, method, request, end)

    def _kept(self) -> Optional[socket.socket]:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                since, sock = self._idle.pop()
            if time.monotonic() - since < _IDLE and not _readable(sock):
                return sock
            sock.close()  # too old, or the server has closed it

    def _connect(self, timeout: float) -> socket.socket:
        if timeout <= 0:
            raise socket.timeout("timed out")
        sock = socket.create_connection((self._host, self._port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock if self._context is None else self._context.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise

    def _exchange(self, sock: socket.socket, method: str, request: bytes, end: float) -> _Received:
        abort: Optional[_Abort] = getattr(_local, "abort", None)
        keep = False
        try:
            if abort is not None:
                abort.sockets.add(sock)
                if abort.event.is_set():
                    raise _Aborted("the call was ended")
            left = end - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            sock.settimeout(left)
            sock.sendall(request)
            response = http.client.HTTPResponse(_Source(sock, end), method=method)  # type: ignore[arg-type]
            response.begin()
            content = response.read(_MAX_ANSWER + 1)
            if len(content) > _MAX_ANSWER:
                raise ForgeQueueError(f"the answer is too large: status {response.status}, more than {_MAX_ANSWER} bytes")
            if response.length:
                raise http.client.IncompleteRead(content, response.length)
            keep = not response.will_close
            return _Received(response.status, response.headers, content)
        finally:
            if abort is not None:
                abort.sockets.discard(sock)
            if keep:
                self._keep(sock)
            else:
                sock.close()

    def _keep(self, sock: socket.socket) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append((time.monotonic(), sock))
                return
        sock.close()


class _Received(NamedTuple):
    """An answer."""

    status: int
    headers: email.message.Message
    content: bytes


class _NotConnected(OSError):
    """No connection was made: the server did not get the call."""


def _readable(sock: socket.socket) -> bool:
    """Whether an idle connection has something to read: its end, or what nobody has asked for."""
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


# ---- the client


class Client:
    """Calls one server with one key. It may be used by many threads; make one and share it.

    ``url`` is the address of the gateway, such as http://127.0.0.1:8080. ``timeout`` is how long a call may take, with all of its
    repeats, in seconds; wait and result have no limit unless it is given to them. ``ssl_context`` takes the place of the default one.
    Settings for proxies in the environment are not used.
    """

    def __init__(self, url: str, api_key: str, *, timeout: float = 120.0, ssl_context: Optional[ssl.SSLContext] = None, logger: Optional[logging.Logger] = None) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or not (parts.port or 1) or not re.fullmatch(r"[!-~]+", url):
                raise ValueError("it needs http or https, a host, and perhaps a port")
        except ValueError as error:
            raise ForgeQueueError(f"url {url!r} is not like http://127.0.0.1:8080: {error}") from error
        if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
            raise ForgeQueueError("url has a query, a fragment or a user; give scheme, host and perhaps a path")
        if not re.fullmatch(r"[!-~]+", api_key or ""):
            raise ForgeQueueError("api_key is empty, or has white space or other characters that no key has")
        self._path = parts.path.rstrip("/")
        self._name = url
        self._api_key = api_key
        self._timeout = timeout
        self._connections = _Connections(parts, ssl_context)
        self._logger = logger or logging.getLogger("forgequeue")
        self._lock = threading.Lock()
        self._budget = 100  # in tenths of a repeat: repeats are at most a tenth of the calls, after a burst of ten

    def __repr__(self) -> str:
        return f"Client({self._name!r})"  # without the key

    @classmethod
    def from_env(cls, *, timeout: float = 120.0, ssl_context: Optional[ssl.SSLContext] = None, logger: Optional[logging.Logger] = None) -> Client:
        """A client by FORGEQUEUE_URL, and FORGEQUEUE_API_KEY or FORGEQUEUE_API_KEY_FILE."""
        url, key, path = (os.environ.get(name, "") for name in ("FORGEQUEUE_URL", "FORGEQUEUE_API_KEY", "FORGEQUEUE_API_KEY_FILE"))
        missing = []
        if not url:
            missing.append("FORGEQUEUE_URL is not set: the address of the gateway, such as http://127.0.0.1:8080")
        if not key and path:
            try:
                with open(path, encoding="utf-8-sig") as file:  # without a byte-order mark
                    key = file.read().rstrip("\r\n")
            except (OSError, ValueError) as error:
                raise ForgeQueueError(f"FORGEQUEUE_API_KEY_FILE: {error}") from error
        if not key:
            missing.append("FORGEQUEUE_API_KEY is not set: a key with the scopes that this program needs; or FORGEQUEUE_API_KEY_FILE, a file with it")
        if missing:
            raise ForgeQueueError("; ".join(missing))
        return cls(url, key, timeout=timeout, ssl_context=ssl_context, logger=logger)

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self._connections.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # -- producing

    def submit(
        self, job: SubmitRequest, *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "", timeout: Optional[float] = None,
    ) -> Submitted:
        """Stores one job. Check warnings, deduplicated and replaced of the answer.

        idempotency_key takes the place of the key that the client makes: 1 to 255 visible ASCII characters. The job carries
        correlation_id and traceparent; what no header can carry is left out.
        """
        return self._submitted(self._submit(["v1", "jobs"], job, idempotency_key, correlation_id, traceparent, timeout))

    def rerun(
        self, job_id: str, differs: Optional[Mapping[str, Any]] = None, *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "",
        timeout: Optional[float] = None,
    ) -> Submitted:
        """Submits a new job like one that has ended; differs says in what it differs."""
        return self._submitted(self._submit(["v1", "jobs", job_id, "rerun"], dict(differs or {}), idempotency_key, correlation_id, traceparent, timeout))

    def _submitted(self, answer: Any) -> Submitted:
        for warning in answer["warnings"] or []:
            self._logger.warning("submit has a warning: %s (job_id=%s queue=%s)", warning, answer["id"], answer["queue"])
        job: Submitted = answer
        return job

    def submit_batch(
        self, jobs: Sequence[SubmitRequest], *, atomic: bool = False, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "",
        timeout: Optional[float] = None,
    ) -> BatchAnswer:
        """Stores up to 1000 jobs in one request; with atomic all or none. Without atomic look at rejected, and at the problem of each result."""
        body: Dict[str, Any] = {"jobs": list(jobs)}
        if atomic:
            body["atomic"] = True
        answer: BatchAnswer = self._submit(["v1", "jobs", "batch"], body, idempotency_key, correlation_id, traceparent, timeout)
        return answer

    def submit_many(
        self, jobs: Iterable[SubmitRequest], *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "", timeout: Optional[float] = None,
    ) -> BatchAnswer:
        """Stores any number of jobs, in batches of at most 1000 jobs and 8 MiB, one after the other.

        The answer has a result for each, in order: a job or a problem. Raises SubmitManyError, with the results so far, if a batch
        has no answer or is refused as a whole. With idempotency_key the nth batch has that key with "/n" added, the first the key as it
        is. timeout is that of each batch.
        """
        jobs = list(jobs)
        everything: BatchAnswer = {"results": [], "accepted": 0, "rejected": 0, "replayed": bool(jobs)}
        key = idempotency_key or secrets.token_hex(16)
        sizes = [len(_encode(job)) for job in jobs]
        large = [size > _MAX_PAYLOAD and len(_encode(job.get("payload"))) > _MAX_PAYLOAD for size, job in zip(sizes, jobs)]
        number = 1
        while len(everything["results"]) < len(jobs):
            first = len(everything["results"])
            if large[first]:  # alone it could be too large for a batch
                everything["results"].append({"index": first, "status": 413, "job": None, "problem": _too_large(f"payload: may have at most {_MAX_PAYLOAD} bytes.")})
                everything["rejected"] += 1
                continue
            end, size = first, 1024
            while end < len(jobs) and end - first < _MAX_BATCH_JOBS:
                size += sizes[end] + 1
                if end > first and (size > _MAX_BATCH_BODY or large[end]):
                    break
                end += 1
            try:
                answer = self.submit_batch(
                    jobs[first:end], idempotency_key=f"{key}/{number}" if number > 1 else key, correlation_id=correlation_id, traceparent=traceparent, timeout=timeout,
                )
                if len(answer["results"]) != end - first:
                    raise ForgeQueueError(f"the server answered with {len(answer['results'])} results")
            except ForgeQueueError as error:
                everything["replayed"] = False
                raise SubmitManyError(f"jobs {first} to {end - 1} of {len(jobs)}: {error}", everything) from error
            for offset, result in enumerate(answer["results"]):
                result["index"] = first + offset
                everything["results"].append(result)
            everything["accepted"] += answer["accepted"]
            everything["rejected"] += answer["rejected"]
            everything["replayed"] = everything["replayed"] and answer["replayed"]
            number += 1
        return everything

    def _submit(self, path: List[str], body: Any, key: str, correlation_id: str, traceparent: str, timeout: Optional[float]) -> Any:
        key = key or secrets.token_hex(16)
        if not re.fullmatch(r"[!-~]{1,255}", key):
            raise ForgeQueueError("idempotency_key has to be 1 to 255 visible ASCII characters")
        headers = {"Idempotency-Key": key, "X-Correlation-Id": _sendable(correlation_id), "Traceparent": _sendable(traceparent)}
        answer, got = self._call("POST", path, body=body, headers=headers, repeatable=True, timeout=timeout)
        answer["replayed"] = got.get("Idempotent-Replayed") == "true"
        return answer

    # -- reading

    def get(self, job_id: str, *, timeout: Optional[float] = None) -> Job:
        """Reads one job. The problem not_found stands for the jobs of others too."""
        return self.get_with_etag(job_id, timeout=timeout)[0]

    def get_with_etag(self, job_id: str, *, timeout: Optional[float] = None) -> Tuple[Job, str]:
        """Reads one job, with the ETag of the version that was read: for if_match of patch_job."""
        answer, got = self._call("GET", ["v1", "jobs", job_id], repeatable=True, timeout=timeout)
        job: Job = answer
        return job, got.get("ETag") or ""

    def wait(self, job_id: str, *, timeout: Optional[float] = None) -> Job:
        """Waits until the job has ended: completed, dead_letter or cancelled.

        Raises DeadlineError after timeout seconds, if given, with the job as last seen.
        """
        end = float("inf") if timeout is None else time.monotonic() + timeout
        interval, held, etag = 0.02, 0, ""  # the first look is not held: the job may have ended
        last: Optional[Job] = None
        try:
            while True:
                asked = time.monotonic()
                answer, got = self._call(
                    "GET", ["v1", "jobs", job_id], headers={"Prefer": f"wait={held}", "If-None-Match": etag}, repeatable=True, timeout=end - asked, held=held,
                )
                job: Optional[Job] = answer
                if job is not None:
                    etag = got.get("ETag") or ""
                else:
                    job = last  # 304
                if job is None:
                    raise NoAnswerError(f"wait for job {job_id}: the answer is empty")
                if _ended(job["state"]):
                    return job
                # An early answer without a change counts as no wait, even with the header.
                changed = last is None or job["state"] != last["state"]
                waited = got.get("Preference-Applied") is not None and (changed or time.monotonic() - asked >= 0.5)
                last = job
                if not waited:
                    pause = interval * random.uniform(0.5, 1)
                    if time.monotonic() + pause >= end:
                        raise DeadlineError(f"wait for job {job_id}: not within {timeout} s; last seen {job['state']}")
                    _sleep(pause)
                    interval = min(interval * 1.5, 0.5)
                held = int(max(min(_HELD, end - time.monotonic() - _BEFORE_DEADLINE), 0))
        except DeadlineError as error:
            error.job = last
            raise

    def result(self, job_id: str, *, timeout: Optional[float] = None) -> Any:
        """Waits for the result of a job; raises EndedError if it is not completed."""
        job = self.wait(job_id, timeout=timeout)
        if job["state"] != "completed":
            raise EndedError(job)
        return job["result"]

    def submit_and_wait(
        self, job: SubmitRequest, *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "", timeout: Optional[float] = None,
    ) -> Any:
        """Submits a job and waits for its result. timeout is for both."""
        begun = time.monotonic()
        submitted = self.submit(job, idempotency_key=idempotency_key, correlation_id=correlation_id, traceparent=traceparent, timeout=timeout)
        return self.result(submitted["id"], timeout=None if timeout is None else max(timeout - (time.monotonic() - begun), 0))

    def list(
        self, *, queue: str = "", type: str = "", states: Sequence[str] = (), tag: str = "", user: str = "", dedupe_key: str = "", key: str = "",
        metadata: Optional[Mapping[str, str]] = None, created_after: str = "", created_before: str = "", size: int = 0, token: str = "",
        timeout: Optional[float] = None,
    ) -> Page:
        """Gives one page of the jobs that match, newest first: of size 1 to 200 (50), after the page whose next_page_token is token."""
        query: Dict[str, Any] = {
            "queue": queue, "type": type, "state": ",".join(states), "tag": tag, "user": user, "dedupe_key": dedupe_key, "key": key,
            "created_after": created_after, "created_before": created_before,
        }
        query.update((f"metadata.{name}", value) for name, value in (metadata or {}).items())
        return self._list(["v1", "jobs"], query, size, token, timeout)

    def all(
        self, *, queue: str = "", type: str = "", states: Sequence[str] = (), tag: str = "", user: str = "", dedupe_key: str = "", key: str = "",
        metadata: Optional[Mapping[str, str]] = None, created_after: str = "", created_before: str = "",
    ) -> Iterator[JobSummary]:
        """Gives all jobs that match, newest first, page by page."""
        return pages(lambda size, token: self.list(
            queue=queue, type=type, states=states, tag=tag, user=user, dedupe_key=dedupe_key, key=key, metadata=metadata, created_after=created_after,
            created_before=created_before, size=size, token=token,
        ))

    def attempts(self, job_id: str, *, size: int = 0, token: str = "", timeout: Optional[float] = None) -> Page:
        """Gives one page of the executions of a job."""
        return self._list(["v1", "jobs", job_id, "attempts"], {}, size, token, timeout)

    def output(self, job_id: str, *, after: str = "", timeout: Optional[float] = None) -> OutputPage:
        """Gives a page of what the job has written, the oldest first: what came after the piece with the id after."""
        page: OutputPage = self.call("GET", ["v1", "jobs", job_id, "output"], query={"after": after}, repeatable=True, timeout=timeout)
        return page

    def all_output(self, job_id: str, *, after: str = "") -> Iterator[Output]:
        """Gives all that the job has written until now, page by page."""
        while True:
            page = self.output(job_id, after=after)
            yield from page["items"]
            if not page["more"] or not page["items"]:
                return
            after = page["items"][-1]["id"]

    def _list(self, path: List[str], query: Dict[str, Any], size: int, token: str, timeout: Optional[float]) -> Page:
        page: Page = self.call("GET", path, query={**query, "page_size": size or None, "page_token": token}, repeatable=True, timeout=timeout)
        return page

    # -- changing

    def patch_job(self, job_id: str, changes: JobPatch, *, if_match: Optional[str] = None, timeout: Optional[float] = None) -> Job:
        """Changes a job that waits, and gives it as it is now. The problem job_started says that it runs, or has ended.

        if_match is the ETag of the version that is changed: precondition_failed says that the job is another one by now, or that an
        answer was lost and the call repeated.
        """
        if if_match is not None and not _sendable(if_match):  # without the header it would change any version
            raise ForgeQueueError("if_match is no ETag")
        headers = {"If-Match": if_match or ""}
        job: Job = self._call("PATCH", ["v1", "jobs", job_id], body=changes, headers=headers, repeatable=True, timeout=timeout)[0]
        return job

    def cancel(self, job_id: str, *, timeout: Optional[float] = None) -> JobSummary:
        """Ends a job that waits. One that runs is asked to end: cancel_requested is set. The problem job_terminal says that it has ended."""
        job: JobSummary = self.call("POST", ["v1", "jobs", job_id, "cancel"], repeatable=True, timeout=timeout)
        return job

    def signal(self, job_id: str, name: str, data: Any = None, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Tells a job something under a name, and wakes it if that is what it waits for; a signal that comes before is kept.

        Gives name, at and first. The first signal of a name stays: first is false where there was one, which a repeat after a lost
        answer finds too. The problem job_terminal says that the job has ended.
        """
        body = {"name": name} if data is None else {"name": name, "data": data}
        sent: Dict[str, Any] = self.call("POST", ["v1", "jobs", job_id, "signals"], body=body, repeatable=True, timeout=timeout)
        return sent

    def signal_link(self, job_id: str, name: str, *, title: str = "", expires: Optional[float] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Makes a URL by which a person without a key sends one signal of a job, once, in a browser. Gives url and expires_at.

        title is what its page asks, such as "Refund order 1234?"; the link is good for expires seconds (7 days).
        """
        body: Dict[str, Any] = {"name": name}
        if title:
            body["title"] = title
        if expires is not None:
            body["expires_ms"] = int(expires * 1000)
        link: Dict[str, Any] = self.call("POST", ["v1", "jobs", job_id, "signal-links"], body=body, repeatable=True, timeout=timeout)
        return link

    def delete_job(self, job_id: str, *, timeout: Optional[float] = None) -> None:
        """Deletes an ended job and its attempts."""
        self.call("DELETE", ["v1", "jobs", job_id], repeatable=True, timeout=timeout)

    def redrive(self, job_id: str, *, timeout: Optional[float] = None) -> JobSummary:
        """Queues a dead letter again. It is not repeated if its answer is lost: a repeat would be refused with not_dead."""
        job: JobSummary = self.call("POST", ["v1", "jobs", job_id, "redrive"], timeout=timeout)
        return job

    def redrive_dead_letters(self, job_ids: Sequence[str], *, timeout: Optional[float] = None) -> List[BatchResult]:
        """Queues 1 to 1000 dead letters again; each has its own result. Not repeated, like redrive."""
        results: List[BatchResult] = self.call("POST", ["v1", "dead-letters", "redrive"], body={"ids": [*job_ids]}, timeout=timeout)["results"]
        return results

    def redrive_matching(self, filter: Mapping[str, str], rate: Optional[float] = None, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Begins to queue again all dead letters that match, in the server; rate is how many at most in a second. Gives the redrive."""
        body: Dict[str, Any] = {"filter": dict(filter)}
        if rate is not None:
            body["rate_per_second"] = rate
        redrive: Dict[str, Any] = self.call("POST", ["v1", "dead-letters", "redrive"], body=body, timeout=timeout)
        return redrive

    def count_matching(self, filter: Mapping[str, str], *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Counts the dead letters that match: matched, matched_capped."""
        counted: Dict[str, Any] = self.call("POST", ["v1", "dead-letters", "redrive"], body={"filter": dict(filter), "dry_run": True}, repeatable=True, timeout=timeout)
        return counted

    def get_redrive(self, redrive_id: str, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Reads how far a redrive is."""
        redrive: Dict[str, Any] = self.call("GET", ["v1", "redrives", redrive_id], repeatable=True, timeout=timeout)
        return redrive

    def bulk(
        self, action: str, filter: Mapping[str, Any], *, to: Optional[Mapping[str, Any]] = None, rate: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Dict[str, Any]:
        """Begins to change all jobs that match now, in the server. It is not repeated if its answer is lost.

        action is cancel, move, set_priority, run_now, delay, rerun or delete; filter as that of list, with state as a list; to has the queue of
        move, the priority of set_priority, the delay_ms of delay; rate is how many at most in a second. Gives the bulk action.
        """
        body: Dict[str, Any] = {"action": action, "filter": dict(filter), "to": None if to is None else dict(to), "rate_per_second": rate}
        made: Dict[str, Any] = self.call("POST", ["v1", "bulk"], body=body, timeout=timeout)
        return made

    def count_bulk(self, action: str, filter: Mapping[str, Any], *, to: Optional[Mapping[str, Any]] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Counts the jobs that a bulk action would change: matched, matched_capped."""
        body: Dict[str, Any] = {"action": action, "filter": dict(filter), "to": None if to is None else dict(to), "dry_run": True}
        counted: Dict[str, Any] = self.call("POST", ["v1", "bulk"], body=body, repeatable=True, timeout=timeout)
        return counted

    def get_bulk(self, bulk_id: str, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Reads how far a bulk action is."""
        made: Dict[str, Any] = self.call("GET", ["v1", "bulk", bulk_id], repeatable=True, timeout=timeout)
        return made

    def cancel_bulk(self, bulk_id: str, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Stops a bulk action; what was changed stays changed."""
        made: Dict[str, Any] = self.call("POST", ["v1", "bulk", bulk_id, "cancel"], repeatable=True, timeout=timeout)
        return made

    def dead_letters(
        self, *, queue: str = "", type: str = "", reason: str = "", fingerprint: str = "", after: str = "", before: str = "", size: int = 0, token: str = "",
        timeout: Optional[float] = None,
    ) -> Page:
        """Gives one page of the dead letters that match."""
        query = {"queue": queue, "type": type, "reason": reason, "fingerprint": fingerprint, "after": after, "before": before}
        return self._list(["v1", "dead-letters"], query, size, token, timeout)

    def put_queue(self, name: str, settings: Mapping[str, Any], *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Makes a queue, or replaces all of its settings."""
        queue: Dict[str, Any] = self.call("PUT", ["v1", "queues", name], body=dict(settings), repeatable=True, timeout=timeout)
        return queue

    # -- budgets

    def put_budget(self, name: str, settings: Mapping[str, Any], *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Makes a budget, or replaces all of its settings: unit, amount, and per_ms or window. One that is closed is open again."""
        budget: Dict[str, Any] = self.call("PUT", ["v1", "budgets", name], body=dict(settings), repeatable=True, timeout=timeout)
        return budget

    def budget(self, name: str, subject: str = "", *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Reads a budget. subject is the user or key whose available is read, of a budget by user or key."""
        budget: Dict[str, Any] = self.call("GET", ["v1", "budgets", name], query={"subject": subject}, repeatable=True, timeout=timeout)
        return budget

    def budgets(self, *, size: int = 0, token: str = "", timeout: Optional[float] = None) -> Page:
        """Gives one page of the budgets, by name."""
        return self._list(["v1", "budgets"], {}, size, token, timeout)

    def delete_budget(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Deletes a budget and its usage. Costs that name it are ignored from then on."""
        self.call("DELETE", ["v1", "budgets", name], repeatable=True, timeout=timeout)

    def budget_usage(self, name: str, *, first: str = "", last: str = "", timeout: Optional[float] = None) -> Dict[str, Any]:
        """Reads what was used of a budget by day, from first to last, as YYYY-MM-DD; this month if both are empty."""
        usage: Dict[str, Any] = self.call("GET", ["v1", "budgets", name, "usage"], query={"from": first, "to": last}, repeatable=True, timeout=timeout)
        return usage

    # -- any call

    def call(
        self, method: str, path: Sequence[str], *, query: Optional[Mapping[str, Any]] = None, body: Any = None, repeatable: bool = False,
        timeout: Optional[float] = None,
    ) -> Any:
        """Calls any route of the API: path is the segments, such as ["v1", "jobs", job_id]. Gives the body of the answer, None if it has none.

        repeatable says that the server answers a repeat like the first: then the call is repeated if its answer is lost.
        """
        return self._call(method, path, query=query, body=body, repeatable=repeatable, timeout=timeout)[0]

    def _call(
        self, method: str, path: Sequence[str], *, query: Optional[Mapping[str, Any]] = None, body: Any = None,
        headers: Optional[Mapping[str, str]] = None, repeatable: bool = False, timeout: Optional[float] = None, held: float = 0,
    ) -> Tuple[Any, email.message.Message]:
        end = time.monotonic() + (self._timeout if timeout is None else timeout)
        name = f"{method} /{'/'.join(path)}"
        target = self._path + "".join(map(_segment, path)) + _query(query)
        content = None if body is None else _encode(body)
        sent = {
            "Authorization": f"Bearer {self._api_key}", "Accept": "application/json, application/problem+json", "User-Agent": "forgequeue-python",
            **({} if content is None else {"Content-Type": "application/json"}), **({"Content-Length": "0"} if content is None and method != "GET" else {}),
            **{key: value for key, value in (headers or {}).items() if value},
        }
        with self._lock:
            self._budget = min(self._budget + 1, 100)
        tries = 1
        while True:
            try:
                return self._try(name, method, target, sent, content, end, repeatable, held)
            except ForgeQueueError as error:
                pause = self._next_try(repeatable, tries, error, end)
                if pause is None:
                    raise
                self._logger.warning("call is tried again: %s, after try %d, in %.0f ms: %s", name, tries, pause * 1000, error)
                _sleep(pause)
                tries += 1

    def _next_try(self, repeatable: bool, tries: int, error: ForgeQueueError, end: float) -> Optional[float]:
        """How long to wait before another try; None for none."""
        if tries >= _MAX_TRIES or not _retryable(repeatable, error):
            return None
        asked = _retry_after(error) or 0
        pause = asked + random.uniform(0, min(_BACKOFF_CAP, _BACKOFF_BASE * 2 ** (tries - 1)))
        if asked > _LONGEST_ASKED or time.monotonic() + pause >= end:
            return None  # the refusal says more than a deadline
        if not (_status(error) == 429 and asked > 0):
            with self._lock:
                if self._budget < 10:
                    return None
                self._budget -= 10
        return pause

    def _try(
        self, name: str, method: str, target: str, headers: Dict[str, str], body: Optional[bytes], end: float, repeatable: bool, held: float,
    ) -> Tuple[Any, email.message.Message]:
        longest = _TRY + held
        begun = time.monotonic()
        left = min(longest, end - begun)
        if left <= 0:
            raise DeadlineError(f"{name}: the time is over")
        abort: Optional[_Abort] = getattr(_local, "abort", None)
        try:
            got = self._connections.exchange(method, target, headers, body, begun + left, repeatable)
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: of a socket that another thread has shut down
            if abort is not None and abort.event.is_set():
                raise _Aborted(f"{name}: the call was ended") from error
            if isinstance(error, socket.timeout) or time.monotonic() >= begun + left:
                if left < longest:
                    raise DeadlineError(f"{name}: no answer within the time that is left, {left:.3f} s") from error
                raise NoAnswerError(f"{name}: no answer within {longest} s") from error
            raise NoAnswerError(f"{name}: {error or type(error).__name__}", written=not isinstance(error, _NotConnected)) from error
        if got.status == 304 and headers.get("If-None-Match"):
            return None, got.headers
        if not 200 <= got.status <= 299:
            raise _refusal(name, got)
        if not got.content:
            return None, got.headers
        try:
            return json.loads(got.content), got.headers
        except (ValueError, RecursionError) as error:
            raise StatusError(name, got.status, _excerpt(got.content), odd=True) from error


def pages(list: Callable[[int, str], Page]) -> Iterator[Any]:
    """Gives all items of a list, page by page: pages(lambda size, token: client.dead_letters(queue="mail", size=size, token=token))."""
    token = ""
    while True:
        page = list(_MAX_PAGE, token)
        yield from page["items"]
        if page["next_page_token"] is None:
            return
        token = page["next_page_token"]


def _retryable(repeatable: bool, error: ForgeQueueError) -> bool:
    if isinstance(error, NoAnswerError):
        return repeatable or not error._written
    if not repeatable:
        return False
    status = _status(error)
    if status == 429:
        return _code(error) != "would_wait"  # the caller does not want to wait
    if status == 409:
        return _code(error) == "idempotency_in_flight"  # an earlier try of this call has not ended
    return status in (502, 503, 504)


def _refusal(name: str, got: _Received) -> ForgeQueueError:
    asked = _retry_after_header(got.headers.get("Retry-After"))
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(got.content)
        if got.headers.get_content_type() == "application/problem+json" and isinstance(document, dict) and isinstance(document.get("code"), str) and document["code"]:
            document["status"] = got.status
            if not isinstance(document.get("retry_after_ms"), (int, float)):
                document["retry_after_ms"] = None if asked is None else asked * 1000
            return Problem(name, document)
    return StatusError(name, got.status, _excerpt(got.content), asked)


def _retry_after_header(value: Optional[str]) -> Optional[float]:
    """Retry-After in seconds: a number or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value):
        return float(value)
    try:
        at = email.utils.parsedate_to_datetime(value)
        return max(at.replace(tzinfo=at.tzinfo or datetime.timezone.utc).timestamp() - time.time(), 0)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _excerpt(content: bytes) -> str:
    return content[:_EXCERPT].decode("utf-8", "replace")


def _segment(name: str) -> str:
    """One segment of a path, so that an id cannot change the route."""
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise ForgeQueueError(f"{name!r} cannot be an id")
    return "/" + urllib.parse.quote(name, safe="", errors="replace")


def _query(query: Optional[Mapping[str, Any]]) -> str:
    encoded = urllib.parse.urlencode(
        [(name, value) for name, value in (query or {}).items() if value is not None and (value != "" or name.startswith("metadata."))], errors="replace",
    )
    return f"?{encoded}" if encoded else ""


def _encode(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ForgeQueueError(f"cannot be written as JSON: {error}") from error


def _too_large(detail: str) -> Dict[str, Any]:
    return {
        "type": "/problems/payload_too_large", "title": "The body is too large", "status": 413, "detail": detail, "instance": "", "code": "payload_too_large",
        "request_id": "", "retry_after_ms": None, "errors": [], "policies": [],
    }


def _status(error: BaseException) -> int:
    return error.status if isinstance(error, (Problem, StatusError)) else 0


def _code(error: BaseException) -> str:
    return error.code if isinstance(error, Problem) else ""


def _retry_after(error: BaseException) -> Optional[float]:
    return error.retry_after if isinstance(error, (Problem, StatusError)) else None


def _sendable(value: str) -> str:
    """A text that a header can carry; "" for others."""
    return value if re.fullmatch(r"[ -~]{1,128}", value) else ""


def _ended(state: str) -> bool:
    return state in ("completed", "dead_letter", "cancelled")


# ---- asyncio


class AsyncClient:
    """The calls of a Client for asyncio. Each call that is under way takes one of ``threads`` threads; others wait for one.

    A cancelled call ends at once, and closes its connection.
    """

    def __init__(self, client: Client, *, threads: int = 32) -> None:
        self.sync = client
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="forgequeue")

    @classmethod
    def from_env(cls, *, timeout: float = 120.0, threads: int = 32) -> AsyncClient:
        """A client by FORGEQUEUE_URL, and FORGEQUEUE_API_KEY or FORGEQUEUE_API_KEY_FILE."""
        return cls(Client.from_env(timeout=timeout), threads=threads)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that are not in use, and ends the threads when their calls have ended."""
        self._threads.shutdown(wait=False)
        self.sync.close()

    async def _run(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        abort = _Abort()

        def work() -> T:
            with _aborting(abort):
                return call(*args, **options)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except asyncio.CancelledError:
            abort.set()
            raise

    async def submit(
        self, job: SubmitRequest, *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "", timeout: Optional[float] = None,
    ) -> Submitted:
        """Client.submit"""
        return await self._run(
            self.sync.submit, job, idempotency_key=idempotency_key, correlation_id=correlation_id, traceparent=traceparent, timeout=timeout,
        )

    async def rerun(
        self, job_id: str, differs: Optional[Mapping[str, Any]] = None, *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "",
        timeout: Optional[float] = None,
    ) -> Submitted:
        """Client.rerun"""
        return await self._run(
            self.sync.rerun, job_id, differs, idempotency_key=idempotency_key, correlation_id=correlation_id, traceparent=traceparent, timeout=timeout,
        )

    async def submit_batch(
        self, jobs: Sequence[SubmitRequest], *, atomic: bool = False, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "",
        timeout: Optional[float] = None,
    ) -> BatchAnswer:
        """Client.submit_batch"""
        return await self._run(
            self.sync.submit_batch, jobs, atomic=atomic, idempotency_key=idempotency_key, correlation_id=correlation_id, traceparent=traceparent, timeout=timeout,
        )

    async def submit_many(
        self, jobs: Iterable[SubmitRequest], *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "", timeout: Optional[float] = None,
    ) -> BatchAnswer:
        """Client.submit_many"""
        return await self._run(
            self.sync.submit_many, jobs, idempotency_key=idempotency_key, correlation_id=correlation_id, traceparent=traceparent, timeout=timeout,
        )

    async def get(self, job_id: str, *, timeout: Optional[float] = None) -> Job:
        """Client.get"""
        return await self._run(self.sync.get, job_id, timeout=timeout)

    async def get_with_etag(self, job_id: str, *, timeout: Optional[float] = None) -> Tuple[Job, str]:
        """Client.get_with_etag"""
        return await self._run(self.sync.get_with_etag, job_id, timeout=timeout)

    async def wait(self, job_id: str, *, timeout: Optional[float] = None) -> Job:
        """Client.wait"""
        return await self._run(self.sync.wait, job_id, timeout=timeout)

    async def result(self, job_id: str, *, timeout: Optional[float] = None) -> Any:
        """Client.result"""
        return await self._run(self.sync.result, job_id, timeout=timeout)

    async def submit_and_wait(
        self, job: SubmitRequest, *, idempotency_key: str = "", correlation_id: str = "", traceparent: str = "", timeout: Optional[float] = None,
    ) -> Any:
        """Client.submit_and_wait"""
        return await self._run(
            self.sync.submit_and_wait, job, idempotency_key=idempotency_key, correlation_id=correlation_id, traceparent=traceparent, timeout=timeout,
        )

    async def list(
        self, *, queue: str = "", type: str = "", states: Sequence[str] = (), tag: str = "", user: str = "", dedupe_key: str = "", key: str = "",
        metadata: Optional[Mapping[str, str]] = None, created_after: str = "", created_before: str = "", size: int = 0, token: str = "",
        timeout: Optional[float] = None,
    ) -> Page:
        """Client.list"""
        return await self._run(
            self.sync.list, queue=queue, type=type, states=states, tag=tag, user=user, dedupe_key=dedupe_key, key=key, metadata=metadata, created_after=created_after,
            created_before=created_before, size=size, token=token, timeout=timeout,
        )

    async def all(
        self, *, queue: str = "", type: str = "", states: Sequence[str] = (), tag: str = "", user: str = "", dedupe_key: str = "", key: str = "",
        metadata: Optional[Mapping[str, str]] = None, created_after: str = "", created_before: str = "",
    ) -> AsyncIterator[JobSummary]:
        """Client.all"""
        token = ""
        while True:
            page = await self.list(
                queue=queue, type=type, states=states, tag=tag, user=user, dedupe_key=dedupe_key, key=key, metadata=metadata, created_after=created_after,
                created_before=created_before, size=_MAX_PAGE, token=token,
            )
            for job in page["items"]:
                yield job
            if page["next_page_token"] is None:
                return
            token = page["next_page_token"]

    async def attempts(self, job_id: str, *, size: int = 0, token: str = "", timeout: Optional[float] = None) -> Page:
        """Client.attempts"""
        return await self._run(self.sync.attempts, job_id, size=size, token=token, timeout=timeout)

    async def output(self, job_id: str, *, after: str = "", timeout: Optional[float] = None) -> OutputPage:
        """Client.output"""
        return await self._run(self.sync.output, job_id, after=after, timeout=timeout)

    async def all_output(self, job_id: str, *, after: str = "") -> AsyncIterator[Output]:
        """Client.all_output"""
        while True:
            page = await self.output(job_id, after=after)
            for piece in page["items"]:
                yield piece
            if not page["more"] or not page["items"]:
                return
            after = page["items"][-1]["id"]

    async def patch_job(self, job_id: str, changes: JobPatch, *, if_match: Optional[str] = None, timeout: Optional[float] = None) -> Job:
        """Client.patch_job"""
        return await self._run(self.sync.patch_job, job_id, changes, if_match=if_match, timeout=timeout)

    async def cancel(self, job_id: str, *, timeout: Optional[float] = None) -> JobSummary:
        """Client.cancel"""
        return await self._run(self.sync.cancel, job_id, timeout=timeout)

    async def signal(self, job_id: str, name: str, data: Any = None, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Client.signal"""
        return await self._run(self.sync.signal, job_id, name, data, timeout=timeout)

    async def signal_link(self, job_id: str, name: str, *, title: str = "", expires: Optional[float] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Client.signal_link"""
        return await self._run(self.sync.signal_link, job_id, name, title=title, expires=expires, timeout=timeout)

    async def delete_job(self, job_id: str, *, timeout: Optional[float] = None) -> None:
        """Client.delete_job"""
        await self._run(self.sync.delete_job, job_id, timeout=timeout)

    async def redrive(self, job_id: str, *, timeout: Optional[float] = None) -> JobSummary:
        """Client.redrive"""
        return await self._run(self.sync.redrive, job_id, timeout=timeout)

    async def call(
        self, method: str, path: Sequence[str], *, query: Optional[Mapping[str, Any]] = None, body: Any = None, repeatable: bool = False,
        timeout: Optional[float] = None,
    ) -> Any:
        """Client.call"""
        return await self._run(self.sync.call, method, path, query=query, body=body, repeatable=repeatable, timeout=timeout)


# ---- signatures of webhooks and pushed jobs


def verify(
    secret: Union[str, Sequence[str]], headers: Mapping[str, str], body: Union[str, bytes], *, tolerance: float = 300.0, now: Optional[float] = None,
) -> bool:
    """Says whether a call of a webhook or a push queue is signed with a secret, by Standard Webhooks: HMAC-SHA-256 over "id.timestamp.body".

    secret is "whsec_" and base64, or several of them, of which one has to fit. body is as it was received, not decoded and
    encoded again. tolerance is how old, or how far ahead, the timestamp may be, in seconds; now takes the place of time.time().
    Whatever is malformed, the secret included, is False; nothing is raised.
    """
    try:
        found = {}
        for name, value in headers.items():
            lower = name.lower()
            if lower in found:
                return False
            found[lower] = value
        identity, timestamp, signature = (found.get(name, "") for name in ("webhook-id", "webhook-timestamp", "webhook-signature"))
        if not identity or not signature or len(identity) > 1024 or len(signature) > 4096 or not re.fullmatch(r"[0-9]{1,12}", timestamp):
            return False
        if not abs((time.time() if now is None else now) - int(timestamp)) <= tolerance:
            return False
        content = body.encode("utf-8") if isinstance(body, str) else bytes(body)
        message = f"{identity}.{timestamp}.".encode("utf-8") + content
        signatures = [_base64(one[3:]) for one in signature.split(" ") if one.startswith("v1,")]
        fits = False
        for one in [secret] if isinstance(secret, str) else secret:
            key = _base64(one[6:] if one.startswith("whsec_") else one)
            if not key:
                continue
            want = hmac.new(key, message, hashlib.sha256).digest()
            for got in signatures:
                fits = hmac.compare_digest(want, got) or fits
        return fits
    except Exception:  # noqa: BLE001: whatever is wrong with it, it is not verified
        return False


def _base64(text: str) -> bytes:
    """Strict base64; b"" if it is not."""
    if len(text) % 4 != 0 or not re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", text):
        return b""
    return base64.b64decode(text, validate=True)


# ---- the worker


class LeaseLost(ForgeQueueError):
    """The job is no longer this worker's, and may run elsewhere."""

    def __init__(self) -> None:
        super().__init__("the lease is lost")


class CancelRequested(ForgeQueueError):
    """The cancellation of the job was requested."""

    def __init__(self) -> None:
        super().__init__("cancellation of the job was requested")


class TimedOut(ForgeQueueError):
    """The attempt has used up the job's timeout_ms, or the handler's own timeout."""

    def __init__(self) -> None:
        super().__init__("the attempt has used up its time")


class Stopping(ForgeQueueError):
    """The worker stops, and its grace period is over."""

    def __init__(self) -> None:
        super().__init__("the worker is stopping")


class Permanent(ForgeQueueError):
    """Raised by a handler: the job becomes a dead letter at once. error is a text or an exception."""

    def __init__(self, error: Union[str, BaseException]) -> None:
        self.error = error if isinstance(error, BaseException) else None
        super().__init__(str(error))


class RetryAfter(ForgeQueueError):
    """Raised by a handler: the attempt fails, and the next one comes after so many seconds, at most 7 days."""

    def __init__(self, error: Union[str, BaseException], delay: float) -> None:
        self.error = error if isinstance(error, BaseException) else None
        self.delay = _clamp(delay, _MAX_BACKOFF)
        super().__init__(str(error))


class Snooze(ForgeQueueError):
    """Raised by a handler: the job comes back after so many seconds, and no attempt is used up. The reason, if any, becomes its last error."""

    def __init__(self, delay: float, reason: str = "") -> None:
        self.delay, self.reason = _clamp(delay, _MAX_DELAY), reason
        super().__init__(f"snoozed for {delay} s")


class Throttled(ForgeQueueError):
    """Raised by a handler that was refused, such as by a provider with 429: for so many seconds the budget is closed for all jobs, then the job comes back.

    No attempt is used up. The reason, if any, becomes its last error.
    """

    def __init__(self, budget: str, delay: float, reason: str = "") -> None:
        if not _NAME.fullmatch(budget):
            raise ForgeQueueError(f"{budget!r} cannot be the name of a budget")
        if not delay >= 0:
            raise ForgeQueueError(f"budget {budget} cannot be closed for {delay} s")
        self.budget, self.delay, self.reason = budget, max(_clamp(delay, _MAX_DELAY), 0.001), reason
        super().__init__(f"budget {budget} is closed for {delay} s")

    @classmethod
    def of(cls, budget: str, retry_after: Optional[str], reason: str = "") -> Throttled:
        """One by the value of a Retry-After header, seconds or a date: at least a second, and 10 seconds if it is None or neither."""
        asked = None if retry_after is None else _retry_after_header(retry_after.strip())
        return cls(budget, max(_THROTTLED if asked is None else asked, _SHORTEST_THROTTLED), reason)


class Wait(ForgeQueueError):
    """Raised by a handler: the job waits for any of some signals, at most 16, for so many seconds at most. Without signals it sleeps.

    With all=True it waits for all of them. It uses up no attempt, and takes no slot meanwhile. When a signal comes, or the time is up,
    the handler is called again, from the beginning: job.received(name) and job.woken_by say what has come, and job.restore() gives the
    last checkpoint, which is sent with the wait, as the jobs of then and the signals of then_signal are.
    """

    def __init__(self, timeout: float, *signals: str, all: bool = False) -> None:
        self.timeout, self.signals, self.all = _clamp(timeout, _MAX_DELAY), list(signals), all
        what = f"waits for {(' and ' if all else ' or ').join(signals)}, at most" if signals else "sleeps for"
        super().__init__(f"{what} {timeout} s")


class RunningJob:
    """One attempt at a job, as its handler sees it."""

    def __init__(self, lease: _Lease, wake: Callable[[], None]) -> None:
        job = lease.job
        self.id: str = job["id"]
        self.tenant: str = job["tenant"]
        self.user: Optional[str] = job["user"]
        self.type: str = job["type"]
        self.queue: str = job["queue"]
        self.payload: Any = job["payload"]
        self.priority: int = job["priority"]
        self.attempt: int = job["attempt"]
        self.max_attempts: int = job["max_attempts"]
        self.epoch: int = job["epoch"]
        self.deadline: Optional[str] = job["deadline"]
        self.tags: List[str] = job["tags"]
        self.metadata: Dict[str, str] = job["metadata"]
        self.correlation_id: Optional[str] = job["correlation_id"]
        self.traceparent: Optional[str] = job["traceparent"]
        self.created_at: str = job["created_at"]
        self.workflow: Optional[Dict[str, str]] = job.get("workflow")
        self.parents: List[Dict[str, Any]] = job.get("parents") or []
        self.signals: List[Dict[str, Any]] = job.get("signals") or []
        """Those that the job has, each with name, data and at; received finds one."""
        self.woken_by: Optional[str] = job.get("woken_by")
        """What has ended the job's last wait: signal or timeout; None if it has not waited."""
        self.ended: threading.Event = lease.ended
        """Set when the handler should stop; cause says why. A handler that is a coroutine is cancelled then."""
        self._lease, self._wake = lease, wake

    @property
    def cause(self) -> Optional[ForgeQueueError]:
        """Why the handler should stop: LeaseLost, CancelRequested, TimedOut or Stopping; None if it should not."""
        return self._lease.cause

    def raise_if_ended(self) -> None:
        """Raises the cause if the handler should stop."""
        if self._lease.cause is not None:
            raise self._lease.cause

    def progress(self, percent: Optional[float], message: str = "") -> None:
        """Says how far the attempt is: 0 to 100 percent, None if that is not known.

        Call it as often as you like: the newest is sent, at most once a second.
        """
        known = percent is not None and percent >= 0
        report: Progress = {"percent": min(percent, 100) if percent is not None and known else None, "message": _clean(message)[:256] or None}
        if self._lease.report(report, None):
            self._wake()

    def checkpoint(self, value: Any) -> None:
        """Keeps a value, as JSON of at most 64 KiB, for the attempts after this one.

        It is sent within about a second, and before the attempt ends otherwise than completed. Raises ForgeQueueError if the value
        cannot be kept.
        """
        encoded = _encode(value)
        if encoded == b"null":
            raise ForgeQueueError("the checkpoint is None, which would leave the one before; use an empty value of your own")
        if len(encoded) > _MAX_CHECKPOINT:
            raise ForgeQueueError(f"the checkpoint has {len(encoded)} bytes as JSON, and may have {_MAX_CHECKPOINT}")
        if self._lease.report(None, encoded):
            self._wake()

    def used(self, budget: str, amount: int) -> None:
        """Says what the attempt has used of a budget, in all: a whole number from 0. A later call for the same budget replaces it.

        It is sent with the outcome, whatever that is. Raises ForgeQueueError if the amount or the budget's name cannot be sent.
        """
        if not _NAME.fullmatch(budget):
            raise ForgeQueueError(f"{budget!r} cannot be the name of a budget")
        if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount <= _MAX_AMOUNT:
            raise ForgeQueueError(f"what was used of budget {budget} has to be a whole number from 0 to 2**50, and is {amount!r}")
        if not self._lease.use(budget, amount):
            raise ForgeQueueError(f"an attempt can say of at most {_MAX_COSTS} budgets what it has used")

    def then(self, *jobs: SubmitRequest) -> None:
        """Has jobs submitted when this one is completed or waits: at most 100 of an attempt. The key needs the scope submit.

        They are stored in the same transaction, so each is there exactly once if the outcome is accepted, and not at all otherwise. If
        one is refused as wrong, the attempt fails permanently with an error of type "submit". While a limit refuses them (429), the
        attempt stays, and is sent again. Raises ForgeQueueError if a job cannot be written as JSON.
        """
        self._lease.follow([json.loads(_encode(job)) for job in jobs])  # as they are now

    def then_signal(self, job_id: str, name: str, data: Any = None) -> None:
        """Has a signal of another job sent when this one is completed or waits: at most 16 of an attempt. The key needs the scope submit.

        It is stored in the same transaction, as the jobs of then are. If it is refused, as that of a job that has ended is, the
        attempt fails permanently with an error of type "signal". Raises ForgeQueueError if the data cannot be sent.
        """
        signal: Dict[str, Any] = {"job_id": job_id, "name": name}
        if data is not None:
            encoded = _encode(data)
            if len(encoded) > _MAX_SIGNAL_DATA:
                raise ForgeQueueError(f"the data of signal {name!r} has {len(encoded)} bytes as JSON, and may have {_MAX_SIGNAL_DATA}")
            signal["data"] = json.loads(encoded)  # as it is now
        self._lease.signal(signal)

    def write(self, text: str, stream: str = "out") -> int:
        """Writes to the job's output, to the stream out, err or log: others read it while the job runs. So print("page 3", file=job).

        It does not wait for the server, and does not fail: what is written is sent in the background within about a quarter of a
        second, and the rest before the outcome. What is not sent in time is dropped beyond 256 KiB, the oldest first, with a note.
        """
        self._lease.output.write(text, stream)
        return len(text)

    def log(self, text: str) -> None:
        """Writes a line to the job's output, to the stream log."""
        self._lease.output.write(text if text.endswith("\n") else text + "\n", "log")

    def flush(self) -> None:
        """Does nothing: it makes the job a file that print and logging can write to."""

    def received(self, name: str) -> Optional[Dict[str, Any]]:
        """The signal of a name, with name, data and at; None if the job has none."""
        return next((one for one in self.signals if one["name"] == name), None)

    def restore(self) -> Any:
        """The last checkpoint of an earlier attempt; None if there is none."""
        return self._lease.job.get("checkpoint")


Handler = Callable[[RunningJob], Any]
"""A function, or a coroutine function, of a job: what it returns is the result."""

# After a stop: how long handlers have to return once they were told; then, how long outcomes are sent; then, how long the worker deregisters.
_PATIENCE = 2.0
_LAST_WORD = 5.0
_GOODBYE = 2.0
# The longest time between two heartbeats, and the shortest length of a lease that is used.
_LONGEST_BEAT = 10.0
_SHORTEST_LEASE = 1.0
_REPORT_EVERY = 1.0
_REPORT_BYTES = 4 << 20
_OUTCOME_TRY = 15.0
# For how long output is gathered, where no chunk is full; how many bytes of it an attempt keeps until they are sent, and what a piece
# counts at least; how long a request with it may take, how long the wait after one that failed, and how long the rest before the outcome.
_OUTPUT_EVERY = 0.25
_OUTPUT_UNSENT = 256 << 10
_OUTPUT_PIECE = 64
_OUTPUT_TRY = 30.0
_OUTPUT_RETRY = 2.0
_LAST_OUTPUT = 3.0
_NO_OUTPUT = re.compile("[\0\ud800-\udfff]")
# What a batch of outcomes has at most in bytes, what of it an outcome has beside its body, and how often a batch that fails as a whole
# is divided to find the outcome that is at fault.
_OUTCOME_BYTES = _MAX_BATCH_BODY - (64 << 10)
_OUTCOME_FRAME = 512
_MAX_HALVINGS = 32
# While handlers take less than _QUICK on average, jobs are claimed ahead of them: what the slots do in _AHEAD_WORK. What gets no slot
# within _LONGEST_AHEAD is released, for a worker that has one: no job waits behind a slow handler for longer than _QUICK.
_QUICK = 0.1
_AHEAD_WORK = _QUICK / 2
_AHEAD_PER_SLOT = 10
_LONGEST_AHEAD = _QUICK * 0.8
# The parts of the mean duration that one handler replaces: what takes longer is learned at once, what takes less slowly.
_RISING, _FALLING = 0.5, 0.1


class _Lease:
    """One claimed job while it is this worker's."""

    def __init__(self, job: Dict[str, Any], client: Client, logger: logging.Logger) -> None:
        self.job = job
        self.output = _Output(self, client, logger)
        self.token: str = job["lease_token"]
        self.ended = threading.Event()
        self.cause: Optional[ForgeQueueError] = None
        self.lock = threading.Lock()
        self.on_end: List[Callable[[], None]] = []
        self.returned = False
        self.settled = threading.Event()  # the coroutine has returned, or is no longer waited for
        self.came = self.renewed = time.monotonic()
        self.length = max(job["lease_ms"] / 1000, _SHORTEST_LEASE)
        self.progress: Optional[Progress] = None
        self.checkpoint: Optional[bytes] = None  # JSON
        self.used: Dict[str, int] = {}  # of budgets, as far as the handler has said so
        self.following: List[SubmitRequest] = []  # the jobs that are submitted with the result or wait
        self.signalling: List[Dict[str, Any]] = []  # the signals of other jobs that are sent with it
        self.added = 0  # counts reports: what comes while one is sent stays
        self.next_report = 0.0

    def end(self, cause: ForgeQueueError) -> None:
        """Tells the handler to stop; the first cause counts.

        One that has returned is told nothing: a heartbeat that was under way meanwhile reports its lease as lost.
        """
        with self.lock:
            if self.cause is not None or self.returned:
                return
            self.cause = cause
            listeners, self.on_end = self.on_end, []
        self.ended.set()
        for listener in listeners:
            listener()

    def has_returned(self) -> None:
        with self.lock:
            self.returned = True
            self.on_end = []

    def listen(self, listener: Callable[[], None]) -> None:
        with self.lock:
            if self.cause is None:
                self.on_end.append(listener)
                return
        listener()

    def report(self, progress: Optional[Progress], checkpoint: Optional[bytes]) -> bool:
        """Notes a report; True if there was none to send before."""
        with self.lock:
            first = not self.reporting
            self.progress = progress or self.progress
            self.checkpoint = checkpoint or self.checkpoint
            self.added += 1
            return first

    def use(self, budget: str, amount: int) -> bool:
        """Notes what was used of a budget; False if that is one too many."""
        with self.lock:
            if budget not in self.used and len(self.used) >= _MAX_COSTS:
                return False
            self.used[budget] = amount
            return True

    def with_used(self, body: Dict[str, Any]) -> Dict[str, Any]:
        """The body of an outcome with what was used."""
        with self.lock:
            return {**body, "used": dict(self.used)} if self.used else body

    def follow(self, jobs: List[SubmitRequest]) -> None:
        """Notes jobs that are submitted with the result or wait."""
        with self.lock:
            self.following += jobs

    def signal(self, signal: Dict[str, Any]) -> None:
        """Notes a signal that is sent with the result or wait."""
        with self.lock:
            self.signalling.append(signal)

    def with_following(self, body: Dict[str, Any]) -> Dict[str, Any]:
        """The body of a complete or wait with the jobs that it submits, and the signals that it sends."""
        with self.lock:
            if self.following:
                body = {**body, "submit": list(self.following)}
            return {**body, "signal": list(self.signalling)} if self.signalling else body

    def with_checkpoint(self, body: Dict[str, Any]) -> Dict[str, Any]:
        """The body of a wait with the checkpoint that the server does not have yet."""
        with self.lock:
            return body if self.checkpoint is None else {**body, "checkpoint": json.loads(self.checkpoint)}

    def sent(self, added: int) -> None:
        with self.lock:
            if self.added == added:
                self.progress = self.checkpoint = None

    @property
    def reporting(self) -> bool:
        return self.progress is not None or self.checkpoint is not None

    @property
    def late(self) -> float:
        """Until when the job may wait for a slot; its timeout_ms counts from the claim."""
        limit = self.job["timeout_ms"]
        return self.came + (_LONGEST_AHEAD if limit is None else min(_LONGEST_AHEAD, limit / 1000 / 10))

    @property
    def expires(self) -> float:
        """When the lease is assumed to expire."""
        return self.renewed + self.length

    @property
    def certain_end(self) -> float:
        """An expired lease is its holder's until the server takes it back: an outcome can be accepted until then."""
        return self.renewed + 2 * self.length


class _Output:
    """What an attempt has written and the server does not have yet. A thread sends it, which is there while there is something to send."""

    def __init__(self, lease: _Lease, client: Client, logger: logging.Logger) -> None:
        self._lease, self._client, self._logger = lease, client, logger
        self._lock = threading.Lock()
        self._pieces: Deque[Tuple[str, bytearray]] = collections.deque()
        self._size = self._dropped = self._seq = 0
        self._sending = self._over = False
        self._then: Optional[Callable[[], None]] = None  # what comes when all is sent
        self._hurry = threading.Event()  # ends the gathering
        self._abort = _Abort()

    def write(self, text: str, stream: str) -> None:
        if stream not in ("out", "err", "log"):
            raise ForgeQueueError(f"{stream!r} is no stream: out, err or log")
        content = _NO_OUTPUT.sub("\ufffd", text).encode("utf-8")
        with self._lock:
            if self._over or not content:
                return
            start = 0
            while start < len(content):
                last = self._pieces[-1][1] if self._pieces and self._pieces[-1][0] == stream else None
                end = min(len(content), start + _MAX_OUTPUT_CHUNK - (0 if last is None else len(last)))
                while end < len(content) and content[end] & 0xC0 == 0x80:
                    end -= 1  # no character is split
                if last is None or end <= start:
                    self._pieces.append((stream, bytearray()))
                    self._size += _OUTPUT_PIECE
                    continue
                self._size -= max(len(last), _OUTPUT_PIECE)
                last += content[start:end]
                self._size += max(len(last), _OUTPUT_PIECE)
                start = end
                while self._size > _OUTPUT_UNSENT and len(self._pieces) > 1:
                    gone = self._pieces.popleft()[1]
                    self._size -= max(len(gone), _OUTPUT_PIECE)
                    self._dropped += len(gone)
            if self._size >= _MAX_OUTPUT_CHUNK:
                self._hurry.set()
            if not self._sending:
                self._sending = True
                threading.Thread(target=self._send, name="forgequeue-output", daemon=True).start()

    def end(self, within: float, then: Callable[[], None]) -> None:
        """Takes no more, and calls then when the rest is sent, or cannot be sent within so many seconds."""
        with self._lock:
            self._over = True
            if self._sending:
                self._then = then
        if self._then is None:
            then()
            return
        self._hurry.set()
        timer = threading.Timer(within, self._abort.set)
        timer.daemon = True
        timer.start()

    def _send(self) -> None:
        with _aborting(self._abort):
            while True:
                self._hurry.wait(_OUTPUT_EVERY)
                self._hurry.clear()
                chunks = self._take()
                if not chunks:
                    break
                try:
                    sent = self._deliver(chunks)
                except _Aborted:
                    sent = False
                except Exception:  # noqa: BLE001: no job fails because of its output
                    self._logger.exception("the output of job %s cannot be sent", self._lease.job["id"])
                    sent = False
                if not sent:
                    with self._lock:
                        self._over = True
                        self._pieces.clear()
                        self._size = self._dropped = 0
        if self._then is not None:
            self._then()

    def _take(self) -> List[Dict[str, Any]]:
        """Numbers what is sent next. If there is nothing the thread ends."""
        chunks: List[Dict[str, Any]] = []
        with self._lock:
            if self._dropped:
                self._seq += 1
                chunks.append({"seq": self._seq, "stream": "log", "text": f"\n[... {self._dropped} bytes of output could not be sent in time ...]\n"})
                self._dropped = 0
            while self._pieces and len(chunks) < _MAX_OUTPUT_CHUNKS:
                stream, content = self._pieces.popleft()
                self._size -= max(len(content), _OUTPUT_PIECE)
                self._seq += 1
                chunks.append({"seq": self._seq, "stream": stream, "text": content.decode("utf-8")})
            if self._over or self._size >= _MAX_OUTPUT_CHUNK:
                self._hurry.set()
            self._sending = bool(chunks)
        return chunks

    def _deliver(self, chunks: List[Dict[str, Any]]) -> bool:
        """Sends chunks until the server has them; a number that it has is left out there. False where it never will."""
        job, failures = self._lease.job, 0
        while True:
            try:
                self._client.call("POST", ["v1", "jobs", job["id"], "output"], body={"lease_token": self._lease.token, "chunks": chunks}, timeout=_OUTPUT_TRY)
                return True
            except ForgeQueueError as error:
                final = isinstance(error, _Aborted) or _final(_status(error))
                if failures == 0 or final:
                    self._logger.warning("output could not be sent%s: job_id=%s error=%r", "; the rest of it is dropped" if final else "", job["id"], str(error))
                if final:
                    return False
                _sleep(_retry_wait(failures, _OUTPUT_RETRY, error))
                failures += 1


class _Outcome(NamedTuple):
    kind: str  # complete, fail, snooze, wait, release; "" sends nothing
    body: Dict[str, Any]
    error: Optional[BaseException] = None


class _Sending:
    """An outcome that the server has not answered."""

    def __init__(self, lease: _Lease, outcome: _Outcome, took: float) -> None:
        self.lease, self.took = lease, took
        self.kind, self.error = outcome.kind, outcome.error
        self.body = lease.with_used(outcome.body)
        if self.kind in ("complete", "wait"):
            self.body = lease.with_following(self.body)
        if self.kind == "wait":
            self.body = lease.with_checkpoint(self.body)
        self.size = _OUTCOME_FRAME + len(_encode(self.body))
        self.failures = 0
        self.again = 0.0  # when it is sent again

    @property
    def submits(self) -> bool:
        """Whether jobs are submitted with the outcome."""
        return "submit" in self.body


class _HandlerOf(NamedTuple):
    run: Handler
    timeout: Optional[float]
    retry: Optional[Callable[[int, BaseException], Optional[float]]]


class Worker:
    """Claims jobs and runs their handlers: functions in threads, coroutine functions in one event loop.

    While there is a backlog and handlers take less than 100 ms on average, it claims what its slots will do in the next 50 ms, ten jobs
    a slot at most. One that gets no slot within 80 ms is released, which spends no attempt. Outcomes share requests.

    queues are "default" if empty. tags are what the worker can do: it gets jobs whose tags are all among them. concurrency is how
    many handlers run at once. worker_id has to be different in each process; it is made of host, pid and random characters if empty.
    wait is how long a claim waits for a job, at most 25 seconds. grace is how long running handlers may go on once the worker stops.
    unknown_type_delay is for how long a job is put back whose type has no handler here.
    """

    def __init__(
        self, client: Client, *, queues: Sequence[str] = ("default",), tags: Sequence[str] = (), concurrency: int = 10, worker_id: str = "",
        metadata: Optional[Mapping[str, str]] = None, wait: float = 20.0, grace: float = 20.0, unknown_type_delay: float = 30.0,
        logger: Optional[logging.Logger] = None,
    ) -> None:
        if concurrency < 1:
            raise ForgeQueueError("concurrency has to be a whole number from 1")
        if not 0 <= wait <= 25:
            raise ForgeQueueError("wait has to be 0 to 25 seconds")
        host = re.sub(r"[^!-~]", "-", socket.gethostname())[:64] or "unknown"
        self.id = worker_id or f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
        self._client = client
        self._queues, self._tags = list(queues) or ["default"], list(tags)
        self._concurrency, self._metadata = concurrency, dict(metadata) if metadata else None
        self._wait, self._grace, self._unknown_type_delay = wait, grace, _clamp(unknown_type_delay, _MAX_DELAY)
        self._logger = logger or logging.getLogger("forgequeue")
        self._handlers: Dict[str, _HandlerOf] = {}
        self._any: Optional[_HandlerOf] = None
        self._started = False
        self._lock = threading.Lock()  # guards what follows
        self._slot = threading.Condition(self._lock)  # there may be room for jobs, an outcome is answered, or the worker stops
        self._unsent = threading.Condition(self._lock)  # there is an outcome to send, or a job that waits
        self._beat_now = threading.Condition(self._lock)  # the heartbeats have to look again
        self._held: Dict[str, _Lease] = {}  # what heartbeats extend
        self._open: Set[_Lease] = set()  # all until their outcomes are answered, the lost ones too
        self._waiting: Deque[_Lease] = collections.deque()  # claimed, without a slot; the first to come in front
        self._running: Dict[_Lease, float] = {}  # those that have a slot, until their handlers return, by when they got it
        self._leaving: List[_Sending] = []
        self._mean = 0.0  # how long handlers took lately; 0 until one has returned
        self._backlog = False  # the last claim got all that it asked for; otherwise other workers may be idle
        self._threads = 0
        self._starting: queue.SimpleQueue[Optional[_Lease]] = queue.SimpleQueue()  # what the threads of the slots take; None ends one
        self._changed = False
        self._left = False
        self._stop = _Abort()  # ends the claims
        self._over = _Abort()  # ends what is still being sent
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._own_loop: Optional[asyncio.AbstractEventLoop] = None

    def handle(
        self, type: str, handler: Handler, *, timeout: Optional[float] = None, retry: Optional[Callable[[int, BaseException], Optional[float]]] = None,
    ) -> None:
        """Sets the handler of the jobs of a type. Call it before run, once for each type.

        timeout limits an attempt, in addition to the job's own timeout_ms. retry(attempt, error) is the wait before the next attempt, in
        seconds; None leaves it to the server.
        """
        if not _NAME.fullmatch(type):
            raise ForgeQueueError(f"{type!r} cannot be the type of a job")
        if self._started:
            raise ForgeQueueError(f"the handler for {type!r} came after run")
        if type in self._handlers:
            raise ForgeQueueError(f"{type!r} has two handlers")
        self._handlers[type] = _HandlerOf(handler, timeout, retry)

    def handle_any(
        self, handler: Handler, *, timeout: Optional[float] = None, retry: Optional[Callable[[int, BaseException], Optional[float]]] = None,
    ) -> None:
        """Sets the handler of the jobs of all other types. The worker then claims all types."""
        if self._started:
            raise ForgeQueueError("the handler of all types came after run")
        self._any = _HandlerOf(handler, timeout, retry)

    def stop(self) -> None:
        """Ends run, from another thread: the worker claims no more, and drains."""
        self._stop.set()
        with self._lock:
            self._slot.notify_all()

    def run(self) -> None:
        """Registers the worker, then claims and runs jobs until stop is called.

        It then claims no more, lets handlers go on for the grace period, tells them to stop, releases the jobs that are left, and
        deregisters. A key that is refused (401, 403) ends run in the same way, and raises. All other failures are retried.
        """
        if self._started:
            raise ForgeQueueError("run was called before")
        if not self._handlers and self._any is None:
            raise ForgeQueueError("there is no handler: set one with handle")
        self._started = True
        refused: Optional[ForgeQueueError] = None
        beats: Optional[threading.Thread] = None
        try:
            with _aborting(self._stop):
                self._register()
                self._logger.info("worker started: %s claims from %s", self.id, ", ".join(self._queues))
                beats = threading.Thread(target=self._heartbeats, name="forgequeue-heartbeats", daemon=True)
                beats.start()
                threading.Thread(target=self._outcomes, name="forgequeue-outcomes", daemon=True).start()
                self._claims()
        except _Aborted:
            pass
        except ForgeQueueError as error:
            refused = error
        self._logger.info("worker stopping: %s holds %d leases%s", self.id, len(self._held), f": {refused}" if refused else "")
        self._drain()
        with self._lock:
            self._left = True
            self._beat_now.notify_all()
            self._unsent.notify_all()
            for _ in range(self._threads):
                self._starting.put(None)
        self._over.set()
        if beats is not None:
            beats.join()
        if refused is None:
            self._leave()
        if self._own_loop is not None:
            self._own_loop.call_soon_threadsafe(self._own_loop.stop)
        self._logger.info("worker stopped: %s", self.id)
        if refused is not None:
            raise refused

    def run_until_signal(self, *signals: signal.Signals) -> None:
        """Runs until SIGTERM or SIGINT, or the signals that are named. A second signal ends the process at once. Call it in the main thread."""
        numbers = signals or (signal.SIGTERM, signal.SIGINT)

        def told(number: int, frame: Any) -> None:
            for each in numbers:
                signal.signal(each, signal.SIG_DFL)
            # In a thread of its own: this one may hold a lock that stop needs.
            threading.Thread(target=self.stop, daemon=True).start()

        before = {number: signal.signal(number, told) for number in numbers}
        try:
            self.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def run_async(self) -> None:
        """Runs with the handlers that are coroutine functions in the present event loop. When it is cancelled the worker stops, and it returns after that."""
        self._loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = self._loop.create_future()

        def settle(error: Optional[BaseException]) -> None:
            if not ended.done():
                if error is None:
                    ended.set_result(None)
                else:
                    ended.set_exception(error)

        def work() -> None:
            error: Optional[BaseException] = None
            try:
                self.run()
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(settle, error)

        loop = self._loop
        threading.Thread(target=work, name="forgequeue-worker", daemon=True).start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            threading.Thread(target=self.stop, daemon=True).start()
            await ended
            raise

    # -- claims

    def _types(self) -> Optional[List[str]]:
        return None if self._any is not None or len(self._handlers) > _MAX_TYPES else list(self._handlers)

    def _registration(self) -> Dict[str, Any]:
        body = {"worker_id": self.id, "queues": self._queues, "types": self._types(), "tags": self._tags, "concurrency": self._concurrency, "metadata": self._metadata}
        return {name: value for name, value in body.items() if value is not None}

    def _register(self) -> None:
        failures = 0
        while True:
            try:
                self._client.call("POST", ["v1", "workers"], body=self._registration(), repeatable=True)
                return
            except ForgeQueueError as error:
                if isinstance(error, _Aborted) or _key_refused(error):
                    raise
                self._logger.warning("register failed: %s (failures=%d)", error, failures + 1)
                _sleep(_retry_wait(failures, 10, error))
                failures += 1

    def _claims(self) -> None:
        failures = hasty = 0
        while True:
            with self._lock:
                most = self._room()
                while most == 0 and not self._stop.event.is_set():
                    self._slot.wait()
                    most = self._room()
            if self._stop.event.is_set():
                return
            asked = time.monotonic()
            body = {
                "worker_id": self.id, "queues": self._queues, "tags": self._tags, "max": most, "wait_ms": int(self._wait * 1000),
                **({} if self._types() is None else {"types": self._types()}),
            }
            try:
                # A stop closes the connection: the server then takes back the jobs that it was about to send.
                jobs = self._client._call("POST", ["v1", "claims"], body=body, held=self._wait)[0]["jobs"]
            except ForgeQueueError as error:
                if isinstance(error, _Aborted) or _key_refused(error):
                    raise
                self._logger.warning("claim failed: %s (failures=%d)", error, failures + 1)
                self._backlog = False
                _sleep(_retry_wait(failures, 10, error))
                failures += 1
                continue
            failures = 0
            self._begin(jobs, most)
            if jobs or time.monotonic() - asked >= min(0.1, self._wait / 2):
                hasty = 0
            else:  # the server did not wait as asked
                _sleep(_backoff(hasty, 0.1, 10))
                hasty += 1

    # The next five are called with the lock.

    def _room(self) -> int:
        """How many jobs may be claimed now: for the free slots, and ahead of them."""
        free, ahead = self._concurrency - len(self._running), self._ahead()
        if free <= 0 and len(self._waiting) > ahead // 2:
            return 0  # there is enough to start; the next claim asks for more at once
        return max(min(free + ahead - len(self._waiting), self._concurrency + 2 * ahead - len(self._open), _MAX_CLAIM), 0)

    def _ahead(self) -> int:
        """How many jobs may wait for a slot."""
        if not self._backlog or not 0 < self._mean < _QUICK:
            return 0
        now = time.monotonic()
        quick = self._concurrency - sum(now - since >= _QUICK for since in self._running.values())
        return int(quick * min(_AHEAD_WORK / self._mean, _AHEAD_PER_SLOT))

    def _start_next(self) -> None:
        """Gives the free slots to those that wait."""
        while self._waiting and len(self._running) < self._concurrency and not self._stop.event.is_set():
            lease = self._waiting.popleft()
            self._running[lease] = time.monotonic()
            self._starting.put(lease)
            if self._threads < len(self._running):
                self._threads += 1
                threading.Thread(target=self._slot_thread, name=f"forgequeue-handler-{self._threads}", daemon=True).start()

    def _release(self, gone: Iterable[_Lease]) -> None:
        """Gives back jobs that get no slot: no attempt is spent."""
        for lease in gone:
            kind = "" if isinstance(lease.cause, LeaseLost) else "release"
            self._leaving.append(_Sending(lease, _Outcome(kind, {}, lease.cause), time.monotonic() - lease.came))
        self._unsent.notify()

    def _release_late(self) -> None:
        """Releases what has waited too long, or was lost or cancelled meanwhile."""
        now = time.monotonic()
        late = {lease for lease in self._waiting if now >= lease.late or lease.cause is not None}
        if late:
            self._waiting = collections.deque(lease for lease in self._waiting if lease not in late)
            self._mean = max(self._mean, _QUICK)  # handlers take longer than they did
            self._release(late)

    def _begin(self, jobs: List[Dict[str, Any]], asked: int) -> None:
        """Starts jobs, now or when they have a slot. What came during a stop, or beyond what was asked for, is released."""
        leases = [_Lease(job, self._client, self._logger) for job in jobs]
        with self._lock:
            self._backlog = len(jobs) >= asked
            self._held.update((lease.token, lease) for lease in leases)
            self._open.update(leases)
            fit = 0 if self._stop.event.is_set() else asked
            self._waiting.extend(leases[:fit])
            self._start_next()
            self._release(leases[fit:])
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            self._changed = True
            self._beat_now.notify_all()

    # -- attempts

    def _slot_thread(self) -> None:
        """Runs handlers, one after the other."""
        while True:
            lease = self._starting.get()
            if lease is None:
                return
            try:
                outcome = self._execute(lease)
            except Exception as error:  # noqa: BLE001: the slot must become free; the lease expires
                self._logger.exception("the attempt of job %s ended unexpectedly", lease.job["id"])
                outcome = _Outcome("", {}, error)
            self._leave_slot(lease, outcome)

    def _leave_slot(self, lease: _Lease, outcome: _Outcome) -> None:
        """Gives back the slot of a handler that has returned. Its outcome is sent later."""
        sending = _Sending(lease, outcome, 0)
        with self._lock:
            since = self._running.pop(lease, None)
            if since is None:
                return  # it was abandoned
            sending.took = max(time.monotonic() - since, 1e-6)
            part = 1.0 if self._mean == 0 else _RISING if sending.took > self._mean else _FALLING
            self._mean += part * (sending.took - self._mean)
            self._start_next()
            self._slot.notify_all()
        lease.output.end(_LAST_OUTPUT if sending.kind else 0, lambda: self._leaves(sending))

    def _leaves(self, sending: _Sending) -> None:
        """Has an outcome sent, once the output of its attempt is."""
        with self._lock:
            self._leaving.append(sending)
            self._unsent.notify()

    def _execute(self, lease: _Lease) -> _Outcome:
        """Runs the handler, and decides the outcome."""
        job = lease.job
        if lease.cause is not None:  # it was lost or cancelled while it waited
            return _Outcome("" if isinstance(lease.cause, LeaseLost) else "release", {}, lease.cause)
        handler = self._handler_of(job)
        if handler is None:
            reason = {"type": "no_handler", "message": f"worker {self.id} has no handler for type {job['type']!r}"}
            return _Outcome("snooze", {"delay_ms": int(self._unknown_type_delay * 1000), "error": reason})
        own = None if job["timeout_ms"] is None else max(job["timeout_ms"] / 1000 - (time.monotonic() - lease.came), 0)  # it counts from the claim
        limits = [limit for limit in (own, handler.timeout) if limit is not None]
        timer = None
        if limits:
            timer = threading.Timer(min(*limits, threading.TIMEOUT_MAX), lambda: lease.end(TimedOut()))
            timer.daemon = True
            timer.start()
        try:
            result, error, stack = self._invoke(handler.run, lease)
        finally:
            if timer is not None:
                timer.cancel()
        if error is None:
            try:
                encoded = _encode(result)
                if len(encoded) > _MAX_RESULT:
                    raise ForgeQueueError(f"has {len(encoded)} bytes, and {_MAX_RESULT} are allowed")
                return _Outcome("complete", {"result": result})
            except ForgeQueueError as raised:
                error = _Named("result", f"the result {raised}")
                return _Outcome("fail", {"error": _job_error(error, ""), "permanent": True}, error)
        return _decide(error, stack, lease.cause, job, handler)

    def _handler_of(self, job: Dict[str, Any]) -> Optional[_HandlerOf]:
        return self._handlers.get(job["type"]) or self._any

    def _invoke(self, handler: Handler, lease: _Lease) -> Tuple[Any, Optional[BaseException], str]:
        """Runs the handler in this thread, or in the event loop. A stop does not wait for one that does not return."""
        ended: List[Tuple[Any, Optional[BaseException], str]] = []
        job = RunningJob(lease, self._wake)

        def settle(result: Any, error: Optional[BaseException]) -> None:
            lease.has_returned()
            stack = "" if error is None else "".join(traceback.format_exception(type(error), error, error.__traceback__))
            ended.append((result, error, stack))
            lease.settled.set()

        async def work_async() -> None:
            task = asyncio.current_task()
            loop = asyncio.get_running_loop()

            def cancel() -> None:
                with contextlib.suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(lambda: task.cancel() if task is not None and not ended else None)

            try:
                lease.listen(cancel)
                settle(await handler(job), None)
            except BaseException as error:
                settle(None, error)

        called = getattr(handler, "func", handler) if isinstance(handler, functools.partial) else handler
        if inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None)):
            asyncio.run_coroutine_threadsafe(work_async(), self._event_loop())
            lease.settled.wait()
        else:
            try:
                settle(handler(job), None)
            except BaseException as error:  # whatever it is, it is the job's
                settle(None, error)
        return ended[0] if ended else (None, _Deaf(), "")

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of run_async, or one in a thread of its own."""
        if self._loop is not None:
            return self._loop
        with self._lock:
            if self._own_loop is None:
                self._own_loop = asyncio.new_event_loop()
                threading.Thread(target=self._own_loop.run_forever, name="forgequeue-loop", daemon=True).start()
            return self._own_loop

    # -- outcomes

    def _outcomes(self) -> None:
        """Sends outcomes until the end. One request is under way at a time, and what comes during it forms the next one."""
        with _aborting(self._over):
            while True:
                with self._lock:
                    batch, pause = self._due()
                    while not batch:
                        if self._left:
                            return
                        self._unsent.wait(pause)
                        batch, pause = self._due()
                try:
                    self._report_last([one.lease for one in batch if one.kind not in ("", "complete", "wait") and one.failures == 0])
                    self._flush(batch)
                except Exception:  # noqa: BLE001: the others have to be sent; the leases expire
                    self._logger.exception("%d outcomes could not be sent", len(batch))
                    self._drop(batch)

    def _due(self) -> Tuple[List[_Sending], Optional[float]]:
        """The outcomes that may be sent now, the oldest first, as many as fit into a request; if there are none, how long to wait. Called with the lock."""
        self._release_late()
        now, over = time.monotonic(), self._over.event.is_set()
        batch: List[_Sending] = []
        later: List[_Sending] = []
        size = 0
        for one in self._leaving:
            if (one.again > now and not over) or len(batch) == _MAX_OUTCOMES or (batch and size + one.size > _OUTCOME_BYTES):
                later.append(one)
            else:
                batch.append(one)
                size += one.size
        self._leaving = later
        wake = min([*(one.again for one in later), *(lease.late for lease in self._waiting)], default=None)
        return batch, None if wake is None else max(wake - now, 0)

    def _flush(self, batch: List[_Sending]) -> None:
        """Sends outcomes in one request. One that is refused as a whole, perhaps because of one of them, is halved to find it."""
        parts, halvings = [batch], 0
        while parts:
            part = parts.pop()
            sent = [one for one in part if one.kind]
            whole = False
            try:
                errors = self._post(sent) if sent else []
            except ForgeQueueError as error:
                status = _status(error)
                limited = status == 429 and any(one.submits for one in sent)
                if limited:  # submits are limited, other outcomes do not wait for them
                    plain = [one for one in part if not one.submits]
                    if plain:
                        parts.append(plain)
                    part = sent = [one for one in part if one.submits]
                whole = len(sent) > 1 and (status == 500 or (_final(status) and not _key_refused(error)))
                if whole and halvings < _MAX_HALVINGS:
                    halvings += 1
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                if not _final(status) and status != 500 and not limited:  # the server cannot be reached, or is overloaded
                    part, parts = [*part, *(one for rest in parts for one in rest)], []
                    sent = [one for one in part if one.kind]
                errors = [error for _ in sent]
            self._drop([one for one in part if not one.kind], "lost")
            ended: Dict[str, List[_Sending]] = {}
            for one, problem in zip(sent, errors):
                ended.setdefault(self._answer(one, problem, whole), []).append(one)
            for word, those in ended.items():
                self._drop(those, word)

    def _post(self, batch: List[_Sending]) -> List[Optional[ForgeQueueError]]:
        """Makes one request, and gives the error of each outcome. One alone has a route of its own, where a result may be nested deeper."""
        repeatable = not any(one.submits for one in batch)  # a call that waits for a limit on submits delays all outcomes; the worker sends them again
        if len(batch) == 1:
            one = batch[0]
            job = one.lease.job
            headers = {"X-Correlation-Id": _sendable(job["correlation_id"] or ""), "Traceparent": _sendable(job["traceparent"] or "")}
            body = {"lease_token": one.lease.token, **one.body}
            self._client._call("POST", ["v1", "jobs", job["id"], one.kind], body=body, headers=headers, repeatable=repeatable, timeout=_OUTCOME_TRY)
            return [None]
        outcomes = [{"job_id": one.lease.job["id"], "kind": one.kind, "lease_token": one.lease.token, **one.body} for one in batch]
        answer = self._client.call("POST", ["v1", "outcomes"], body={"outcomes": outcomes}, repeatable=repeatable, timeout=_OUTCOME_TRY)
        results = {result["index"]: result for result in answer["results"]}
        errors: List[Optional[ForgeQueueError]] = []
        for number in range(len(batch)):
            result = results.get(number) or {"status": 0}
            error: Optional[ForgeQueueError] = None
            if result.get("problem"):
                error = Problem("POST /v1/outcomes", {**result["problem"], "status": result["status"]})
            elif not 200 <= result["status"] <= 299:
                error = NoAnswerError("the answer does not tell of this outcome")
            errors.append(error)
        return errors

    def _answer(self, one: _Sending, error: Optional[ForgeQueueError], whole: bool) -> str:
        """The word for how an outcome ended; "" if it is sent again. whole says that the error may be another one's."""
        if error is None:
            return {"complete": "completed", "fail": "failed", "snooze": "snoozed", "wait": "waiting", "release": "released"}[one.kind]
        status, certain_end = _status(error), one.lease.certain_end
        refused = _refused_part(error, one) if one.kind in ("complete", "wait") and not whole else None
        if refused is not None:  # the attempt still has to end
            failure: Dict[str, Any] = {"error": _job_error(refused, "")}
            if status != 403:  # a key can be given the scope that it lacks
                failure["permanent"] = True
            one.error, one.body = refused, one.lease.with_used(failure)
            one.kind, one.failures, one.again = "fail", 0, 0.0
            return ""
        if _code(error) == "lease_lost":
            one.error = error
            return "lost"
        if (_final(status) and not whole) or self._over.event.is_set() or time.monotonic() > certain_end:
            one.error = error
            return "unsent"
        pause = _retry_wait(one.failures, 5, error)
        one.failures += 1
        one.again = min(time.monotonic() + pause, certain_end + 0.001)
        self._logger.warning("an outcome was not taken: job_id=%s failures=%d retry_ms=%.0f error=%r", one.lease.job["id"], one.failures, pause * 1000, str(error))
        return ""

    def _drop(self, those: List[_Sending], word: str = "unsent") -> None:
        """Ends attempts, and writes their lines; with the word "" their outcomes are sent again."""
        with self._lock:
            if word == "":
                self._leaving += those
                return
            for one in those:
                self._held.pop(one.lease.token, None)
                self._open.discard(one.lease)
            self._slot.notify_all()
        level = logging.WARNING if word in ("failed", "lost", "unsent") else logging.INFO
        for one in those:
            job = one.lease.job
            self._logger.log(
                level, "attempt: job_id=%s type=%s queue=%s attempt=%d outcome=%s duration_ms=%.0f%s",
                job["id"], job["type"], job["queue"], job["attempt"], word, one.took * 1000, f" error={str(one.error)!r}" if one.error else "",
            )

    # -- heartbeats

    def _heartbeats(self) -> None:
        """Keeps all leases, and the worker itself, alive until the end."""
        last, failures, retry = time.monotonic(), 0, 0.0
        with _aborting(self._over):
            while True:
                with self._lock:
                    self._changed = False
                    if self._left:
                        return
                    held = list(self._held.values())
                    whole = min([last + _LONGEST_BEAT, *(lease.renewed + min(lease.length / 3, _LONGEST_BEAT) for lease in held)])
                    report = min([lease.next_report for lease in held if lease.reporting], default=float("inf"))
                    due = _next_end(held, retry) if failures else min(whole, report)
                    if self._beat_now.wait_for(lambda: self._changed or self._left, max(due - time.monotonic(), 0)) and due > time.monotonic():
                        continue
                now = time.monotonic()
                if failures:
                    self._lose_overdue(held)
                    if now < retry:
                        continue  # it was the end of a lease that was due
                only = None
                if not failures and now < whole:
                    only = [lease for lease in held if lease.reporting and lease.next_report <= now]
                    if not only:
                        continue  # its attempt has ended
                try:
                    self._beat(only)
                    last, failures = time.monotonic(), 0
                except _Aborted:
                    return
                except ForgeQueueError as error:
                    self._logger.warning("heartbeat failed: %s (failures=%d)", error, failures + 1)
                    held = self._all_held()
                    self._lose_overdue(held)
                    retry = time.monotonic() + min(_backoff(failures, 0.25, 5), _shortest(held) / 6)
                    failures += 1

    def _all_held(self) -> List[_Lease]:
        with self._lock:
            return list(self._held.values())

    @staticmethod
    def _lose_overdue(held: List[_Lease]) -> None:
        for lease in held:
            if time.monotonic() >= lease.expires:
                lease.end(LeaseLost())

    def _beat(self, only: Optional[List[_Lease]]) -> None:
        """One heartbeat for all leases, or for those that report. A worker that the server does not know registers again."""
        held = self._all_held()
        end = _next_end(held, time.monotonic() + max(_shortest(held) / 3, _SHORTEST_LEASE))
        try:
            self._beat_all(only, end)
        except Problem as error:
            if error.code != "worker_unknown":
                raise
            self._logger.warning("the server does not know this worker; registering again: %s", self.id)
            self._client.call("POST", ["v1", "workers"], body=self._registration(), repeatable=True, timeout=end - time.monotonic())
            self._beat_all(None, end)

    def _beat_all(self, only: Optional[List[_Lease]], end: float) -> None:
        held = only or self._all_held()
        if not held:
            self._heartbeat([], end)
        for start in range(0, len(held), _MAX_LEASES):
            self._beat_for(held[start : start + _MAX_LEASES], end)

    def _beat_for(self, held: List[_Lease], end: float) -> None:
        """Extends leases, and sends their reports."""
        plain = [{"job_id": lease.job["id"], "lease_token": lease.token} for lease in held]
        request: List[Dict[str, Any]] = [dict(one) for one in plain]
        taken, size = [-1] * len(held), 0
        for number, lease in enumerate(held):
            if size >= _REPORT_BYTES:
                break  # the others report with the next one
            with lease.lock:
                taken[number], progress, checkpoint = lease.added, lease.progress, lease.checkpoint
            lease.next_report = time.monotonic() + _REPORT_EVERY
            if progress is not None:
                request[number]["progress"] = progress
            if checkpoint is not None:
                request[number]["checkpoint"] = json.loads(checkpoint)
                size += len(checkpoint)
        try:
            answer = self._heartbeat(request, end)
        except ForgeQueueError as error:
            if not _unfit(_status(error)) or request == plain:
                raise
            # What one handler reports must not cost all leases.
            self._logger.error("the server refused what handlers reported; it is dropped: %s", error)
            answer = self._heartbeat(plain, end)
        for lease, added in zip(held, taken):
            lease.sent(added)
        now = time.monotonic()
        if [status.get("job_id") for status in answer] != [lease.job["id"] for lease in held]:
            raise ForgeQueueError("the answer to the heartbeat is not in the order sent")
        for lease, status in zip(held, answer):
            if status["status"] == "lost":
                lease.end(LeaseLost())
                with self._lock:
                    self._held.pop(lease.token, None)  # its handler may go on for long; there is no lease to extend
                continue
            if status["status"] == "cancel":
                lease.end(CancelRequested())
            lease.renewed = now
            if status.get("lease_ms") is not None:
                lease.length = max(status["lease_ms"] / 1000, _SHORTEST_LEASE)

    def _heartbeat(self, leases: List[Dict[str, Any]], end: float) -> List[Dict[str, Any]]:
        path = ["v1", "workers", self.id, "heartbeat"]
        answer: List[Dict[str, Any]] = self._client.call("POST", path, body={"leases": leases}, repeatable=True, timeout=end - time.monotonic())["leases"]
        return answer

    def _report_last(self, leases: List[_Lease]) -> None:
        """Sends the checkpoints of attempts that end, so that the next ones get them."""
        ending = [lease for lease in leases if lease.checkpoint is not None]
        most = _REPORT_BYTES // _MAX_CHECKPOINT
        for start in range(0, len(ending), most):
            try:
                self._beat_for(ending[start : start + most], time.monotonic() + 5)
            except ForgeQueueError as error:
                jobs = ", ".join(lease.job["id"] for lease in ending[start:])
                self._logger.warning("the last checkpoint could not be sent: job_id=%s error=%r", jobs, str(error))
                return

    # -- the end

    def _drain(self) -> None:
        self._stop.set()  # no more jobs start
        with self._lock:
            self._release(self._waiting)
            self._waiting.clear()
        if self._all_end(self._grace):
            return
        for lease in self._all_held():
            lease.end(Stopping())
        if self._all_end(_PATIENCE):
            return
        with self._lock:
            deaf = list(self._running)
        for lease in deaf:
            handler = self._handler_of(lease.job)
            if handler is not None:
                self._leave_slot(lease, _decide(_Deaf(), "", lease.cause, lease.job, handler))
            lease.settled.set()
        if self._all_end(_LAST_WORD):
            return
        self._over.set()
        with self._lock:
            self._unsent.notify()
        self._all_end(_PATIENCE)

    def _all_end(self, within: float) -> bool:
        with self._lock:
            return self._slot.wait_for(lambda: not self._open, max(within, 0))

    def _leave(self) -> None:
        """Deregisters: the worker is no longer listed, and what it still holds is returned."""
        try:
            self._client.call("DELETE", ["v1", "workers", self.id], repeatable=True, timeout=_GOODBYE)
        except ForgeQueueError as error:
            self._logger.warning("deregistering failed: %s", error)


class _Deaf(ForgeQueueError):
    """The outcome of a handler that is no longer waited for."""

    def __init__(self) -> None:
        super().__init__("the handler did not return after it was told to stop")


class _Named(ForgeQueueError):
    """An error that is reported under a type."""

    def __init__(self, type: str, message: str) -> None:
        self.type = type
        super().__init__(message)


def _decide(error: BaseException, stack: str, cause: Optional[ForgeQueueError], job: Dict[str, Any], handler: _HandlerOf) -> _Outcome:
    """Turns what a handler has raised, and why it was told to stop (None if it was not), into an outcome."""
    if isinstance(cause, LeaseLost):
        return _Outcome("", {}, error)
    if isinstance(error, Snooze):
        return _Outcome("snooze", {"delay_ms": int(error.delay * 1000), **_because("snoozed", error.reason)}, error)
    if isinstance(error, Wait):
        wait: Dict[str, Any] = {"for": error.signals, "timeout_ms": int(error.timeout * 1000)}
        if error.all:
            wait["mode"] = "all"
        return _Outcome("wait", wait, error)
    if isinstance(error, Throttled):
        delay_ms = max(int(error.delay * 1000), 1)
        throttle = {error.budget: {"retry_after_ms": delay_ms}}
        return _Outcome("snooze", {"delay_ms": delay_ms, "throttle": throttle, **_because("throttled", error.reason)}, error)
    if isinstance(error, Permanent):
        return _Outcome("fail", {"error": _job_error(error, stack), "permanent": True}, error)
    if isinstance(cause, Stopping):
        return _Outcome("release", {}, error)
    reported = error
    if isinstance(cause, (TimedOut, CancelRequested)):
        name = "timeout" if isinstance(cause, TimedOut) else "cancelled"
        reported = _Named(name, str(cause) if error is cause or not str(error) else f"{cause}: {error}")
    after = error.delay if isinstance(error, RetryAfter) else None
    if after is None and handler.retry is not None:
        with contextlib.suppress(Exception):  # then it is left to the server
            own = handler.retry(job["attempt"], error)
            after = None if own is None else _clamp(own, _MAX_BACKOFF)
    body: Dict[str, Any] = {"error": _job_error(reported, stack)}
    if after is not None:
        body["retry_after_ms"] = int(after * 1000)
    return _Outcome("fail", body, reported)


def _refused_part(error: ForgeQueueError, one: _Sending) -> Optional[_Named]:
    """The error of an attempt whose complete or wait was refused for itself, or for the jobs and signals that it sends; None if that was not the reason."""
    status = _status(error)
    fields = error.errors if isinstance(error, Problem) else []
    unsaid = "".join(f"; {field['field']}: {field['message']}" for field in fields if field["field"] not in str(error))

    def about(part: str) -> bool:
        return any(field["field"].startswith(part) or f"].{part}" in field["field"] for field in fields)

    if one.submits and (status == 403 or (_final(status) and about("submit"))):
        return _Named("submit", f"the jobs to submit were refused: {error}{unsaid}")
    if "signal" in one.body and (status == 403 or (_final(status) and about("signal"))):
        return _Named("signal", f"the signals of other jobs were refused: {error}{unsaid}")
    if not _unfit(status):
        return None
    return _Named("wait", f"the wait was refused: {error}{unsaid}") if one.kind == "wait" else _Named("result", f"the result was refused: {error}")


def _because(type: str, reason: str) -> Dict[str, JobError]:
    """Why a job was put back, if that was said."""
    return {"error": {"type": type, "message": _cut(reason, 4096)}} if reason else {}


def _job_error(error: BaseException, stack: str) -> JobError:
    """An error as the server stores it: the type is the name of its class, "error" for a plain Exception or a text."""
    own: Optional[BaseException] = error.error if isinstance(error, (Permanent, RetryAfter)) else error
    if isinstance(own, _Named):
        name = own.type
    else:
        name = "error" if own is None or type(own) is Exception else type(own).__name__
    reported: JobError = {"type": _cut(name, 128), "message": _cut(str(error), 4096)}
    if stack:
        reported["stack"] = _cut(stack, 16384)
    return reported


def _clean(text: str) -> str:
    """Text as the server accepts it: UTF-8, without NUL."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def _cut(text: str, most: int) -> str:
    return _clean(text).encode("utf-8")[:most].decode("utf-8", "ignore")


def _clamp(seconds: float, most: float) -> float:
    return min(max(seconds, 0), most) if seconds == seconds else most


def _key_refused(error: BaseException) -> bool:
    return _status(error) in (401, 403)


def _unfit(status: int) -> bool:
    """Whether the server did not accept the content of a request."""
    return status in (400, 413, 422)


def _final(status: int) -> bool:
    """Whether a repeat would get the same answer."""
    return 400 <= status <= 499 and status not in (408, 425, 429)


def _backoff(n: int, first: float, last: float) -> float:
    """The wait after failure n, from 0: between a half and all of first * 2**n, at most last."""
    return min(last, first * 2 ** min(n, 20)) * random.uniform(0.5, 1)


def _retry_wait(n: int, last: float, error: BaseException) -> float:
    """The server's Retry-After, at most a minute, and jitter; without it the backoff."""
    own, asked = _backoff(n, 0.1, last), _retry_after(error) or 0
    return min(asked, _LONGEST_ASKED) + own / 4 if asked > 0 else own


def _shortest(held: List[_Lease]) -> float:
    return min([3 * _LONGEST_BEAT, *(lease.length for lease in held)])


def _next_end(held: List[_Lease], by: float) -> float:
    """When the next lease is assumed to expire, at most by; those that have expired do not count."""
    now = time.monotonic()
    return min([by, *(lease.expires for lease in held if lease.expires > now)])
