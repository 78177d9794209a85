// Package answers makes what an item of a call is answered with, for those that serve items:
//
//	errors    the problem that each of core's errors is to its caller
//	results   the result of an item: a value, or a problem
//	json      a value as JSON, ready to be sent
//	spans     the span of an item, as a child of its caller's
package answers
