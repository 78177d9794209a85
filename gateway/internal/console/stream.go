package console

import (
	"context"
	"fmt"
	"net/http"
)

// stream passes a job's events on, as the API has them, for the key of the session. It ends with the session.
func (c *Console) stream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		of, err := c.sealer.FromRequest(r, c.now())
		if err != nil {
			v.fail(v.toSignIn())
			return
		}
		v.session, v.key = of, of.Key
		if err := v.stillSignedIn(); err != nil {
			v.fail(err)
			return
		}
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		if !of.Operator {
			defer c.hold(ctx, v.who.KeyID, of.Before, stop)()
		}
		inner, err := v.request(ctx, http.MethodGet, resource("jobs", r.PathValue("id"), "events"), nil, nil)
		if err != nil {
			panic(fmt.Errorf("job events: %w", err)) // the path is escaped
		}
		c.api.ServeHTTP(w, inner)
	})
}
