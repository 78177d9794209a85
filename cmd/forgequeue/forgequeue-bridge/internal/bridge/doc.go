// Package bridge takes messages from an AMQP queue or from SQS, and submits each as a job.
//
//	take ─▶ submit, with the message's id as Idempotency-Key ─▶ accepted: acked (deleted)
//	           ▲          │                                  ├─▶ refused for good: rejected (left to the redrive policy)
//	           └─ pause ──┘ the server is away or busy        └─▶ this process ends: given back
//
// A message is acked after the server has answered that its job is stored, and never before. Where the answer or the
// ack is lost the message comes again, and the server recognises its id: it is one job.
package bridge
