// Package claim leases jobs to workers: one statement picks them by ready list, in shares, and
// leases what it picked. Lanes under a cap or a rate are claimed under their tenant's lock.
package claim
