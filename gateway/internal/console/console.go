package console

import (
	"context"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/operator"
	"github.com/forgequeue/forgequeue/gateway/internal/console/pages"
	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// Options of a Console.
type Options struct {
	// Secret seals sessions; those sealed with Previous, where given, are still accepted.
	Secret, Previous []byte
	// Links are for links that sign in; without them there are none.
	Links Links
	// SignOn is single sign-on; without it people sign in by key only.
	SignOn *sso.Provider
	// Forms are those that make something; without it a gateway knows of its own only.
	Forms Forms
	// Hold calls end when a key's console sessions are ended once more than before, until release.
	Hold func(ctx context.Context, keyID string, before int64, end func()) (release func())
	// Processors are the seats in which pages are written; its own if nil.
	Processors *seats.Seats
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Links is what all gateways know of links that sign in.
type Links struct {
	// Charge takes one link of a key's rate; wait is how long until there is one.
	Charge func(ctx context.Context, keyID string) (wait time.Duration, ok bool)
	// First reports whether the link, or the sign-in at a provider, with an id is used for the first time, by whichever gateway; an error if that is not known.
	First func(ctx context.Context, id string) (bool, error)
}

// Forms is what all gateways know of forms that make something.
type Forms = visit.Forms

// Console serves /console. It is safe for concurrent use.
type Console struct {
	*visit.Site

	links Links
	hold  func(ctx context.Context, keyID string, before int64, end func()) (release func())
}

// New makes a Console; Handler is what to serve.
func New(o Options) (*Console, error) {
	sealer, err := session.NewSealer(o.Secret, o.Previous)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Processors == nil {
		o.Processors = seats.Processors()
	}
	site := visit.NewSite(sealer, o.Forms, o.Processors, o.Now)
	site.SignOn = o.SignOn
	return &Console{Site: site, links: o.Links, hold: o.Hold}, nil
}

// Handler serves the console in front of an API: all that it shows or does is asked of that.
func (c *Console) Handler(api http.Handler) http.Handler {
	served := *c
	served.Site = c.In(api)
	mux := http.NewServeMux()
	for pattern, serve := range served.routes() {
		mux.Handle(pattern, serve)
	}
	if c.links.Charge != nil {
		mux.Handle("POST /console/links", http.HandlerFunc(served.makeLink))
		mux.Handle("GET /console/enter/{token}", served.Public(served.showEnter))
		mux.Handle("POST /console/enter", served.Public(served.enter))
	}
	if c.SignOn != nil {
		mux.Handle("GET /console/oidc/begin", served.Public(beginSignOn))
		mux.Handle("GET "+sso.CallbackPath, served.Public(served.finishSignOn))
		mux.Handle("POST /console/oidc/tenant", served.Action(changeTenant))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		mux.ServeHTTP(w, r) // it notes the pattern in r, for the log line
	})
}

// policy lets pages load their own files and call their own origin. Nothing inline runs or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

func setHeaders(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Referrer-Policy", "same-origin") // no-referrer would take the Origin from forms too
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cache-Control", "no-store")
}

// routes are all pages and actions, by patterns of http.ServeMux.
func (c *Console) routes() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /console/assets/{file}":            http.HandlerFunc(pages.ServeAsset),
		"GET /console/sign-in":                  c.Public(showSignIn),
		"POST /console/sign-in":                 c.Public(signIn),
		"POST /console/sign-out":                c.Action(signOut),
		"POST /console/sign-out-everywhere":     c.Action(signOutEverywhere),
		"GET /console/signals/{token}":          c.Linked(showSignalLink),
		"POST /console/signals/{token}":         c.Linked(useSignalLink),
		"GET /console/session":                  c.Page(showSession),
		"GET /console":                          c.Page(showOverview),
		"GET /console/search":                   c.Page(search),
		"GET /console/charts":                   c.Data(newerCharts),
		"GET /console/queues":                   c.Page(listQueues),
		"GET /console/queues/{name}":            c.Page(showQueue),
		"GET /console/queues/{name}/keys":       c.Page(listQueueKeys),
		"POST /console/queues/{name}":           c.Action(changeQueue),
		"GET /console/jobs":                     c.Page(listJobs),
		"GET /console/jobs/{id}":                c.Page(showJob),
		"GET /console/jobs/{id}/change":         c.Page(showChange),
		"POST /console/jobs/{id}/change":        c.Making(saveChange),
		"GET /console/jobs/{id}/events":         c.stream(),
		"GET /console/jobs/{id}/output":         c.output(),
		"POST /console/jobs/{id}":               c.Action(changeJob),
		"GET /console/dead-letters":             c.Page(showDeadLetters),
		"POST /console/dead-letters":            c.Making(visit.Redirecting(changeDeadLetters)),
		"GET /console/dead-letters/group":       c.Page(showDeadGroup),
		"GET /console/dead-letters/confirm":     c.Page(confirmDeadLetters),
		"GET /console/redrives/{id}":            c.Page(showRedrive),
		"POST /console/redrives/{id}":           c.Action(cancelRedrive),
		"GET /console/bulk":                     c.Page(listBulk),
		"POST /console/bulk":                    c.Making(visit.Redirecting(beginBulk)),
		"GET /console/bulk/confirm":             c.Page(confirmBulk),
		"GET /console/bulk/{id}":                c.Page(showBulk),
		"POST /console/bulk/{id}":               c.Action(cancelBulk),
		"GET /console/workflows":                c.Page(listWorkflows),
		"GET /console/workflows/{id}":           c.Page(showWorkflow),
		"POST /console/workflows/{id}":          c.Action(changeWorkflow),
		"GET /console/schedules":                c.Page(listSchedules),
		"GET /console/schedules/{name}":         c.Page(showSchedule),
		"POST /console/schedules/{name}":        c.Action(changeSchedule),
		"GET /console/types":                    c.Page(listTypes),
		"GET /console/types/{type}":             c.Page(showType),
		"GET /console/workers":                  c.Page(listWorkers),
		"GET /console/webhooks":                 c.Page(listWebhooks),
		"POST /console/webhooks/{name}/test":    c.Making(visit.Redirecting(testWebhook)),
		"POST /console/webhooks/{name}/probe":   c.Action(probeWebhook),
		"GET /console/budgets":                  c.Page(listBudgets),
		"POST /console/budgets":                 c.Making(visit.Redirecting(makeBudget)),
		"GET /console/budgets/{name}":           c.Page(showBudget),
		"POST /console/budgets/{name}":          c.Action(changeBudget),
		"GET /console/keys":                     c.Page(listKeys),
		"POST /console/keys":                    c.Making(makeOwnKey),
		"POST /console/keys/{id}":               c.Action(changeOwnKey),
		"GET /console/limits":                   c.Page(showLimits),
		"GET /console/audit":                    c.Page(listAudit),
		"GET /console/admin/tenants":            c.Page(operator.ListTenants),
		"POST /console/admin/tenants":           c.Making(visit.Redirecting(operator.CreateTenant)),
		"GET /console/admin/tenants/{id}":       c.Page(operator.ShowTenant),
		"POST /console/admin/tenants/{id}":      c.Action(operator.ChangeTenant),
		"POST /console/admin/tenants/{id}/keys": c.Making(operator.MakeKey),
		"GET /console/admin/plans":              c.Page(operator.ListPlans),
		"POST /console/admin/plans":             c.Making(visit.Redirecting(operator.MakePlan)),
		"POST /console/admin/plans/{name}":      c.Action(operator.ChangePlan),
		"GET /console/admin/installation":       c.Page(operator.ShowInstallation),
		"GET /console/admin/audit":              c.Page(listAllAudit),
		"GET /console/{$}":                      http.RedirectHandler("/console", http.StatusSeeOther),
		"/console/":                             c.Page(visit.NotFound),
	}
}
