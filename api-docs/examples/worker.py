#!/usr/bin/env python3
"""A ForgeQueue worker: Python 3.9 or newer, the standard library, one file.

    export FORGEQUEUE_URL=http://127.0.0.1:8080 FORGEQUEUE_API_KEY=fq_live_...
    python3 worker.py QUEUE

Put handlers of your own into HANDLERS. A handler gets the payload and the Lease:

    return result         completes the job; the result is stored as JSON
    raise Permanent(...)  fails it for good: a dead letter
    raise Snooze(60)      not now: back in 60 s, no attempt is spent
    raise anything else   fails the attempt; it is tried again while attempts are left

Leases are kept by a thread of its own. SIGTERM or Ctrl-C: no more jobs are taken,
running handlers have WORKER_GRACE seconds (20), what is not done then is given back
and costs no attempt; then the worker deregisters. A second signal ends the process at once.
"""

import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

URL = os.environ.get("FORGEQUEUE_URL", "http://127.0.0.1:8080").rstrip("/")
KEY = os.environ.get("FORGEQUEUE_API_KEY", "")
CONCURRENCY = int(os.environ.get("WORKER_CONCURRENCY", "4"))
GRACE = float(os.environ.get("WORKER_GRACE", "20"))
WORKER = f"py-{socket.gethostname()}-{os.getpid()}-{random.randrange(16**6):06x}"
WAIT = 5  # seconds that a claim waits for work, and so the longest time until a stop is noticed


class Permanent(Exception):
    """The job can never succeed."""


class Snooze(Exception):
    """The job is to come back later."""

    def __init__(self, seconds):
        super().__init__(f"snoozed for {seconds} s")
        self.seconds = seconds


# ---- what it does: replace this


def greet(payload, lease):
    if not isinstance(payload, dict) or "name" not in payload:
        raise Permanent("the payload has no name")
    return {"hello": payload["name"]}


def nap(payload, lease):
    """A long job: the lease is kept meanwhile, and lease.ended says when to stop early."""
    if lease.ended.wait(payload["seconds"]):
        raise RuntimeError(lease.why)
    return {"slept": payload["seconds"]}


HANDLERS = {"greet": greet, "nap": nap}


# ---- how it talks


class Refused(Exception):
    """An answer that is not 2xx: its status, and the problem that the server names."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem.get('code', '')}: {problem.get('detail', '')}")
        self.status, self.code, self.problem = status, problem.get("code"), problem


def post(path, body, timeout=10):
    """One call, and its answer."""
    return call("POST", path, json.dumps(body).encode(), timeout)


def call(method, path, data, timeout):
    headers = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return None if response.status == 204 else json.load(response)
    except urllib.error.HTTPError as error:
        try:
            problem = json.load(error)
        except ValueError:
            problem = {}
        raise Refused(error.code, problem if isinstance(problem, dict) else {}) from None


FAILURES = (OSError, ValueError, http.client.HTTPException, Refused)  # all that post may raise but for a bad body


def passing(error):
    """Whether the same call may do better later: no answer, or one that says so."""
    return not isinstance(error, Refused) or error.status == 429 or error.status >= 500


def pause(error, attempt):
    """How long to wait before the next try: as long as the server asks, else longer each time."""
    asked = error.problem.get("retry_after_ms") if isinstance(error, Refused) else None
    return (asked or 0) / 1000 + random.uniform(0, 0.1 * 2 ** min(attempt, 6))


def log(text):
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")  # in one piece: many threads log


class Lease:
    """One job that this worker holds."""

    def __init__(self, job):
        self.job, self.id, self.token = job, job["id"], job["lease_token"]
        self.ended = threading.Event()  # the handler should stop
        self.why = ""
        self.extend(job["lease_ms"])

    def extend(self, milliseconds):
        """By its length: our clock may differ from the server's."""
        self.length = milliseconds / 1000
        self.until = time.monotonic() + self.length

    def end(self, why):
        self.why = self.why or why
        self.ended.set()


class Worker:
    def __init__(self, queues):
        self.queues = queues
        self.stop = threading.Event()
        self.free = threading.Semaphore(CONCURRENCY)
        self.lock = threading.Lock()
        self.held = {}  # leases by token
        self.claimed = threading.Event()  # wakes the heartbeats
        self.idle = threading.Condition(self.lock)
        self.beating = threading.Lock()  # held during heartbeats, and from the goodbye on

    def run(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_signal)
        threading.Thread(target=self.heartbeats, daemon=True).start()
        log(f"{WORKER} claims from {', '.join(self.queues)}")
        attempt = 0
        while not self.stop.is_set():
            slots = self.take_slots()
            if slots == 0:
                break
            try:
                body = {"worker_id": WORKER, "queues": self.queues, "types": list(HANDLERS), "max": slots, "wait_ms": WAIT * 1000}
                answer = post("/v1/claims", body, timeout=WAIT + 15)
                attempt = 0
            except FAILURES as error:
                self.give_slots(slots)
                if not passing(error):
                    log(f"claim: {error}")
                    return 1
                log(f"claim: {error}")
                self.stop.wait(pause(error, attempt))
                attempt += 1
                continue
            leases = [Lease(job) for job in answer["jobs"]]
            self.give_slots(slots - len(leases))
            with self.lock:
                self.held.update((lease.token, lease) for lease in leases)
            self.claimed.set()
            for lease in leases:
                threading.Thread(target=self.attempt, args=(lease,), daemon=True).start()
        return self.drain()

    def on_signal(self, number, frame):
        log("stopping: no more jobs are taken; a second signal ends it at once")
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        self.stop.set()

    def take_slots(self):
        """Waits for a free slot, and takes all that are."""
        while not self.free.acquire(timeout=0.5):
            if self.stop.is_set():
                return 0
        slots = 1
        while self.free.acquire(blocking=False):
            slots += 1
        return slots

    def give_slots(self, slots):
        for _ in range(slots):
            self.free.release()

    def attempt(self, lease):
        kind, body = self.handle(lease)
        self.finish(lease, kind, body)
        with self.idle:
            self.held.pop(lease.token, None)
            self.idle.notify_all()
        self.free.release()

    def handle(self, lease):
        handler = HANDLERS[lease.job["type"]]  # a claim takes no other types
        if self.stop.is_set():
            return "release", {}  # it came with the last claim
        try:
            return "complete", {"result": handler(lease.job["payload"], lease)}
        except Snooze as snooze:
            return "snooze", {"delay_ms": int(snooze.seconds * 1000)}
        except Exception as error:  # whatever it is, it is the job's
            if lease.why == "the worker stops":
                return "release", {}
            failed = {"type": type(error).__name__, "message": str(error), "stack": traceback.format_exc()}
            return "fail", {"error": failed, "permanent": isinstance(error, Permanent)}

    def finish(self, lease, kind, body, patience=60):
        """Sends an outcome, the same bytes again and again until it is answered: the server knows a repeat."""
        attempt, began = 0, time.monotonic()
        while True:
            try:
                answer = post(f"/v1/jobs/{lease.id}/{kind}", {"lease_token": lease.token, **body})
                return log(f"{lease.id}: {kind}, now {answer['state']}")
            except TypeError as error:  # the result is no JSON
                kind, body = "fail", {"error": {"type": "result", "message": str(error)}, "permanent": True}
            except FAILURES as error:
                log(f"{lease.id}: {kind}: {error}")
                if isinstance(error, Refused) and error.status in (400, 413, 422) and kind == "complete":
                    kind, body = "fail", {"error": {"type": "result", "message": str(error)}, "permanent": True}
                elif not passing(error) or time.monotonic() > max(began, lease.until) + patience:
                    return None  # 409 lease_lost: somebody else has the job now
                else:
                    time.sleep(pause(error, attempt))
                    attempt += 1

    def heartbeats(self):
        """Keeps all leases with one call, at a third of the shortest, until the process ends."""
        while True:
            with self.lock:
                held = list(self.held.values())
            shortest = min((lease.length for lease in held), default=30)
            if self.claimed.wait(min(10, shortest / 3)):
                self.claimed.clear()  # new ones, perhaps shorter
                continue
            with self.beating:
                for start in range(0, len(held), 1000):
                    self.heartbeat(held[start : start + 1000])

    def heartbeat(self, held):
        try:
            leases = [{"job_id": lease.id, "lease_token": lease.token} for lease in held]
            answer = post(f"/v1/workers/{WORKER}/heartbeat", {"leases": leases})
        except FAILURES as error:
            log(f"heartbeat: {error}")
            if isinstance(error, Refused) and error.code == "worker_unknown":
                self.register()
            for lease in held:
                if time.monotonic() > lease.until:
                    lease.end("the lease is lost")
            return
        for lease, status in zip(held, answer["leases"]):
            if status["status"] == "lost":
                lease.end("the lease is lost")
                continue
            if status["status"] == "cancel":
                lease.end("the job is cancelled")
            lease.extend(status["lease_ms"])

    def register(self):
        try:
            post("/v1/workers", {"worker_id": WORKER, "queues": self.queues, "concurrency": CONCURRENCY})
        except FAILURES as error:
            log(f"register: {error}")

    def drain(self):
        with self.idle:
            self.idle.wait_for(lambda: not self.held, timeout=GRACE)
            for lease in self.held.values():
                lease.end("the worker stops")
            self.idle.wait_for(lambda: not self.held, timeout=2)
            left = list(self.held.values())
        for lease in left:  # handlers that do not listen: their jobs go back, they end with the process
            lease.until = 0
            self.finish(lease, "release", {}, patience=2)
        self.beating.acquire(timeout=2)
        self.goodbye()
        return 0

    def goodbye(self):
        """No longer listed, and what is held still goes back. Nothing else may be under way: it would be known again."""
        for attempt in range(3):
            try:
                return call("DELETE", f"/v1/workers/{WORKER}", None, timeout=2)
            except FAILURES as error:
                log(f"goodbye: {error}")
                if not passing(error):
                    return None
                time.sleep(min(1, pause(error, attempt)))
        return None


if __name__ == "__main__":
    sys.exit(Worker(sys.argv[1:] or ["default"]).run())
