// Package conformance holds the clients for Go, TypeScript and Python to one table of cases. Each client is driven by a
// small program of its language, against the real services, through a front that loses, delays or replaces answers.
package conformance
