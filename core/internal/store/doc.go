// Package store is the base of all SQL: a pool whose connections go to the highest class first,
// transactions, PostgreSQL's clock, error classes, planner settings and the migrations. It has no
// table of its own.
package store
