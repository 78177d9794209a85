package admission_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/api"
)

// startCluster starts three servers that share the slots, and gives its URL.
func startCluster(t *testing.T) (url string) {
	t.Helper()
	storetest.Redis(t) // skips where there is none
	var ports []int
	var buses []string
	var clients []*redis.Client
	for range 3 {
		address, bus := porttest.Address(t), porttest.Port(porttest.Address(t))
		port, err := strconv.Atoi(porttest.Port(address))
		if err != nil {
			t.Fatal(err)
		}
		server, err := supervisor.StartRedis(t.Context(), supervisor.RedisOptions{Port: port, ExtraArgs: []string{
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "20000",
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = server.Kill()
			<-server.Done()
		})
		client := redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() { _ = client.Close() })
		ports, buses, clients = append(ports, port), append(buses, bus), append(clients, client)
	}
	for i, client := range clients {
		last := min(16383, (i+1)*5462-1)
		if err := client.ClusterAddSlotsRange(t.Context(), i*5462, last).Err(); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if err := clients[0].Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", ports[i], buses[i]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, client := range clients {
		for deadline := time.Now().Add(2 * hang); ; time.Sleep(20 * time.Millisecond) {
			info, err := client.ClusterInfo(t.Context()).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("no cluster: %v, %s", err, info)
			}
		}
	}
	return fmt.Sprintf("redis://127.0.0.1:%d?addr=127.0.0.1:%d&addr=127.0.0.1:%d", ports[0], ports[1], ports[2])
}

// On a real cluster: every tenant's keys are in one slot, tenants are on all
// three servers, and a flush that is for all of them is decided as ever.
func TestCluster(t *testing.T) {
	t.Parallel()
	url := startCluster(t)
	l := limiter(t, url, admission.LimiterOptions{})
	client := raw(t, url)
	rate, burst := slowly, int64(3)
	in := func(string) api.Limits {
		return api.Limits{
			RequestsPerSecond: &rate, RequestBurst: &burst, JobsPerSecond: &rate, JobBurst: &burst,
			UserRequestsPerSecond: &rate, UserRequestBurst: &burst, UserJobsPerSecond: &rate, UserJobBurst: &burst,
		}
	}
	servers := map[int64]bool{}
	for range 30 {
		use := admission.Use{Tenant: uuid.NewString(), KeyID: "key", Jobs: map[string]int64{"b{o}b": 1, "}{": 1}, TakesSlots: true}
		request := admission.NewRequest(use, in)
		slots := map[int64]bool{}
		for _, key := range keysOf(request) {
			slot, err := client.ClusterKeySlot(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			slots[slot], servers[slot/5462] = true, true
		}
		if len(slots) != 1 {
			t.Fatalf("keys of one tenant are in %d slots: %v", len(slots), keysOf(request))
		}
		// The second takes the tenant's fourth job: refused, and not in part.
		first := l.Admit(t.Context(), request)
		if first.Verdict != bucket.Admitted {
			t.Fatalf("the first: %+v", first)
		}
		second := l.Admit(t.Context(), request)
		if second.Verdict != bucket.RateLimited || second.Policies[0].Remaining != 2 {
			t.Fatalf("the second: %+v", second)
		}
	}
	if len(servers) != 3 {
		t.Errorf("tenants are on %d servers", len(servers))
	}
}
