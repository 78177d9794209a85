package cellclient

import "github.com/forgequeue/forgequeue/shared/server/hop"

// SharedWaiting counts the items that wait for a request of an operation's group.
func SharedWaiting(c *Cell, o hop.Operation, how How) int {
	c.groups.mu.Lock()
	use := c.groups.all[how.of(o).groupKey()]
	c.groups.mu.Unlock()
	if use == nil {
		return 0
	}
	return use.group.Waiting()
}

// Groups counts the groups that are in use.
func Groups(c *Cell) int {
	c.groups.mu.Lock()
	defer c.groups.mu.Unlock()
	return len(c.groups.all)
}
