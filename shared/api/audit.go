package api

import "encoding/json"

// AuditEntry says who did what, and when. Entries are never changed; they go when
// their retention has passed.
type AuditEntry struct {
	ID string `json:"id"`
	// Tenant is the tenant that owns the object; null for objects of no tenant, such as a plan.
	Tenant *string    `json:"tenant"`
	Actor  AuditActor `json:"actor"`
	Action string     `json:"action"`
	// Object names what was acted on: a job, a queue, a redrive, a key. Null where
	// detail names many.
	Object *string `json:"object"`
	// Detail is an object with what was asked for, or with the count and ids of
	// several; its members depend on the action.
	Detail json.RawMessage `json:"detail" swaggertype:"object"`
	At     Time            `json:"at" swaggertype:"string" format:"date-time"`
}

// AuditActor is who acted: Kind is tenant or operator, KeyID the API key, User the
// user that the key is bound to. KeyID is oidc: and a name for a person who signed in
// to the console by single sign-on.
type AuditActor struct {
	Kind  string  `json:"kind"`
	KeyID *string `json:"key_id"`
	User  *string `json:"user"`
}

// Actions of audit entries.
const (
	AuditRedrive        = "dead_letter.redrive"
	AuditDiscard        = "dead_letter.discard"
	AuditRedriveCreate  = "redrive.create"
	AuditRedriveCancel  = "redrive.cancel"
	AuditBulkCreate     = "bulk.create"
	AuditBulkCancel     = "bulk.cancel"
	AuditWorkflowCancel = "workflow.cancel"
	AuditJobDelete      = "job.delete"
	AuditQueuePut       = "queue.put"
	AuditQueuePause     = "queue.pause"
	AuditQueueResume    = "queue.resume"
	AuditQueueDelete    = "queue.delete"
	AuditQueueProbe     = "queue.probe"
	AuditTenantCreate   = "tenant.create"
	AuditTenantPatch    = "tenant.patch"
	AuditTenantDelete   = "tenant.delete"
	AuditKeyCreate      = "key.create"
	AuditKeyRevoke      = "key.revoke"
	AuditSessionsEnd    = "key.end_sessions"
	AuditPlanPut        = "plan.put"

	AuditWebhookPut    = "webhook.put"
	AuditBudgetPut     = "budget.put"
	AuditBudgetDelete  = "budget.delete"
	AuditWebhookRotate = "webhook.rotate_secret"
	AuditWebhookDelete = "webhook.delete"
	AuditWebhookTest   = "webhook.test"
	AuditWebhookProbe  = "webhook.probe"

	AuditSchedulePut     = "schedule.put"
	AuditSchedulePause   = "schedule.pause"
	AuditScheduleResume  = "schedule.resume"
	AuditScheduleTrigger = "schedule.trigger"
	AuditScheduleDelete  = "schedule.delete"

	AuditTypePut    = "type.put"
	AuditTypeDelete = "type.delete"
)

// AuditActions lists them all.
func AuditActions() []string {
	return []string{
		AuditRedrive, AuditDiscard, AuditRedriveCreate, AuditRedriveCancel, AuditBulkCreate, AuditBulkCancel, AuditWorkflowCancel, AuditJobDelete, AuditQueuePut, AuditQueuePause, AuditQueueResume, AuditQueueProbe, AuditQueueDelete,
		AuditTenantCreate, AuditTenantPatch, AuditKeyCreate, AuditSessionsEnd, AuditKeyRevoke, AuditPlanPut,
		AuditSchedulePut, AuditSchedulePause, AuditScheduleResume, AuditScheduleTrigger, AuditScheduleDelete,
		AuditWebhookPut, AuditWebhookRotate, AuditWebhookTest, AuditWebhookProbe, AuditWebhookDelete, AuditTypePut, AuditTypeDelete, AuditBudgetPut, AuditBudgetDelete, AuditTenantDelete,
	}
}

// AuditFilter narrows a list of audit entries; what is absent matches all.
type AuditFilter struct {
	// Tenant is the operator's to set; a tenant sees its own entries only.
	Tenant string `json:"tenant,omitzero"`
	Action string `json:"action,omitzero"`
	Object string `json:"object,omitzero"`
	KeyID  string `json:"key_id,omitzero"`
	After  *Time  `json:"after,omitzero"`
	Before *Time  `json:"before,omitzero"`
}
