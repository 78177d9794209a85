package invariants

import "time"

// Edge is a job that waits for another one, its parent, or has waited.
type Edge struct {
	Parent, Child string
	// OnFailed is what the child does where the parent ends otherwise than completed: cancel, run or hold.
	OnFailed string
	// Resolved is when the child stopped waiting for the parent; nil if it waits.
	Resolved *time.Time
	// ParentState is empty for a parent that is gone; ParentEnded is nil for one that has not ended.
	ParentState string
	ParentEnded *time.Time
	ChildState  string
	// Started is when the child's last attempt began; nil if there was none.
	Started *time.Time
	// Redriven says that one of the two was redriven: then the times are of another life of it than the edge's.
	Redriven bool
}

// Dependencies is I11 for jobs: none began before each of its parents had ended as its policy asks, and none is blocked
// whose parents have all been dealt with. (One job for each fire time is a key of the schema.)
func Dependencies(_ History, db Database) []string {
	v := violations{name: "I11"}
	waits, blocked := map[string]bool{}, map[string]bool{}
	for _, e := range db.Edges {
		waits[e.Child] = waits[e.Child] || e.Resolved == nil
		blocked[e.Child] = e.ChildState == "blocked"
		failed := e.ParentState == "dead_letter" || e.ParentState == "cancelled"
		switch {
		case e.Redriven || e.Started == nil:
		case e.Resolved == nil || e.Resolved.After(*e.Started):
			v.add("job %s began while it waited for %s", e.Child, e.Parent)
		case e.ParentState != "" && (e.ParentEnded == nil || e.ParentEnded.After(*e.Started)):
			v.add("job %s began before its parent %s, now %s, had ended", e.Child, e.Parent, e.ParentState)
		case failed && e.OnFailed != "run":
			v.add("job %s ran after its parent %s had ended as %s, with on_failed %s", e.Child, e.Parent, e.ParentState, e.OnFailed)
		}
	}
	for child, is := range blocked {
		if is && !waits[child] {
			v.add("job %s is blocked and waits for nothing", child)
		}
	}
	return v.list()
}
