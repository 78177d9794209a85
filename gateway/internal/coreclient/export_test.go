package coreclient

import "github.com/forgequeue/forgequeue/shared/api"

// MergedTenants are tenants' attempts as several cells have counted them.
func MergedTenants(all ...api.TenantStats) api.TenantStats { return mergedTenants(all...) }
