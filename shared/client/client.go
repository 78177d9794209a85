package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options say which server to call, and as whom.
type Options struct {
	// URL is the gateway's address, such as "http://127.0.0.1:8080". A path is
	// put before each route. Required.
	URL string
	// APIKey is sent as the bearer token. Required.
	APIKey string
	// HTTPClient is used as it is. Nil: one of the package's own, which follows no
	// redirects (the API sends none) and keeps Concurrency idle connections.
	HTTPClient *http.Client
	// Concurrency is the expected number of concurrent calls; 256 if 0. It bounds
	// the idle connections that are kept, not the calls.
	Concurrency int
	// Logger gets a WARN for each call that is tried again and for each warning in the
	// answer to a submit, and a DEBUG line for each job that is submitted. Nil: nothing
	// is logged; errors are returned in any case.
	Logger *slog.Logger
	// OneTry makes each call once: the error is about that one request. The caller repeats calls by itself, or not at all.
	OneTry bool
	// Middleware wraps every call that submits jobs, the first outermost; each try of
	// the call is inside.
	Middleware []func(next SubmitFunc) SubmitFunc
}

// defaultConcurrency is how many idle connections are kept. net/http keeps two
// for each host, so that ten callers would dial for nearly every request.
const defaultConcurrency = 256

// Client calls one server with one key. It is safe for concurrent use; make one
// and share it, because each has its own retry budget and connections.
type Client struct {
	base   *url.URL
	apiKey string
	http   *http.Client
	budget *budget
	oneTry bool
	logger *slog.Logger
	// middleware is the options', which no call may change.
	middleware []func(next SubmitFunc) SubmitFunc
}

// New makes a client. It does not call the server; Whoami does.
func New(options Options) (*Client, error) {
	base, err := baseURL(options.URL)
	if err != nil {
		return nil, err
	}
	if options.APIKey == "" {
		return nil, errors.New("client: APIKey is empty")
	}
	if strings.ContainsFunc(options.APIKey, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("client: APIKey holds white space or other characters that no key has")
	}
	httpClient := options.HTTPClient
	if httpClient == nil {
		httpClient = ownHTTPClient(options.Concurrency)
	}
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if slices.ContainsFunc(options.Middleware, func(m func(SubmitFunc) SubmitFunc) bool { return m == nil }) {
		return nil, errors.New("client: a middleware is nil")
	}
	return &Client{
		base: base, apiKey: options.APIKey, http: httpClient, budget: newBudget(), oneTry: options.OneTry,
		logger: logger, middleware: slices.Clone(options.Middleware),
	}, nil
}

// CloseIdleConnections closes the connections that are not in use, and with
// them the goroutines that watch them.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// String names the server and leaves the key out, so that a client can be logged.
func (c *Client) String() string { return "client of " + c.base.String() }

// GoString is String: %#v must not show the key either.
func (c *Client) GoString() string { return c.String() }

func baseURL(address string) (*url.URL, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("client: URL: %w", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("client: URL %q is not like http://127.0.0.1:8080", address)
	}
	if base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, errors.New("client: URL has a query, a fragment or a user; give scheme, host and perhaps a path")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = ""
	return base, nil
}

// ownHTTPClient has no timeout of its own: each try has one, and a claim waits
// for long on purpose.
func ownHTTPClient(concurrency int) *http.Client {
	if concurrency <= 0 {
		concurrency = defaultConcurrency
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialer.DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   concurrency,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
		},
		// A redirect means a wrong URL. Followed, a 301 would turn a submit into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
