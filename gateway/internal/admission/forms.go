package admission

import (
	"context"
	"time"
)

// formLife is for how long gateways remember that a form was sent.
const formLife = time.Minute

// FirstForm reports whether a form of the console is sent for the first time, to whichever gateway. Where Redis does not
// answer it is true: each gateway remembers its own forms besides.
func (l *Limiter) FirstForm(ctx context.Context, id string) bool {
	if !l.Reachable() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	first, err := l.client.SetNew(ctx, l.formKey(id), "", formLife)
	return first || err != nil
}

// ForgetForm lets a form that has failed be sent again.
func (l *Limiter) ForgetForm(ctx context.Context, id string) {
	if !l.Reachable() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	_ = l.client.Drop(ctx, l.formKey(id)) // if it fails, it is forgotten after formLife
}

func (l *Limiter) formKey(id string) string { return l.prefix + "{form-" + id + "}:sent" }
