package api

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Words and bounds of budgets.
const (
	BudgetByUser = "user"
	BudgetByKey  = "key"

	BudgetHour  = "hour"
	BudgetDay   = "day"
	BudgetMonth = "month"

	// MaxBudgets bounds a tenant's budgets, MaxCosts the budgets that one job may use.
	MaxBudgets = 100
	MaxCosts   = 8
	// MaxAmount bounds amounts.
	MaxAmount = 1 << 50

	maxPer = 366 * 24 * time.Hour
)

var (
	budgetBys     = []string{BudgetByUser, BudgetByKey}
	budgetWindows = []string{BudgetHour, BudgetDay, BudgetMonth}
	unitText      = textRule{Rule{Pattern: `^[a-zA-Z]{1,32}$`}, validUnit, "must be 1 to 32 letters"}
)

func validUnit(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 32
}

// Amounts are amounts of budgets, by the name of the budget.
type Amounts map[string]int64

// BudgetRequest sets a budget: how much of something the tenant's jobs may use in a time.
type BudgetRequest struct {
	// Unit is what the amounts count, such as tokens or cents: 1 to 32 letters.
	Unit string `json:"unit"`
	// Amount is how much may be used in PerMS or in a Window.
	Amount int64 `json:"amount"`
	// PerMS is the time of Amount, in milliseconds: what an attempt uses is free again so long after its start. Window is an
	// hour, day or month of the calendar instead. One of them is needed.
	PerMS  *int64  `json:"per_ms,omitzero"`
	Window *string `json:"window,omitzero"`
	// Timezone is that of Window, a name of the IANA database; UTC if empty.
	Timezone string `json:"timezone,omitzero"`
	// Burst is how much may be used at once where the budget has PerMS, and in a part of PerMS that is as much shorter; Amount
	// if absent.
	Burst *int64 `json:"burst,omitzero"`
	// By gives each user, or each key, an amount of its own; null is one amount for the tenant. It cannot be changed.
	By *string `json:"by,omitzero"`
	// Label names what the budget belongs to, such as a file of `forgequeue apply`; none if absent.
	Label *string `json:"label,omitzero"`
}

// Validate tells which fields cannot be accepted; whether the timezone exists is for core to say.
func (b *BudgetRequest) Validate() []problem.FieldError { return validate(b, "", time.Time{}) }

func (b *BudgetRequest) rules(r refusals) {
	r.text("unit", &b.Unit, &unitText)
	whole(r, "amount", &b.Amount, 1, MaxAmount)
	r.millis("per_ms", b.PerMS, time.Second, maxPer)
	r.words("window", b.Window, budgetWindows)
	r.check((b.PerMS == nil) != (b.Window == nil), "per_ms", "give per_ms or window, one of them")
	r.check(b.Timezone == "" || b.Window != nil, "timezone", "can only be used with window")
	whole(r, "burst", b.Burst, 1, MaxAmount)
	r.check(b.Burst == nil || b.PerMS != nil, "burst", "can only be used with per_ms")
	r.words("by", b.By, budgetBys)
	r.text("label", b.Label, &objectLabelText)
}

// Holds is the most that the budget ever has available.
func (b *BudgetRequest) Holds() int64 {
	if b.Burst != nil {
		return *b.Burst
	}
	return b.Amount
}

// Budget is a budget as it stands.
type Budget struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Amount   int64   `json:"amount"`
	PerMS    *int64  `json:"per_ms"`
	Window   *string `json:"window"`
	Timezone string  `json:"timezone"`
	Burst    *int64  `json:"burst"`
	By       *string `json:"by"`
	// Label names what the budget belongs to; null for none.
	Label *string `json:"label"`
	// Available is how much attempts may reserve now; below zero where more was used than reserved. Null for a budget by user or
	// key, of which no user or key is named.
	Available *int64 `json:"available"`
	// Reserved is what running jobs have reserved. Waiting are the jobs that wait for the budget; the count stops at 10000.
	Reserved int64 `json:"reserved"`
	Waiting  int64 `json:"waiting"`
	// ClosedUntil is until when the budget is closed, because a worker was told so; null for an open one.
	ClosedUntil *Time `json:"closed_until" swaggertype:"string" format:"date-time"`
	CreatedAt   Time  `json:"created_at" swaggertype:"string" format:"date-time"`
	UpdatedAt   Time  `json:"updated_at" swaggertype:"string" format:"date-time"`
}

// BudgetUsage is what attempts that started on a day (UTC) have used of a budget.
type BudgetUsage struct {
	// Day is YYYY-MM-DD.
	Day string `json:"day"`
	// Reserved is what they reserved when they started, Used what they have used: what was reported when they ended, or else
	// what was reserved. Overdrawn is the part of Used above what the attempt had reserved.
	Reserved  int64 `json:"reserved"`
	Used      int64 `json:"used"`
	Overdrawn int64 `json:"overdrawn"`
}

// BudgetUsages are the days of a budget that have any usage, in order.
type BudgetUsages struct {
	Budget string        `json:"budget"`
	Unit   string        `json:"unit"`
	Days   []BudgetUsage `json:"days"`
}

// Throttle says that a budget's destination refused an attempt.
type Throttle struct {
	// RetryAfterMS is for how long the budget is closed, for all jobs, in milliseconds.
	RetryAfterMS int64 `json:"retry_after_ms"`
}

func (t *Throttle) rules(r refusals) {
	r.millis("retry_after_ms", &t.RetryAfterMS, time.Millisecond, MaxDelay)
}

// amounts is for a map of amounts, each at least low.
func (r refusals) amounts(field string, amounts Amounts) {
	if r.rules != nil { // not r.rule, for which each submit would make the inner one
		r.rules[field] = Rule{MaxItems: MaxCosts, Each: &Rule{Max: MaxAmount}}
	}
	if len(amounts) == 0 {
		return
	}
	r.check(len(amounts) <= MaxCosts, field, "must have at most %d entries", MaxCosts)
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		r.check(ValidName(name), field, "%q is no name of a budget: it %s", name, NameRule)
		r.check(amounts[name] >= 0 && amounts[name] <= MaxAmount, field+"."+name, "must be between 0 and %s", decimal(MaxAmount))
	}
}

func (r refusals) throttle(throttle map[string]Throttle) {
	r.rule("throttle", Rule{MaxItems: MaxCosts})
	if len(throttle) == 0 {
		return
	}
	r.check(len(throttle) <= MaxCosts, "throttle", "must have at most %d entries", MaxCosts)
	for _, name := range slices.Sorted(maps.Keys(throttle)) {
		r.check(ValidName(name), "throttle", "%q is no name of a budget: it %s", name, NameRule)
		one := throttle[name]
		one.rules(r.in(fmt.Sprintf("throttle.%s.", name)))
	}
}
