// Package bench is `forgequeue bench`: load for a running ForgeQueue, and what came
// of it.
//
//	settings ▶ target (gateway or core, perhaps a stack of its own) ▶ callers (tenants, keys)
//	        ▶ scenario: producers and consumers, each sender with a connection of its own
//	        ▶ recorder ▶ report
//
// Load is open-loop unless asked otherwise: request n is meant to start at n ÷ rate,
// and its latency is counted from that moment, sent late or not. A generator that
// waits for slow answers before it sends on would leave out the very requests that
// suffered (Gil Tene's "coordinated omission"). What could not be sent at all is
// counted as late as the run was long, never left out.
//
// The generator shares the machine with what it measures, so it has to be cheap:
// internal/wire writes the requests and reads the answers by hand.
package bench
