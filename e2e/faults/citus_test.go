package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// citusCells is how many cells TestCitus has besides the home cell.
const citusCells = 8

// Eight cells, each a schema that Citus keeps on one of two workers, and a home cell of plain tables on the
// coordinator. Schemas are moved to the other worker while jobs of all cells are submitted and worked on: what was
// accepted is done once.
func TestCitus(t *testing.T) {
	t.Parallel()
	coordinator := stack.Citus(t)
	c := &cellStack{T: t, urls: []string{stack.CitusSchema(t, coordinator, false)}}
	listed := []map[string]any{{"name": "home", "accepts_new": false}}
	for i := range citusCells {
		c.urls = append(c.urls, stack.CitusSchema(t, coordinator, true))
		listed = append(listed, map[string]any{"name": fmt.Sprintf("cell%d", i+1), "dsn": c.urls[i+1]})
	}
	text, err := json.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cells.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	settings := stack.PushSettings()
	settings["FORGEQUEUE_CELLS"], settings["FORGEQUEUE_DATABASE_CONNS"] = file, "8"
	c.Cluster = stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2, DatabaseURL: c.urls[0], Settings: settings})
	admin := c.Client(t, stack.Operator)
	for i := range citusCells {
		made, err := admin.CreateTenant(t.Context(), api.TenantRequest{Name: fmt.Sprint(i + 1), Plan: new("unlimited"), Cell: new(fmt.Sprintf("cell%d", i+1))})
		if err != nil {
			t.Fatal(err)
		}
		key, err := admin.CreateKey(t.Context(), made.ID, api.KeyRequest{Scopes: api.Scopes()})
		if err != nil {
			t.Fatal(err)
		}
		c.tenants = append(c.tenants, &cellTenant{Tenant: stack.Tenant{ID: made.ID, Key: key.Secret}, cell: i + 1})
	}
	c.features()
	c.move(coordinator)
	refused := c.Command(t, "tenant", "move", c.tenants[0].ID, "cell2")
	if code := refused.Wait(t, time.Minute); code == 0 || !strings.Contains(refused.Output(), "citus_schema_move") {
		t.Errorf("a tenant's move: exit code %d\n%s", code, refused.Output())
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
}

// move moves schemas from one worker to the other under load, two, and with FORGEQUEUE_FAULTS=long all that it has,
// and then has Citus rebalance them.
func (c *cellStack) move(coordinator string) {
	c.Helper()
	moves := 2
	if inLongLane() {
		moves = citusCells
	}
	producing, stopProducing := context.WithCancel(c.Context())
	defer stopProducing()
	working, stopWorking := context.WithCancel(c.Context())
	defer stopWorking()
	var producers, workers sync.WaitGroup
	platformKey := c.NewPlatformKey(c.T)
	for i, gateway := range c.Gateways {
		platform := c.clientOf(gateway, platformKey, new(atomic.Int64))
		workers.Go(func() { c.work(working, platform, fmt.Sprintf("platform-%d", i)) })
	}
	for i, owner := range c.tenants {
		own := c.clientOf(c.Gateways[i%len(c.Gateways)], owner.Key, &owner.refused)
		producers.Go(func() { owner.produce(producing, own) })
		workers.Go(func() { c.work(working, own, fmt.Sprint("own-", i)) })
	}
	progress := func() func() bool {
		before := make([]int64, len(c.tenants))
		for i, owner := range c.tenants {
			before[i] = owner.done.Load()
		}
		return func() bool {
			for i, owner := range c.tenants {
				if owner.done.Load() < before[i]+10 {
					return false
				}
			}
			return true
		}
	}
	stack.Eventually(c.T, 2*time.Minute, "jobs of all cells are done", progress())
	before := c.jobs()
	stack.MoveCitusSchemas(c.T, coordinator, c.urls[1:], moves, func(took time.Duration) {
		c.Logf("a cell moved in %v, %d jobs were done meanwhile", took.Round(100*time.Millisecond), c.jobs()-before)
		stack.Eventually(c.T, 2*time.Minute, "jobs of all cells are done after the move", progress())
		before = c.jobs()
	})
	moved := stack.RebalanceCitus(c.T, coordinator)
	c.Logf("%d cells were moved to rebalance, %d jobs were done meanwhile", moved, c.jobs()-before)
	if moved == 0 {
		c.Error("one worker has most cells, and none was moved")
	}
	stack.Eventually(c.T, 2*time.Minute, "jobs of all cells are done after the rebalancing", progress())
	stopProducing()
	producers.Wait()
	for _, owner := range c.tenants {
		owner.allDone(c)
	}
	var refused int64
	for _, owner := range c.tenants {
		refused += owner.refused.Load()
	}
	c.Logf("%d jobs were done; %d submits were answered with 503 and repeated", c.jobs(), refused)
	stopWorking()
	workers.Wait()
}

// jobs counts the completed ones.
func (c *cellStack) jobs() (n int64) {
	for _, owner := range c.tenants {
		n += owner.done.Load()
	}
	return n
}
