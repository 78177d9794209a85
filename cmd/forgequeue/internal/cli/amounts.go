package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Amounts reads amounts of budgets, given as BUDGET=N by a flag.
func Amounts(flag string, given []string) (api.Amounts, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // none were given
	}
	amounts := api.Amounts{}
	for _, one := range given {
		name, text, found := strings.Cut(one, "=")
		amount, err := strconv.ParseInt(text, 10, 64)
		if !found || name == "" || err != nil {
			return nil, Usage("--%s %q: must be BUDGET=N, such as openai=1200", flag, one)
		}
		amounts[name] = amount
	}
	return amounts, nil
}

// AmountTexts are amounts as Amounts reads them, by name.
func AmountTexts(amounts api.Amounts) []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		texts = append(texts, fmt.Sprintf("%s=%d", name, amounts[name]))
	}
	return texts
}
