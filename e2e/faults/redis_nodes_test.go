package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
)

// node is one Redis of several, on a port.
type node struct {
	*supervisor.Redis
	port string
}

func newNode(t *testing.T, args ...string) *node {
	t.Helper()
	storetest.Redis(t) // skips where there is none
	port := portOf(stack.FreeAddress(t))
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	server, err := supervisor.StartRedis(t.Context(), supervisor.RedisOptions{Port: number, ExtraArgs: args})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Redis: server, port: port}
	t.Cleanup(n.kill)
	return n
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func (n *node) kill() {
	_ = n.Kill()
	<-n.Done()
}

// ask gives the answer to one command, flat; nil where there is none.
func ask(t *testing.T, url string, words ...string) []string {
	t.Helper()
	answer, err := invariants.RedisAsk(context.WithoutCancel(t.Context()), url, words...)
	if err != nil {
		return nil
	}
	return answer
}

func asked(t *testing.T, url string, words ...string) string {
	t.Helper()
	return strings.Join(ask(t, url, words...), "\n")
}

// The master of a tenant's slot dies in a Redis Cluster of three masters and three replicas, under load.
func TestRedisClusterLosesAMaster(t *testing.T) {
	t.Parallel()
	const masters = 3
	var nodes []*node
	var buses []string
	for range 2 * masters {
		bus := portOf(stack.FreeAddress(t))
		nodes = append(nodes, newNode(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "4000",
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"))
		buses = append(buses, bus)
	}
	for i := range masters {
		last := min(16383, (i+1)*5462-1)
		if asked(t, nodes[i].URL(), "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*5462), strconv.Itoa(last)) != "OK" {
			t.Fatal("slots were not given")
		}
	}
	for i := range nodes {
		ask(t, nodes[0].URL(), "CLUSTER", "MEET", "127.0.0.1", nodes[i].port, buses[i])
	}
	told := func(text string) func(*node) bool {
		return func(n *node) bool { return strings.Contains(asked(t, n.URL(), "CLUSTER", "INFO"), text) }
	}
	all := func(what string, done func(*node) bool) {
		t.Helper()
		stack.Eventually(t, time.Minute, what, func() bool {
			return !slices.ContainsFunc(nodes, func(n *node) bool { return !done(n) })
		})
	}
	all("the nodes know each other", told("cluster_known_nodes:6"))
	for i := range masters {
		id := asked(t, nodes[i].URL(), "CLUSTER", "MYID")
		stack.Eventually(t, time.Minute, "a replica takes its master", func() bool {
			return asked(t, nodes[masters+i].URL(), "CLUSTER", "REPLICATE", id) == "OK"
		})
	}
	all("the cluster is complete", told("cluster_state:ok"))
	stack.Eventually(t, time.Minute, "the replicas follow", func() bool {
		return !slices.ContainsFunc(nodes[masters:], func(n *node) bool {
			return !strings.Contains(asked(t, n.URL(), "INFO", "replication"), "master_link_status:up")
		})
	})

	var victim int
	masterDies(t, fmt.Sprintf("redis://127.0.0.1:%s?addr=127.0.0.1:%s&addr=127.0.0.1:%s", nodes[0].port, nodes[1].port, nodes[2].port),
		func(tenant string) {
			slot, err := strconv.Atoi(asked(t, nodes[0].URL(), "CLUSTER", "KEYSLOT", "{"+tenant+"}"))
			if err != nil {
				t.Fatal(err)
			}
			victim = slot / 5462
			nodes[victim].kill()
		},
		func() bool {
			return strings.Contains(asked(t, nodes[masters+victim].URL(), "INFO", "replication"), "role:master")
		})
}

// The master that three Sentinels watch dies under load.
func TestRedisSentinelReplacesAMaster(t *testing.T) {
	t.Parallel()
	master := newNode(t)
	replicas := []*node{newNode(t, "--replicaof", "127.0.0.1", master.port), newNode(t, "--replicaof", "127.0.0.1", master.port)}
	program, err := supervisor.FindRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sentinels []string
	for range 3 {
		address := stack.FreeAddress(t)
		config := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor jobs 127.0.0.1 %s 2\nsentinel down-after-milliseconds jobs 2000\nsentinel failover-timeout jobs 6000\n",
			portOf(address), filepath.Dir(config), master.port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stack.StartCommand(t, exec.CommandContext(context.WithoutCancel(t.Context()), program.Path, config, "--sentinel"))
		sentinels = append(sentinels, address)
	}
	stack.Eventually(t, time.Minute, "the sentinels know each other and both replicas", func() bool {
		return !slices.ContainsFunc(sentinels, func(address string) bool {
			said := asked(t, "redis://"+address, "SENTINEL", "MASTER", "jobs")
			return !strings.Contains(said, "num-slaves\n2\n") || !strings.Contains(said, "num-other-sentinels\n2\n")
		})
	})
	masterDies(t, fmt.Sprintf("redis://%s?master_name=jobs&addr=%s&addr=%s", sentinels[0], sentinels[1], sentinels[2]),
		func(string) { master.kill() },
		func() bool {
			return slices.ContainsFunc(replicas, func(n *node) bool {
				return strings.Contains(asked(t, n.URL(), "INFO", "replication"), "role:master")
			})
		})
}

// masterDies puts load on two gateways and two cores and has the Redis die that a tenant's buckets are on. No
// request fails for it, no more is admitted than its limit and a burst a gateway for each loss and return, jobs
// that another core stored are found meanwhile, and once a replica has taken over Redis decides again.
func masterDies(t *testing.T, redisURL string, kill func(tenant string), replaced func() bool) {
	t.Helper()
	const gateways, rate, burst = 2, 2, 4
	c := stack.NewCluster(t, stack.ClusterOptions{
		Cores: 2, Gateways: gateways, RedisURL: redisURL, Settings: map[string]string{"FORGEQUEUE_LOG_LEVEL": "warn"},
	})
	l := newLoad(t, c, stack.Patience(10*time.Second))
	caps := capped{active: 80, running: 20, userRunning: 1000}
	overrides := caps.overrides()
	perSecond, atOnce := float64(rate), int64(burst)
	overrides.JobsPerSecond, overrides.JobBurst = &perSecond, &atOnce
	c.Override(t, l.tenant, overrides)
	stack.Eventually(t, time.Minute, "the limits are in force in both gateways", func() bool { return l.limited(gateways) })
	decidesAlone := func() float64 { return c.Gateways[0].Metric(localDecisions) + c.Gateways[1].Metric(localDecisions) }
	decidedByRedis := func() float64 { return c.Gateways[0].Metric(redisDecisions) + c.Gateways[1].Metric(redisDecisions) }

	stopWatch := l.watchCaps(caps)
	stopWork := l.work(6, 5*time.Millisecond)
	stopLocal := l.watchLocal()
	stopPress := l.press(8)
	stack.Eventually(t, time.Minute, "Redis decides", func() bool { return decidedByRedis() > 0 })
	pace(t.Context(), time.Second)
	alone := decidesAlone()
	killed := time.Now()
	kill(l.tenant.ID)
	stack.Eventually(t, time.Minute, "gateways decide alone", func() bool { return decidesAlone() > alone })
	stack.Eventually(t, time.Minute, "a replica has taken over", replaced)
	took := time.Now()
	stack.Eventually(t, time.Minute, "Redis decides again", func() bool {
		alone, byRedis := decidesAlone(), decidedByRedis()
		pace(t.Context(), time.Second)
		return decidesAlone() == alone && decidedByRedis() > byRedis
	})
	back := time.Now()
	stopPress()
	l.drain(2 * time.Minute)
	stopWork()
	stopWatch()
	l.drift = c.Verify(t)
	h, db := l.history(), l.database()
	losses := append([]time.Time{killed, took, back}, stopLocal()...)
	db.Buckets = []invariants.Bucket{{Tenant: l.tenant.ID, Rate: perSecond, Burst: burst, Losses: losses, Gateways: gateways}}
	l.judge(h, db)
	if broken := h.Count(func(e invariants.Event) bool { return e.Status >= 500 }); broken > 0 {
		t.Errorf("%d requests were answered with a 5xx", broken)
	}
	if h.Count(func(e invariants.Event) bool { return e.Status == http.StatusTooManyRequests }) == 0 {
		t.Error("nothing was ever limited")
	}
	meanwhile := h.Count(func(e invariants.Event) bool {
		return e.Op == invariants.OpClaim && e.Job != "" && e.Sent.After(killed) && e.Done.Before(took)
	})
	if meanwhile == 0 {
		t.Error("no job was claimed while the master was away")
	}
	t.Logf("%d jobs claimed in the %v until a replica took over; Redis decided again %v later at most", meanwhile,
		took.Sub(killed).Round(time.Millisecond), back.Sub(took).Round(time.Millisecond))
}

const redisDecisions = `forgequeue_admission_decisions_total{mode="redis",verdict="admitted"}`
