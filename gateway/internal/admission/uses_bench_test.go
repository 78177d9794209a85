package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// benchTenants is how many tenants send requests between two reports.
const benchTenants = 5_000

// What it costs to count uses: submits of one job with every limit on, by 64 callers, of one tenant and of many, decided by
// Redis and without it; uncounted and counted in turn. One iteration is one round of both.
//
//	go test -run '^$' -bench CountedUses -benchtime 40x ./internal/admission/
func BenchmarkCountedUses(b *testing.B) {
	for _, place := range []struct {
		name, url string
		charges   int
	}{{"redis", storetest.Redis(b), 5_000}, {"local", "", 10_000}} {
		for _, tenants := range []int{1, benchTenants} {
			b.Run(fmt.Sprintf("%s/tenants=%d", place.name, tenants), func(b *testing.B) {
				l := limiter(b, place.url, admission.LimiterOptions{})
				keys := benchKeys(tenants)
				uncounted := func(a *admission.Payer, cost admission.Cost) error { return l.ChargeUncounted(b.Context(), a, cost) }
				counted := func(a *admission.Payer, cost admission.Cost) error { return l.Charge(b.Context(), a, cost) }
				for range 2 { // connections are made, and the script is known
					chargeAll(b, keys, place.charges, counted)
				}
				var ratios []float64
				var took [2]time.Duration
				b.ResetTimer()
				for round := range b.N {
					var one [2]time.Duration
					for i := range one {
						which := (i + round) % 2
						one[which] = chargeAll(b, keys, place.charges, []func(*admission.Payer, admission.Cost) error{uncounted, counted}[which])
						took[which] += one[which]
					}
					ratios = append(ratios, one[1].Seconds()/one[0].Seconds())
				}
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], "counted÷uncounted")
				for i, name := range []string{"uncounted-ns", "counted-ns"} {
					b.ReportMetric(float64(took[i].Nanoseconds())/float64(b.N*place.charges), name)
				}
				b.ReportMetric(0, "ns/op") // a round's length says nothing
			})
		}
	}
}

func benchKeys(tenants int) []*hop.KeyRecord {
	rate, burst := 1e6, int64(1e6)
	limits := api.Limits{
		RequestsPerSecond: &rate, RequestBurst: &burst, JobsPerSecond: &rate, JobBurst: &burst,
		UserRequestsPerSecond: &rate, UserRequestBurst: &burst, UserJobsPerSecond: &rate, UserJobBurst: &burst,
	}
	keys := make([]*hop.KeyRecord, tenants)
	for i := range keys {
		keys[i] = keyOf(fmt.Sprintf("0190a000-0000-7000-8000-%012d", i), "", limits)
	}
	return keys
}

// chargeAll charges submits of the keys by 64 callers, and gives how long it took.
func chargeAll(b *testing.B, keys []*hop.KeyRecord, charges int, charge func(*admission.Payer, admission.Cost) error) time.Duration {
	b.Helper()
	const callers = 64
	var group sync.WaitGroup
	begun := time.Now()
	for caller := range callers {
		group.Go(func() {
			for i := caller; i < charges; i += callers {
				if err := charge(&admission.Payer{Key: keys[i%len(keys)], Kind: admission.CostJobs}, submit("bob", 1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(begun)
}

// What a report costs: what each of many tenants was admitted, sent to a core that answers at once.
//
//	go test -run '^$' -bench ReportedUses -benchtime 10x ./internal/admission/
func BenchmarkReportedUses(b *testing.B) {
	var calls, sent, largest atomic.Int64
	core := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Error(err)
		}
		size := int64(len(body))
		calls.Add(1)
		sent.Add(size)
		for seen := largest.Load(); size > seen && !largest.CompareAndSwap(seen, size); seen = largest.Load() {
		}
		answers := strings.Repeat(`{"status":200,"value":{}},`, bytes.Count(body, []byte(`"principal":`)))
		_, _ = io.WriteString(w, `{"results":[`+strings.TrimSuffix(answers, ",")+`]}`)
	}))
	defer core.Close()
	client, err := coreclient.New(coreclient.Options{URL: core.URL, Secret: bytes.Repeat([]byte("s"), 32)})
	if err != nil {
		b.Fatal(err)
	}
	l := limiter(b, "", admission.LimiterOptions{})
	keys := benchKeys(benchTenants)
	var took time.Duration
	var failed atomic.Int64
	for range b.N {
		chargeAll(b, keys, 2*benchTenants, func(a *admission.Payer, cost admission.Cost) error { return l.Charge(b.Context(), a, cost) })
		begun := time.Now()
		l.ReportOnce(b.Context(), func(ctx context.Context, tenant string, uses []hop.LimitUse) error {
			err := client.ReportUses(ctx, tenant, uses)
			if err != nil {
				failed.Add(1)
			}
			return err
		})
		took += time.Since(begun)
	}
	if failed.Load() > 0 {
		b.Errorf("%d tenants' uses were not reported", failed.Load())
	}
	n := float64(b.N)
	b.ReportMetric(float64(took.Milliseconds())/n, "ms/report")
	b.ReportMetric(float64(sent.Load())/n, "bytes/report")
	b.ReportMetric(float64(calls.Load())/n, "calls/report")
	b.ReportMetric(float64(largest.Load()), "largest-call-bytes")
	b.ReportMetric(0, "ns/op") // it has the charges too
}
