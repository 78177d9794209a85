// Package directory is the plans, tenants and keys of an installation with several cells. They are written in the home
// cell alone; the cores of another cell follow its changes and copy those of their own tenants:
//
//	home cell                                    another cell
//	a change notes a version ──▶ Changes ──HTTP──▶ Feed ──▶ Apply: copies, and the version up to which they are
//
// A version is visible after all before it (store.NextVersion), so a copy that has reached one has missed nothing. While
// the home cell is down, the copies serve: known keys and tenants go on. Job types are not in the directory: they are
// written in the cell of their tenant, whose waiting jobs they are checked against.
package directory
