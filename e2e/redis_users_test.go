package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// authority signs certificates of one test.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: stack.Folder(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.newKey()
	a.cert = a.sign("ca", template, template, a.key, a.key)
	return a
}

// issue writes NAME.pem and NAME.key, for a server on loopback and for a client.
func (a *authority) issue(name string) {
	a.t.Helper()
	key := a.newKey()
	a.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", der)
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(name string, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// documentedUsers are the users of api-docs/operations.md, as words of redis-server's command line.
func documentedUsers(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(stack.Repository("api-docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		if rules, ok := strings.CutPrefix(line, "user "); ok && strings.Contains(rules, ">PASSWORD") {
			words = append(append(words, "--user"), strings.Fields(strings.Replace(rules, "PASSWORD", "pass/word", 1))...)
		}
	}
	if len(words) == 0 {
		t.Fatal("operations.md has no users")
	}
	return words
}

// Redis with TLS, whose clients need a certificate, and with the users of api-docs/operations.md: limits are Redis', hints
// arrive, and nothing that gateway or core asks for is refused.
func TestRedisUsersWithLeastRights(t *testing.T) {
	t.Parallel()
	storetest.Redis(t) // skips where there is none
	certificates := newAuthority(t)
	certificates.issue("server")
	certificates.issue("client")
	address := stack.FreeAddress(t)
	server, err := supervisor.StartRedis(t.Context(), supervisor.RedisOptions{ExtraArgs: append([]string{
		"--tls-port", address[strings.LastIndexByte(address, ':')+1:], "--tls-auth-clients", "yes", "--tls-ca-cert-file", certificates.path("ca.pem"),
		"--tls-cert-file", certificates.path("server.pem"), "--tls-key-file", certificates.path("server.key"),
		"--requirepass", "admin",
	}, documentedUsers(t)...)})
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
		files := url.Values{"tls_ca": {certificates.path("ca.pem")}, "tls_cert": {certificates.path("client.pem")}, "tls_key": {certificates.path("client.key")}}
		return fmt.Sprintf("rediss://%s:pass%%2Fword@%s?%s", user, address, files.Encode())
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
		said := ask("PUBSUB", "NUMSUB", api.ChannelReady, api.ChannelKeyRevoked)
		return limited == 2 && said == api.ChannelReady+"\n2\n"+api.ChannelKeyRevoked+"\n2"
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
