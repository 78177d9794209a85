// Package supervisor finds an installed PostgreSQL and an installed Redis or
// Valkey, starts them as children of this process, and never leaves one behind.
//
//	StartPostgres ── find binaries ── look at the folder ── initdb in a sibling ── rename
//	                                        │                                        │
//	                                        └── own, right version, not in use ──────┤
//	                                                                                 ▼
//	 caller ◀── ready: postmaster.pid says so ◀── child process ◀── a goroutine on its own thread
//	   │                                               │                 │
//	   └── Stop, or kill -9 of this (Pdeathsig) ─▶ it ends ──▶ tidy up, Done closes
//
// Both servers listen on a Unix socket in a folder that only their owner may
// enter. `forgequeue up` keeps its data with it; the tests of every module get
// theirs from the package storetest.
package supervisor
