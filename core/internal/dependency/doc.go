// Package dependency has the edges between jobs and the follow-ups of ended ones: the tables
// dependencies and follow_ups. Package jobs works follow-ups off, see jobs.Jobs.FollowUp.
//
//	submit ──▶ locks and flags the parents ──▶ stores the child blocked, and its edges
//	parent ends ──▶ the same statement appends a follow-up, where the parent is flagged
//	follow-up ──▶ locks the children ──▶ resolves edges ──▶ asks, in a new snapshot, what is left
//	                                         │                      │
//	                                         └▶ cancels the child   └▶ nothing: queued or scheduled
//
// What holds:
//
//   - A parent's end and the submit of a child are serialised by the row lock of the parent. A
//     parent that ends first is found ended; one that ends later is flagged and sees the edge.
//   - A flag is never taken back while the job lives: a follow-up without edges costs one look-up.
//   - The question whether an edge is left is asked after the children are locked. Two parents that
//     end at one moment would otherwise each see the other's edge, and the child would stay blocked.
//   - The follow-ups of one job are worked off in order.
//   - A follow-up is deleted in the transaction that does what it asks: it is done exactly once.
package dependency
