package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// service starts `forgequeue core` or `forgequeue gateway` with settings.
func service(t *testing.T, settings map[string]string, args ...string) *stack.Process {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), stack.Binary(t), args...)
	command.Env = os.Environ()
	for name, value := range settings {
		command.Env = append(command.Env, name+"="+value)
	}
	return stack.StartCommand(t, command)
}

func answers(t *testing.T, url string, status int, contains string) func() bool {
	t.Helper()
	return func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		var body json.RawMessage
		_ = json.NewDecoder(response.Body).Decode(&body)
		return response.StatusCode == status && strings.Contains(string(body), contains)
	}
}

// Two cores and two gateways, each a process of its own, on stores that are given:
// what is submitted through one pair is claimed through the other.
func TestServicesJoinGivenStores(t *testing.T) {
	t.Parallel()
	database, redis := stack.NewDatabase(t), storetest.Redis(t)
	operator := "operator-key-of-this-test-0123456789"
	settings := func(more map[string]string) map[string]string {
		all := map[string]string{
			"DATABASE_URL": database, "REDIS_URL": redis, "FORGEQUEUE_OPERATOR_KEY": operator,
			"FORGEQUEUE_HOP_SECRET": strings.Repeat("h", 32), "FORGEQUEUE_KEY_SECRET": strings.Repeat("k", 32),
			"FORGEQUEUE_METRICS_LISTEN": porttest.Address(t), "FORGEQUEUE_CORE_METRICS_LISTEN": porttest.Address(t),
		}
		maps.Copy(all, more)
		return all
	}
	for range 2 { // a repeat is harmless
		if code := service(t, settings(nil), "core", "migrate").Wait(t, time.Minute); code != 0 {
			t.Fatalf("migrate: exit code %d", code)
		}
	}
	var urls [2]string
	var processes []*stack.Process
	for i := range urls {
		core, gateway := porttest.Address(t), porttest.Address(t)
		processes = append(processes,
			service(t, settings(map[string]string{"FORGEQUEUE_CORE_LISTEN": core}), "core"),
			service(t, settings(map[string]string{"FORGEQUEUE_LISTEN": gateway, "FORGEQUEUE_CORE_URL": "http://" + core}), "gateway"))
		urls[i] = "http://" + gateway
	}
	for _, url := range urls {
		stack.Eventually(t, time.Minute, url+" is ready", answers(t, url+"/readyz", 200, `"core":"ok"`))
	}
	key := tenantKey(t, urls[0], operator)
	crossCores(t, urls, key)
	for _, process := range processes {
		if code := process.Stop(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, process.Output())
		}
	}
}

func tenantKey(t *testing.T, url, operator string) string {
	t.Helper()
	admin := newClient(t, url, operator)
	tenant, err := admin.CreateTenant(t.Context(), api.TenantRequest{Name: "two pairs"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := admin.CreateKey(t.Context(), tenant.ID, api.KeyRequest{Scopes: api.Scopes()})
	if err != nil {
		t.Fatal(err)
	}
	return key.Secret
}

func newClient(t *testing.T, url, key string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: url, APIKey: key, HTTPClient: &http.Client{}}) // the transport that Main set
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// crossCores submits through one pair while claims wait in the other.
func crossCores(t *testing.T, urls [2]string, key string) {
	t.Helper()
	const jobs = 20
	producer, consumer := newClient(t, urls[0], key), newClient(t, urls[1], key)
	var group sync.WaitGroup
	var mu sync.Mutex
	done := map[string]int{}
	for i := range 4 {
		group.Go(func() {
			for {
				wait := int64(3000)
				claimed, err := consumer.Claim(t.Context(), api.ClaimRequest{WorkerID: fmt.Sprint("w", i), Queues: []string{"q"}, WaitMS: &wait})
				if err != nil {
					t.Error(err)
					return
				}
				if len(claimed.Jobs) == 0 {
					return
				}
				for _, job := range claimed.Jobs {
					if _, err := consumer.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
						t.Error(err)
					}
					mu.Lock()
					done[job.ID]++
					mu.Unlock()
				}
			}
		})
	}
	for range jobs {
		id := stack.Submit(t, producer, api.SubmitRequest{Type: "x", Queue: "q"})
		mu.Lock()
		done[id] += 0
		mu.Unlock()
	}
	group.Wait()
	for id, times := range done {
		if times != 1 {
			t.Errorf("job %s was done %d times", id, times)
		}
	}
	if len(done) != jobs {
		t.Errorf("%d jobs, want %d", len(done), jobs)
	}
}
