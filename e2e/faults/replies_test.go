package faults_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/faultproxy"
	"github.com/forgequeue/forgequeue/e2e/stack"
)

// The gateway answers and the answer never arrives: the client asks again with
// its Idempotency-Key, or with the same lease token, and gets what it would have.
func TestHTTPAnswersLost(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, c, 2*time.Second)
	faults := faultproxy.NewFaults(1)
	proxy, err := faultproxy.HTTP(strings.TrimPrefix(c.Gateways[0].URL, "http://"), faults, func(method, path string) bool {
		return method == http.MethodPost && (path == "/v1/jobs" || isOutcome(path))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	l.urls = []string{"http://" + proxy.Address()}
	stopWork := l.work(4, 0)
	stopSubmits := l.produce(8, 100_000, 5*time.Millisecond)
	wanted := lane(60, 10_000)
	faults.Lose(0.3, wanted)
	stack.Eventually(t, time.Duration(lane(60, 300))*time.Second, "answers were lost", func() bool { return faults.Total() >= wanted })
	stopSubmits()
	l.drain(90 * time.Second)
	stopWork()
	h, _ := l.check()
	lost := faults.Lost()
	if lost["POST jobs"] == 0 || lost["POST complete"] == 0 || h.Count(noAnswer) < wanted {
		t.Errorf("lost %v, %d requests without an answer", lost, h.Count(noAnswer))
	}
	t.Logf("lost %v", lost)
}

func isOutcome(path string) bool {
	for _, kind := range []string{"/complete", "/fail", "/snooze", "/release"} {
		if strings.HasSuffix(path, kind) {
			return true
		}
	}
	return false
}
