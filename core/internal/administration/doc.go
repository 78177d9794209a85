// Package administration does what operators ask of core, and keys with the scope admin: the operations of package hop that
// package httpapi gives a route, an item of a call each. What tenants and workers ask for is in package operations.
//
//	tenants      tenants: created, changed, deleted
//	cells        in which cell a new tenant is, and the directory that other cells copy
//	plans        named sets of limits
//	limits       caps in use, and how changed limits come into force
//	keys         API keys, for their owners and for the gateway's look-ups
//	audit        the audit log
//	stats        figures: what jobs did, what was used of limits, bills
//	installation the state of the installation, and the processes that report themselves
package administration
