package jobevents

import (
	"testing"
	"testing/synctest"
	"time"
)

// Streams together write about as many events a second as they may; a tenant with few has all of its own, whatever the
// others have.
func TestTenantsShareTheEvents(t *testing.T) {
	t.Parallel()
	type load struct {
		jobs, streams int // streams are of each job
		least, most   int // events of a stream in a minute
	}
	for name, tenants := range map[string]map[string]load{
		"one stream":              {"a": {1, 1, 240, 241}},
		"one job, many streams":   {"a": {1, 1000, 115, 125}},
		"many jobs":               {"a": {1000, 1, 12, 15}},
		"a tenant beside another": {"a": {1, 2000, 45, 62}, "b": {1, 1, 240, 241}, "c": {10, 2, 240, 241}},
		"two that have the same":  {"a": {1, 1000, 57, 125}, "b": {1, 1000, 57, 125}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := followers{byTenant: map[string]*tenantStreams{}}
				for tenant, of := range tenants {
					all.byTenant[tenant] = &tenantStreams{open: of.jobs * of.streams}
				}
				begun, written := time.Now(), 0
				for tenant, of := range tenants {
					for range of.jobs {
						go func() {
							events := 0
							for ; time.Since(begun) < time.Minute; events++ {
								all.mu.Lock()
								spread, interval := all.charge(tenant, of.streams)
								written += of.streams
								all.mu.Unlock()
								if spread > interval {
									t.Errorf("%s: written in %v of %v", tenant, spread, interval)
								}
								time.Sleep(interval)
							}
							if events < of.least || events > of.most {
								t.Errorf("%s: %d events in a minute, want %d to %d", tenant, events, of.least, of.most)
							}
						}()
					}
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if perSecond := written / 60; perSecond > 2*eventsPerSecond {
					t.Errorf("%d events a second", perSecond)
				}
			})
		})
	}
}
