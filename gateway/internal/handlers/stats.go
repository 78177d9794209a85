package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Stats reads job stats.
//
//	@Description What the tenant's jobs did, an item for each minute, hour or day, oldest first: jobs submitted and ended, attempts started and failed, the time that attempts waited and ran. Means are sums divided by `started`. A rerun counts as submitted, a redrive does not. An attempt that is given back (released, snoozed, undelivered) counts as started.
//	@Description
//	@Description For charts, not for bills: what a core that was killed counted in its last 5 seconds is missing. `GET /v1/usage` is exact. Minutes are kept for 2 days, hours for 90 days; of older minutes an hour's sum is shown at its first minute.
//	@ID          readStats
//	@Param       queue query string false "Only this queue; absent: all queues of the tenant together."
//	@Param       from  query string false "The first step has this time; absent: an hour before `to`." Format(date-time)
//	@Param       to    query string false "Only steps that begin before this time; absent: now." Format(date-time)
//	@Param       step  query string false "The length of a step; absent: minute for a range of at most 24 hours, else hour. An answer has at most 2880 steps." Enums(minute, hour, day)
//	@Success     200 {object} api.Stats "The steps."
func (h *Handlers) Stats(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return stats(ctx, h, c, hop.GetStats)
}

// stats asks core for what the query's range has.
func stats[Resp any](ctx context.Context, h *Handlers, c *call.Call, op hop.Op[hop.StatsRequest, Resp]) (call.Passed, error) {
	q := request.NewQuery(c.Query)
	asked := hop.StatsRequest{Queue: q.Queue("queue"), From: q.Time("from"), To: q.Time("to"), Step: q.OneOf("step", api.StepMinute, api.StepHour, api.StepDay)}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, op, asked)
}

// TenantStats reads the attempts of tenants.
//
//	@Description How many attempts tenants had, an item for each minute, hour or day, oldest first: the 8 tenants with the most that were started in the range, and all others together. The weights are what they are now; a tenant's share by weight is its part of the weights of all tenants that had attempts, those of `others` included.
//	@Description
//	@Description For charts, as `GET /v1/stats`. A range has at most 24 hours. Where there are several cells, those that answer are counted.
//	@ID          readTenantStats
//	@Param       from query string false "The first step has this time; absent: an hour before `to`." Format(date-time)
//	@Param       to   query string false "Only steps that begin before this time; absent: now." Format(date-time)
//	@Param       step query string false "The length of a step; absent: minute." Enums(minute, hour, day)
//	@Success     200 {object} api.TenantStats "The tenants."
func (h *Handlers) TenantStats(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return stats(ctx, h, c, hop.GetTenantStats)
}

// LimitStats reads limit stats.
//
//	@Description How much of each limit was used, an item for each minute, hour or day in which something asked for room under it, oldest first, and who was refused the most. Limits are named as in refusals: `tenant-active`, `user-active`, `tenant-running`, and rates as `tenant-requests`, `tenant-jobs`, `user-jobs`. Of the caps of users an item has the user with the largest use; of a rate it has what was admitted in the step, of all users or keys together, and what the rate is in it.
//	@Description
//	@Description For charts: what a core that was killed counted in its last 5 seconds is missing, and a gateway in its last 20. Minutes are kept for 2 days, hours for 90 days; of older minutes an hour is shown at its first minute.
//	@ID          readLimitStats
//	@Param       queue query string false "The limits of this queue; absent: those of the tenant and its users."
//	@Param       from  query string false "The first step has this time; absent: an hour before `to`." Format(date-time)
//	@Param       to    query string false "Only steps that begin before this time; absent: now." Format(date-time)
//	@Param       step  query string false "The length of a step; absent: minute for a range of at most 24 hours, else hour. An answer has at most 2880 steps." Enums(minute, hour, day)
//	@Success     200 {object} api.LimitStats "The limits."
func (h *Handlers) LimitStats(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return stats(ctx, h, c, hop.GetLimitStats)
}

// Usage reads usage.
//
//	@Description Exact counts of the tenant's jobs, by day (of UTC), type or user. Each event counts on its day: `accepted` when the job was submitted, `completed`, `cancelled` and `dead_letter` when it ended, `redriven` and `discarded` when a dead letter was. Over all days, `accepted - completed - cancelled - dead_letter + redriven` is the number of jobs that have not ended.
//	@Description
//	@Description The numbers of a day are final some minutes after its end (`closed_through`), and kept for as long as the tenant. Items with `open` include a later day, which is counted when it is read, up to 10,000 jobs of each kind; `capped` says that there are more.
//	@ID          readUsage
//	@Param       from       query string false "The first day; absent: the first of the month of `to`." Format(date)
//	@Param       to         query string false "The last day, included; absent: today. At most 366 days." Format(date)
//	@Param       by         query string false "What to sum by; absent: day." Enums(day, type, user)
//	@Param       page_size  query int    false "Maximum number of types or users; days are all in one answer."
//	@Success     200 {object} api.Usage "The counts."
func (h *Handlers) Usage(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	q := request.NewQuery(c.Query)
	asked := hop.UsageRequest{From: q.Date("from"), To: q.Date("to"), By: q.OneOf("by", api.ByDay, api.ByType, api.ByUser), PageRequest: q.Page()}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.GetUsage, asked)
}

// Installation asks core how the stores are. The checks are those of who answers.
func (h *Handlers) Installation(ctx context.Context, c *call.Call) (call.Response[api.Installation], error) {
	return call.Send(ctx, h.core, c, hop.GetInstallation, struct{}{})
}
