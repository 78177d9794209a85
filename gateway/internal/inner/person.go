package inner

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// personKey is of no other package, so that only this process can say on whose behalf it asks: nothing in a request from
// outside becomes a value of its context.
type personKey struct{}

// AsPerson makes the requests with a context those of a person who has signed in: their credentials are not read.
func AsPerson(ctx context.Context, who hop.Principal) context.Context {
	return context.WithValue(ctx, personKey{}, who)
}

// PersonOf gives the person whose request it is, if it is one's.
func PersonOf(ctx context.Context) (who hop.Principal, is bool) {
	who, is = ctx.Value(personKey{}).(hop.Principal)
	return who, is
}
