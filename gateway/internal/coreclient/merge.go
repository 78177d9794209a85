package coreclient

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// merged makes the calls whose answer is put together from several cells; is is false for all others.
func merged[Req, Resp any](ctx context.Context, c *Client, of hop.Op[Req, Resp], how cellclient.How, item hop.Item[Req]) (answer hop.Result[Resp], is bool, err error) {
	switch of.Path {
	case hop.GetInstallation.Path:
		answer, err = as[Resp](c.installation(ctx, how, any(item).(hop.Item[struct{}]))) //nolint:forcetypeassert // the operation's
	case hop.GetTenantStats.Path:
		answer, err = as[Resp](c.tenantStats(ctx, how, any(item).(hop.Item[hop.StatsRequest]))) //nolint:forcetypeassert // the operation's
	case hop.GetTenant.Path:
		answer, err = as[Resp](c.tenant(ctx, how, any(item).(hop.Item[hop.ID]))) //nolint:forcetypeassert // the operation's
	case hop.ListAudit.Path:
		cells := c.cells
		if tenant := item.Principal.Tenant; tenant != "" && c.cellOf(tenant) == c.home() {
			return answer, false, nil
		} else if tenant != "" { // what it did to its keys is recorded in the home cell
			cells = []*oneCell{c.home(), c.cellOf(tenant)}
		}
		answer, err = as[Resp](audit(ctx, cells, how, any(item).(hop.Item[hop.Filtered[api.AuditFilter]]))) //nolint:forcetypeassert // the operation's
	default:
		return answer, false, nil
	}
	return answer, true, err
}

// askAll asks all cells the same.
func askAll[Req, Resp any](ctx context.Context, c *Client, of hop.Op[Req, Resp], how cellclient.How, item hop.Item[Req]) []answerOf[hop.Result[Resp]] {
	return inCells(ctx, c.cells, nil, func(ctx context.Context, cell *oneCell) (hop.Result[Resp], error) {
		return cellclient.Call(ctx, cell.Cell, of, how, item)
	})
}

// installation is the home cell's, with the PostgreSQL, the processes, statements and redrives of all cells that answer. checks
// has the state of each cell.
func (c *Client) installation(ctx context.Context, how cellclient.How, item hop.Item[struct{}]) (hop.Result[api.Installation], error) {
	answers := askAll(ctx, c, hop.GetInstallation, how, item)
	home := answers[0].value
	if answers[0].err != nil || home.Value == nil {
		return home, answers[0].err
	}
	made := *home.Value
	made.Checks = map[string]string{}
	for i, answer := range answers {
		found := answer.value.Value
		if answer.err != nil || found == nil {
			made.Checks["cell "+answer.cell.Name()] = Down
			continue
		}
		made.Checks["cell "+answer.cell.Name()] = "ok"
		if i == 0 {
			continue
		}
		made.Cells = append(made.Cells, api.CellState{Name: answer.cell.Name(), Postgres: found.Postgres})
		made.Processes = append(made.Processes, found.Processes...)
		made.Statements = append(made.Statements, found.Statements...)
		made.Redrives = append(made.Redrives, found.Redrives...)
	}
	home.Value = &made
	return home, nil
}

// tenantStats are what the cells that answer have counted.
func (c *Client) tenantStats(ctx context.Context, how cellclient.How, item hop.Item[hop.StatsRequest]) (hop.Result[api.TenantStats], error) {
	if item.Request.To == nil { // the same steps in all cells
		item.Request.To = new(api.At(clock.Now()))
	}
	answers := askAll(ctx, c, hop.GetTenantStats, how, item)
	best, err := bestOf(answers, false)
	if err != nil || best.Value == nil {
		return best, err
	}
	var found []api.TenantStats
	for _, answer := range answers {
		if answer.err == nil && answer.value.Value != nil {
			found = append(found, *answer.value.Value)
		}
	}
	best.Value = new(mergedTenants(found...))
	return best, nil
}

// tenant reads a tenant. A deletion has ended when it has in the home cell and in the tenant's.
func (c *Client) tenant(ctx context.Context, how cellclient.How, item hop.Item[hop.ID]) (hop.Result[api.Tenant], error) {
	answer, err := cellclient.Call(ctx, c.home().Cell, hop.GetTenant, how, item)
	found := answer.Value
	if err != nil || found == nil || found.Deletion == nil {
		return answer, err
	}
	cell := c.named(found.Cell)
	if cell == nil || cell == c.home() {
		return answer, nil
	}
	there, err := cellclient.Call(ctx, cell.Cell, hop.GetTenant, how, item)
	switch {
	case err != nil || there.Problem != nil && there.Problem.Status >= 500:
		return there, err
	case there.Value == nil || there.Value.Deletion == nil: // it has not heard of it yet
		found.Deletion.State, found.Deletion.EndedAt = api.DeletionRunning, nil
		return answer, nil
	}
	found.Deletion.Removed += there.Value.Deletion.Removed
	if there.Value.Deletion.State != api.DeletionDone {
		found.Deletion.State, found.Deletion.EndedAt = api.DeletionRunning, nil
	}
	return answer, nil
}

// placeIn is where a merged list continues in one cell: behind some entries of a page. The page of an empty token is the first.
type placeIn struct {
	Token string `json:"t,omitzero"`
	Skip  int    `json:"s,omitzero"`
	// Ended: the cell has no more.
	Ended bool `json:"e,omitzero"`
}

// audit merges the audit logs of some cells.
func audit(ctx context.Context, cells []*oneCell, how cellclient.How, item hop.Item[hop.Filtered[api.AuditFilter]]) (hop.Result[api.Page[api.AuditEntry]], error) {
	places := make([]placeIn, len(cells))
	if text := item.Request.PageToken; text != "" {
		raw, _ := base64.RawURLEncoding.DecodeString(text) // what is none is no list either
		if json.Unmarshal(raw, &places) != nil || len(places) != len(cells) {
			p := problem.New(problem.InvalidRequest, "The page_token is not valid for this list and filter.")
			return hop.Result[api.Page[api.AuditEntry]]{Status: p.Status, Problem: p}, nil //nolint:nilerr // the refusal says it
		}
	}
	pages := make([]api.Page[api.AuditEntry], len(cells))
	for i, cell := range cells { // a list without a cell's entries would look complete
		if places[i].Ended {
			continue
		}
		part := item
		part.Request.PageToken = places[i].Token
		answer, err := cellclient.Call(ctx, cell.Cell, hop.ListAudit, how, part)
		if err != nil || answer.Value == nil {
			return answer, err
		}
		pages[i] = *answer.Value
		pages[i].Items = pages[i].Items[min(places[i].Skip, len(pages[i].Items)):]
	}
	made := api.Page[api.AuditEntry]{Items: []api.AuditEntry{}}
	for i := range pages { // it has looked at many entries that the filter leaves out
		if len(pages[i].Items) == 0 && pages[i].NextPageToken != nil {
			places[i] = placeIn{Token: *pages[i].NextPageToken}
			return auditPage(made, places)
		}
	}
	size := cmp.Or(item.Request.PageSize, api.DefaultPageSize)
	for len(made.Items) < size {
		next := newest(pages)
		if next < 0 {
			break
		}
		made.Items = append(made.Items, pages[next].Items[0])
		pages[next].Items = pages[next].Items[1:]
		if places[next].Skip++; len(pages[next].Items) == 0 && pages[next].NextPageToken != nil {
			// What follows may come before the others' entries: the merged page ends here.
			places[next] = placeIn{Token: *pages[next].NextPageToken}
			pages[next].NextPageToken = nil
			return auditPage(made, places)
		}
	}
	ended := true
	for i := range pages {
		places[i].Ended = len(pages[i].Items) == 0 && pages[i].NextPageToken == nil
		ended = ended && places[i].Ended
	}
	if ended {
		return hop.Result[api.Page[api.AuditEntry]]{Status: 200, Value: &made}, nil
	}
	return auditPage(made, places)
}

func auditPage(made api.Page[api.AuditEntry], places []placeIn) (hop.Result[api.Page[api.AuditEntry]], error) {
	text, err := json.Marshal(places)
	if err != nil {
		return hop.Result[api.Page[api.AuditEntry]]{}, err
	}
	made.NextPageToken = new(base64.RawURLEncoding.EncodeToString(text))
	return hop.Result[api.Page[api.AuditEntry]]{Status: 200, Value: &made}, nil
}

// newest is the page whose first entry is the newest of all, -1 where no page has one.
func newest(pages []api.Page[api.AuditEntry]) int {
	best := -1
	for i := range pages {
		if len(pages[i].Items) > 0 && (best < 0 || pages[i].Items[0].ID > pages[best].Items[0].ID) {
			best = i
		}
	}
	return best
}
