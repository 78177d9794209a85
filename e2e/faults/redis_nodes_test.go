package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
)

// node is one Redis of several, on a port.
type node struct {
	*supervisor.Redis
	port string
}

// newNode starts one. portArg is "--port" or "--tls-port".
func newNode(t *testing.T, portArg string, args ...string) *node {
	t.Helper()
	storetest.Redis(t) // skips where there is none
	port := porttest.Port(porttest.Address(t))
	server, err := supervisor.StartRedis(t.Context(), supervisor.RedisOptions{ExtraArgs: append([]string{portArg, port}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Redis: server, port: port}
	t.Cleanup(n.kill)
	return n
}

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

// The master of a tenant's slot dies in a Redis Cluster of three masters and three replicas, under load. All
// connections have TLS with certificates of both sides, and the users are those of api-docs/operations.md.
func TestRedisClusterLosesAMaster(t *testing.T) {
	furtherFault(t, "TestRedisFaults")
	t.Parallel()
	const masters = 3
	certificates := stack.NewAuthority(t)
	certificates.Issue("server")
	certificates.Issue("client")
	var nodes []*node
	var buses []string
	for range 2 * masters {
		bus := porttest.Port(porttest.Address(t))
		nodes = append(nodes, newNode(t, "--tls-port", append([]string{
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "4000",
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0",
			"--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients", "yes", "--tls-ca-cert-file", certificates.Path("ca.pem"),
			"--tls-cert-file", certificates.Path("server.pem"), "--tls-key-file", certificates.Path("server.key"),
		}, stack.RedisClusterUsers(t)...)...))
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

	of := func(ca *stack.Authority) func(string) string {
		query := url.Values{
			"addr":   {"127.0.0.1:" + nodes[1].port, "127.0.0.1:" + nodes[2].port},
			"tls_ca": {ca.Path("ca.pem")}, "tls_cert": {certificates.Path("client.pem")}, "tls_key": {certificates.Path("client.key")},
		}
		return func(user string) string {
			return fmt.Sprintf("rediss://%s@127.0.0.1:%s?%s", url.UserPassword(user, stack.RedisPassword), nodes[0].port, query.Encode())
		}
	}
	doctorRefuses(t, of(stack.NewAuthority(t))("gateway"))

	var victim int
	masterDies(t, of(certificates), nodes,
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
	furtherFault(t, "TestRedisFaults")
	t.Parallel()
	users := stack.RedisUsers(t)
	master := newNode(t, "--port", users...)
	following := append([]string{"--replicaof", "127.0.0.1", master.port}, users...)
	replicas := []*node{newNode(t, "--port", following...), newNode(t, "--port", following...)}
	program, err := supervisor.FindRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sentinels []string
	for range 3 {
		address := porttest.Address(t)
		config := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor jobs 127.0.0.1 %s 2\nsentinel down-after-milliseconds jobs 2000\nsentinel failover-timeout jobs 6000\n%s\n",
			porttest.Port(address), filepath.Dir(config), master.port, stack.SentinelUser(t))
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
	query := url.Values{
		"master_name": {"jobs"}, "addr": sentinels[1:], "sentinel_username": {"sentinel"}, "sentinel_password": {stack.RedisPassword},
	}
	masterDies(t, func(user string) string {
		return fmt.Sprintf("redis://%s@%s?%s", url.UserPassword(user, stack.RedisPassword), sentinels[0], query.Encode())
	}, append([]*node{master}, replicas...),
		func(string) { master.kill() },
		func() bool {
			return slices.ContainsFunc(replicas, func(n *node) bool {
				return strings.Contains(asked(t, n.URL(), "INFO", "replication"), "role:master")
			})
		})
	for _, address := range sentinels {
		if refused := asked(t, "redis://"+address, "ACL", "LOG"); refused != "" {
			t.Errorf("Sentinel refused:\n%s", refused)
		}
	}
}

// doctorRefuses runs `forgequeue doctor` with an authority that did not sign the nodes' certificates.
func doctorRefuses(t *testing.T, redisURL string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), stack.Binary(t), "doctor")
	command.Env = append(os.Environ(), "DATABASE_URL=", "REDIS_URL="+redisURL)
	said, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "certificate signed by unknown authority") || strings.Contains(string(said), stack.RedisPassword) {
		t.Errorf("doctor with another authority: %v\n%s", err, said)
	}
}

// masterDies puts load on two gateways and two cores and has the Redis die that a tenant's buckets are on. No
// request fails for it, no more is admitted than its limit and a burst a gateway for each loss and return, jobs
// that another core stored are found meanwhile, and once a replica has taken over Redis decides again. No node
// refuses what its users ask for.
func masterDies(t *testing.T, redisURL func(user string) string, nodes []*node, kill func(tenant string), replaced func() bool) {
	t.Helper()
	const gateways, rate, burst = 2, 2, 4
	c := stack.NewCluster(t, stack.ClusterOptions{
		Cores: 2, Gateways: gateways, RedisURL: redisURL("gateway"), CoreRedisURL: redisURL("core"), Settings: map[string]string{"FORGEQUEUE_LOG_LEVEL": "warn"},
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
	for _, n := range nodes { // the dead one has no answer
		if refused := asked(t, n.URL(), "ACL", "LOG"); refused != "" {
			t.Errorf("Redis refused:\n%s", refused)
		}
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
