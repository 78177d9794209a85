package httpapi

// The comments of the handlers, which are here and in packages operations and administration, become api-docs/core.json. e2e/openapi takes what the code says from the code:
// path, group and access from the table of operations (shared/server/hop), request, paging and answer from the handler's types. A
// comment's first sentence is the summary, the others are the description. An annotation says what is left:
//
//   - ID: the operation's name, where that of its path would be a schema's too.
//   - x-problems: the codes that an item's answer may have beyond the usual ones.
//   - x-example-NAME: one item's request, put into an envelope. Without one it is a page of 50, or empty.
//   - Success 200, default and 202: the shapes of an item's answer, where its type does not say it. The call's is 200.

// The document as a whole:
//
//	@title           ForgeQueue core
//	@version         0.1.0
//	@description     What gateways ask of core. It is no public API: it listens on an internal address, answers signed calls only, and changes with the gateway. "Try it out" is off here: a browser cannot sign.
//	@description
//	@description     **Every call** is a POST of `{"items": [...]}`, many callers' requests in one, 1 to 1000. The answer is 200 with one entry of `results` for each item, in order: a `status` with a `value`, or with a `problem`. Only an envelope that cannot be read is refused as a whole.
//	@description
//	@description     **Every item** has its own `principal`, as the gateway proved it from the API key. Core trusts it because the body is signed as a whole.
//	@description
//	@description     **The signature**, in `Forgequeue-Assertion`: `v1 t=<unix microseconds> s=<hex>`, HMAC-SHA-256 over method, path, body and time under the hop's secret. A time more than 30 s off is 401 `assertion_expired`, with core's own in `Forgequeue-Time`. A signature is taken once; the second time is 409 `assertion_taken`.
//	@description
//	@description     `Forgequeue-Timeout-Ms` says how long the gateway still waits.
//	@license.name    Apache-2.0
//	@license.url     https://www.apache.org/licenses/LICENSE-2.0
//	@tag.name        Jobs
//	@tag.description Submit, read, cancel, wait.
//	@tag.name        Workflows
//	@tag.description Jobs that run after others.
//	@tag.name        Workers
//	@tag.description Claims, heartbeats, outcomes.
//	@tag.name        Queues
//	@tag.description Settings and depths.
//	@tag.name        Dead letters
//	@tag.description List, redrive, discard.
//	@tag.name        Job types
//	@tag.description JSON Schemas of payloads and results, and defaults.
//	@tag.name        Webhooks
//	@tag.description Calls of a tenant's URL when jobs and workflows end.
//	@tag.name        Schedules
//	@tag.description One job a tick, by cron or interval.
//	@tag.name        Tenants and keys
//	@tag.description For the operator, for keys with the scope `admin`, and for the gateway's own look-ups.
//	@tag.name        Health
//	@tag.description Probes; they need no signature.
