// Package move moves a tenant from one cell to another, while both serve.
//
//	preparing   the target has nothing of the tenant; triggers in the source note what changes
//	history     ended jobs, dead letters, workflows, audit entries: page by page, each its own transaction
//	changes     what has changed of these since, again and again, until little is left
//	            ── the source refuses the tenant's writes from here on ──
//	fenced      the rest of the changes, then all other rows, in one transaction of the target
//	            ── the target serves from here on; there is no way back ──
//	switched    the directory names the target; cores forget where the tenant was
//	removing    the source's rows go, as those of a deleted tenant
//
// Every step can be repeated. What a move has reached is in tenant_moves, in the home cell, and in tenant_fences,
// in both: a command that was killed is run again, and goes on. The one commit that decides is that of the
// target's copy. It sets the fence of the target to here, so a later run knows whether it took place.
//
// The fence is made of triggers with the tenant's id in their WHEN: rows of other tenants cost one comparison,
// and an installation that never moves a tenant has none. A write by a core that still believes in the old cell
// fails there (store.ErrTenantMoved), however late it comes. It is closed under a lock of all tables that
// waits for the writers, so a snapshot taken afterwards has all that was written.
//
// Background duties work on rows of many tenants in one statement, and must not fail for those of one. So the
// triggers leave rows out silently where only a duty, or a claim, makes the change: see rules in tables.go.
package move
