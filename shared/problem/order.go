package problem

import (
	"cmp"
	"slices"
	"strings"
)

// FirstFields come first, in this order, where fields are listed: in the properties and examples of the API's document,
// and in errors. The others come after them, by name.
func FirstFields() []string {
	return []string{"id", "job_id", "name", "type", "queue", "state", "status", "worker_id", "tenant", "code", "title", "detail", "payload", "result", "items"}
}

// inOrder sorts errors as the document has the fields: a field comes before what is inside it, and the entries of a
// list by their number.
func inOrder(fields []FieldError) {
	if len(fields) < 2 {
		return
	}
	first := FirstFields()
	rank := func(name string) int {
		if at := slices.Index(first, name); at >= 0 {
			return at
		}
		return len(first)
	}
	slices.SortStableFunc(fields, func(one, other FieldError) int {
		a, b := one.Field, other.Field
		for a != "" && b != "" {
			var x, y string
			x, a, _ = strings.Cut(a, ".")
			y, b, _ = strings.Cut(b, ".")
			nameX, indexX, _ := strings.Cut(x, "[")
			nameY, indexY, _ := strings.Cut(y, "[")
			// A shorter index is a lower number.
			c := cmp.Or(rank(nameX)-rank(nameY), strings.Compare(nameX, nameY), len(indexX)-len(indexY), strings.Compare(indexX, indexY))
			if c != 0 {
				return c
			}
		}
		return len(a) - len(b)
	})
}
