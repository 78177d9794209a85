// Package cells is what an installation with several databases needs beside an engine for each: which
// cells there are, which one has a tenant, whether a cell answers, where a new tenant goes, and the
// copies of the directory.
//
//	      FORGEQUEUE_CELLS            home: the database of DATABASE_URL
//	             │                    ┌──────────────────────────────┐
//	tenant ──▶ Places ──▶ engine      │ tenants (and their cell),    │──Copier──▶ each cell: its tenants,
//	             Gate: does it answer │ plans, keys, operators' audit│            their plans and keys
//	                                  └──────────────────────────────┘
package cells
