package coreclient

import (
	"cmp"
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
)

// mergedTenants are the attempts that several cells have counted in the same range. Each of them names its own first, so
// that the first of all are among these.
func mergedTenants(all ...api.TenantStats) api.TenantStats {
	made := all[0]
	made.Tenants = slices.Clone(made.Tenants)
	made.Others.Items = slices.Clone(made.Others.Items)
	for _, one := range all[1:] {
		made.Tenants = append(made.Tenants, one.Tenants...)
		made.Others.Tenants, made.Others.Weight = made.Others.Tenants+one.Others.Tenants, made.Others.Weight+one.Others.Weight
		addAttempts(&made.Others.TenantAttempts, &one.Others.TenantAttempts)
	}
	slices.SortFunc(made.Tenants, func(a, b api.StatsTenant) int {
		return cmp.Or(cmp.Compare(b.Started, a.Started), cmp.Compare(a.TenantID, b.TenantID))
	})
	first := min(len(made.Tenants), api.MaxStatsTenants)
	for _, one := range made.Tenants[first:] {
		made.Others.Tenants, made.Others.Weight = made.Others.Tenants+1, made.Others.Weight+int64(one.Weight)
		addAttempts(&made.Others.TenantAttempts, &one.TenantAttempts)
	}
	made.Tenants = made.Tenants[:first]
	return made
}

func addAttempts(to, more *api.TenantAttempts) {
	to.Started, to.Completed, to.RunningMS = to.Started+more.Started, to.Completed+more.Completed, to.RunningMS+more.RunningMS
	for i := range min(len(to.Items), len(more.Items)) {
		to.Items[i].Started += more.Items[i].Started
		to.Items[i].RunningMS += more.Items[i].RunningMS
	}
}
