//go:build mutant_limiter_read_then_write

package admission

import "strings"

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// Each bucket is charged as soon as it has been read, before the others were: a
// request that a later bucket refuses has paid the earlier ones.
// TestScriptIsItsModel and TestRefusedChargesNothing kill it.
func limiterScript() string {
	all := "local paid = passed * costs[i]"
	each := "  debts[i], rates[i], costs[i], beyond[i] = debt, rate, cost, more\n"
	if strings.Count(limiterLua, all) != 1 || strings.Count(limiterLua, each) != 1 {
		panic("the mutant does not fit limiter.lua any more")
	}
	return strings.NewReplacer(
		all, "local paid = 0",
		each, each+"  if charging and verdict == 0 and cost > 0 then\n    store(KEYS[hints + i], debt + cost, rate)\n  end\n",
	).Replace(limiterLua)
}
