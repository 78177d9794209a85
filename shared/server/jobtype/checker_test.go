package jobtype_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// source has the types of tenants.
type source struct {
	mu      sync.Mutex
	sets    map[string]hop.TypeSet
	schemas map[string]string // by tenant, type and revision
	reads   atomic.Int32
	texts   atomic.Int32
	// block, where not nil, is received from before a set is given; entered is sent to before that.
	block, entered chan struct{}
	now            time.Time
}

func newSource() *source {
	return &source{sets: map[string]hop.TypeSet{}, schemas: map[string]string{}, now: time.Now()}
}

func (s *source) checker() *jobtype.Checker {
	return jobtype.NewChecker(jobtype.Options{
		Seats: seats.New(seats.Options{Seats: 2, Waiting: 256, Classes: []seats.Class{{All: 2, Share: 1}}}),
		Set: func(_ context.Context, tenant string) (hop.TypeSet, error) {
			s.reads.Add(1)
			s.mu.Lock()
			set, block := s.sets[tenant], s.block
			s.mu.Unlock()
			if block != nil {
				s.entered <- struct{}{}
				<-block
			}
			return set, nil
		},
		Schema: func(_ context.Context, tenant string, of hop.CheckedType, _ bool) (json.RawMessage, bool, error) {
			s.texts.Add(1)
			s.mu.Lock()
			defer s.mu.Unlock()
			text, ok := s.schemas[fmt.Sprint(tenant, of.Type, of.Revision)]
			return json.RawMessage(text), ok, nil
		},
		Now: func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.now
		},
	})
}

// put makes a version of the type t.
func (s *source) put(tenant, schema string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := s.sets[tenant].Version + 1
	s.sets[tenant] = hop.TypeSet{Version: version, Types: []hop.CheckedType{{Type: "t", Version: int(version), Revision: version, ChecksPayload: true}}}
	s.schemas[fmt.Sprint(tenant, "t", version)] = schema
	return version
}

// check checks a payload of the type t; how is "fits", "misfit", "gone", or an error.
func check(ctx context.Context, c *jobtype.Checker, tenant string, version int64, value string) string {
	set, err := c.Types(ctx, tenant, version)
	if err != nil {
		return err.Error()
	}
	known := set.Type("t")
	if known == nil {
		return "no type"
	}
	found, current, err := c.Check(ctx, tenant, []jobtype.Ask{{Of: *known, Value: json.RawMessage(value)}})
	switch {
	case err != nil:
		return err.Error()
	case !current:
		return "gone"
	case len(found[0]) > 0:
		return "misfit"
	}
	return "fits"
}

func TestTypesAreReadOnce(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := s.checker()
	if got := check(t.Context(), c, "a", 0, `7`); got != "no type" || s.reads.Load() != 0 {
		t.Errorf("a tenant without types: %s, %d reads", got, s.reads.Load())
	}
	version := s.put("a", `{"type":"string"}`)
	for range 3 {
		if got := check(t.Context(), c, "a", version, `7`); got != "misfit" {
			t.Error(got)
		}
	}
	// a key that is cached does not know of the version yet
	if got := check(t.Context(), c, "a", 0, `7`); got != "misfit" || s.reads.Load() != 1 || s.texts.Load() != 1 {
		t.Errorf("%s, %d reads, %d schemas", got, s.reads.Load(), s.texts.Load())
	}
	next := s.put("a", `{"type":"integer"}`)
	if got := check(t.Context(), c, "a", version, `7`); got != "misfit" {
		t.Errorf("before the hint: %s", got)
	}
	c.Changed(hop.TypesChanged{Tenant: "a", Version: next})
	c.Changed(hop.TypesChanged{Tenant: "a", Version: version}) // late
	if got := check(t.Context(), c, "a", version, `7`); got != "fits" || s.reads.Load() != 2 {
		t.Errorf("after the hint: %s, %d reads", got, s.reads.Load())
	}
	s.put("a", `{"type":"string"}`) // its hint is lost
	s.mu.Lock()
	s.now = s.now.Add(time.Minute)
	s.mu.Unlock()
	if got := check(t.Context(), c, "a", version, `7`); got != "misfit" {
		t.Errorf("once the types are old: %s", got)
	}
}

// A read that ends late leaves a newer version, and a hint of a version that there is not costs one read.
func TestALateReadDoesNotReplace(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := s.checker()
	version := s.put("a", `{"type":"string"}`)
	s.block, s.entered = make(chan struct{}), make(chan struct{}, 9)
	late := make(chan string, 1)
	go func() { late <- check(context.WithoutCancel(t.Context()), c, "a", version, `7`) }()
	<-s.entered // it has the old set
	next := s.put("a", `{"type":"integer"}`)
	c.Changed(hop.TypesChanged{Tenant: "a", Version: next})
	newer := make(chan string, 1)
	go func() { newer <- check(context.WithoutCancel(t.Context()), c, "a", 0, `7`) }()
	close(s.block)
	if got := <-newer; got != "fits" {
		t.Errorf("after the change: %s", got)
	}
	if got := <-late; got != "misfit" && got != "fits" {
		t.Errorf("before the change: %s", got)
	}
	if got := check(t.Context(), c, "a", next, `7`); got != "fits" {
		t.Errorf("at the end: %s", got)
	}
	c.Changed(hop.TypesChanged{Tenant: "a", Version: next + 100}) // the database was restored
	before := s.reads.Load()
	for range 3 {
		if got := check(t.Context(), c, "a", next, `7`); got != "fits" {
			t.Error(got)
		}
	}
	if n := s.reads.Load() - before; n != 1 {
		t.Errorf("%d reads for a version that there is not", n)
	}
}

// A version that is gone has the types read again.
func TestAVersionThatIsGone(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := s.checker()
	version := s.put("a", `{"type":"string"}`)
	if _, err := c.Types(t.Context(), "a", version); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.schemas = map[string]string{}
	s.mu.Unlock()
	if got := check(t.Context(), c, "a", version, `7`); got != "gone" {
		t.Error(got)
	}
	s.put("a", `{"type":"integer"}`)
	if got := check(t.Context(), c, "a", version, `7`); got != "fits" {
		t.Errorf("with the types as they are: %s", got)
	}
}

// Of two seats a tenant has one while another is there, which does not wait: counted, not timed.
func TestOneCheckOfATenantAtATime(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := s.checker()
	version := s.put("b", `{"type":"string"}`)
	if got := check(t.Context(), c, "b", version, `7`); got != "misfit" {
		t.Error(got)
	}
	var inside, most atomic.Int32
	release, entered := make(chan struct{}), make(chan struct{}, 9)
	work := func(context.Context) error {
		most.Store(max(most.Load(), inside.Add(1)))
		entered <- struct{}{}
		<-release
		inside.Add(-1)
		return nil
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { _ = c.InTurn(context.WithoutCancel(t.Context()), "hostile", work) })
	}
	<-entered
	for range 10 {
		if got := check(t.Context(), c, "b", version, `7`); got != "misfit" { // it would hang
			t.Error(got)
		}
	}
	if n := len(entered); n != 0 || most.Load() != 1 {
		t.Errorf("%d checks of one tenant at once", most.Load())
	}
	close(release)
	group.Wait()
	if most.Load() != 1 {
		t.Errorf("%d checks of one tenant at once", most.Load())
	}
}

// Who waits too long for the tenant's turn hears that it is busy, and so do those for whom there is no place.
func TestATenantIsBusy(t *testing.T) {
	t.Parallel()
	c := newSource().checker()
	release, entered := make(chan struct{}), make(chan struct{}, 2)
	var group sync.WaitGroup
	for range 2 { // both seats
		group.Go(func() {
			_ = c.InTurn(context.WithoutCancel(t.Context()), "a", func(context.Context) error {
				entered <- struct{}{}
				<-release
				return nil
			})
		})
		<-entered
	}
	errs := make(chan error, 300)
	for range 300 {
		group.Go(func() {
			errs <- c.InTurn(context.WithoutCancel(t.Context()), "a", func(context.Context) error { return errors.New("it was done") })
		})
	}
	for range 300 { // after five seconds at most
		if err := <-errs; !errors.Is(err, jobtype.ErrBusy) {
			t.Errorf("%v", err)
		}
	}
	close(release)
	group.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.InTurn(gone, "a", func(ctx context.Context) error { return ctx.Err() }); errors.Is(err, jobtype.ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
}

// Compiled schemas are bounded in bytes: the least recently used go, and are compiled again.
func TestCompiledSchemasAreBounded(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := s.checker()
	large := `{"type":"string","description":"` + strings.Repeat("x", 250_000) + `"}`
	const tenants = 30 // of about 2.5 MB each, and there are 64 MiB
	for i := range tenants {
		tenant := fmt.Sprint(i)
		if got := check(t.Context(), c, tenant, s.put(tenant, large), `7`); got != "misfit" {
			t.Fatal(got)
		}
	}
	before := s.texts.Load()
	check(t.Context(), c, fmt.Sprint(tenants-1), 1, `7`)
	if s.texts.Load() != before {
		t.Error("the last one used is gone")
	}
	check(t.Context(), c, "0", 1, `7`)
	if s.texts.Load() != before+1 {
		t.Error("the first one is still there")
	}
}

func BenchmarkChecker(b *testing.B) {
	s := newSource()
	c := s.checker()
	version := s.put("a", `{"type":"object","required":["a"]}`)
	for name, run := range map[string]func() string{
		"untyped": func() string { return check(b.Context(), c, "none", 0, `7`) },
		"typed":   func() string { return check(b.Context(), c, "a", version, `{"a":1}`) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = run()
			}
		})
	}
}
