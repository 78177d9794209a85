package operator

import (
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
)

type installationPage struct {
	api.Installation

	Parts   []partRow
	Trouble []string
	// Servers are the PostgreSQL of each cell, the home cell first.
	Servers []serverCard
	// Memory is that of Redis.
	Memory                view.Gauge
	MemoryUsed, MemoryMax string
}

// serverCard is a PostgreSQL.
type serverCard struct {
	// Cell is empty where there is one.
	Cell     string
	Postgres *api.PostgresState
	Size     string
	// Connections are those in use, of how many there may be.
	Connections view.Gauge
}

// partRow is a service or store, and how it is.
type partRow struct {
	Name, State string
	Good        bool
}

// From where on a snapshot is trouble, and how many dead rows are: a queue in PostgreSQL slows down when they cannot be removed.
const (
	oldSnapshotMS = 5 * 60_000
	manyDeadRows  = 100_000
)

// ShowInstallation shows the stores and the processes, and what is wrong with them.
func ShowInstallation(v *visit.Visit) (visit.Page, error) {
	found, err := v.API.Installation(v.Context())
	if err != nil {
		return visit.Page{}, err
	}
	page := installationPage{Installation: found, Trouble: append(lostProcesses(v.Site.Now(), found.Processes), troubleInRedis(found.Redis)...)}
	home := ""
	if len(found.Cells) > 0 {
		home = "home cell"
	}
	page.add(home, &found.Postgres)
	for i := range found.Cells {
		page.add("cell "+found.Cells[i].Name, &found.Cells[i].Postgres)
	}
	if r := found.Redis; r != nil {
		page.Memory = view.NewGauge("Memory", r.UsedBytes, r.MaxBytes)
		page.MemoryUsed, page.MemoryMax = view.Bytes(r.UsedBytes), view.Bytes(r.MaxBytes)
	}
	for name, state := range found.Checks {
		page.Parts = append(page.Parts, partRow{name, state, state != "down"})
	}
	slices.SortFunc(page.Parts, func(a, b partRow) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return visit.Page{Template: "installation", Title: "Installation", Data: page}, nil
}

func (p *installationPage) add(name string, server *api.PostgresState) {
	p.Servers = append(p.Servers, serverCard{
		Cell: name, Postgres: server, Size: view.Bytes(server.SizeBytes),
		Connections: view.NewGauge("Connections", server.Connections, server.MaxConnections),
	})
	for _, text := range troubleIn(server) {
		if name != "" {
			text = "In the " + name + ": " + text
		}
		p.Trouble = append(p.Trouble, text)
	}
}

// lostProcesses says which cores and gateways are gone without having been stopped, and whether the others differ.
func lostProcesses(now time.Time, all []api.Process) []string {
	var trouble, versions []string
	for i := range all {
		one := &all[i]
		if one.State == api.ProcessLost {
			trouble = append(trouble, "The "+one.Kind+" at "+one.Address+" was not stopped, and has not reported for "+view.Duration(now.Sub(one.SeenAt.Time).Truncate(time.Second)))
		} else if !slices.Contains(versions, one.Version) {
			versions = append(versions, one.Version)
		}
	}
	if len(versions) > 1 {
		trouble = append(trouble, "Processes of several versions run: "+strings.Join(versions, ", ")+". After an update there should be one")
	}
	return trouble
}

// troubleInRedis says in words how Redis loses what limits count.
func troubleInRedis(r *api.RedisState) []string {
	var trouble []string
	switch {
	case r == nil:
	case r.EvictedKeys > 0:
		trouble = append(trouble, "Redis has dropped "+view.Number(r.EvictedKeys)+" keys for want of memory (maxmemory-policy "+r.Policy+"): these limits start again from zero")
	case r.MaxBytes > 0 && r.UsedBytes*100 >= r.MaxBytes*view.NearPercent:
		trouble = append(trouble, "Redis has little memory left")
	}
	return trouble
}

// troubleIn says in words what will slow PostgreSQL down.
func troubleIn(p *api.PostgresState) []string {
	var trouble []string
	if p.OldestTransactionMS != nil && *p.OldestTransactionMS > oldSnapshotMS {
		text := "A transaction is open for " + view.Milliseconds(*p.OldestTransactionMS)
		if p.OldestTransactionOf != nil && *p.OldestTransactionOf != "" {
			text += ", by " + *p.OldestTransactionOf
		}
		trouble = append(trouble, text+". Dead rows stay until it ends")
	}
	if p.DeadRows > manyDeadRows && p.DeadRows > 2*p.LiveRows {
		trouble = append(trouble, view.Number(p.DeadRows)+" dead rows wait for autovacuum in the table of live jobs")
	}
	if p.MaxConnections > 0 && p.Connections*100 >= p.MaxConnections*view.NearPercent {
		trouble = append(trouble, "PostgreSQL has few connections left")
	}
	for _, found := range []*api.Verification{p.Counted, p.Verified} {
		if found != nil && found.Violations > 0 {
			trouble = append(trouble, "Counts of caps have drifted: core verify lists where, and core recount resets them")
			break
		}
	}
	for _, one := range p.Replicas {
		if one.State != "streaming" && one.State != "" {
			trouble = append(trouble, "The standby "+one.Name+" is not streaming: "+one.State)
		}
	}
	return trouble
}
