// Package flush has core's group commits: what callers submit, report and extend at about the same
// time is one statement. Submits under their tenant's lock have a group for each tenant.
package flush
