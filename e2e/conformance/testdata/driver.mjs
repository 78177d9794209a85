// The driver of the conformance tests for the TypeScript client: a command on each line of standard input, an answer or an
// event on each line of standard output. ../driver_test.go documents both.

import { createInterface } from 'node:readline';
import {
  CancelRequested, Client, DeadlineError, EndedError, LeaseLost, NoAnswerError, Permanent, Problem, RetryAfter, Snooze, StatusError, Stopping,
  Throttled, TimedOut, Wait, Worker, verify,
} from '../../../api-docs/examples/typescript/forgequeue.js';

const clients = new Map();
const stops = new Map(); // by the id of the command
const gates = new Map(); // by job
const running = new Map(); // handlers, by the id of the command

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

function client({ url, key }) {
  const name = `${url} ${key}`;
  if (!clients.has(name)) clients.set(name, new Client({ url, apiKey: key }));
  return clients.get(name);
}

const options = (command) => ({ idempotencyKey: command.idempotency_key, ...(command.timeout_ms ? { timeoutMs: command.timeout_ms } : {}) });
const submitted = (job) => ({ id: job.id, state: job.state, replayed: job.replayed, deduplicated: job.deduplicated, replaced: job.replaced });

const commands = {
  submit: async (c) => submitted(await client(c).submit(c.request, options(c))),
  rerun: async (c) => submitted(await client(c).rerun(c.job, c.request, options(c))),
  submit_many: async (c) => {
    const answer = await client(c).submitMany(c.requests, options(c));
    return { ...answer, results: answer.results.map((r) => ({ index: r.index, status: r.status, id: r.job?.id ?? '', code: r.problem?.code ?? '' })) };
  },
  get: async (c) => client(c).get(c.job, options(c)),
  wait: async (c) => client(c).wait(c.job, options(c)),
  result: async (c) => client(c).result(c.job, options(c)),
  result_text: async (c) => (await client(c).get(c.job, options(c))).resultJson,
  submit_and_wait: async (c) => client(c).submitAndWait(c.request, options(c)),
  list: async (c) => {
    const page = await client(c).list({ queue: c.queue }, { size: c.size, token: c.token || undefined }, options(c));
    return { ids: page.items.map((job) => job.id), next: page.next_page_token ?? '' };
  },
  all: async (c) => {
    const ids = [];
    for await (const job of client(c).all({ queue: c.queue })) ids.push(job.id);
    return { ids };
  },
  etag: async (c) => (await client(c).getWithETag(c.job, options(c))).etag,
  patch: async (c) => client(c).patchJob(c.job, c.request, { ...options(c), ifMatch: c.if_match }),
  bulk: async (c) => {
    const { matched } = await client(c).countBulk(c.request, options(c));
    let made = await client(c).bulk(c.request, options(c));
    while (made.state === 'running') {
      await new Promise((done) => setTimeout(done, 50));
      made = await client(c).getBulk(made.id, options(c));
    }
    return { counted: matched, bulk: await client(c).cancelBulk(made.id, options(c)) };
  },
  cancel: async (c) => client(c).cancel(c.job, options(c)),
  signal: async (c) => client(c).signal(c.job, c.name, c.request, options(c)),
  signal_link: async (c) => client(c).signalLink(c.job, c.name, { title: c.title, expiresMs: c.delay_ms }, options(c)),
  output: async (c) => {
    const pieces = [];
    for await (const piece of client(c).allOutput(c.job)) pieces.push(piece);
    return pieces;
  },
  redrive: async (c) => client(c).redrive(c.job, options(c)),
  put_budget: async (c) => client(c).putBudget(c.budget, c.request, options(c)),
  budget: async (c) => client(c).budget(c.budget, c.subject, options(c)),
  budgets: async (c) => {
    const page = await client(c).budgets({ size: c.size, token: c.token || undefined }, options(c));
    return { ids: page.items.map((budget) => budget.name), next: page.next_page_token ?? '' };
  },
  budget_usage: async (c) => client(c).budgetUsage(c.budget, { from: c.from, to: c.to }, options(c)),
  delete_budget: async (c) => client(c).deleteBudget(c.budget, options(c)),
  verify: async (c) => verify(c.secrets.length === 1 ? c.secrets[0] : c.secrets, c.headers, c.body),
  work: async (c) => {
    const worker = new Worker({
      client: client(c), queues: [c.queue], concurrency: c.concurrency, workerId: c.worker_id, graceMs: c.grace_ms,
    });
    worker.handle('script', (job) => script(c.id, job));
    if (c.signals) return worker.runUntilSignal();
    const stop = new AbortController();
    stops.set(c.id, stop);
    return worker.run({ signal: stop.signal });
  },
  stop: async (c) => stops.get(c.worker).abort(),
  go: async (c) => gate(c.job).open(),
};

function gate(job) {
  if (!gates.has(job)) {
    let open;
    const opened = new Promise((resolve) => { open = resolve; });
    gates.set(job, { open, opened });
  }
  return gates.get(job);
}

function cause(error) {
  if (error instanceof LeaseLost) return 'lease_lost';
  if (error instanceof CancelRequested) return 'cancel';
  if (error instanceof TimedOut) return 'timeout';
  if (error instanceof Stopping) return 'stopping';
  return String(error);
}

async function script(worker, job) {
  running.set(worker, (running.get(worker) ?? 0) + 1);
  try {
    return await stepsOf(worker, job);
  } finally {
    running.set(worker, running.get(worker) - 1);
  }
}

async function stepsOf(worker, job) {
  say({
    event: 'started', worker, job: job.id, attempt: job.attempt, epoch: job.epoch, checkpoint: job.restore() ?? null, running: running.get(worker),
  });
  const { deliveries } = job.payload;
  for (const step of deliveries[Math.min(job.epoch, deliveries.length) - 1]) {
    switch (step.do) {
      case 'return': return step.value;
      case 'big': return /"n": ?(\d+)/.exec(job.payloadJson)[1];
      case 'undefined': return undefined;
      case 'unencodable': return { value: 1n };
      case 'large': return 'x'.repeat(256 << 10);
      case 'fail': {
        const error = new Error(step.message);
        if (step.permanent) throw new Permanent(error);
        throw step.retry_after_ms === undefined ? error : new RetryAfter(error, step.retry_after_ms);
      }
      case 'snooze': throw new Snooze(step.delay_ms, step.message);
      case 'throttled': throw new Throttled(step.budget, step.delay_ms, step.message);
      case 'used': job.used(step.budget, step.amount); break;
      case 'wait': throw step.all ? Wait.all(step.delay_ms, ...step.names) : new Wait(step.delay_ms, ...(step.names ?? []));
      case 'then_signal': job.thenSignal(step.job, step.name, step.value); break;
      case 'received': {
        const signal = job.received(step.name);
        return { data: signal === undefined ? 'none' : signal.data, woken_by: job.woken_by };
      }
      case 'then': job.follow(...step.jobs); break;
      case 'write': job.write(step.message, step.name); break;
      case 'log': job.log(step.message); break;
      case 'lines': for (let n = 0; n < step.amount; n++) job.write(`line ${n + 1}\n`, ['out', 'err'][n % 2]); break;
      case 'progress': job.progress(step.percent, step.message); break;
      case 'checkpoint': job.checkpoint(step.value); break;
      case 'go': await gate(job.id).opened; break;
      case 'pause': await new Promise((resolve) => { setTimeout(resolve, step.delay_ms); }); break;
      case 'ended':
        if (!job.signal.aborted) await new Promise((resolve) => job.signal.addEventListener('abort', resolve, { once: true }));
        say({ event: 'told', worker, job: job.id, epoch: job.epoch, cause: cause(job.signal.reason) });
        break;
      case 'listen':
        job.signal.addEventListener('abort', () => say({ event: 'heard', worker, job: job.id, epoch: job.epoch, cause: cause(job.signal.reason) }), { once: true });
        break;
      case 'rethrow': job.signal.throwIfAborted(); break;
      default: throw new Error(`no step is called ${step.do}`);
    }
  }
  return null;
}

function failure(error) {
  const kinds = [[Problem, 'problem'], [StatusError, 'status'], [NoAnswerError, 'no_answer'], [DeadlineError, 'deadline'], [EndedError, 'ended']];
  const kind = kinds.find(([one]) => error instanceof one)?.[1] ?? 'other';
  return {
    kind, code: error.code ?? '', status: error.status ?? 0, detail: error.detail ?? '', retry_after_ms: error.retryAfterMs ?? null,
    state: error.state ?? error.job?.state ?? '', reason: typeof error.reason === 'string' ? error.reason : '', message: String(error.message),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  commands[command.do](command).then((ok) => say({ id: command.id, ok: ok ?? null }), (error) => say({ id: command.id, error: failure(error) }));
}
if (!process.exitCode) process.exit(0);
