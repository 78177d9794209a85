package console

import (
	"context"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/pages"
	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
)

// Options of a Console.
type Options struct {
	// Secret seals sessions; those sealed with Previous, where given, are still accepted.
	Secret, Previous []byte
	// Links are for links that sign in; without them there are none.
	Links Links
	// Forms are those that make something; without it a gateway knows of its own only.
	Forms Forms
	// Hold calls end when a key's console sessions are ended once more than before, until release.
	Hold func(ctx context.Context, keyID string, before int64, end func()) (release func())
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Links is what all gateways know of links that sign in.
type Links struct {
	// Charge takes one link of a key's rate; wait is how long until there is one.
	Charge func(ctx context.Context, keyID string) (wait time.Duration, ok bool)
	// First reports whether the link with an id is used for the first time, by whichever gateway; an error if that is not known.
	First func(ctx context.Context, id string) (bool, error)
}

// Forms is what all gateways know of forms that make something.
type Forms struct {
	// First reports whether a form is sent for the first time, to whichever gateway.
	First func(ctx context.Context, id string) bool
	// Forget is called for a form that has failed: it may be sent again.
	Forget func(ctx context.Context, id string)
}

// Console serves /console. It is safe for concurrent use.
type Console struct {
	sealer *session.Sealer
	links  Links
	hold   func(ctx context.Context, keyID string, before int64, end func()) (release func())
	cross  *http.CrossOriginProtection
	now    func() time.Time
	live   *liveReads
	once   *repeats
	api    http.Handler
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
	return &Console{
		sealer: sealer, links: o.Links, hold: o.Hold, cross: http.NewCrossOriginProtection(), now: o.Now,
		live: newLiveReads(o.Now), once: &repeats{everywhere: o.Forms, kept: map[string]*repeated{}},
	}, nil
}

// Handler serves the console in front of an API: all that it shows or does is asked of that.
func (c *Console) Handler(api http.Handler) http.Handler {
	served := *c
	served.api = api
	mux := http.NewServeMux()
	for pattern, serve := range served.routes() {
		mux.Handle(pattern, serve)
	}
	if c.links.Charge != nil {
		mux.Handle("POST /console/links", http.HandlerFunc(served.makeLink))
		mux.Handle("GET /console/enter/{token}", served.public(showEnter))
		mux.Handle("POST /console/enter", served.public(enter))
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
		"GET /console/sign-in":                  c.public(showSignIn),
		"POST /console/sign-in":                 c.public(signIn),
		"POST /console/sign-out":                c.action(signOut),
		"POST /console/sign-out-everywhere":     c.action(signOutEverywhere),
		"GET /console/session":                  c.page(showSession),
		"GET /console":                          c.page(showOverview),
		"GET /console/search":                   c.page(search),
		"GET /console/charts":                   c.data(newerCharts),
		"GET /console/queues":                   c.page(listQueues),
		"GET /console/queues/{name}":            c.page(showQueue),
		"POST /console/queues/{name}":           c.action(changeQueue),
		"GET /console/jobs":                     c.page(listJobs),
		"GET /console/jobs/{id}":                c.page(showJob),
		"GET /console/jobs/{id}/events":         c.stream(),
		"POST /console/jobs/{id}":               c.action(changeJob),
		"GET /console/dead-letters":             c.page(showDeadLetters),
		"POST /console/dead-letters":            c.making(moved(changeDeadLetters)),
		"GET /console/dead-letters/group":       c.page(showDeadGroup),
		"GET /console/dead-letters/confirm":     c.page(confirmDeadLetters),
		"GET /console/redrives/{id}":            c.page(showRedrive),
		"POST /console/redrives/{id}":           c.action(cancelRedrive),
		"GET /console/workflows":                c.page(listWorkflows),
		"GET /console/workflows/{id}":           c.page(showWorkflow),
		"POST /console/workflows/{id}":          c.action(changeWorkflow),
		"GET /console/schedules":                c.page(listSchedules),
		"GET /console/schedules/{name}":         c.page(showSchedule),
		"POST /console/schedules/{name}":        c.action(changeSchedule),
		"GET /console/types":                    c.page(listTypes),
		"GET /console/types/{type}":             c.page(showType),
		"GET /console/workers":                  c.page(listWorkers),
		"GET /console/webhooks":                 c.page(listWebhooks),
		"POST /console/webhooks/{name}/test":    c.making(moved(testWebhook)),
		"POST /console/webhooks/{name}/probe":   c.action(probeWebhook),
		"GET /console/keys":                     c.page(listKeys),
		"POST /console/keys":                    c.making(makeOwnKey),
		"POST /console/keys/{id}":               c.action(changeOwnKey),
		"GET /console/limits":                   c.page(showLimits),
		"GET /console/audit":                    c.page(listAudit),
		"GET /console/admin/tenants":            c.page(listTenants),
		"POST /console/admin/tenants":           c.making(moved(createTenant)),
		"GET /console/admin/tenants/{id}":       c.page(showTenant),
		"POST /console/admin/tenants/{id}":      c.action(changeTenant),
		"POST /console/admin/tenants/{id}/keys": c.making(makeKey),
		"GET /console/admin/plans":              c.page(listPlans),
		"POST /console/admin/plans":             c.making(moved(makePlan)),
		"POST /console/admin/plans/{name}":      c.action(changePlan),
		"GET /console/admin/installation":       c.page(showInstallation),
		"GET /console/admin/audit":              c.page(listAllAudit),
		"GET /console/{$}":                      http.RedirectHandler("/console", http.StatusSeeOther),
		"/console/":                             c.page(notFound),
	}
}
