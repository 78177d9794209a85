// Package scheduler decides in memory which lanes a claim scans, for which tenants, and which
// waiting claim is woken. It has no clock, no I/O and no SQL. Its state comes from callers and is a
// hint.
//
//	ReadyLists   which lanes have jobs, at which priority, after which cursor
//	DRR          how many jobs each tenant may take: deficit round robin by weight
//	RunTimes     how long attempts run: a DRR divides the time of workers by them
//	Parking      claims that wait, and the one that a notification wakes
package scheduler
