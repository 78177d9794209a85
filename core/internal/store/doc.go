// Package store is what all SQL stands on: a pool whose connections go to the most urgent
// call, transactions, PostgreSQL's clock, the classes of its errors, the planner's settings and
// the migrations. It has no table of its own.
package store
