package forms

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
)

// AmountsText writes amounts of budgets as Amounts reads them: "cents=3, tokens=500"; empty for none.
func AmountsText(amounts api.Amounts) string {
	all := make([]string, 0, len(amounts))
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		all = append(all, name+"="+strconv.FormatInt(amounts[name], 10))
	}
	return strings.Join(all, ", ")
}

// Amounts reads amounts of budgets, with commas or lines between; none is nil.
func (f *Reader) Amounts(name string) api.Amounts {
	var amounts api.Amounts
	parts := strings.FieldsFunc(f.Values.Get(name), func(c rune) bool { return c == ',' || c == '\n' || c == '\r' })
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		budget, text, found := strings.Cut(part, "=")
		budget, text = strings.TrimSpace(budget), strings.TrimSpace(text)
		n, err := strconv.ParseInt(text, 10, 64)
		_, twice := amounts[budget]
		switch {
		case !found || budget == "":
			f.refuse(name, "%q is not budget=amount: write it such as tokens=1500, with a comma before the next one", part)
		case err != nil || !plainWhole.MatchString(text):
			f.refuse(name, "%q: the amount is not a whole number: write it with digits alone, such as tokens=1500", part)
		case twice:
			f.refuse(name, "%q is there twice: write one amount for each budget", budget)
		default:
			if amounts == nil {
				amounts = api.Amounts{}
			}
			amounts[budget] = n
		}
	}
	return amounts
}
