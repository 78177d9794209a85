package tenant

import (
	"cmp"
	"strings"
)

// QueueKey names a queue.
type QueueKey struct {
	Tenant ID
	Name   string
}

// Compare orders queues by their tenants, then by their names.
func (k QueueKey) Compare(other QueueKey) int {
	return cmp.Or(strings.Compare(string(k.Tenant[:]), string(other.Tenant[:])), strings.Compare(k.Name, other.Name))
}

// OwnQueueSQL is false for the jobs of system queues, such as the deliveries of webhooks: they are the system's own, and in no
// count.
const OwnQueueSQL = `left(queue, 1) <> '_'`

// SecretPlace is the place of the queue's sealed secret: it opens for no other.
func (k QueueKey) SecretPlace() string { return k.Tenant.String() + "/" + k.Name }

// CredentialsPlace is the place of its sealed credentials for a broker. No name of a queue has a slash.
func (k QueueKey) CredentialsPlace() string { return k.SecretPlace() + "/credentials" }
