package console

import (
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

type installationPage struct {
	api.Installation

	Parts   []partRow
	Trouble []string
	Size    string
	// Connections are those in use, of how many there may be.
	Connections gauge
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

func showInstallation(v *visit) (shown, error) {
	found, err := get[api.Installation](v.client, "/v1/admin/installation", nil)
	if err != nil {
		return shown{}, err
	}
	p := &found.Postgres
	page := installationPage{
		Installation: found, Size: view.Bytes(p.SizeBytes),
		Connections: newGauge("Connections", p.Connections, p.MaxConnections), Trouble: troubleIn(p),
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
	return shown{template: "installation", title: "Installation", data: page}, nil
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
	if p.MaxConnections > 0 && p.Connections*100 >= p.MaxConnections*nearPercent {
		trouble = append(trouble, "PostgreSQL has few connections left")
	}
	for _, one := range p.Replicas {
		if one.State != "streaming" && one.State != "" {
			trouble = append(trouble, "The standby "+one.Name+" is not streaming: "+one.State)
		}
	}
	return trouble
}
