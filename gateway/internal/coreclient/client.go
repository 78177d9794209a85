package coreclient

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// Options of a Client.
type Options struct {
	// URL is core's address, such as http://127.0.0.1:8081. Where the installation has several cells, it is a list of
	// NAME=URL, with commas, the home cell first: home=http://core:8081/cells/home,second=http://core-2:8081/cells/second.
	URL string
	// Secret signs every call, at least identity.MinSecretBytes.
	Secret []byte
	// Logger is slog.Default if nil.
	Logger *slog.Logger
	// Limits are each cell's.
	Limits cellclient.Limits
	// Registry gets the metrics of the hop; nil: none are registered.
	Registry prometheus.Registerer
	// Processors are the seats in which requests are encoded and answers decoded; nil: they take none.
	Processors *seats.Seats
	// Now is time.Now if nil; tests set it.
	Now func() time.Time
}

// Client calls the cores of all cells. A call goes to the cell of its principal's tenant; see also platform.go for a
// platform's workers, whose jobs are in all cells, and merge.go for what is read in several. It is safe for concurrent use.
type Client struct {
	// cells are all cells, the home cell first. There is nearly always one.
	cells []*oneCell

	mu sync.RWMutex
	// places has the tenants that are in another cell than the home, by the keys that were looked up.
	places map[string]*oneCell
	turns  turns
}

// address is where the cores of a cell are.
type address struct{ name, url string }

var errURL = errors.New("must look like http://127.0.0.1:8081, or, where there are several cells, like home=http://core:8081/cells/home,second=http://core-2:8081/cells/second")

// parseURLs reads the URL of the only cell, or those of several by their names.
func parseURLs(text string) ([]address, error) {
	if !strings.Contains(text, "=") {
		if _, prefix, err := cellclient.ParseURL(text); err != nil || prefix != "" {
			return nil, errURL
		}
		return []address{{url: text}}, nil
	}
	var all []address
	names := map[string]bool{}
	for entry := range strings.SplitSeq(text, ",") {
		name, where, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if _, _, err := cellclient.ParseURL(where); err != nil || name == "" {
			return nil, errURL
		}
		if names[name] {
			return nil, fmt.Errorf("names the cell %q twice", name)
		}
		names[name] = true
		all = append(all, address{name, where})
	}
	return all, nil
}

// CheckURL says what is wrong with Options.URL.
func CheckURL(text string) error {
	_, err := parseURLs(text)
	return err
}

// New makes a Client; it does not dial yet.
func New(o Options) (*Client, error) {
	all, err := parseURLs(o.URL)
	if err != nil {
		return nil, fmt.Errorf("core's url %w", err)
	}
	c := &Client{places: map[string]*oneCell{}}
	for _, at := range all {
		registry := o.Registry
		if at.name != "" && registry != nil {
			registry = prometheus.WrapRegistererWith(prometheus.Labels{"cell": at.name}, registry)
		}
		made, err := cellclient.New(cellclient.Options{
			Name: at.name, URL: at.url, Secret: o.Secret, Logger: o.Logger, Limits: o.Limits,
			Registry: registry, Processors: o.Processors, Now: o.Now,
		})
		if err != nil {
			return nil, err
		}
		c.cells = append(c.cells, &oneCell{Cell: made})
	}
	return c, nil
}

// Close closes the idle connections.
func (c *Client) Close() {
	for _, cell := range c.cells {
		cell.Close()
	}
}

// Now is the home cell's time as far as it is known.
func (c *Client) Now() time.Time { return c.home().Now() }

// Drain ends the parked calls, now and from now on; others go on. What core had
// already answered still arrives.
func (c *Client) Drain() {
	for _, cell := range c.cells {
		cell.Drain()
	}
}

// IsDraining says whether Drain was called.
func (c *Client) IsDraining() bool { return c.home().IsDraining() }

// MaxParked is how many calls may wait for a job's change at once, in each cell.
func (c *Client) MaxParked() int { return c.home().MaxParked() }

// Busy returns an error if a tenant's call of a shared operation would be turned away,
// nil if it may be made: so a caller need not read a body that would not be sent. The
// error wraps ErrOverloaded.
func (c *Client) Busy(of hop.Operation, how cellclient.How, tenant string, size int64) error {
	return c.cellOf(tenant).Busy(of, how, tenant, size)
}
