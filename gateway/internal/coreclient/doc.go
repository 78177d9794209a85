// Package coreclient is the hop: signed calls from the gateway to core.
//
//	Call ── Envelope of one item, signed ──▶ core
//	  │                                        │
//	  │  401 assertion_expired + core's clock ◀┤ learn the offset, repeat once
//	  │  any other refusal of the call        ◀┤ a problem
//	  │  no answer ────────────────────────────┤ repeat once where that is safe,
//	  ▼                                        │ else say what is not known
//	Result ◀──────── Results of one ───────────┘
//
// A call carries one item today. Gathering many callers' items into one envelope
// belongs here as well, between Call and attempt.
package coreclient
