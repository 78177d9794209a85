#!/usr/bin/env node
// A ForgeQueue worker: Node.js 20 or newer, no packages, one file.
//
//   export FORGEQUEUE_URL=http://127.0.0.1:8080 FORGEQUEUE_API_KEY=fq_live_...
//   node worker.mjs QUEUE
//
// Put handlers of your own into `handlers`. A handler gets the payload, an AbortSignal
// and the claimed job:
//
//   return result            completes the job; the result is stored as JSON
//   throw new Permanent(...) fails it for good: a dead letter
//   throw new Snooze(60)     not now: back in 60 s, no attempt is spent
//   throw anything else      fails the attempt; it is tried again while attempts are left
//
// Leases are kept by a timer, so a handler must not block the event loop. SIGTERM or
// Ctrl-C: no more jobs are taken, running handlers have WORKER_GRACE seconds (20), what
// is not done then is given back and costs no attempt; then the worker deregisters. A
// second signal ends it at once.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const url = (process.env.FORGEQUEUE_URL ?? 'http://127.0.0.1:8080').replace(/\/$/, '');
const key = process.env.FORGEQUEUE_API_KEY ?? '';
const queues = process.argv.length > 2 ? process.argv.slice(2) : ['default'];
const concurrency = Number(process.env.WORKER_CONCURRENCY ?? 4);
const grace = Number(process.env.WORKER_GRACE ?? 20) * 1000;
const worker = `node-${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`;
const wait = 5000; // ms that a claim waits for work, and so the longest time until a stop is noticed

class Permanent extends Error {} // the job can never succeed

class Snooze extends Error { // the job is to come back later
  constructor(seconds) {
    super(`snoozed for ${seconds} s`);
    this.delay = Math.round(seconds * 1000);
  }
}

// ---- what it does: replace this

const handlers = {
  async greet(payload) {
    if (payload?.name === undefined) throw new Permanent('the payload has no name');
    return { hello: payload.name };
  },
  // A long job: the lease is kept meanwhile, and the signal says when to stop early.
  async nap(payload, signal) {
    await sleep(payload.seconds * 1000, undefined, { signal });
    return { slept: payload.seconds };
  },
};

// ---- how it talks

class Refused extends Error { // an answer that is not 2xx, and the problem that it names
  constructor(status, problem) {
    super(`${status} ${problem.code ?? ''}: ${problem.detail ?? ''}`);
    this.status = status;
    this.problem = problem;
  }
}

// post makes one call, and gives its answer.
async function post(path, body, timeout = 10_000, method = 'POST') {
  const response = await fetch(url + path, {
    method,
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(timeout),
  });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response.status === 204 ? undefined : response.json();
}

// Whether the same call may do better later: no answer, or one that says so.
const passing = (error) => !(error instanceof Refused) || error.status === 429 || error.status >= 500;

// How long to wait before the next try: as long as the server asks, else longer each time.
const pause = (error, attempt) => (error.problem?.retry_after_ms ?? 0) + Math.random() * Math.min(5000, 100 * 2 ** attempt);

const log = (text) => console.error(new Date().toISOString(), text);
const reason = (error) => [error.message, error.cause?.code ?? error.cause?.errors?.[0]?.code].filter(Boolean).join(': ');

class Lease { // one job that this worker holds
  constructor(job) {
    this.job = job;
    this.id = job.id;
    this.token = job.lease_token;
    this.ended = new AbortController(); // the handler should stop
    this.extend(job.lease_ms);
  }

  extend(milliseconds) { // by its length: our clock may differ from the server's
    this.length = milliseconds;
    this.until = performance.now() + this.length;
  }

  end(why) {
    this.why ??= why;
    this.ended.abort(new Error(why));
  }
}

const held = new Map(); // leases by token
let stopping = false;
let leaving = false;
let beating; // the latest heartbeat
let wake = () => {}; // called when something has changed
const changed = () => new Promise((resolve) => { wake = resolve; });

async function handle(lease) {
  const { job, ended } = lease;
  const handler = handlers[job.type]; // a claim takes no other types
  if (stopping) return ['release', {}]; // it came with the last claim
  try {
    return ['complete', { result: (await handler(job.payload, ended.signal, job)) ?? null }];
  } catch (error) {
    if (error instanceof Snooze) return ['snooze', { delay_ms: error.delay }];
    if (lease.why === 'the worker stops') return ['release', {}];
    const failed = { type: error?.constructor?.name ?? 'error', message: lease.why ?? String(error?.message ?? error), stack: error?.stack };
    return ['fail', { error: failed, permanent: error instanceof Permanent }];
  }
}

// finish sends an outcome, the same bytes again and again until it is answered: the server knows a repeat.
async function finish(lease, kind, body, patience = 60_000) {
  const began = performance.now();
  for (let attempt = 0; ; attempt++) {
    try {
      const answer = await post(`/v1/jobs/${lease.id}/${kind}`, { lease_token: lease.token, ...body });
      return log(`${lease.id}: ${kind}, now ${answer.state}`);
    } catch (error) {
      log(`${lease.id}: ${kind}: ${reason(error)}`);
      if (kind === 'complete' && [400, 413, 422].includes(error.status)) { // no JSON, too much of it, or not as its type says
        [kind, body] = ['fail', { error: { type: 'result', message: error.message }, permanent: true }];
        continue;
      }
      // 409 lease_lost: somebody else has the job now
      if (!passing(error) || performance.now() > Math.max(began, lease.until) + patience) return undefined;
      await sleep(pause(error, attempt));
    }
  }
}

async function attempt(lease) {
  const [kind, body] = await handle(lease);
  await finish(lease, kind, body);
  held.delete(lease.token);
  wake();
}

// heartbeats keeps all leases with one call, at a third of the shortest.
async function heartbeats() {
  for (let last = performance.now(); ; ) {
    const leases = [...held.values()];
    const every = Math.min(10_000, ...leases.map((lease) => lease.length / 3));
    if (performance.now() < last + every) {
      await sleep(Math.min(200, every), undefined, { ref: false });
      continue;
    }
    last = performance.now();
    for (let start = 0; start < leases.length && !leaving; start += 1000) {
      beating = heartbeat(leases.slice(start, start + 1000));
      await beating;
    }
  }
}

async function heartbeat(leases) {
  try {
    const all = leases.map((lease) => ({ job_id: lease.id, lease_token: lease.token }));
    const answer = await post(`/v1/workers/${worker}/heartbeat`, { leases: all });
    answer.leases.forEach((status, i) => {
      if (status.status === 'lost') return leases[i].end('the lease is lost');
      if (status.status === 'cancel') leases[i].end('the job is cancelled');
      return leases[i].extend(status.lease_ms);
    });
  } catch (error) {
    log(`heartbeat: ${reason(error)}`);
    if (error.problem?.code === 'worker_unknown') {
      await post('/v1/workers', { worker_id: worker, queues, concurrency }).catch((e) => log(`register: ${reason(e)}`));
    }
    for (const lease of leases) if (performance.now() > lease.until) lease.end('the lease is lost');
  }
}

async function claims() {
  for (let failures = 0; !stopping; ) {
    if (held.size >= concurrency) {
      await changed();
      continue;
    }
    try {
      const body = { worker_id: worker, queues, types: Object.keys(handlers), max: concurrency - held.size, wait_ms: wait };
      const answer = await post('/v1/claims', body, wait + 15_000);
      failures = 0;
      for (const job of answer.jobs) {
        const lease = new Lease(job);
        held.set(lease.token, lease);
        attempt(lease);
      }
    } catch (error) {
      log(`claim: ${reason(error)}`);
      if (!passing(error)) process.exit(1);
      await sleep(pause(error, failures++));
    }
  }
}

async function drained(limit) {
  const over = sleep(limit, 'over');
  while (held.size > 0) if ((await Promise.race([changed(), over])) === 'over') return;
}

// goodbye: no longer listed, and what is held still goes back. Nothing else may be under way: it would be known again.
async function goodbye() {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      return await post(`/v1/workers/${worker}`, undefined, 2000, 'DELETE');
    } catch (error) {
      log(`goodbye: ${reason(error)}`);
      if (!passing(error)) return undefined;
      await sleep(Math.min(1000, pause(error, attempt)));
    }
  }
}

function stop() {
  log('stopping: no more jobs are taken; a second signal ends it at once');
  process.off('SIGTERM', stop).off('SIGINT', stop);
  stopping = true;
  wake();
}

process.on('SIGTERM', stop).on('SIGINT', stop);
log(`${worker} claims from ${queues.join(', ')}`);
heartbeats();
await claims();
await drained(grace);
for (const lease of held.values()) lease.end('the worker stops');
await drained(2000);
for (const lease of held.values()) { // handlers that do not listen: their jobs go back, they end with the process
  lease.until = 0;
  await finish(lease, 'release', {}, 2000);
}
leaving = true;
await Promise.race([beating, sleep(2000)]);
await goodbye();
process.exit(0);
