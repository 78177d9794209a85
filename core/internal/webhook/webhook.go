// Package webhook has tenants' subscriptions to the ends of jobs and workflows, and makes a job of each event
// that the statements append which end jobs (package events): the tables webhooks and webhook_events.
//
//	a job ends ──▶ the same statement appends an event for each webhook that matches
//	event ──▶ a job of the system queue _webhook.NAME, in the transaction that deletes the event
//	the push executor ──▶ calls the URL, with retries, breaker and signature of any queue in push mode
//
// What holds:
//
//   - Which webhooks match is asked by the statement that ends the job: one that was committed before it
//     gets the event, whichever core ends the job.
//   - An event has the job as it ended. What becomes of the job later, a redrive or a deletion, does not
//     change it.
//   - Of a job whose type has sensitive fields an event shows no more than to a key without the scope payload: nothing says who
//     reads it.
//   - An event is deleted in the transaction that stores its delivery: there is exactly one.
//   - A flush without a tenant that has webhooks pays one look-up for each of its tenants.
package webhook

import (
	"github.com/forgequeue/forgequeue/core/internal/mask"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Hooks has the statements.
type Hooks struct {
	*store.Store

	// Masks hides what is sensitive in events: a webhook has no key.
	Masks *mask.Masks
}
