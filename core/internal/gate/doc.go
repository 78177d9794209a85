// Package gate decides when a job with a key may be claimed.
//
// Keys take turns. In a fair lane ready_at is no time but a turn, by start-time fair queueing (Goyal, Vin, Cheng 1996): a job's
// turn is one step after the last turn of its key, or, where its key has none left, just less than a step after V, which is the
// first turn that waits. So claims read the ready index in its order, as in other lanes, and each key gets its share by weight:
//
//	turns    V        V+1       V+2       V+3
//	key a    a1       a2        a3        a4 …   a backlog of any length
//	key b              b1                        came last, and starts second
//
// A step is 100 µs by weight 1, less than a lane needs for a job, so that turns are seldom ahead of the time. A lane in which
// nothing waits begins with the time.
//
// A limit by key is a gate in front of the ready index, and no filter behind it: a job that may not run is queued without a
// ready_at, and no claim meets it. Two kinds of jobs are past the gate of a key, queued ones with a ready_at and running ones,
// and there are never more than the limit. What takes a job away from there appends a row to key_checks, in its own statement;
// Pass, the only one that lets jobs through after their submit, works these rows off. Both count under the lock of the tenant.
//
// A job that becomes ready again (retry, snooze, promotion, redrive, end of its parents) comes to the gate, whether its key has
// a limit or not: Pass gives it its turn. A submit asks for the turns itself.
package gate
