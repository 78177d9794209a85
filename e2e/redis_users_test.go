package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Redis with TLS, whose clients need a certificate, and with the users of api-docs/operations.md: limits are Redis', hints
// arrive, and nothing that gateway or core asks for is refused.
func TestRedisUsersWithLeastRights(t *testing.T) {
	t.Parallel()
	storetest.Redis(t) // skips where there is none
	certificates := stack.NewAuthority(t)
	certificates.Issue("server")
	certificates.Issue("client")
	address := porttest.Address(t)
	server, err := supervisor.StartRedis(t.Context(), supervisor.RedisOptions{ExtraArgs: append([]string{
		"--tls-port", address[strings.LastIndexByte(address, ':')+1:], "--tls-auth-clients", "yes", "--tls-ca-cert-file", certificates.Path("ca.pem"),
		"--tls-cert-file", certificates.Path("server.pem"), "--tls-key-file", certificates.Path("server.key"),
		"--requirepass", "admin",
	}, stack.RedisUsers(t)...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Kill()
		<-server.Done()
	})
	admin, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin.User = url.UserPassword("", "admin")
	ask := func(words ...string) string {
		t.Helper()
		answer, err := invariants.RedisAsk(t.Context(), admin.String(), words...)
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return strings.Join(answer, "\n")
	}
	of := func(user string) string {
		files := url.Values{"tls_ca": {certificates.Path("ca.pem")}, "tls_cert": {certificates.Path("client.pem")}, "tls_key": {certificates.Path("client.key")}}
		return fmt.Sprintf("rediss://%s@%s?%s", url.UserPassword(user, stack.RedisPassword), address, files.Encode())
	}

	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2, RedisURL: of("gateway"), CoreRedisURL: of("core")})
	tenant := c.NewTenant(t, "limited")
	rate, burst := 0.001, int64(2)
	c.Override(t, tenant, api.Overrides{Limits: api.Limits{JobsPerSecond: &rate, JobBurst: &burst}})
	stack.Eventually(t, time.Minute, "both gateways share the limit, and both cores and gateways hear hints", func() bool {
		limited := 0
		for _, gateway := range c.Gateways {
			status, _ := stack.Call(t, http.MethodPost, gateway.URL+"/v1/jobs", tenant.Key, []byte(`{"type":"x"}`))
			if status == http.StatusTooManyRequests {
				limited++
			}
		}
		// the cores' own channel has their database in its name
		cores := ask("PUBSUB", "CHANNELS", hop.ChannelReady+":*")
		said := ask("PUBSUB", "NUMSUB", cores, hop.ChannelKeyRevoked)
		return limited == 2 && said == cores+"\n2\n"+hop.ChannelKeyRevoked+"\n2"
	})
	for _, gateway := range c.Gateways {
		if alone := gateway.Metric("forgequeue_admission_local"); alone != 0 {
			t.Error("a gateway decides alone")
		}
	}
	if stats := ask("INFO", "commandstats"); !strings.Contains(stats, "cmdstat_publish:") || !strings.Contains(stats, "cmdstat_zadd:") {
		t.Errorf("nobody published a hint, or registered:\n%s", stats)
	}
	for _, service := range []*stack.Service{c.Gateways[0], c.Gateways[1], c.Cores[0], c.Cores[1]} {
		if code, _ := service.Stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	if refused := ask("ACL", "LOG"); refused != "" {
		t.Errorf("Redis refused:\n%s", refused)
	}
}
