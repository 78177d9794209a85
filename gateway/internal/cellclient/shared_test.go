package cellclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// one asks for the job id in an operation that may be shared, and is answered with it.
func one(ctx context.Context, c *cellclient.Cell, op try, id string) (string, error) {
	result, err := cellclient.Call(ctx, c, hop.Op[hop.ID, api.Whoami]{Operation: op.Operation}, op.how, hop.Item[hop.ID]{
		Principal: hop.Principal{Kind: hop.PrincipalTenant, Tenant: "t-" + id}, Request: hop.ID{ID: id},
	})
	switch {
	case err != nil:
		return "", err
	case result.Problem != nil:
		return "", result.Problem
	}
	return result.Value.KeyID, nil
}

// echo answers each item with its job id and its tenant's, when gate lets it.
func echo(core *coretest.Core, path string, gate func(id string)) {
	core.On(path, func(item coretest.Item) coretest.Result {
		var request hop.ID
		_ = json.Unmarshal(item.Request, &request)
		gate(request.ID)
		if strings.HasPrefix(request.ID, "bad") {
			return coretest.Refuse(problem.InvalidRequest, request.ID)
		}
		return coretest.Value(http.StatusOK, api.Whoami{KeyID: request.ID + " of " + item.Principal.Tenant})
	})
}

// Callers that come while a request is under way share the next; each gets its own
// answer, and a bad one fails alone.
func TestCallersShareARequest(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	var first sync.Once
	echo(core, hop.SubmitJobs.Path, func(string) { first.Do(func() { entered <- struct{}{}; <-release }) })
	c := client(t, core.URL, coretest.Secret)
	op := as(hop.SubmitJobs.Operation, hop.Writes).Shared("")
	const callers = 200
	var group sync.WaitGroup
	ask := func(id string) {
		group.Go(func() {
			got, err := one(t.Context(), c, op, id)
			if bad := strings.HasPrefix(id, "bad"); bad != (err != nil) || (!bad && got != id+" of t-"+id) || (bad && !strings.Contains(err.Error(), id)) {
				t.Errorf("%s: %q, %v", id, got, err)
			}
		})
	}
	ask("0")
	<-entered
	for i := range callers - 1 {
		id := fmt.Sprint(i + 1)
		if i%50 == 7 {
			id = "bad" + id
		}
		ask(id)
	}
	until(t, "all callers to wait", func() bool { return cellclient.SharedWaiting(c, op.Operation, op.how) == callers-1 })
	close(release)
	group.Wait()
	if n := len(core.Requests(hop.SubmitJobs.Path)); n != 2 {
		t.Errorf("%d requests for %d callers, want 2", n, callers)
	}
	until(t, "the group to be forgotten", func() bool { return cellclient.Groups(c) == 0 })
}

// One group waits for core, another does not wait for it. A caller that leaves
// before its request was sent leaves no doubt; one that leaves after, does.
func TestGroupsAreApart(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	echo(core, hop.SubmitJobs.Path, func(id string) {
		if id == "stuck" {
			entered <- struct{}{}
			<-release
		}
	})
	defer close(release)
	c := client(t, core.URL, coretest.Secret)
	op := as(hop.SubmitJobs.Operation, hop.Keyed)
	during, leaveDuring := context.WithCancel(t.Context())
	before, leaveBefore := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() { _, err := one(during, c, op.Shared("a"), "stuck"); errs <- err }()
	<-entered
	waiting := make(chan error, 1)
	go func() { _, err := one(before, c, op.Shared("a"), "behind"); waiting <- err }()
	until(t, "the second to wait", func() bool { return cellclient.SharedWaiting(c, op.Operation, op.Shared("a").how) == 1 })
	if got, err := one(t.Context(), c, op.Shared("b"), "free"); err != nil || got != "free of t-free" {
		t.Errorf("another group: %q, %v", got, err)
	}
	if got, err := one(t.Context(), c, as(hop.SubmitJobs.Operation, hop.Writes).Shared("a"), "other"); err != nil || got != "other of t-other" {
		t.Errorf("another effect: %q, %v", got, err)
	}
	leaveBefore()
	if err := <-waiting; !errors.Is(err, cellclient.ErrUnavailable) || errors.Is(err, cellclient.ErrOutcomeUnknown) {
		t.Errorf("left before it was sent: %v", err)
	}
	leaveDuring()
	if err := <-errs; !errors.Is(err, cellclient.ErrOutcomeUnknown) {
		t.Errorf("left after it was sent: %v", err)
	}
}

// A tenant for whom core would have to wait is asked for by itself, and holds up nobody
// else, also where its calls come first.
func TestATenantThatMustWaitGoesAlone(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	var shared atomic.Int64
	core.On(hop.SubmitJobs.Path, func(item coretest.Item) coretest.Result {
		if item.Principal.Tenant != "t-slow" {
			if !item.Shared {
				t.Errorf("%s goes alone", item.Principal.Tenant)
			}
			return coretest.Value(http.StatusOK, api.Whoami{KeyID: "ok"})
		}
		if item.Shared {
			shared.Add(1)
			return coretest.Result{Status: http.StatusConflict, RetryUnbatched: true}
		}
		entered <- struct{}{}
		<-release
		return coretest.Value(http.StatusOK, api.Whoami{KeyID: "late"})
	})
	c := client(t, core.URL, coretest.Secret)
	op := as(hop.SubmitJobs.Operation, hop.Writes).Shared("")
	slow := make(chan error, 2)
	ask := func() {
		got, err := one(t.Context(), c, op, "slow")
		if err == nil && got != "late" {
			err = fmt.Errorf("answered %q", got)
		}
		slow <- err
	}
	go ask()
	<-entered
	for range 3 { // while the slow one is held up
		if got, err := one(t.Context(), c, op, "quick"); got != "ok" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	go ask()
	until(t, "the second to wait in its tenant's group", func() bool { return cellclient.SharedWaiting(c, op.Operation, op.Shared("t-slow").how) == 1 })
	close(release)
	for range 2 {
		if err := <-slow; err != nil {
			t.Error(err)
		}
	}
	if n := shared.Load(); n != 1 {
		t.Errorf("core had to say %d times that the tenant goes alone", n)
	}
}

// A reply that is lost is in doubt for all that shared its request, each in its way.
func TestALostReplyIsInDoubtForAll(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.Raw(hop.SubmitJobs.Path, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c := client(t, core.URL, coretest.Secret)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if _, err := one(ctx, c, as(hop.SubmitJobs.Operation, hop.Writes).Shared(""), fmt.Sprint(i)); !errors.Is(err, cellclient.ErrOutcomeUnknown) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	group.Wait()
}
