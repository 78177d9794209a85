// Package bench is `forgequeue-bench`: it puts load on a running ForgeQueue and reports throughput, latencies and
// errors.
//
//	settings ▶ target (gateway or core, perhaps a stack of its own) ▶ callers (tenants, keys)
//	        ▶ scenario: producers and consumers, each sender with a connection of its own
//	        ▶ recorder ▶ report
//
// Load is open-loop by default: the intended start of request n is n ÷ rate, and its latency counts from there,
// sent late or not. A generator that waits for slow answers before it sends the next request would leave out those
// that waited ("coordinated omission", Gil Tene). A request that could not be sent at all counts with a latency
// up to the end of the run.
//
// The generator shares the machine with what it measures, so it has to be cheap:
// internal/wire writes the requests and reads the answers by hand.
package bench
