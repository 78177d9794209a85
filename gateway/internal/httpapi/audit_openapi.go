package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// listAudit
//
//	@Summary     Who did what
//	@Description What was done to what is the tenant's, and by which key, newest first: dead letters, redrives, queues, and what the operator did to the tenant and its keys. An entry commits with what it tells of, or neither does; it is kept for a year, unless the operator has set another time. Secrets are in none.
//	@ID          listAudit
//	@Tags        Self
//	@Param       action     query string false "Of this action." Enums(dead_letter.redrive, dead_letter.discard, redrive.create, redrive.cancel, queue.put, queue.pause, queue.resume, tenant.create, tenant.patch, key.create, key.revoke, plan.put)
//	@Param       object     query string false "Done to this: the id of a job, a redrive, a key or a tenant, or the name of a queue or a plan."
//	@Param       key_id     query string false "Done with this key."
//	@Param       after      query string false "Done after this time." Format(date-time)
//	@Param       before     query string false "Done before this time." Format(date-time)
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.AuditEntry] "A page of entries."
//	@x-access    "manage unbound"
//	@Router      /v1/audit [get]

// listAudit
//
//	@Summary     Who did what, everywhere
//	@Description As `GET /v1/audit`, of all tenants, or of one. `tenant` is null in entries about plans and platform keys.
//	@ID          listAllAudit
//	@Tags        Admin
//	@Param       tenant     query string false "What is this tenant's." Format(uuid)
//	@Param       action     query string false "Of this action." Enums(dead_letter.redrive, dead_letter.discard, redrive.create, redrive.cancel, queue.put, queue.pause, queue.resume, tenant.create, tenant.patch, key.create, key.revoke, plan.put)
//	@Param       object     query string false "Done to this: the id of a job, a redrive, a key or a tenant, or the name of a queue or a plan."
//	@Param       key_id     query string false "Done with this key."
//	@Param       after      query string false "Done after this time." Format(date-time)
//	@Param       before     query string false "Done before this time." Format(date-time)
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.AuditEntry] "A page of entries."
//	@x-access    "operator"
//	@Router      /v1/admin/audit [get]
