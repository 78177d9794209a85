package coreclient

import (
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// MergedTenants are tenants' attempts as several cells have counted them.
func MergedTenants(all ...api.TenantStats) api.TenantStats { return mergedTenants(all...) }

// SharedWaiting counts the items that wait for a request of an operation's group.
func SharedWaiting(c *Client, o hop.Operation, how How) int {
	c.home().groups.mu.Lock()
	use := c.home().groups.all[how.of(o).groupKey()]
	c.home().groups.mu.Unlock()
	if use == nil {
		return 0
	}
	return use.group.Waiting()
}

// Groups counts the groups that are in use.
func Groups(c *Client) int {
	c.home().groups.mu.Lock()
	defer c.home().groups.mu.Unlock()
	return len(c.home().groups.all)
}
