// Package move moves a tenant from one cell to another, while both serve.
//
//	copying     the target has nothing of the tenant; ended jobs of earlier days are copied, day by day
//	            ── the source takes no new jobs of the tenant from here on, and claims none ──
//	draining    leases end, or are given back
//	            ── the source takes no writes of the tenant from here on ──
//	left        all that is not copied yet, or has changed since, in one transaction of the target, from one snapshot
//	            ── the target serves from here on; there is no way back ──
//	switched    the directory names the target; cores forget where the tenant was
//	removing    the source's rows go, as those of a deleted tenant
//
// Every step can be repeated. What a move has reached is in tenant_moves, in the home cell, and in tenant_fences,
// in both: a command that was killed is run again, and goes on. The one commit that decides is that of the
// target's copy. It sets the state of the target to here, so a later run knows whether it took place.
//
// Statements of core ask tenant_fences themselves, see package store and decision 53: there are no triggers and no locks of
// tables, and a move that was killed and left alone holds up its own tenant only.
package move
