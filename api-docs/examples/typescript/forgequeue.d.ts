/**
 * A client and a worker for ForgeQueue: one file, no packages. The client runs in Node.js 20 or newer, Deno and browsers,
 * the worker in Node.js and Deno.
 *
 * Requests and answers have the fields of the HTTP API, as api-docs/gateway.json documents them. Durations that this file
 * adds are milliseconds, in names that end in Ms. JavaScript rounds whole numbers above 2^53 (Number.MAX_SAFE_INTEGER): names
 * that end in Json are the text of a value as the server sent it.
 */
/** The states of a job. */
export type State = 'blocked' | 'scheduled' | 'waiting' | 'queued' | 'running' | 'completed' | 'dead_letter' | 'cancelled';
/** An error of an attempt. */
export interface JobError {
    type: string;
    message: string;
    stack?: string;
}
/** How long a job waits after a failed attempt. */
export interface Retry {
    base_ms?: number;
    cap_ms?: number;
    jitter?: number;
    curve?: 'exponential' | 'linear' | 'constant';
}
/** How far an attempt is: percent is 0 to 100; null is not known. */
export interface Progress {
    percent: number | null;
    message: string | null;
}
/** A job that must have ended before another one starts. */
export interface Dependency {
    job_id: string;
    on_failed?: 'cancel' | 'run' | 'hold';
}
/** Amounts of budgets, by the name of the budget: whole numbers from 0. */
export type Amounts = Record<string, number>;
/**
 * A key that is unique among live jobs, and what becomes of a second job with it: keep (also if absent) answers with the live one;
 * replace gives one that waits the new content, and one that runs a follower; extend also waits for delay_ms again, at the latest
 * until max_delay_ms after the first submit; fail refuses it.
 */
export interface Dedupe {
    key: string;
    on_live?: 'keep' | 'replace' | 'extend' | 'fail';
    max_delay_ms?: number;
}
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
    workflow: {
        id: string;
        ref: string;
    } | null;
    after: {
        job_id: string;
        state: State;
        on_failed: string;
    }[];
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
    job: {
        id: string;
        state: State;
        run_at: string | null;
    } | null;
    problem: ProblemDocument | null;
}
/** The answer to a batch, in the order sent. */
export interface BatchAnswer {
    results: BatchResult[];
    accepted: number;
    rejected: number;
    replayed: boolean;
}
/** One page of a list; it may be short or empty while it has a next_page_token. */
export interface Page<Item> {
    items: Item[];
    next_page_token: string | null;
}
/** Which page: size is 1 to 200 items (50), token the page before's next_page_token. */
export interface PageRequest {
    size?: number;
    token?: string;
}
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
export interface Output {
    id: string;
    stream: Stream;
    text: string;
    at: string;
    gap: boolean;
}
/** A part of what a job has written, the oldest first. truncated: some of it is no longer kept; more: there is more after it. */
export interface OutputPage {
    items: Output[];
    truncated: boolean;
    more: boolean;
}
/** A signal that a job has. */
export interface Signal<Data = unknown> {
    name: string;
    data: Data | null;
    at: string;
}
/** The answer to a signal. first is false where the job had one of this name before, which stays. */
export interface Signalled {
    name: string;
    at: string;
    first: boolean;
}
/** What the page of a link asks, such as "Refund order 1234?", and for how long the link is good: 7 days if that is absent. */
export interface SignalLinkOptions {
    title?: string;
    expiresMs?: number;
}
/** A URL that sends one signal of a job. */
export interface SignalLink {
    url: string;
    expires_at: string;
}
/** What dead letters have; all of it must match. after and before are about when they became dead letters. */
export interface DeadLetterFilter {
    queue?: string;
    type?: string;
    reason?: string;
    fingerprint?: string;
    after?: string;
    before?: string;
}
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
    to?: {
        queue?: string;
        priority?: number;
        delay_ms?: number;
    };
    rate_per_second?: number;
}
/** How far a bulk action is: done were changed, refused stayed, by the code of the reason in refusals. */
export interface Bulk {
    id: string;
    action: BulkRequest['action'];
    filter: BulkFilter;
    to: {
        queue?: string;
        priority?: number;
        delay_ms?: number;
    } | null;
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
    types?: Record<string, {
        max_running?: number | null;
        rate_per_second?: number | null;
    }>;
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
export interface BudgetUsages {
    budget: string;
    unit: string;
    days: {
        day: string;
        reserved: number;
        used: number;
        overdrawn: number;
    }[];
}
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
    errors: {
        field: string;
        message: string;
    }[];
    policies: {
        name: string;
        limit: number;
        current: number;
        retry_after_ms: number | null;
    }[];
}
/** What all errors of this file are. */
export declare class ForgeQueueError extends Error {
    constructor(message: string, options?: {
        cause?: unknown;
    });
}
/** A refusal by the server, with a code of the closed set in api-docs/errors.md. */
export declare class Problem extends ForgeQueueError {
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
    constructor(call: string, document: ProblemDocument);
}
/** An answer that is not of the API: usually from a proxy, or another server. */
export declare class StatusError extends ForgeQueueError {
    readonly status: number;
    /** The start of the body. */
    readonly body: string;
    readonly retryAfterMs: number | null;
    constructor(call: string, status: number, body: string, retryAfterMs: number | null, cause?: unknown);
}
/** The server could not be reached, or its answer did not arrive. The call may have taken effect. */
export declare class NoAnswerError extends ForgeQueueError {
}
/** The time that the caller has given is over. */
export declare class DeadlineError extends ForgeQueueError {
    /** The job as it was last seen, if wait was called. */
    job?: Job;
}
/** A job has ended otherwise than completed. */
export declare class EndedError extends ForgeQueueError {
    readonly job: Job;
    readonly state: State;
    /** Why it is a dead letter; null if it was cancelled. */
    readonly reason: string | null;
    constructor(job: Job);
}
/** A batch of submitMany was refused as a whole, or had no answer; cause says why. */
export declare class SubmitManyError extends ForgeQueueError {
    /** The results of the batches before. Later jobs are not stored; those of the batch without an answer, perhaps. */
    readonly answer: BatchAnswer;
    constructor(message: string, answer: BatchAnswer, cause: unknown);
}
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
/** Calls one server with one key. Make one and share it: it has a budget for repeats of its own. */
export declare class Client {
    #private;
    constructor(options: ClientOptions);
    /** A client by FORGEQUEUE_URL, and FORGEQUEUE_API_KEY or FORGEQUEUE_API_KEY_FILE. */
    static fromEnv(change?: Partial<ClientOptions>): Promise<Client>;
    /** Stores one job. Check warnings, deduplicated and replaced of the answer. */
    submit(job: SubmitRequest, options?: SubmitOptions): Promise<Submitted>;
    /** Submits a new job like one that has ended; differs says in what it differs. */
    rerun(id: string, differs?: Partial<SubmitRequest>, options?: SubmitOptions): Promise<Submitted>;
    /** Stores up to 1000 jobs in one request; with atomic all or none. Without atomic look at rejected, and at the problem of each result. */
    submitBatch(jobs: SubmitRequest[], options?: SubmitOptions & {
        atomic?: boolean;
    }): Promise<BatchAnswer>;
    /**
     * Stores any number of jobs, in batches of at most 1000 jobs and 8 MiB, one after the other. The answer has a result for
     * each, in order: a job or a problem. Throws SubmitManyError, with the results so far, if a batch has no answer or is refused
     * as a whole. With idempotencyKey the nth batch has that key with "/n" added, the first the key as it is. timeoutMs is that
     * of each batch.
     */
    submitMany(jobs: SubmitRequest[], options?: SubmitOptions): Promise<BatchAnswer>;
    /** Reads one job. The problem not_found stands for the jobs of others too. */
    get<Result = unknown>(id: string, options?: CallOptions): Promise<Job<Result>>;
    /** Reads one job, with the ETag of the version that was read: for the option ifMatch of patchJob. */
    getWithETag<Result = unknown>(id: string, options?: CallOptions): Promise<{
        job: Job<Result>;
        etag: string;
    }>;
    /** Waits until the job has ended: completed, dead_letter or cancelled. Throws DeadlineError after timeoutMs, if given, with the job as last seen. */
    wait<Result = unknown>(id: string, options?: CallOptions): Promise<Job<Result>>;
    /** Waits for the result of a job; throws EndedError if it is not completed. */
    result<Result = unknown>(id: string, options?: CallOptions): Promise<Result>;
    /** Submits a job and waits for its result. timeoutMs is for both. */
    submitAndWait<Result = unknown>(job: SubmitRequest, options?: SubmitOptions): Promise<Result>;
    /** Gives one page of the jobs that match, newest first. */
    list(filter?: JobFilter, page?: PageRequest, options?: CallOptions): Promise<Page<JobSummary>>;
    /** Gives all jobs that match, newest first, page by page. */
    all(filter?: JobFilter, options?: CallOptions): AsyncGenerator<JobSummary, void, undefined>;
    /** Gives one page of the executions of a job. */
    attempts(id: string, page?: PageRequest, options?: CallOptions): Promise<Page<Attempt>>;
    /** Gives a page of what the job has written, the oldest first: what came after the piece with the id after. */
    output(id: string, after?: string, options?: CallOptions): Promise<OutputPage>;
    /** Gives all that the job has written until now, page by page. */
    allOutput(id: string, after?: string, options?: CallOptions): AsyncGenerator<Output, void, undefined>;
    /**
     * Changes a job that waits, and gives it as it is now. The problem job_started says that it runs, or has ended. ifMatch is the ETag
     * of the version that is changed: precondition_failed says that the job is another one by now, or that an answer was lost and the
     * call repeated.
     */
    patchJob<Result = unknown>(id: string, changes: JobPatch, options?: CallOptions & {
        ifMatch?: string;
    }): Promise<Job<Result>>;
    /** Ends a job that waits. One that runs is asked to end: cancel_requested is set. The problem job_terminal says that it has ended. */
    cancel(id: string, options?: CallOptions): Promise<JobSummary>;
    /**
     * Tells a job something under a name, and wakes it if that is what it waits for; a signal that comes before is kept. The first signal
     * of a name stays: first is false where there was one, which a repeat after a lost answer finds too. The problem job_terminal says
     * that the job has ended.
     */
    signal(id: string, name: string, data?: unknown, options?: CallOptions): Promise<Signalled>;
    /** Makes a URL by which a person without a key sends one signal of a job, once, in a browser. */
    signalLink(id: string, name: string, link?: SignalLinkOptions, options?: CallOptions): Promise<SignalLink>;
    /** Deletes an ended job and its attempts. */
    deleteJob(id: string, options?: CallOptions): Promise<void>;
    /** Queues a dead letter again. It is not repeated if its answer is lost: a repeat would be refused with not_dead. */
    redrive(id: string, options?: CallOptions): Promise<JobSummary>;
    /** Queues 1 to 1000 dead letters again; each has its own result. Not repeated, like redrive. */
    redriveDeadLetters(ids: string[], options?: CallOptions): Promise<{
        results: BatchResult[];
    }>;
    /** Begins to queue again all dead letters that match, in the server; rate is how many at most in a second. */
    redriveMatching(filter: DeadLetterFilter, rate?: number, options?: CallOptions): Promise<Redrive>;
    /** Counts the dead letters that match. */
    countMatching(filter: DeadLetterFilter, options?: CallOptions): Promise<{
        matched: number;
        matched_capped: boolean;
    }>;
    /** Reads how far a redrive is. */
    getRedrive(id: string, options?: CallOptions): Promise<Redrive>;
    /** Begins to change all jobs that match now, in the server. It is not repeated if its answer is lost. */
    bulk(request: BulkRequest, options?: CallOptions): Promise<Bulk>;
    /** Counts the jobs that a bulk action would change. */
    countBulk(request: BulkRequest, options?: CallOptions): Promise<{
        matched: number;
        matched_capped: boolean;
    }>;
    /** Reads how far a bulk action is. */
    getBulk(id: string, options?: CallOptions): Promise<Bulk>;
    /** Stops a bulk action; what was changed stays changed. */
    cancelBulk(id: string, options?: CallOptions): Promise<Bulk>;
    /** Gives one page of the dead letters that match. */
    deadLetters(filter?: DeadLetterFilter, page?: PageRequest, options?: CallOptions): Promise<Page<DeadLetter>>;
    /** Makes a queue, or replaces all of its settings. */
    putQueue(name: string, settings: QueueRequest, options?: CallOptions): Promise<Record<string, unknown>>;
    /** Makes a budget, or replaces all of its settings. One that is closed is open again. */
    putBudget(name: string, settings: BudgetRequest, options?: CallOptions): Promise<Budget>;
    /** Reads a budget. subject is the user or key whose available is read, of a budget by user or key. */
    budget(name: string, subject?: string, options?: CallOptions): Promise<Budget>;
    /** Gives one page of the budgets, by name. */
    budgets(page?: PageRequest, options?: CallOptions): Promise<Page<Budget>>;
    /** Deletes a budget and its usage. Costs that name it are ignored from then on. */
    deleteBudget(name: string, options?: CallOptions): Promise<void>;
    /** Reads what was used of a budget. days is the first and the last one, as YYYY-MM-DD; this month if absent. */
    budgetUsage(name: string, days?: {
        from?: string;
        to?: string;
    }, options?: CallOptions): Promise<BudgetUsages>;
    /** Calls any route of the API. Gives the body of the answer, undefined if it has none. */
    call<T>(call: Call, options?: CallOptions): Promise<T>;
    /** Calls any route of the API. Gives the body of the answer and its text, in which no number is rounded. */
    callWithJson<T>(call: Call, options?: CallOptions): Promise<{
        body: T;
        json: string;
    }>;
}
/** Gives all items of a list, page by page: pages((page) => client.deadLetters({ queue: 'mail' }, page)). */
export declare function pages<Item>(list: (page: PageRequest) => Promise<Page<Item>>): AsyncGenerator<Item, void, undefined>;
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
export declare function verify(secret: string | string[], headers: Headers | Record<string, string | string[] | undefined>, body: string | Uint8Array | ArrayBuffer, options?: VerifyOptions): Promise<boolean>;
/** Why the signal of a job has aborted: its reason. */
export declare class LeaseLost extends ForgeQueueError {
    constructor();
}
/** The cancellation of the job was requested. */
export declare class CancelRequested extends ForgeQueueError {
    constructor();
}
/** The attempt has used up the job's timeout_ms, or the handler's own timeoutMs. */
export declare class TimedOut extends ForgeQueueError {
    constructor();
}
/** The worker stops, and its grace period is over. */
export declare class Stopping extends ForgeQueueError {
    constructor();
}
/** Thrown by a handler: the job becomes a dead letter at once. */
export declare class Permanent extends ForgeQueueError {
    constructor(error: unknown);
}
/** Thrown by a handler: the attempt fails, and the next one comes after so many milliseconds, at most 7 days. */
export declare class RetryAfter extends ForgeQueueError {
    readonly delayMs: number;
    constructor(error: unknown, delayMs: number);
}
/** Thrown by a handler: the job comes back after so many milliseconds, and no attempt is used up. The reason, if any, becomes its last error. */
export declare class Snooze extends ForgeQueueError {
    readonly delayMs: number;
    readonly reason: string;
    constructor(delayMs: number, reason?: string);
}
/**
 * Thrown by a handler that was refused, such as by a provider with 429: for so many milliseconds the budget is closed for all jobs,
 * then the job comes back. No attempt is used up. The reason, if any, becomes its last error.
 */
export declare class Throttled extends ForgeQueueError {
    readonly budget: string;
    readonly delayMs: number;
    readonly reason: string;
    constructor(budget: string, delayMs: number, reason?: string);
    /** One by the value of a Retry-After header, seconds or a date: at least a second, and 10 seconds if it is absent or neither. */
    static of(budget: string, retryAfter: string | null | undefined, reason?: string): Throttled;
}
/**
 * Thrown by a handler: the job waits for any of some signals, at most 16, for so many milliseconds at most. Without signals it sleeps.
 * It uses up no attempt, and takes no slot meanwhile. When a signal comes, or the time is up, the handler is called again, from the
 * beginning: job.received(name) and job.woken_by say what has come, and job.restore() gives the last checkpoint, which is sent with the
 * wait, as the jobs of follow and the signals of thenSignal are.
 */
export declare class Wait extends ForgeQueueError {
    readonly timeoutMs: number;
    readonly signals: readonly string[];
    readonly mode: 'any' | 'all';
    constructor(timeoutMs: number, ...signals: string[]);
    /** One for all of the signals. */
    static all(timeoutMs: number, ...signals: string[]): Wait;
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
    workflow: {
        id: string;
        ref: string;
    } | null;
    parents: {
        ref: string | null;
        job_id: string;
        state: State;
    }[];
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
/**
 * Claims jobs and runs their handlers. While there is a backlog and handlers take less than 100 ms on average, it claims what its
 * slots will do in the next 50 ms, ten jobs a slot at most. One that gets no slot within 80 ms is released, which spends no attempt.
 * Outcomes share requests.
 */
export declare class Worker {
    #private;
    readonly id: string;
    constructor(options: WorkerOptions);
    /** Sets the handler of the jobs of a type. Call it before run, once for each type. */
    handle<Payload = any, Result = unknown>(type: string, handler: Handler<Payload, Result>, options?: HandlerOptions): this;
    /** Sets the handler of the jobs of all other types. The worker then claims all types. */
    handleAny(handler: Handler, options?: HandlerOptions): this;
    /**
     * Registers the worker, then claims and runs jobs until the signal aborts. It then claims no more, lets handlers go on for
     * graceMs, aborts their signals, releases the jobs that are left, and deregisters. A key that is refused (401, 403) ends run
     * in the same way, and throws. All other failures are retried.
     */
    run(options?: {
        signal?: AbortSignal;
    }): Promise<void>;
    /**
     * Runs until SIGTERM or SIGINT. A second signal ends the process at once. If a handler has not returned although its signal has
     * aborted, the process is ended a second after this returns: nothing else can end the handler.
     */
    runUntilSignal(signals?: string[]): Promise<void>;
}
