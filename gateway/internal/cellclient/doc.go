// Package cellclient is the hop: signed calls from the gateway to the cores of one cell.
// Package coreclient knows the cells.
//
//	Call ── Envelope of one item
//	  │
//	  │ enter   breaker of the class open? ──▶ ErrUnavailable, at once
//	  │         a turn among the calls in flight (gate.go) ──▶ or ErrOverloaded
//	  │         parked calls: a place of their own, no breaker
//	  ▼
//	 try ── signed, with its own deadline ──▶ core
//	  │                                        │
//	  │  401 assertion_expired + core's clock ◀┤ learn the offset, repeat
//	  │  any other refusal of the call        ◀┤ a problem
//	  │  no answer ────────────────────────────┤ repeat once where that is safe and the
//	  ▼                                        │ budget has it, on a new connection, else
//	Result ◀──────── Results of one ───────────┘ say what is not known
//
// A call that was not sent has certainly changed nothing. One that was sent and not
// answered is in doubt, and stays so if its repeat fails.
//
// Calls of many callers that come close together share an envelope, see shared.go.
package cellclient
