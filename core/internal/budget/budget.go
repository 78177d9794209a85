package budget

import (
	"strings"
	"time"
	_ "time/tzdata" // calendar windows, on machines without a database of zones

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Budgets has the statements.
type Budgets struct{ *store.Store }

// New makes them.
func New(s *store.Store) *Budgets { return &Budgets{s} }

// Ref names an amount: a budget of a tenant, and the user or key that it is of; the empty subject where it is the tenant's.
type Ref struct {
	Tenant        tenant.ID
	Name, Subject string
}

// checkSeparator is between the two in the key of a check: no name has it.
const checkSeparator = "/"

// CheckKey is the key of a check of the budget, see package gate.
func (r Ref) CheckKey() string { return r.Name + checkSeparator + r.Subject }

// RefOf is the Ref of a check's key.
func RefOf(owner tenant.ID, key string) Ref {
	name, subject, _ := strings.Cut(key, checkSeparator)
	return Ref{Tenant: owner, Name: name, Subject: subject}
}

// Compare orders them.
func (r Ref) Compare(other Ref) int {
	if order := strings.Compare(string(r.Tenant[:]), string(other.Tenant[:])); order != 0 {
		return order
	}
	return strings.Compare(r.CheckKey(), other.CheckKey())
}

// Definition is a budget as its owner set it.
type Definition struct {
	Name        string
	Unit        string
	Amount      int64
	PerMs       *int64
	Window      *string
	Timezone    string
	Burst       *int64
	By          string
	ClosedUntil *time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Holds is the most that it ever has available.
func (d *Definition) Holds() int64 { return store.OrElse(d.Burst, d.Amount) }

// Subject is whose amount a job uses.
func (d *Definition) Subject(user, key *string) string {
	switch d.By {
	case api.BudgetByUser:
		return store.OrElse(user, "")
	case api.BudgetByKey:
		return store.OrElse(key, "")
	}
	return ""
}

// parts is in how many parts a time that slides is counted.
const parts = 60

// span is the time in which at most what it holds is used, and the length of a part of it.
func (d *Definition) span() (whole, part time.Duration) {
	ms := float64(*d.PerMs) * float64(d.Holds()) / float64(d.Amount)
	whole = max(time.Duration(min(ms, float64(api.MaxAhead.Milliseconds()))*float64(time.Millisecond)), parts*time.Millisecond)
	return whole, (whole / parts).Truncate(time.Microsecond) // PostgreSQL's times have no fractions of them
}

// begin is when the part that t is in has begun.
func (d *Definition) begin(t time.Time) time.Time {
	if d.Window != nil {
		begin, _ := d.window(t)
		return begin
	}
	_, part := d.span()
	return t.UTC().Truncate(part)
}

// over is when what was used in the part that began then is free again.
func (d *Definition) over(begin time.Time) time.Time {
	if d.Window != nil {
		_, end := d.window(begin)
		return end
	}
	whole, part := d.span()
	return begin.Add(whole + part)
}

// window is the calendar's window that t is in.
func (d *Definition) window(t time.Time) (begin, end time.Time) {
	zone, err := time.LoadLocation(d.Timezone)
	if err != nil {
		zone = time.UTC // it was known when the budget was set
	}
	local := t.In(zone)
	switch *d.Window {
	case api.BudgetHour:
		begin = local.Add(-time.Duration(local.Minute())*time.Minute - time.Duration(local.Second())*time.Second - time.Duration(local.Nanosecond()))
		end = begin.Add(time.Hour)
		// some clocks change by half an hour
		if changed, changes := local.ZoneBounds(); changed.After(begin) {
			begin = changed
		} else if !changes.IsZero() && changes.Before(end) {
			end = changes
		}
		return begin, end
	case api.BudgetDay:
		return around(t, func(n int) time.Time { return time.Date(local.Year(), local.Month(), local.Day()+n, 0, 0, 0, 0, zone) })
	default:
		return around(t, func(n int) time.Time {
			return time.Date(local.Year(), local.Month()+time.Month(n), 1, 0, 0, 0, 0, zone)
		})
	}
}

// around gives the two boundaries around t: where a day begins with an hour that the clock skips, its boundary is in one of the
// two days.
func around(t time.Time, boundary func(n int) time.Time) (begin, end time.Time) {
	begin, end = boundary(0), boundary(1)
	switch {
	case begin.After(t):
		return boundary(-1), begin
	case !end.After(t):
		return end, boundary(2)
	}
	return begin, end
}

// wire is the budget as an answer has it, but for what is used of it.
func (d *Definition) wire() api.Budget {
	made := api.Budget{
		Name: d.Name, Unit: d.Unit, Amount: d.Amount, PerMS: d.PerMs, Window: d.Window, Timezone: d.Timezone, Burst: d.Burst,
		By: store.NullIfEmpty(d.By), CreatedAt: api.At(d.CreatedAt), UpdatedAt: api.At(d.UpdatedAt),
	}
	return made
}
