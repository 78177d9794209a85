package coreclient_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

// However tenants lie in cells, the first of all and the others are as if they lay in one.
func TestMergedTenants(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	cell := func(tenants []api.StatsTenant) api.TenantStats {
		none := api.TenantStats{Tenants: []api.StatsTenant{}, Others: api.StatsOthers{TenantAttempts: api.TenantAttempts{Items: make([]api.TenantStatsItem, 1)}}}
		none.Tenants = append(none.Tenants, tenants...)
		return coreclient.MergedTenants(none)
	}
	for range 200 {
		cells := make([][]api.StatsTenant, 1+random.IntN(4))
		var all []api.StatsTenant
		for range random.IntN(40) {
			n := 1 + random.Int64N(5)
			one := api.StatsTenant{TenantID: uuid.NewString(), Weight: 1 + random.IntN(9), TenantAttempts: api.TenantAttempts{
				Started: n, Completed: n, RunningMS: n, Items: []api.TenantStatsItem{{Started: n, RunningMS: n}},
			}}
			all = append(all, one)
			in := random.IntN(len(cells))
			cells[in] = append(cells[in], one)
		}
		parts := make([]api.TenantStats, len(cells))
		for i := range cells {
			parts[i] = cell(cells[i])
		}
		want := cell(all)
		if got := coreclient.MergedTenants(parts...); !reflect.DeepEqual(got, want) || len(got.Tenants) != min(len(all), api.MaxStatsTenants) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}
