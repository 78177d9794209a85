package httpapi

// The annotations in the handlers' comments become api-docs/gateway.json: `make
// api-docs` has swag read them, and e2e/openapi adds what the table of routes says (method, path and its
// parameters, those of a page, who may call) and what is the same for all routes. They are swag's own and these, whose
// values are JSON:
//
//   - x-problems: the codes beyond those that every route of its kind has.
//   - x-example-NAME: a body that works, as a test shows.
//   - Success default: another shape that the answer 200 may have.

// The document as a whole:
//
//	@title           ForgeQueue
//	@version         0.1.0
//	@description     A job queue with leases, retries and dead letters. Producers submit jobs; workers claim them, extend their leases with heartbeats and report outcomes.
//	@description
//	@description     **Authorize** with an API key, sent as `Authorization: Bearer <key>`; `forgequeue up` prints one. A key has scopes: `submit`, `read`, `work`, `manage`, `admin`. A key that is bound to a user acts only for that user. The operator key is valid only for `/v1/admin`.
//	@description
//	@description     **Shapes.** JSON in snake_case. Times are RFC 3339 in UTC with microseconds, durations whole milliseconds in fields that end in `_ms`. In a request, null means absent. An answer has every field, null if there is no value, and may get new fields. Unknown fields and query parameters are refused.
//	@description
//	@description     **Errors** are `application/problem+json` (RFC 9457) with a `code` from a fixed list; the `type` of each is a page that says what to do. Other tenants' resources return 404.
//	@description
//	@description     **Headers.** Every answer has `X-Request-Id`, which names the request in the gateway's log, and `X-Correlation-Id`, the id sent or that of the request. **Limits.** `RateLimit` and `RateLimit-Policy` describe each bucket that a request was charged to; 429 and 503 have `Retry-After`.
//	@license.name    Apache-2.0
//	@license.url     https://www.apache.org/licenses/LICENSE-2.0
//	@tag.name        Jobs
//	@tag.description Submit jobs, read them, cancel them.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/sdk-go.md
//	@tag.docs.description Guide: producing
//	@tag.name        Workers
//	@tag.description Claim jobs, extend leases, report outcomes.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/worker-protocol.md
//	@tag.docs.description Guide: the worker protocol
//	@tag.name        Queues
//	@tag.description Settings, depths, pausing.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/push.md
//	@tag.docs.description Guide: queues that push
//	@tag.name        Dead letters
//	@tag.description Jobs that ran out of attempts, and how to run them again.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/dead-letters.md
//	@tag.docs.description Guide: dead letters
//	@tag.name        Workflows
//	@tag.description Jobs that run after others.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/workflows.md
//	@tag.docs.description Guide: workflows
//	@tag.name        Schedules
//	@tag.description One job each tick, by cron or interval.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/schedules.md
//	@tag.docs.description Guide: schedules
//	@tag.name        Job types
//	@tag.description What the payloads and results of each type of job must look like, as JSON Schemas, and the defaults of its submits.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/types.md
//	@tag.docs.description Guide: job types
//	@tag.name        Webhooks
//	@tag.description Calls of your URL when jobs and workflows end.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/webhooks.md
//	@tag.docs.description Guide: webhooks
//	@tag.name        Self
//	@tag.description What your key may do, and its limits.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/errors.md
//	@tag.docs.description All problem codes
//	@tag.name        Keys
//	@tag.description Make, list and revoke the keys of your tenant, with a key that has the scope `admin`.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/keys.md
//	@tag.docs.description Guide: keys
//	@tag.name        Health
//	@tag.description Probes; no key is needed.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/deploy.md
//	@tag.docs.description Guide: deployment
//	@tag.name        Admin
//	@tag.description Tenants, keys and plans, for the operator key. Without a configured operator key these routes return 404.
//	@tag.docs.url    https://github.com/forgequeue/forgequeue/blob/main/api-docs/operations.md
//	@tag.docs.description Guide: operations
