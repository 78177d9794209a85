package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// deadLetterGroups
//
//	@Summary     Group dead letters
//	@Description The largest groups of those that match, by fingerprint and queue. At most the newest 100,000 are read.
//	@ID          deadLetterGroups
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.HopDeadLetterGroupsRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.DeadLetterGroups] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-queue {"filter": {"queue": "default"}, "size": 50}
//	@Router      /internal/v1/dead-letter-groups [post]

// getRedrive
//
//	@Summary     Read a redrive
//	@Description How far a redrive, or a discard, by filter is.
//	@ID          redriveGets
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.HopRedriveRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Redrive] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-redrive {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"}
//	@Router      /internal/v1/redrive-gets [post]

// listRedrives
//
//	@Summary     List redrives
//	@Description A page, newest first.
//	@ID          redriveLists
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Redrive]] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-first {"page_size": 50}
//	@Router      /internal/v1/redrive-lists [post]

// cancelRedrive
//
//	@Summary     Cancel a redrive
//	@Description After the answer no core does more of it. A repeat changes nothing.
//	@ID          redriveCancels
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.HopRedriveRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Redrive] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-redrive {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"}
//	@Router      /internal/v1/redrive-cancels [post]

// audit
//
//	@Summary     Who did what
//	@Description A page of the audit log, newest first: for the operator of all tenants or of one, for a tenant of its own.
//	@ID          auditLists
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopAuditRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.AuditEntry]] "An answer for each item."
//	@x-access    "manager or operator"
//	@x-problems  ["not_found"]
//	@x-example-redrives {"filter": {"action": "redrive.create"}, "page_size": 50}
//	@Router      /internal/v1/audit-lists [post]
