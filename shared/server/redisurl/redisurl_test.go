package redisurl_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/redisurl"
)

func TestForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]redisurl.Target{
		"redis://":                         {Addrs: []string{"localhost:6379"}},
		"redis://host":                     {Addrs: []string{"host:6379"}},
		"redis://[::1]:7000/3":             {Addrs: []string{"[::1]:7000"}, DB: 3},
		"redis://host?db=4":                {Addrs: []string{"host:6379"}, DB: 4},
		"redis://:pass%2Fword@host:1":      {Addrs: []string{"host:1"}, Password: "pass/word"},
		"redis://user:pw@host:1?addr=b:2":  {Addrs: []string{"host:1", "b:2"}, Cluster: true, Username: "user", Password: "pw"},
		"redis://nodes?cluster=true":       {Addrs: []string{"nodes:6379"}, Cluster: true},
		"unix:///run/redis.sock?db=2":      {Addrs: []string{"/run/redis.sock"}, DB: 2},
		"unix://:pw@/run/redis.sock":       {Addrs: []string{"/run/redis.sock"}, Password: "pw"},
		"redis://u:pw@s1/5?master_name=fq": {Addrs: []string{"s1:26379"}, Master: "fq", DB: 5, Username: "u", Password: "pw"},
		"redis://s1?master_name=fq&addr=s2:1&sentinel_username=w&sentinel_password=x": {
			Addrs: []string{"s1:26379", "s2:1"}, Master: "fq", SentinelUsername: "w", SentinelPassword: "x",
		},
	} {
		got, err := redisurl.Parse(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	secure, err := redisurl.Parse("rediss://one?addr=two:1")
	if err != nil || secure.TLS == nil || secure.TLS.ServerName != "" {
		t.Errorf("with TLS: %+v, %v", secure, err)
	}
}

// What cannot be read is refused, and a password is not repeated.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "host:6379", "http://x", "::", "redis://:hunter2@x/zero", "redis://:hunter2@x/-1", "redis://:hunter2@x:0", "redis://:hunter2@x:70000",
		"redis://:hunter2@x\x00", "redis://:hunter2@x?a;b", "unix://:hunter2@host/path", "unix://:hunter2@", "unix:///x?addr=y",
		"redis://:hunter2@x/1?db=2", "redis://:hunter2@x/1?addr=y", "redis://:hunter2@x?cluster=maybe",
		"redis://:hunter2@x?master_name=m&cluster=true", "redis://x?sentinel_password=hunter2", "redis://:hunter2@x?pool_size=3",
		"redis://:hunter2@x?tls_ca=/etc/ca.pem", "rediss://:hunter2@x?tls_ca=/nowhere", "rediss://:hunter2@x?tls_cert=/nowhere",
		"rediss://:hunter2@x?tls_cert=/nowhere&tls_key=/nowhere", "rediss://:hunter2@x?tls_ca=redisurl.go",
	} {
		target, err := redisurl.Parse(text)
		if err == nil {
			t.Errorf("%q was taken: %+v", text, target)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
