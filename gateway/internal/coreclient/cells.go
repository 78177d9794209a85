package coreclient

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// Client calls the cores of all cells. A call goes to the cell of its principal's tenant; see also platform.go for a
// platform's workers, whose jobs are in all cells, and merge.go for what is read in several. It is safe for concurrent use.
type Client struct {
	// cells are all cells, the home cell first. There is nearly always one.
	cells []*cores

	mu sync.RWMutex
	// places has the tenants that are in another cell than the home, by the keys that were looked up.
	places map[string]*cores
	turns  turns
}

// address is where the cores of a cell are.
type address struct{ name, host, prefix string }

const urlForm = "must look like http://127.0.0.1:8081, or, where there are several cells, like home=http://core:8081/cells/home,second=http://core-2:8081/cells/second"

// parseURLs reads the URL of the only cell, or those of several by their names.
func parseURLs(text string) ([]address, error) {
	if !strings.Contains(text, "=") {
		at, err := parseURL(text)
		if err == nil && at.prefix != "" {
			err = fmt.Errorf("%s", urlForm)
		}
		return []address{at}, err
	}
	var all []address
	names := map[string]bool{}
	for entry := range strings.SplitSeq(text, ",") {
		name, where, _ := strings.Cut(strings.TrimSpace(entry), "=")
		at, err := parseURL(where)
		if err != nil || name == "" {
			return nil, fmt.Errorf("%s", urlForm)
		}
		if names[name] {
			return nil, fmt.Errorf("names the cell %q twice", name)
		}
		names[name], at.name = true, name
		all = append(all, at)
	}
	return all, nil
}

func parseURL(text string) (address, error) {
	base, err := url.Parse(text)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return address{}, fmt.Errorf("%s", urlForm)
	}
	return address{host: base.Scheme + "://" + base.Host, prefix: strings.TrimRight(base.Path, "/")}, nil
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
	if len(o.Secret) < identity.MinSecretBytes {
		return nil, fmt.Errorf("the hop secret must have at least %d bytes", identity.MinSecretBytes)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	c := &Client{places: map[string]*cores{}}
	for _, at := range all {
		of := o
		if at.name != "" {
			of.Registry = prometheus.WrapRegistererWith(prometheus.Labels{"cell": at.name}, o.Registry)
		}
		c.cells = append(c.cells, newCores(of, at))
	}
	return c, nil
}

// Close closes the idle connections.
func (c *Client) Close() {
	for _, cell := range c.cells {
		cell.close()
	}
}

// Now is the home cell's time as far as it is known.
func (c *Client) Now() time.Time { return c.home().Now() }

// Drain ends the parked calls, now and from now on; others go on. What core had
// already answered still arrives.
func (c *Client) Drain() {
	for _, cell := range c.cells {
		cell.stop()
	}
}

// IsDraining says whether Drain was called.
func (c *Client) IsDraining() bool { return c.home().isDraining() }

// MaxParked is how many calls may wait for a job's change at once, in each cell.
func (c *Client) MaxParked() int { return c.home().gate.waits.most }

// Busy returns an error if a tenant's call of a shared operation would be turned away,
// nil if it may be made: so a caller need not read a body that would not be sent. The
// error wraps ErrOverloaded.
func (c *Client) Busy(of hop.Operation, how How, tenant string, size int64) error {
	return c.cellOf(tenant).busy(of, how, tenant, size)
}

func (c *Client) home() *cores { return c.cells[0] }

// alone says that there is one cell.
func (c *Client) alone() bool { return len(c.cells) == 1 }

// cellOf is the cell of a tenant; what belongs to no tenant is the home cell's.
func (c *Client) cellOf(tenant string) *cores {
	if c.alone() {
		return c.home()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if cell := c.places[tenant]; cell != nil {
		return cell
	}
	return c.home()
}

// named is the cell of a name, nil where FORGEQUEUE_CORE_URL has none; "" is the home cell.
func (c *Client) named(name string) *cores {
	for _, cell := range c.cells {
		if cell.name == name || name == "" {
			return cell
		}
	}
	return nil
}

// place notes the cell of a tenant.
func (c *Client) place(tenant string, cell *cores) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cell == c.home() {
		delete(c.places, tenant)
		return
	}
	c.places[tenant] = cell
}

// Call asks core for one item's result, in the cell of its tenant. The deadline is ctx's, and is sent to
// core. The error is a *problem.Problem where core refused the call as a whole,
// or wraps ErrUnavailable, ErrOverloaded, ErrOutcomeUnknown, ErrCutShort, ErrNoPlace,
// ErrRefusesUs or ErrContract. A refusal of the item itself is no error: it is in
// the Result.
//
// A call is an envelope of its own unless it is Shared: then the items
// of concurrent callers are sent in one.
func Call[Req, Resp any](ctx context.Context, c *Client, of hop.Op[Req, Resp], how How, item hop.Item[Req]) (hop.Result[Resp], error) {
	if c.alone() || of.Directory {
		return callIn(ctx, c.home(), of, how, item)
	}
	if answer, is, err := inSeveral(ctx, c, of, how, item); is {
		return answer, err
	}
	at := c.cellOf(item.Principal.Tenant)
	answer, err := callIn(ctx, at, of, how, item)
	if hasMoved(answer.Problem, err) && c.findAgain(ctx, item.Principal) != at {
		return callIn(ctx, c.cellOf(item.Principal.Tenant), of, how, item)
	}
	return answer, err
}

// hasMoved says that a cell refused a tenant, which may be in another one by now.
func hasMoved(refused *problem.Problem, err error) bool {
	if whole, is := problem.From(err); is {
		refused = whole
	}
	return refused != nil && refused.Code == problem.TenantMoving
}

// findAgain asks the home cell where a tenant is.
func (c *Client) findAgain(ctx context.Context, p hop.Principal) *cores {
	if p.KeyID != "" {
		_, _, _ = c.LookUpKey(ctx, p.KeyID) // otherwise it stays where it was
	}
	return c.cellOf(p.Tenant)
}

// LookUpKey reads one API key, and notes the cell of its tenant; found is false for one that is unknown, revoked or
// expired. While the home cell does not answer, the copies in the other cells do.
func (c *Client) LookUpKey(ctx context.Context, keyID string) (key hop.KeyRecord, found bool, err error) {
	if c.alone() {
		return c.home().lookUpKey(ctx, keyID)
	}
	home := within(ctx, c.home(), func(ctx context.Context, cell *cores) (looked, error) { return lookIn(ctx, cell, keyID) }, nil)
	if home.err != nil {
		return c.lookUpCopy(ctx, keyID, home.err)
	}
	key = home.value.key
	if !home.value.found || key.Tenant == "" {
		return key, home.value.found, nil
	}
	cell := c.named(key.Cell)
	if cell == nil {
		return key, false, fmt.Errorf("%w: the tenant is in the cell %q, which FORGEQUEUE_CORE_URL does not name", ErrUnavailable, key.Cell)
	}
	c.place(key.Tenant, cell)
	if cell == c.home() {
		return key, true, nil
	}
	// Job types lie with the jobs. A cell that does not answer must not seem to have none.
	types, err := c.ReadTypes(ctx, key.Tenant)
	key.TypesVersion = types.Version
	return key, err == nil, err
}

// looked is a key as one cell has it.
type looked struct {
	key   hop.KeyRecord
	found bool
}

func lookIn(ctx context.Context, cell *cores, keyID string) (looked, error) {
	key, found, err := cell.lookUpKey(ctx, keyID)
	return looked{key, found}, err
}

// lookUpCopy looks a key up in the cells that are not the home. One that none of them has may be a key of the home's tenants.
func (c *Client) lookUpCopy(ctx context.Context, keyID string, why error) (hop.KeyRecord, bool, error) {
	for _, answer := range inCells(ctx, c.cells[1:], nil, func(ctx context.Context, cell *cores) (looked, error) { return lookIn(ctx, cell, keyID) }) {
		if answer.err != nil || !answer.value.found {
			continue
		}
		key := answer.value.key
		if key.Tenant != "" {
			key.Cell = answer.cell.name
			c.place(key.Tenant, answer.cell)
		}
		return key, true, nil
	}
	return hop.KeyRecord{}, false, why
}

// Ready reads the readiness of the cores of all cells: ok, degraded or draining; degraded where some cells do not answer. It
// is an error where none does.
func (c *Client) Ready(ctx context.Context) (status string, err error) {
	if c.alone() {
		return c.home().ready(ctx)
	}
	answered, ok := 0, 0
	for _, answer := range inCells(ctx, c.cells, nil, func(ctx context.Context, cell *cores) (string, error) { return cell.ready(ctx) }) {
		switch {
		case answer.err != nil:
			err = answer.err
			continue
		case answer.value == "ok":
			ok++
		}
		answered++
	}
	switch {
	case answered == 0:
		return "", err
	case ok == len(c.cells):
		return "ok", nil
	}
	return "degraded", nil
}
