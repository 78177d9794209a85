/**
 * A client and a worker for ForgeQueue: one file, no packages. The client runs in Node.js 20 or newer, Deno and browsers,
 * the worker in Node.js and Deno.
 *
 * Requests and answers have the fields of the HTTP API, as api-docs/gateway.json documents them. Durations that this file
 * adds are milliseconds, in names that end in Ms. JavaScript rounds whole numbers above 2^53 (Number.MAX_SAFE_INTEGER): names
 * that end in Json are the text of a value as the server sent it.
 */

// ---- limits of the API, in bytes where nothing else is said

const MAX_BATCH_JOBS = 1000;
const MAX_BATCH_BODY = 8 << 20;
const MAX_PAYLOAD = 256 << 10;
const MAX_RESULT = 256 << 10;
const MAX_CHECKPOINT = 64 << 10;
const MAX_SIGNAL_DATA = 64 << 10;
const MAX_OUTPUT_CHUNK = 16 << 10;
const MAX_OUTPUT_CHUNKS = 100;
const MAX_LEASES = 1000;
const MAX_TYPES = 100;
const MAX_PAGE = 200;
const MAX_DELAY_MS = 366 * 24 * 3600_000;
const MAX_BACKOFF_MS = 7 * 24 * 3600_000;
const MAX_AMOUNT = 2 ** 50;
const MAX_COSTS = 8;
/** Names of types and budgets. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

// ---- limits of this client

/** How many tries a call has, and how long one of them may take. */
const MAX_TRIES = 4;
const TRY_MS = 30_000;
/** The wait before a repeat is random, from 0 to this, doubled with each repeat, to the cap. */
const BACKOFF_BASE_MS = 250;
const BACKOFF_CAP_MS = 5000;
/** A longer Retry-After is not waited for: the caller gets the error at once. */
const LONGEST_ASKED_MS = 60_000;
/** How long the server is asked to delay an answer; and what is left of the caller's time for it to arrive. */
const HELD_MS = 20_000;
const BEFORE_DEADLINE_MS = 500;
const MAX_ANSWER = 64 << 20;
const EXCERPT = 200;
/** How long a budget is closed whose refusal does not say it, and at least. */
const THROTTLED_MS = 10_000;
const SHORTEST_THROTTLED_MS = 1000;

// ---- what the API has

/** The states of a job. */
export type State = 'blocked' | 'scheduled' | 'waiting' | 'queued' | 'running' | 'completed' | 'dead_letter' | 'cancelled';

/** An error of an attempt. */
export interface JobError { type: string; message: string; stack?: string }

/** How long a job waits after a failed attempt. */
export interface Retry { base_ms?: number; cap_ms?: number; jitter?: number; curve?: 'exponential' | 'linear' | 'constant' }

/** How far an attempt is: percent is 0 to 100; null is not known. */
export interface Progress { percent: number | null; message: string | null }

/** A job that must have ended before another one starts. */
export interface Dependency { job_id: string; on_failed?: 'cancel' | 'run' | 'hold' }

/** Amounts of budgets, by the name of the budget: whole numbers from 0. */
export type Amounts = Record<string, number>;

/**
 * A key that is unique among live jobs, and what becomes of a second job with it: keep (also if absent) answers with the live one;
 * replace gives one that waits the new content, and one that runs a follower; extend also waits for delay_ms again, at the latest
 * until max_delay_ms after the first submit; fail refuses it.
 */
export interface Dedupe { key: string; on_live?: 'keep' | 'replace' | 'extend' | 'fail'; max_delay_ms?: number }

/** A job as its producer describes it. What is absent is the queue's setting, or the default. */
export interface SubmitRequest<Payload = unknown> {
  type: string;
  queue?: string;
  payload?: Payload;
  priority?: number;
  run_at?: string;
  delay_ms?: number;
  deadline?: string;
  expires_after_ms?: number;
  max_wait_ms?: number;
  max_attempts?: number;
  timeout_ms?: number;
  retry?: Retry;
  tags?: string[];
  user?: string;
  metadata?: Record<string, string>;
  dedupe_key?: string;
  /** In the place of dedupe_key. */
  dedupe?: Dedupe;
  key?: string;
  key_weight?: number;
  /** What an attempt may use of budgets, at most 8: it starts when each of them has so much available. */
  costs?: Amounts;
  after?: (string | Dependency)[];
}

/** Changes of a job that waits. What is absent stays; tags and metadata are replaced as a whole. */
export interface JobPatch<Payload = unknown> {
  priority?: number;
  payload?: Payload;
  metadata?: Record<string, string>;
  tags?: string[];
  queue?: string;
  /** A past time is now. */
  run_at?: string;
  deadline?: string;
  max_attempts?: number;
}

/** A job without payload, result and stack. Times are RFC 3339 in UTC. */
export interface JobSummary {
  id: string;
  type: string;
  queue: string;
  user: string | null;
  state: State;
  priority: number;
  tags: string[];
  metadata: Record<string, string>;
  attempt: number;
  max_attempts: number;
  epoch: number;
  redrives: number;
  run_at: string | null;
  deadline: string | null;
  timeout_ms: number | null;
  retry: Required<Retry>;
  dedupe_key: string | null;
  key: string | null;
  key_weight: number | null;
  /** What an attempt may use of budgets; null for none. */
  costs: Amounts | null;
  cancel_requested: boolean;
  worker_id: string | null;
  lease_expires_at: string | null;
  last_error: JobError | null;
  dead_reason: string | null;
  correlation_id: string | null;
  traceparent: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  workflow: { id: string; ref: string } | null;
  after: { job_id: string; state: State; on_failed: string }[];
  blocked_by: number | null;
  /** The signals that a waiting job waits for, and when it stops to; empty and null otherwise. */
  waiting_for: string[];
  wait_until: string | null;
  rerun_of: string | null;
  progress: Progress | null;
}

/** A whole job. */
export interface Job<Result = unknown, Payload = unknown> extends JobSummary {
  payload: Payload;
  result: Result | null;
  checkpoint: unknown;
  /** The id of the last piece of its output; null if it has written nothing. */
  output: string | null;
  payloadJson: string;
  resultJson: string;
  checkpointJson: string;
}

/** The answer to a submit. */
export interface Submitted extends JobSummary {
  /** Sentences such as "the queue is paused". */
  warnings: string[];
  /** It is another live job with the same dedupe_key. */
  deduplicated: boolean;
  /** It is a live job with the same dedupe key, which has the new content now. */
  replaced: boolean;
  /** It is the remembered answer of its idempotency key: nothing was stored now. */
  replayed: boolean;
}

/** One job of a batch: accepted, or refused with a problem. */
export interface BatchResult {
  index: number;
  status: number;
  job: { id: string; state: State; run_at: string | null } | null;
  problem: ProblemDocument | null;
}

/** The answer to a batch, in the order sent. */
export interface BatchAnswer { results: BatchResult[]; accepted: number; rejected: number; replayed: boolean }

/** One page of a list; it may be short or empty while it has a next_page_token. */
export interface Page<Item> { items: Item[]; next_page_token: string | null }

/** Which page: size is 1 to 200 items (50), token the page before's next_page_token. */
export interface PageRequest { size?: number; token?: string }

/** What the jobs of a list have; all of it must match. */
export interface JobFilter {
  queue?: string;
  type?: string;
  states?: State[];
  tag?: string;
  user?: string;
  dedupe_key?: string;
  key?: string;
  metadata?: Record<string, string>;
  created_after?: string;
  created_before?: string;
}

/** The streams of a job's output: standard output, standard error, and lines of a log. */
export type Stream = 'out' | 'err' | 'log';

/** A piece of what a job has written; id is its place. gap: output before it is no longer kept. */
export interface Output { id: string; stream: Stream; text: string; at: string; gap: boolean }

/** A part of what a job has written, the oldest first. truncated: some of it is no longer kept; more: there is more after it. */
export interface OutputPage { items: Output[]; truncated: boolean; more: boolean }

/** A signal that a job has. */
export interface Signal<Data = unknown> { name: string; data: Data | null; at: string }

/** The answer to a signal. first is false where the job had one of this name before, which stays. */
export interface Signalled { name: string; at: string; first: boolean }

/** What the page of a link asks, such as "Refund order 1234?", and for how long the link is good: 7 days if that is absent. */
export interface SignalLinkOptions { title?: string; expiresMs?: number }

/** A URL that sends one signal of a job. */
export interface SignalLink { url: string; expires_at: string }

/** What dead letters have; all of it must match. after and before are about when they became dead letters. */
export interface DeadLetterFilter { queue?: string; type?: string; reason?: string; fingerprint?: string; after?: string; before?: string }

/** A job that failed for good. */
export interface DeadLetter {
  job: JobSummary;
  reason: string;
  error: JobError | null;
  fingerprint: string;
  attempts: number;
  died_at: string;
  expires_at: string | null;
}

/** One execution of a job. */
export interface Attempt {
  attempt: number;
  epoch: number;
  kind: 'running' | 'completed' | 'failed' | 'lease_expired' | 'timeout' | 'cancelled';
  worker_id: string | null;
  started_at: string | null;
  ended_at: string | null;
  error: JobError | null;
  next_run_at: string | null;
}

/** A redrive of all dead letters that match a filter. */
export interface Redrive {
  id: string;
  action: 'redrive' | 'discard';
  filter: DeadLetterFilter;
  rate_per_second: number | null;
  state: 'running' | 'done' | 'cancelled' | 'failed';
  matched: number;
  matched_capped: boolean;
  done: number;
  refused: number;
  waiting: string | null;
  error: string | null;
  created_at: string;
  updated_at: string;
  ended_at: string | null;
}

/** Which jobs a bulk action changes; all of it must match. An empty one matches each job for which the action is. */
export interface BulkFilter {
  queue?: string;
  type?: string;
  state?: State[];
  tag?: string;
  user?: string;
  dedupe_key?: string;
  key?: string;
  metadata?: Record<string, string>;
  created_after?: string;
  created_before?: string;
}

/** An action on all jobs that match now. to has the queue of move, the priority of set_priority, the delay_ms of delay. */
export interface BulkRequest {
  action: 'cancel' | 'move' | 'set_priority' | 'run_now' | 'delay' | 'rerun' | 'delete';
  filter: BulkFilter;
  to?: { queue?: string; priority?: number; delay_ms?: number };
  rate_per_second?: number;
}

/** How far a bulk action is: done were changed, refused stayed, by the code of the reason in refusals. */
export interface Bulk {
  id: string;
  action: BulkRequest['action'];
  filter: BulkFilter;
  to: { queue?: string; priority?: number; delay_ms?: number } | null;
  rate_per_second: number | null;
  state: 'running' | 'done' | 'cancelled' | 'failed';
  matched: number;
  matched_capped: boolean;
  done: number;
  refused: number;
  refusals: Record<string, number>;
  waiting: string | null;
  error: string | null;
  created_at: string;
  updated_at: string;
  ended_at: string | null;
}

/** The settings of a queue; what is absent is the default again. */
export interface QueueRequest {
  mode?: 'pull' | 'push';
  push?: Record<string, unknown>;
  visibility_timeout_ms?: number;
  max_attempts?: number;
  retry?: Retry;
  max_active?: number;
  max_running?: number;
  rate_per_second?: number;
  types?: Record<string, { max_running?: number | null; rate_per_second?: number | null }>;
  /** What an attempt of a job may use of budgets if neither the job nor its type says so. */
  costs?: Amounts;
}

/**
 * The settings of a budget; what is absent is the default again. amount, in units such as tokens or cents, may be used in per_ms,
 * or in each window of the calendar: one of them is needed. by gives each user, or each key, an amount of its own.
 */
export interface BudgetRequest {
  unit: string;
  amount: number;
  per_ms?: number;
  window?: 'hour' | 'day' | 'month';
  timezone?: string;
  burst?: number;
  by?: 'user' | 'key';
}

/**
 * A budget. available is what attempts may reserve now, below zero if more was used than reserved, and null for a budget by user or
 * key of which none is named. reserved is what running jobs have reserved, waiting counts the jobs that wait for it.
 */
export interface Budget {
  name: string;
  unit: string;
  amount: number;
  per_ms: number | null;
  window: 'hour' | 'day' | 'month' | null;
  timezone: string;
  burst: number | null;
  by: 'user' | 'key' | null;
  available: number | null;
  reserved: number;
  waiting: number;
  /** Until when it is closed because a worker was throttled; null for an open one. */
  closed_until: string | null;
  created_at: string;
  updated_at: string;
}

/** What attempts have used of a budget, by the day (UTC) on which they started. overdrawn is the part of used above what they had reserved. */
export interface BudgetUsages { budget: string; unit: string; days: { day: string; reserved: number; used: number; overdrawn: number }[] }

/** A problem document (RFC 9457). */
export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  code: string;
  request_id: string;
  retry_after_ms: number | null;
  errors: { field: string; message: string }[];
  policies: { name: string; limit: number; current: number; retry_after_ms: number | null }[];
}

// ---- errors

/** What all errors of this file are. */
export class ForgeQueueError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A refusal by the server, with a code of the closed set in api-docs/errors.md. */
export class Problem extends ForgeQueueError {
  readonly code: string;
  readonly status: number;
  readonly detail: string;
  /** How long to wait before another try, in milliseconds; null where waiting does not help. */
  readonly retryAfterMs: number | null;
  /** The fields that were refused. */
  readonly errors: ProblemDocument['errors'];
  /** The limits that refused. */
  readonly policies: ProblemDocument['policies'];
  /** Finds the line in the server's log. */
  readonly requestId: string;
  readonly document: ProblemDocument;

  constructor(call: string, document: ProblemDocument) {
    super(`${call}: ${document.status} ${document.code}: ${document.detail}`);
    this.code = document.code;
    this.status = document.status;
    this.detail = document.detail;
    this.retryAfterMs = document.retry_after_ms ?? null;
    this.errors = document.errors ?? [];
    this.policies = document.policies ?? [];
    this.requestId = document.request_id ?? '';
    this.document = document;
  }
}

/** An answer that is not of the API: usually from a proxy, or another server. */
export class StatusError extends ForgeQueueError {
  readonly status: number;
  /** The start of the body. */
  readonly body: string;
  readonly retryAfterMs: number | null;

  constructor(call: string, status: number, body: string, retryAfterMs: number | null, cause?: unknown) {
    super(`${call}: status ${status} ${cause === undefined ? 'without a problem document' : 'with a body that is not the JSON expected'}: ${JSON.stringify(body)}`, { cause });
    this.status = status;
    this.body = body;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The server could not be reached, or its answer did not arrive. The call may have taken effect. */
export class NoAnswerError extends ForgeQueueError {}

/** The time that the caller has given is over. */
export class DeadlineError extends ForgeQueueError {
  /** The job as it was last seen, if wait was called. */
  job?: Job;
}

/** A job has ended otherwise than completed. */
export class EndedError extends ForgeQueueError {
  readonly job: Job;
  readonly state: State;
  /** Why it is a dead letter; null if it was cancelled. */
  readonly reason: string | null;

  constructor(job: Job) {
    super(`job ${job.id} ended as ${job.state}${job.dead_reason ? ` (${job.dead_reason})` : ''}${job.last_error ? `: ${job.last_error.message}` : ''}`);
    this.job = job;
    this.state = job.state;
    this.reason = job.dead_reason;
  }
}

/** A batch of submitMany was refused as a whole, or had no answer; cause says why. */
export class SubmitManyError extends ForgeQueueError {
  /** The results of the batches before. Later jobs are not stored; those of the batch without an answer, perhaps. */
  readonly answer: BatchAnswer;

  constructor(message: string, answer: BatchAnswer, cause: unknown) {
    super(message, { cause });
    this.answer = answer;
  }
}

// ---- the client

export interface ClientOptions {
  /** The address of the gateway, such as http://127.0.0.1:8080. */
  url: string;
  apiKey: string;
  /** How long a call may take, with all of its repeats, in milliseconds; 120000. wait and result have no limit unless it is given to them. */
  timeoutMs?: number;
  /** Takes the place of the global fetch. */
  fetch?: typeof fetch;
  /** Gets a line for each call that is repeated, and for each warning in the answer to a submit. */
  logger?: Logger;
}

export interface CallOptions {
  /** Ends the call: it throws the signal's reason. */
  signal?: AbortSignal;
  /** How long the call may take, with all of its repeats, in milliseconds. */
  timeoutMs?: number;
}

export interface SubmitOptions extends CallOptions {
  /** Takes the place of the key that the client makes: 1 to 255 visible ASCII characters. */
  idempotencyKey?: string;
  /** Both are carried by the job. What no header can carry is left out. */
  correlationId?: string;
  traceparent?: string;
}

export type Logger = (level: 'info' | 'warn' | 'error', message: string, fields: Record<string, unknown>) => void;

/** A call to a route of the API that has no method here. */
export interface Call {
  method: string;
  /** The segments of the path, such as ['v1', 'jobs', id]. */
  path: string[];
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  headers?: Record<string, string | undefined>;
  /** The server answers a repeat like the first: the call is repeated if its answer is lost. */
  repeatable?: boolean;
  /** How much longer than usual one try may take. */
  heldMs?: number;
}

interface Answer<T> { status: number; headers: Headers; body: T; json: string }

/** Calls one server with one key. Make one and share it: it has a budget for repeats of its own. */
export class Client {
  readonly #base: string;
  readonly #apiKey: string;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;
  readonly #logger: Logger;
  /** In tenths of a repeat: repeats are at most a tenth of the calls, after a burst of ten. */
  #budget = 100;

  constructor(options: ClientOptions) {
    let url: URL;
    try {
      url = new URL(options.url);
    } catch (cause) {
      throw new ForgeQueueError(`url ${JSON.stringify(options.url)} is not like http://127.0.0.1:8080`, { cause });
    }
    if (!/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
      throw new ForgeQueueError('url has to be http or https, with a host and perhaps a path, and without a query, a fragment or a user');
    }
    if (!/^[!-~]+$/.test(options.apiKey ?? '')) {
      throw new ForgeQueueError('apiKey is empty, or has white space or other characters that no key has');
    }
    this.#base = url.href.replace(/\/+$/, '');
    this.#apiKey = options.apiKey;
    this.#timeoutMs = options.timeoutMs ?? 120_000;
    this.#fetch = options.fetch ?? ((...args) => globalThis.fetch(...args));
    this.#logger = options.logger ?? (() => {});
  }

  /** A client by FORGEQUEUE_URL, and FORGEQUEUE_API_KEY or FORGEQUEUE_API_KEY_FILE. */
  static async fromEnv(change: Partial<ClientOptions> = {}): Promise<Client> {
    const env = nodeProcess()?.env ?? {};
    const url = change.url ?? env['FORGEQUEUE_URL'];
    let apiKey = change.apiKey ?? env['FORGEQUEUE_API_KEY'];
    const file = env['FORGEQUEUE_API_KEY_FILE'];
    const missing: string[] = [];
    if (!url) missing.push('FORGEQUEUE_URL is not set: the address of the gateway, such as http://127.0.0.1:8080');
    if (!apiKey && file) {
      const fs = await nodeModule<{ readFile(path: string, encoding: string): Promise<string> }>('fs/promises');
      try {
        apiKey = (await fs.readFile(file, 'utf8')).replace(/^\uFEFF|[\r\n]+$/g, '');
      } catch (cause) {
        throw new ForgeQueueError(`FORGEQUEUE_API_KEY_FILE: ${text(cause)}`, { cause });
      }
    }
    if (!apiKey) missing.push('FORGEQUEUE_API_KEY is not set: a key with the scopes that this program needs; or FORGEQUEUE_API_KEY_FILE, a file with it');
    if (!url || !apiKey) throw new ForgeQueueError(missing.join('; '));
    return new Client({ ...change, url, apiKey });
  }

  // -- producing

  /** Stores one job. Check warnings, deduplicated and replaced of the answer. */
  async submit(job: SubmitRequest, options: SubmitOptions = {}): Promise<Submitted> {
    const { body, headers } = await this.#submit<Submitted>(['v1', 'jobs'], job, options);
    return this.#submitted(body, headers);
  }

  /** Submits a new job like one that has ended; differs says in what it differs. */
  async rerun(id: string, differs: Partial<SubmitRequest> = {}, options: SubmitOptions = {}): Promise<Submitted> {
    const { body, headers } = await this.#submit<Submitted>(['v1', 'jobs', id, 'rerun'], differs, options);
    return this.#submitted(body, headers);
  }

  #submitted(job: Submitted, headers: Headers): Submitted {
    for (const warning of job.warnings ?? []) this.#logger('warn', 'submit has a warning', { job_id: job.id, queue: job.queue, warning });
    return { ...job, replayed: replayed(headers) };
  }

  /** Stores up to 1000 jobs in one request; with atomic all or none. Without atomic look at rejected, and at the problem of each result. */
  async submitBatch(jobs: SubmitRequest[], options: SubmitOptions & { atomic?: boolean } = {}): Promise<BatchAnswer> {
    const { body, headers } = await this.#submit<BatchAnswer>(['v1', 'jobs', 'batch'], { jobs, ...(options.atomic ? { atomic: true } : {}) }, options);
    return { ...body, replayed: replayed(headers) };
  }

  /**
   * Stores any number of jobs, in batches of at most 1000 jobs and 8 MiB, one after the other. The answer has a result for
   * each, in order: a job or a problem. Throws SubmitManyError, with the results so far, if a batch has no answer or is refused
   * as a whole. With idempotencyKey the nth batch has that key with "/n" added, the first the key as it is. timeoutMs is that
   * of each batch.
   */
  async submitMany(jobs: SubmitRequest[], options: SubmitOptions = {}): Promise<BatchAnswer> {
    const all: BatchAnswer = { results: [], accepted: 0, rejected: 0, replayed: jobs.length > 0 };
    const key = options.idempotencyKey || randomKey();
    const sizes = jobs.map((job) => bytes(encode(job)));
    for (let n = 1; all.results.length < jobs.length;) {
      const first = all.results.length;
      const payload = jobs[first]?.payload;
      if (payload !== undefined && bytes(encode(payload)) > MAX_PAYLOAD) { // alone it could be too large for a batch
        all.results.push({ index: first, status: 413, job: null, problem: tooLarge(`payload: may have at most ${MAX_PAYLOAD} bytes.`) });
        all.rejected++;
        continue;
      }
      let end = first;
      for (let size = 1024; end < jobs.length && end - first < MAX_BATCH_JOBS; end++) {
        size += (sizes[end] ?? 0) + 1;
        if (end > first && (size > MAX_BATCH_BODY || (sizes[end] ?? 0) > MAX_PAYLOAD && bytes(encode(jobs[end]?.payload)) > MAX_PAYLOAD)) break;
      }
      let answer: BatchAnswer;
      try {
        answer = await this.submitBatch(jobs.slice(first, end), { ...options, idempotencyKey: n > 1 ? `${key}/${n}` : key });
        if (answer.results.length !== end - first) throw new ForgeQueueError(`the server answered with ${answer.results.length} results`);
      } catch (cause) {
        all.replayed = false;
        throw new SubmitManyError(`jobs ${first} to ${end - 1} of ${jobs.length}: ${text(cause)}`, all, cause);
      }
      answer.results.forEach((result, i) => all.results.push({ ...result, index: first + i }));
      all.accepted += answer.accepted;
      all.rejected += answer.rejected;
      all.replayed &&= answer.replayed;
      n++;
    }
    return all;
  }

  async #submit<T>(path: string[], body: unknown, options: SubmitOptions): Promise<Answer<T>> {
    const key = options.idempotencyKey || randomKey();
    if (!/^[!-~]{1,255}$/.test(key)) throw new ForgeQueueError('idempotencyKey has to be 1 to 255 visible ASCII characters');
    return this.#call<T>({
      method: 'POST', path, body, repeatable: true,
      headers: { 'Idempotency-Key': key, 'X-Correlation-Id': sendable(options.correlationId), Traceparent: sendable(options.traceparent) },
    }, options);
  }

  // -- reading

  /** Reads one job. The problem not_found stands for the jobs of others too. */
  async get<Result = unknown>(id: string, options: CallOptions = {}): Promise<Job<Result>> {
    return (await this.getWithETag<Result>(id, options)).job;
  }

  /** Reads one job, with the ETag of the version that was read: for the option ifMatch of patchJob. */
  async getWithETag<Result = unknown>(id: string, options: CallOptions = {}): Promise<{ job: Job<Result>; etag: string }> {
    const answer = await this.#call<Job<Result>>({ method: 'GET', path: ['v1', 'jobs', id], repeatable: true }, options);
    return { job: withJson(answer.body, answer.json), etag: answer.headers.get('ETag') ?? '' };
  }

  /** Waits until the job has ended: completed, dead_letter or cancelled. Throws DeadlineError after timeoutMs, if given, with the job as last seen. */
  async wait<Result = unknown>(id: string, options: CallOptions = {}): Promise<Job<Result>> {
    const end = options.timeoutMs === undefined ? Infinity : now() + options.timeoutMs;
    let interval = 20;
    let heldMs = 0; // the first look is not held: the job may have ended
    let last: Job<Result> | undefined;
    let etag = '';
    try {
      for (;;) {
        const asked = now();
        const { status, headers, body, json } = await this.#call<Job<Result>>({
          method: 'GET', path: ['v1', 'jobs', id], repeatable: true, heldMs,
          headers: { Prefer: `wait=${Math.floor(heldMs / 1000)}`, 'If-None-Match': etag || undefined },
        }, { ...options, timeoutMs: end === Infinity ? Infinity : end - now() });
        const job: Job<Result> = status === 304 && last !== undefined ? last : body;
        if (status !== 304) etag = headers.get('ETag') ?? '';
        if (ended(job.state)) return status === 304 ? job : withJson(job, json);
        // An early answer without a change counts as no wait, even with the header.
        const held = headers.has('Preference-Applied') && (job.state !== last?.state || now() - asked >= 500);
        last = job;
        if (!held) {
          const pause = interval / 2 + Math.random() * interval / 2;
          if (now() + pause >= end) throw new DeadlineError(`wait for job ${id}: not within ${options.timeoutMs} ms; last seen ${job.state}`);
          await sleep(pause, options.signal);
          interval = Math.min(interval * 1.5, 500);
        }
        heldMs = Math.floor(Math.max(Math.min(HELD_MS, end - now() - BEFORE_DEADLINE_MS), 0) / 1000) * 1000;
      }
    } catch (error) {
      if (error instanceof DeadlineError && last !== undefined) error.job = last;
      throw error;
    }
  }

  /** Waits for the result of a job; throws EndedError if it is not completed. */
  async result<Result = unknown>(id: string, options: CallOptions = {}): Promise<Result> {
    const job = await this.wait<Result>(id, options);
    if (job.state !== 'completed') throw new EndedError(job);
    return job.result as Result;
  }

  /** Submits a job and waits for its result. timeoutMs is for both. */
  async submitAndWait<Result = unknown>(job: SubmitRequest, options: SubmitOptions = {}): Promise<Result> {
    const begun = now();
    const { id } = await this.submit(job, options);
    return this.result<Result>(id, options.timeoutMs === undefined ? options : { ...options, timeoutMs: Math.max(options.timeoutMs - (now() - begun), 0) });
  }

  /** Gives one page of the jobs that match, newest first. */
  async list(filter: JobFilter = {}, page: PageRequest = {}, options: CallOptions = {}): Promise<Page<JobSummary>> {
    const { states, metadata, ...rest } = filter;
    const query: Call['query'] = { ...rest, state: states?.join(',') };
    for (const [name, value] of Object.entries(metadata ?? {})) query[`metadata.${name}`] = value;
    return this.#list(['v1', 'jobs'], query, page, options);
  }

  /** Gives all jobs that match, newest first, page by page. */
  all(filter: JobFilter = {}, options: CallOptions = {}): AsyncGenerator<JobSummary, void, undefined> {
    return pages((page) => this.list(filter, page, options));
  }

  /** Gives one page of the executions of a job. */
  async attempts(id: string, page: PageRequest = {}, options: CallOptions = {}): Promise<Page<Attempt>> {
    return this.#list(['v1', 'jobs', id, 'attempts'], {}, page, options);
  }

  /** Gives a page of what the job has written, the oldest first: what came after the piece with the id after. */
  async output(id: string, after?: string, options: CallOptions = {}): Promise<OutputPage> {
    return this.call({ method: 'GET', path: ['v1', 'jobs', id, 'output'], query: { after }, repeatable: true }, options);
  }

  /** Gives all that the job has written until now, page by page. */
  async* allOutput(id: string, after?: string, options: CallOptions = {}): AsyncGenerator<Output, void, undefined> {
    for (let more = true; more;) {
      const page = await this.output(id, after, options);
      yield* page.items;
      after = page.items.at(-1)?.id;
      more = page.more && after !== undefined;
    }
  }

  async #list<T>(path: string[], query: Record<string, string | number | undefined>, page: PageRequest, options: CallOptions): Promise<Page<T>> {
    return this.call({ method: 'GET', path, query: { ...query, page_size: page.size, page_token: page.token }, repeatable: true }, options);
  }

  // -- changing

  /**
   * Changes a job that waits, and gives it as it is now. The problem job_started says that it runs, or has ended. ifMatch is the ETag
   * of the version that is changed: precondition_failed says that the job is another one by now, or that an answer was lost and the
   * call repeated.
   */
  async patchJob<Result = unknown>(id: string, changes: JobPatch, options: CallOptions & { ifMatch?: string } = {}): Promise<Job<Result>> {
    // Without the header it would change any version.
    if (options.ifMatch !== undefined && sendable(options.ifMatch) === undefined) throw new ForgeQueueError('ifMatch is no ETag');
    const answer = await this.#call<Job<Result>>({
      method: 'PATCH', path: ['v1', 'jobs', id], body: changes, repeatable: true, headers: { 'If-Match': options.ifMatch },
    }, options);
    return withJson(answer.body, answer.json);
  }

  /** Ends a job that waits. One that runs is asked to end: cancel_requested is set. The problem job_terminal says that it has ended. */
  async cancel(id: string, options: CallOptions = {}): Promise<JobSummary> {
    return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'cancel'], repeatable: true }, options);
  }

  /**
   * Tells a job something under a name, and wakes it if that is what it waits for; a signal that comes before is kept. The first signal
   * of a name stays: first is false where there was one, which a repeat after a lost answer finds too. The problem job_terminal says
   * that the job has ended.
   */
  async signal(id: string, name: string, data?: unknown, options: CallOptions = {}): Promise<Signalled> {
    return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'signals'], body: { name, data }, repeatable: true }, options);
  }

  /** Makes a URL by which a person without a key sends one signal of a job, once, in a browser. */
  async signalLink(id: string, name: string, link: SignalLinkOptions = {}, options: CallOptions = {}): Promise<SignalLink> {
    const body = { name, title: link.title, expires_ms: link.expiresMs };
    return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'signal-links'], body, repeatable: true }, options);
  }

  /** Deletes an ended job and its attempts. */
  async deleteJob(id: string, options: CallOptions = {}): Promise<void> {
    await this.call({ method: 'DELETE', path: ['v1', 'jobs', id], repeatable: true }, options);
  }

  /** Queues a dead letter again. It is not repeated if its answer is lost: a repeat would be refused with not_dead. */
  async redrive(id: string, options: CallOptions = {}): Promise<JobSummary> {
    return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'redrive'] }, options);
  }

  /** Queues 1 to 1000 dead letters again; each has its own result. Not repeated, like redrive. */
  async redriveDeadLetters(ids: string[], options: CallOptions = {}): Promise<{ results: BatchResult[] }> {
    return this.call({ method: 'POST', path: ['v1', 'dead-letters', 'redrive'], body: { ids } }, options);
  }

  /** Begins to queue again all dead letters that match, in the server; rate is how many at most in a second. */
  async redriveMatching(filter: DeadLetterFilter, rate?: number, options: CallOptions = {}): Promise<Redrive> {
    return this.call({ method: 'POST', path: ['v1', 'dead-letters', 'redrive'], body: { filter, rate_per_second: rate } }, options);
  }

  /** Counts the dead letters that match. */
  async countMatching(filter: DeadLetterFilter, options: CallOptions = {}): Promise<{ matched: number; matched_capped: boolean }> {
    return this.call({ method: 'POST', path: ['v1', 'dead-letters', 'redrive'], body: { filter, dry_run: true }, repeatable: true }, options);
  }

  /** Reads how far a redrive is. */
  async getRedrive(id: string, options: CallOptions = {}): Promise<Redrive> {
    return this.call({ method: 'GET', path: ['v1', 'redrives', id], repeatable: true }, options);
  }

  /** Begins to change all jobs that match now, in the server. It is not repeated if its answer is lost. */
  async bulk(request: BulkRequest, options: CallOptions = {}): Promise<Bulk> {
    return this.call({ method: 'POST', path: ['v1', 'bulk'], body: request }, options);
  }

  /** Counts the jobs that a bulk action would change. */
  async countBulk(request: BulkRequest, options: CallOptions = {}): Promise<{ matched: number; matched_capped: boolean }> {
    return this.call({ method: 'POST', path: ['v1', 'bulk'], body: { ...request, dry_run: true }, repeatable: true }, options);
  }

  /** Reads how far a bulk action is. */
  async getBulk(id: string, options: CallOptions = {}): Promise<Bulk> {
    return this.call({ method: 'GET', path: ['v1', 'bulk', id], repeatable: true }, options);
  }

  /** Stops a bulk action; what was changed stays changed. */
  async cancelBulk(id: string, options: CallOptions = {}): Promise<Bulk> {
    return this.call({ method: 'POST', path: ['v1', 'bulk', id, 'cancel'], repeatable: true }, options);
  }

  /** Gives one page of the dead letters that match. */
  async deadLetters(filter: DeadLetterFilter = {}, page: PageRequest = {}, options: CallOptions = {}): Promise<Page<DeadLetter>> {
    return this.#list(['v1', 'dead-letters'], { ...filter }, page, options);
  }

  /** Makes a queue, or replaces all of its settings. */
  async putQueue(name: string, settings: QueueRequest, options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.call({ method: 'PUT', path: ['v1', 'queues', name], body: settings, repeatable: true }, options);
  }

  // -- budgets

  /** Makes a budget, or replaces all of its settings. One that is closed is open again. */
  async putBudget(name: string, settings: BudgetRequest, options: CallOptions = {}): Promise<Budget> {
    return this.call({ method: 'PUT', path: ['v1', 'budgets', name], body: settings, repeatable: true }, options);
  }

  /** Reads a budget. subject is the user or key whose available is read, of a budget by user or key. */
  async budget(name: string, subject?: string, options: CallOptions = {}): Promise<Budget> {
    return this.call({ method: 'GET', path: ['v1', 'budgets', name], query: { subject }, repeatable: true }, options);
  }

  /** Gives one page of the budgets, by name. */
  async budgets(page: PageRequest = {}, options: CallOptions = {}): Promise<Page<Budget>> {
    return this.#list(['v1', 'budgets'], {}, page, options);
  }

  /** Deletes a budget and its usage. Costs that name it are ignored from then on. */
  async deleteBudget(name: string, options: CallOptions = {}): Promise<void> {
    await this.call({ method: 'DELETE', path: ['v1', 'budgets', name], repeatable: true }, options);
  }

  /** Reads what was used of a budget. days is the first and the last one, as YYYY-MM-DD; this month if absent. */
  async budgetUsage(name: string, days: { from?: string; to?: string } = {}, options: CallOptions = {}): Promise<BudgetUsages> {
    return this.call({ method: 'GET', path: ['v1', 'budgets', name, 'usage'], query: { ...days }, repeatable: true }, options);
  }

  // -- any call

  /** Calls any route of the API. Gives the body of the answer, undefined if it has none. */
  async call<T>(call: Call, options: CallOptions = {}): Promise<T> {
    return (await this.#call<T>(call, options)).body;
  }

  /** Calls any route of the API. Gives the body of the answer and its text, in which no number is rounded. */
  async callWithJson<T>(call: Call, options: CallOptions = {}): Promise<{ body: T; json: string }> {
    const { body, json } = await this.#call<T>(call, options);
    return { body, json };
  }

  async #call<T>(call: Call, options: CallOptions): Promise<Answer<T>> {
    const target = this.#base + call.path.map(segment).join('') + queryOf(call.query);
    const name = `${call.method} /${call.path.join('/')}`;
    const body = call.body === undefined ? undefined : encode(call.body);
    const end = now() + (options.timeoutMs ?? this.#timeoutMs);
    this.#budget = Math.min(this.#budget + 1, 100);
    for (let tries = 1; ; tries++) {
      try {
        return await this.#try<T>(name, target, call, body, end, options.signal);
      } catch (error) {
        const pause = this.#nextTry(call, tries, error, end, options.signal);
        if (pause === undefined) throw error;
        this.#logger('warn', 'call is tried again', { call: name, tries, wait_ms: Math.round(pause), error: text(error) });
        await sleep(pause, options.signal);
      }
    }
  }

  /** How long to wait before another try; undefined for none. */
  #nextTry(call: Call, tries: number, error: unknown, end: number, signal: AbortSignal | undefined): number | undefined {
    if (tries >= MAX_TRIES || signal?.aborted || !retryable(call, error)) return undefined;
    const asked = retryAfterMs(error) ?? 0;
    const pause = asked + Math.random() * Math.min(BACKOFF_CAP_MS, BACKOFF_BASE_MS * 2 ** (tries - 1));
    if (asked > LONGEST_ASKED_MS || now() + pause >= end) return undefined; // the refusal says more than a deadline
    const scheduled = statusOf(error) === 429 && asked > 0;
    if (!scheduled) {
      if (this.#budget < 10) return undefined;
      this.#budget -= 10;
    }
    return pause;
  }

  /** Sends the request once, and reads the whole answer. */
  async #try<T>(name: string, target: string, call: Call, body: string | undefined, end: number, signal: AbortSignal | undefined): Promise<Answer<T>> {
    signal?.throwIfAborted();
    const longest = TRY_MS + (call.heldMs ?? 0);
    const left = Math.min(longest, end - now());
    if (left <= 0) throw new DeadlineError(`${name}: the time is over`);
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), left);
    const abort = () => controller.abort();
    signal?.addEventListener('abort', abort, { once: true });
    try {
      const response = await this.#fetch(target, {
        method: call.method, headers: this.#headers(call, body), signal: controller.signal, redirect: 'manual', cache: 'no-store',
        ...(body === undefined ? {} : { body }),
      });
      const content = await readBody(response, MAX_ANSWER);
      if (response.status === 304 && call.headers?.['If-None-Match'] !== undefined) {
        return { status: 304, headers: response.headers, body: undefined as T, json: '' };
      }
      if (!response.ok) throw refusal(name, response, content);
      return { status: response.status, headers: response.headers, body: decode<T>(name, response.status, content), json: content };
    } catch (cause) {
      if (cause instanceof ForgeQueueError) throw cause;
      if (signal?.aborted) throw signal.reason;
      if (controller.signal.aborted) {
        if (left < longest) throw new DeadlineError(`${name}: no answer within the time that is left, ${Math.round(left)} ms`, { cause });
        throw new NoAnswerError(`${name}: no answer within ${longest} ms`, { cause });
      }
      throw new NoAnswerError(`${name}: ${reason(cause)}`, { cause });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  #headers(call: Call, body: string | undefined): Headers {
    const headers = new Headers({ Authorization: `Bearer ${this.#apiKey}`, Accept: 'application/json, application/problem+json' });
    if (nodeProcess() !== undefined) headers.set('User-Agent', 'forgequeue-typescript'); // a browser sets its own
    if (body !== undefined) headers.set('Content-Type', 'application/json');
    for (const [name, value] of Object.entries(call.headers ?? {})) if (value !== undefined) headers.set(name, value);
    return headers;
  }
}

/** Gives all items of a list, page by page: pages((page) => client.deadLetters({ queue: 'mail' }, page)). */
export async function* pages<Item>(list: (page: PageRequest) => Promise<Page<Item>>): AsyncGenerator<Item, void, undefined> {
  for (let page: PageRequest = { size: MAX_PAGE }; ;) {
    const answer = await list(page);
    yield* answer.items;
    if (answer.next_page_token === null) return;
    page = { size: MAX_PAGE, token: answer.next_page_token };
  }
}

function retryable(call: Call, error: unknown): boolean {
  if (error instanceof NoAnswerError) return call.repeatable === true || nothingWritten(error.cause);
  if (call.repeatable !== true) return false;
  switch (statusOf(error)) {
    case 429: return codeOf(error) !== 'would_wait'; // the caller does not want to wait
    case 502: case 503: case 504: return true;
    case 409: return codeOf(error) === 'idempotency_in_flight'; // an earlier try of this call has not ended
    default: return false;
  }
}

/** Whether no connection was made, as far as Node.js says so: the server did not get the call. */
function nothingWritten(cause: unknown): boolean {
  const inner = (cause as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'].includes(String(inner));
}

function refusal(name: string, response: Response, content: string): ForgeQueueError {
  const asked = retryAfterHeader(response.headers.get('Retry-After'));
  const media = (response.headers.get('Content-Type') ?? '').split(';')[0]?.trim().toLowerCase();
  try {
    const document = JSON.parse(content) as ProblemDocument;
    if (media === 'application/problem+json' && typeof document.code === 'string' && document.code !== '') {
      return new Problem(name, { ...document, status: response.status, retry_after_ms: document.retry_after_ms ?? asked });
    }
  } catch { /* not of the API */ }
  return new StatusError(name, response.status, content.slice(0, EXCERPT), asked);
}

/** Retry-After in milliseconds: seconds or a date (RFC 9110, section 10.2.3). */
function retryAfterHeader(value: string | null): number | null {
  if (value === null) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/.test(value)) return null; // Date.parse takes more for a date, such as 1.5
  const at = Date.parse(value.endsWith(' GMT') ? value : `${value} GMT`);
  return Number.isNaN(at) ? null : Math.max(at - Date.now(), 0);
}

function decode<T>(name: string, status: number, content: string): T {
  if (content === '') return undefined as T;
  try {
    return JSON.parse(content) as T;
  } catch (cause) {
    throw new StatusError(name, status, content.slice(0, EXCERPT), null, cause);
  }
}

/** The end of the JSON value that begins at a position of valid JSON. */
function valueEnd(json: string, at: number): number {
  let depth = 0;
  for (;; at++) {
    const c = json.charCodeAt(at);
    if (c === 0x22) { // a string: to the next quote that is not escaped
      for (let escaped = true; escaped;) {
        at = json.indexOf('"', at + 1);
        let before = at;
        while (json.charCodeAt(before - 1) === 0x5c) before--;
        escaped = (at - before) % 2 === 1;
      }
    } else if (c === 0x7b || c === 0x5b) {
      depth++;
      continue;
    } else if (c === 0x7d || c === 0x5d) {
      depth--;
    } else if (depth > 0) {
      continue;
    } else { // a number or a word
      while (at < json.length && !/[,\]}\s]/.test(json.charAt(at))) at++;
      return at;
    }
    if (depth === 0) return at + 1;
  }
}

/** The texts of the values of an object or array, which is valid JSON; those of an array are named 0, 1, 2 … */
function valuesOf(json: string): Map<string, string> {
  const values = new Map<string, string>();
  const skip = (at: number) => { while (/[,:\s]/.test(json.charAt(at))) at++; return at; };
  const start = skip(0);
  const array = json.charAt(start) === '[';
  for (let at = skip(start + 1), n = 0; at < json.length && !/[\]}]/.test(json.charAt(at)); n++) {
    let name = String(n);
    if (!array) {
      const end = valueEnd(json, at);
      name = JSON.parse(json.slice(at, end)) as string;
      at = skip(end);
    }
    const end = valueEnd(json, at);
    values.set(name, json.slice(at, end));
    at = skip(end);
  }
  return values;
}

/** A job with the texts of its values. */
function withJson<Result>(job: Job<Result>, json: string): Job<Result> {
  const of = valuesOf(json);
  return { ...job, payloadJson: of.get('payload') ?? 'null', resultJson: of.get('result') ?? 'null', checkpointJson: of.get('checkpoint') ?? 'null' };
}

/** Reads a body of a limited size. */
async function readBody(response: Response, most: number): Promise<string> {
  if (response.body === null) return '';
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let content = '';
  for (let size = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return content + decoder.decode();
    size += value.byteLength;
    if (size > most) {
      await reader.cancel().catch(() => {});
      throw new ForgeQueueError(`the answer is too large: status ${response.status}, more than ${most} bytes`);
    }
    content += decoder.decode(value, { stream: true });
  }
}

/** One segment of a path, so that an id cannot change the route. */
function segment(name: string): string {
  if (typeof name !== 'string' || name === '' || name === '.' || name === '..') throw new ForgeQueueError(`${JSON.stringify(name)} cannot be an id`);
  return '/' + encodeURIComponent(wellFormed(name));
}

function queryOf(query: Call['query']): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined && (value !== '' || name.startsWith('metadata.'))) params.set(name, String(value));
  const encoded = params.toString();
  return encoded === '' ? '' : `?${encoded}`;
}

/** A value as JSON; undefined is null. */
function encode(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (cause) {
    throw new ForgeQueueError(`cannot be written as JSON: ${text(cause)}`, { cause });
  }
}

function tooLarge(detail: string): ProblemDocument {
  return {
    type: '/problems/payload_too_large', title: 'The body is too large', status: 413, detail, instance: '', code: 'payload_too_large',
    request_id: '', retry_after_ms: null, errors: [], policies: [],
  };
}

const statusOf = (error: unknown): number => (error instanceof Problem || error instanceof StatusError ? error.status : 0);
const codeOf = (error: unknown): string => (error instanceof Problem ? error.code : '');
const retryAfterMs = (error: unknown): number | null => (error instanceof Problem || error instanceof StatusError ? error.retryAfterMs : null);
const replayed = (headers: Headers): boolean => headers.get('Idempotent-Replayed') === 'true';
const ended = (state: State): boolean => state === 'completed' || state === 'dead_letter' || state === 'cancelled';
const sendable = (value: string | undefined): string | undefined => (value !== undefined && /^[ -~]{1,128}$/.test(value) ? value : undefined);
const now = (): number => performance.now();
const bytes = (content: string): number => new TextEncoder().encode(content).byteLength;
const text = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** fetch hides why it failed in the cause of its error. */
function reason(error: unknown): string {
  const cause = (error as { cause?: unknown } | undefined)?.cause;
  return cause === undefined ? text(error) : `${text(error)}: ${text(cause) || (cause as { code?: string }).code}`;
}

/** Without lone surrogates, which no UTF-8 has. */
function wellFormed(content: string): string {
  return content.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');
}

/** At least 128 random bits. */
function randomKey(): string {
  const random = new Uint8Array(16);
  globalThis.crypto.getRandomValues(random);
  return Array.from(random, (one) => one.toString(16).padStart(2, '0')).join('');
}

/** Waits; throws the reason of the signal if it aborts. */
async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = () => { clearTimeout(timer); reject(signal?.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener('abort', abort); resolve(); }, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
    signal?.addEventListener('abort', abort, { once: true });
  });
}

interface NodeProcess {
  env: Record<string, string | undefined>;
  pid: number;
  on(signal: string, listener: () => void): void;
  off(signal: string, listener: () => void): void;
  exit(): void;
}

const nodeProcess = (): NodeProcess | undefined => (globalThis as { process?: NodeProcess }).process;

/** A module of Node.js, by a name that no bundler resolves. */
async function nodeModule<T>(name: string): Promise<T> {
  const specifier = `node:${name}`;
  return await import(specifier) as T;
}

// ---- signatures of webhooks and pushed jobs

export interface VerifyOptions {
  /** How old, or how far ahead, the timestamp may be, in seconds; 300. */
  toleranceSeconds?: number;
  /** The present time; that of the machine if absent. */
  now?: Date;
}

/**
 * Says whether a call of a webhook or a push queue is signed with a secret, by Standard Webhooks: HMAC-SHA-256 over
 * "id.timestamp.body". secret is "whsec_" and base64, or several of them, of which one has to fit. body is as it was received, not
 * decoded and encoded again. Whatever is malformed, the secret included, is false; it does not throw.
 */
export async function verify(
  secret: string | string[], headers: Headers | Record<string, string | string[] | undefined>, body: string | Uint8Array | ArrayBuffer,
  options: VerifyOptions = {},
): Promise<boolean> {
  try {
    const [id, timestamp, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => header(headers, name));
    if (!id || !timestamp || !signature || id.length > 1024 || signature.length > 4096 || !/^\d{1,12}$/.test(timestamp)) return false;
    const present = (options.now ?? new Date()).getTime() / 1000;
    if (!(Math.abs(present - Number(timestamp)) <= (options.toleranceSeconds ?? 300))) return false;
    const content = typeof body === 'string' ? new TextEncoder().encode(body) : new Uint8Array(body);
    const prefix = new TextEncoder().encode(`${id}.${timestamp}.`);
    const message = new Uint8Array(prefix.length + content.length);
    message.set(prefix);
    message.set(content, prefix.length);
    const signatures = signature.split(' ').filter((one) => one.startsWith('v1,')).map((one) => base64(one.slice(3))).filter((one) => one?.length === 32);
    const subtle = (globalThis.crypto ?? (await nodeModule<{ webcrypto: Crypto }>('crypto')).webcrypto).subtle;
    let found = false;
    for (const one of Array.isArray(secret) ? secret : [secret]) {
      const key = base64(one.replace(/^whsec_/, ''));
      if (key === undefined || key.length === 0) continue;
      const imported = await subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
      for (const got of signatures) {
        if (got !== undefined && await subtle.verify('HMAC', imported, got, message)) found = true; // in constant time
      }
    }
    return found;
  } catch {
    return false;
  }
}

function header(headers: Headers | Record<string, string | string[] | undefined>, name: string): string | undefined {
  if (typeof headers.get === 'function') return (headers as Headers).get(name) ?? undefined;
  const values = Object.entries(headers as Record<string, string | string[] | undefined>).filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
  return values.length === 1 && typeof values[0] === 'string' ? values[0] : undefined;
}

/** Strict base64; undefined if it is not. */
function base64(content: string): Uint8Array<ArrayBuffer> | undefined {
  if (content.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(content)) return undefined;
  return Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
}

// ---- the worker

/** Why the signal of a job has aborted: its reason. */
export class LeaseLost extends ForgeQueueError {
  constructor() { super('the lease is lost'); }
}

/** The cancellation of the job was requested. */
export class CancelRequested extends ForgeQueueError {
  constructor() { super('cancellation of the job was requested'); }
}

/** The attempt has used up the job's timeout_ms, or the handler's own timeoutMs. */
export class TimedOut extends ForgeQueueError {
  constructor() { super('the attempt has used up its time'); }
}

/** The worker stops, and its grace period is over. */
export class Stopping extends ForgeQueueError {
  constructor() { super('the worker is stopping'); }
}

/** Thrown by a handler: the job becomes a dead letter at once. */
export class Permanent extends ForgeQueueError {
  constructor(error: unknown) { super(text(error), { cause: error }); }
}

/** Thrown by a handler: the attempt fails, and the next one comes after so many milliseconds, at most 7 days. */
export class RetryAfter extends ForgeQueueError {
  readonly delayMs: number;
  constructor(error: unknown, delayMs: number) {
    super(text(error), { cause: error });
    this.delayMs = clamp(delayMs, MAX_BACKOFF_MS);
  }
}

/** Thrown by a handler: the job comes back after so many milliseconds, and no attempt is used up. The reason, if any, becomes its last error. */
export class Snooze extends ForgeQueueError {
  readonly delayMs: number;
  readonly reason: string;
  constructor(delayMs: number, reason = '') {
    super(`snoozed for ${delayMs} ms`);
    this.delayMs = clamp(delayMs, MAX_DELAY_MS);
    this.reason = reason;
  }
}

/**
 * Thrown by a handler that was refused, such as by a provider with 429: for so many milliseconds the budget is closed for all jobs,
 * then the job comes back. No attempt is used up. The reason, if any, becomes its last error.
 */
export class Throttled extends ForgeQueueError {
  readonly budget: string;
  readonly delayMs: number;
  readonly reason: string;
  constructor(budget: string, delayMs: number, reason = '') {
    super(`budget ${budget} is closed for ${delayMs} ms`);
    if (!NAME.test(budget)) throw new ForgeQueueError(`${JSON.stringify(budget)} cannot be the name of a budget`);
    if (!(delayMs >= 0)) throw new ForgeQueueError(`budget ${budget} cannot be closed for ${delayMs} ms`);
    this.budget = budget;
    this.delayMs = Math.max(clamp(delayMs, MAX_DELAY_MS), 1);
    this.reason = reason;
  }

  /** One by the value of a Retry-After header, seconds or a date: at least a second, and 10 seconds if it is absent or neither. */
  static of(budget: string, retryAfter: string | null | undefined, reason = ''): Throttled {
    return new Throttled(budget, Math.max(retryAfterHeader(retryAfter?.trim() ?? null) ?? THROTTLED_MS, SHORTEST_THROTTLED_MS), reason);
  }
}

/**
 * Thrown by a handler: the job waits for any of some signals, at most 16, for so many milliseconds at most. Without signals it sleeps.
 * It uses up no attempt, and takes no slot meanwhile. When a signal comes, or the time is up, the handler is called again, from the
 * beginning: job.received(name) and job.woken_by say what has come, and job.restore() gives the last checkpoint, which is sent with the
 * wait, as the jobs of follow and the signals of thenSignal are.
 */
export class Wait extends ForgeQueueError {
  readonly timeoutMs: number;
  readonly signals: readonly string[];
  readonly mode: 'any' | 'all' = 'any';
  constructor(timeoutMs: number, ...signals: string[]) {
    super(signals.length === 0 ? `sleeps for ${timeoutMs} ms` : `waits for ${signals.join(', ')}, at most ${timeoutMs} ms`);
    this.timeoutMs = clamp(timeoutMs, MAX_DELAY_MS);
    this.signals = signals;
  }

  /** One for all of the signals. */
  static all(timeoutMs: number, ...signals: string[]): Wait {
    return Object.assign(new Wait(timeoutMs, ...signals), { mode: 'all' });
  }
}

/** A claimed job as the server sends it. */
export interface ClaimedJob<Payload = unknown> {
  id: string;
  tenant: string;
  user: string | null;
  type: string;
  queue: string;
  payload: Payload;
  checkpoint: unknown;
  payloadJson: string;
  checkpointJson: string;
  priority: number;
  attempt: number;
  max_attempts: number;
  epoch: number;
  lease_token: string;
  lease_expires_at: string;
  lease_ms: number;
  deadline: string | null;
  timeout_ms: number | null;
  tags: string[];
  metadata: Record<string, string>;
  correlation_id: string | null;
  traceparent: string | null;
  created_at: string;
  workflow: { id: string; ref: string } | null;
  parents: { ref: string | null; job_id: string; state: State }[];
  signals: Signal[];
  /** What has ended the job's last wait; null if it has not waited. */
  woken_by: 'signal' | 'timeout' | null;
}

/** One attempt at a job, as its handler sees it. */
export interface RunningJob<Payload = unknown> extends Omit<ClaimedJob<Payload>, 'checkpoint' | 'checkpointJson' | 'lease_token' | 'lease_expires_at' | 'lease_ms'> {
  /** The payload as the server sent it: its numbers are not rounded. */
  readonly payloadJson: string;
  /** Aborts when the handler should stop, and never after it has returned; its reason is LeaseLost, CancelRequested, TimedOut or Stopping. */
  readonly signal: AbortSignal;
  /** Says how far the attempt is: 0 to 100 percent, null if that is not known. Call it as often as you like: the newest is sent, at most once a second. */
  progress(percent: number | null, message?: string): void;
  /**
   * Keeps a value, as JSON of at most 64 KiB, for the attempts after this one. It is sent within about a second, and before the
   * attempt ends otherwise than completed. Throws if the value cannot be kept.
   */
  checkpoint(value: unknown): void;
  /**
   * Says what the attempt has used of a budget, in all: a whole number from 0. A later call for the same budget replaces it. It is sent
   * with the outcome, whatever that is. Throws if the amount or the budget's name cannot be sent.
   */
  used(budget: string, amount: number): void;
  /**
   * Has jobs submitted when this one is completed or waits: in the same transaction, so each is there exactly once if the outcome is accepted,
   * and not at all otherwise. At most 100 of an attempt; the key needs the scope submit. If one is refused as wrong, the attempt fails
   * permanently with an error of type "submit". While a limit refuses them (429), the attempt stays, and is sent again. Throws if a job
   * cannot be written as JSON. The clients for Go and Python call it then: an object with a method of that name would be a thenable,
   * and an await of the job, or a handler that returns it, would call the method.
   */
  follow(...jobs: SubmitRequest[]): void;
  /**
   * Has a signal of another job sent when this one is completed or waits: in the same transaction, as the jobs of follow are. At most 16
   * of an attempt; the key needs the scope submit. If it is refused, as that of a job that has ended is, the attempt fails permanently
   * with an error of type "signal". Throws if the data cannot be sent.
   */
  thenSignal(id: string, name: string, data?: unknown): void;
  /**
   * Writes to the job's output, to the stream out if none is named: others read it while the job runs. It does not wait for the
   * server, and does not fail: what is written is sent in the background within about a quarter of a second, and the rest before the
   * outcome. What is not sent in time is dropped beyond 256 KiB, the oldest first, with a note.
   */
  write(content: string, stream?: Stream): void;
  /** Writes a line to the job's output, to the stream log. */
  log(line: string): void;
  /** The signal of a name; undefined if the job has none. */
  received<Data = unknown>(name: string): Signal<Data> | undefined;
  /** The last checkpoint of an earlier attempt; undefined if there is none. */
  restore<Value = unknown>(): Value | undefined;
  /** The same as JSON, as the server sent it. */
  restoreJson(): string | undefined;
}

export type Handler<Payload = any, Result = unknown> = (job: RunningJob<Payload>) => Promise<Result> | Result;

export interface HandlerOptions {
  /** Limits an attempt, in addition to the job's own timeout_ms. */
  timeoutMs?: number;
  /** The wait before the next attempt, in milliseconds; undefined leaves it to the server. */
  retry?: (attempt: number, error: unknown) => number | undefined;
}

export interface WorkerOptions {
  client: Client;
  /** "default" if absent. */
  queues?: string[];
  /** What the worker can do: it gets jobs whose tags are all among them. */
  tags?: string[];
  /** How many handlers run at once; 10. */
  concurrency?: number;
  /** 1 to 128 printable ASCII characters, different in each process; made of host, pid and random characters if absent. */
  workerId?: string;
  metadata?: Record<string, string>;
  /** How long a claim waits for a job, at most 25000; 20000. */
  waitMs?: number;
  /** How long running handlers may go on once the worker stops; 20000. */
  graceMs?: number;
  /** For how long a job is put back whose type has no handler here; 30000. */
  unknownTypeDelayMs?: number;
  /** Writes to standard error if absent. */
  logger?: Logger;
}

/** After a stop: how long handlers have to return once their signals have aborted; then, how long outcomes are sent; then, how long the worker deregisters. */
const PATIENCE_MS = 2000;
const LAST_WORD_MS = 5000;
const GOODBYE_MS = 2000;
/** The longest time between two heartbeats, and the shortest length of a lease that is used. */
const LONGEST_BEAT_MS = 10_000;
const SHORTEST_LEASE_MS = 1000;
const REPORT_EVERY_MS = 1000;
const REPORT_BYTES = 4 << 20;
const OUTCOME_TRY_MS = 15_000;
/**
 * For how long output is gathered, where no chunk is full; how many bytes of it an attempt keeps until they are sent, and what a piece
 * counts at least; how long a request with it may take, how long the wait after one that failed, and how long the rest before the outcome.
 */
const OUTPUT_EVERY_MS = 250;
const OUTPUT_UNSENT = 256 << 10;
const OUTPUT_PIECE = 64;
const OUTPUT_TRY_MS = 30_000;
const OUTPUT_RETRY_MS = 2000;
const LAST_OUTPUT_MS = 3000;
/** What a batch of outcomes has at most in bytes, what of it an outcome has beside its body, and how often a batch that fails as a whole is divided to find the outcome that is at fault. */
const OUTCOME_BYTES = MAX_BATCH_BODY - (64 << 10);
const OUTCOME_FRAME = 512;
const MAX_OUTCOMES = 1000;
const MAX_HALVINGS = 32;
const MAX_CLAIM = 1000;
/**
 * While handlers take less than QUICK_MS on average, jobs are claimed ahead of them: what the slots do in AHEAD_WORK_MS. What gets
 * no slot within LONGEST_AHEAD_MS is released, for a worker that has one: no job waits behind a slow handler for longer than QUICK_MS.
 */
const QUICK_MS = 100;
const AHEAD_WORK_MS = QUICK_MS / 2;
const AHEAD_PER_SLOT = 10;
const LONGEST_AHEAD_MS = QUICK_MS * 0.8;
/** The parts of the mean duration that one handler replaces: what takes longer is learned at once, what takes less slowly. */
const RISING = 0.5;
const FALLING = 0.1;
/** How long the process may go on after runUntilSignal if a handler has not returned. */
const EXIT_MS = 1000;

type Outcome = { kind: 'complete' | 'fail' | 'snooze' | 'wait' | 'release' | ''; body: Record<string, unknown>; error?: unknown };

/** What an attempt has written and the server does not have yet. */
class Unsent {
  readonly #client: Client;
  readonly #job: ClaimedJob;
  readonly #logger: Logger;
  #pieces: { stream: Stream; content: string; size: number }[] = [];
  #size = 0;
  #dropped = 0;
  #seq = 0;
  #over = false;
  /** What sends, while there is something to send. */
  #sending: Promise<void> | undefined;
  #hurry = new Wakeup();
  readonly #stop = new AbortController();

  constructor(client: Client, job: ClaimedJob, logger: Logger) {
    this.#client = client;
    this.#job = job;
    this.#logger = logger;
  }

  write(content: string, stream: Stream): void {
    if (!['out', 'err', 'log'].includes(stream)) throw new ForgeQueueError(`${JSON.stringify(stream)} is no stream: out, err or log`);
    if (this.#over || content === '') return;
    for (const part of chunked(wellFormed(content).replaceAll('\0', '\uFFFD'))) {
      const size = bytes(part);
      const last = this.#pieces.at(-1);
      if (last?.stream === stream && last.size + size <= MAX_OUTPUT_CHUNK) {
        this.#size += Math.max(last.size + size, OUTPUT_PIECE) - Math.max(last.size, OUTPUT_PIECE);
        last.content += part;
        last.size += size;
      } else {
        this.#pieces.push({ stream, content: part, size });
        this.#size += Math.max(size, OUTPUT_PIECE);
      }
      while (this.#size > OUTPUT_UNSENT && this.#pieces.length > 1) {
        const gone = this.#pieces.shift()?.size ?? 0;
        this.#size -= Math.max(gone, OUTPUT_PIECE);
        this.#dropped += gone;
      }
    }
    if (this.#size >= MAX_OUTPUT_CHUNK) this.#hurry.set();
    this.#sending ??= this.#send();
  }

  /** Takes no more, and resolves when the rest is sent, or cannot be sent in time. */
  async end(withinMs: number): Promise<void> {
    this.#over = true;
    if (this.#sending === undefined) return;
    this.#hurry.set();
    const timer = setTimeout(() => this.#stop.abort(), withinMs);
    await this.#sending;
    clearTimeout(timer);
  }

  /** Sends what there is until nothing is left. One request is under way at a time. */
  async #send(): Promise<void> {
    for (;;) {
      await this.#hurry.wait(OUTPUT_EVERY_MS);
      const chunks = this.#take();
      if (chunks.length === 0) break;
      if (!await this.#deliver(chunks)) {
        this.#over = true;
        this.#pieces = [];
        this.#size = this.#dropped = 0;
      }
    }
    this.#sending = undefined;
  }

  #take(): { seq: number; stream: Stream; text: string }[] {
    const chunks: { seq: number; stream: Stream; text: string }[] = [];
    if (this.#dropped > 0) chunks.push({ seq: ++this.#seq, stream: 'log', text: `\n[... ${this.#dropped} bytes of output could not be sent in time ...]\n` });
    this.#dropped = 0;
    for (const { stream, content, size } of this.#pieces.splice(0, MAX_OUTPUT_CHUNKS - chunks.length)) {
      this.#size -= Math.max(size, OUTPUT_PIECE);
      chunks.push({ seq: ++this.#seq, stream, text: content });
    }
    if (this.#over || this.#size >= MAX_OUTPUT_CHUNK) this.#hurry.set();
    return chunks;
  }

  /** Sends chunks until the server has them; a number that it has is left out there. False where it never will. */
  async #deliver(chunks: { seq: number; stream: Stream; text: string }[]): Promise<boolean> {
    const { id, lease_token } = this.#job;
    for (let failures = 0; ; failures++) {
      try {
        await this.#client.call({ method: 'POST', path: ['v1', 'jobs', id, 'output'], body: { lease_token, chunks } }, { signal: this.#stop.signal, timeoutMs: OUTPUT_TRY_MS });
        return true;
      } catch (error) {
        const last = this.#stop.signal.aborted || final(statusOf(error)) || statusOf(error) === 0 && !(error instanceof NoAnswerError || error instanceof DeadlineError);
        if (last || failures === 0) this.#logger('warn', last ? 'output could not be sent; the rest of it is dropped' : 'output could not be sent', { job_id: id, error: text(error) });
        if (last) return false;
        await sleep(retryWait(failures, OUTPUT_RETRY_MS, error), this.#stop.signal).catch(() => {});
      }
    }
  }
}

/** A text in parts of at most 16 KiB; no character is split. */
function* chunked(content: string): Generator<string, void, undefined> {
  const most = MAX_OUTPUT_CHUNK / 4; // a character has four bytes at most
  for (let start = 0, end = 0; start < content.length; start = end) {
    end = Math.min(start + most, content.length);
    if (end < content.length && /[\uD800-\uDBFF]/.test(content.charAt(end - 1))) end--;
    yield content.slice(start, end);
  }
}

/** One claimed job while it is this worker's. */
class Lease {
  readonly job: ClaimedJob;
  readonly output: Unsent;
  readonly controller = new AbortController();
  /** Ends the calls that send the outcome. One signal for all leases would have too many listeners. */
  readonly sending = new AbortController();
  #returned = false;
  readonly came = now();
  /** The lease lasts for length after renewed. */
  renewed = this.came;
  length: number;
  progress: Progress | null = null;
  checkpoint: string | null = null; // JSON
  /** What the attempt has used of budgets, as far as the handler has said so. */
  readonly used = new Map<string, number>();
  /** The jobs that are submitted with the result or wait, and the signals of other jobs that are sent with it. */
  readonly following: SubmitRequest[] = [];
  readonly signalling: { job_id: string; name: string; data?: unknown }[] = [];
  /** Counts reports: what comes while one is sent stays. */
  added = 0;
  nextReport = 0;

  constructor(job: ClaimedJob, client: Client, logger: Logger) {
    this.job = job;
    this.output = new Unsent(client, job, logger);
    this.length = Math.max(job.lease_ms, SHORTEST_LEASE_MS);
  }

  /** Tells the handler to stop, unless it has returned: a heartbeat that was under way meanwhile reports its lease as lost. */
  tell(reason: Error): void {
    if (!this.#returned) this.controller.abort(reason);
  }

  returned(): void { this.#returned = true; }

  get reporting(): boolean { return this.progress !== null || this.checkpoint !== null; }
  /** When the lease is assumed to expire. */
  get end(): number { return this.renewed + this.length; }
  /** An expired lease is its holder's until the server takes it back: an outcome can be accepted until then. */
  get certainEnd(): number { return this.renewed + 2 * this.length; }
}

/**
 * Says how many jobs a worker may claim, and which of them have a slot: until the handler returns, not until the outcome is sent.
 */
class Room {
  readonly #slots: number;
  /** The leases that have a slot, by when they got it. */
  readonly #running = new Map<Lease, number>();
  /** The leases that have none yet, the first to come in front, and what says that they have one. */
  readonly #waiting = new Map<Lease, (starts: boolean) => void>();
  /** How long handlers took lately; 0 until one has returned. */
  #mean = 0;
  #stopped = false;
  /** Whether the last claim got all that it asked for. Otherwise other workers may be idle. */
  backlog = false;

  constructor(slots: number) { this.#slots = slots; }

  /** How many jobs may be claimed now by a worker that has so many whose outcomes are not answered. */
  most(open: number): number {
    const free = this.#slots - this.#running.size;
    const ahead = this.#ahead();
    if (free <= 0 && this.#waiting.size > Math.floor(ahead / 2)) return 0; // there is enough to start; the next claim asks for more at once
    return Math.max(Math.min(free + ahead - this.#waiting.size, this.#slots + 2 * ahead - open, MAX_CLAIM), 0);
  }

  /** How many jobs may wait for a slot. */
  #ahead(): number {
    if (!this.backlog || this.#mean === 0 || this.#mean >= QUICK_MS) return 0;
    const present = now();
    let quick = this.#slots;
    for (const since of this.#running.values()) if (present - since >= QUICK_MS) quick--;
    return Math.floor(quick * Math.min(AHEAD_WORK_MS / this.#mean, AHEAD_PER_SLOT));
  }

  /** True once a job has its slot, false if it gets none: then it is to be released. */
  async enter(lease: Lease): Promise<boolean> {
    const { signal } = lease.controller;
    if (this.#stopped || signal.aborted) return false;
    if (this.#running.size < this.#slots) {
      this.#running.set(lease, now());
      return true;
    }
    return new Promise<boolean>((resolve) => {
      const settle = (starts: boolean) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', leave);
        this.#waiting.delete(lease);
        resolve(starts);
      };
      const leave = () => settle(false);
      const timer = setTimeout(() => {
        this.#mean = Math.max(this.#mean, QUICK_MS); // handlers take longer than they did
        leave();
      }, Math.min(LONGEST_AHEAD_MS, (lease.job.timeout_ms ?? Infinity) / 10)); // timeout_ms counts from the claim
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.set(lease, settle);
    });
  }

  /** Gives back the slot of a handler that has returned, to the next one. */
  leave(lease: Lease): void {
    const took = Math.max(now() - (this.#running.get(lease) ?? 0), 0.001);
    this.#mean += (this.#mean === 0 ? 1 : took > this.#mean ? RISING : FALLING) * (took - this.#mean);
    this.#running.delete(lease);
    for (const [next, settle] of this.#waiting) {
      this.#running.set(next, now());
      settle(true);
      break;
    }
  }

  /** Lets no more jobs start. */
  stop(): void {
    this.#stopped = true;
    for (const settle of [...this.#waiting.values()]) settle(false);
  }
}

/** Whether jobs are submitted with the outcome. */
const submits = (one: Sending): boolean => one.body['submit'] !== undefined;

interface Sending {
  lease: Lease;
  kind: string;
  body: Record<string, unknown>;
  /** In bytes, at least. */
  size: number;
  /** Without an error the server has taken the outcome. */
  answered(error?: unknown): void;
}

/** Sends outcomes. One request is under way at a time, and what comes during it forms the next one. */
class Outbox {
  readonly #client: Client;
  readonly #signal: AbortSignal;
  #waiting: Sending[] = [];
  #busy = false;

  constructor(client: Client, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
  }

  /** Resolves when the server has taken the outcome; otherwise throws why it has not. */
  send(lease: Lease, kind: string, body: Record<string, unknown>): Promise<void> {
    return new Promise((resolve, reject) => {
      const answered = (error?: unknown) => (error === undefined ? resolve() : reject(error));
      this.#waiting.push({ lease, kind, body, size: OUTCOME_FRAME + bytes(encode(body)), answered });
      if (!this.#busy) void this.#flushAll();
    });
  }

  async #flushAll(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) {
      let count = 0;
      let size = 0;
      for (const one of this.#waiting) {
        size += one.size;
        if (count === MAX_OUTCOMES || (count > 0 && size > OUTCOME_BYTES)) break;
        count++;
      }
      await this.#flush(this.#waiting.splice(0, count));
    }
    this.#busy = false;
  }

  /** Sends outcomes in one request. One that is refused as a whole, perhaps because of one of them, is halved to find it. */
  async #flush(batch: Sending[]): Promise<void> {
    const parts = [batch];
    let halvings = 0;
    for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
      try {
        const errors = await this.#post(part);
        part.forEach((one, i) => one.answered(errors[i]));
      } catch (error) {
        const status = statusOf(error);
        if (status === 429 && part.some(submits)) { // submits are limited, other outcomes do not wait for them
          const plain = part.filter((one) => !submits(one));
          if (plain.length > 0) parts.push(plain);
          for (const one of part) if (submits(one)) one.answered(error);
          continue;
        }
        const whole = part.length > 1 && (status === 500 || (final(status) && !keyRefused(error)));
        if (whole && halvings < MAX_HALVINGS) {
          halvings++;
          const half = Math.ceil(part.length / 2);
          parts.push(part.slice(half), part.slice(0, half));
          continue;
        }
        if (!final(status) && status !== 500) part.push(...parts.splice(0).flat()); // the server cannot be reached, or is overloaded
        // What may be due to another one is no refusal of these: they are sent again.
        for (const one of part) one.answered(whole ? new NoAnswerError(text(error), { cause: error }) : error);
      }
    }
  }

  /** Makes one request, and gives the error of each outcome, if any. One alone has a route of its own, where a result may be nested deeper. */
  async #post(batch: Sending[]): Promise<unknown[]> {
    const options = { signal: this.#signal, timeoutMs: OUTCOME_TRY_MS };
    const repeatable = !batch.some(submits); // a call that waits for a limit on submits delays all outcomes; the worker sends them again
    const [one] = batch;
    if (batch.length === 1 && one !== undefined) {
      const { job } = one.lease;
      await this.#client.call({
        method: 'POST', path: ['v1', 'jobs', job.id, one.kind], repeatable, body: { lease_token: job.lease_token, ...one.body },
        headers: { 'X-Correlation-Id': sendable(job.correlation_id ?? undefined), Traceparent: sendable(job.traceparent ?? undefined) },
      }, options);
      return [];
    }
    const outcomes = batch.map(({ lease: { job }, kind, body }) => ({ job_id: job.id, kind, lease_token: job.lease_token, ...body }));
    const { results } = await this.#client.call<{ results: { index: number; status: number; problem: ProblemDocument | null }[] }>({
      method: 'POST', path: ['v1', 'outcomes'], repeatable, body: { outcomes },
    }, options);
    const errors: unknown[] = batch.map(() => new NoAnswerError('the answer does not tell of this outcome'));
    for (const { index, status, problem } of results) {
      if (problem !== null) errors[index] = new Problem('POST /v1/outcomes', { ...problem, status });
      else if (status >= 200 && status <= 299) errors[index] = undefined;
    }
    return errors;
  }
}

/**
 * Claims jobs and runs their handlers. While there is a backlog and handlers take less than 100 ms on average, it claims what its
 * slots will do in the next 50 ms, ten jobs a slot at most. One that gets no slot within 80 ms is released, which spends no attempt.
 * Outcomes share requests.
 */
export class Worker {
  readonly id: string;
  readonly #client: Client;
  readonly #queues: string[];
  readonly #tags: string[];
  readonly #concurrency: number;
  readonly #metadata: Record<string, string> | undefined;
  readonly #waitMs: number;
  readonly #graceMs: number;
  readonly #unknownTypeDelayMs: number;
  readonly #logger: Logger;
  readonly #handlers = new Map<string, { run: Handler; options: HandlerOptions }>();
  #any: { run: Handler; options: HandlerOptions } | undefined;

  readonly #held = new Map<string, Lease>(); // by lease token
  readonly #attempts = new Set<Promise<void>>();
  readonly #room: Room;
  readonly #outbox: Outbox;
  #state: 'new' | 'running' | 'ended' = 'new';
  #wake = new Wakeup();
  /** A handler has returned, or an outcome was answered. */
  #changed = new Wakeup();
  /** Lets go of handlers that do not return. */
  readonly #abandon = new Set<() => void>();
  /** Ends what is still being sent. */
  readonly #over = new AbortController();
  /** All leases whose attempts are under way: those that are lost too. */
  readonly #open = new Set<Lease>();
  /** How many handlers were abandoned and have not returned. */
  #deaf = 0;

  constructor(options: WorkerOptions) {
    const { concurrency = 10, waitMs = 20_000, graceMs = 20_000 } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) throw new ForgeQueueError('concurrency has to be a whole number from 1');
    if (!(waitMs >= 0 && waitMs <= 25_000)) throw new ForgeQueueError('waitMs has to be 0 to 25000');
    this.#client = options.client;
    this.id = options.workerId ?? `${(nodeProcess()?.env['HOSTNAME'] ?? 'js').replace(/[^!-~]/g, '-').slice(0, 64)}-${nodeProcess()?.pid ?? 0}-${randomKey().slice(0, 8)}`;
    this.#queues = options.queues?.length ? [...options.queues] : ['default'];
    this.#tags = [...options.tags ?? []];
    this.#concurrency = concurrency;
    this.#room = new Room(concurrency);
    this.#outbox = new Outbox(options.client, this.#over.signal);
    this.#metadata = options.metadata;
    this.#waitMs = Math.round(waitMs);
    this.#graceMs = graceMs;
    this.#unknownTypeDelayMs = clamp(options.unknownTypeDelayMs ?? 30_000, MAX_DELAY_MS);
    const logger = options.logger ?? log;
    this.#logger = (...line) => {
      try {
        logger(...line);
      } catch { /* must not end the worker */ }
    };
  }

  /** Sets the handler of the jobs of a type. Call it before run, once for each type. */
  handle<Payload = any, Result = unknown>(type: string, handler: Handler<Payload, Result>, options: HandlerOptions = {}): this {
    if (!NAME.test(type)) throw new ForgeQueueError(`${JSON.stringify(type)} cannot be the type of a job`);
    if (this.#state !== 'new') throw new ForgeQueueError(`the handler for ${JSON.stringify(type)} came after run`);
    if (this.#handlers.has(type)) throw new ForgeQueueError(`${JSON.stringify(type)} has two handlers`);
    this.#handlers.set(type, { run: handler, options });
    return this;
  }

  /** Sets the handler of the jobs of all other types. The worker then claims all types. */
  handleAny(handler: Handler, options: HandlerOptions = {}): this {
    if (this.#state !== 'new') throw new ForgeQueueError('the handler of all types came after run');
    this.#any = { run: handler, options };
    return this;
  }

  /**
   * Registers the worker, then claims and runs jobs until the signal aborts. It then claims no more, lets handlers go on for
   * graceMs, aborts their signals, releases the jobs that are left, and deregisters. A key that is refused (401, 403) ends run
   * in the same way, and throws. All other failures are retried.
   */
  async run(options: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#state !== 'new') throw new ForgeQueueError('run was called before');
    if (this.#handlers.size === 0 && this.#any === undefined) throw new ForgeQueueError('there is no handler: set one with handle');
    this.#state = 'running';
    const stop = options.signal ?? new AbortController().signal;
    let refused: unknown;
    let beating: Promise<void> | undefined;
    try {
      await this.#register(stop);
      this.#logger('info', 'worker started', { worker_id: this.id, queues: this.#queues, concurrency: this.#concurrency });
      beating = this.#heartbeats();
      await this.#claims(stop);
    } catch (error) {
      if (!stop.aborted) refused = error;
    }
    this.#logger('info', 'worker stopping', { worker_id: this.id, leases: this.#held.size, ...(refused === undefined ? {} : { error: text(refused) }) });
    await this.#drain();
    this.#state = 'ended';
    this.#wake.set();
    this.#endCalls();
    await beating;
    if (refused === undefined) await this.#leave();
    this.#logger('info', 'worker stopped', { worker_id: this.id });
    if (refused !== undefined) throw refused;
  }

  /**
   * Runs until SIGTERM or SIGINT. A second signal ends the process at once. If a handler has not returned although its signal has
   * aborted, the process is ended a second after this returns: nothing else can end the handler.
   */
  async runUntilSignal(signals: string[] = ['SIGTERM', 'SIGINT']): Promise<void> {
    const node = nodeProcess();
    if (node === undefined) throw new ForgeQueueError('there are no signals here: use run');
    const controller = new AbortController();
    const stop = () => {
      for (const signal of signals) node.off(signal, stop);
      controller.abort(new Stopping());
    };
    for (const signal of signals) node.on(signal, stop);
    try {
      await this.run({ signal: controller.signal });
    } finally {
      for (const signal of signals) node.off(signal, stop);
      if (this.#deaf > 0) {
        this.#logger('warn', 'the process ends: handlers did not return', { worker_id: this.id, handlers: this.#deaf, exit_ms: EXIT_MS });
        const timer: unknown = setTimeout(() => { if (this.#deaf > 0) node.exit(); }, EXIT_MS);
        (timer as { unref?: () => void }).unref?.();
      }
    }
  }

  #endCalls(): void {
    this.#over.abort(new Stopping());
    for (const lease of this.#open) lease.sending.abort(new Stopping());
  }

  #types(): string[] | undefined {
    return this.#any !== undefined || this.#handlers.size > MAX_TYPES ? undefined : [...this.#handlers.keys()];
  }

  async #registerOnce(options: CallOptions): Promise<void> {
    await this.#client.call({
      method: 'POST', path: ['v1', 'workers'], repeatable: true,
      body: { worker_id: this.id, queues: this.#queues, types: this.#types(), tags: this.#tags, concurrency: this.#concurrency, metadata: this.#metadata },
    }, options);
  }

  async #register(stop: AbortSignal): Promise<void> {
    for (let failures = 0; ; failures++) {
      try {
        return await this.#registerOnce({ signal: stop });
      } catch (error) {
        if (stop.aborted || keyRefused(error)) throw error;
        this.#logger('warn', 'register failed', { worker_id: this.id, error: text(error), failures: failures + 1 });
        await sleep(retryWait(failures, 10_000, error), stop);
      }
    }
  }

  async #claims(stop: AbortSignal): Promise<void> {
    let failures = 0;
    let hasty = 0;
    while (!stop.aborted) {
      const most = this.#room.most(this.#open.size);
      if (most === 0) {
        await this.#changed.wait(undefined, stop);
        continue;
      }
      const asked = now();
      try {
        // Ending the call closes the connection: the server then takes back the jobs that it was about to send.
        const { body: { jobs }, json } = await this.#client.callWithJson<{ jobs: ClaimedJob[] }>({
          method: 'POST', path: ['v1', 'claims'], heldMs: this.#waitMs,
          body: { worker_id: this.id, queues: this.#queues, types: this.#types(), tags: this.#tags, max: most, wait_ms: this.#waitMs },
        }, { signal: stop });
        failures = 0;
        this.#room.backlog = jobs.length >= most;
        const texts = jobs.length > 0 ? [...valuesOf(valuesOf(json).get('jobs') ?? '[]').values()].map(valuesOf) : [];
        jobs.forEach((job, i) => {
          const payloadJson = texts[i]?.get('payload') ?? 'null';
          this.#begin({ ...job, payloadJson, checkpointJson: texts[i]?.get('checkpoint') ?? 'null' }, stop.aborted || i >= most);
        });
        // An empty answer for which the server did not wait is followed by a pause.
        if (jobs.length > 0 || now() - asked >= Math.min(100, this.#waitMs / 2)) hasty = 0;
        else await sleep(backoff(hasty++, 100, 10_000), stop);
      } catch (error) {
        if (stop.aborted || keyRefused(error)) throw error;
        this.#room.backlog = false;
        this.#logger('warn', 'claim failed', { worker_id: this.id, error: text(error), failures: failures + 1 });
        await sleep(retryWait(failures++, 10_000, error), stop);
      }
    }
  }

  #begin(job: ClaimedJob, giveBack: boolean): void {
    const lease = new Lease(job, this.#client, this.#logger);
    this.#held.set(job.lease_token, lease);
    this.#open.add(lease);
    this.#wake.set();
    const attempt = this.#attempt(lease, giveBack).finally(() => {
      this.#held.delete(job.lease_token);
      this.#open.delete(lease);
      this.#attempts.delete(attempt);
      this.#changed.set();
    });
    this.#attempts.add(attempt);
  }

  async #attempt(lease: Lease, giveBack: boolean): Promise<void> {
    let begun = now();
    const { job } = lease;
    let outcome: Outcome = { kind: 'release', body: {} };
    if (!giveBack && await this.#room.enter(lease)) {
      begun = now();
      outcome = await this.#execute(lease);
      this.#room.leave(lease);
      this.#changed.set();
    } else if (lease.controller.signal.reason instanceof LeaseLost) {
      outcome = { kind: '', body: {}, error: lease.controller.signal.reason };
    }
    const duration_ms = Math.round(now() - begun);
    await lease.output.end(outcome.kind === '' ? 0 : LAST_OUTPUT_MS);
    await this.#reportLast(lease, outcome);
    const { word, error } = await this.#send(lease, outcome);
    const failed = word === 'failed' || word === 'lost' || word === 'unsent';
    this.#logger(failed ? 'warn' : 'info', 'attempt', {
      worker_id: this.id, job_id: job.id, type: job.type, queue: job.queue, attempt: job.attempt, outcome: word, duration_ms,
      ...(error === undefined ? {} : { error: text(error) }),
    });
  }

  /** Runs the handler, and decides the outcome. */
  async #execute(lease: Lease): Promise<Outcome> {
    const { job, controller } = lease;
    const handler = this.#handlers.get(job.type) ?? this.#any;
    if (handler === undefined) {
      return { kind: 'snooze', body: { delay_ms: this.#unknownTypeDelayMs, error: { type: 'no_handler', message: `worker ${this.id} has no handler for type ${JSON.stringify(job.type)}` } } };
    }
    const limit = Math.min((job.timeout_ms ?? Infinity) - (now() - lease.came), handler.options.timeoutMs ?? Infinity); // timeout_ms counts from the claim
    const timer = limit === Infinity ? undefined : setTimeout(() => lease.tell(new TimedOut()), Math.min(limit, 2 ** 31 - 1));
    let abandon: () => void = () => {};
    try {
      const result = await new Promise<unknown>((resolve, reject) => {
        let abandoned = false;
        abandon = () => {
          abandoned = true;
          this.#deaf++;
          reject(new ForgeQueueError('the handler did not return after its signal had aborted'));
        };
        this.#abandon.add(abandon);
        (async () => handler.run(this.#runningJob(lease)))().finally(() => {
          lease.returned();
          if (abandoned) this.#deaf--;
        }).then(resolve, reject); // after abandon neither has an effect
      });
      const encoded = encodeResult(result);
      if (bytes(encoded) > MAX_RESULT) throw new Permanent(named('result', `the result has ${bytes(encoded)} bytes, and ${MAX_RESULT} are allowed`));
      return { kind: 'complete', body: { result: result === undefined ? null : result } };
    } catch (error) {
      return decide(error, controller.signal.reason, job, handler.options);
    } finally {
      clearTimeout(timer);
      this.#abandon.delete(abandon);
    }
  }

  #runningJob(lease: Lease): RunningJob {
    const { checkpoint, checkpointJson, lease_token: _token, lease_expires_at: _expires, lease_ms: _length, ...job } = lease.job;
    const add = (report: () => void) => {
      const first = !lease.reporting;
      report();
      lease.added++;
      if (first) this.#wake.set();
    };
    return {
      ...job,
      signal: lease.controller.signal,
      progress: (percent, message = '') => {
        const known = typeof percent === 'number' && percent >= 0;
        add(() => { lease.progress = { percent: known ? Math.min(percent, 100) : null, message: message === '' ? null : [...wellFormed(message)].slice(0, 256).join('') }; });
      },
      checkpoint: (value) => {
        const encoded = encode(value);
        if (encoded === 'null') throw new ForgeQueueError('the checkpoint is null, which would leave the one before; use an empty value of your own');
        if (bytes(encoded) > MAX_CHECKPOINT) throw new ForgeQueueError(`the checkpoint has ${bytes(encoded)} bytes as JSON, and may have ${MAX_CHECKPOINT}`);
        add(() => { lease.checkpoint = encoded; });
      },
      used: (budget, amount) => {
        if (!NAME.test(budget)) throw new ForgeQueueError(`${JSON.stringify(budget)} cannot be the name of a budget`);
        if (!Number.isInteger(amount) || amount < 0 || amount > MAX_AMOUNT) {
          throw new ForgeQueueError(`what was used of budget ${budget} has to be a whole number from 0 to 2^50, and is ${String(amount)}`);
        }
        if (lease.used.size >= MAX_COSTS && !lease.used.has(budget)) throw new ForgeQueueError(`an attempt can say of at most ${MAX_COSTS} budgets what it has used`);
        lease.used.set(budget, amount);
      },
      signals: job.signals ?? [], // an older server sends neither
      woken_by: job.woken_by ?? null,
      write: (content, stream = 'out') => lease.output.write(String(content), stream),
      log: (line) => lease.output.write(String(line).endsWith('\n') ? String(line) : `${line}\n`, 'log'),
      received: <Data>(name: string) => (job.signals ?? []).find((one) => one.name === name) as Signal<Data> | undefined,
      thenSignal: (id, name, data = null) => {
        const encoded = encode(data);
        if (bytes(encoded) > MAX_SIGNAL_DATA) throw new ForgeQueueError(`the data of signal ${JSON.stringify(name)} has ${bytes(encoded)} bytes as JSON, and may have ${MAX_SIGNAL_DATA}`);
        lease.signalling.push({ job_id: id, name, ...(encoded === 'null' ? {} : { data: JSON.parse(encoded) as unknown }) });
      },
      follow: (...jobs) => { lease.following.push(...jobs.map((job) => JSON.parse(encode(job)) as SubmitRequest)); }, // as they are now
      restore: <Value>() => (checkpoint ?? undefined) as Value | undefined,
      restoreJson: () => checkpointJson === 'null' ? undefined : checkpointJson,
    };
  }

  /** Sends the outcome until the server has answered it, or its lease has certainly ended. */
  async #send(lease: Lease, outcome: Outcome): Promise<{ word: string; error?: unknown }> {
    if (outcome.kind === '') return { word: 'lost', error: outcome.error };
    const used = lease.used.size === 0 ? {} : { used: Object.fromEntries(lease.used) };
    let { kind, error: cause } = outcome;
    let body: Outcome['body'] = { ...outcome.body, ...used };
    if (kind === 'complete' || kind === 'wait') {
      if (lease.following.length > 0) body['submit'] = [...lease.following];
      if (lease.signalling.length > 0) body['signal'] = [...lease.signalling];
    }
    if (kind === 'wait' && lease.checkpoint !== null) body['checkpoint'] = JSON.parse(lease.checkpoint) as unknown;
    for (let failures = 0; ;) {
      try {
        await this.#outbox.send(lease, kind, body);
        return { word: { complete: 'completed', fail: 'failed', snooze: 'snoozed', wait: 'waiting', release: 'released' }[kind], error: cause };
      } catch (error) {
        const status = statusOf(error);
        const refused = kind === 'complete' || kind === 'wait' ? refusedPart(error, kind, body) : undefined;
        if (refused !== undefined) { // the attempt still has to end
          cause = refused;
          kind = 'fail';
          body = { error: jobError(cause), ...(status === 403 ? {} : { permanent: true }), ...used }; // a key can be given the scope that it lacks
          failures = 0;
          continue;
        }
        if (codeOf(error) === 'lease_lost') return { word: 'lost', error };
        if (final(status) || lease.sending.signal.aborted || now() > lease.certainEnd) return { word: 'unsent', error };
        const pause = retryWait(failures++, 5000, error);
        this.#logger('warn', 'an outcome was not taken', { worker_id: this.id, job_id: lease.job.id, error: text(error), failures, retry_ms: Math.round(pause) });
        try {
          await sleep(Math.min(pause, Math.max(lease.certainEnd - now(), 0) + 1), lease.sending.signal);
        } catch {
          return { word: 'unsent', error };
        }
      }
    }
  }

  // -- heartbeats

  /** Keeps all leases, and the worker itself, alive until the end. */
  async #heartbeats(): Promise<void> {
    let last = now();
    let failures = 0;
    let retry = 0;
    while (this.#state !== 'ended') {
      let whole = last + LONGEST_BEAT_MS;
      let report = Infinity;
      for (const lease of this.#held.values()) {
        whole = Math.min(whole, lease.renewed + Math.min(lease.length / 3, LONGEST_BEAT_MS));
        if (lease.reporting) report = Math.min(report, lease.nextReport);
      }
      const due = failures > 0 ? this.#nextEnd(retry) : Math.min(whole, report);
      if (due > now()) {
        if (await this.#wake.wait(due - now())) continue;
      }
      if (failures > 0) {
        this.#loseOverdue();
        if (now() < retry) continue; // it was the end of a lease that was due
      }
      const only = failures === 0 && now() < whole ? [...this.#held.values()].filter((lease) => lease.reporting && lease.nextReport <= now()) : undefined;
      if (only?.length === 0) continue; // its attempt has ended
      try {
        await this.#beat(only);
        last = now();
        failures = 0;
      } catch (error) {
        if (this.#over.signal.aborted) return;
        this.#logger('warn', 'heartbeat failed', { worker_id: this.id, error: text(error), failures: failures + 1 });
        this.#loseOverdue();
        retry = now() + Math.min(backoff(failures, 250, 5000), this.#shortest() / 6);
        failures++;
      }
    }
  }

  #shortest(): number {
    return Math.min(3 * LONGEST_BEAT_MS, ...[...this.#held.values()].map((lease) => lease.length));
  }

  /** When the next lease is assumed to expire, at most by; those that have expired do not count. */
  #nextEnd(by: number): number {
    return Math.min(by, ...[...this.#held.values()].map((lease) => lease.end).filter((end) => end > now()));
  }

  #loseOverdue(): void {
    for (const lease of this.#held.values()) if (now() >= lease.end) lease.tell(new LeaseLost());
  }

  /** One heartbeat for all leases, or for those that report. A worker that the server does not know registers again. */
  async #beat(only: Lease[] | undefined): Promise<void> {
    const end = this.#nextEnd(now() + Math.max(this.#shortest() / 3, SHORTEST_LEASE_MS));
    const options = () => ({ signal: this.#over.signal, timeoutMs: Math.max(end - now(), 0) });
    try {
      await this.#beatAll(only, options);
    } catch (error) {
      if (codeOf(error) !== 'worker_unknown') throw error;
      this.#logger('warn', 'the server does not know this worker; registering again', { worker_id: this.id });
      await this.#registerOnce(options());
      await this.#beatAll(undefined, options);
    }
  }

  async #beatAll(only: Lease[] | undefined, options: () => CallOptions): Promise<void> {
    const held = only ?? [...this.#held.values()];
    if (held.length === 0) {
      await this.#heartbeat([], options());
      return;
    }
    for (let i = 0; i < held.length; i += MAX_LEASES) await this.#beatFor(held.slice(i, i + MAX_LEASES), options);
  }

  /** Extends leases, and sends their reports. */
  async #beatFor(held: Lease[], options: () => CallOptions): Promise<void> {
    let size = 0;
    const taken = held.map((lease) => {
      if (size >= REPORT_BYTES) return undefined; // reports with the next one
      size += bytes(lease.checkpoint ?? '');
      lease.nextReport = now() + REPORT_EVERY_MS;
      return { added: lease.added, progress: lease.progress, checkpoint: lease.checkpoint };
    });
    const plain = held.map((lease) => ({ job_id: lease.job.id, lease_token: lease.job.lease_token }));
    const sent = () => held.forEach((lease, i) => { // what came meanwhile stays
      if (lease.added === taken[i]?.added) lease.progress = lease.checkpoint = null;
    });
    let answer: { leases: LeaseStatus[] };
    try {
      answer = await this.#heartbeat(plain.map((lease, i) => ({
        ...lease,
        ...(taken[i]?.progress ? { progress: taken[i]?.progress } : {}),
        ...(taken[i]?.checkpoint ? { checkpoint: JSON.parse(taken[i]?.checkpoint ?? 'null') as unknown } : {}),
      })), options());
      sent();
    } catch (error) {
      if (!unfit(statusOf(error)) || !taken.some((one) => one?.progress || one?.checkpoint)) throw error;
      // What one handler reports must not cost all leases.
      this.#logger('error', 'the server refused what handlers reported; it is dropped', { worker_id: this.id, error: text(error) });
      sent();
      answer = await this.#heartbeat(plain, options());
    }
    const renewed = now();
    held.forEach((lease, i) => {
      const status = answer.leases[i];
      if (status?.job_id !== lease.job.id) throw new ForgeQueueError('the answer to the heartbeat is not in the order sent');
      if (status.status === 'lost') {
        lease.tell(new LeaseLost());
        this.#held.delete(lease.job.lease_token); // its handler may go on for long; there is no lease to extend
        return;
      }
      if (status.status === 'cancel') lease.tell(new CancelRequested());
      lease.renewed = renewed;
      if (status.lease_ms !== null) lease.length = Math.max(status.lease_ms, SHORTEST_LEASE_MS);
    });
  }

  async #heartbeat(leases: unknown[], options: CallOptions): Promise<{ leases: LeaseStatus[] }> {
    return this.#client.call({ method: 'POST', path: ['v1', 'workers', this.id, 'heartbeat'], body: { leases }, repeatable: true }, options);
  }

  /** Sends the checkpoint of an attempt that ends, so that the next one gets it. */
  async #reportLast(lease: Lease, outcome: Outcome): Promise<void> {
    if (outcome.kind === '' || outcome.kind === 'complete' || outcome.kind === 'wait' || lease.checkpoint === null) return;
    const end = now() + 5000;
    try {
      await this.#beatFor([lease], () => ({ signal: lease.sending.signal, timeoutMs: Math.max(end - now(), 0) }));
    } catch (error) {
      this.#logger('warn', 'the last checkpoint could not be sent', { worker_id: this.id, job_id: lease.job.id, error: text(error) });
    }
  }

  // -- the end

  async #drain(): Promise<void> {
    this.#room.stop();
    if (await this.#attemptsEnd(this.#graceMs)) return;
    for (const lease of this.#held.values()) lease.tell(new Stopping());
    if (await this.#attemptsEnd(PATIENCE_MS)) return;
    for (const abandon of this.#abandon) abandon();
    if (await this.#attemptsEnd(LAST_WORD_MS)) return;
    this.#endCalls();
    await Promise.all(this.#attempts);
  }

  async #attemptsEnd(within: number): Promise<boolean> {
    const end = now() + Math.max(within, 0);
    while (this.#attempts.size > 0) {
      if (now() >= end || !await this.#changed.wait(end - now())) return this.#attempts.size === 0;
    }
    return true;
  }

  /** Deregisters: the worker is no longer listed, and what it still holds is returned. */
  async #leave(): Promise<void> {
    try {
      await this.#client.call({ method: 'DELETE', path: ['v1', 'workers', this.id], repeatable: true }, { timeoutMs: GOODBYE_MS });
    } catch (error) {
      this.#logger('warn', 'deregistering failed', { worker_id: this.id, error: text(error) });
    }
  }
}

interface LeaseStatus { job_id: string; status: 'ok' | 'cancel' | 'lost'; lease_ms: number | null }

/** Wakes those that wait. A set without a waiter is remembered for the next one. */
class Wakeup {
  #set = false;
  readonly #waiters = new Set<() => void>();

  set(): void {
    this.#set = this.#waiters.size === 0;
    for (const waiter of [...this.#waiters]) waiter();
  }

  /** True if the event was set, false if the time is over. Throws the reason of the signal if it aborts. */
  async wait(ms?: number, signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted();
    if (this.#set) {
      this.#set = false;
      return true;
    }
    return new Promise<boolean>((resolve, reject) => {
      const done = (settle: () => void) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        this.#waiters.delete(woken);
        settle();
      };
      const woken = () => done(() => resolve(true));
      const abort = () => done(() => reject(signal?.reason));
      const timer = ms === undefined ? undefined : setTimeout(() => done(() => resolve(false)), Math.min(Math.max(ms, 0), 2 ** 31 - 1));
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiters.add(woken);
    });
  }
}

/** Turns what a handler has thrown, and why its signal has aborted (undefined if it has not), into an outcome. */
function decide(error: unknown, cause: unknown, job: ClaimedJob, options: HandlerOptions): Outcome {
  if (cause instanceof LeaseLost) return { kind: '', body: {}, error };
  if (error instanceof Snooze) {
    return { kind: 'snooze', body: { delay_ms: error.delayMs, ...because('snoozed', error.reason) }, error };
  }
  if (error instanceof Wait) {
    return { kind: 'wait', body: { for: error.signals, timeout_ms: error.timeoutMs, ...(error.mode === 'all' ? { mode: error.mode } : {}) }, error };
  }
  if (error instanceof Throttled) {
    const throttle = { [error.budget]: { retry_after_ms: error.delayMs } };
    return { kind: 'snooze', body: { delay_ms: error.delayMs, throttle, ...because('throttled', error.reason) }, error };
  }
  if (error instanceof Permanent) return { kind: 'fail', body: { error: jobError(error), permanent: true }, error };
  if (cause instanceof Stopping) return { kind: 'release', body: {}, error };
  let reported = error;
  if (cause instanceof TimedOut) reported = named('timeout', error === cause ? text(cause) : `${text(cause)}: ${text(error)}`);
  if (cause instanceof CancelRequested) reported = named('cancelled', error === cause ? text(cause) : `${text(cause)}: ${text(error)}`);
  let after = error instanceof RetryAfter ? error.delayMs : undefined;
  if (after === undefined && options.retry !== undefined) {
    try {
      const own = options.retry(job.attempt, error);
      after = own === undefined ? undefined : clamp(own, MAX_BACKOFF_MS);
    } catch { /* left to the server */ }
  }
  return { kind: 'fail', body: { error: jobError(reported), ...(after === undefined ? {} : { retry_after_ms: after }) }, error: reported };
}

/** The error of an attempt whose complete or wait was refused for itself, or for the jobs and signals that it sends; undefined if that was not the reason. */
function refusedPart(error: unknown, kind: 'complete' | 'wait', body: Outcome['body']): Error | undefined {
  const status = statusOf(error);
  const fields = error instanceof Problem ? error.errors : [];
  const about = (part: string) => fields.some(({ field }) => field.startsWith(part) || field.includes(`].${part}`));
  const said = text(error) + fields.filter(({ field }) => !text(error).includes(field)).map(({ field, message }) => `; ${field}: ${message}`).join('');
  if (body['submit'] !== undefined && (status === 403 || (final(status) && about('submit')))) return named('submit', `the jobs to submit were refused: ${said}`);
  if (body['signal'] !== undefined && (status === 403 || (final(status) && about('signal')))) return named('signal', `the signals of other jobs were refused: ${said}`);
  if (!unfit(status)) return undefined;
  return kind === 'wait' ? named('wait', `the wait was refused: ${said}`) : named('result', `the result was refused: ${text(error)}`);
}

/** Why a job was put back, if that was said. */
function because(type: string, reason: string): { error?: JobError } {
  return reason === '' ? {} : { error: { type, message: cut(reason, 4096) } };
}

/** An error that is reported under a type. */
function named(type: string, message: string): Error {
  const error = new Error(message);
  error.name = type;
  return error;
}

/** An error as the server stores it: the type is the error's name, "error" for a plain Error. */
function jobError(error: unknown): JobError {
  const own = (error instanceof Permanent || error instanceof RetryAfter) && error.cause !== undefined ? error.cause : error;
  let type = 'error';
  if (own instanceof Error) {
    const name = own.name !== 'Error' ? own.name : own.constructor.name;
    if (name !== 'Error' && name !== '') type = name;
  }
  const stack = own instanceof Error ? own.stack : undefined;
  return { type: cut(type, 128), message: cut(text(error), 4096), ...(stack === undefined ? {} : { stack: cut(stack, 16384) }) };
}

/** Text of at most so many bytes, as the server accepts it. */
function cut(content: string, most: number): string {
  const clean = wellFormed(content).replaceAll('\0', '');
  const encoded = new TextEncoder().encode(clean);
  return encoded.length <= most ? clean : new TextDecoder().decode(encoded.slice(0, most)).replace(/\uFFFD$/, '');
}

function encodeResult(result: unknown): string {
  try {
    return encode(result);
  } catch (error) {
    throw new Permanent(named('result', `the result ${text(error)}`));
  }
}

const clamp = (ms: number, most: number): number => Math.round(Math.min(Math.max(Number.isFinite(ms) ? ms : most, 0), most));
const keyRefused = (error: unknown): boolean => statusOf(error) === 401 || statusOf(error) === 403;
/** Whether the server did not accept the content of a request. */
const unfit = (status: number): boolean => status === 400 || status === 413 || status === 422;
/** Whether a repeat would get the same answer. */
const final = (status: number): boolean => status >= 400 && status <= 499 && status !== 408 && status !== 425 && status !== 429;

/** The wait after failure n, from 0: between a half and all of first · 2^n, at most last. */
function backoff(n: number, first: number, last: number): number {
  const full = Math.min(last, first * 2 ** Math.min(n, 20));
  return full / 2 + Math.random() * full / 2;
}

/** The server's Retry-After, at most a minute, and jitter; without it the backoff. */
function retryWait(n: number, last: number, error: unknown): number {
  const own = backoff(n, 100, last);
  const asked = retryAfterMs(error) ?? 0;
  return asked > 0 ? Math.min(asked, LONGEST_ASKED_MS) + own / 4 : own;
}

/** One line for each message, on standard error. */
function log(level: 'info' | 'warn' | 'error', message: string, fields: Record<string, unknown>): void {
  console.error(JSON.stringify({ time: new Date().toISOString(), level, msg: message, ...fields }));
}
