package operator

import (
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What is wrong with processes and Redis is said in words; what is right is not mentioned.
func TestTroubleIsSaidInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	running := func(version string) api.Process {
		return api.Process{Kind: api.ProcessCore, Address: "a:1", Version: version, State: api.ProcessRunning, SeenAt: api.At(at)}
	}
	lost := api.Process{Kind: api.ProcessGateway, Address: "b:2", Version: "v1", State: api.ProcessLost, SeenAt: api.At(at.Add(-2 * time.Minute))}
	for _, c := range []struct {
		processes []api.Process
		want      []string
	}{
		{nil, nil},
		{[]api.Process{running("v2"), running("v2")}, nil},
		{[]api.Process{running("v2"), lost}, []string{"The gateway at b:2 was not stopped, and has not reported for " + view.Duration(2*time.Minute)}},
		{[]api.Process{running("v1"), running("v2")}, []string{"Processes of several versions run: v1, v2. After an update there should be one"}},
	} {
		if got := lostProcesses(at, c.processes); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.processes, got, c.want)
		}
	}
	for _, c := range []struct {
		redis *api.RedisState
		want  []string
	}{
		{nil, nil},
		{&api.RedisState{UsedBytes: 1 << 30, Policy: "noeviction"}, nil},
		{&api.RedisState{UsedBytes: 99, MaxBytes: 100, Policy: "noeviction"}, []string{"Redis has little memory left"}},
		{&api.RedisState{UsedBytes: 99, MaxBytes: 100, Policy: "allkeys-lru", EvictedKeys: 1234}, []string{"Redis has dropped " + view.Number(1234) + " keys for want of memory (maxmemory-policy allkeys-lru): these limits start again from zero"}},
	} {
		if got := troubleInRedis(c.redis); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.redis, got, c.want)
		}
	}
	for _, drifted := range []*api.PostgresState{
		{Verified: &api.Verification{At: api.At(at), Violations: 2}, Counted: &api.Verification{At: api.At(at)}},
		{Counted: &api.Verification{At: api.At(at), Violations: 1}},
	} {
		if got := troubleIn(drifted); len(got) != 1 {
			t.Errorf("drift: %q", got)
		}
	}
}
