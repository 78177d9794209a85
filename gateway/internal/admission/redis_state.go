package admission

import (
	"cmp"
	"context"
	"strconv"

	"github.com/forgequeue/forgequeue/shared/api"
)

// State is how Redis is, in a cluster one of its nodes; nil without Redis, and where it does not answer or does not
// allow INFO.
func (r *Redis) State(ctx context.Context) *api.RedisState {
	if r.client == nil || r.Check(ctx) != CheckOK {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	info, err := r.client.Info(ctx, "server", "memory", "clients", "stats")
	if err != nil {
		return nil
	}
	number := func(section, name string) int64 {
		n, err := strconv.ParseInt(info[section][name], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	server, memory := info["Server"], info["Memory"]
	return &api.RedisState{
		Version: cmp.Or(server["valkey_version"], server["redis_version"]), Mode: cmp.Or(server["server_mode"], server["redis_mode"]),
		UsedBytes: number("Memory", "used_memory"), MaxBytes: number("Memory", "maxmemory"), Policy: memory["maxmemory_policy"],
		EvictedKeys: number("Stats", "evicted_keys"), Clients: number("Clients", "connected_clients"),
	}
}
