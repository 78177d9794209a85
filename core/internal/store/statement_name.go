package store

import (
	"regexp"
	"strings"
)

// changesPattern finds what a statement changes: in our SQL each part begins a line.
var changesPattern = regexp.MustCompile(`(?m)^\s*(INSERT|UPDATE|DELETE)( INTO| FROM)? ([a-z_]+)`)

// statementName names a statement's span by what its last part changes, such as "UPDATE jobs", else
// by its first word: nearly all begin with WITH.
func statementName(sql string) string {
	if changes := changesPattern.FindAllStringSubmatch(sql, -1); len(changes) > 0 {
		last := changes[len(changes)-1]
		return last[1] + " " + last[3]
	}
	first, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToUpper(first)
}
