// Package api holds the shapes that travel: the public HTTP contract, the
// envelope between gateway and core, and the sizes that both enforce.
//
// JSON is snake_case. An answer carries every field, null where there is none;
// a request may leave out any field, and null means absent. Times are RFC 3339
// in UTC with microseconds, durations whole milliseconds in fields that end in _ms.
package api
