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
// ---- errors
/** What all errors of this file are. */
export class ForgeQueueError extends Error {
    constructor(message, options) {
        super(message, options);
        this.name = new.target.name;
    }
}
/** A refusal by the server, with a code of the closed set in api-docs/errors.md. */
export class Problem extends ForgeQueueError {
    code;
    status;
    detail;
    /** How long to wait before another try, in milliseconds; null where waiting does not help. */
    retryAfterMs;
    /** The fields that were refused. */
    errors;
    /** The limits that refused. */
    policies;
    /** Finds the line in the server's log. */
    requestId;
    document;
    constructor(call, document) {
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
    status;
    /** The start of the body. */
    body;
    retryAfterMs;
    constructor(call, status, body, retryAfterMs, cause) {
        super(`${call}: status ${status} ${cause === undefined ? 'without a problem document' : 'with a body that is not the JSON expected'}: ${JSON.stringify(body)}`, { cause });
        this.status = status;
        this.body = body;
        this.retryAfterMs = retryAfterMs;
    }
}
/** The server could not be reached, or its answer did not arrive. The call may have taken effect. */
export class NoAnswerError extends ForgeQueueError {
}
/** The time that the caller has given is over. */
export class DeadlineError extends ForgeQueueError {
    /** The job as it was last seen, if wait was called. */
    job;
}
/** A job has ended otherwise than completed. */
export class EndedError extends ForgeQueueError {
    job;
    state;
    /** Why it is a dead letter; null if it was cancelled. */
    reason;
    constructor(job) {
        super(`job ${job.id} ended as ${job.state}${job.dead_reason ? ` (${job.dead_reason})` : ''}${job.last_error ? `: ${job.last_error.message}` : ''}`);
        this.job = job;
        this.state = job.state;
        this.reason = job.dead_reason;
    }
}
/** A batch of submitMany was refused as a whole, or had no answer; cause says why. */
export class SubmitManyError extends ForgeQueueError {
    /** The results of the batches before. Later jobs are not stored; those of the batch without an answer, perhaps. */
    answer;
    constructor(message, answer, cause) {
        super(message, { cause });
        this.answer = answer;
    }
}
/** Calls one server with one key. Make one and share it: it has a budget for repeats of its own. */
export class Client {
    #base;
    #apiKey;
    #timeoutMs;
    #fetch;
    #logger;
    /** In tenths of a repeat: repeats are at most a tenth of the calls, after a burst of ten. */
    #budget = 100;
    constructor(options) {
        let url;
        try {
            url = new URL(options.url);
        }
        catch (cause) {
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
        this.#logger = options.logger ?? (() => { });
    }
    /** A client by FORGEQUEUE_URL, and FORGEQUEUE_API_KEY or FORGEQUEUE_API_KEY_FILE. */
    static async fromEnv(change = {}) {
        const env = nodeProcess()?.env ?? {};
        const url = change.url ?? env['FORGEQUEUE_URL'];
        let apiKey = change.apiKey ?? env['FORGEQUEUE_API_KEY'];
        const file = env['FORGEQUEUE_API_KEY_FILE'];
        const missing = [];
        if (!url)
            missing.push('FORGEQUEUE_URL is not set: the address of the gateway, such as http://127.0.0.1:8080');
        if (!apiKey && file) {
            const fs = await nodeModule('fs/promises');
            try {
                apiKey = (await fs.readFile(file, 'utf8')).replace(/^\uFEFF|[\r\n]+$/g, '');
            }
            catch (cause) {
                throw new ForgeQueueError(`FORGEQUEUE_API_KEY_FILE: ${text(cause)}`, { cause });
            }
        }
        if (!apiKey)
            missing.push('FORGEQUEUE_API_KEY is not set: a key with the scopes that this program needs; or FORGEQUEUE_API_KEY_FILE, a file with it');
        if (!url || !apiKey)
            throw new ForgeQueueError(missing.join('; '));
        return new Client({ ...change, url, apiKey });
    }
    // -- producing
    /** Stores one job. Check warnings, deduplicated and replaced of the answer. */
    async submit(job, options = {}) {
        const { body, headers } = await this.#submit(['v1', 'jobs'], job, options);
        return this.#submitted(body, headers);
    }
    /** Submits a new job like one that has ended; differs says in what it differs. */
    async rerun(id, differs = {}, options = {}) {
        const { body, headers } = await this.#submit(['v1', 'jobs', id, 'rerun'], differs, options);
        return this.#submitted(body, headers);
    }
    #submitted(job, headers) {
        for (const warning of job.warnings ?? [])
            this.#logger('warn', 'submit has a warning', { job_id: job.id, queue: job.queue, warning });
        return { ...job, replayed: replayed(headers) };
    }
    /** Stores up to 1000 jobs in one request; with atomic all or none. Without atomic look at rejected, and at the problem of each result. */
    async submitBatch(jobs, options = {}) {
        const { body, headers } = await this.#submit(['v1', 'jobs', 'batch'], { jobs, ...(options.atomic ? { atomic: true } : {}) }, options);
        return { ...body, replayed: replayed(headers) };
    }
    /**
     * Stores any number of jobs, in batches of at most 1000 jobs and 8 MiB, one after the other. The answer has a result for
     * each, in order: a job or a problem. Throws SubmitManyError, with the results so far, if a batch has no answer or is refused
     * as a whole. With idempotencyKey the nth batch has that key with "/n" added, the first the key as it is. timeoutMs is that
     * of each batch.
     */
    async submitMany(jobs, options = {}) {
        const all = { results: [], accepted: 0, rejected: 0, replayed: jobs.length > 0 };
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
                if (end > first && (size > MAX_BATCH_BODY || (sizes[end] ?? 0) > MAX_PAYLOAD && bytes(encode(jobs[end]?.payload)) > MAX_PAYLOAD))
                    break;
            }
            let answer;
            try {
                answer = await this.submitBatch(jobs.slice(first, end), { ...options, idempotencyKey: n > 1 ? `${key}/${n}` : key });
                if (answer.results.length !== end - first)
                    throw new ForgeQueueError(`the server answered with ${answer.results.length} results`);
            }
            catch (cause) {
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
    async #submit(path, body, options) {
        const key = options.idempotencyKey || randomKey();
        if (!/^[!-~]{1,255}$/.test(key))
            throw new ForgeQueueError('idempotencyKey has to be 1 to 255 visible ASCII characters');
        return this.#call({
            method: 'POST', path, body, repeatable: true,
            headers: { 'Idempotency-Key': key, 'X-Correlation-Id': sendable(options.correlationId), Traceparent: sendable(options.traceparent) },
        }, options);
    }
    // -- reading
    /** Reads one job. The problem not_found stands for the jobs of others too. */
    async get(id, options = {}) {
        return (await this.getWithETag(id, options)).job;
    }
    /** Reads one job, with the ETag of the version that was read: for the option ifMatch of patchJob. */
    async getWithETag(id, options = {}) {
        const answer = await this.#call({ method: 'GET', path: ['v1', 'jobs', id], repeatable: true }, options);
        return { job: withJson(answer.body, answer.json), etag: answer.headers.get('ETag') ?? '' };
    }
    /** Waits until the job has ended: completed, dead_letter or cancelled. Throws DeadlineError after timeoutMs, if given, with the job as last seen. */
    async wait(id, options = {}) {
        const end = options.timeoutMs === undefined ? Infinity : now() + options.timeoutMs;
        let interval = 20;
        let heldMs = 0; // the first look is not held: the job may have ended
        let last;
        let etag = '';
        try {
            for (;;) {
                const asked = now();
                const { status, headers, body, json } = await this.#call({
                    method: 'GET', path: ['v1', 'jobs', id], repeatable: true, heldMs,
                    headers: { Prefer: `wait=${Math.floor(heldMs / 1000)}`, 'If-None-Match': etag || undefined },
                }, { ...options, timeoutMs: end === Infinity ? Infinity : end - now() });
                const job = status === 304 && last !== undefined ? last : body;
                if (status !== 304)
                    etag = headers.get('ETag') ?? '';
                if (ended(job.state))
                    return status === 304 ? job : withJson(job, json);
                // An early answer without a change counts as no wait, even with the header.
                const held = headers.has('Preference-Applied') && (job.state !== last?.state || now() - asked >= 500);
                last = job;
                if (!held) {
                    const pause = interval / 2 + Math.random() * interval / 2;
                    if (now() + pause >= end)
                        throw new DeadlineError(`wait for job ${id}: not within ${options.timeoutMs} ms; last seen ${job.state}`);
                    await sleep(pause, options.signal);
                    interval = Math.min(interval * 1.5, 500);
                }
                heldMs = Math.floor(Math.max(Math.min(HELD_MS, end - now() - BEFORE_DEADLINE_MS), 0) / 1000) * 1000;
            }
        }
        catch (error) {
            if (error instanceof DeadlineError && last !== undefined)
                error.job = last;
            throw error;
        }
    }
    /** Waits for the result of a job; throws EndedError if it is not completed. */
    async result(id, options = {}) {
        const job = await this.wait(id, options);
        if (job.state !== 'completed')
            throw new EndedError(job);
        return job.result;
    }
    /** Submits a job and waits for its result. timeoutMs is for both. */
    async submitAndWait(job, options = {}) {
        const begun = now();
        const { id } = await this.submit(job, options);
        return this.result(id, options.timeoutMs === undefined ? options : { ...options, timeoutMs: Math.max(options.timeoutMs - (now() - begun), 0) });
    }
    /** Gives one page of the jobs that match, newest first. */
    async list(filter = {}, page = {}, options = {}) {
        const { states, metadata, ...rest } = filter;
        const query = { ...rest, state: states?.join(',') };
        for (const [name, value] of Object.entries(metadata ?? {}))
            query[`metadata.${name}`] = value;
        return this.#list(['v1', 'jobs'], query, page, options);
    }
    /** Gives all jobs that match, newest first, page by page. */
    all(filter = {}, options = {}) {
        return pages((page) => this.list(filter, page, options));
    }
    /** Gives one page of the executions of a job. */
    async attempts(id, page = {}, options = {}) {
        return this.#list(['v1', 'jobs', id, 'attempts'], {}, page, options);
    }
    /** Gives a page of what the job has written, the oldest first: what came after the piece with the id after. */
    async output(id, after, options = {}) {
        return this.call({ method: 'GET', path: ['v1', 'jobs', id, 'output'], query: { after }, repeatable: true }, options);
    }
    /** Gives all that the job has written until now, page by page. */
    async *allOutput(id, after, options = {}) {
        for (let more = true; more;) {
            const page = await this.output(id, after, options);
            yield* page.items;
            after = page.items.at(-1)?.id;
            more = page.more && after !== undefined;
        }
    }
    async #list(path, query, page, options) {
        return this.call({ method: 'GET', path, query: { ...query, page_size: page.size, page_token: page.token }, repeatable: true }, options);
    }
    // -- changing
    /**
     * Changes a job that waits, and gives it as it is now. The problem job_started says that it runs, or has ended. ifMatch is the ETag
     * of the version that is changed: precondition_failed says that the job is another one by now, or that an answer was lost and the
     * call repeated.
     */
    async patchJob(id, changes, options = {}) {
        // Without the header it would change any version.
        if (options.ifMatch !== undefined && sendable(options.ifMatch) === undefined)
            throw new ForgeQueueError('ifMatch is no ETag');
        const answer = await this.#call({
            method: 'PATCH', path: ['v1', 'jobs', id], body: changes, repeatable: true, headers: { 'If-Match': options.ifMatch },
        }, options);
        return withJson(answer.body, answer.json);
    }
    /** Ends a job that waits. One that runs is asked to end: cancel_requested is set. The problem job_terminal says that it has ended. */
    async cancel(id, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'cancel'], repeatable: true }, options);
    }
    /**
     * Tells a job something under a name, and wakes it if that is what it waits for; a signal that comes before is kept. The first signal
     * of a name stays: first is false where there was one, which a repeat after a lost answer finds too. The problem job_terminal says
     * that the job has ended.
     */
    async signal(id, name, data, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'signals'], body: { name, data }, repeatable: true }, options);
    }
    /** Makes a URL by which a person without a key sends one signal of a job, once, in a browser. */
    async signalLink(id, name, link = {}, options = {}) {
        const body = { name, title: link.title, expires_ms: link.expiresMs };
        return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'signal-links'], body, repeatable: true }, options);
    }
    /** Deletes an ended job and its attempts. */
    async deleteJob(id, options = {}) {
        await this.call({ method: 'DELETE', path: ['v1', 'jobs', id], repeatable: true }, options);
    }
    /** Queues a dead letter again. It is not repeated if its answer is lost: a repeat would be refused with not_dead. */
    async redrive(id, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'jobs', id, 'redrive'] }, options);
    }
    /** Queues 1 to 1000 dead letters again; each has its own result. Not repeated, like redrive. */
    async redriveDeadLetters(ids, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'dead-letters', 'redrive'], body: { ids } }, options);
    }
    /** Begins to queue again all dead letters that match, in the server; rate is how many at most in a second. */
    async redriveMatching(filter, rate, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'dead-letters', 'redrive'], body: { filter, rate_per_second: rate } }, options);
    }
    /** Counts the dead letters that match. */
    async countMatching(filter, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'dead-letters', 'redrive'], body: { filter, dry_run: true }, repeatable: true }, options);
    }
    /** Reads how far a redrive is. */
    async getRedrive(id, options = {}) {
        return this.call({ method: 'GET', path: ['v1', 'redrives', id], repeatable: true }, options);
    }
    /** Begins to change all jobs that match now, in the server. It is not repeated if its answer is lost. */
    async bulk(request, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'bulk'], body: request }, options);
    }
    /** Counts the jobs that a bulk action would change. */
    async countBulk(request, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'bulk'], body: { ...request, dry_run: true }, repeatable: true }, options);
    }
    /** Reads how far a bulk action is. */
    async getBulk(id, options = {}) {
        return this.call({ method: 'GET', path: ['v1', 'bulk', id], repeatable: true }, options);
    }
    /** Stops a bulk action; what was changed stays changed. */
    async cancelBulk(id, options = {}) {
        return this.call({ method: 'POST', path: ['v1', 'bulk', id, 'cancel'], repeatable: true }, options);
    }
    /** Gives one page of the dead letters that match. */
    async deadLetters(filter = {}, page = {}, options = {}) {
        return this.#list(['v1', 'dead-letters'], { ...filter }, page, options);
    }
    /** Makes a queue, or replaces all of its settings. */
    async putQueue(name, settings, options = {}) {
        return this.call({ method: 'PUT', path: ['v1', 'queues', name], body: settings, repeatable: true }, options);
    }
    // -- budgets
    /** Makes a budget, or replaces all of its settings. One that is closed is open again. */
    async putBudget(name, settings, options = {}) {
        return this.call({ method: 'PUT', path: ['v1', 'budgets', name], body: settings, repeatable: true }, options);
    }
    /** Reads a budget. subject is the user or key whose available is read, of a budget by user or key. */
    async budget(name, subject, options = {}) {
        return this.call({ method: 'GET', path: ['v1', 'budgets', name], query: { subject }, repeatable: true }, options);
    }
    /** Gives one page of the budgets, by name. */
    async budgets(page = {}, options = {}) {
        return this.#list(['v1', 'budgets'], {}, page, options);
    }
    /** Deletes a budget and its usage. Costs that name it are ignored from then on. */
    async deleteBudget(name, options = {}) {
        await this.call({ method: 'DELETE', path: ['v1', 'budgets', name], repeatable: true }, options);
    }
    /** Reads what was used of a budget. days is the first and the last one, as YYYY-MM-DD; this month if absent. */
    async budgetUsage(name, days = {}, options = {}) {
        return this.call({ method: 'GET', path: ['v1', 'budgets', name, 'usage'], query: { ...days }, repeatable: true }, options);
    }
    // -- any call
    /** Calls any route of the API. Gives the body of the answer, undefined if it has none. */
    async call(call, options = {}) {
        return (await this.#call(call, options)).body;
    }
    /** Calls any route of the API. Gives the body of the answer and its text, in which no number is rounded. */
    async callWithJson(call, options = {}) {
        const { body, json } = await this.#call(call, options);
        return { body, json };
    }
    async #call(call, options) {
        const target = this.#base + call.path.map(segment).join('') + queryOf(call.query);
        const name = `${call.method} /${call.path.join('/')}`;
        const body = call.body === undefined ? undefined : encode(call.body);
        const end = now() + (options.timeoutMs ?? this.#timeoutMs);
        this.#budget = Math.min(this.#budget + 1, 100);
        for (let tries = 1;; tries++) {
            try {
                return await this.#try(name, target, call, body, end, options.signal);
            }
            catch (error) {
                const pause = this.#nextTry(call, tries, error, end, options.signal);
                if (pause === undefined)
                    throw error;
                this.#logger('warn', 'call is tried again', { call: name, tries, wait_ms: Math.round(pause), error: text(error) });
                await sleep(pause, options.signal);
            }
        }
    }
    /** How long to wait before another try; undefined for none. */
    #nextTry(call, tries, error, end, signal) {
        if (tries >= MAX_TRIES || signal?.aborted || !retryable(call, error))
            return undefined;
        const asked = retryAfterMs(error) ?? 0;
        const pause = asked + Math.random() * Math.min(BACKOFF_CAP_MS, BACKOFF_BASE_MS * 2 ** (tries - 1));
        if (asked > LONGEST_ASKED_MS || now() + pause >= end)
            return undefined; // the refusal says more than a deadline
        const scheduled = statusOf(error) === 429 && asked > 0;
        if (!scheduled) {
            if (this.#budget < 10)
                return undefined;
            this.#budget -= 10;
        }
        return pause;
    }
    /** Sends the request once, and reads the whole answer. */
    async #try(name, target, call, body, end, signal) {
        signal?.throwIfAborted();
        const longest = TRY_MS + (call.heldMs ?? 0);
        const left = Math.min(longest, end - now());
        if (left <= 0)
            throw new DeadlineError(`${name}: the time is over`);
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
                return { status: 304, headers: response.headers, body: undefined, json: '' };
            }
            if (!response.ok)
                throw refusal(name, response, content);
            return { status: response.status, headers: response.headers, body: decode(name, response.status, content), json: content };
        }
        catch (cause) {
            if (cause instanceof ForgeQueueError)
                throw cause;
            if (signal?.aborted)
                throw signal.reason;
            if (controller.signal.aborted) {
                if (left < longest)
                    throw new DeadlineError(`${name}: no answer within the time that is left, ${Math.round(left)} ms`, { cause });
                throw new NoAnswerError(`${name}: no answer within ${longest} ms`, { cause });
            }
            throw new NoAnswerError(`${name}: ${reason(cause)}`, { cause });
        }
        finally {
            clearTimeout(timer);
            signal?.removeEventListener('abort', abort);
        }
    }
    #headers(call, body) {
        const headers = new Headers({ Authorization: `Bearer ${this.#apiKey}`, Accept: 'application/json, application/problem+json' });
        if (nodeProcess() !== undefined)
            headers.set('User-Agent', 'forgequeue-typescript'); // a browser sets its own
        if (body !== undefined)
            headers.set('Content-Type', 'application/json');
        for (const [name, value] of Object.entries(call.headers ?? {}))
            if (value !== undefined)
                headers.set(name, value);
        return headers;
    }
}
/** Gives all items of a list, page by page: pages((page) => client.deadLetters({ queue: 'mail' }, page)). */
export async function* pages(list) {
    for (let page = { size: MAX_PAGE };;) {
        const answer = await list(page);
        yield* answer.items;
        if (answer.next_page_token === null)
            return;
        page = { size: MAX_PAGE, token: answer.next_page_token };
    }
}
function retryable(call, error) {
    if (error instanceof NoAnswerError)
        return call.repeatable === true || nothingWritten(error.cause);
    if (call.repeatable !== true)
        return false;
    switch (statusOf(error)) {
        case 429: return codeOf(error) !== 'would_wait'; // the caller does not want to wait
        case 502:
        case 503:
        case 504: return true;
        case 409: return codeOf(error) === 'idempotency_in_flight'; // an earlier try of this call has not ended
        default: return false;
    }
}
/** Whether no connection was made, as far as Node.js says so: the server did not get the call. */
function nothingWritten(cause) {
    const inner = cause?.cause?.code;
    return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'].includes(String(inner));
}
function refusal(name, response, content) {
    const asked = retryAfterHeader(response.headers.get('Retry-After'));
    const media = (response.headers.get('Content-Type') ?? '').split(';')[0]?.trim().toLowerCase();
    try {
        const document = JSON.parse(content);
        if (media === 'application/problem+json' && typeof document.code === 'string' && document.code !== '') {
            return new Problem(name, { ...document, status: response.status, retry_after_ms: document.retry_after_ms ?? asked });
        }
    }
    catch { /* not of the API */ }
    return new StatusError(name, response.status, content.slice(0, EXCERPT), asked);
}
/** Retry-After in milliseconds: seconds or a date (RFC 9110, section 10.2.3). */
function retryAfterHeader(value) {
    if (value === null)
        return null;
    if (/^\d{1,9}$/.test(value))
        return Number(value) * 1000;
    if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/.test(value))
        return null; // Date.parse takes more for a date, such as 1.5
    const at = Date.parse(value.endsWith(' GMT') ? value : `${value} GMT`);
    return Number.isNaN(at) ? null : Math.max(at - Date.now(), 0);
}
function decode(name, status, content) {
    if (content === '')
        return undefined;
    try {
        return JSON.parse(content);
    }
    catch (cause) {
        throw new StatusError(name, status, content.slice(0, EXCERPT), null, cause);
    }
}
/** The end of the JSON value that begins at a position of valid JSON. */
function valueEnd(json, at) {
    let depth = 0;
    for (;; at++) {
        const c = json.charCodeAt(at);
        if (c === 0x22) { // a string: to the next quote that is not escaped
            for (let escaped = true; escaped;) {
                at = json.indexOf('"', at + 1);
                let before = at;
                while (json.charCodeAt(before - 1) === 0x5c)
                    before--;
                escaped = (at - before) % 2 === 1;
            }
        }
        else if (c === 0x7b || c === 0x5b) {
            depth++;
            continue;
        }
        else if (c === 0x7d || c === 0x5d) {
            depth--;
        }
        else if (depth > 0) {
            continue;
        }
        else { // a number or a word
            while (at < json.length && !/[,\]}\s]/.test(json.charAt(at)))
                at++;
            return at;
        }
        if (depth === 0)
            return at + 1;
    }
}
/** The texts of the values of an object or array, which is valid JSON; those of an array are named 0, 1, 2 … */
function valuesOf(json) {
    const values = new Map();
    const skip = (at) => { while (/[,:\s]/.test(json.charAt(at)))
        at++; return at; };
    const start = skip(0);
    const array = json.charAt(start) === '[';
    for (let at = skip(start + 1), n = 0; at < json.length && !/[\]}]/.test(json.charAt(at)); n++) {
        let name = String(n);
        if (!array) {
            const end = valueEnd(json, at);
            name = JSON.parse(json.slice(at, end));
            at = skip(end);
        }
        const end = valueEnd(json, at);
        values.set(name, json.slice(at, end));
        at = skip(end);
    }
    return values;
}
/** A job with the texts of its values. */
function withJson(job, json) {
    const of = valuesOf(json);
    return { ...job, payloadJson: of.get('payload') ?? 'null', resultJson: of.get('result') ?? 'null', checkpointJson: of.get('checkpoint') ?? 'null' };
}
/** Reads a body of a limited size. */
async function readBody(response, most) {
    if (response.body === null)
        return '';
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let content = '';
    for (let size = 0;;) {
        const { done, value } = await reader.read();
        if (done)
            return content + decoder.decode();
        size += value.byteLength;
        if (size > most) {
            await reader.cancel().catch(() => { });
            throw new ForgeQueueError(`the answer is too large: status ${response.status}, more than ${most} bytes`);
        }
        content += decoder.decode(value, { stream: true });
    }
}
/** One segment of a path, so that an id cannot change the route. */
function segment(name) {
    if (typeof name !== 'string' || name === '' || name === '.' || name === '..')
        throw new ForgeQueueError(`${JSON.stringify(name)} cannot be an id`);
    return '/' + encodeURIComponent(wellFormed(name));
}
function queryOf(query) {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {}))
        if (value !== undefined && (value !== '' || name.startsWith('metadata.')))
            params.set(name, String(value));
    const encoded = params.toString();
    return encoded === '' ? '' : `?${encoded}`;
}
/** A value as JSON; undefined is null. */
function encode(value) {
    try {
        return JSON.stringify(value) ?? 'null';
    }
    catch (cause) {
        throw new ForgeQueueError(`cannot be written as JSON: ${text(cause)}`, { cause });
    }
}
function tooLarge(detail) {
    return {
        type: '/problems/payload_too_large', title: 'The body is too large', status: 413, detail, instance: '', code: 'payload_too_large',
        request_id: '', retry_after_ms: null, errors: [], policies: [],
    };
}
const statusOf = (error) => (error instanceof Problem || error instanceof StatusError ? error.status : 0);
const codeOf = (error) => (error instanceof Problem ? error.code : '');
const retryAfterMs = (error) => (error instanceof Problem || error instanceof StatusError ? error.retryAfterMs : null);
const replayed = (headers) => headers.get('Idempotent-Replayed') === 'true';
const ended = (state) => state === 'completed' || state === 'dead_letter' || state === 'cancelled';
const sendable = (value) => (value !== undefined && /^[ -~]{1,128}$/.test(value) ? value : undefined);
const now = () => performance.now();
const bytes = (content) => new TextEncoder().encode(content).byteLength;
const text = (error) => (error instanceof Error ? error.message : String(error));
/** fetch hides why it failed in the cause of its error. */
function reason(error) {
    const cause = error?.cause;
    return cause === undefined ? text(error) : `${text(error)}: ${text(cause) || cause.code}`;
}
/** Without lone surrogates, which no UTF-8 has. */
function wellFormed(content) {
    return content.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');
}
/** At least 128 random bits. */
function randomKey() {
    const random = new Uint8Array(16);
    globalThis.crypto.getRandomValues(random);
    return Array.from(random, (one) => one.toString(16).padStart(2, '0')).join('');
}
/** Waits; throws the reason of the signal if it aborts. */
async function sleep(ms, signal) {
    signal?.throwIfAborted();
    await new Promise((resolve, reject) => {
        const abort = () => { clearTimeout(timer); reject(signal?.reason); };
        const timer = setTimeout(() => { signal?.removeEventListener('abort', abort); resolve(); }, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
        signal?.addEventListener('abort', abort, { once: true });
    });
}
const nodeProcess = () => globalThis.process;
/** A module of Node.js, by a name that no bundler resolves. */
async function nodeModule(name) {
    const specifier = `node:${name}`;
    return await import(specifier);
}
/**
 * Says whether a call of a webhook or a push queue is signed with a secret, by Standard Webhooks: HMAC-SHA-256 over
 * "id.timestamp.body". secret is "whsec_" and base64, or several of them, of which one has to fit. body is as it was received, not
 * decoded and encoded again. Whatever is malformed, the secret included, is false; it does not throw.
 */
export async function verify(secret, headers, body, options = {}) {
    try {
        const [id, timestamp, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => header(headers, name));
        if (!id || !timestamp || !signature || id.length > 1024 || signature.length > 4096 || !/^\d{1,12}$/.test(timestamp))
            return false;
        const present = (options.now ?? new Date()).getTime() / 1000;
        if (!(Math.abs(present - Number(timestamp)) <= (options.toleranceSeconds ?? 300)))
            return false;
        const content = typeof body === 'string' ? new TextEncoder().encode(body) : new Uint8Array(body);
        const prefix = new TextEncoder().encode(`${id}.${timestamp}.`);
        const message = new Uint8Array(prefix.length + content.length);
        message.set(prefix);
        message.set(content, prefix.length);
        const signatures = signature.split(' ').filter((one) => one.startsWith('v1,')).map((one) => base64(one.slice(3))).filter((one) => one?.length === 32);
        const subtle = (globalThis.crypto ?? (await nodeModule('crypto')).webcrypto).subtle;
        let found = false;
        for (const one of Array.isArray(secret) ? secret : [secret]) {
            const key = base64(one.replace(/^whsec_/, ''));
            if (key === undefined || key.length === 0)
                continue;
            const imported = await subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
            for (const got of signatures) {
                if (got !== undefined && await subtle.verify('HMAC', imported, got, message))
                    found = true; // in constant time
            }
        }
        return found;
    }
    catch {
        return false;
    }
}
function header(headers, name) {
    if (typeof headers.get === 'function')
        return headers.get(name) ?? undefined;
    const values = Object.entries(headers).filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
    return values.length === 1 && typeof values[0] === 'string' ? values[0] : undefined;
}
/** Strict base64; undefined if it is not. */
function base64(content) {
    if (content.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(content))
        return undefined;
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
    constructor(error) { super(text(error), { cause: error }); }
}
/** Thrown by a handler: the attempt fails, and the next one comes after so many milliseconds, at most 7 days. */
export class RetryAfter extends ForgeQueueError {
    delayMs;
    constructor(error, delayMs) {
        super(text(error), { cause: error });
        this.delayMs = clamp(delayMs, MAX_BACKOFF_MS);
    }
}
/** Thrown by a handler: the job comes back after so many milliseconds, and no attempt is used up. The reason, if any, becomes its last error. */
export class Snooze extends ForgeQueueError {
    delayMs;
    reason;
    constructor(delayMs, reason = '') {
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
    budget;
    delayMs;
    reason;
    constructor(budget, delayMs, reason = '') {
        super(`budget ${budget} is closed for ${delayMs} ms`);
        if (!NAME.test(budget))
            throw new ForgeQueueError(`${JSON.stringify(budget)} cannot be the name of a budget`);
        if (!(delayMs >= 0))
            throw new ForgeQueueError(`budget ${budget} cannot be closed for ${delayMs} ms`);
        this.budget = budget;
        this.delayMs = Math.max(clamp(delayMs, MAX_DELAY_MS), 1);
        this.reason = reason;
    }
    /** One by the value of a Retry-After header, seconds or a date: at least a second, and 10 seconds if it is absent or neither. */
    static of(budget, retryAfter, reason = '') {
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
    timeoutMs;
    signals;
    mode = 'any';
    constructor(timeoutMs, ...signals) {
        super(signals.length === 0 ? `sleeps for ${timeoutMs} ms` : `waits for ${signals.join(', ')}, at most ${timeoutMs} ms`);
        this.timeoutMs = clamp(timeoutMs, MAX_DELAY_MS);
        this.signals = signals;
    }
    /** One for all of the signals. */
    static all(timeoutMs, ...signals) {
        return Object.assign(new Wait(timeoutMs, ...signals), { mode: 'all' });
    }
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
/** What an attempt has written and the server does not have yet. */
class Unsent {
    #client;
    #job;
    #logger;
    #pieces = [];
    #size = 0;
    #dropped = 0;
    #seq = 0;
    #over = false;
    /** What sends, while there is something to send. */
    #sending;
    #hurry = new Wakeup();
    #stop = new AbortController();
    constructor(client, job, logger) {
        this.#client = client;
        this.#job = job;
        this.#logger = logger;
    }
    write(content, stream) {
        if (!['out', 'err', 'log'].includes(stream))
            throw new ForgeQueueError(`${JSON.stringify(stream)} is no stream: out, err or log`);
        if (this.#over || content === '')
            return;
        for (const part of chunked(wellFormed(content).replaceAll('\0', '\uFFFD'))) {
            const size = bytes(part);
            const last = this.#pieces.at(-1);
            if (last?.stream === stream && last.size + size <= MAX_OUTPUT_CHUNK) {
                this.#size += Math.max(last.size + size, OUTPUT_PIECE) - Math.max(last.size, OUTPUT_PIECE);
                last.content += part;
                last.size += size;
            }
            else {
                this.#pieces.push({ stream, content: part, size });
                this.#size += Math.max(size, OUTPUT_PIECE);
            }
            while (this.#size > OUTPUT_UNSENT && this.#pieces.length > 1) {
                const gone = this.#pieces.shift()?.size ?? 0;
                this.#size -= Math.max(gone, OUTPUT_PIECE);
                this.#dropped += gone;
            }
        }
        if (this.#size >= MAX_OUTPUT_CHUNK)
            this.#hurry.set();
        this.#sending ??= this.#send();
    }
    /** Takes no more, and resolves when the rest is sent, or cannot be sent in time. */
    async end(withinMs) {
        this.#over = true;
        if (this.#sending === undefined)
            return;
        this.#hurry.set();
        const timer = setTimeout(() => this.#stop.abort(), withinMs);
        await this.#sending;
        clearTimeout(timer);
    }
    /** Sends what there is until nothing is left. One request is under way at a time. */
    async #send() {
        for (;;) {
            await this.#hurry.wait(OUTPUT_EVERY_MS);
            const chunks = this.#take();
            if (chunks.length === 0)
                break;
            if (!await this.#deliver(chunks)) {
                this.#over = true;
                this.#pieces = [];
                this.#size = this.#dropped = 0;
            }
        }
        this.#sending = undefined;
    }
    #take() {
        const chunks = [];
        if (this.#dropped > 0)
            chunks.push({ seq: ++this.#seq, stream: 'log', text: `\n[... ${this.#dropped} bytes of output could not be sent in time ...]\n` });
        this.#dropped = 0;
        for (const { stream, content, size } of this.#pieces.splice(0, MAX_OUTPUT_CHUNKS - chunks.length)) {
            this.#size -= Math.max(size, OUTPUT_PIECE);
            chunks.push({ seq: ++this.#seq, stream, text: content });
        }
        if (this.#over || this.#size >= MAX_OUTPUT_CHUNK)
            this.#hurry.set();
        return chunks;
    }
    /** Sends chunks until the server has them; a number that it has is left out there. False where it never will. */
    async #deliver(chunks) {
        const { id, lease_token } = this.#job;
        for (let failures = 0;; failures++) {
            try {
                await this.#client.call({ method: 'POST', path: ['v1', 'jobs', id, 'output'], body: { lease_token, chunks } }, { signal: this.#stop.signal, timeoutMs: OUTPUT_TRY_MS });
                return true;
            }
            catch (error) {
                const last = this.#stop.signal.aborted || final(statusOf(error)) || statusOf(error) === 0 && !(error instanceof NoAnswerError || error instanceof DeadlineError);
                if (last || failures === 0)
                    this.#logger('warn', last ? 'output could not be sent; the rest of it is dropped' : 'output could not be sent', { job_id: id, error: text(error) });
                if (last)
                    return false;
                await sleep(retryWait(failures, OUTPUT_RETRY_MS, error), this.#stop.signal).catch(() => { });
            }
        }
    }
}
/** A text in parts of at most 16 KiB; no character is split. */
function* chunked(content) {
    const most = MAX_OUTPUT_CHUNK / 4; // a character has four bytes at most
    for (let start = 0, end = 0; start < content.length; start = end) {
        end = Math.min(start + most, content.length);
        if (end < content.length && /[\uD800-\uDBFF]/.test(content.charAt(end - 1)))
            end--;
        yield content.slice(start, end);
    }
}
/** One claimed job while it is this worker's. */
class Lease {
    job;
    output;
    controller = new AbortController();
    /** Ends the calls that send the outcome. One signal for all leases would have too many listeners. */
    sending = new AbortController();
    #returned = false;
    came = now();
    /** The lease lasts for length after renewed. */
    renewed = this.came;
    length;
    progress = null;
    checkpoint = null; // JSON
    /** What the attempt has used of budgets, as far as the handler has said so. */
    used = new Map();
    /** The jobs that are submitted with the result or wait, and the signals of other jobs that are sent with it. */
    following = [];
    signalling = [];
    /** Counts reports: what comes while one is sent stays. */
    added = 0;
    nextReport = 0;
    constructor(job, client, logger) {
        this.job = job;
        this.output = new Unsent(client, job, logger);
        this.length = Math.max(job.lease_ms, SHORTEST_LEASE_MS);
    }
    /** Tells the handler to stop, unless it has returned: a heartbeat that was under way meanwhile reports its lease as lost. */
    tell(reason) {
        if (!this.#returned)
            this.controller.abort(reason);
    }
    returned() { this.#returned = true; }
    get reporting() { return this.progress !== null || this.checkpoint !== null; }
    /** When the lease is assumed to expire. */
    get end() { return this.renewed + this.length; }
    /** An expired lease is its holder's until the server takes it back: an outcome can be accepted until then. */
    get certainEnd() { return this.renewed + 2 * this.length; }
}
/**
 * Says how many jobs a worker may claim, and which of them have a slot: until the handler returns, not until the outcome is sent.
 */
class Room {
    #slots;
    /** The leases that have a slot, by when they got it. */
    #running = new Map();
    /** The leases that have none yet, the first to come in front, and what says that they have one. */
    #waiting = new Map();
    /** How long handlers took lately; 0 until one has returned. */
    #mean = 0;
    #stopped = false;
    /** Whether the last claim got all that it asked for. Otherwise other workers may be idle. */
    backlog = false;
    constructor(slots) { this.#slots = slots; }
    /** How many jobs may be claimed now by a worker that has so many whose outcomes are not answered. */
    most(open) {
        const free = this.#slots - this.#running.size;
        const ahead = this.#ahead();
        if (free <= 0 && this.#waiting.size > Math.floor(ahead / 2))
            return 0; // there is enough to start; the next claim asks for more at once
        return Math.max(Math.min(free + ahead - this.#waiting.size, this.#slots + 2 * ahead - open, MAX_CLAIM), 0);
    }
    /** How many jobs may wait for a slot. */
    #ahead() {
        if (!this.backlog || this.#mean === 0 || this.#mean >= QUICK_MS)
            return 0;
        const present = now();
        let quick = this.#slots;
        for (const since of this.#running.values())
            if (present - since >= QUICK_MS)
                quick--;
        return Math.floor(quick * Math.min(AHEAD_WORK_MS / this.#mean, AHEAD_PER_SLOT));
    }
    /** True once a job has its slot, false if it gets none: then it is to be released. */
    async enter(lease) {
        const { signal } = lease.controller;
        if (this.#stopped || signal.aborted)
            return false;
        if (this.#running.size < this.#slots) {
            this.#running.set(lease, now());
            return true;
        }
        return new Promise((resolve) => {
            const settle = (starts) => {
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
    leave(lease) {
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
    stop() {
        this.#stopped = true;
        for (const settle of [...this.#waiting.values()])
            settle(false);
    }
}
/** Whether jobs are submitted with the outcome. */
const submits = (one) => one.body['submit'] !== undefined;
/** Sends outcomes. One request is under way at a time, and what comes during it forms the next one. */
class Outbox {
    #client;
    #signal;
    #waiting = [];
    #busy = false;
    constructor(client, signal) {
        this.#client = client;
        this.#signal = signal;
    }
    /** Resolves when the server has taken the outcome; otherwise throws why it has not. */
    send(lease, kind, body) {
        return new Promise((resolve, reject) => {
            const answered = (error) => (error === undefined ? resolve() : reject(error));
            this.#waiting.push({ lease, kind, body, size: OUTCOME_FRAME + bytes(encode(body)), answered });
            if (!this.#busy)
                void this.#flushAll();
        });
    }
    async #flushAll() {
        this.#busy = true;
        while (this.#waiting.length > 0) {
            let count = 0;
            let size = 0;
            for (const one of this.#waiting) {
                size += one.size;
                if (count === MAX_OUTCOMES || (count > 0 && size > OUTCOME_BYTES))
                    break;
                count++;
            }
            await this.#flush(this.#waiting.splice(0, count));
        }
        this.#busy = false;
    }
    /** Sends outcomes in one request. One that is refused as a whole, perhaps because of one of them, is halved to find it. */
    async #flush(batch) {
        const parts = [batch];
        let halvings = 0;
        for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
            try {
                const errors = await this.#post(part);
                part.forEach((one, i) => one.answered(errors[i]));
            }
            catch (error) {
                const status = statusOf(error);
                if (status === 429 && part.some(submits)) { // submits are limited, other outcomes do not wait for them
                    const plain = part.filter((one) => !submits(one));
                    if (plain.length > 0)
                        parts.push(plain);
                    for (const one of part)
                        if (submits(one))
                            one.answered(error);
                    continue;
                }
                const whole = part.length > 1 && (status === 500 || (final(status) && !keyRefused(error)));
                if (whole && halvings < MAX_HALVINGS) {
                    halvings++;
                    const half = Math.ceil(part.length / 2);
                    parts.push(part.slice(half), part.slice(0, half));
                    continue;
                }
                if (!final(status) && status !== 500)
                    part.push(...parts.splice(0).flat()); // the server cannot be reached, or is overloaded
                // What may be due to another one is no refusal of these: they are sent again.
                for (const one of part)
                    one.answered(whole ? new NoAnswerError(text(error), { cause: error }) : error);
            }
        }
    }
    /** Makes one request, and gives the error of each outcome, if any. One alone has a route of its own, where a result may be nested deeper. */
    async #post(batch) {
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
        const { results } = await this.#client.call({
            method: 'POST', path: ['v1', 'outcomes'], repeatable, body: { outcomes },
        }, options);
        const errors = batch.map(() => new NoAnswerError('the answer does not tell of this outcome'));
        for (const { index, status, problem } of results) {
            if (problem !== null)
                errors[index] = new Problem('POST /v1/outcomes', { ...problem, status });
            else if (status >= 200 && status <= 299)
                errors[index] = undefined;
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
    id;
    #client;
    #queues;
    #tags;
    #concurrency;
    #metadata;
    #waitMs;
    #graceMs;
    #unknownTypeDelayMs;
    #logger;
    #handlers = new Map();
    #any;
    #held = new Map(); // by lease token
    #attempts = new Set();
    #room;
    #outbox;
    #state = 'new';
    #wake = new Wakeup();
    /** A handler has returned, or an outcome was answered. */
    #changed = new Wakeup();
    /** Lets go of handlers that do not return. */
    #abandon = new Set();
    /** Ends what is still being sent. */
    #over = new AbortController();
    /** All leases whose attempts are under way: those that are lost too. */
    #open = new Set();
    /** How many handlers were abandoned and have not returned. */
    #deaf = 0;
    constructor(options) {
        const { concurrency = 10, waitMs = 20_000, graceMs = 20_000 } = options;
        if (!Number.isInteger(concurrency) || concurrency < 1)
            throw new ForgeQueueError('concurrency has to be a whole number from 1');
        if (!(waitMs >= 0 && waitMs <= 25_000))
            throw new ForgeQueueError('waitMs has to be 0 to 25000');
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
            }
            catch { /* must not end the worker */ }
        };
    }
    /** Sets the handler of the jobs of a type. Call it before run, once for each type. */
    handle(type, handler, options = {}) {
        if (!NAME.test(type))
            throw new ForgeQueueError(`${JSON.stringify(type)} cannot be the type of a job`);
        if (this.#state !== 'new')
            throw new ForgeQueueError(`the handler for ${JSON.stringify(type)} came after run`);
        if (this.#handlers.has(type))
            throw new ForgeQueueError(`${JSON.stringify(type)} has two handlers`);
        this.#handlers.set(type, { run: handler, options });
        return this;
    }
    /** Sets the handler of the jobs of all other types. The worker then claims all types. */
    handleAny(handler, options = {}) {
        if (this.#state !== 'new')
            throw new ForgeQueueError('the handler of all types came after run');
        this.#any = { run: handler, options };
        return this;
    }
    /**
     * Registers the worker, then claims and runs jobs until the signal aborts. It then claims no more, lets handlers go on for
     * graceMs, aborts their signals, releases the jobs that are left, and deregisters. A key that is refused (401, 403) ends run
     * in the same way, and throws. All other failures are retried.
     */
    async run(options = {}) {
        if (this.#state !== 'new')
            throw new ForgeQueueError('run was called before');
        if (this.#handlers.size === 0 && this.#any === undefined)
            throw new ForgeQueueError('there is no handler: set one with handle');
        this.#state = 'running';
        const stop = options.signal ?? new AbortController().signal;
        let refused;
        let beating;
        try {
            await this.#register(stop);
            this.#logger('info', 'worker started', { worker_id: this.id, queues: this.#queues, concurrency: this.#concurrency });
            beating = this.#heartbeats();
            await this.#claims(stop);
        }
        catch (error) {
            if (!stop.aborted)
                refused = error;
        }
        this.#logger('info', 'worker stopping', { worker_id: this.id, leases: this.#held.size, ...(refused === undefined ? {} : { error: text(refused) }) });
        await this.#drain();
        this.#state = 'ended';
        this.#wake.set();
        this.#endCalls();
        await beating;
        if (refused === undefined)
            await this.#leave();
        this.#logger('info', 'worker stopped', { worker_id: this.id });
        if (refused !== undefined)
            throw refused;
    }
    /**
     * Runs until SIGTERM or SIGINT. A second signal ends the process at once. If a handler has not returned although its signal has
     * aborted, the process is ended a second after this returns: nothing else can end the handler.
     */
    async runUntilSignal(signals = ['SIGTERM', 'SIGINT']) {
        const node = nodeProcess();
        if (node === undefined)
            throw new ForgeQueueError('there are no signals here: use run');
        const controller = new AbortController();
        const stop = () => {
            for (const signal of signals)
                node.off(signal, stop);
            controller.abort(new Stopping());
        };
        for (const signal of signals)
            node.on(signal, stop);
        try {
            await this.run({ signal: controller.signal });
        }
        finally {
            for (const signal of signals)
                node.off(signal, stop);
            if (this.#deaf > 0) {
                this.#logger('warn', 'the process ends: handlers did not return', { worker_id: this.id, handlers: this.#deaf, exit_ms: EXIT_MS });
                const timer = setTimeout(() => { if (this.#deaf > 0)
                    node.exit(); }, EXIT_MS);
                timer.unref?.();
            }
        }
    }
    #endCalls() {
        this.#over.abort(new Stopping());
        for (const lease of this.#open)
            lease.sending.abort(new Stopping());
    }
    #types() {
        return this.#any !== undefined || this.#handlers.size > MAX_TYPES ? undefined : [...this.#handlers.keys()];
    }
    async #registerOnce(options) {
        await this.#client.call({
            method: 'POST', path: ['v1', 'workers'], repeatable: true,
            body: { worker_id: this.id, queues: this.#queues, types: this.#types(), tags: this.#tags, concurrency: this.#concurrency, metadata: this.#metadata },
        }, options);
    }
    async #register(stop) {
        for (let failures = 0;; failures++) {
            try {
                return await this.#registerOnce({ signal: stop });
            }
            catch (error) {
                if (stop.aborted || keyRefused(error))
                    throw error;
                this.#logger('warn', 'register failed', { worker_id: this.id, error: text(error), failures: failures + 1 });
                await sleep(retryWait(failures, 10_000, error), stop);
            }
        }
    }
    async #claims(stop) {
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
                const { body: { jobs }, json } = await this.#client.callWithJson({
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
                if (jobs.length > 0 || now() - asked >= Math.min(100, this.#waitMs / 2))
                    hasty = 0;
                else
                    await sleep(backoff(hasty++, 100, 10_000), stop);
            }
            catch (error) {
                if (stop.aborted || keyRefused(error))
                    throw error;
                this.#room.backlog = false;
                this.#logger('warn', 'claim failed', { worker_id: this.id, error: text(error), failures: failures + 1 });
                await sleep(retryWait(failures++, 10_000, error), stop);
            }
        }
    }
    #begin(job, giveBack) {
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
    async #attempt(lease, giveBack) {
        let begun = now();
        const { job } = lease;
        let outcome = { kind: 'release', body: {} };
        if (!giveBack && await this.#room.enter(lease)) {
            begun = now();
            outcome = await this.#execute(lease);
            this.#room.leave(lease);
            this.#changed.set();
        }
        else if (lease.controller.signal.reason instanceof LeaseLost) {
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
    async #execute(lease) {
        const { job, controller } = lease;
        const handler = this.#handlers.get(job.type) ?? this.#any;
        if (handler === undefined) {
            return { kind: 'snooze', body: { delay_ms: this.#unknownTypeDelayMs, error: { type: 'no_handler', message: `worker ${this.id} has no handler for type ${JSON.stringify(job.type)}` } } };
        }
        const limit = Math.min((job.timeout_ms ?? Infinity) - (now() - lease.came), handler.options.timeoutMs ?? Infinity); // timeout_ms counts from the claim
        const timer = limit === Infinity ? undefined : setTimeout(() => lease.tell(new TimedOut()), Math.min(limit, 2 ** 31 - 1));
        let abandon = () => { };
        try {
            const result = await new Promise((resolve, reject) => {
                let abandoned = false;
                abandon = () => {
                    abandoned = true;
                    this.#deaf++;
                    reject(new ForgeQueueError('the handler did not return after its signal had aborted'));
                };
                this.#abandon.add(abandon);
                (async () => handler.run(this.#runningJob(lease)))().finally(() => {
                    lease.returned();
                    if (abandoned)
                        this.#deaf--;
                }).then(resolve, reject); // after abandon neither has an effect
            });
            const encoded = encodeResult(result);
            if (bytes(encoded) > MAX_RESULT)
                throw new Permanent(named('result', `the result has ${bytes(encoded)} bytes, and ${MAX_RESULT} are allowed`));
            return { kind: 'complete', body: { result: result === undefined ? null : result } };
        }
        catch (error) {
            return decide(error, controller.signal.reason, job, handler.options);
        }
        finally {
            clearTimeout(timer);
            this.#abandon.delete(abandon);
        }
    }
    #runningJob(lease) {
        const { checkpoint, checkpointJson, lease_token: _token, lease_expires_at: _expires, lease_ms: _length, ...job } = lease.job;
        const add = (report) => {
            const first = !lease.reporting;
            report();
            lease.added++;
            if (first)
                this.#wake.set();
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
                if (encoded === 'null')
                    throw new ForgeQueueError('the checkpoint is null, which would leave the one before; use an empty value of your own');
                if (bytes(encoded) > MAX_CHECKPOINT)
                    throw new ForgeQueueError(`the checkpoint has ${bytes(encoded)} bytes as JSON, and may have ${MAX_CHECKPOINT}`);
                add(() => { lease.checkpoint = encoded; });
            },
            used: (budget, amount) => {
                if (!NAME.test(budget))
                    throw new ForgeQueueError(`${JSON.stringify(budget)} cannot be the name of a budget`);
                if (!Number.isInteger(amount) || amount < 0 || amount > MAX_AMOUNT) {
                    throw new ForgeQueueError(`what was used of budget ${budget} has to be a whole number from 0 to 2^50, and is ${String(amount)}`);
                }
                if (lease.used.size >= MAX_COSTS && !lease.used.has(budget))
                    throw new ForgeQueueError(`an attempt can say of at most ${MAX_COSTS} budgets what it has used`);
                lease.used.set(budget, amount);
            },
            signals: job.signals ?? [], // an older server sends neither
            woken_by: job.woken_by ?? null,
            write: (content, stream = 'out') => lease.output.write(String(content), stream),
            log: (line) => lease.output.write(String(line).endsWith('\n') ? String(line) : `${line}\n`, 'log'),
            received: (name) => (job.signals ?? []).find((one) => one.name === name),
            thenSignal: (id, name, data = null) => {
                const encoded = encode(data);
                if (bytes(encoded) > MAX_SIGNAL_DATA)
                    throw new ForgeQueueError(`the data of signal ${JSON.stringify(name)} has ${bytes(encoded)} bytes as JSON, and may have ${MAX_SIGNAL_DATA}`);
                lease.signalling.push({ job_id: id, name, ...(encoded === 'null' ? {} : { data: JSON.parse(encoded) }) });
            },
            follow: (...jobs) => { lease.following.push(...jobs.map((job) => JSON.parse(encode(job)))); }, // as they are now
            restore: () => (checkpoint ?? undefined),
            restoreJson: () => checkpointJson === 'null' ? undefined : checkpointJson,
        };
    }
    /** Sends the outcome until the server has answered it, or its lease has certainly ended. */
    async #send(lease, outcome) {
        if (outcome.kind === '')
            return { word: 'lost', error: outcome.error };
        const used = lease.used.size === 0 ? {} : { used: Object.fromEntries(lease.used) };
        let { kind, error: cause } = outcome;
        let body = { ...outcome.body, ...used };
        if (kind === 'complete' || kind === 'wait') {
            if (lease.following.length > 0)
                body['submit'] = [...lease.following];
            if (lease.signalling.length > 0)
                body['signal'] = [...lease.signalling];
        }
        if (kind === 'wait' && lease.checkpoint !== null)
            body['checkpoint'] = JSON.parse(lease.checkpoint);
        for (let failures = 0;;) {
            try {
                await this.#outbox.send(lease, kind, body);
                return { word: { complete: 'completed', fail: 'failed', snooze: 'snoozed', wait: 'waiting', release: 'released' }[kind], error: cause };
            }
            catch (error) {
                const status = statusOf(error);
                const refused = kind === 'complete' || kind === 'wait' ? refusedPart(error, kind, body) : undefined;
                if (refused !== undefined) { // the attempt still has to end
                    cause = refused;
                    kind = 'fail';
                    body = { error: jobError(cause), ...(status === 403 ? {} : { permanent: true }), ...used }; // a key can be given the scope that it lacks
                    failures = 0;
                    continue;
                }
                if (codeOf(error) === 'lease_lost')
                    return { word: 'lost', error };
                if (final(status) || lease.sending.signal.aborted || now() > lease.certainEnd)
                    return { word: 'unsent', error };
                const pause = retryWait(failures++, 5000, error);
                this.#logger('warn', 'an outcome was not taken', { worker_id: this.id, job_id: lease.job.id, error: text(error), failures, retry_ms: Math.round(pause) });
                try {
                    await sleep(Math.min(pause, Math.max(lease.certainEnd - now(), 0) + 1), lease.sending.signal);
                }
                catch {
                    return { word: 'unsent', error };
                }
            }
        }
    }
    // -- heartbeats
    /** Keeps all leases, and the worker itself, alive until the end. */
    async #heartbeats() {
        let last = now();
        let failures = 0;
        let retry = 0;
        while (this.#state !== 'ended') {
            let whole = last + LONGEST_BEAT_MS;
            let report = Infinity;
            for (const lease of this.#held.values()) {
                whole = Math.min(whole, lease.renewed + Math.min(lease.length / 3, LONGEST_BEAT_MS));
                if (lease.reporting)
                    report = Math.min(report, lease.nextReport);
            }
            const due = failures > 0 ? this.#nextEnd(retry) : Math.min(whole, report);
            if (due > now()) {
                if (await this.#wake.wait(due - now()))
                    continue;
            }
            if (failures > 0) {
                this.#loseOverdue();
                if (now() < retry)
                    continue; // it was the end of a lease that was due
            }
            const only = failures === 0 && now() < whole ? [...this.#held.values()].filter((lease) => lease.reporting && lease.nextReport <= now()) : undefined;
            if (only?.length === 0)
                continue; // its attempt has ended
            try {
                await this.#beat(only);
                last = now();
                failures = 0;
            }
            catch (error) {
                if (this.#over.signal.aborted)
                    return;
                this.#logger('warn', 'heartbeat failed', { worker_id: this.id, error: text(error), failures: failures + 1 });
                this.#loseOverdue();
                retry = now() + Math.min(backoff(failures, 250, 5000), this.#shortest() / 6);
                failures++;
            }
        }
    }
    #shortest() {
        return Math.min(3 * LONGEST_BEAT_MS, ...[...this.#held.values()].map((lease) => lease.length));
    }
    /** When the next lease is assumed to expire, at most by; those that have expired do not count. */
    #nextEnd(by) {
        return Math.min(by, ...[...this.#held.values()].map((lease) => lease.end).filter((end) => end > now()));
    }
    #loseOverdue() {
        for (const lease of this.#held.values())
            if (now() >= lease.end)
                lease.tell(new LeaseLost());
    }
    /** One heartbeat for all leases, or for those that report. A worker that the server does not know registers again. */
    async #beat(only) {
        const end = this.#nextEnd(now() + Math.max(this.#shortest() / 3, SHORTEST_LEASE_MS));
        const options = () => ({ signal: this.#over.signal, timeoutMs: Math.max(end - now(), 0) });
        try {
            await this.#beatAll(only, options);
        }
        catch (error) {
            if (codeOf(error) !== 'worker_unknown')
                throw error;
            this.#logger('warn', 'the server does not know this worker; registering again', { worker_id: this.id });
            await this.#registerOnce(options());
            await this.#beatAll(undefined, options);
        }
    }
    async #beatAll(only, options) {
        const held = only ?? [...this.#held.values()];
        if (held.length === 0) {
            await this.#heartbeat([], options());
            return;
        }
        for (let i = 0; i < held.length; i += MAX_LEASES)
            await this.#beatFor(held.slice(i, i + MAX_LEASES), options);
    }
    /** Extends leases, and sends their reports. */
    async #beatFor(held, options) {
        let size = 0;
        const taken = held.map((lease) => {
            if (size >= REPORT_BYTES)
                return undefined; // reports with the next one
            size += bytes(lease.checkpoint ?? '');
            lease.nextReport = now() + REPORT_EVERY_MS;
            return { added: lease.added, progress: lease.progress, checkpoint: lease.checkpoint };
        });
        const plain = held.map((lease) => ({ job_id: lease.job.id, lease_token: lease.job.lease_token }));
        const sent = () => held.forEach((lease, i) => {
            if (lease.added === taken[i]?.added)
                lease.progress = lease.checkpoint = null;
        });
        let answer;
        try {
            answer = await this.#heartbeat(plain.map((lease, i) => ({
                ...lease,
                ...(taken[i]?.progress ? { progress: taken[i]?.progress } : {}),
                ...(taken[i]?.checkpoint ? { checkpoint: JSON.parse(taken[i]?.checkpoint ?? 'null') } : {}),
            })), options());
            sent();
        }
        catch (error) {
            if (!unfit(statusOf(error)) || !taken.some((one) => one?.progress || one?.checkpoint))
                throw error;
            // What one handler reports must not cost all leases.
            this.#logger('error', 'the server refused what handlers reported; it is dropped', { worker_id: this.id, error: text(error) });
            sent();
            answer = await this.#heartbeat(plain, options());
        }
        const renewed = now();
        held.forEach((lease, i) => {
            const status = answer.leases[i];
            if (status?.job_id !== lease.job.id)
                throw new ForgeQueueError('the answer to the heartbeat is not in the order sent');
            if (status.status === 'lost') {
                lease.tell(new LeaseLost());
                this.#held.delete(lease.job.lease_token); // its handler may go on for long; there is no lease to extend
                return;
            }
            if (status.status === 'cancel')
                lease.tell(new CancelRequested());
            lease.renewed = renewed;
            if (status.lease_ms !== null)
                lease.length = Math.max(status.lease_ms, SHORTEST_LEASE_MS);
        });
    }
    async #heartbeat(leases, options) {
        return this.#client.call({ method: 'POST', path: ['v1', 'workers', this.id, 'heartbeat'], body: { leases }, repeatable: true }, options);
    }
    /** Sends the checkpoint of an attempt that ends, so that the next one gets it. */
    async #reportLast(lease, outcome) {
        if (outcome.kind === '' || outcome.kind === 'complete' || outcome.kind === 'wait' || lease.checkpoint === null)
            return;
        const end = now() + 5000;
        try {
            await this.#beatFor([lease], () => ({ signal: lease.sending.signal, timeoutMs: Math.max(end - now(), 0) }));
        }
        catch (error) {
            this.#logger('warn', 'the last checkpoint could not be sent', { worker_id: this.id, job_id: lease.job.id, error: text(error) });
        }
    }
    // -- the end
    async #drain() {
        this.#room.stop();
        if (await this.#attemptsEnd(this.#graceMs))
            return;
        for (const lease of this.#held.values())
            lease.tell(new Stopping());
        if (await this.#attemptsEnd(PATIENCE_MS))
            return;
        for (const abandon of this.#abandon)
            abandon();
        if (await this.#attemptsEnd(LAST_WORD_MS))
            return;
        this.#endCalls();
        await Promise.all(this.#attempts);
    }
    async #attemptsEnd(within) {
        const end = now() + Math.max(within, 0);
        while (this.#attempts.size > 0) {
            if (now() >= end || !await this.#changed.wait(end - now()))
                return this.#attempts.size === 0;
        }
        return true;
    }
    /** Deregisters: the worker is no longer listed, and what it still holds is returned. */
    async #leave() {
        try {
            await this.#client.call({ method: 'DELETE', path: ['v1', 'workers', this.id], repeatable: true }, { timeoutMs: GOODBYE_MS });
        }
        catch (error) {
            this.#logger('warn', 'deregistering failed', { worker_id: this.id, error: text(error) });
        }
    }
}
/** Wakes those that wait. A set without a waiter is remembered for the next one. */
class Wakeup {
    #set = false;
    #waiters = new Set();
    set() {
        this.#set = this.#waiters.size === 0;
        for (const waiter of [...this.#waiters])
            waiter();
    }
    /** True if the event was set, false if the time is over. Throws the reason of the signal if it aborts. */
    async wait(ms, signal) {
        signal?.throwIfAborted();
        if (this.#set) {
            this.#set = false;
            return true;
        }
        return new Promise((resolve, reject) => {
            const done = (settle) => {
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
function decide(error, cause, job, options) {
    if (cause instanceof LeaseLost)
        return { kind: '', body: {}, error };
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
    if (error instanceof Permanent)
        return { kind: 'fail', body: { error: jobError(error), permanent: true }, error };
    if (cause instanceof Stopping)
        return { kind: 'release', body: {}, error };
    let reported = error;
    if (cause instanceof TimedOut)
        reported = named('timeout', error === cause ? text(cause) : `${text(cause)}: ${text(error)}`);
    if (cause instanceof CancelRequested)
        reported = named('cancelled', error === cause ? text(cause) : `${text(cause)}: ${text(error)}`);
    let after = error instanceof RetryAfter ? error.delayMs : undefined;
    if (after === undefined && options.retry !== undefined) {
        try {
            const own = options.retry(job.attempt, error);
            after = own === undefined ? undefined : clamp(own, MAX_BACKOFF_MS);
        }
        catch { /* left to the server */ }
    }
    return { kind: 'fail', body: { error: jobError(reported), ...(after === undefined ? {} : { retry_after_ms: after }) }, error: reported };
}
/** The error of an attempt whose complete or wait was refused for itself, or for the jobs and signals that it sends; undefined if that was not the reason. */
function refusedPart(error, kind, body) {
    const status = statusOf(error);
    const fields = error instanceof Problem ? error.errors : [];
    const about = (part) => fields.some(({ field }) => field.startsWith(part) || field.includes(`].${part}`));
    const said = text(error) + fields.filter(({ field }) => !text(error).includes(field)).map(({ field, message }) => `; ${field}: ${message}`).join('');
    if (body['submit'] !== undefined && (status === 403 || (final(status) && about('submit'))))
        return named('submit', `the jobs to submit were refused: ${said}`);
    if (body['signal'] !== undefined && (status === 403 || (final(status) && about('signal'))))
        return named('signal', `the signals of other jobs were refused: ${said}`);
    if (!unfit(status))
        return undefined;
    return kind === 'wait' ? named('wait', `the wait was refused: ${said}`) : named('result', `the result was refused: ${text(error)}`);
}
/** Why a job was put back, if that was said. */
function because(type, reason) {
    return reason === '' ? {} : { error: { type, message: cut(reason, 4096) } };
}
/** An error that is reported under a type. */
function named(type, message) {
    const error = new Error(message);
    error.name = type;
    return error;
}
/** An error as the server stores it: the type is the error's name, "error" for a plain Error. */
function jobError(error) {
    const own = (error instanceof Permanent || error instanceof RetryAfter) && error.cause !== undefined ? error.cause : error;
    let type = 'error';
    if (own instanceof Error) {
        const name = own.name !== 'Error' ? own.name : own.constructor.name;
        if (name !== 'Error' && name !== '')
            type = name;
    }
    const stack = own instanceof Error ? own.stack : undefined;
    return { type: cut(type, 128), message: cut(text(error), 4096), ...(stack === undefined ? {} : { stack: cut(stack, 16384) }) };
}
/** Text of at most so many bytes, as the server accepts it. */
function cut(content, most) {
    const clean = wellFormed(content).replaceAll('\0', '');
    const encoded = new TextEncoder().encode(clean);
    return encoded.length <= most ? clean : new TextDecoder().decode(encoded.slice(0, most)).replace(/\uFFFD$/, '');
}
function encodeResult(result) {
    try {
        return encode(result);
    }
    catch (error) {
        throw new Permanent(named('result', `the result ${text(error)}`));
    }
}
const clamp = (ms, most) => Math.round(Math.min(Math.max(Number.isFinite(ms) ? ms : most, 0), most));
const keyRefused = (error) => statusOf(error) === 401 || statusOf(error) === 403;
/** Whether the server did not accept the content of a request. */
const unfit = (status) => status === 400 || status === 413 || status === 422;
/** Whether a repeat would get the same answer. */
const final = (status) => status >= 400 && status <= 499 && status !== 408 && status !== 425 && status !== 429;
/** The wait after failure n, from 0: between a half and all of first · 2^n, at most last. */
function backoff(n, first, last) {
    const full = Math.min(last, first * 2 ** Math.min(n, 20));
    return full / 2 + Math.random() * full / 2;
}
/** The server's Retry-After, at most a minute, and jitter; without it the backoff. */
function retryWait(n, last, error) {
    const own = backoff(n, 100, last);
    const asked = retryAfterMs(error) ?? 0;
    return asked > 0 ? Math.min(asked, LONGEST_ASKED_MS) + own / 4 : own;
}
/** One line for each message, on standard error. */
function log(level, message, fields) {
    console.error(JSON.stringify({ time: new Date().toISOString(), level, msg: message, ...fields }));
}
