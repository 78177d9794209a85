"""The driver of the conformance tests for the Python client, and with --async for asyncio: a command on each line of standard
input, an answer or an event on each line of standard output. ../driver_test.go documents both."""

import asyncio
import json
import logging
import os
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../api-docs/examples/python"))

import forgequeue as fq  # noqa: E402

ASYNC = "--async" in sys.argv
LOOP = asyncio.new_event_loop()
if ASYNC:
    threading.Thread(target=LOOP.run_forever, daemon=True).start()

lock = threading.Lock()
clients, workers, gates, running = {}, {}, {}, {}


def say(line):
    text = json.dumps(line, separators=(",", ":")) + "\n"
    with lock:
        sys.stdout.write(text)
        sys.stdout.flush()


def client(c):
    with lock:
        name = (c["url"], c["key"])
        if name not in clients:
            made = fq.Client(c["url"], c["key"])
            clients[name] = (made, fq.AsyncClient(made))
        return clients[name]


def call(c, method, *args, **options):
    """A method of the client that is tested."""
    sync, other = client(c)
    if c.get("timeout_ms"):
        options["timeout"] = c["timeout_ms"] / 1000
    if not ASYNC:
        return getattr(sync, method)(*args, **options)
    return asyncio.run_coroutine_threadsafe(getattr(other, method)(*args, **options), LOOP).result()


def key(c):
    return {"idempotency_key": c.get("idempotency_key") or ""}


def submitted(job):
    return {name: job[name] for name in ("id", "state", "replayed", "deduplicated", "replaced")}


def submit_many(c):
    answer = call(c, "submit_many", c["requests"], **key(c))
    answer["results"] = [
        {"index": r["index"], "status": r["status"], "id": (r["job"] or {}).get("id", ""), "code": (r["problem"] or {}).get("code", "")} for r in answer["results"]
    ]
    return answer


def list_page(c):
    page = call(c, "list", queue=c["queue"], size=c["size"], token=c.get("token") or "")
    return {"ids": [job["id"] for job in page["items"]], "next": page["next_page_token"] or ""}


def list_all(c):
    sync, other = client(c)
    if not ASYNC:
        return {"ids": [job["id"] for job in sync.all(queue=c["queue"])]}

    async def collect():
        return [job["id"] async for job in other.all(queue=c["queue"])]

    return {"ids": asyncio.run_coroutine_threadsafe(collect(), LOOP).result()}


def output(c):
    sync, other = client(c)
    if not ASYNC:
        return list(sync.all_output(c["job"]))

    async def collect():
        return [piece async for piece in other.all_output(c["job"])]

    return asyncio.run_coroutine_threadsafe(collect(), LOOP).result()


def list_budgets(c):
    page = client(c)[0].budgets(size=c["size"], token=c.get("token") or "")
    return {"ids": [budget["name"] for budget in page["items"]], "next": page["next_page_token"] or ""}


def bulk(c):
    sync, request = client(c)[0], c["request"]
    counted = sync.count_bulk(request["action"], request["filter"], to=request.get("to"))
    made = sync.bulk(request["action"], request["filter"], to=request.get("to"), rate=request.get("rate_per_second"))
    while made["state"] == "running":
        time.sleep(0.05)
        made = sync.get_bulk(made["id"])
    return {"counted": counted["matched"], "bulk": sync.cancel_bulk(made["id"])}


def verify(c):
    return fq.verify(c["secrets"][0] if len(c["secrets"]) == 1 else c["secrets"], c["headers"], c["body"].encode())


def work(c):
    worker = fq.Worker(client(c)[0], queues=[c["queue"]], concurrency=c["concurrency"], worker_id=c["worker_id"], grace=c["grace_ms"] / 1000)
    worker.handle("script", (lambda_async if ASYNC else lambda_sync)(c["id"]))
    with lock:
        workers[c["id"]] = worker
    if c.get("signals"):
        return worker.run_until_signal()
    if ASYNC:
        return asyncio.run_coroutine_threadsafe(worker.run_async(), LOOP).result()
    return worker.run()


def gate(job):
    with lock:
        return gates.setdefault(job, threading.Event())


COMMANDS = {
    "submit": lambda c: submitted(call(c, "submit", c["request"], **key(c))),
    "rerun": lambda c: submitted(call(c, "rerun", c["job"], c["request"], **key(c))),
    "submit_many": submit_many,
    "get": lambda c: call(c, "get", c["job"]),
    "wait": lambda c: call(c, "wait", c["job"]),
    "result": lambda c: call(c, "result", c["job"]),
    "result_text": lambda c: json.dumps(call(c, "get", c["job"])["result"]),
    "submit_and_wait": lambda c: call(c, "submit_and_wait", c["request"], **key(c)),
    "list": list_page,
    "all": list_all,
    "etag": lambda c: call(c, "get_with_etag", c["job"])[1],
    "patch": lambda c: call(c, "patch_job", c["job"], c["request"], if_match=c.get("if_match")),
    "bulk": bulk,
    "cancel": lambda c: call(c, "cancel", c["job"]),
    "signal": lambda c: call(c, "signal", c["job"], c["name"], c.get("request")),
    "signal_link": lambda c: call(c, "signal_link", c["job"], c["name"], title=c.get("title") or "", expires=c["delay_ms"] / 1000 if "delay_ms" in c else None),
    "output": output,
    "redrive": lambda c: call(c, "redrive", c["job"]),
    "put_budget": lambda c: client(c)[0].put_budget(c["budget"], c["request"]),
    "budget": lambda c: client(c)[0].budget(c["budget"], c.get("subject") or ""),
    "budgets": list_budgets,
    "budget_usage": lambda c: client(c)[0].budget_usage(c["budget"], first=c.get("from") or "", last=c.get("to") or ""),
    "delete_budget": lambda c: client(c)[0].delete_budget(c["budget"]),
    "verify": verify,
    "work": work,
    "stop": lambda c: workers[c["worker"]].stop(),
    "go": lambda c: gate(c["job"]).set(),
}

CAUSES = {fq.LeaseLost: "lease_lost", fq.CancelRequested: "cancel", fq.TimedOut: "timeout", fq.Stopping: "stopping"}


def entered(worker, more):
    """Counts the handlers of a worker that run."""
    with lock:
        running[worker] = running.get(worker, 0) + more
        return running[worker]


def begin(worker, job):
    say({
        "event": "started", "worker": worker, "job": job.id, "attempt": job.attempt, "epoch": job.epoch, "checkpoint": job.restore(),
        "running": entered(worker, 1),
    })
    deliveries = job.payload["deliveries"]
    return deliveries[min(job.epoch, len(deliveries)) - 1]


def step_of(worker, job, step):
    """One step that waits for nothing; True ends the handler."""
    does = step["do"]
    if does in ("return", "big", "undefined", "unencodable", "large", "received"):
        return True
    if does == "fail":
        error = Exception(step["message"])
        if step.get("permanent"):
            raise fq.Permanent(error)
        raise error if "retry_after_ms" not in step else fq.RetryAfter(error, step["retry_after_ms"] / 1000)
    if does == "snooze":
        raise fq.Snooze(step["delay_ms"] / 1000, step.get("message", ""))
    if does == "throttled":
        raise fq.Throttled(step["budget"], step["delay_ms"] / 1000, step.get("message", ""))
    if does == "wait":
        raise fq.Wait(step["delay_ms"] / 1000, *step.get("names", []), all=step.get("all", False))
    if does == "used":
        job.used(step["budget"], step["amount"])
    elif does == "then":
        job.then(*step["jobs"])
    elif does == "then_signal":
        job.then_signal(step["job"], step["name"], step.get("value"))
    elif does == "write":
        job.write(step["message"], step["name"])
    elif does == "log":
        job.log(step["message"])
    elif does == "lines":
        for n in range(int(step["amount"])):
            job.write(f"line {n + 1}\n", ["out", "err"][n % 2])
    elif does == "progress":
        job.progress(step["percent"], step["message"])
    elif does == "checkpoint":
        job.checkpoint(step["value"])
    elif does == "ended":
        say({"event": "told", "worker": worker, "job": job.id, "epoch": job.epoch, "cause": CAUSES.get(type(job.cause), str(job.cause))})
    elif does == "listen":
        threading.Thread(target=hear, args=(worker, job), daemon=True).start()
    elif does == "rethrow":
        job.raise_if_ended()
    elif does not in ("go", "pause"):
        raise RuntimeError(f"no step is called {does}")
    return False


def hear(worker, job):
    job.ended.wait()
    say({"event": "heard", "worker": worker, "job": job.id, "epoch": job.epoch, "cause": CAUSES.get(type(job.cause), str(job.cause))})


def value_of(job, step):
    if step["do"] == "big":
        return str(job.payload["n"])
    if step["do"] == "received":
        signal = job.received(step["name"])
        return {"data": "none" if signal is None else signal["data"], "woken_by": job.woken_by}
    return {"unencodable": {1, 2}, "large": "x" * (256 << 10)}.get(step["do"], step.get("value"))


def lambda_sync(worker):
    def script(job):
        try:
            for step in begin(worker, job):
                if step["do"] == "go":
                    gate(job.id).wait()
                elif step["do"] == "pause":
                    time.sleep(step["delay_ms"] / 1000)
                elif step["do"] == "ended":
                    job.ended.wait()
                if step_of(worker, job, step):
                    return value_of(job, step)
            return None
        finally:
            entered(worker, -1)

    return script


def lambda_async(worker):
    async def script(job):
        try:
            for step in begin(worker, job):
                if step["do"] == "go":
                    while not gate(job.id).is_set():
                        try:
                            await asyncio.sleep(0.01)
                        except asyncio.CancelledError:
                            pass  # a handler that does not listen
                elif step["do"] == "pause":
                    await asyncio.sleep(step["delay_ms"] / 1000)
                elif step["do"] == "ended":
                    try:
                        await asyncio.sleep(3600)
                    except asyncio.CancelledError:
                        pass
                if step_of(worker, job, step):
                    return value_of(job, step)
            return None
        finally:
            entered(worker, -1)

    return script


def failure(error):
    kinds = ((fq.Problem, "problem"), (fq.StatusError, "status"), (fq.NoAnswerError, "no_answer"), (fq.DeadlineError, "deadline"), (fq.EndedError, "ended"))
    kind = next((word for one, word in kinds if isinstance(error, one)), "other")
    after = getattr(error, "retry_after", None)
    job = getattr(error, "job", None) or {}
    return {
        "kind": kind, "code": getattr(error, "code", ""), "status": getattr(error, "status", 0), "detail": getattr(error, "detail", ""),
        "retry_after_ms": None if after is None else round(after * 1000), "state": getattr(error, "state", job.get("state", "")),
        "reason": getattr(error, "reason", None) or "", "message": str(error) if kind != "other" else repr(error),
    }


def do(command):
    try:
        answer = {"id": command["id"], "ok": COMMANDS[command["do"]](command)}
    except Exception as error:
        answer = {"id": command["id"], "error": failure(error)}
    say(answer)


def read(main_work):
    for line in sys.stdin:
        command = json.loads(line)
        if command.get("signals"):
            main_work.append(command)  # for the main thread: only it gets signals
            woken.set()
            continue
        threading.Thread(target=do, args=(command,), daemon=True).start()
    os._exit(0)


logging.basicConfig(level=logging.INFO, stream=sys.stderr)
woken, main_work = threading.Event(), []
threading.Thread(target=read, args=(main_work,), daemon=True).start()
woken.wait()
do(main_work[0])
woken.clear()
woken.wait()
