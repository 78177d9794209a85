package charts

import (
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Tenants draws the attempts of each tenant that is counted, and of the others together.
func Tenants(span string, stats *api.TenantStats) []Chart {
	if len(stats.Tenants) == 0 {
		return nil
	}
	named := map[string]int{}
	for i := range stats.Tenants {
		named[stats.Tenants[i].Name]++
	}
	var series []string
	var all []*api.TenantAttempts
	for i := range stats.Tenants {
		one := &stats.Tenants[i]
		name := one.Name
		if named[name] > 1 { // names are free, ids differ
			name += " " + one.TenantID[max(len(one.TenantID)-8, 0):]
		}
		series, all = append(series, name), append(all, &one.TenantAttempts)
	}
	if stats.Others.Started > 0 {
		series, all = append(series, view.Number(int64(stats.Others.Tenants))+" others"), append(all, &stats.Others.TenantAttempts)
	}
	steps := stepsOf(stats.From, stats.To, stats.Step)
	made := newChart(span, "tenants", "Attempts started", series, steps)
	for i := range steps {
		var row []string
		for s, one := range all {
			n := int64(0)
			if i < len(one.Items) {
				n = one.Items[i].Started
			}
			made.Data.Values[s][i] = new(float64(n))
			row = append(row, view.Number(n))
		}
		made.row(steps[i], row...)
	}
	return []Chart{made}
}
